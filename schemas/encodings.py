"""Operators that read and write encoded bytes: base64, the memory of numbers, compressed data, serialized tensors."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import NUMBERS, DType

_BODY_NOTES = "It has no operator that reads the bytes of a string."

_NO_PYTHON_KERNELS = (
    "onnxruntime-extensions cuts strings at their first zero byte, and ends the process on bytes that are not UTF-8"
)

_BYTES = """
- See [text is bytes](../text.md) for how programs pass and get strings that are not UTF-8."""

#: TensorFlow's number of each element type, the field with its values, and their wire type in a TensorProto.
TENSOR_TYPES: dict[DType, tuple[int, int, int]] = {
    TensorProto.FLOAT: (1, 5, 5),
    TensorProto.DOUBLE: (2, 6, 1),
    TensorProto.INT32: (3, 7, 0),
    TensorProto.UINT8: (4, 7, 0),
    TensorProto.INT16: (5, 7, 0),
    TensorProto.INT8: (6, 7, 0),
    TensorProto.STRING: (7, 8, 2),
    TensorProto.INT64: (9, 10, 0),
    TensorProto.BOOL: (10, 11, 0),
    TensorProto.BFLOAT16: (14, 13, 0),
    TensorProto.UINT16: (17, 7, 0),
    TensorProto.FLOAT16: (19, 13, 0),
    TensorProto.UINT32: (22, 16, 0),
    TensorProto.UINT64: (23, 17, 0),
}

_LIKE = Input("like", "T", "", "A scalar of the output's element type; its value does not count.")

DECODE_BASE64 = Op(
    name="DecodeBase64",
    summary="Reads strings in web-safe base64.",
    semantics="""
`output[i]` has the bytes that `input[i]` stands for, in the alphabet of RFC 4648, section 5 (`-` and `_` in place of
`+` and `/`).

- The characters `=` at the end may be omitted. If there are any, they must make the length a multiple of four. Unused
  bits of the last character do not count.
- Any other byte, and a length that no bytes have, is an error.
""".strip()
    + _BYTES,
    source="tf.raw_ops.DecodeBase64",
    inputs=(Input("input", "string", "*S", "The encoded strings.", Values("base64")),),
    outputs=(Output("output", "string", "*S", "The decoded bytes."),),
    types={},
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "with and without padding",
            {},
            {"input": ["", "YQ==", "YQ", "4oKs", "Pz8_"]},
            {"output": ["", "a", "a", "€", "???"]},
        ),
    ),
)

ENCODE_BASE64 = Op(
    name="EncodeBase64",
    summary="Writes strings in web-safe base64.",
    semantics="""
`output[i]` stands for the bytes of `input[i]` in the alphabet of RFC 4648, section 5 (`-` and `_` in place of `+` and
`/`). With `padding` = `EQUALS`, characters `=` at the end make its length a multiple of four.
""".strip()
    + _BYTES.replace("\n", "\n\n", 1),
    source="tf.raw_ops.EncodeBase64",
    inputs=(Input("input", "string", "*S", "The strings."),),
    outputs=(Output("output", "string", "*S", "The encoded strings."),),
    types={},
    attributes=(Attribute("padding", ("NONE", "EQUALS"), "What fills up the last four characters.", "NONE"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example("unpadded", {}, {"input": [["", "a"], ["€", "???"]]}, {"output": [["", "YQ"], ["4oKs", "Pz8_"]]}),
        Example("padded", {}, {"input": "a"}, {"output": "YQ=="}, {"padding": "EQUALS"}),
    ),
)

DECODE_RAW = Op(
    name="DecodeRaw",
    summary="Reads the bytes of strings as numbers.",
    semantics="""
`output[i]` has the numbers whose memory `input[i]` is, of the element type of `like`, in the order of bytes
`byte_order`.

- With `fixed_length` = -1 all strings must have the same number of bytes, a multiple of the size of a number; L is the
  number of numbers in each. Without strings it is 0.
- With another `fixed_length`, as many bytes of each string count; zero bytes follow a shorter string. It must be a
  multiple of the size of a number, and not 0.
- A byte other than 0 is the boolean true.
""".strip()
    + _BYTES,
    source="tf.raw_ops.DecodeRaw, tf.raw_ops.DecodePaddedRaw",
    inputs=(
        Input("input", "string", "*S", "The strings.", Values("raw")),
        Input("fixed_length", "int64", "", "How many bytes of each string count; -1: all."),
        _LIKE,
    ),
    outputs=(Output("output", "T", "*S, L", "The numbers in each string."),),
    types={"T": (*NUMBERS, TensorProto.BOOL)},
    attributes=(Attribute("byte_order", ("LITTLE", "BIG"), "Which byte of a number comes first.", "LITTLE"),),
    body_notes=_BODY_NOTES,
    no_python_kernels=_NO_PYTHON_KERNELS,
    examples=(
        Example(
            "16-bit integers",
            {"T": TensorProto.INT16},
            {"input": ["abcd", "  !!"], "fixed_length": -1, "like": 0},
            {"output": [[25185, 25699], [8224, 8481]]},
            {"byte_order": "LITTLE"},
        ),
        Example(
            "strings that are filled up, and cut off",
            {"T": TensorProto.UINT16},
            {"input": ["abc", "", "abcdef"], "fixed_length": 4, "like": 0},
            {"output": [[24930, 25344], [0, 0], [24930, 25444]]},
            {"byte_order": "BIG"},
        ),
    ),
)

DECODE_COMPRESSED = Op(
    name="DecodeCompressed",
    summary="Decompresses strings.",
    semantics="""
`output[i]` has the bytes that `input[i]` has compressed: in the format of zlib (RFC 1950, `compression` = `ZLIB`) or of
gzip (RFC 1952, `GZIP`).

- The empty string gives the empty string. Consecutive members of gzip are decompressed one after another. Bytes after
  the end of zlib's data are ignored.
- Damaged data, and data that end too soon, are an error.
- The decompressed strings of a run have at most 1 GiB together; the environment variable `ONNX_SPARSE_DECOMPRESSED_MIB`
  sets another limit. More is an error.
- Only a native library that was built with zlib has this kernel; another one reports an error when it runs.
""".strip()
    + _BYTES,
    source="tf.raw_ops.DecodeCompressed, which returns the decompressed part of data that end too soon",
    inputs=(Input("input", "string", "*S", "The compressed strings.", Values("compressed")),),
    outputs=(Output("output", "string", "*S", "The decompressed bytes."),),
    types={},
    attributes=(Attribute("compression", ("ZLIB", "GZIP"), "The format."),),
    body_notes=_BODY_NOTES,
    no_python_kernels=_NO_PYTHON_KERNELS,
    examples=(Example("nothing", {}, {"input": ["", ""]}, {"output": ["", ""]}, {"compression": "GZIP"}),),
)

PARSE_TENSOR = Op(
    name="ParseTensor",
    summary="Reads a serialized tensor of TensorFlow.",
    semantics="""
`serialized` is a TensorProto of TensorFlow, such as `tf.io.serialize_tensor` writes it. It must have the element type
of `like`. `output` has its shape and its values.

- The values are in `tensor_content`, which must have as many bytes as they take, or else in the list for the element
  type. If a list has fewer values than elements, its last value is repeated; an empty list means zeros or empty
  strings. Values after the last element do not count. Numbers in lists of wider integers are cut to their type.
- Strings are not in `tensor_content`. Booleans there are 0 and 1.
- A tensor of unknown rank is one without dimensions. A dimension below 0 is an error, and so is a message that
  is not a TensorProto.
""".strip()
    + _BYTES,
    source="tf.raw_ops.ParseTensor",
    inputs=(Input("serialized", "string", "", "The message.", Values("tensor_message")), _LIKE),
    outputs=(Output("output", "T", "*U", "The tensor."),),
    types={"T": (*NUMBERS, TensorProto.BOOL, TensorProto.STRING)},
    body_notes=_BODY_NOTES,
    no_python_kernels=_NO_PYTHON_KERNELS,
    examples=(
        Example(
            "a vector of integers whose last one is repeated",
            {"T": TensorProto.INT32},
            {"serialized": "\x08\x03\x12\x04\x12\x02\x08\x03:\x02\x07\x05", "like": 0},
            {"output": [7, 5, 5]},
        ),
        Example(
            "a scalar",
            {"T": TensorProto.STRING},
            {"serialized": "\x08\x07B\x05words", "like": ""},
            {"output": "words"},
        ),
    ),
)

FAMILY = Family(
    "encodings",
    (DECODE_BASE64, ENCODE_BASE64, DECODE_RAW, DECODE_COMPRESSED, PARSE_TENSOR),
    origin="`tf.io.decode_base64`, `encode_base64`, `decode_raw`, `decode_compressed`, `parse_tensor`",
)
