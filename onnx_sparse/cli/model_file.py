"""Model files: every failure to read one is reported in one line, and they are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx_sparse.cli.output import CommandError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto

#: The bytes that one protobuf message can hold.
_LARGEST_FILE = 2**31 - 1
#: Tensors below this stay in the model file when the others go to a file of their own.
_SMALL_TENSOR = 1024
#: Tensors begin at multiples of this in the other file, so that they can be mapped into memory.
_PAGE = 4096

#: The suffixes of other frameworks' files.
_OTHER_SUFFIXES = (".pb", ".pbtxt", ".keras", ".xml", ".json", ".air")
ONNX_SUFFIXES = (".onnx", ".onnxtxt", ".onnxtext", ".onnxjson", ".textproto")


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
    """Read an ONNX file: binary, or one of onnx's text forms by its name.

    Args:
        path: The file.
        external_data: Also read the tensors in other files (onnx refuses paths outside the model's folder).

    Raises:
        CommandError: The file cannot be read, or is not an ONNX model.
    """
    import onnx

    from onnx_sparse.model_files import read_model

    existing_file(path)
    try:
        model = read_model(path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        advice = _other_source(path)
        raise CommandError(f"{path} is not an ONNX model{advice}" if advice else error) from error
    if not model.HasField("graph") or not model.ir_version:
        missing = "IR version" if model.HasField("graph") else "graph"
        raise CommandError(f"{path} is not an ONNX model: it has no {missing}")
    if external_data:
        try:
            onnx.load_external_data_for_model(model, os.fspath(path.parent))
        except Exception as error:  # OSError, and onnx's own for paths outside the folder and files that are too short
            raise CommandError(f"{path}: its external data cannot be read: {error}") from error
    return model


def check_writable(path: Path, *, keep: Iterable[str | Path] = ()) -> None:
    """Refuse a path that cannot be written, before any work is done for it.

    Args:
        path: The file to write.
        keep: What the command reads: files, folders, or strings that are neither.

    Raises:
        CommandError: There is no such folder, it cannot be written to, or the path is not a regular file.
        UsageError: It would overwrite what the command reads.
    """
    for source in filter(os.path.exists, keep):
        real = os.path.realpath(source)
        if os.path.commonpath([real, os.path.realpath(path)]) == real:
            where = "in " if os.path.isdir(real) else ""
            raise UsageError(f"cannot write {path}: it is {where}what this command reads")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise CommandError(f"cannot write {path}: there is no directory {folder}")
    if path.exists() and not path.is_file():
        raise CommandError(f"cannot write {path}: it is {'a directory' if path.is_dir() else 'not a regular file'}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"cannot write {path}: no permission to write to {folder}")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` once it is complete, and is removed when something fails.

    Raises:
        CommandError: It cannot be written.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))  # a symbolic link stays: the file that it points to is replaced
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            yield file
        os.replace(beside, target)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def save_model(model: ModelProto, path: Path, tables: Mapping[str, Any] | None = None) -> int:
    """Write a model; the suffix chooses the form, as in `onnx.save`.

    The tensors of a model beyond 2 GiB, which no ONNX file can hold, go to `<name>.data` beside it.
    The model must not be used afterwards: it no longer has the tensors that went to the other file.

    Args:
        model: The model.
        path: Where to.
        tables: Data of initializers that is not in the model, by their names.

    Returns:
        The bytes written.
    """
    from onnx.serialization import registry

    form = registry.get_format_from_file_extension(path.suffix) or "protobuf"
    if not tables and (form != "protobuf" or _byte_size(model) <= _LARGEST_FILE):
        content = registry.get(form).serialize_proto(model)
        with new_file(path) as file:
            file.write(content)
        return len(content)
    return _save_large(model, path, tables or {})


def _byte_size(model: ModelProto) -> int:
    """The bytes of a model; some versions of protobuf raise when it is too large to be written."""
    try:
        return int(model.ByteSize())
    except Exception:  # EncodeError, which is in no public module
        return _LARGEST_FILE + 1


def _save_large(model: ModelProto, path: Path, tables: Mapping[str, Any]) -> int:
    from onnx import TensorProto, external_data_helper

    real = Path(os.path.realpath(path))  # both files go beside the target of a link
    data_path = real.with_name(f"{real.name}.data")
    with new_file(data_path) as data, new_file(path) as file:  # both or neither: the old files stay until then
        for tensor in external_data_helper._get_all_tensors(model):
            if tensor.name in tables:
                content: Any = memoryview(tables[tensor.name]).cast("B")
            elif tensor.HasField("raw_data") and len(tensor.raw_data) >= _SMALL_TENSOR:
                content = tensor.raw_data
            else:
                continue
            data.seek(-data.tell() % _PAGE, os.SEEK_CUR)
            offset, length = data.tell(), len(content)
            data.write(content)
            tensor.ClearField("raw_data")
            tensor.ClearField("external_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", data_path.name), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
        size = data.tell()
        data.flush()  # a full disk is noticed before either file replaces an old one
        content = model.SerializeToString()
        file.write(content)
    return size + len(content)


def size_text(size: int) -> str:
    """A number of bytes in a readable unit: `"1.4 MiB"`."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
