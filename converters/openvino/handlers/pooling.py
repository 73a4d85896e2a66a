"""Poolings."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.tensor import Tensor


def _attributes(node: Node, *, dilations: bool, counted: bool = False) -> dict[str, Any]:
    """The attributes of a pooling; `counted` says that an average is also over the paddings."""
    kernel = node.integers("kernel")
    attributes = window(node, kernel, dilations=dilations) | {"kernel_shape": kernel}
    if any(pad >= size for pad, size in zip(attributes.get("pads", ()), kernel * 2, strict=False)):
        raise Unsupported("paddings as large as the window, which ONNX Runtime does not take")
    rounding = node.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    if rounding == "floor" or "pads" not in attributes:  # the windows of auto_pad end where the paddings do
        return attributes
    sizes = (node[0].shape or (None,) * len(kernel))[-len(kernel) :]
    axes = [_Axis(size, k, attributes) for k, size in enumerate(sizes)]
    longer = [axis.missing(torch=rounding == "ceil_torch") for axis in axes]
    if set(longer) == {0}:
        return attributes | {"ceil_mode": 0}
    up = None in longer
    ends = [axis.end if more is None else axis.whole_end(more, up) for axis, more in zip(axes, longer, strict=True)]
    if not counted and all(end < size for end, size in zip(ends, kernel, strict=True)):
        pads = attributes["pads"][: len(kernel)] + ends
        return attributes | {"pads": pads, "ceil_mode": int(up)}
    return attributes | {"ceil_mode": 1}


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

    def missing(self, *, torch: bool) -> int | None:
        """How much padding the last window lacks; None if the size is not known.

        Raises:
            Unsupported: It begins beyond the data, or does so for some size.
        """
        if self.size is None:
            if not torch and self.end + self.stride > self.reach:
                raise Unsupported("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
            return None
        padded = self.size + self.begin + self.end
        last = -(-(padded - self.reach) // self.stride) * self.stride
        if last < self.size + self.begin:
            return max(last + self.reach - padded, 0)
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


@handles("MaxPool-1", to="MaxPool")
def max_pool_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """MaxPool-1."""
    return emit.op("MaxPool", node[0], **_attributes(node, dilations=False))


@handles("MaxPool-8", "MaxPool-14", to="MaxPool")
def max_pool_8(node: Node, emit: OpenVINOEmitter) -> Tensor | tuple[Tensor, ...]:
    """MaxPool-8 and MaxPool-14: also the positions of the maxima, which ONNX counts over the whole tensor."""
    attributes = _attributes(node, dilations=True)
    if len(node.layer.outputs) == 1:
        node.disregard("axis")
        return emit.op("MaxPool", node[0], **attributes)
    values, indices = emit.node("MaxPool", [node[0]], [node[0].dtype, TensorProto.INT64], **attributes)
    axis = node[0].axis(node.integer("axis", 0))
    if axis == 0:
        return values, indices
    size = emit.op("ReduceProd", emit.shape_of(node[0], start=axis), keepdims=0)
    return values, emit.op("Mod", indices, size)


@handles("AvgPool-1", "AvgPool-14", "AvgPool-16", to="AveragePool")
def avg_pool(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """AvgPool-1, AvgPool-14 and AvgPool-16, the only one with dilations."""
    dilated = node.has("dilations") and set(node.integers("dilations")) != {1}
    if dilated:
        emit.require_opset(19)
    counted = not node.flag("exclude-pad")
    attributes = _attributes(node, dilations=dilated, counted=counted)
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
        places = _Places(node, emit, axis)
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
        places = _Places(node, emit, k + 2)
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


class _Places:
    """The windows along one axis of an adaptive pooling: window i is from floor(i * size / count) to ceil((i + 1) ...).

    Attributes:
        size: The axis's size.
        lengths: Those of the windows, [count, 1].
        places: The places of each window's numbers, [count, longest]; a shorter window repeats its last place.
        inside: Whether a place is not repeated.
    """

    def __init__(self, node: Node, emit: OpenVINOEmitter, axis: int) -> None:
        one = emit.constant(1)
        known = node[0].shape[axis] if node[0].shape is not None else None
        shape = emit.shape_of(node[0], axis, axis + 1)
        self.size = emit.op("Squeeze", shape) if known is None else emit.constant(known)
        count = emit.op("Gather", emit.vector(node[1]), emit.constant(axis - 2))
        windows = emit.op("Unsqueeze", emit.op("Range", emit.constant(0), count, one), emit.constant([1]))
        begin = emit.op("Div", emit.op("Mul", windows, self.size), count)
        after = emit.op("Mul", emit.op("Add", windows, one), self.size)
        end = emit.op("Div", emit.op("Add", after, emit.op("Sub", count, one)), count)
        self.lengths = emit.op("Sub", end, begin)
        steps = emit.op("Range", emit.constant(0), emit.op("ReduceMax", self.lengths, keepdims=0), one)
        self.inside = emit.op("Less", steps, self.lengths)
        self.places = emit.op("Min", emit.op("Add", begin, steps), emit.op("Sub", end, one))


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
