"""The types and shapes that a user gives for a graph's inputs: `NAME:DTYPE:2,3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx_sparse.converters.ascend.dtypes import dtype_of_name
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.schemas.declaration import DType


@dataclass(frozen=True)
class Given:
    """What the user gives for an input: its element type and, as far as known, its shape."""

    dtype: DType
    shape: Shape | None = None


#: What the user can do about a shape that is not known.
HOW_TO_GIVE_SHAPES = "; give it with --input-spec or --tensors"

#: An element type, or an element type and a shape; None is an unknown dimension.
InputSpec = str | tuple[str, Sequence[int | None] | None]


def parse_inputs(inputs: Sequence[str] | Mapping[str, InputSpec] | None) -> dict[str, Given]:
    """The inputs by name.

    Raises:
        ConversionError: One is malformed.
    """
    if isinstance(inputs, Mapping):
        return {name: _of_spec(name, spec) for name, spec in inputs.items()}
    given: dict[str, Given] = {}
    for text in inputs or ():
        name, value = parse_input(text)
        if name in given:
            raise ConversionError(f"input {name} is given twice")
        given[name] = value
    return given


def parse_input(text: str) -> tuple[str, Given]:
    """One input: `x:float16:2,3`, `x:float16:?,3`, `x:float16` of any shape, `x:float16:` of rank 0.

    GE's names can contain colons, so the last parts are the type and shape.
    """
    parts = text.split(":")
    for split in (len(parts) - 2, len(parts) - 1):
        name = ":".join(parts[:split])
        dtype = dtype_of_name(parts[split]) if split >= 1 else None
        if name and dtype is not None:
            return name, Given(dtype, _shape(parts[split + 1], text) if split + 1 < len(parts) else None)
    raise ConversionError(
        f"{text!r} is not an input of the form NAME:DTYPE:2,3 with a type such as float16, bf16 or int8"
    )


def _of_spec(name: str, spec: InputSpec) -> Given:
    dtype_name, dims = (spec, None) if isinstance(spec, str) else spec
    dtype = dtype_of_name(dtype_name)
    if dtype is None:
        raise ConversionError(f"input {name}: {dtype_name!r} is not an element type")
    return Given(dtype, None if dims is None else tuple(dims))


def _shape(text: str, whole: str) -> Shape:
    dims: list[int | None] = []
    for part in text.split(",") if text.strip() else ():
        dim = part.strip()
        if dim.isdecimal() and len(dim) < 19:
            dims.append(int(dim))
        elif dim == "?" or dim.isidentifier():
            dims.append(None)
        else:
            raise ConversionError(f"{whole!r}: {dim!r} is not a dimension; expected 2,3 or ?,3")
    return tuple(dims)
