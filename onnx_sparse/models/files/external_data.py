"""The file beside a model with the data of its tensors, which ONNX Runtime maps into memory and processes share.

It is written under an unused name, never changed, and removed when the model that it is named after no longer needs it,
unless another model in the folder does: one whose other tables were replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from glob import escape
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.new_file import (
    ChangedError,
    check_writable,
    errors_of,
    new_file,
    only_writer,
    part_file,
    renamed_to_unused,
    short_digest,
    state_of,
)
from onnx_sparse.files.ranges import FileRange, Part, StoredFile
from onnx_sparse.models.data.references import data_of, is_reference, point_to, require_whole
from onnx_sparse.models.files.data_parts import METADATA_KEY, location, locations, parts_of, record_parts
from onnx_sparse.models.files.model_files import require_whole_sources
from onnx_sparse.models.files.suffixes import ONNX_SUFFIXES

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    #: Writes a model into a file; returns the bytes.
    Write = Callable[[ModelProto, BinaryIO], int]

#: Tensors begin at multiples of this, so that they can be mapped into memory.
_PAGE = 4096
#: The fields of a tensor with its elements.
_TYPED_DATA = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
#: The bytes of a file's name to which ".data" and a number can be added.
_LONGEST_STEM = 240


def data_file(model: Path, tensor: TensorProto) -> Path | None:
    """The file with a tensor's data; None if they are in the model.

    Raises:
        CommandError: The model names no file in its folder.
    """
    name = location(tensor).get("location")
    return None if name is None else file_beside(model, name, tensor.name)


def file_beside(model: Path, name: str, tensor: str) -> Path:
    """The file of a location, which a tensor names.

    Raises:
        CommandError: It is not in the model's folder.
    """
    folder = Path(os.path.realpath(model)).parent
    parts = PurePosixPath(name.replace("\\", "/")).parts
    path = folder.joinpath(*parts)
    if not parts or ".." in parts or not Path(os.path.realpath(path)).is_relative_to(folder):
        raise CommandError(f"{model}: tensor {printable(tensor)} has its data outside the model's folder, in {name}")
    return path


def write_model(
    model: ModelProto,
    path: Path,
    write: Write,
    *,
    contents: Iterable[tuple[TensorProto, Any]] | None = None,
    apart: Iterable[tuple[TensorProto, Any]] = (),
    read_from: Path | None = None,
    made_from: tuple[int, ...] | None = None,
) -> int:
    """Write a model, and beside it the data of tensors that are not in it.

    Args:
        model: The model; its tensors point to the files beside `path` afterwards.
        path: The model's file. Files of its own that the model before had, and this one has not, are removed.
        write: Writes the model's own file.
        contents: Tensors and the bytes of their data, the ranges of files where these are, or functions that make
            them block by block; they are written into a new file.
        apart: The same of tensors that get a file of their own each, to which rows can be added.
        read_from: The file that the model is from, if it is another one. In the same folder both have the same files
            beside them; into another folder they are copied.
        made_from: For a model that was read from `path`: the `state_of` it then.

    Returns:
        The bytes written.

    Raises:
        ChangedError: Another process has replaced the model that this one was made from.
        CommandError: It cannot be written, or a file beside the other model is missing; then nothing has changed.
    """
    check_writable(path)
    real = Path(os.path.realpath(path))  # all files go beside the target of a link
    size = 0
    with errors_of(path), contextlib.ExitStack() as parts:
        if contents is None:
            require_whole_sources(model)
        written = []
        for group in [*([] if contents is None else [contents]), *([each] for each in apart)]:
            part, data = parts.enter_context(part_file(real))
            written.append((part, *_write_data(data, group)))
            size += data.tell()
            data.close()
        # Another writer could take the name of a file that is removed here, and this one remove its file.
        with only_writer(real.parent), contextlib.ExitStack() as made:
            if made_from is not None and state_of(path) != made_from:
                raise ChangedError(f"{path} was replaced while this command ran, and stays; run the command again")

            def named(part: Path) -> Path:
                """Give a file a name of its own: until the model is replaced, the old one has its data."""
                # A signal may come when the model is replaced already.
                return made.enter_context(
                    renamed_to_unused(part, _data_paths(real), lambda file: file in _own_data(real))
                )

            if read_from is not None:
                _take_data(model, read_from, real, named)
            for part, places, checksum in written:
                name = named(part).name if places else ""
                for tensor, offset, length in places:
                    point_to(tensor, name, offset, length, checksum)
            if any(entry.key == METADATA_KEY for entry in model.metadata_props):
                record_parts(model, {})
            return size + _replace(model, path, write)


def name_sources(model: ModelProto, path: Path) -> None:
    """Let a model name the files that it refers to as those of its external data.

    Raises:
        CommandError: Such a file is not below the folder of `path`, where ONNX allows it, or it is `path` itself.
    """
    from onnx_sparse.models.graphs import all_tensors

    real = Path(os.path.realpath(path))
    for tensor in filter(is_reference, all_tensors(model)):
        data = data_of(tensor)
        if not isinstance(data, FileRange):
            continue
        source = Path(data.file.path)
        if source == real or not source.is_relative_to(real.parent):
            why = "is replaced" if source == real else f"is not in {real.parent} or below, where ONNX allows it"
            raise CommandError(f"tensor {printable(tensor.name)} cannot stay in {source}: this file {why}")
        point_to(tensor, source.relative_to(real.parent).as_posix(), data.offset, data.length, data.file.checksum)


def _write_data(
    file: BinaryIO, contents: Iterable[tuple[TensorProto, Any]]
) -> tuple[list[tuple[TensorProto, int, int]], str]:
    """Write the data of tensors: the offset and the length of each, and the file's checksum."""
    places = []
    checksum = hashlib.sha1(usedforsecurity=False)  # the one that ONNX names

    def count(content: Any) -> None:
        for block in content.blocks() if isinstance(content, FileRange) else [content]:
            checksum.update(block)

    with ThreadPoolExecutor(1) as counting:  # while the next tensor is copied
        counted, sources = list[Future[None]](), dict[StoredFile, str]()
        for tensor, content in contents:
            gap = bytes(-file.tell() % _PAGE)
            file.write(gap)
            begin = file.tell()
            counted.append(counting.submit(count, gap))
            if isinstance(content, FileRange):
                content.copy_to(file)
                sources.setdefault(content.file, tensor.name)
            for block in content() if callable(content) else [] if isinstance(content, FileRange) else [content]:
                file.write(block)
                counted[-1].result()  # else blocks that are yet to be counted would fill the memory
                counted.append(counting.submit(count, block))
            if isinstance(content, FileRange):
                counted.append(counting.submit(count, content))
            places.append((tensor, begin, file.tell() - begin))
            clear_data(tensor)
        for each in counted:
            each.result()
    found = checksum.hexdigest()
    for source, name in sources.items():
        if source.checksum != found:  # that of a file with the same tensors is known now
            require_whole(source, name)
    return places, found


def _take_data(model: ModelProto, source: Path, real: Path, named: Callable[[Path], Path]) -> None:
    """Copy the files beside another model, unless it is in the same folder; `named` gives each copy its name."""
    from onnx_sparse.models.graphs import all_tensors

    copies: dict[Path, Path] = {}
    parts, moved = parts_of(model), dict[str, tuple[Part, ...]]()
    for tensor in all_tensors(model):
        file = data_file(source, tensor)
        if file is None or file in copies:
            continue
        if not file.is_file():
            raise CommandError(f"{file}: no such file")
        copies[file] = file
        if Path(os.path.realpath(source)).parent != real.parent:
            with part_file(real) as (part, copy), file.open("rb") as original:
                shutil.copyfileobj(original, copy)
                copy.close()
                copies[file] = named(part)
    for tensor in all_tensors(model):
        file = data_file(source, tensor)
        if file is not None and copies[file] != file:
            place = next(entry for entry in tensor.external_data if entry.key == "location")
            moved[copies[file].name] = parts.get(place.value, ())
            place.value = copies[file].name
    record_parts(model, moved)


def _replace(model: ModelProto, path: Path, write: Write) -> int:
    """Write a model file, and remove the files of tensors that only the one before had."""
    real = Path(os.path.realpath(path))
    old = set(_own_data(real)) - {real.parent / name for name in locations(model)}
    old = {file for file in old if not is_used_by_another(file, real)}
    with new_file(path) as file:
        size = write(model, file)
    for replaced in old:
        replaced.unlink(missing_ok=True)
    return size


def clear_data(tensor: TensorProto) -> None:
    """Let a tensor have no data."""
    for name in ("raw_data", "external_data", *_TYPED_DATA):
        tensor.ClearField(name)


def _data_paths(model: Path) -> Iterator[Path]:
    """The names for the file of a model's tensors, the best first."""
    stem = model.name if len(os.fsencode(model.name)) <= _LONGEST_STEM else short_digest(model.name)
    yield model.with_name(f"{stem}.data")
    for number in itertools.count(1):
        yield model.with_name(f"{stem}.{number}.data")


def _own_data(model: Path) -> list[Path]:
    """The files of tensors, under these names, that an existing model has."""
    from onnx_sparse.models.files.model_files import read_model

    stem = next(_data_paths(model)).name.removesuffix(".data")
    existing = [path for path in model.parent.glob(f"{escape(stem)}*.data") if _is_own_name(path.name, stem)]
    if not existing:
        return []
    try:
        used = locations(read_model(model))
    except (OSError, ValueError):
        return []
    return [path for path in existing if path.name in used]


def is_used_by_another(file: Path, model: Path) -> bool:
    """Whether another model in the folder names the file: it has the name as it is in binary and in text."""
    for other in model.parent.iterdir():
        if other.suffix in ONNX_SUFFIXES and other != model and other.is_file() and other.stat().st_size:
            with other.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content.find(os.fsencode(file.name)) >= 0:
                    return True
    return False


def _is_own_name(name: str, stem: str) -> bool:
    number = name.removeprefix(stem).removesuffix("data").strip(".")
    return number == "" or number.isdecimal()
