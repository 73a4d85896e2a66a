"""Poolings."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.adaptive_windows import AdaptiveWindows
from onnx_sparse.schemas.segment_body import lowest


def _attributes(node: Node, *, dilations: bool, counted: bool = False) -> dict[str, Any]:
    """The attributes of a pooling; `counted` says that an average is also over the paddings.

    Raises:
        _NeedsPad: ONNX Runtime has such windows only after the data are padded by a node of their own.
        Unsupported: They do not fit the data, or ONNX does not have such windows.
    """
    kernel = node.integers("kernel")
    attributes = window(node, kernel, dilations=dilations) | {"kernel_shape": kernel}
    rounding = node.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    if any(pad >= size for pad, size in zip(attributes.get("pads", ()), kernel * 2, strict=False)):
        raise _NeedsPad("paddings as large as the window, which ONNX Runtime does not take", attributes, rounding)
    if rounding == "floor" or "pads" not in attributes:  # the windows of auto_pad end where the paddings do
        return attributes
    sizes = (node[0].shape or (None,) * len(kernel))[-len(kernel) :]
    axes = [_Axis(size, k, attributes) for k, size in enumerate(sizes)]
    try:
        longer = [axis.missing(torch=rounding == "ceil_torch") for axis in axes]
        if set(longer) == {0}:
            return attributes | {"ceil_mode": 0}
        up = None in longer
        ends = [axis.end if more is None else axis.whole_end(more, up) for axis, more in zip(axes, longer, strict=True)]
    except Unsupported as error:
        raise _NeedsPad(str(error), attributes, rounding) from None
    if not counted and all(end < size for end, size in zip(ends, kernel, strict=True)):
        pads = attributes["pads"][: len(kernel)] + ends
        return attributes | {"pads": pads, "ceil_mode": int(up)}
    if any(axis.omits_last for axis in axes):
        raise _NeedsPad(
            "rounding_type = 'ceil_torch' with windows that ONNX's shape inference counts", attributes, rounding
        )
    return attributes | {"ceil_mode": 1}


class _NeedsPad(Unsupported):
    """A pooling whose data must be padded first, because ONNX Runtime refuses or omits some of its windows.

    Attributes:
        attributes: The pooling's, with its paddings.
        rounding: Its `rounding_type`.
    """

    def __init__(self, reason: str, attributes: dict[str, Any], rounding: str) -> None:
        super().__init__(reason)
        self.attributes = attributes
        self.rounding = rounding

    @property
    def skips_numbers(self) -> bool:
        """Whether there are numbers between two windows."""
        return any(stride > reach for stride, reach in zip(self.attributes["strides"], self._reach(), strict=True))

    def _reach(self) -> list[int]:
        kernel = self.attributes["kernel_shape"]
        dilations = self.attributes.get("dilations", [1] * len(kernel))
        return [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]

    def padded(self, x: Tensor, emit: OpenVINOEmitter, fill: float, *, longer: bool = True) -> Tensor:
        """The padded data; if `longer`, they end where the windows do, of which floor omits none and ceil adds none."""
        pads, strides, reach = (
            np.array(n) for n in (self.attributes["pads"], self.attributes["strides"], self._reach())
        )
        before, after = np.split(pads, 2)
        ends: Tensor = emit.constant(after)
        if longer and self.rounding != "floor":
            sizes = emit.shape_of(x, start=2)
            windows = emit.op("Sub", emit.op("Add", sizes, emit.constant(before + after)), emit.constant(reach))
            more = emit.op("Mod", emit.op("Neg", windows), emit.constant(strides))
            if self.rounding == "ceil_torch":  # without a last window that begins beyond the data
                last = emit.op("Sub", emit.op("Add", windows, more), emit.constant(before))
                more = emit.op(
                    "Where", emit.op("Less", last, sizes), more, emit.op("Sub", more, emit.constant(strides))
                )
            ends = emit.op("Add", ends, more)
        none = emit.constant([0, 0])
        places = emit.op("Concat", none, emit.constant(before), none, ends, axis=0)
        return emit.op("Pad", x, places, emit.like(fill, x))

    def without_pads(self) -> dict[str, Any]:
        """The attributes of the pooling after the data are padded."""
        return self.attributes | {"pads": [0] * len(self.attributes["pads"]), "ceil_mode": 0}


class _Axis:
    """One axis of a pooling with `ceil`: a last window may reach beyond the paddings.

    With `ceil` it may also begin beyond the data; with `ceil_torch`, as in ONNX Runtime, it is then omitted. ONNX's own
    shape inference counts it nevertheless, so a model says the number of windows by its paddings where sizes are known:
    then the windows end where the paddings do, whether ONNX rounds up or down.
    """

    def __init__(self, size: int | None, k: int, attributes: dict[str, Any]) -> None:
        count = len(attributes["kernel_shape"])
        self.size = size
        self.stride: int = attributes["strides"][k]
        self.begin: int = attributes["pads"][k]
        self.end: int = attributes["pads"][count + k]
        self.reach: int = (attributes["kernel_shape"][k] - 1) * attributes.get("dilations", [1] * count)[k] + 1

    @property
    def omits_last(self) -> bool:
        """Whether the last window begins beyond the data, as far as is known: `ceil_torch` omits it."""
        if self.size is None:
            return False
        last = -(-(self.size + self.begin + self.end - self.reach) // self.stride) * self.stride
        return last >= self.size + self.begin

    def missing(self, *, torch: bool) -> int | None:
        """How much padding the last window lacks; None if the size is not known.

        Raises:
            Unsupported: It begins beyond the data, or does so for some size.
        """
        if self.size is None:
            if not torch and self.end + self.stride > self.reach:
                raise Unsupported("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
            return None
        if not self.omits_last:
            padded = self.size + self.begin + self.end
            return max(-(-(padded - self.reach) // self.stride) * self.stride + self.reach - padded, 0)
        if not torch:
            raise Unsupported("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
        return 0

    def whole_end(self, missing: int, up: bool) -> int:
        """The padding at the end, of a pooling that rounds up or down.

        Raises:
            Unsupported: Windows end before the data do.
        """
        assert self.size is not None
        if missing or not up:
            return self.end + missing
        end = self.end - (self.size + self.begin + self.end - self.reach) % self.stride
        if end < 0:
            raise Unsupported(f"rounding_type = 'ceil_torch' with windows that end before {self.size}, a known size")
        return end


@handles("MaxPool-1", to="MaxPool, Pad")
def max_pool_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """MaxPool-1."""
    return _maxima(node, emit, dilations=False)[0]


@handles("MaxPool-8", "MaxPool-14", to="MaxPool, Pad")
def max_pool_8(node: Node, emit: OpenVINOEmitter) -> Tensor | tuple[Tensor, ...]:
    """MaxPool-8 and MaxPool-14: also the positions of the maxima, which ONNX counts over the whole tensor."""
    values, indices = _maxima(node, emit, dilations=True)
    if len(node.layer.outputs) == 1:
        node.disregard("axis")
        return values
    axis = node[0].axis(node.integer("axis", 0))
    if axis == 0:
        return values, indices
    size = emit.op("ReduceProd", emit.shape_of(node[0], start=axis), keepdims=0)
    return values, emit.op("Mod", indices, size)


def _maxima(node: Node, emit: OpenVINOEmitter, *, dilations: bool) -> tuple[Tensor, Tensor]:
    """The maxima of windows, and their positions in the whole tensor.

    Of no number, it is the lowest one of the type; of half floats that of float, which is -inf among them.
    """
    types = [node[0].dtype, TensorProto.INT64]
    try:
        values, indices = emit.node("MaxPool", [node[0]], types, **_attributes(node, dilations=dilations))
    except _NeedsPad as needed:
        fill = lowest(node[0].dtype) if node[0].dtype != TensorProto.FLOAT16 else float("-inf")
        padded = needed.padded(node[0], emit, fill)
        values, indices = emit.node("MaxPool", [padded], types, **needed.without_pads())
        indices = _positions_before_pad(node[0], padded, indices, needed.attributes["pads"], emit)
    return values, indices


def _positions_before_pad(
    x: Tensor, padded: Tensor, positions: Tensor, pads: list[int], emit: OpenVINOEmitter
) -> Tensor:
    """Positions in padded data as those in the data; in the paddings, that of the channel's first number."""
    inside, steps = emit.constant(True, TensorProto.BOOL), emit.constant(1)
    place: Tensor = emit.constant(0)
    for k in reversed(range(len(pads) // 2)):
        size, padded_size = (emit.op("Squeeze", emit.shape_of(t, k + 2, k + 3)) for t in (x, padded))
        at = emit.op("Sub", emit.op("Mod", positions, padded_size), emit.constant(pads[k]))
        positions = emit.op("Div", positions, padded_size)
        at_least_first = emit.op("GreaterOrEqual", at, emit.constant(0))
        inside = emit.op("And", inside, emit.op("And", at_least_first, emit.op("Less", at, size)))
        place = emit.op("Add", place, emit.op("Mul", at, steps))
        steps = emit.op("Mul", steps, size)
    return emit.op("Add", emit.op("Mul", positions, steps), emit.op("Where", inside, place, emit.constant(0)))


@handles("AvgPool-1", "AvgPool-14", "AvgPool-16", to="AveragePool")
def avg_pool(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """AvgPool-1, AvgPool-14 and AvgPool-16, the only one with dilations."""
    dilated = node.has("dilations") and set(node.integers("dilations")) != {1}
    if dilated:
        emit.require_opset(19)
    counted = not node.flag("exclude-pad")
    try:
        attributes = _attributes(node, dilations=dilated, counted=counted)
    except _NeedsPad as needed:
        # Of paddings that are counted, zeros are data. The mean of a window beyond these is not defined: OpenVINO gives
        # 0 or NaN.
        if not counted or needed.rounding == "ceil_torch" or needed.skips_numbers:
            raise
        zeros = needed.padded(node[0], emit, 0, longer=False)
        attributes = needed.without_pads() | {"ceil_mode": int(needed.rounding == "ceil")}
        return emit.op("AveragePool", zeros, count_include_pad=0, **attributes)
    return emit.op("AveragePool", node[0], count_include_pad=int(counted), **attributes)


@handles("AdaptiveAvgPool-8", to="AveragePool, GlobalAveragePool, or Gather, ReduceSum")
def adaptive_avg_pool(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """AdaptiveAvgPool-8. Windows of different lengths are gathered, one axis after the other."""
    node.ranked(0, 3)
    # Sums may be beyond narrower types. Means of integers are rounded at the end; but one of the whole axes is cut off,
    # as those of reductions are.
    made = node[0] if node[0].dtype == TensorProto.DOUBLE else emit.cast(node[0], TensorProto.FLOAT)
    if node[1].value is not None and (node[1].value == 1).all():
        return emit.narrowed("ReduceMean", emit.op("GlobalAveragePool", made), node[0].dtype)
    if (windows := _even_windows(node)) is not None:
        return emit.narrowed("AveragePool", emit.op("AveragePool", made, **windows), node[0].dtype)
    sizes = emit.constant(1)
    for axis in range(2, node[0].rank):
        places = _windows(node, emit, axis)
        # The numbers of a window stand on the axis after the windows.
        inside, lengths = places.inside, places.lengths
        if rest := list(range(axis - node[0].rank + 1, 0)):
            inside, lengths = (emit.op("Unsqueeze", t, emit.constant(rest)) for t in (inside, lengths))
        numbers = emit.op("Where", inside, emit.op("Gather", made, places.places, axis=axis), emit.like(0, made))
        made = emit.op("ReduceSum", numbers, emit.constant([axis + 1]), keepdims=0)
        sizes = emit.op("Mul", sizes, emit.op("Squeeze", lengths, emit.constant([1])))
    mean = emit.op("Div", made, emit.cast(sizes, made.dtype))
    return emit.narrowed("AveragePool", mean, node[0].dtype)


@handles("AdaptiveMaxPool-8", to="MaxPool, or Gather, ReduceMax, ArgMax")
def adaptive_max_pool(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """AdaptiveMaxPool-8, whose positions are counted within a channel."""
    i64 = TensorProto.INT64
    node.ranked(0, 3)
    if (windows := _even_windows(node)) is not None:
        values, indices = emit.node("MaxPool", [node[0]], [node[0].dtype, i64], **windows)
        channel = emit.op("ReduceProd", emit.shape_of(node[0], start=2), keepdims=0)
        return values, emit.op("Mod", indices, channel)
    numbers, flat = node[0], emit.constant([[0]])
    count, last = node[0].rank - 2, emit.constant([-1])
    for k in range(count):  # windows and places within them take turns: [batch, channels, o1, k1, o2, k2]
        places = _windows(node, emit, k + 2)
        numbers = emit.op("Gather", numbers, places.places, axis=2 * k + 2)
        if k:
            flat = emit.op("Unsqueeze", flat, emit.constant([-2, -1]))
        flat = emit.op("Add", emit.op("Mul", flat, places.size), places.places)
    order = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
    rows = emit.op("Reshape", emit.op("Transpose", flat, perm=order), emit.constant([0] * count + [-1]))
    shape = emit.op("Concat", emit.shape_of(node[0], 0, 2), emit.shape_of(rows), axis=0)
    numbers = emit.op("Transpose", numbers, perm=[0, 1, *(2 + axis for axis in order)])
    windowed = emit.op("Reshape", numbers, shape, allowzero=1)
    best = emit.op("ArgMax", windowed, axis=-1, keepdims=1)
    found = emit.op("GatherElements", emit.op("Expand", rows, shape), best, axis=-1)
    return emit.op("ReduceMax", windowed, last, keepdims=0), emit.op("Squeeze", found, last)


def _windows(node: Node, emit: OpenVINOEmitter, axis: int) -> AdaptiveWindows:
    """The windows along an axis."""
    known = node[0].shape[axis] if node[0].shape is not None else None
    size = emit.op("Squeeze", emit.shape_of(node[0], axis, axis + 1)) if known is None else emit.constant(known)
    return AdaptiveWindows(emit, size, emit.op("Gather", emit.vector(node[1]), emit.constant(axis - 2)))


def _even_windows(node: Node) -> dict[str, Any] | None:
    """The windows of a pooling, if the sizes that are wanted divide the data's, which are known; else None."""
    if node[1].value is None:
        return None
    wanted = node[1].integers("the output shape")
    if len(wanted) != node[0].rank - 2 or min(wanted, default=0) < 1:
        raise Unsupported(f"size {wanted} does not fit {node[0]}")
    sizes = (node[0].shape or ())[2:]
    if any(size is None or size % want for size, want in zip(sizes, wanted, strict=True)):
        return None
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True) if size is not None]
    return {"kernel_shape": kernel, "strides": kernel}
