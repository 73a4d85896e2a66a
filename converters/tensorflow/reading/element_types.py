"""TensorFlow's element types: their numbers, names, and what they are in numpy and in ONNX."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.schemas.declaration import DType

#: TensorFlow's names by number.
NAMES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64",
    10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16",
    18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2",
    25: "float8_e4m3fn", 26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz", 29: "int4",
    30: "uint4", 31: "int2", 32: "uint2",
}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}

#: The types that tensors of a model may have, in ONNX.
ONNX_TYPES: dict[int, DType] = {
    1: TensorProto.FLOAT, 2: TensorProto.DOUBLE, 3: TensorProto.INT32, 4: TensorProto.UINT8, 5: TensorProto.INT16,
    6: TensorProto.INT8, 7: TensorProto.STRING, 9: TensorProto.INT64, 10: TensorProto.BOOL, 14: TensorProto.BFLOAT16,
    17: TensorProto.UINT16, 19: TensorProto.FLOAT16, 22: TensorProto.UINT32, 23: TensorProto.UINT64,
}  # fmt: skip

RESOURCE = NUMBERS["resource"]
VARIANT = NUMBERS["variant"]
#: A reference to a variable of TensorFlow 1 is of a type with a number that much larger.
REFERENCE = 100


def type_name(number: int) -> str:
    """TensorFlow's name of an element type, or its number if it has none."""
    return NAMES.get(number % REFERENCE, str(number))


def onnx_type(number: int) -> DType:
    """ONNX's element type for TensorFlow's.

    Raises:
        Unsupported: There is none.
    """
    found = ONNX_TYPES.get(number % REFERENCE)
    if found is None:
        raise Unsupported(f"it is {type_name(number)}, a type that ONNX Runtime does not compute with")
    return found
