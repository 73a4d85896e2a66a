"""OpenVINO's element types: their names in an IR, their ONNX types, and how a .bin stores them."""

from __future__ import annotations

from onnx import TensorProto

#: The ONNX type of each element type, by OpenVINO's name. Types narrower than a byte and the 8-bit floats, which ONNX
#: has only in later operator sets, are carried by the next type that can hold all their values.
ONNX_TYPES: dict[str, TensorProto.DataType] = {
    "f64": TensorProto.DOUBLE,
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "i16": TensorProto.INT16,
    "i8": TensorProto.INT8,
    "u64": TensorProto.UINT64,
    "u32": TensorProto.UINT32,
    "u16": TensorProto.UINT16,
    "u8": TensorProto.UINT8,
    "boolean": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "i4": TensorProto.INT8,
    "u4": TensorProto.UINT8,
    "u1": TensorProto.UINT8,
    "u2": TensorProto.UINT8,
    "nf4": TensorProto.FLOAT,
    "f8e4m3": TensorProto.FLOAT16,
    "f8e5m2": TensorProto.FLOAT16,
    "f8e8m0": TensorProto.FLOAT,
    "f4e2m1": TensorProto.FLOAT16,
}

#: Types carried by another type in ONNX. Constants may have them, and layers that move their elements; nothing can be
#: converted to them or computed in them.
CARRIED = frozenset({"i4", "u4", "u1", "u2", "nf4", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1"})

#: The layers that only move elements, or are constants.
MOVING = frozenset(
    {"Const", "Constant", "Broadcast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze",
     "StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"}
)  # fmt: skip

#: The number of elements of a narrow type in a byte.
PER_BYTE = {"i4": 2, "u4": 2, "nf4": 2, "f4e2m1": 2, "u1": 8, "u2": 4}

#: OpenVINO's values of nf4, QLoRA's 4-bit normal float.
NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
