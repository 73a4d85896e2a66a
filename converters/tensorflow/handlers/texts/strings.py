"""Strings to hash buckets, and the operators around that: numbers to text, text to lower case, comparison, ..."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS, NUMBERS, dtype_name

_FILLS = {"": "NONE", " ": "SPACE", "+": "PLUS", "-": "MINUS", "0": "ZERO", "#": "HASH"}


@handles("StringToHashBucketFast", dtypes=("string",))
def string_to_hash_bucket_fast(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the number of buckets is an input."""
    buckets = emit.constant(node.attributes["num_buckets"])
    return emit.domain_op("StringToHashBucketFast", {"input": node["input"], "num_buckets": buckets})


@handles("StringToHashBucketStrong", dtypes=("string",))
def string_to_hash_bucket_strong(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the number of buckets and the key are inputs."""
    buckets = emit.constant(node.attributes["num_buckets"])
    key_0, key_1 = (emit.constant(half) for half in node.attributes["key"])
    inputs = {"input": node["input"], "num_buckets": buckets, "key_0": key_0, "key_1": key_1}
    return emit.domain_op("StringToHashBucketStrong", inputs)


@handles(
    "AsString",
    dtypes=(*map(dtype_name, (*NUMBERS, TensorProto.BOOL)),),
    notes="integers that are not padded become Cast, and booleans Where (standard)",
)
def as_string(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the digits and the width are inputs."""
    given, attributes = node["input"], node.attributes
    precision, width = attributes.get("precision", -1), attributes.get("width", -1)
    is_scientific, is_shortest = attributes.get("scientific", False), attributes.get("shortest", False)
    fill = bytes(attributes.get("fill", b"")).decode()
    if given.dtype not in FLOATS and (is_scientific or is_shortest or precision >= 0):
        raise Unsupported(f"TensorFlow takes no precision, scientific and shortest for {dtype_name(given.dtype)}")
    if given.dtype == TensorProto.BOOL:
        return (emit.op("Where", given, *(emit.constant(word, TensorProto.STRING) for word in ("true", "false"))),)
    if given.dtype not in FLOATS and width <= 1 and not fill:
        return (emit.cast(given, TensorProto.STRING),)
    inputs = {"input": given, "precision": emit.constant(max(precision, -1)), "width": emit.constant(max(width, -1))}
    notation = "SCIENTIFIC" if is_scientific else "SHORTEST" if is_shortest else "FIXED"
    return emit.domain_op("AsString", inputs, {"notation": notation, "fill": _FILLS[fill]})


@handles("StringLower", "StringUpper", to="StringCase", dtypes=("string",))
def change_case(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Change the case of ASCII letters, as TensorFlow does without an encoding."""
    if node.attributes.get("encoding"):
        raise Unsupported("only the case of ASCII is changed, not that of Unicode: the attribute must be omitted")
    case = node.op_type.removeprefix("String").upper()
    return emit.domain_op("StringCase", {"input": node["input"]}, {"case": case})
