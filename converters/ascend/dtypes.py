"""Element types in Ascend's files: aclDataType numbers, ge.proto numbers, and names."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType

#: aclDataType and ge::DataType, which have the same numbers: ATB's parameters, headers of .bin files, GE's attributes.
ACL: dict[int, DType] = {
    0: TensorProto.FLOAT,
    1: TensorProto.FLOAT16,
    2: TensorProto.INT8,
    3: TensorProto.INT32,
    4: TensorProto.UINT8,
    6: TensorProto.INT16,
    7: TensorProto.UINT16,
    8: TensorProto.UINT32,
    9: TensorProto.INT64,
    10: TensorProto.UINT64,
    11: TensorProto.DOUBLE,
    12: TensorProto.BOOL,
    27: TensorProto.BFLOAT16,
}

#: aclDataType numbers of the element types that no handler computes with.
ACL_NAMES = {
    13: "string",
    16: "complex64",
    17: "complex128",
    29: "int4",
    30: "uint1",
    33: "complex32",
    34: "hifloat8",
    35: "float8_e5m2",
    36: "float8_e4m3fn",
    37: "float8_e8m0",
    38: "float6_e3m2",
    39: "float6_e2m3",
    40: "float4_e2m1",
    41: "float4_e1m2",
}

#: ge.proto.DataType, which has other numbers: tensor descriptors of GE graphs.
GE_PROTO: dict[int, DType] = {
    1: TensorProto.FLOAT,
    2: TensorProto.FLOAT16,
    3: TensorProto.INT8,
    4: TensorProto.UINT8,
    5: TensorProto.INT16,
    6: TensorProto.UINT16,
    7: TensorProto.INT32,
    8: TensorProto.INT64,
    9: TensorProto.UINT32,
    10: TensorProto.UINT64,
    11: TensorProto.BOOL,
    12: TensorProto.DOUBLE,
    13: TensorProto.STRING,
    27: TensorProto.BFLOAT16,
}

_NAMES: dict[str, DType] = {
    "float": TensorProto.FLOAT,
    "float32": TensorProto.FLOAT,
    "fp32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "half": TensorProto.FLOAT16,
    "fp16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "double": TensorProto.DOUBLE,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
    **{
        f"{kind}{bits}": TensorProto.DataType.Value(f"{kind}{bits}".upper())
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
}

#: aclFormat numbers by name, for `format=` in .bin headers.
FORMATS = {-1: "UNDEFINED", 0: "NCHW", 1: "NHWC", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 29: "FRACTAL_NZ", 30: "NCDHW"}


def dtype_of_name(text: str) -> DType | None:
    """The element type of a name: `float16`, `ACL_FLOAT16`, `DT_FLOAT16`, `torch.float16`; None for other names."""
    name = text.strip().lower()
    for prefix in ("acl_", "dt_", "torch."):
        name = name.removeprefix(prefix)
    return _NAMES.get(name)
