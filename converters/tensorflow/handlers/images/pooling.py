"""tf.raw_ops.MaxPool, MaxPoolV2, MaxPoolWithArgmax, AvgPool, MaxPool3D, AvgPool3D and ExtractImagePatches."""

from __future__ import annotations

from dataclasses import replace

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.images.layouts import Layout
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.lowering.windows import windows_along
from onnx_sparse.converters.writing.reads import Attributes
from onnx_sparse.schemas.declaration import FLOATS

_FLOATS = ("float16", "bfloat16", "float")
#: Those whose largest ONNX Runtime finds.
_SHORT = ("float16", "bfloat16", "float", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32")
#: Types whose numbers a double holds, and that ONNX Runtime has no places of the largest for.
_AS_DOUBLE = (TensorProto.INT32, TensorProto.UINT32)
_AS_FLOAT = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)


@handles("MaxPool", "MaxPool3D", to="MaxPool", dtypes=_SHORT)
def max_pool(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """The largest element of each window."""
    if node["input"].dtype in (TensorProto.INT64, TensorProto.UINT64):  # which doubles do not hold
        raise Unsupported("ONNX Runtime finds no largest integers of 64 bits")
    layout = Layout(node, node["input"], emit)
    x, windows = layout.under("ksize")
    return layout.last(emit.op("MaxPool", x, **windows))


@handles("AvgPool", "AvgPool3D", to="AveragePool", dtypes=_FLOATS)
def average_pool(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """The mean of each window, of the elements that are in the tensor."""
    layout = Layout(node, node["value" if node.op_type == "AvgPool" else "input"], emit)
    x, windows = layout.under("ksize")
    return layout.last(emit.op("AveragePool", x, count_include_pad=0, **windows))


@handles("MaxPoolV2", to="MaxPool", dtypes=_SHORT)
def max_pool_of_inputs(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """The largest element of each window, whose size and steps are constant inputs."""
    given = {name: node[name].integers(name) for name in ("ksize", "strides")}
    rest = {name: node.attributes[name] for name in ("padding", "data_format")}
    return max_pool(replace(node, op_type="MaxPool", attributes=Attributes({**given, **rest})), emit)


@handles("MaxPoolWithArgmax", to="MaxPool", dtypes=_SHORT)
def max_pool_with_places(node: Node, emit: TensorFlowEmitter) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its place among all elements, or those of its image."""
    x, attributes = node["input"], node.attributes
    given = {name: attributes[name] for name in ("ksize", "strides", "padding")}
    if x.dtype in _AS_DOUBLE or x.dtype == TensorProto.DOUBLE:
        wide = TensorProto.DOUBLE
    elif x.dtype in FLOATS or x.dtype in _AS_FLOAT:
        wide = TensorProto.FLOAT
    else:
        raise Unsupported("ONNX Runtime finds no places of the largest integers of 64 bits")
    given["data_format"] = b"NHWC"
    layout = Layout(replace(node, attributes=Attributes(given)), emit.cast(x, wide), emit)
    first, windows = layout.under("ksize")
    made, places = emit.node("MaxPool", [first], [wide, TensorProto.INT64], **windows)
    batch, height, width, channels = (emit.scalar(emit.size(x, k)) for k in range(4))
    area = emit.op("Mul", height, width)
    columns = emit.scalar(emit.size(first, 3))  # without those that no window reaches
    channel, pixel = _quotient_and_rest(places, emit.op("Mul", emit.scalar(emit.size(first, 2)), columns), emit)
    row, column = _quotient_and_rest(pixel, columns, emit)
    pixel = emit.op("Add", emit.op("Mul", row, width), column)
    numbers = emit.op("Add", emit.op("Mul", pixel, channels), emit.op("Mod", channel, channels))
    if attributes["include_batch_in_index"]:
        images = emit.op("Range", emit.constant(0), batch, emit.constant(1))
        start = emit.op("Mul", images, emit.op("Mul", area, channels))
        numbers = emit.op("Add", numbers, emit.op("Unsqueeze", start, emit.constant([1, 2, 3])))
    return emit.cast(layout.last(made), x.dtype), emit.cast(layout.last(numbers), node.dtypes[1])


def _quotient_and_rest(number: Tensor, divisor: Tensor, emit: TensorFlowEmitter) -> tuple[Tensor, Tensor]:
    return emit.op("Div", number, divisor), emit.op("Mod", number, divisor)


@handles("ExtractImagePatches", to="Gather", dtypes=("all numbers", "bool"))
def extract_image_patches(node: Node, emit: TensorFlowEmitter) -> Tensor:
    """The pixels of each window as one vector; those outside of the image are 0."""
    x, attributes = node["images"], node.attributes
    if x.rank != 4:
        raise Unsupported(f"{x} is not of rank 4")
    given = {name: [int(n) for n in attributes[name]] for name in ("ksizes", "strides", "rates")}
    for name, numbers in given.items():
        if len(numbers) != 4 or numbers[0] != 1 or numbers[3] != 1 or min(numbers) < 1:
            raise Unsupported(f"its attribute {name} = {numbers} is not converted")
    padding = attributes["padding"]
    if padding not in (b"SAME", b"VALID"):
        raise Unsupported(f"its attribute padding = {padding.decode('utf-8', 'replace')!r} is not converted")
    made, counts = x, []
    for place, axis in ((1, 1), (3, 2)):
        size, stride, rate = (given[name][axis] for name in ("ksizes", "strides", "rates"))
        kind = "same_upper" if padding == b"SAME" else "valid"
        made, count = windows_along(emit, made, place, size=size, stride=stride, rate=rate, padding=kind)
        counts.append(count)
    made = emit.op("Transpose", made, perm=[0, 1, 3, 2, 4, 5])
    depth = emit.op("Mul", emit.size(x, 3), emit.constant([given["ksizes"][1] * given["ksizes"][2]]))
    target = emit.op("Concat", emit.size(x, 0), *counts, depth, axis=0)
    return emit.op("Reshape", made, target, allowzero=1, shape=(x.dim(0), None, None, None))
