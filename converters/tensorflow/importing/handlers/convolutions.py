"""tf.raw_ops.Conv2D, Conv3D, DepthwiseConv2dNative, their transposes and FusedBatchNorm, channels last or first."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import Emitter
from onnx_sparse.converters.tensorflow.importing.handlers.layouts import Layout
from onnx_sparse.converters.tensorflow.importing.handlers.registry import handles
from onnx_sparse.converters.writing.tensor import Tensor

_FLOATS = ("float16", "bfloat16", "float")


@handles("Conv2D", "Conv3D", inputs=("input", "filter"), to="Conv", dtypes=_FLOATS, ignored=("use_cudnn_on_gpu",))
def convolution(node: Node, emit: Emitter) -> Tensor:
    """A convolution with strides, dilations and groups; the groups are those of the filter."""
    x, weight = node["input"], node["filter"]
    layout = Layout(node, x, emit)
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
    layout = Layout(node, x, emit)
    height, width, channels, each = weight.dims
    ordered = emit.op("Transpose", weight, perm=[2, 3, 0, 1])
    filters = emit.op("Reshape", ordered, emit.constant([channels * each, 1, height, width]))
    made = emit.op("Conv", layout.first(x), filters, group=channels, **layout.windows((height, width)))
    return layout.last(made)


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
    notes="the sizes of the result but its batch are constants",
    ignored=("use_cudnn_on_gpu",),
)
@handles(
    "Conv3DBackpropInputV2",
    inputs=("input_sizes", "filter", "out_backprop"),
    to="ConvTranspose",
    dtypes=_FLOATS,
    notes="the sizes of the result but its batch are constants",
)
def transposed_convolution(node: Node, emit: Emitter) -> Tensor:
    """What a convolution would have been given, up to weights: a transposed convolution."""
    x, weight = node["out_backprop"], node["filter"]
    layout = Layout(node, x, emit)
    sizes, rank = layout.spatial_sizes(node["input_sizes"]), weight.rank
    ordered = emit.op("Transpose", weight, perm=[rank - 1, rank - 2, *range(rank - 2)])
    windows = layout.transposed_windows(weight.dims[: rank - 2], sizes)
    return layout.last(emit.op("ConvTranspose", layout.first(x), ordered, **windows))
