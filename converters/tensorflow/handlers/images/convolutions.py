"""tf.raw_ops.Conv2D, Conv3D, DepthwiseConv2dNative, their transposes and FusedBatchNorm, channels last or first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.images.layouts import Layout
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.schemas.declaration import FLOATS

_FLOATS = ("float16", "bfloat16", "float")


@handles(
    "Conv2D", "Conv3D", to="Conv", dtypes=_FLOATS, ignored=("use_cudnn_on_gpu",),
    differs="a weight that is not finite is not multiplied by the zeros of a border, which makes NaN in TensorFlow",
)  # fmt: skip
def convolution(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """A convolution with strides, dilations and groups; the groups are those of the filter."""
    x, weight = node["input"], node["filter"]
    if x.dtype not in FLOATS:  # which wrap in TensorFlow, and would be floats here
        raise Unsupported(f"ONNX Runtime convolves floats only, not {x}")
    layout = Layout(node, x, emit)
    rank = layout.rank_of(weight)
    channels, each, filters = layout.channels, weight.dim(rank - 2), weight.dim(rank - 1)
    ordered = emit.op("Transpose", weight, perm=[rank - 1, rank - 2, *range(rank - 2)])
    if channels is not None and each and channels % each:
        raise Unsupported(f"{channels} channels are not a multiple of the filter's {each}")

    def convolve(first: Tensor, windows: Mapping[str, Any]) -> Tensor:
        if filters != 1 and (channels is None or each is None):
            return _by_groups(first, ordered, windows, emit)
        group = channels // each if filters != 1 and channels and each else 1
        return emit.op("Conv", first, ordered, group=group, **windows)

    return layout.convolved(weight, convolve)


def _by_groups(x: Tensor, weight: Tensor, windows: Mapping[str, Any], emit: TensorFlowEmitter) -> Tensor:
    """A convolution whose number of groups is known only when it runs: a Scan over the groups.

    Args:
        x: The images, with channels first.
        weight: The filter [filters, channels of a group, ...].
    """
    rank, each = x.rank, emit.size(weight, 1)
    groups = emit.op("Div", emit.size(x, 1), each)
    space = emit.op("Slice", emit.shape_of(x), emit.constant([2]), emit.constant([rank]))
    parted = emit.op("Concat", emit.size(x, 0), groups, each, space, axis=0)
    images = emit.op("Transpose", emit.reshaped(x, parted, (None,) * (rank + 1)), perm=[1, 0, *range(2, rank + 1)])
    window = emit.op("Slice", emit.shape_of(weight), emit.constant([1]), emit.constant([rank]))
    filters = emit.op("Div", emit.size(weight, 0), groups)
    kernels = emit.reshaped(weight, emit.op("Concat", groups, filters, window, axis=0), (None,) * (rank + 1))
    body, name = emit.body(), emit.names.fresh("group")
    one = Tensor(f"{name}/images", x.dtype, (None,) * rank)
    kernel = Tensor(f"{name}/filter", x.dtype, (None, None, *(weight.shape or (None,) * rank)[2:]))
    body.begin(name)
    made = body.op("Conv", one, kernel, shape=(None,) * rank, **windows)
    graph = body.graph(name, [value_info(one), value_info(kernel)], [value_info(made)])
    (found,) = emit.node(
        "Scan", [images, kernels], [x.dtype], [(None,) * (rank + 1)], body=graph, num_scan_inputs=2,
        scan_output_axes=[1],
    )  # fmt: skip
    ends = emit.op("Slice", emit.shape_of(found), emit.constant([3]), emit.constant([rank + 1]))
    joined = emit.op("Concat", emit.size(x, 0), emit.size(weight, 0), ends, axis=0)
    return emit.reshaped(found, joined, (None, weight.dim(0), *(None,) * (rank - 2)))


@handles("DepthwiseConv2dNative", to="Conv", dtypes=_FLOATS)
def depthwise_convolution(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """A convolution of each channel by itself."""
    x, weight = node["input"], node["filter"]
    layout = Layout(node, x, emit)
    layout.rank_of(weight)
    height, width, channels, each = weight.dims
    ordered = emit.op("Transpose", weight, perm=[2, 3, 0, 1])
    filters = emit.op("Reshape", ordered, emit.constant([channels * each, 1, height, width]))
    return layout.convolved(weight, lambda first, windows: emit.op("Conv", first, filters, group=channels, **windows))


@handles(
    "FusedBatchNorm",
    "FusedBatchNormV2",
    "FusedBatchNormV3",
    to="BatchNormalization",
    dtypes=_FLOATS,
    ignored=("exponential_avg_factor",),
    differs="a scale or mean that is not finite makes NaN, where TensorFlow subtracts the mean first",
)
def batch_normalization(node: Node, emit: TensorFlowEmitter) -> tuple[Tensor, ...]:
    """The normalization with given means and variances."""
    x = node["x"]
    text = node.attributes["data_format"].decode()
    if text not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise Unsupported(f"its attribute data_format = {text!r} is not converted")
    parameters = [emit.cast(node[name], TensorProto.FLOAT) for name in ("scale", "offset", "mean", "variance")]
    wide = emit.cast(x, TensorProto.FLOAT)
    rank = len(text)
    if node.attributes["is_training"]:
        return _normalized_by_batch(node, wide, parameters, 1 if text[1] == "C" else rank - 1, emit)
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


def _normalized_by_batch(
    node: Node, x: Tensor, parameters: list[Tensor], channel: int, emit: TensorFlowEmitter
) -> tuple[Tensor, ...]:
    """The normalization by the means and variances of the batch itself, and these."""
    rank, one = x.rank, emit.constant(1.0, TensorProto.FLOAT)
    axes = emit.constant([axis for axis in range(rank) if axis != channel])
    mean = emit.op("ReduceMean", x, axes, keepdims=1)
    centered = emit.op("Sub", x, mean)
    variance = emit.op("ReduceMean", emit.op("Mul", centered, centered), axes, keepdims=1)
    epsilon = emit.constant(float(node.attributes["epsilon"]), TensorProto.FLOAT)
    root = emit.op("Sqrt", emit.op("Add", variance, epsilon))
    behind = emit.constant([*range(1, rank - channel)])
    along = [emit.op("Unsqueeze", each, behind) if rank - channel > 1 else each for each in parameters]
    scale, offset, *before = along
    made = emit.op("Add", emit.op("Mul", emit.op("Div", centered, root), scale), offset)
    count = emit.op("ReduceProd", emit.op("Gather", emit.shape_of(x), axes), emit.constant([0]), keepdims=0)
    number = emit.cast(count, TensorProto.FLOAT)
    unbiased = emit.op("Div", number, emit.op("Max", emit.op("Sub", number, one), one))
    factor = float(node.attributes.get("exponential_avg_factor", 1.0))
    shown = [mean, emit.op("Mul", variance, unbiased)]
    if factor != 1:
        new, old = (emit.constant(part, TensorProto.FLOAT) for part in (factor, 1 - factor))
        shown = [
            emit.op("Add", emit.op("Mul", old, b), emit.op("Mul", new, s)) for b, s in zip(before, shown, strict=True)
        ]
    rows = [emit.op("Squeeze", each, axes) for each in (*shown, mean, variance)]
    rest = [emit.cast(tensor, dtype) for tensor, dtype in zip(rows, node.dtypes[1:], strict=False)]
    if len(node.dtypes) > 5:
        rest.append(emit.cast(rows[3], node.dtypes[5]))
    return (emit.cast(made, node["x"].dtype), *rest)


@handles("LRN", to="LRN", dtypes=("float",))
def local_response_normalization(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """Each divided by a power of the sum of the squares of its neighbors along the channels, which come last."""
    x, attributes = node["input"], node.attributes
    size = 2 * int(attributes["depth_radius"]) + 1
    alpha, beta, bias = (float(attributes[name]) for name in ("alpha", "beta", "bias"))
    first = emit.op("Transpose", x, perm=[0, 3, 1, 2])
    made = emit.op("LRN", first, size=size, alpha=alpha * size, beta=beta, bias=bias)
    return emit.op("Transpose", made, perm=[0, 2, 3, 1])


@handles("Conv2DBackpropInput", to="ConvTranspose", dtypes=_FLOATS, ignored=("use_cudnn_on_gpu",))
@handles("Conv3DBackpropInputV2", to="ConvTranspose", dtypes=_FLOATS)
def transposed_convolution(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """What a convolution would have been given, up to weights: a transposed convolution."""
    x, weight = node["out_backprop"], node["filter"]
    layout = Layout(node, x, emit)
    rank = layout.rank_of(weight)
    ordered = emit.op("Transpose", weight, perm=[rank - 1, rank - 2, *range(rank - 2)])
    first, sizes = layout.first(x), layout.spatial_sizes(node["input_sizes"])
    if sizes is None:
        return layout.last(layout.transposed(first, ordered, node["input_sizes"]))
    windows = layout.transposed_windows(weight.dims[: rank - 2], sizes)
    return layout.last(emit.op("ConvTranspose", first, ordered, **windows))
