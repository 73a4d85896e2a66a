"""tf.io.decode_base64, encode_base64, decode_raw and decode_compressed."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import dtype_name

_RAW_TYPES = tuple(map(dtype_name, OPS["DecodeRaw"].types["T"]))


@handles("DecodeBase64", dtypes=("string",))
def decode_base64(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator."""
    return emit.domain_op("DecodeBase64", {"input": node["input"]})


@handles("EncodeBase64", dtypes=("string",))
def encode_base64(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator."""
    padding = "EQUALS" if node.attributes["pad"] else "NONE"
    return emit.domain_op("EncodeBase64", {"input": node["input"]}, {"padding": padding})


@handles("DecodeRaw", dtypes=_RAW_TYPES)
def decode_raw(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the type is that of an input."""
    return _numbers(node, node["bytes"], emit.constant(-1), emit)


@handles("DecodePaddedRaw", to="DecodeRaw", dtypes=_RAW_TYPES)
def decode_padded_raw(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same with a length, which must be positive: in ONNX, -1 has another meaning."""
    length = emit.cast(emit.scalar(node["fixed_length"]), TensorProto.INT64)
    if length.value is None:
        length = emit.extreme("Max", length, emit.constant(0), ())
    elif length.value <= 0:
        raise Unsupported(f"fixed_length = {int(length.value)} must be greater than 0")
    return _numbers(node, node["input_bytes"], length, emit)


def _numbers(node: Node, strings: Tensor, length: Tensor, emit: Emitter) -> tuple[Tensor, ...]:
    inputs = {"input": strings, "fixed_length": length, "like": emit.constant(0, node.dtypes[0])}
    return emit.domain_op("DecodeRaw", inputs, {"byte_order": "LITTLE" if node.attributes["little_endian"] else "BIG"})


@handles(
    "DecodeCompressed",
    dtypes=("string",),
    notes="data that end too soon are an error, where TensorFlow returns what there is; ZSTD is refused",
)
def decode_compressed(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator."""
    compression = node.attributes["compression_type"].decode()
    if not compression:
        return (node["bytes"],)
    if compression not in ("ZLIB", "GZIP"):
        raise Unsupported(f"compression_type = {compression}; ZLIB and GZIP are decompressed in ONNX")
    return emit.domain_op("DecodeCompressed", {"input": node["bytes"]}, {"compression": compression})


@handles("ParseTensor", dtypes=tuple(map(dtype_name, OPS["ParseTensor"].types["T"])))
def parse_tensor(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the type is that of an input."""
    dtype = node.dtypes[0]
    like = emit.constant("" if dtype == TensorProto.STRING else 0, dtype)
    return emit.domain_op("ParseTensor", {"serialized": node["serialized"], "like": like})
