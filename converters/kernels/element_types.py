"""In which element types ONNX Runtime can compute an operator on types for which it has no kernel.

float16 has a kernel nearly everywhere: ONNX Runtime itself goes through float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from onnx import TensorProto, defs
from onnx.defs import OpSchema

from onnx_sparse.converters.kernels.table import MIXED, lacking, operators
from onnx_sparse.schemas.declaration import DType, dtype_name

_F32, _F64, _I8, _U8 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.UINT8
_I32, _I64, _U32, _U64 = TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64
_F16, _BF16, _BOOL = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL
_I16, _U16 = TensorProto.INT16, TensorProto.UINT16

#: The types in which to compute types without a kernel, in order of preference.
_WIDER: dict[DType, tuple[DType, ...]] = {
    _BOOL: (_U8, _I8, _I32),
    _I8: (_I32, _I64, _F32),
    _U8: (_I32, _I64, _F32),
    _I16: (_I32, _I64, _F32),
    _U16: (_I32, _I64, _F32, _U32),
    _I32: (_I64, _F64, _F32),
    _U32: (_I64, _F64, _F32),
    _I64: (_F64,),
    _U64: (_I64, _F64),
    _F16: (_F32,),
    _BF16: (_F32,),
    _F64: (_F32,),
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4), (_I8, _I32, _F32)),
    **dict.fromkeys(
        (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ),
        (_F16, _F32),
    ),
}

#: Operators whose results follow from a type itself.
_OF_THE_TYPE = frozenset(
    {"BitCast", "Cast", "CastLike", "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
     "QLinearConv", "QLinearMatMul", "QuantizeLinear"}
)  # fmt: skip
#: Operators that a uint64 above the largest int64 does not survive as a negative number.
_NOT_IN_INT64 = frozenset({"PRelu", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"})
#: Operators that only ask whether numbers are 0, which a bool tells of all of them.
_OF_BOOLS = frozenset({"NonZero"})

_VARIADIC = OpSchema.FormalParameterOption.Variadic


def limited_operators() -> tuple[str, ...]:
    """The operators whose kernels lack some element type that a wider one replaces."""
    return tuple(sorted(operators() - _OF_THE_TYPE))


def input_variable(op_type: str, position: int, opset: int) -> str:
    """The type variable of an input; the type itself if it can have only one, and "" if there is no such input."""
    return _variable(_variables(op_type, opset)[0], position)


def output_variable(op_type: str, position: int, opset: int) -> str:
    """The type variable of an output; the type itself if it can have only one, and "" if there is no such output."""
    return _variable(_variables(op_type, opset)[1], position)


def _variable(declared: tuple[tuple[str, bool], ...], position: int) -> str:
    if position >= len(declared) and declared and declared[-1][1]:
        return declared[-1][0]
    return declared[position][0] if position < len(declared) else ""


@cache
def _variables(op_type: str, opset: int) -> tuple[tuple[tuple[str, bool], ...], ...]:
    """The types of the inputs, and those of the outputs; and whether any number of them may follow."""
    if not defs.has(op_type, opset):
        return (), ()
    schema = defs.get_schema(op_type, opset)
    return tuple(
        tuple((each.type_str, each.option == _VARIADIC) for each in parameters)
        for parameters in (schema.inputs, schema.outputs)
    )


@cache
def attribute_names(op_type: str, opset: int) -> frozenset[str]:
    """The attributes of an operator."""
    return frozenset(defs.get_schema(op_type, opset).attributes)


def has_kernel(op_type: str, variable: str, dtype: DType, opset: int, *, mixed: bool = False) -> bool:
    """Whether every supported version has a kernel for a type; `mixed` if other variables have other types."""
    without, name = lacking(f"{op_type} {variable}", opset), dtype_name(dtype)
    return name not in without and not (mixed and f"{MIXED}{name}" in without)


def is_refused(op_type: str, variable: str, dtype: DType, opset: int) -> bool:
    """Whether no supported version has a kernel for a type."""
    return lacking(f"{op_type} {variable}", opset).get(dtype_name(dtype), False)


def is_mixed(op_type: str, types: Mapping[str, DType], variable: str, opset: int) -> bool:
    """Whether another variable that may have the type of one has another type."""
    dtype = types[variable]
    return any(
        other != dtype and not name.startswith("tensor(") and dtype in _allowed(op_type, name, opset)
        for name, other in types.items()
    )


def computed_as_one(op_type: str, types: Mapping[str, DType], opset: int) -> DType:
    """The widest of several types, if they are floats that an operator has kernels for alone, and not for all of them.

    Args:
        op_type: The operator.
        types: The types of the variables that may have each other's type, and have not.
        opset: The operator set of the model.

    Returns:
        The type; 0 where another one has to be found for each variable.
    """
    has_all = all(has_kernel(op_type, variable, dtype, opset, mixed=True) for variable, dtype in types.items())
    if has_all or not set(types.values()) <= {_F16, _BF16, _F32, _F64}:
        return 0
    widest = _F64 if _F64 in types.values() else _F32
    return widest if all(has_kernel(op_type, variable, widest, opset) for variable in types) else 0


@cache
def computed_in(op_type: str, variable: str, dtype: DType, opset: int, *, mixed: bool = False) -> DType:
    """The type in which ONNX Runtime can compute an operator on a type.

    Args:
        op_type: The operator.
        variable: Its type variable that has this type.
        dtype: The type.
        opset: The operator set of the model.
        mixed: Whether another variable that may have this type has another one.

    Returns:
        A type with a kernel; the type itself if it has one, or if no other type does. Types that ONNX does not allow
        have none.
    """
    allowed = _allowed(op_type, variable, opset)
    if op_type in _OF_THE_TYPE or not allowed:
        return dtype
    if dtype in allowed and has_kernel(op_type, variable, dtype, opset, mixed=mixed):
        return dtype
    wider = (_BOOL,) if op_type in _OF_BOOLS and dtype != TensorProto.STRING else _WIDER.get(dtype, ())
    if dtype in (_I64, _U64) and dtype not in allowed:  # functions of floats, which other sources take of integers, too
        wider = (*wider, _F32)
    for other in wider:
        is_negative = dtype == _U64 and other == _I64 and op_type in _NOT_IN_INT64
        if other in allowed and has_kernel(op_type, variable, other, opset) and not is_negative:
            return other
    return dtype


def kernel_types(op_type: str, variable: str, opset: int) -> list[DType]:
    """The types for which every supported version has a kernel."""
    return [t for t in sorted(_allowed(op_type, variable, opset)) if has_kernel(op_type, variable, t, opset)]


@cache
def _allowed(op_type: str, variable: str, opset: int) -> frozenset[DType]:
    """The types that a variable may have; none if there is no such variable."""
    if not defs.has(op_type, opset):
        return frozenset()
    constraints = defs.get_schema(op_type, opset).type_constraints
    allowed = [text for c in constraints if c.type_param_str == variable for text in c.allowed_type_strs]
    names = [text.removeprefix("tensor(").removesuffix(")").upper() for text in allowed if text.startswith("tensor(")]
    return frozenset(int(TensorProto.DataType.Value(name)) for name in names if not name.startswith("COMPLEX"))
