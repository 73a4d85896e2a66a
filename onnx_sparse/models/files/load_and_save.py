"""Model files: every failure to read one is reported in one line, and they are written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx_sparse.errors import CommandError
from onnx_sparse.models.files.external_data import name_sources, write_model

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

#: The bytes that one protobuf message can hold.
_LARGEST_FILE = 2**31 - 1
#: The tensors of larger models go to a file of their own.
_EXTERNAL = 2**24
#: Tensors below this stay in the model file when the others go to a file of their own.
_SMALL_TENSOR = 1024

#: The suffixes of other frameworks' files.
_OTHER_SUFFIXES = (".pb", ".pbtxt", ".keras", ".xml", ".json", ".air")


def existing_file(path: Path) -> Path:
    """The path, which must be a file.

    Raises:
        CommandError: It is not there, or a directory.
    """
    if path.is_dir():
        raise CommandError(f"{path} is a directory, not an ONNX file{_other_source(path)}")
    if not path.exists():
        raise CommandError(f"{path}: no such file")
    return path


def _other_source(path: Path) -> str:
    """The advice for a file or folder that looks like a source for `convert`; empty for others."""
    like = path / "saved_model.pb" if path.is_dir() else path
    known = like.is_file() and like.suffix in _OTHER_SUFFIXES
    return f"; `onnx-sparse convert {path} -o model.onnx` converts it" if known else ""


def load_model(path: Path, *, external_data: bool = False) -> ModelProto:
    """Read an ONNX file: binary, or one of onnx's text forms by its name. Its large tensors are references to it.

    Args:
        path: The file.
        external_data: Also read the tensors in other files (onnx refuses paths outside the model's folder); large ones
            become references.

    Raises:
        CommandError: The file cannot be read, or is not an ONNX model.
    """

    from onnx_sparse.models.files.large_models import resolve
    from onnx_sparse.models.files.model_files import read_light_model

    existing_file(path)
    try:
        model = read_light_model(path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        advice = _other_source(path)
        raise CommandError(f"{path} is not an ONNX model{advice}" if advice else error) from error
    if not model.ir_version:
        raise CommandError(f"{path} is not an ONNX model: it has no IR version")
    if external_data:
        try:
            resolve(model, path)
        except ValueError as error:
            raise CommandError(error) from error
    return model


def save_model(
    model: ModelProto,
    path: Path,
    *,
    external: bool | None = None,
    leave_tables: bool = False,
    read_from: Path | None = None,
    made_from: tuple[int, ...] | None = None,
) -> int:
    """Write a model; the suffix chooses the form, as in `onnx.save`.

    Tensors of 16 MiB in all go to `<name>.data` beside it, with a number where that name is taken: ONNX Runtime maps
    that file into memory, which all processes share. Such a file of the model that is replaced is removed.
    The model must not be used afterwards: it no longer has the tensors that went to the other file.

    Args:
        model: The model.
        path: Where to.
        external: Whether tensors go to the other file, however large they are.
        leave_tables: Whether the data of references stay in their files.
        read_from: The file that the model is from, if the data of some tensors are beside it and not in the model.
        made_from: As in `write_model`.

    Returns:
        The bytes written.

    Raises:
        CommandError: One file is asked for, and none can hold the model; or tensors are to stay in a file that is not
            below the folder of `path`, or that is replaced.
    """
    if leave_tables:
        name_sources(model, path)
    form = _form(path)
    size = _byte_size(model)
    if external is None:
        external = form == "protobuf" and size > min(_EXTERNAL, _LARGEST_FILE)
    if external:
        contents = _contents(model)
        return write_model(model, path, writer(path), contents=contents, read_from=read_from, made_from=made_from)
    if form == "protobuf" and size > _LARGEST_FILE:
        raise CommandError(f"{path}: no file of ONNX can hold {size_text(size)}; leave --one-file out")
    return write_model(model, path, writer(path), read_from=read_from, made_from=made_from)


def writer(path: Path) -> Callable[[ModelProto, BinaryIO], int]:
    """What writes a model into such a file."""
    from onnx.serialization import registry

    from onnx_sparse.models.data.wire_format import write_whole
    from onnx_sparse.models.files.model_files import make_whole

    form = _form(path)
    serialize = registry.get(form).serialize_proto
    return write_whole if form == "protobuf" else lambda model, file: file.write(serialize(make_whole(model)))


def _form(path: Path) -> str:
    from onnx.serialization import registry

    return registry.get_format_from_file_extension(path.suffix) or "protobuf"


def _byte_size(model: ModelProto) -> int:
    """The bytes of a model; some versions of protobuf raise when it is too large to be written."""
    from onnx_sparse.models.files.large_models import whole_size

    try:
        return whole_size(model)
    except MemoryError:
        raise
    except Exception:  # EncodeError, which is in no public module
        return _LARGEST_FILE + 1


def _contents(model: ModelProto) -> Iterator[tuple[TensorProto, Any]]:
    """The tensors that go to the other file, and their bytes, or where these are.

    The largest is the last one: rows can be added to it without another copy.
    """
    from onnx import external_data_helper

    from onnx_sparse.models.data.references import byte_size, data_of, is_reference

    tensors = list(external_data_helper._get_all_tensors(model))
    largest = max((byte_size(tensor) or 0 for tensor in tensors), default=0)
    for tensor in sorted(tensors, key=lambda tensor: byte_size(tensor) == largest):
        if is_reference(tensor):
            yield tensor, data_of(tensor)
        elif tensor.HasField("raw_data") and len(content := tensor.raw_data) >= _SMALL_TENSOR:
            yield tensor, content


def size_text(size: int) -> str:
    """A number of bytes in a readable unit: `"1.4 MiB"`."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
