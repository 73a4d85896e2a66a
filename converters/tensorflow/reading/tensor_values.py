"""The values in TensorProto messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type, type_name
from onnx_sparse.schemas.declaration import numpy_dtype

#: The most elements of a constant; a damaged file may claim any number.
MOST_ELEMENTS = 2**40
#: The most elements of which a constant may hold one value only, to be repeated.
MOST_REPEATED = 2**31

#: The fields that hold the values of each type where they are not bytes.
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val", "int16": "int_val",
    "int8": "int_val", "uint16": "int_val", "string": "string_val", "int64": "int64_val", "bool": "bool_val",
    "uint32": "uint32_val", "uint64": "uint64_val",
    "float16": "half_val", "bfloat16": "half_val", "complex64": "scomplex_val", "complex128": "dcomplex_val",
}  # fmt: skip


def shape_of(proto: Any) -> tuple[int | None, ...] | None:
    """The shape in a TensorShapeProto; None is an unknown rank or dimension."""
    if proto.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else int(dim.size) for dim in proto.dim)


def array_of(proto: Any) -> Array:
    """The array in a TensorProto; strings are bytes in an array of objects.

    Fewer values than elements are completed by the last one, and none by zeros, as TensorFlow does it.

    Raises:
        Unsupported: It has a type that is none of numbers or strings, or its values do not fit its shape.
    """
    dtype = _numpy_type(proto.dtype)
    dims = tuple(int(dim.size) for dim in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or min(dims, default=0) < 0:
        raise Unsupported("the shape of the constant is not known")
    count = math.prod(dims)
    if count > MOST_ELEMENTS:
        raise Unsupported(f"a constant of shape {list(dims)} is too large")
    if proto.tensor_content:
        if dtype.hasobject:
            raise Unsupported("a constant of strings is written as bytes")
        if len(proto.tensor_content) != count * dtype.itemsize:
            raise Unsupported(
                f"a constant {type_name(proto.dtype)}{list(dims)} has {len(proto.tensor_content)} bytes, not "
                f"{count * dtype.itemsize}"
            )
        return np.frombuffer(proto.tensor_content, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(dims)
    values = _values(proto, dtype)
    if len(values) > count:
        raise Unsupported(f"a constant of shape {list(dims)} has {len(values)} values")
    if len(values) == count:
        return values.reshape(dims)
    if count > MOST_REPEATED:
        raise Unsupported(f"a constant of shape {list(dims)} is too large")
    if len(values) < 2:
        empty = b"" if dtype.hasobject else dtype.type(0)
        one = np.empty((), dtype)
        one[()] = values[0] if len(values) else empty
        return np.broadcast_to(one, dims)
    rest = np.broadcast_to(values[-1:], (count - len(values),))
    return np.concatenate([values, rest]).reshape(dims)


def _numpy_type(number: int) -> np.dtype[Any]:
    """The type of the elements of an array; ONNX Runtime computes with all but complex ones."""
    name = type_name(number)
    if name == "string":
        return np.dtype(object)
    return np.dtype(name) if name.startswith("complex") else numpy_dtype(onnx_type(number))


def _values(proto: Any, dtype: np.dtype[Any]) -> Array:
    name = type_name(proto.dtype)
    held = getattr(proto, _FIELDS[name])
    if name == "string":
        texts = np.empty(len(held), object)
        texts[:] = list(held)
        return texts
    if dtype.kind == "c":  # real and imaginary parts in turn
        return np.array(held[: len(held) // 2 * 2], dtype.type(0).real.dtype).view(dtype)
    if name in ("float16", "bfloat16"):
        return np.array(held, np.int64).astype(np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        wide = np.array(held, np.uint64 if name.startswith("uint") else np.int64 if name.startswith("int") else dtype)
        return wide.astype(dtype)
