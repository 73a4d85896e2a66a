"""ATB FillOperation: `MaskedFill` with a mask, `Fill` without, by ATB's own rules.

The rules are checked in ATB's order: parameters (CreateOperation), number of inputs, rank and size of each tensor,
element types and format, the chip's support of bfloat16, shapes (InferShape), the declared output (Setup).
"""

from __future__ import annotations

import re

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.atb.records import TensorRecord
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.shapes import element_count
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor, shape_text
from onnx_sparse.schemas.declaration import DType, dtype_name, numpy_dtype

_MOST_DIMS = 8
_MOST_BYTES = 256 * 2**30
_FLOAT16_MAX = 65504.0
_INT32_RANGE = 2.0**31
_X_TYPES = (TensorProto.FLOAT16, TensorProto.INT32, TensorProto.BFLOAT16)
_MASK_TYPES = (TensorProto.INT8, TensorProto.BOOL)
#: Chips without bfloat16, as `SocVersion` names them: Ascend910 is Ascend910A; Ascend910B and Ascend910_93 have it.
_WITHOUT_BFLOAT16 = re.compile(r"ascend(310.*|910|910a.*|910pro[ab].*)", re.IGNORECASE)


@handles(
    "Fill", to="MaskedFill, Fill", notes="float16 values saturate; --fp16-overflow ieee for Ascend 950", exact=True
)
def fill(node: Node, emit: AscendEmitter) -> Results:
    """FillOperation: `x` where `mask` is 0, else the value; or a tensor of shape `outDim` filled with it."""
    # The default of withMask is true in ATB's struct and false in the JSON of MindIE's atb_torch.
    with_mask = node.params.flag("withMask", not node.from_mindie)
    dims = node.params.integers("outDim")
    _check_parameters(node, dims, with_mask=with_mask)
    if with_mask:
        x, mask = node.take(2)
        _check_tensors(node, x, mask)
        value = emit.constant(fill_value(node, x.dtype), x.dtype)
        return emit.domain_op("MaskedFill", {"x": x, "mask": mask, "value": value})
    node.take(0)
    if any(dim < 0 for dim in dims):
        refuse("ERROR_INVALID_TENSOR_DIM", f"outDim {dims} has a negative dimension")
    _check_size("the output", tuple(dims), TensorProto.FLOAT16)
    _check_output(node, Tensor("y", TensorProto.FLOAT16, tuple(dims)))
    value = emit.constant(fill_value(node, TensorProto.FLOAT16), TensorProto.FLOAT16)
    return emit.domain_op("Fill", {"dims": emit.constant(dims), "value": value})


def fill_value(node: Node, dtype: DType) -> np.generic:
    """FillParam.value as the NPU's host code converts it: from float32 to the element type.

    float16 saturates, infinities and NaN included (NaN by its sign), unless `fp16_overflow` is `ieee`; bfloat16 is
    rounded to even and keeps infinities; int32 is truncated toward zero.
    """
    number = node.params.numbers("value")[0]
    if number is None:
        if node.choices.fill_value is None:
            raise Unsupported(
                "value is null: an infinity or NaN that the dump could not write; "
                "say which with --fill-value, for example --fill-value=-inf"
            )
        number = node.choices.fill_value
    with np.errstate(over="ignore"):
        value = np.float32(number)
    if dtype == TensorProto.INT32:
        if not -_INT32_RANGE <= float(np.trunc(value)) < _INT32_RANGE:
            raise Unsupported(f"value {value} is outside of int32: what the NPU fills with depends on its host")
        return np.int32(np.trunc(value))
    if dtype == TensorProto.FLOAT16 and node.choices.fp16_overflow != "ieee":
        if np.isnan(value):
            value = np.float32(-_FLOAT16_MAX if np.signbit(value) else _FLOAT16_MAX)
        value = np.clip(value, np.float32(-_FLOAT16_MAX), np.float32(_FLOAT16_MAX))
    with np.errstate(over="ignore"):
        converted: np.generic = numpy_dtype(dtype).type(value)
    return converted


def _check_parameters(node: Node, dims: list[int], *, with_mask: bool) -> None:
    if any(node.params.integers("rsv")):
        refuse("ERROR_INVALID_PARAM", "rsv is reserved and must be zero")
    count = len(node.params.numbers("value"))
    if count != 1:
        refuse("ERROR_INVALID_PARAM", f"value has {count} elements, exactly 1 expected")
    if not with_mask and not 0 < len(dims) <= _MOST_DIMS:
        refuse("ERROR_INVALID_PARAM", f"outDim has {len(dims)} dimensions, 1 to {_MOST_DIMS} expected")


def _check_tensors(node: Node, x: Tensor, mask: Tensor) -> None:
    for name, tensor in (("x", x), ("mask", mask)):
        _check_size(name, tensor.shape, tensor.dtype)
    for name, tensor, types in (("x", x, _X_TYPES), ("mask", mask, _MASK_TYPES)):
        if tensor.dtype not in types:
            expected = ", ".join(map(dtype_name, types))
            refuse("ERROR_INVALID_TENSOR_INI_MATCH", f"{name} is {dtype_name(tensor.dtype)}; {expected} expected")
    for name, record in zip(("x", "mask"), node.record.inputs, strict=False):
        _check_format(name, record)
    if x.dtype == TensorProto.BFLOAT16 and _WITHOUT_BFLOAT16.fullmatch(node.record.soc):
        refuse("ERROR_INVALID_TENSOR_DTYPE", f"{node.record.soc} has no bfloat16")
    if x.shape is not None and mask.shape is not None:
        _check_mask_shape(x.shape, mask.shape)
    _check_output(node, x)


def _check_mask_shape(x: Shape, mask: Shape) -> None:
    if len(mask) > len(x):
        refuse("ERROR_INVALID_TENSOR_DIM", f"mask {shape_text(mask)} has a higher rank than x {shape_text(x)}")
    for m, size in zip(reversed(mask), reversed(x), strict=False):
        if m is not None and size is not None and m not in (1, size):
            refuse(
                "ERROR_INVALID_TENSOR_DIM",
                f"mask {shape_text(mask)} does not broadcast to x {shape_text(x)}, and x is never broadcast",
            )


def _check_size(name: str, shape: Shape | None, dtype: DType) -> None:
    if shape is None:
        return
    if not 1 <= len(shape) <= _MOST_DIMS:
        refuse("ERROR_INVALID_TENSOR_DIM", f"{name} is of rank {len(shape)}, 1 to {_MOST_DIMS} expected")
    size = element_count(shape)
    if 0 in shape or (size is not None and size * numpy_dtype(dtype).itemsize > _MOST_BYTES):
        refuse("ERROR_INVALID_TENSOR_SIZE", f"{name} {shape_text(shape)} is empty or larger than 256 GiB")


def _check_output(node: Node, expected: Tensor) -> None:
    """Check the output that a dump declares against the operation's result, as ATB does at Setup."""
    if not node.record.outputs or node.record.outputs[0] is None:
        return
    record = node.record.outputs[0]
    if record.dtype is not None and record.dtype != expected.dtype:
        refuse(
            "ERROR_INVALID_TENSOR_INI_MATCH",
            f"the output is declared {dtype_name(record.dtype)}, {dtype_name(expected.dtype)} expected",
        )
    _check_format("the output", record)
    if record.shape is None or expected.shape is None:
        return
    fits = len(record.shape) == len(expected.shape) and all(
        None in pair or pair[0] == pair[1] for pair in zip(record.shape, expected.shape, strict=True)
    )
    if not fits:
        refuse(
            "ERROR_INVALID_TENSOR_DIM",
            f"the output is declared {shape_text(record.shape)}, {shape_text(expected.shape)} expected",
        )


def _check_format(name: str, record: TensorRecord | None) -> None:
    if record is not None and record.format not in (None, "", "ND", "UNDEFINED"):
        refuse("ERROR_INVALID_TENSOR_INI_MATCH", f"the format of {name} is {record.format}, ND expected")
