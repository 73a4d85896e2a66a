"""The element types of ONNX Runtime's CPU kernels, for operators whose kernels take fewer types than ONNX allows.

Converters compute other types in a type that has a kernel. float16 is not listed: ONNX Runtime itself goes through
float32, except for operators that do not take it. Source: ONNX Runtime's OperatorKernels.md, and models loaded in the
lowest supported version, whose kernels later versions have as well.
"""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType

_F32, _F64, _I8, _U8 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.UINT8
_I32, _I64, _U32, _U64 = TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64
_F16, _BF16, _BOOL, _STRING = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL, TensorProto.STRING
_I16, _U16 = TensorProto.INT16, TensorProto.UINT16

_FLOATS = frozenset({_F32, _F64})
_ARITHMETIC = _FLOATS | {_I32, _I64}
_ANY_NUMBER = _ARITHMETIC | {_I8, _I16, _U8, _U16, _U32, _U64}
_ALMOST_ALL = _ANY_NUMBER | {_BOOL, _STRING}  # all but bfloat16
_ONLY_FLOAT = frozenset({_F32})

_BY_KERNELS: tuple[tuple[str, frozenset[DType]], ...] = (
    ("Add Sub Mul Div Less LessOrEqual Greater GreaterOrEqual", _ANY_NUMBER),
    ("Pow CumSum TopK ReduceSum", _ARITHMETIC),
    ("ReduceMax ReduceMin ArgMax ArgMin", _ARITHMETIC | {_I8, _U8}),
    ("Max Min", _ARITHMETIC | {_U32, _U64}),
    ("Abs Sign Mod", _ANY_NUMBER),
    ("Sqrt Exp Log Floor Ceil Round Sin Tanh Sigmoid Reciprocal", _FLOATS),
    ("Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf", _ONLY_FLOAT),
    ("Elu Selu Softplus Softsign Mish HardSigmoid HardSwish", _FLOATS),
    ("Conv ConvTranspose LRN AveragePool GlobalAveragePool GridSample", _ONLY_FLOAT),
    ("Softmax LogSoftmax BatchNormalization PRelu IsNaN IsInf SpaceToDepth", _FLOATS),
    ("Neg", _ARITHMETIC | {_I8}),
    ("Relu", _FLOATS | {_I8, _I32}),
    ("Equal", _ANY_NUMBER | {_BOOL, _STRING}),
    ("Where", _ARITHMETIC | {_U8, _STRING}),
    ("ReduceMean", _FLOATS | {_I32}),
    ("ReduceProd", frozenset({_F32, _I32, _I64})),
    ("ReduceL1 ReduceL2", frozenset({_F32, _I32})),
    ("MatMul", _ARITHMETIC | {_U32, _U64}),
    ("MaxPool", _FLOATS | {_I8, _U8}),
    ("Expand Tile GatherND ReverseSequence", _ALMOST_ALL),
    ("Pad", _ARITHMETIC | {_I8, _U8, _U32, _U64, _BOOL}),
    ("Clip", _ARITHMETIC | {_I8, _U8, _U32, _U64}),
    ("Range", _ARITHMETIC | {_I16}),
    ("NonZero", frozenset({_F32, _I32, _I64, _BOOL, _U8})),
    ("Resize", frozenset({_F32, _I32, _I8, _U8})),
    ("DepthToSpace", _FLOATS | {_U8}),
    ("Unique", _FLOATS | {_I8, _I64, _STRING}),
)
KERNELS: dict[str, frozenset[DType]] = {name: types for names, types in _BY_KERNELS for name in names.split()}

#: Operators that do not take float16 in operator set 18.
_WITHOUT_FLOAT16 = frozenset({"IsInf", "Range"})

#: Operators that compute only with their first input; their other inputs are axes, shapes, sizes or positions.
_ONE_OPERAND = frozenset(
    {f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2")}
    | {"CumSum", "Expand", "Tile", "Resize", "GatherND", "ReverseSequence"}
)

#: The types in which to compute types without a kernel, in order of preference.
_WIDER: dict[DType, tuple[DType, ...]] = {
    _BOOL: (_U8, _I32),
    _I8: (_I32, _F32),
    _U8: (_I32, _F32),
    _I16: (_I32, _I64, _F32),
    _U16: (_I32, _I64, _F32),
    _I32: (_I64, _F64, _F32),
    _U32: (_I64, _F64, _F32),
    _I64: (_F64, _I32, _F32),
    _U64: (_I64, _F64, _F32),
    _F16: (_F32,),
    _BF16: (_F32,),
    _F64: (_F32,),
}


def operands(op_type: str) -> slice:
    """The inputs with which an operator computes, whose type must have a kernel."""
    if op_type == "Where":
        return slice(1, None)
    return slice(1) if op_type in _ONE_OPERAND else slice(None)


def computed_in(op_type: str, dtype: DType) -> DType:
    """The type in which ONNX Runtime can compute an operator on a type; the type itself if there is a kernel."""
    kernels = KERNELS.get(op_type)
    if kernels is None or dtype in kernels or (dtype == _F16 and op_type not in _WITHOUT_FLOAT16):
        return dtype
    return next((wider for wider in _WIDER.get(dtype, ()) if wider in kernels), dtype)
