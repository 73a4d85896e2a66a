"""Keeps a model from what ONNX Runtime gets wrong, also in sessions with its default optimizations.

- A reduction along a negative axis keeps that axis: the sum of a [0, 4] along -1 has shape [0, 4] there, not [0].
- A Reshape of an empty tensor to a shape with a 0 and a -1 fails if the sizes that are not 0 do not divide each other.
- A Split into a number of equal parts refuses a dimension of size 0; it takes explicit sizes.
- A Transpose before a MatMul is fused with it, and the fused operator fails, gives what is in memory, or ends the
  process if there is nothing to multiply. A Reshape that changes nothing between the two prevents that, unless
  sizes are known, where it is removed: zeros are written.
- A MatMul does not broadcast a batch of one matrix to none. If there is nothing to multiply, its result has the batch
  of the first operand, or what is in memory.
- A Gather of the elements of a Range becomes a Slice, in which an end of -1 is not before the first element.
- A Gather of slices of strings copies only the first string of each.
- An LSTM or GRU without rows, and a GRU without steps, ends the process; one row or step is added and taken off again.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnx_sparse.converters.graphs import subgraphs
from onnx_sparse.converters.rewriting.graph import attribute
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.node_writer import NodeWriter

#: Operators past which ONNX Runtime does not move a Transpose.
_NOT_PASSED = frozenset(
    ("Conv", "Einsum", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Gemm", "If", "Loop", "MatMul")
) | {"NonZero", "Reshape", "Scan", "ScatterElements", "ScatterND", "Shape", "Size"}

_Shape = list[int | None] | None


def guard(model: ModelProto) -> None:
    """Rewrite such nodes in place, unless shapes or constants tell that it is well. Shapes must have been inferred."""
    _Guard(model.graph, None).apply()


class _Guard(NodeWriter):
    """Writes a graph anew, node by node."""

    def __init__(self, graph: GraphProto, outer: _Guard | None) -> None:
        self._graph = graph
        self._root: GraphProto = outer._root if outer else graph
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = outer._constants if outer else {}
        self._shapes: dict[str, _Shape] = dict(outer._shapes) if outer else {}
        self._makers: dict[str, NodeProto] = dict(outer._makers) if outer else {}
        #: The tensors before which ONNX Runtime may put a Transpose.
        self._transposed: set[str] = set(outer._transposed) if outer else set()
        self._names: set[str] = outer._names if outer else set()
        #: The names of tensors of strings.
        self._strings: set[str] = set(outer._strings) if outer else set()
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.STRING:
                self._strings.add(value.name)
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        for tensor in graph.initializer:
            self._constants[tensor.name] = tensor
            self._shapes[tensor.name] = list(tensor.dims)
            if tensor.data_type == TensorProto.STRING:
                self._strings.add(tensor.name)
        self._names |= self._shapes.keys()

    def apply(self) -> None:
        """Write every node."""
        changed = False
        for node in self._graph.node:
            self._names |= set(node.output)
        for node in self._graph.node:
            before = len(self._nodes)
            if node.domain == "":
                if node.op_type.startswith(("Reduce", "Arg")):
                    self._count_axes_from_the_front(node)
                elif node.op_type == "Split" and len(node.input) < 2:
                    self._write_sizes(node)
                elif node.op_type == "Reshape":
                    self._infer_size(node)
                elif node.op_type == "MatMul" and not self._is_zero(node):
                    self._separate(node)
                elif node.op_type == "Gather":
                    self._keep_range(node)
                    self._gather_each_string(node)
            changed |= len(self._nodes) > before
            self._nodes.append(node)
            if node.domain == "" and node.op_type in ("LSTM", "GRU"):
                changed |= self._give_a_row(node)
            self._makers.update(dict.fromkeys(node.output, node))
            if node.op_type == "Transpose" or (
                node.domain == "" and node.op_type not in _NOT_PASSED and not self._transposed.isdisjoint(node.input)
            ):
                self._transposed.update(node.output)
            for body in subgraphs(node):
                _Guard(body, self).apply()
        if changed:
            nodes = [NodeProto.FromString(node.SerializeToString()) for node in self._nodes]
            del self._graph.node[:]
            self._graph.node.extend(nodes)

    def _count_axes_from_the_front(self, node: NodeProto) -> None:
        shape = self._shapes.get(node.input[0])
        rank = None if shape is None else len(shape)
        for given in node.attribute:
            if given.name == "axis" and given.i < 0 and rank is not None:
                given.i += rank
            elif given.name == "axes" and rank is not None:
                given.ints[:] = [axis % rank for axis in given.ints]
        if len(node.input) < 2 or not node.input[1]:
            return
        axes = self._value(node.input[1])
        if axes is not None and (axes >= 0).all():
            return
        if axes is not None and rank is not None:
            node.input[1] = self._constant(axes % rank)
        else:
            sizes = self._emit("Shape", [node.input[0]])
            node.input[1] = self._emit("Mod", [node.input[1], self._emit("Shape", [sizes])])

    def _write_sizes(self, node: NodeProto) -> None:
        """Write the sizes of equal parts."""
        axis, count = attribute(node, "axis", 0), len(node.output)
        shape = self._shapes.get(node.input[0])
        size = shape[axis] if shape is not None else None
        if size is not None and size > 0:
            return
        for k in reversed(range(len(node.attribute))):
            if node.attribute[k].name == "num_outputs":
                del node.attribute[k]
        if size == 0:
            node.input.append(self._constant(np.zeros(count, np.int64)))
            return
        place, number = self._constant(np.array([axis])), self._constant(np.array([count]))
        total = self._emit("Gather", [self._emit("Shape", [node.input[0]]), place])
        node.input.append(self._emit("Expand", [self._emit("Div", [total, number]), number]))

    def _is_zero(self, node: NodeProto) -> bool:
        """Write zeros if it is known that there is nothing to multiply."""
        one, other = (self._shapes.get(name) or [] for name in node.input)
        if len(one) < 2 or len(other) < 2 or 0 not in (one[-1], other[-2]):
            return False
        sums = self._emit("ReduceSum", [node.input[0], self._constant(np.array([len(one) - 1]))], keepdims=1)
        sizes = self._emit("Shape", [node.input[1]])
        rank, row, column = (self._constant(np.array([k])) for k in (len(other), -2, -1))
        batch = self._emit("Slice", [sizes, self._constant(np.array([0])), row])
        columns = self._emit("Slice", [sizes, column, rank])
        shape = self._emit("Concat", [batch, self._constant(np.array([1])), columns], axis=0)
        node.op_type = "Expand"
        node.input[:] = [sums, shape]
        return True

    def _infer_size(self, node: NodeProto) -> None:
        """Compute the size that a -1 stands for where another size is 0: the sizes that are not 0, divided."""
        maker = self._makers.get(self._uncast(node.input[1]))
        if not attribute(node, "allowzero", 0) or maker is None or maker.op_type != "Concat":
            return
        values = [self._value(name) for name in maker.input]
        known = [size for value in values if value is not None for size in value.tolist()]
        divisor = math.prod(size for size in known if size > 0)
        if -1 not in known or math.prod(filter(None, self._shapes.get(node.input[0]) or ())) % divisor == 0:
            return
        target, one, zero = node.input[1], self._constant(np.array(1)), self._constant(np.array(0))
        counts = [
            self._emit("ReduceProd", [self._emit("Max", [sizes, one])], keepdims=0)
            for sizes in (self._emit("Shape", [node.input[0]]), target)
        ]
        has_zero = self._emit("Equal", [self._emit("ReduceProd", [target], keepdims=0), zero])
        is_open = self._emit("Equal", [target, self._constant(np.array(-1))])
        inferred = self._emit("And", [is_open, has_zero])
        node.input[1] = self._emit("Where", [inferred, self._emit("Div", counts), target])

    def _separate(self, node: NodeProto) -> None:
        shapes = [self._shapes.get(name) for name in node.input]
        if not all(shape is not None and all(shape) for shape in shapes):
            for k, name in enumerate(node.input):
                shape, maker = shapes[k], self._makers.get(name)
                order = attribute(maker, "perm") if maker is not None and maker.op_type == "Transpose" else None
                known = order or shape
                if known and name in self._transposed and (order is None or _is_fused(order)):
                    node.input[k] = self._emit("Reshape", [name, self._constant(np.zeros(len(known), np.int64))])
        one, other = shapes
        if one is None or other is None or min(len(one), len(other)) < 2:
            return
        rank = max(len(one), len(other))
        ones: list[int | None] = [1] * rank
        first, second = (ones[len(shape) :] + shape[:-2] for shape in (one, other))
        if len(one) > 2 and any(a == 1 and not b for a, b in zip(first, second, strict=True)):
            self._spread(node, 0)
        elif not one[-1] and not other[-2] and any(a == 1 and b != 1 for a, b in zip(first, second, strict=True)):
            self._share_batch(node, rank - len(one))
        if len(other) > 2 and any(b == 1 and not a for a, b in zip(first, second, strict=True)):
            self._spread(node, 1)

    def _keep_range(self, node: NodeProto) -> None:
        maker = self._makers.get(self._uncast(node.input[1]))
        step = self._value(maker.input[2]) if maker is not None and maker.op_type == "Range" else np.array(1)
        if step is None or step < 0:
            node.input[1] = self._emit("Reshape", [node.input[1], self._constant(np.array([-1]))])

    def _gather_each_string(self, node: NodeProto) -> None:
        """Gather the positions of the strings, and then the strings by these."""
        given, axis = node.input[0], attribute(node, "axis", 0)
        shape = self._shapes.get(given)
        if given not in self._strings or (shape is not None and axis in (-1, len(shape) - 1)):
            return
        zero, one = (self._constant(np.array(number)) for number in (0, 1))
        numbers = self._emit("Range", [zero, self._emit("Size", [given]), one])
        numbers = self._emit("Reshape", [numbers, self._emit("Shape", [given])], allowzero=1)
        node.input[1] = self._emit("Gather", [numbers, node.input[1]], axis=axis)
        node.input[0] = self._emit("Reshape", [given, self._constant(np.array([-1]))])
        del node.attribute[:]

    def _give_a_row(self, node: NodeProto) -> bool:
        """Add a step and a row where a recurrent layer has none, and take them off its outputs."""
        shape = self._shapes.get(node.input[0])
        if attribute(node, "layout", 0) or (shape is not None and all(shape[:2])):
            return False
        self._nodes.pop()
        zeros = [self._constant(np.zeros(count, np.int64)) for count in range(1, 5)]
        axis_0, axis_1, past_rows = zeros[0], *(self._constant(np.array([k])) for k in (1, 2))
        sizes = self._emit("Slice", [self._emit("Shape", [node.input[0]]), axis_0, past_rows])
        missing = self._emit("Cast", [self._emit("Equal", [sizes, axis_0])], to=TensorProto.INT64)
        rows, row = (self._emit("Slice", [counts, axis_1, past_rows]) for counts in (sizes, missing))
        given = dict(enumerate(node.input))  # 4: lengths [rows]; 5, 6: the states [directions, rows, units]
        of_state = [zeros[3], row, axis_0]
        ends = {0: [zeros[2], missing, axis_0], 4: [axis_0, row], 5: of_state, 6: of_state}
        for k, parts in ends.items():
            if given.get(k):
                node.input[k] = self._emit("Pad", [given[k], self._emit("Concat", parts, axis=0)])
        self._nodes.append(node)
        for k, output in enumerate(node.output):
            if not output:
                continue
            node.output[k] = self._fresh(f"{output}/padded")
            if k == 0:
                places = self._constant(np.array([0, 2]))
                self._emit("Slice", [node.output[k], zeros[1], sizes, places], output=output)
                continue
            has_steps = bool(shape and shape[0])
            state = self._emit("Slice", [node.output[k], axis_0, rows, axis_1], output=output if has_steps else "")
            if not has_steps:  # the state is what it was
                no_steps = self._emit("Equal", [self._emit("Slice", [sizes, axis_0, axis_1]), axis_0])
                before = given.get(4 + k) or self._emit("Sub", [state, state])
                self._emit("Where", [no_steps, before, state], output=output)
        return True

    def _spread(self, node: NodeProto, position: int) -> None:
        """Broadcast the batch of one operand to that of the other."""
        first, past = self._constant(np.array([0])), self._constant(np.array([-2]))
        batch = self._emit("Slice", [self._emit("Shape", [node.input[1 - position]]), first, past])
        ones = self._constant(np.array([1, 1]))
        target = self._emit("Concat", [batch, ones], axis=0)
        node.input[position] = self._emit("Expand", [node.input[position], target])

    def _share_batch(self, node: NodeProto, missing: int) -> None:
        """Give the first operand the batch of both, but only where it has no elements: nothing is copied."""
        given, zero, last = node.input[0], self._constant(np.array([0])), self._constant(np.array([-1]))
        batch = self._emit("Slice", [self._emit("Shape", [node.input[1]]), zero, self._constant(np.array([-2]))])
        target = self._emit("Concat", [batch, self._constant(np.array([1, 1]))], axis=0)
        nothing = self._emit("Expand", [self._emit("Slice", [given, zero, zero, last]), target])
        sizes = self._emit("Shape", [given])
        own = sizes
        if missing:
            own = self._emit("Concat", [self._constant(np.ones(missing, np.int64)), sizes], axis=0)
        is_empty = self._emit("Equal", [self._emit("Gather", [sizes, last]), zero])
        shape = self._emit("Where", [is_empty, self._emit("Shape", [nothing]), own])
        node.input[0] = self._emit("Reshape", [given, shape], allowzero=1)

    def _uncast(self, name: str) -> str:
        """The tensor before casts, which ONNX Runtime may move or remove."""
        maker = self._makers.get(name)
        return self._uncast(maker.input[0]) if maker is not None and maker.op_type == "Cast" else name

    def _value(self, name: str) -> Array | None:
        return numpy_helper.to_array(self._constants[name]) if name in self._constants else None

    def _constant(self, array: Array) -> str:
        name = f"shape/{'_'.join(map(str, array))}" if array.ndim else f"number/{array}"
        if name not in self._constants:
            self._root.initializer.append(numpy_helper.from_array(array, name))
            self._constants[name] = self._root.initializer[-1]
        return name


def _is_fused(order: list[int]) -> bool:
    """Whether ONNX Runtime fuses a Transpose with a MatMul: of matrices, with their batch or its first dimension."""
    rank = len(order)
    if order[:-2] == [*range(rank - 2)]:
        return True
    return order in ([*range(1, rank - 1), 0, rank - 1], [*range(1, rank), 0])
