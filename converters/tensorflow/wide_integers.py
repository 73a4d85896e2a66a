"""Keeps int64 beyond 32 bits right, also in ONNX Runtime.

- Its Max, Min, Clip, Relu, Sign, ReduceMax and ReduceMin compare the lower halves of equal upper halves as if they were
  signed: of 3000000000 and 5, the larger is 5.
- Its ReduceSum adds as doubles, which have 53 bits.

Sizes and positions are smaller than that, and so are numbers of 32 bits until something is computed with them; only
what may be larger (ids, values, hashes, sums, products) is written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.graphs import graphs, subgraphs
from onnx_sparse.converters.rewriting.graph import attribute
from onnx_sparse.converters.tensorflow.node_writer import NodeWriter
from onnx_sparse.schemas import DOMAIN, OPS

#: Integers from here on are compared wrongly.
_WIDE = 1 << 31

_REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum")
_REWRITTEN = frozenset(("Max", "Min", "Clip", "Relu", "Sign", *_REDUCTIONS))

#: Operators whose results are positions or sizes, whatever they are given.
_POSITIONS = frozenset(("Shape", "Size", "NonZero", "ArgMax", "ArgMin", "Sign"))

#: The inputs whose elements the result has, of operators with other inputs.
_DATA_INPUTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Compress", "Slice", "Split", "Reshape", "Expand"), (0,)),
    **dict.fromkeys(("Tile", "Squeeze", "Unsqueeze", "TopK", "Unique", "CumSum", *_REDUCTIONS, "ReduceProd"), (0,)),
    **dict.fromkeys(("Pad", "ScatterND", "ScatterElements"), (0, 2)),
    "Where": (1, 2),
    "OneHot": (2,),
}

#: The element types that int64 does not hold in 32 bits.
_LARGE_TYPES = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.UINT32, TensorProto.UINT64, TensorProto.STRING)
)

#: Operators whose results have more bits than the numbers that they are given.
_ARITHMETIC = frozenset(
    ("Add", "Sub", "Mul", "Pow", "Neg", "Abs", "CumSum", "ReduceSum", "ReduceProd", "MatMul", "Einsum")
)

#: Reductions and comparisons of numbers of so many bits are right.
_PART_BITS = 21


def keep_wide_integers(model: ModelProto, positions: Collection[str]) -> None:
    """Write such nodes anew, in place. Types must have been inferred.

    Args:
        model: The model.
        positions: Inputs whose integers are positions.
    """
    _Graph(model.graph, None, set(positions)).apply()


class _Graph(NodeWriter):
    """Writes a graph anew, node by node.

    Args:
        graph: The graph.
        outer: The graph that it is in.
        positions: The inputs whose integers are positions.

    Attributes:
        wide: The tensors whose int64 may be large.
        narrow: The tensors whose int64 have 32 bits.
        sizes: The tensors of sizes, positions and constants.
    """

    def __init__(self, graph: GraphProto, outer: _Graph | None, positions: set[str]) -> None:
        self._graph = graph
        self._nodes: list[NodeProto] = []
        self._types: dict[str, int] = dict(outer._types) if outer else {}
        self._constants: dict[str, TensorProto] = dict(outer._constants) if outer else {}
        for value in (*graph.input, *graph.output, *graph.value_info):
            self._types[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            self._types[tensor.name] = tensor.data_type
            self._constants[tensor.name] = tensor
        self._names: set[str] = outer._names if outer else {n for g in graphs(graph) for o in g.node for n in o.output}
        self._names |= self._types.keys()
        self.wide: set[str] = set(outer.wide) if outer else set()
        self.wide |= {tensor.name for tensor in graph.initializer if _holds_wide(tensor)}
        self.wide |= {v.name for v in graph.input if self._types[v.name] == TensorProto.INT64} - positions
        self.narrow: set[str] = set(outer.narrow) if outer else set()
        self.sizes: set[str] = (outer.sizes if outer else set()) | self._constants.keys() | positions

    def apply(self) -> None:
        """Write every node."""
        changed = False
        for node in self._graph.node:
            inner = [self._written(body, node) for body in subgraphs(node)]
            results = self._wide_results(node, inner)
            self._follow(node)
            if node.domain == "" and node.op_type in _REWRITTEN and self._has_data_in(self.wide, node):
                self._write(node)
                changed = True
            else:
                self._nodes.append(node)
            self.wide.update(results)
        if changed:
            nodes = [NodeProto.FromString(node.SerializeToString()) for node in self._nodes]
            del self._graph.node[:]
            self._graph.node.extend(nodes)

    def _follow(self, node: NodeProto) -> None:
        """Keep what is known of sizes and numbers of 32 bits."""
        if node.domain == "" and (node.op_type in _POSITIONS or self.sizes.issuperset(filter(None, node.input))):
            self.sizes.update(node.output)
        elif node.op_type == "Cast" and attribute(node, "to") == TensorProto.INT64:
            if self._types.get(node.input[0]) != TensorProto.BOOL:
                self.narrow.update(node.output)
        elif self._has_data_in(self.narrow, node):
            self.narrow.update(node.output)

    def _written(self, body: GraphProto, node: NodeProto) -> _Graph:
        has_data = not (self.wide | self.narrow).isdisjoint(node.input)
        inner = _Graph(body, self, set() if has_data else {value.name for value in body.input})
        inner.apply()
        return inner

    @staticmethod
    def _has_data_in(tensors: set[str], node: NodeProto) -> bool:
        """Whether one of the inputs whose elements the result has is among some tensors."""
        places = _DATA_INPUTS.get(node.op_type)
        inputs = node.input if places is None else [node.input[k] for k in places if k < len(node.input)]
        return not tensors.isdisjoint(inputs)

    def _wide_results(self, node: NodeProto, inner: Sequence[_Graph]) -> Iterable[str]:
        """The results of a node that may have large integers."""
        if node.domain == DOMAIN:
            return self._wide_results_of_domain(node)
        if node.op_type in ("Constant", "ConstantOfShape"):
            return list(node.output) if any(_holds_wide(a.t) or abs(a.i) >= _WIDE for a in node.attribute) else ()
        if node.op_type == "LabelEncoder":
            values = attribute(node, "values_int64s") or ()
            return list(node.output) if any(abs(value) >= _WIDE for value in values) else ()
        if inner:
            made = any(not graph.wide.isdisjoint(value.name for value in graph._graph.output) for graph in inner)
            return list(node.output) if made else ()
        if node.op_type in _POSITIONS:
            return ()
        if node.op_type == "Cast":
            is_large = self._types.get(node.input[0]) in _LARGE_TYPES or node.input[0] in self.wide
            return list(node.output) if attribute(node, "to") == TensorProto.INT64 and is_large else ()
        given = self.wide | self.narrow if node.op_type in _ARITHMETIC else self.wide
        if not self._has_data_in(given, node) or self._types.get(node.output[0]) not in (None, TensorProto.INT64):
            return ()
        return list(node.output) if node.op_type == "Split" else list(node.output[:1])

    def _wide_results_of_domain(self, node: NodeProto) -> Iterable[str]:
        """Those of the type variable of a wide input, and what is parsed or hashed."""
        op = OPS[node.op_type]
        inputs = zip(op.inputs, node.input, strict=False)
        given = self.wide | self.narrow if op.name.endswith(("Sum", "Prod")) else self.wide
        variables = {declared.type for declared, name in inputs if name in given} & op.types.keys()
        for declared, name in zip(op.outputs, node.output, strict=False):
            if declared.type in variables or declared.name == "int64_values" or op.name.startswith("StringToHash"):
                yield name

    # --- Writing ------------------------------------------------------------------------------------------------------

    def _write(self, node: NodeProto) -> None:
        output, data = node.output[0], list(node.input)
        if node.op_type in ("Max", "Min"):
            chosen = data[0]
            for k, other in enumerate(data[1:], 2):
                chosen = self._greater(node.op_type, chosen, other, output if k == len(data) else "")
            if len(data) == 1:
                self._emit("Identity", data, output)
        elif node.op_type == "Clip":
            bounds = [(op, name) for op, name in zip(("Max", "Min"), data[1:], strict=False) if name]
            for k, (op, bound) in enumerate(bounds, 1):
                data[0] = self._greater(op, data[0], bound, output if k == len(bounds) else "")
            if not bounds:
                self._emit("Identity", data[:1], output)
        elif node.op_type == "Relu":
            self._greater("Max", data[0], self._constant(0), output)
        elif node.op_type == "Sign":
            zero = self._constant(0)
            signs = [self._emit("Cast", [self._emit(op, [data[0], zero])], to=7) for op in ("Greater", "Less")]
            self._emit("Sub", signs, output)
        elif node.op_type == "ReduceSum":
            self._sum(node)
        else:
            self._extreme(node)

    def _greater(self, op_type: str, one: str, other: str, output: str) -> str:
        is_first = self._emit("GreaterOrEqual" if op_type == "Max" else "LessOrEqual", [one, other])
        return self._emit("Where", [is_first, one, other], output)

    def _parts(self, data: str) -> list[str]:
        """The parts of an integer, each of 21 bits, the highest first, which has the sign."""
        mask, base = self._constant((1 << _PART_BITS) - 1), self._constant(1 << _PART_BITS)
        parts = []
        for _ in range(2):
            parts.append(self._emit("BitwiseAnd", [data, mask]))
            data = self._emit("Div", [self._emit("Sub", [data, parts[-1]]), base])
        return [data, *reversed(parts)]

    def _joined(self, parts: Sequence[str], output: str) -> str:
        base, total = self._constant(1 << _PART_BITS), parts[0]
        for k, part in enumerate(parts[1:], 2):
            scaled = self._emit("Mul", [total, base])
            total = self._emit("Add", [scaled, part], output if k == len(parts) else "")
        return total

    def _sum(self, node: NodeProto) -> None:
        """Sums of fewer than 2^32 parts are exact."""
        sums = [self._reduced("ReduceSum", part, node) for part in self._parts(node.input[0])]
        self._joined(sums, node.output[0])

    def _extreme(self, node: NodeProto) -> None:
        """The extreme of the highest part, then of the next among those that have it, and so on."""
        axes = self._constants.get(node.input[1]) if len(node.input) > 1 else None
        if axes is not None and not axes.dims[0] and attribute(node, "noop_with_empty_axes", 0):
            self._emit("Identity", node.input[:1], node.output[0])
            return
        least = node.op_type == "ReduceMin"
        beyond = self._constant(1 << _PART_BITS if least else -1)
        found: list[str] = []
        is_left = ""
        for part in self._parts(node.input[0]):
            compared = self._emit("Where", [is_left, part, beyond]) if is_left else part
            found.append(self._reduced(node.op_type, compared, node, keepdims=1))
            is_left = self._emit("Equal", [compared, found[-1]])
        # Of nothing, the first part is the least or largest int64, and so is the result.
        nothing = self._constant(np.iinfo(np.int64).max if least else np.iinfo(np.int64).min)
        is_nothing = self._emit("Equal", [found[0], nothing])
        result = [is_nothing, nothing, self._joined(found, "")]
        if attribute(node, "keepdims", 1):
            self._emit("Where", result, node.output[0])
        elif len(node.input) > 1 and node.input[1]:
            self._emit("Squeeze", [self._emit("Where", result), node.input[1]], node.output[0])
        else:
            self._emit("Reshape", [self._emit("Where", result), self._initializer([], "wide/scalar")], node.output[0])

    def _reduced(self, op_type: str, data: str, node: NodeProto, **changed: int) -> str:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute} | changed
        return self._emit(op_type, [data, *node.input[1:]], **attributes)

    def _constant(self, number: int) -> str:
        return self._initializer(number, f"wide/{number}")

    def _initializer(self, value: int | list[int], name: str) -> str:
        if name not in self._constants:
            self._graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
            self._constants[name] = self._graph.initializer[-1]
        return name


def _holds_wide(tensor: TensorProto) -> bool:
    """Whether a constant has integers that are compared wrongly."""
    if tensor.data_type != TensorProto.INT64:
        return False
    values = numpy_helper.to_array(tensor)
    return bool(values.size and (values.max() >= _WIDE or values.min() < -_WIDE))
