"""tf.raw_ops.Conv2D, DepthwiseConv2dNative, pooling and FusedBatchNorm, with channels last or first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import UnknownShape, Unsupported
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import Emitter
from onnx_sparse.converters.tensorflow.importing.handlers.registry import handles
from onnx_sparse.converters.writing.tensor import Tensor

_FLOATS = ("float16", "bfloat16", "float")


@handles("Conv2D", "Conv3D", inputs=("input", "filter"), to="Conv", dtypes=_FLOATS, ignored=("use_cudnn_on_gpu",))
def convolution(node: Node, emit: Emitter) -> Tensor:
    """A convolution with strides, dilations and groups; the groups are those of the filter."""
    x, weight = node["input"], node["filter"]
    layout = _Layout(node, x, emit)
    channels, each = layout.channels, weight.dim(weight.rank - 2)
    group = 1  # where the number of channels is not known; ONNX Runtime refuses others
    if channels is not None and each:
        if channels % each:
            raise Unsupported(f"{channels} channels are not a multiple of the filter's {each}")
        group = channels // each
    rank = weight.rank
    ordered = emit.op("Transpose", weight, perm=[rank - 1, rank - 2, *range(rank - 2)])
    made = emit.op(
        "Conv", layout.first(x), ordered, group=group, **layout.windows(weight.shape[:-2] if weight.shape else ())
    )
    return layout.last(made)


@handles("DepthwiseConv2dNative", inputs=("input", "filter"), to="Conv", dtypes=_FLOATS)
def depthwise_convolution(node: Node, emit: Emitter) -> Tensor:
    """A convolution of each channel by itself."""
    x, weight = node["input"], node["filter"]
    layout = _Layout(node, x, emit)
    height, width, channels, each = weight.dims
    ordered = emit.op("Transpose", weight, perm=[2, 3, 0, 1])
    filters = emit.op("Reshape", ordered, emit.constant([channels * each, 1, height, width]))
    made = emit.op("Conv", layout.first(x), filters, group=channels, **layout.windows((height, width)))
    return layout.last(made)


@handles("MaxPool", "MaxPool3D", inputs=("input",), to="MaxPool", dtypes=_FLOATS)
def max_pool(node: Node, emit: Emitter) -> Tensor:
    """The largest element of each window."""
    layout = _Layout(node, node["input"], emit)
    made = emit.op("MaxPool", layout.first(node["input"]), **layout.windows("ksize"))
    return layout.last(made)


@handles("AvgPool", inputs=("value",), to="AveragePool", dtypes=_FLOATS)
@handles("AvgPool3D", inputs=("input",), to="AveragePool", dtypes=_FLOATS)
def average_pool(node: Node, emit: Emitter) -> Tensor:
    """The mean of each window, of the elements that are in the tensor."""
    x = node["value" if node.op_type == "AvgPool" else "input"]
    layout = _Layout(node, x, emit)
    made = emit.op("AveragePool", layout.first(x), count_include_pad=0, **layout.windows("ksize"))
    return layout.last(made)


class _Layout:
    """The order of dimensions of a node, and its windows in ONNX's."""

    def __init__(self, node: Node, x: Tensor, emit: Emitter) -> None:
        self._node, self._x, self._emit = node, x, emit
        text = node.attributes["data_format"]
        form = text.decode() if isinstance(text, bytes) else str(text)
        if form not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
            raise Unsupported(f"its attribute data_format = {form!r} is not converted")
        self._is_last = form.endswith("C")
        self._rank = len(form)
        if x.rank != self._rank:
            raise Unsupported(f"{x} is not of rank {self._rank}")
        self._spatial = range(1, self._rank - 1) if self._is_last else range(2, self._rank)
        self.channels = x.dim(-1 if self._is_last else 1)

    def first(self, x: Tensor) -> Tensor:
        """The tensor with channels before the spatial dimensions."""
        return self._emit.op("Transpose", x, perm=[0, self._rank - 1, *self._spatial]) if self._is_last else x

    def last(self, x: Tensor) -> Tensor:
        """The tensor in the node's own order."""
        return self._emit.op("Transpose", x, perm=[0, *range(2, self._rank), 1]) if self._is_last else x

    def windows(self, size: str | Sequence[int | None]) -> dict[str, Any]:
        """ONNX's attributes for windows of the size that an attribute says, or of a filter's."""
        attributes = self._node.attributes
        found: dict[str, Any] = {"strides": self._of("strides")}
        if isinstance(size, str):
            found["kernel_shape"] = self._of(size)
        else:
            found["dilations"] = self._of("dilations")
        padding = attributes["padding"].decode()
        pads = list(attributes["explicit_paddings"]) if "explicit_paddings" in attributes else []
        if padding == "EXPLICIT":
            if len(pads) != 2 * self._rank:
                raise Unsupported(f"its attribute explicit_paddings = {pads} has not two numbers for each dimension")
            found["pads"] = [pads[2 * d] for d in self._spatial] + [pads[2 * d + 1] for d in self._spatial]
        elif padding == "SAME":
            if isinstance(size, str) or max(found["dilations"], default=1) == 1:
                found["auto_pad"] = "SAME_UPPER"
            else:  # which ONNX Runtime does not pad by itself
                found["pads"] = self._pads(size, found["strides"], found["dilations"])
        elif padding != "VALID":
            raise Unsupported(f"its attribute padding = {padding!r} is not converted")
        return found

    def spatial_sizes(self, sizes: Tensor) -> list[int]:
        """The height and width in a tensor of sizes, of which others may be unknown."""
        known = self._emit.known_sizes(sizes)
        found = [size for d, size in enumerate(known or ()) if d in self._spatial]
        if len(found) != len(self._spatial) or None in found:
            raise Unsupported("the height and width of its result are no constants")
        return [size for size in found if size is not None]

    def transposed_windows(self, kernel: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
        """ONNX's attributes for a transposed convolution whose result has given sizes."""
        strides, dilations = self._of("strides"), self._of("dilations")
        padding = self._node.attributes["padding"]
        pads = [int(number) for number in self._node.attributes["explicit_paddings"]]
        before, after, extra = [], [], []
        for k, (size, stride, dilation, width) in enumerate(zip(sizes, strides, dilations, kernel, strict=True)):
            reach = dilation * (width - 1) + 1
            if padding == b"EXPLICIT":
                d = self._spatial[k]
                start, end = pads[2 * d : 2 * d + 2]
                steps = (size + start + end - reach) // stride + 1
            else:
                steps = -(-size // stride) if padding == b"SAME" else (size - reach) // stride + 1
                total = max((steps - 1) * stride + reach - size, 0) if padding == b"SAME" else 0
                start, end = total // 2, total - total // 2
            before.append(start)
            after.append(end)
            extra.append(size - ((steps - 1) * stride + reach - start - end))
        if min(extra) < 0:
            raise Unsupported(f"its input_sizes {list(sizes)} do not fit")
        return {"strides": strides, "dilations": dilations, "pads": [*before, *after], "output_padding": extra}

    def _pads(self, sizes: Sequence[int | None], strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
        """The border for a result of the input's size divided by the strides."""
        before, after = [], []
        for d, size, stride, dilation in zip(self._spatial, sizes, strides, dilations, strict=True):
            dim = self._x.dim(d)
            if size is None or (dim is None and stride != 1):
                raise UnknownShape(f"the whole shape of {self._x} must be known for a dilated filter with strides")
            # With a stride of 1, the border does not depend on the input's size.
            overlap = dilation * (size - 1) + 1 - (1 if dim is None else dim - (-(-dim // stride) - 1) * stride)
            before.append(max(overlap, 0) // 2)
            after.append(max(overlap, 0) - before[-1])
        return [*before, *after]

    def _of(self, name: str) -> list[int]:
        given = [int(number) for number in self._node.attributes[name]] or [1] * self._rank
        if len(given) != self._rank or any(given[d] != 1 for d in range(self._rank) if d not in self._spatial):
            raise Unsupported(f"its attribute {name} = {given} is not converted")
        return [given[d] for d in self._spatial]


@handles(
    "FusedBatchNorm",
    "FusedBatchNormV2",
    "FusedBatchNormV3",
    inputs=("x", "scale", "offset", "mean", "variance"),
    to="BatchNormalization",
    dtypes=_FLOATS,
    ignored=("exponential_avg_factor",),
)
def batch_normalization(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The normalization with given means and variances."""
    if node.attributes["is_training"]:
        raise Unsupported("it is in training, and normalizes by the batch; export the model for inference")
    x = node["x"]
    text = node.attributes["data_format"].decode()
    if text not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise Unsupported(f"its attribute data_format = {text!r} is not converted")
    parameters = [emit.cast(node[name], TensorProto.FLOAT) for name in ("scale", "offset", "mean", "variance")]
    wide = emit.cast(x, TensorProto.FLOAT)
    rank = len(text)
    if text.endswith("C"):
        wide = emit.op("Transpose", wide, perm=[0, rank - 1, *range(1, rank - 1)])
    made = emit.op("BatchNormalization", wide, *parameters, epsilon=float(node.attributes["epsilon"]))
    if text.endswith("C"):
        made = emit.op("Transpose", made, perm=[0, *range(2, rank), 1])
    # The statistics that it would return in training are those that it is given.
    rest = [node["mean"], node["variance"]] * 2
    rest = [emit.cast(tensor, dtype) for tensor, dtype in zip(rest, node.dtypes[1:], strict=False)]
    if len(node.dtypes) > 5:
        rest.append(emit.cast(node["variance"], node.dtypes[5]))
    return (emit.cast(made, x.dtype), *rest)


@handles("LRN", inputs=("input",), to="LRN", dtypes=("float",))
def local_response_normalization(node: Node, emit: Emitter) -> Tensor:
    """Each divided by a power of the sum of the squares of its neighbours along the channels, which come last."""
    x, attributes = node["input"], node.attributes
    size = 2 * int(attributes["depth_radius"]) + 1
    alpha, beta, bias = (float(attributes[name]) for name in ("alpha", "beta", "bias"))
    first = emit.op("Transpose", x, perm=[0, 3, 1, 2])
    made = emit.op("LRN", first, size=size, alpha=alpha * size, beta=beta, bias=bias)
    return emit.op("Transpose", made, perm=[0, 2, 3, 1])


@handles(
    "Conv2DBackpropInput",
    inputs=("input_sizes", "filter", "out_backprop"),
    to="ConvTranspose",
    dtypes=_FLOATS,
    notes="the height and width of the result are constants",
    ignored=("use_cudnn_on_gpu",),
)
def transposed_convolution(node: Node, emit: Emitter) -> Tensor:
    """What a convolution would have been given, up to weights: a transposed convolution."""
    x, weight = node["out_backprop"], node["filter"]
    layout = _Layout(node, x, emit)
    sizes = layout.spatial_sizes(node["input_sizes"])
    ordered = emit.op("Transpose", weight, perm=[3, 2, 0, 1])
    made = emit.op("ConvTranspose", layout.first(x), ordered, **layout.transposed_windows(weight.dims[:2], sizes))
    return layout.last(made)
