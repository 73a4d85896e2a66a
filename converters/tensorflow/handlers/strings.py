"""Strings to hash buckets, and the operators around that: numbers to text, text to lower case, comparison, ..."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS, dtype_name

_WHOLE = (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS)


@handles("StringToHashBucketFast", inputs=("input",), dtypes=("string",))
def string_to_hash_bucket_fast(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the number of buckets is an input."""
    buckets = emit.integer(node.attributes["num_buckets"])
    return emit.domain_op("StringToHashBucketFast", {"input": node["input"], "num_buckets": buckets})


@handles("AsString", inputs=("input",), to="Cast", dtypes=(*map(dtype_name, _WHOLE), "bool"))
def as_string(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Integers in decimal; booleans as "true" and "false"."""
    given, attributes = node["input"], node.attributes
    if attributes.get("width", -1) > 0 or attributes.get("fill"):
        raise Unsupported("ONNX does not pad text: the attributes width and fill must be omitted")
    if given.dtype == TensorProto.BOOL:
        words = (emit.constant(np.array(word, object)) for word in ("true", "false"))
        return (emit.standard("Where", given, *words, dtype=TensorProto.STRING),)
    if given.dtype not in _WHOLE:
        raise Unsupported(f"ONNX writes {dtype_name(given.dtype)} in other digits than TensorFlow")
    return (emit.cast(given, TensorProto.STRING),)


@handles(
    "Equal",
    "NotEqual",
    inputs=("x", "y"),
    to="LabelEncoder",
    dtypes=("string",),
    notes="strings, if one side is a constant scalar; tf2onnx converts numbers",
    partial=True,
)
def compare_strings(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """A LabelEncoder with the constant as its only key: ONNX's Equal takes strings only from opset 19 on."""
    words, constant = node["x"], node["y"]
    if constant.value is None:
        words, constant = constant, words
    if constant.value is None or constant.shape != ():
        raise Unsupported("strings are compared with a constant scalar only")
    word = constant.value.item()
    equal = int(node.op_type == "Equal")
    attributes = {
        "keys_strings": [word.decode() if isinstance(word, bytes) else str(word)],
        "values_int64s": [equal],
        "default_int64": 1 - equal,
    }
    (found,) = emit.node("ai.onnx.ml", "LabelEncoder", [words], [TensorProto.INT64], attributes)
    return (emit.cast(found, TensorProto.BOOL),)


@handles("StringLower", "StringUpper", inputs=("input",), to="StringNormalizer", dtypes=("string",))
def change_case(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Change the case of ASCII letters, as TensorFlow does without an encoding; the locale C does so everywhere."""
    if node.attributes.get("encoding"):
        raise Unsupported("only ASCII is changed, which needs no encoding: the attribute must be omitted")
    words = node["input"]
    # StringNormalizer takes a vector of at least one word.
    flat = emit.like("Reshape", words, emit.integers(-1))
    some = emit.like("Concat", emit.constant(np.array([""], object)), flat, axis=0)
    case = node.op_type.removeprefix("String").upper()
    changed = emit.like("StringNormalizer", some, case_change_action=case, is_case_sensitive=1, locale="C")
    rest = emit.like("Slice", changed, emit.integers(1), emit.integers(np.iinfo(np.int64).max))
    return (emit.like("Reshape", rest, emit.ints("Shape", words), allowzero=1),)
