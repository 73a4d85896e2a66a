"""Integers: ONNX Runtime divides by -1 unguarded, adds as doubles, multiplies as floats and compares halves."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.integer_ranges import number_reduced, summands
from onnx_sparse.converters.onnxruntime.intervals import of_type
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import DType

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)

#: Sums of fewer than 2^32 parts of so many bits are exact as doubles, and so are comparisons of these parts.
_PART_BITS = 21


#: The largest integer below which a double has all.
_EXACT = 1 << 53


#: The opset from which on there is a BitwiseAnd.
_WITH_MASKS = 18

#: So many numbers are multiplied one after the other.
_FACTORS = 8


class DivisionByMinusOne(Guard):
    """The least integer divided by -1 ends the process.

    For a divisor of -1, the result is the negated number, which wraps.
    """

    name = "integer division"
    anchors = ("Div", "Mod")
    seen, effect = ("1.21", "1.32"), "process death"
    example = one_node("Div", np.array([-(2**63)]), np.array([-1]), expected=np.array([-(2**63)]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A division of what may be the least integer by what may be -1; that of shorter integers is right."""
        dtype = graph.dtype(node.input[1])
        if dtype not in _INTEGERS:
            return False
        dividend, divisor = (self.known.integers.of(name, dtype) for name in node.input)
        if dividend.low > of_type(dtype).low or not divisor.low <= -1 <= divisor.high:
            return False
        known = graph.constant(node.input[1])
        return known is None or bool((known == -1).any())

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Divide by 1 instead, and choose the negative there; every remainder is 0."""
        emit = graph.emitter(node)
        dividend, divisor = map(graph.tensor, node.input)
        is_minus_one = emit.op("Equal", divisor, emit.like(-1, divisor), shape=divisor.shape)
        safe = emit.op("Where", is_minus_one, emit.like(1, divisor), divisor, shape=divisor.shape)
        if node.op_type == "Mod":
            graph.replace(node, "Mod", [dividend, safe], **attributes(node))
            return
        quotient = emit.op("Div", dividend, safe)
        negative = emit.op("Neg", emit.cast(dividend, TensorProto.INT64))
        graph.replace(node, "Where", [is_minus_one, emit.cast(negative, dividend.dtype), quotient])


class _OfLarge(Guard):
    """A fault of integers that have more than 32 bits."""

    def _is_large(self, name: str, dtype: DType) -> bool:
        return not of_type(TensorProto.INT32).includes(self.known.integers.of(name, dtype))


class WideComparison(_OfLarge):
    """Max, Min, Clip, Relu and Sign compare the lower halves of int64s with equal upper halves as if they were signed:
    Max of 3000000000 and 5 is 5.

    Comparisons, which are right, and a Where replace them.
    """

    name = "comparison of large integers"
    anchors = ("Max", "Min", "Clip", "Relu", "Sign")
    seen, effect = ("1.21", "1.31"), "wrong result"
    varies = True
    example = one_node("Max", np.array([3000000000] * 8), np.array([5] * 8), expected=np.array([3000000000] * 8))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """An operand that may have more than 32 bits."""
        operands = node.input if node.op_type in ("Max", "Min") else node.input[:1]
        dtype = graph.dtype(node.output[0])
        return dtype in (0, TensorProto.INT64) and any(self._is_large(name, TensorProto.INT64) for name in operands)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Compare, and choose."""
        emit = graph.emitter(node)
        first, *others = (graph.tensor(name) if name else None for name in node.input)
        assert first is not None
        zero = emit.constant(0)
        if node.op_type == "Sign":
            signs = [emit.cast(emit.op(op, first, zero), TensorProto.INT64) for op in ("Greater", "Less")]
            graph.replace(node, "Sub", signs)
            return
        steps: list[tuple[str, Tensor]] = []
        if node.op_type == "Relu":
            steps = [("Max", zero)]
        elif node.op_type == "Clip":
            steps = [(op, bound) for op, bound in zip(("Max", "Min"), others, strict=False) if bound is not None]
        else:
            steps = [(node.op_type, other) for other in others if other is not None]
        chosen = first
        for op_type, other in steps[:-1]:
            chosen = emit.extreme(op_type, chosen, other)
        if not steps:
            graph.replace(node, "Identity", [chosen])
            return
        op_type, other = steps[-1]
        is_first = emit.op("GreaterOrEqual" if op_type == "Max" else "LessOrEqual", chosen, other)
        graph.replace(node, "Where", [is_first, chosen, other])


class WideExtreme(_OfLarge):
    """ReduceMax and ReduceMin of int64 compare lower halves as if they were signed.

    The numbers are split into parts of 21 bits, which are compared from the highest down.
    """

    name = "extremes of large integers"
    anchors = ("ReduceMax", "ReduceMin")
    seen, effect = ("1.21", "1.31"), "wrong result"
    varies = True
    example = one_node(
        "ReduceMax", np.array([[3000000000, 5] * 20] * 3), axes=[1], keepdims=0, expected=np.array([3000000000] * 3)
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """An operand that may have more than 32 bits."""
        dtype = graph.dtype(node.input[0])
        return dtype == TensorProto.INT64 and self._is_large(node.input[0], dtype)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """The extreme of the highest part, then of the next among those that have it, and so on."""
        emit = graph.emitter(node)
        data, axes = _operands(graph, node)
        options = _options(node)
        if axes is not None and axes.shape == (0,) and options.get("noop_with_empty_axes"):
            graph.replace(node, "Identity", [data])
            return
        least = node.op_type == "ReduceMin"
        beyond = emit.constant(1 << _PART_BITS if least else -1)
        found: list[Tensor] = []
        is_left: Tensor | None = None
        for part in _parts(emit, data, 3):
            compared = part if is_left is None else emit.op("Where", is_left, part, beyond, shape=data.shape)
            found.append(emit.op(node.op_type, compared, axes, **{**options, "keepdims": 1}))
            is_left = emit.op("Equal", compared, found[-1], shape=data.shape)
        # Of nothing, the first part is the least or largest int64, and so is the result.
        nothing = emit.constant(np.iinfo(np.int64).max if least else np.iinfo(np.int64).min)
        is_nothing = emit.op("Equal", found[0], nothing)
        result = [is_nothing, nothing, _joined(emit, found)]
        if options.get("keepdims", 1):
            graph.replace(node, "Where", result)
        elif axes is not None and axes.value is None and options.get("noop_with_empty_axes"):
            # Without axes nothing is reduced, but a Squeeze removes all axes of size 1.
            shape = emit.shape_of(data)
            left = emit.op("Compress", shape, emit.op("Not", _is_reduced(emit, shape, axes, is_noop=True)), axis=0)
            graph.replace(node, "Reshape", [emit.op("Where", *result), left], allowzero=1)
        elif axes is not None:
            graph.replace(node, "Squeeze", [emit.op("Where", *result), axes])
        else:
            graph.replace(node, "Reshape", [emit.op("Where", *result), emit.constant([])])


class IntegerSum(Guard):
    """Integers are added as doubles with 53 bits, and a sum beyond the type's range is its largest number.

    Parts of 21 bits are added and joined, which wraps.
    """

    name = "sum of integers"
    anchors = ("ReduceSum", "ReduceL1", "ReduceSumSquare")
    seen, effect = ("1.27", "1.32"), "wrong result"
    example = one_node(
        "ReduceSum", np.array([3000000000, 2**53 + 1]), axes=[0], keepdims=0, expected=np.array(3000000000 + 2**53 + 1)
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Integers whose sum is not proved to have the bits of a double, or those of its type."""
        dtype = graph.dtype(node.input[0])
        if dtype not in _INTEGERS:
            return False
        added = summands(node.op_type, self.known.integers.of(node.input[0], dtype))
        total = added.total(_number_reduced(graph, node))
        return total.magnitude > _EXACT or not of_type(dtype).includes(total) or not of_type(dtype).includes(added)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Sums of parts of the integers are exact; put together, they wrap."""
        emit = graph.emitter(node)
        data, axes = _operands(graph, node)
        if node.op_type == "ReduceL1":
            data = emit.op("Abs", data, shape=data.shape)
        elif node.op_type == "ReduceSumSquare":
            data = emit.op("Mul", data, data, shape=data.shape)
        wide = emit.cast(data, TensorProto.INT64)
        parts = _parts(emit, wide, 3 if data.dtype == TensorProto.INT64 else 2)
        total = _joined(emit, [emit.op("ReduceSum", part, axes, **_options(node)) for part in parts])
        graph.replace(node, "Cast", [total], to=data.dtype)


class IntegerProduct(Guard):
    """Integers are multiplied as floats, and a product beyond the type's range is its largest number.

    A scatter multiplies instead, which wraps; few numbers are multiplied one after the other.
    """

    name = "product of integers"
    anchors = ("ReduceProd",)
    seen, effect = ("1.27", "1.32"), "wrong result"
    example = one_node(
        "ReduceProd",
        np.array([3037000500, 3037000499]),
        axes=[0],
        keepdims=0,
        expected=np.array(3037000500 * 3037000499),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Integers whose product is not proved to have the bits of a double, or those of its type."""
        dtype = graph.dtype(node.input[0])
        if dtype not in _INTEGERS:
            return False
        whole = self.known.integers.of(node.input[0], dtype).product(_number_reduced(graph, node))
        return whole.magnitude > _EXACT or not of_type(dtype).includes(whole)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply the elements by a scatter, which wraps, into ones of the shape with kept dimensions."""
        emit = graph.emitter(node)
        data, axes = _operands(graph, node)
        keep = _options(node).get("keepdims", 1)
        count = _number_reduced(graph, node)
        if count and count <= _FACTORS and axes is not None and axes.value is not None and axes.value.size == 1:
            parts = emit.node(
                "Split",
                [data, emit.constant([1] * count)],
                [data.dtype] * count,
                axis=data.axis(int(axes.value.item())),
            )
            product = reduce(partial(emit.op, "Mul"), parts)
            graph.bypass(node, (product if keep else emit.op("Squeeze", product, axes)).name)
            return
        shape = emit.shape_of(data)
        is_reduced = _is_reduced(emit, shape, axes, is_noop=bool(_options(node).get("noop_with_empty_axes", 0)))
        one, every = emit.constant([1]), emit.constant([-1])
        kept = emit.op("Where", is_reduced, one, shape)
        size = emit.op("ReduceProd", kept, emit.constant([0]), keepdims=1)
        numbers = emit.op("Range", emit.constant(0), emit.scalar(size), emit.constant(1))
        places = emit.op("Expand", emit.op("Reshape", numbers, kept, allowzero=1), shape)
        product = emit.op(
            "ScatterElements",
            emit.op("Expand", emit.like(1, data), size),
            emit.op("Reshape", places, every),
            emit.op("Reshape", data, every),
            dtype=data.dtype,
            axis=0,
            reduction="mul",
        )
        target = kept if keep else emit.op("Compress", shape, emit.op("Not", is_reduced), axis=0)
        graph.replace(node, "Reshape", [product, target], allowzero=1)


def _is_reduced(emit: Emitter, shape: Tensor, axes: Tensor | None, *, is_noop: bool) -> Tensor:
    """Whether each axis is reduced; all are without axes, unless that means none."""
    rank = emit.op("Shape", shape)
    every = emit.op("Expand", emit.constant(True, TensorProto.BOOL), rank)
    if axes is None or (axes.shape == (0,) and not is_noop):
        return every
    marks = emit.op("Expand", emit.constant(True, TensorProto.BOOL), emit.op("Shape", axes))
    # Of a scalar, there is nothing to count from the front, but no division by 0 either.
    counted = emit.op("Mod", axes, emit.op("Max", rank, emit.constant(1)))
    found = emit.op("ScatterElements", emit.op("Not", every), counted, marks, axis=0)
    if axes.value is not None or is_noop:
        return found
    has_none = emit.op("Equal", emit.op("Size", axes, shape=()), emit.constant(0))
    return emit.op("Or", has_none, found)


def _operands(graph: Graph, node: NodeProto) -> tuple[Tensor, Tensor | None]:
    """What a node reduces, and its axes."""
    data = graph.tensor(node.input[0])
    if len(node.input) > 1 and node.input[1]:
        return data, graph.tensor(node.input[1])
    given = attribute(node, "axes")
    return data, None if given is None else graph.emitter(node).constant([*given])


def _number_reduced(graph: Graph, node: NodeProto) -> int | None:
    """How many integers a node reduces to one; None if it is not known."""
    axes = graph.integers(node.input[1]) if len(node.input) > 1 and node.input[1] else attribute(node, "axes", ())
    is_noop = axes is not None and bool(attribute(node, "noop_with_empty_axes", 0))
    return number_reduced(graph.shape(node.input[0]), axes or (), is_noop=is_noop)


def _options(node: NodeProto) -> dict[str, Any]:
    """What a node says of its axes; without a word, a list of none means all, as an emitter does not take it."""
    unsaid = {"noop_with_empty_axes": 0} if len(node.input) > 1 and node.input[1] else {}
    said = {name: value for name, value in attributes(node).items() if name in ("keepdims", "noop_with_empty_axes")}
    return unsaid | said


def _parts(emit: Emitter, data: Tensor, count: int) -> list[Tensor]:
    """The parts of int64s, each of 21 bits, the highest first, which has the sign."""
    base = emit.constant(1 << _PART_BITS)
    # The lowest bits are what is left of a division that rounds down; that is slower than a mask.
    has_masks = emit.kernels_of >= _WITH_MASKS
    lowest = ("BitwiseAnd", emit.constant((1 << _PART_BITS) - 1)) if has_masks else ("Mod", base)
    parts: list[Tensor] = []
    for _ in range(count - 1):
        parts.append(emit.op(lowest[0], data, lowest[1], shape=data.shape))
        rest = emit.op("Sub", data, parts[-1], shape=data.shape)
        data = emit.op("Div", rest, base, shape=data.shape)
    return [data, *reversed(parts)]


def _joined(emit: Emitter, parts: list[Tensor]) -> Tensor:
    """The integers of such parts, or of their sums."""
    base, total = emit.constant(1 << _PART_BITS), parts[0]
    for part in parts[1:]:
        total = emit.op("Add", emit.op("Mul", total, base), part)
    return total
