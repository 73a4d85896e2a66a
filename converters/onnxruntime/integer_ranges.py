"""Which integers of a model may be large: ids, values, hashes, sums and products may be, sizes and positions are not.

Kernels of ONNX Runtime that are wrong on large integers are replaced only where there may be some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnx_sparse.models.graphs import attribute, subgraphs
from onnx_sparse.schemas import DOMAIN, OPS

#: Integers from here on are large.
_LARGE = 1 << 31

_REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare")

#: Operators whose results are positions or sizes, whatever they are given.
_POSITIONS = frozenset(("Shape", "Size", "NonZero", "ArgMax", "ArgMin", "Sign"))

#: The inputs whose elements the result has, of operators with other inputs.
_DATA_INPUTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Compress", "Slice", "Split", "Reshape", "Expand"), (0,)),
    **dict.fromkeys(("Tile", "Squeeze", "Unsqueeze", "TopK", "Unique", "CumSum", *_REDUCTIONS), (0,)),
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
    ("Add", "Sub", "Mul", "Pow", "Neg", "Abs", "CumSum", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare")
) | {"MatMul", "Einsum"}

#: Operators of bools, whose numbers are 0 and 1.
_MOVES = frozenset(("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Expand", "Gather", "Identity", "Flatten"))


@dataclass
class IntegerRanges:
    """What is known of the integer tensors of a model.

    Attributes:
        large: The tensors whose int64 may have more than 32 bits.
        sizes: The tensors of sizes, positions and constants.
        counted: The tensors of zeros and ones.
    """

    large: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)


def integer_ranges(model: ModelProto, positions: Collection[str] = ()) -> IntegerRanges:
    """Follow integers through a model, whose types must have been inferred.

    Args:
        model: The model.
        positions: Inputs whose integers are positions.
    """
    ranges = IntegerRanges()
    _Scope(model.graph, None, set(positions), ranges).follow()
    return ranges


class _Scope:
    """A graph, and what is known of the tensors that its nodes can see."""

    def __init__(self, graph: GraphProto, outer: _Scope | None, positions: set[str], found: IntegerRanges) -> None:
        self._graph = graph
        self._found = found
        self._types: dict[str, int] = dict(outer._types) if outer else {}
        for value in (*graph.input, *graph.output, *graph.value_info):
            self._types[value.name] = value.type.tensor_type.elem_type
        self._types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        self.large: set[str] = set(outer.large) if outer else set()
        self.large |= {tensor.name for tensor in graph.initializer if _holds_large(tensor)}
        self.large |= {v.name for v in graph.input if self._types[v.name] == TensorProto.INT64} - positions
        #: The tensors whose int64 have 32 bits.
        self._narrow: set[str] = set(outer._narrow) if outer else set()
        self._sizes: set[str] = (outer._sizes if outer else set()) | {t.name for t in graph.initializer} | positions
        self._counted: set[str] = set(outer._counted) if outer else set()

    def follow(self) -> None:
        """Follow the nodes in their order."""
        for node in self._graph.node:
            inner = [self._inner(body, node) for body in subgraphs(node)]
            results = self._large_results(node, inner)
            self._note(node)
            self.large.update(results)
        self._found.large |= self.large
        self._found.sizes |= self._sizes
        self._found.counted |= self._counted

    def _note(self, node: NodeProto) -> None:
        """Keep what is known of sizes, numbers of 32 bits, and zeros and ones."""
        if node.domain == "" and (node.op_type in _POSITIONS or self._sizes.issuperset(filter(None, node.input))):
            self._sizes.update(node.output)
        elif node.op_type == "Cast" and self._types.get(node.input[0]) == TensorProto.BOOL:
            self._counted.update(node.output)
        elif (node.op_type == "Cast" and attribute(node, "to") == TensorProto.INT64) or self._has_data_in(
            self._narrow, node
        ):
            self._narrow.update(node.output)
        if node.op_type in (*_MOVES, "Cast") and node.input and node.input[0] in self._counted:
            self._counted.update(node.output)

    def _inner(self, body: GraphProto, node: NodeProto) -> _Scope:
        has_data = not (self.large | self._narrow).isdisjoint(node.input)
        inner = _Scope(body, self, set() if has_data else {value.name for value in body.input}, self._found)
        inner.follow()
        return inner

    @staticmethod
    def _has_data_in(tensors: set[str], node: NodeProto) -> bool:
        """Whether one of the inputs whose elements the result has is among some tensors."""
        places = _DATA_INPUTS.get(node.op_type)
        inputs = node.input if places is None else [node.input[k] for k in places if k < len(node.input)]
        return not tensors.isdisjoint(inputs)

    def _large_results(self, node: NodeProto, inner: Sequence[_Scope]) -> Iterable[str]:
        """The results of a node that may have large integers."""
        if node.domain == DOMAIN:
            return self._large_results_of_domain(node)
        if node.op_type in ("Constant", "ConstantOfShape"):
            return list(node.output) if any(_holds_large(a.t) or abs(a.i) >= _LARGE for a in node.attribute) else ()
        if node.op_type == "LabelEncoder":
            values = attribute(node, "values_int64s") or ()
            return list(node.output) if any(abs(value) >= _LARGE for value in values) else ()
        if inner:
            made = any(not scope.large.isdisjoint(value.name for value in scope._graph.output) for scope in inner)
            return list(node.output) if made else ()
        if node.op_type in _POSITIONS:
            return ()
        if node.op_type == "Cast":
            is_large = self._types.get(node.input[0]) in _LARGE_TYPES or node.input[0] in self.large
            return list(node.output) if attribute(node, "to") == TensorProto.INT64 and is_large else ()
        given = self.large | self._narrow if node.op_type in _ARITHMETIC else self.large
        if not self._has_data_in(given, node) or self._types.get(node.output[0]) not in (None, TensorProto.INT64):
            return ()
        return list(node.output) if node.op_type == "Split" else list(node.output[:1])

    def _large_results_of_domain(self, node: NodeProto) -> Iterable[str]:
        """Those of the type variable of a large input, and what is parsed or hashed."""
        op = OPS[node.op_type]
        inputs = zip(op.inputs, node.input, strict=False)
        given = self.large | self._narrow if op.reduction in ("sum", "prod") else self.large
        variables = {declared.type for declared, name in inputs if name in given} & op.types.keys()
        for declared, name in zip(op.outputs, node.output, strict=False):
            if declared.type in variables or declared.holds_data:
                yield name


def _is_cast_to_int64(node: NodeProto) -> bool:
    return node.op_type == "Cast" and attribute(node, "to") == TensorProto.INT64


def _holds_large(tensor: TensorProto) -> bool:
    """Whether a constant has large integers; one whose data is elsewhere may have some."""
    if tensor.data_type != TensorProto.INT64:
        return False
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    values = numpy_helper.to_array(tensor)
    return bool(values.size and (values.max() >= _LARGE or values.min() < -_LARGE))
