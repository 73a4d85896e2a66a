"""Tensors without elements: shapes that are wrong, sizes that are refused, and means of nothing."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard, may_be_empty
from onnx_sparse.converters.onnxruntime.moved_axes import from_front, to_front
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.sizes import (
    Size,
    measured,
    product_of,
    quotient,
    shape_sizes,
    size_of,
    sizes,
    written_size,
)
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import FLOATS

_NODE = helper.make_node
_NONE = np.zeros((0, 4), np.float32)


class NegativeAxes(Guard):
    """A reduction along a negative axis keeps that axis: the sum of a [0, 4] along -1 has shape [0, 4], not [0].

    Axes are counted from the front.
    """

    name = "negative axes"
    anchors = (
        *(f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp")),
        *("ReduceSumSquare", "ArgMax", "ArgMin"),
    )
    seen, effect = ("1.21", "1.31"), "wrong result"
    example = one_node("ReduceSum", _NONE, axes=[-1], keepdims=0, expected=np.zeros(0, np.float32))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Axes that may be negative, of what may be empty."""
        if not may_be_empty(graph, node.input[0]) or graph.rank(node.input[0]) == 0:
            return False
        if len(node.input) > 1 and node.input[1]:
            axes = graph.integers(node.input[1])
            return axes is None or min(axes, default=0) < 0
        given = attribute(node, "axis" if node.op_type.startswith("Arg") else "axes")
        rank = graph.rank(node.input[0])
        return given is not None and rank is not None and np.min(given, initial=0) < 0

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Count them from the front."""
        emit, rank = graph.emitter(node), graph.rank(node.input[0])
        if len(node.input) > 1 and node.input[1]:
            axes = graph.integers(node.input[1])
            if axes is not None and rank is not None:
                counted = emit.constant([axis % rank for axis in axes])
            else:
                ranks = emit.op("Shape", emit.op("Shape", graph.tensor(node.input[0])))
                some = emit.op("Max", ranks, emit.constant(1))  # a scalar has no axes, and 0 divides nothing
                counted = emit.op("Mod", graph.tensor(node.input[1]), some)
            graph.set_input(node, 1, counted.name)
            return
        assert rank is not None
        for given in node.attribute:
            if given.name == "axis":
                given.i %= rank
            elif given.name == "axes":
                given.ints[:] = [axis % rank for axis in given.ints]


class MeanOfNothing(Guard):
    """The mean of no floats is 0 instead of NaN.

    A Where selects NaN if there are no elements.
    """

    name = "mean of nothing"
    anchors = ("ReduceMean",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("ReduceMean", _NONE, axes=[0], keepdims=0, expected=np.full(4, np.nan, np.float32))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats of which a reduced dimension may have no size."""
        shape, axes = graph.shape(node.input[0]), attribute(node, "axes")
        if graph.dtype(node.input[0]) not in (0, *FLOATS):
            return False
        if len(node.input) > 1 and node.input[1]:
            axes = graph.integers(node.input[1])
            if axes is None:
                return True
        if shape is None:
            return True
        if axes is not None and not len(axes) and attribute(node, "noop_with_empty_axes", 0):
            return False
        reduced = range(len(shape)) if axes is None or not len(axes) else axes
        return not all(shape[axis] for axis in reduced)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Add 0 divided by the number of elements of the data, or by 1 if the mean has none itself."""
        emit = graph.emitter(node)
        data = graph.tensor(node.input[0])
        mean = emit.node("ReduceMean", [graph.tensor(name) for name in node.input], [data.dtype], **attributes(node))[0]
        is_nothing = emit.op("Equal", emit.op("Size", data, shape=()), emit.constant(0))
        graph.replace(node, "Where", [is_nothing, emit.like(np.nan, mean), mean])


def _as_numbers(own: list[Size], new: list[Size]) -> list[int] | None:
    """The sizes of a new shape as numbers, of which a 0 is the data's own size; None if there are others."""
    is_own = [own[place : place + 1] == [size] for place, size in enumerate(new)]
    numbers = [0 if symbols else number for number, symbols in new]
    return numbers if all(number > 0 or known for number, known in zip(numbers, is_own, strict=True)) else None


class InferredSize(Guard):
    """A Reshape of an empty tensor to a shape with a 0 and a -1 fails.

    The size for -1 is what the others leave of the tensor's own, or is computed from those that are not 0, as in
    TensorFlow.
    """

    name = "size to be inferred"
    anchors = ("Reshape",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = of_nodes(
        [_NODE("Reshape", ["x", "target"], ["y"])],
        {"x": np.zeros((0, 6), np.float32)},
        np.zeros((0, 3, 2), np.float32),
        constants={"target": [0, 3, -1]},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A size to be inferred beside one that may be 0; an input may ask for any."""
        own, target = graph.shape(node.input[0]) or (), self._target(graph, node)
        if target is None and self._origin(graph, node.input[1]) in {value.name for value in graph.proto.input}:
            return may_be_empty(graph, node.input[0])
        if target is None or -1 not in target or not may_be_empty(graph, node.input[0]):
            return False
        copies = not attribute(node, "allowzero", 0)
        # A size that is not known is positive, or 0, which may stand for the tensor's own.
        return any(not size and not (copies and place < len(own) and own[place]) for place, size in enumerate(target))

    @staticmethod
    def _origin(graph: Graph, name: str) -> str:
        """What a vector is made from that stays the same."""
        name = graph.without_casts(name)
        while (copy := graph.producer(name, "Reshape", "Identity")) is not None and graph.rank(copy.input[0]) == 1:
            name = graph.without_casts(copy.input[0])
        return name

    @staticmethod
    def _target(graph: Graph, node: NodeProto) -> list[int | None] | None:
        """The sizes of the new shape that are known; None unless the parts of it are."""
        symbolic = sizes(graph, node.input[1])
        if symbolic is not None and all(measured(symbol) for _, symbols in symbolic for symbol in symbols):
            return [None if symbols else number for number, symbols in symbolic]
        maker = graph.producer(InferredSize._origin(graph, node.input[1]), "Concat")
        if maker is None:
            return None
        target: list[int | None] = []
        for name in maker.input:
            part = graph.integers(name)
            if part is not None:
                target += part
            else:
                shape = graph.shape(name)
                target += [None] * (shape[0] if shape and shape[0] is not None else 1)
        return target

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Write what the other sizes leave of the data's, where that is known by number or symbol; else compute it."""
        emit = graph.emitter(node)
        data, target = graph.tensor(node.input[0]), graph.tensor(node.input[1])
        stated = None if attribute(node, "allowzero", 0) else self._stated(graph, emit, data, target)
        if stated is not None:
            is_copy = stated.value is not None and 0 in stated.value
            graph.replace(node, "Reshape", [data, stated], allowzero=int(not is_copy))
            return
        one, zero, all_axes = emit.constant([1]), emit.constant([0]), emit.constant([0])
        shape = emit.shape_of(data)
        new = target
        if not attribute(node, "allowzero", 0) and (target.value is None or 0 in target.value):
            new = emit.op("Where", emit.op("Equal", target, zero), self._own_sizes(emit, shape, target), target)
        products = [
            emit.op("ReduceProd", emit.op("Where", emit.op("Greater", given, zero), given, one), all_axes, keepdims=1)
            for given in (shape, new)
        ]
        has_zero = emit.op("Equal", emit.op("ReduceProd", new, all_axes, keepdims=1), zero)
        is_inferred = emit.op("And", emit.op("Equal", new, emit.constant([-1])), has_zero)
        new = emit.op("Where", is_inferred, emit.op("Div", *products), new)
        graph.replace(node, "Reshape", [data, new], allowzero=1)

    @staticmethod
    def _own_sizes(emit: Emitter, shape: Tensor, target: Tensor) -> Tensor:
        """The data's own size at each place of the new shape, 0 beyond the last."""
        zero, count = emit.constant([0]), emit.op("Shape", target)
        rank, length = (vector.shape[0] if vector.shape else None for vector in (shape, target))
        if rank is not None and rank == length:
            return shape
        own = emit.op("Slice", shape, zero, count)
        if rank is not None and length is not None and rank > length:
            return own
        missing = emit.op("Sub", count, emit.op("Shape", own))
        return emit.op("Concat", own, emit.op("Expand", zero, missing), axis=0)

    @staticmethod
    def _stated(graph: Graph, emit: Emitter, data: Tensor, target: Tensor) -> Tensor | None:
        """The new shape with what the others leave in place of the -1: numbers, where a 0 is the data's own size, or
        else without zeros that stand for others.

        None where sizes are not known by number or symbol, or may be 0 where the data's own size is not.
        """
        own, given = shape_sizes(graph, data.name), sizes(graph, target.name)
        if own is None or given is None or given.count(size_of(-1)) != 1:
            return None
        place = given.index(size_of(-1))
        new = [own[k] if size == size_of(0) and k < len(own) else size for k, size in enumerate(given)]
        left = quotient(product_of(own), product_of([*new[:place], *new[place + 1 :]]))
        if left is None:
            return None
        new[place] = left
        numbers = _as_numbers(own, new)
        if numbers is not None:
            return emit.constant(numbers)
        new[place] = size_of(1)
        for (number, symbols), (_, of_data), before in zip_longest(new, own[: len(new)], given, fillvalue=size_of(1)):
            if before == size_of(0) or number <= 0 or not {*symbols} <= {*of_data} or not all(map(measured, symbols)):
                return None
        inferred = written_size(graph, emit, left)
        return emit.op("Where", emit.op("Equal", target, emit.constant([-1])), inferred, target)


class JoinedSizes(Guard):
    """For one size that is joined with others by a Concat, ONNX Runtime writes a -1, with which a Reshape of an empty
    tensor fails if another size is 0.

    Sizes of the tensor itself become zeros, which stand for them, or a Reshape without effect separates the two.
    """

    name = "joined sizes"
    anchors = ("Reshape",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = of_nodes(
        [
            _NODE("Shape", ["x"], ["s"]),
            _NODE("Gather", ["s", "last"], ["l"]),
            _NODE("ReduceProd", ["l"], ["p"]),
            _NODE("Concat", ["rows", "p"], ["target"], axis=0),
            _NODE("Reshape", ["x", "target"], ["y"]),
        ],
        {"x": np.zeros((0, 3, 2), np.float32)},
        np.zeros((0, 6), np.float32),
        constants={"last": [1, 2], "rows": [0]},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """One size that is not the tensor's own, or else any, beside one that may be 0."""
        joined = graph.producer(node.input[1], "Concat")
        own, given = shape_sizes(graph, node.input[0]) or [], sizes(graph, node.input[1]) or []
        if joined is None or attribute(node, "allowzero", 0) or not may_be_empty(graph, node.input[0]):
            return False
        if len(joined.input) != len(given) or size_of(-1) in given:
            return False
        computed = [place for place, name in enumerate(joined.input) if graph.integers(name) is None]
        others = [place for place in computed if own[place : place + 1] != [given[place]]]
        may_be_zero = [
            place
            for place, size in enumerate(given)
            if not any(number > 0 and not symbols for number, symbols in (size, *own[place : place + 1]))
        ]
        return len(others) <= 1 and any(place != other for place in others or computed for other in may_be_zero)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Write a constant, if the sizes are known or the tensor's own, or separate the two."""
        emit, own = graph.emitter(node), shape_sizes(graph, node.input[0]) or []
        given = enumerate(sizes(graph, node.input[1]) or [])
        numbers = _as_numbers(own, [own[k] if size == size_of(0) and k < len(own) else size for k, size in given])
        target = graph.tensor(node.input[1])
        stated = emit.constant(numbers) if numbers is not None else emit.op("Reshape", target, emit.constant([-1]))
        graph.set_input(node, 1, stated.name)


class EqualParts(Guard):
    """A Split into a number of parts refuses a dimension of size 0.

    The Split gets explicit sizes.
    """

    name = "equal parts"
    anchors = ("Split",)
    seen, effect = ("1.21", "1.31"), "refused"
    example = of_nodes([_NODE("Split", ["x"], ["y", "z"], num_outputs=2)], {"x": _NONE}, _NONE)

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A split without sizes of a dimension that may be 0."""
        if len(node.input) > 1 or attribute(node, "split"):
            return False
        shape = graph.shape(node.input[0])
        return shape is None or not shape[attribute(node, "axis", 0)]

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Write the sizes: all parts have that of the first one, but perhaps the last."""
        emit, axis, count = graph.emitter(node), attribute(node, "axis", 0), len(node.output)
        total = emit.op("Gather", emit.shape_of(graph.tensor(node.input[0])), emit.constant([axis]))
        number, one = emit.constant([count]), emit.constant([1])
        if graph.opset < 18:  # parts of one size, or none
            graph.replace(
                node, "Split", [node.input[0], emit.op("Expand", emit.op("Div", total, number), number)], axis=axis
            )
            return
        first = emit.op("Div", emit.op("Sub", emit.op("Add", total, number), one), number)
        before = emit.op("Expand", first, emit.constant([count - 1]))
        last = emit.op("Sub", total, emit.op("Mul", first, emit.constant([count - 1])))
        sizes = emit.op("Concat", before, last, axis=0) if count > 1 else total
        graph.replace(node, "Split", [node.input[0], sizes], axis=axis)


class EmptySlices(Guard):
    """Unique along an axis ends the process if the slices have no elements.

    Each slice gets a zero, which is removed from the result.
    """

    name = "unique slices of nothing"
    anchors = ("Unique",)
    seen, effect = ("1.21", "1.32"), "process death"
    example = one_node("Unique", np.zeros((3, 0), np.float32), axis=0, expected=np.zeros((1, 0), np.float32))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Slices that may be empty."""
        axis, shape = attribute(node, "axis"), graph.shape(node.input[0])
        if axis is None:
            return False
        return not shape or not all(size for k, size in enumerate(shape) if k != axis % len(shape))

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Put a zero before each slice, and take it off the result."""
        emit, data, axis = graph.emitter(node), graph.tensor(node.input[0]), attribute(node, "axis")
        front = to_front(emit, data, axis)
        shape, end = emit.shape_of(front), emit.constant([np.iinfo(np.int64).max])
        count = emit.op("Slice", shape, emit.constant([0]), emit.constant([1]))
        rest = emit.op("Slice", shape, emit.constant([1]), end)
        width = emit.op("ReduceProd", rest, keepdims=1)
        rows = emit.op("Reshape", front, emit.op("Concat", count, width, axis=0), allowzero=1)
        empty = "" if data.dtype == TensorProto.STRING else 0
        blank = emit.constant(np.array([[empty]], object if empty == "" else None), data.dtype)
        column = emit.op("Expand", blank, emit.op("Concat", count, emit.constant([1]), axis=0))
        wide = emit.op("Concat", column, rows, axis=1, shape=(None, None))
        places = [TensorProto.INT64] * (len(node.output) - 1)
        found, *positions = emit.node(
            "Unique", [wide], [data.dtype, *places], axis=0, sorted=attribute(node, "sorted", 1)
        )
        for k, tensor in enumerate(positions, 1):
            if node.output[k]:
                graph.bypass(node, tensor.name, k)
        narrow = emit.op("Slice", found, emit.constant([1]), end, emit.constant([1]))
        number = emit.op("Slice", emit.shape_of(found), emit.constant([0]), emit.constant([1]))
        known = None if front.shape is None else (None, *front.shape[1:])
        whole = emit.op("Reshape", narrow, emit.op("Concat", number, rest, axis=0), allowzero=1, shape=known)
        graph.bypass(node, from_front(emit, whole, axis).name)


class ExpandToNothing(Guard):
    """An Expand of a computed tensor to constant sizes is removed if a size is 0 and the size of the tensor is 1 there.

    The tensor is expanded to a size of 1, and nothing is taken from it.
    """

    name = "expanding to nothing"
    anchors = ("Expand",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Abs", ["x"], ["a"]), _NODE("Expand", ["a", "sizes"], ["b"]), _NODE("Neg", ["b"], ["y"])],
        {"x": np.ones((3, 1), np.float32)},
        np.zeros((3, 0), np.float32),
        constants={"sizes": np.array([1, 0])},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Sizes of 0, of what may not be empty there."""
        return len(node.input) == 2 and any(self._emptied(graph, node))

    @staticmethod
    def _emptied(graph: Graph, node: NodeProto) -> list[bool]:
        """Of each size whether it is known to be 0, and that of the tensor is not."""
        target = sizes(graph, node.input[1]) or []
        own, made = (graph.shape(name) or () for name in (node.input[0], node.output[0]))
        ends = range(-len(target), 0)
        is_zero = [
            size == size_of(0) or (-end <= len(made) and made[end] == 0) for end, size in zip(ends, target, strict=True)
        ]
        return [zero and not (-end <= len(own) and own[end] == 0) for end, zero in zip(ends, is_zero, strict=True)]

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Expand to 1, and take nothing."""
        emit, emptied = graph.emitter(node), self._emptied(graph, node)
        data, target = map(graph.tensor, node.input)
        one, axes = emit.constant([1]), [k - len(emptied) for k, is_empty in enumerate(emptied) if is_empty]
        if target.value is not None:
            some = emit.constant(np.where(emptied, 1, target.value))
        else:
            some = emit.op("Where", emit.constant(np.array(emptied)), one, target)
        none = emit.constant([0] * len(axes))
        graph.replace(node, "Slice", [emit.op("Expand", data, some), none, none, emit.constant(axes)])


class DepthOfZero(Guard):
    """OneHot refuses a depth of 0.

    The node gets a depth of 1, which is removed from the result.
    """

    name = "depth of 0"
    anchors = ("OneHot",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "OneHot",
        np.zeros(2, np.int64),
        np.array(0),
        np.array([0, 1], np.float32),
        expected=np.zeros((2, 0), np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A depth that may be 0."""
        depth = graph.constant(node.input[1])
        return depth is None or not depth.all()

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Make one, and take it off again. A negative depth stays an error."""
        emit = graph.emitter(node)
        indices, given, values = map(graph.tensor, node.input)
        depth = emit.op("Reshape", emit.cast(given, TensorProto.INT64), emit.constant([1]))
        is_none = emit.op("Equal", depth, emit.constant([0]))
        some = emit.op("Where", is_none, emit.constant([1]), depth)
        (made,) = emit.node("OneHot", [indices, some, values], [values.dtype], **attributes(node))
        axis = emit.constant([attribute(node, "axis", -1)])
        graph.replace(node, "Slice", [made, emit.constant([0]), depth, axis])
