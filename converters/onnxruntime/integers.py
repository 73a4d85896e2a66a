"""Integers: ONNX Runtime divides by -1 unguarded, adds as doubles, multiplies as floats and compares halves."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute, attributes

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)

#: Sums of fewer than 2^32 parts of so many bits are exact as doubles, and so are comparisons of these parts.
_PART_BITS = 21


class DivisionByMinusOne(Guard):
    """The least integer divided by -1 ends the process.

    For a divisor of -1, the result is the negated number, which wraps.
    """

    name = "integer division"
    anchors = ("Div", "Mod")
    seen, effect = ("1.21", "1.32"), "process death"
    example = one_node("Div", np.array([-(2**63)]), np.array([-1]), expected=np.array([-(2**63)]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A division by what may be -1; that of shorter integers is right."""
        dividend, divisor = node.input
        if graph.dtype(divisor) not in _INTEGERS or dividend in self.known.integers.sizes:
            return False
        known = graph.constant(divisor)
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


class WideComparison(Guard):
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
        return graph.dtype(node.output[0]) in (0, TensorProto.INT64) and not self.known.integers.large.isdisjoint(
            operands
        )

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


class WideExtreme(Guard):
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
        return node.input[0] in self.known.integers.large and graph.dtype(node.input[0]) == TensorProto.INT64

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
        """An operand of integers that are neither sizes nor zeros and ones; int64s that may have more than 32 bits."""
        data, known = node.input[0], self.known.integers
        dtype = graph.dtype(data)
        if dtype not in _INTEGERS or data in known.sizes or data in known.counted:
            return False
        return dtype == TensorProto.INT32 or node.op_type != "ReduceSum" or data in known.large

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

    A scatter multiplies instead, which wraps.
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
        """An operand of integers that are no sizes."""
        data = node.input[0]
        return graph.dtype(data) in _INTEGERS and not {data} & (self.known.integers.sizes | self.known.integers.counted)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply the elements by a scatter, which wraps, into ones of the shape with kept dimensions."""
        emit = graph.emitter(node)
        data, axes = _operands(graph, node)
        keep, is_noop = (
            bool(_options(node).get(name, k)) for name, k in (("keepdims", 1), ("noop_with_empty_axes", 0))
        )
        one, every = emit.constant([1]), emit.constant([-1])
        shape = emit.shape_of(data)
        rank = emit.op("Shape", shape)
        if axes is None or (axes.shape == (0,) and not is_noop):
            axes, kept = None, emit.op("Expand", one, rank)
        elif axes.value is None and not is_noop:
            raise Unsupported("computed axes of a ReduceProd, where no axes mean all")
        else:
            ones = emit.op("Expand", one, emit.op("Shape", axes))
            kept = emit.op("ScatterElements", shape, axes, ones, axis=0)
        count = emit.op("ReduceProd", kept, emit.constant([0]), keepdims=1)
        numbers = emit.op("Range", emit.constant(0), emit.op("Squeeze", count, emit.constant([0])), emit.constant(1))
        places = emit.op("Expand", emit.op("Reshape", numbers, kept, allowzero=1), shape)
        ones = emit.op("Expand", emit.like(1, data), count)
        factors = emit.op("Reshape", data, every)
        product = emit.op(
            "ScatterElements",
            ones,
            emit.op("Reshape", places, every),
            factors,
            dtype=data.dtype,
            axis=0,
            reduction="mul",
        )
        if keep or axes is not None:
            product = emit.op("Reshape", product, kept, allowzero=1)
        if keep:
            graph.replace(node, "Identity", [product])
        elif axes is None:
            graph.replace(node, "Reshape", [product, emit.constant([])])
        else:
            graph.replace(node, "Squeeze", [product, axes])


def _operands(graph: Graph, node: NodeProto) -> tuple[Tensor, Tensor | None]:
    """What a node reduces, and its axes."""
    data = graph.tensor(node.input[0])
    if len(node.input) > 1 and node.input[1]:
        return data, graph.tensor(node.input[1])
    given = attribute(node, "axes")
    return data, None if given is None else graph.emitter(node).constant([*given])


def _options(node: NodeProto) -> dict[str, Any]:
    return {name: value for name, value in attributes(node).items() if name in ("keepdims", "noop_with_empty_axes")}


def _parts(emit: Emitter, data: Tensor, count: int) -> list[Tensor]:
    """The parts of int64s, each of 21 bits, the highest first, which has the sign."""
    mask, base = emit.constant((1 << _PART_BITS) - 1), emit.constant(1 << _PART_BITS)
    parts: list[Tensor] = []
    for _ in range(count - 1):
        parts.append(emit.op("BitwiseAnd", data, mask, shape=data.shape))
        rest = emit.op("Sub", data, parts[-1], shape=data.shape)
        data = emit.op("Div", rest, base, shape=data.shape)
    return [data, *reversed(parts)]


def _joined(emit: Emitter, parts: list[Tensor]) -> Tensor:
    """The integers of such parts, or of their sums."""
    base, total = emit.constant(1 << _PART_BITS), parts[0]
    for part in parts[1:]:
        total = emit.op("Add", emit.op("Mul", total, base), part)
    return total
