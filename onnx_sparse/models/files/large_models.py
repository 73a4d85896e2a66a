"""Models whose tables lie elsewhere: loaded without them, rewritten without them, and whole again where one asks."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor, uses_external_data

from onnx_sparse.errors import about_data
from onnx_sparse.files.ranges import FileRange, Part, StoredFile, damage
from onnx_sparse.models.data.references import (
    LEAST,
    array_of_reference,
    byte_size,
    data_of,
    holding_arrays,
    is_packed,
    is_reference,
    length_of,
    put_back,
    refer,
    state_place,
)
from onnx_sparse.models.files.data_parts import parts_of
from onnx_sparse.models.files.model_files import make_whole, model_of, read_light_model
from onnx_sparse.models.graphs import all_tensors
from onnx_sparse.schemas.declaration import numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.models.files.model_files import ModelSource

Array = np.ndarray[Any, Any]
Options = ParamSpec("Options")

#: A model of more bytes is not made whole: well below the 2 GiB that protobuf can serialize.
LARGE = 1 << 30

#: Parts of files that are compared with their checksums when a small tensor is read from them: 0.1 s at the most.
_MOST_COMPARED = 1 << 26


def load(path: str | os.PathLike[str]) -> ModelProto:
    """The model of a file, whose tables stay where they lie: its large tensors are references.

        model = onnx_sparse.load("model.onnx")

    Functions of this package take such a model, and `onnx_sparse.save` writes it; onnx and ONNX Runtime do not know
    where its tables are. Tensors below 64 KiB are read, and so are tensors whose data do not have the length of their
    type and shape.

    Args:
        path: The file. As for onnx, external data are in its folder only.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ONNX model, or its external data cannot be read.
    """
    model = read_light_model(path)
    resolve(model, Path(path))
    return model


def resolve(model: ModelProto, path: Path) -> None:
    """Let large tensors whose data are beside a model's file refer to them, and read the others; see `load`."""
    files: dict[str, StoredFile] = {}
    parts: dict[str, Sequence[Part]] = {**parts_of(model)}
    for tensor in all_tensors(model):
        if not uses_external_data(tensor) or is_reference(tensor):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # onnx tells of keys that it does not know, and goes on
                if (found := _range(tensor, path.parent, files, parts)) is None:
                    _require_whole(tensor, path.parent, parts)
                    load_external_data_for_tensor(tensor, os.fspath(path.parent))
                    tensor.data_location = TensorProto.DEFAULT  # which not every version of onnx sets
                    tensor.ClearField("external_data")
                else:
                    refer(tensor, found)
        except Exception as error:  # OSError, and onnx's own for paths outside the folder and files that are too short
            raise ValueError(f"{path}: its external data cannot be read: {about_data(str(error))}") from error


def _range(
    tensor: TensorProto, folder: Path, files: dict[str, StoredFile], parts: Mapping[str, Sequence[Part]]
) -> FileRange | None:
    """Where a large tensor's data are; None for one that is to be read.

    Raises:
        Exception: onnx refuses to read the file.
        ValueError: It ends too early.
    """
    info, size = ExternalDataInfo(tensor), byte_size(tensor)
    if size is None or size < LEAST or size != info.length:
        return None
    offset = info.offset or 0
    if info.location not in files:
        first = TensorProto(name=tensor.name)  # a byte, for which onnx examines the path
        for key, value in (("location", info.location), ("offset", "0"), ("length", "1")):
            first.external_data.add(key=key, value=value)
        load_external_data_for_tensor(first, os.fspath(folder))
        files[info.location] = StoredFile.of(folder / info.location, parts=parts.get(info.location, ()))
    file = files[info.location]
    if offset + size > file.size:
        raise ValueError(
            f"External data length ({size}) exceeds available data ({max(0, file.size - offset)} bytes from offset "
            f"{offset} of {file.path}) for tensor {tensor.name!r}"
        )
    return FileRange(file, offset, size)


def _require_whole(tensor: TensorProto, folder: Path, parts: dict[str, Sequence[Part]]) -> None:
    """Compare the part of a file from which a tensor is read with its checksum, once.

    A large part is compared when something is written: a larger tensor refers to it.

    Raises:
        ValueError: It does not have its checksum.
    """
    info, size = ExternalDataInfo(tensor), byte_size(tensor) or 0
    begin, left = info.offset or 0, list[Part]()
    for part in parts.get(info.location, ()):
        end = part.named if part.end is None else part.end
        if end - part.begin > _MOST_COMPARED or begin >= end or begin + size <= part.begin:
            left.append(part)
        elif found := damage(folder / info.location, part):
            raise ValueError(f"{info.location} is damaged: {found}")
    parts[info.location] = left


def whole_size(model: ModelProto) -> int:
    """The bytes of a model with the data of its references."""
    return int(model.ByteSize()) + sum(map(length_of, filter(is_reference, all_tensors(model))))


def refers_to_arrays(model: ModelProto) -> bool:
    """Whether a model refers to arrays of this process."""
    return any(is_reference(t) and not isinstance(data_of(t), FileRange) for t in all_tensors(model))


def finish(result: ModelProto, *, keeps_files: bool) -> ModelProto:
    """Let a model hold the data of its references itself, but for those in files if it `keeps_files`."""
    if not keeps_files:
        return make_whole(result)
    for tensor in filter(is_reference, all_tensors(result)):
        if not isinstance(data_of(tensor), FileRange):
            put_back(tensor)
    return result


def without_tables(model: ModelProto) -> ModelProto:
    """The model, or a copy of one with large initializers, which are references then.

    Raises:
        ValueError: An initializer has an element type that ONNX lacks.
    """
    _check_types(model)
    if not any(map(_is_large, model.graph.initializer)):
        return model
    light = ModelProto()
    _copy_fields(model, light, but="graph")
    _copy_fields(model.graph, light.graph, but="initializer")
    for tensor in model.graph.initializer:
        data = tensor.raw_data if _is_large(tensor) else b""
        if data and len(data) == byte_size(tensor):
            stub = light.graph.initializer.add()
            _copy_fields(tensor, stub, but="raw_data")
            refer(stub, np.frombuffer(data, numpy_dtype(tensor.data_type)).reshape(tuple(tensor.dims)))
        else:
            light.graph.initializer.append(tensor)
    return light


def _check_types(model: ModelProto) -> None:
    for tensor in model.graph.initializer:
        try:
            numpy_dtype(tensor.data_type)
        except ValueError as error:
            raise ValueError(f"tensor {tensor.name!r} has {error}") from None


def _is_large(tensor: TensorProto) -> bool:
    return tensor.HasField("raw_data") and (byte_size(tensor) or 0) >= LEAST and not is_packed(tensor)


def _copy_fields(source: Any, target: Any, *, but: str) -> None:
    for field, value in source.ListFields():
        if field.name != but:
            if isinstance(value, (int, str, bytes)):
                setattr(target, field.name, value)
            else:
                getattr(target, field.name).MergeFrom(value)


def around_large_tensors(
    rewrite: Callable[Concatenate[ModelProto, Options], ModelProto],
) -> Callable[Concatenate[ModelSource, Options], ModelProto]:
    """Rewrite a model, however it is handed over, without its tables, which onnx's tools would copy.

    The result has them again. That of a file of 1 GiB and more refers to them, as the result of `load` does.
    """

    @functools.wraps(rewrite)
    def wrapped(model: ModelSource, *args: Options.args, **kwargs: Options.kwargs) -> ModelProto:
        with holding_arrays() as is_inner:
            is_path = isinstance(model, (str, os.PathLike))
            given = load(model) if is_path else model_of(model)  # type: ignore[arg-type]
            result = rewrite(without_tables(given), *args, **kwargs)
            if not is_inner:
                finish(result, keeps_files=not is_path or whole_size(result) >= LARGE)
        return result

    # Its first parameter has a name, too, of which the type does not tell.
    return cast("Callable[Concatenate[ModelSource, Options], ModelProto]", wrapped)


def detach_large_tensors(model: ModelProto, large: int = LARGE) -> tuple[ModelProto, dict[str, Array]]:
    """Split a large model into one that can be serialized and the data of its large initializers.

    Args:
        model: Any model; it is not changed.
        large: How many bytes make a model large.

    Returns:
        A model without references and no arrays when it is not large. Otherwise a copy whose large initializers are
        marked as external data, and their data as arrays by name, for `SessionOptions.add_external_initializers`.

    Raises:
        ValueError: An initializer has an element type that ONNX lacks.
    """
    _check_types(model)
    is_small = whole_size(model) < large
    if is_small and not any(map(is_reference, all_tensors(model))):
        return model, {}
    light, arrays = ModelProto(), {}
    with holding_arrays():
        light.CopyFrom(model if is_small else without_tables(model))
        for tensor in () if is_small else light.graph.initializer:
            if is_reference(tensor) and not is_packed(tensor):
                arrays[tensor.name] = array_of_reference(tensor)
                state_place(tensor, "memory", 0, length_of(tensor))
        make_whole(light)
    return light, arrays
