"""What a session hands to ONNX Runtime for a model: the file or the bytes themselves wherever possible."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort
from onnx import ModelProto
from onnx.external_data_helper import uses_external_data

from onnx_sparse.files.guarded_files import require_file
from onnx_sparse.models.domain_nodes import refuse_later_opset, uses_domain
from onnx_sparse.models.files.model_files import (
    imported_opsets,
    is_ort_format,
    is_read_by_libraries,
    local_functions,
    names_domain_in_ort_format,
    parsed_model,
    read_model,
)
from onnx_sparse.models.graphs import all_tensors
from onnx_sparse.models.tools.inlining import calls_domain_in_functions, has_renamed_bodies, without_calls_of_functions
from onnx_sparse.sessions.model_errors import NoModelFileError
from onnx_sparse.sessions.start_errors import FOLDER_ENTRY, NO_FOLDER, config_entry

#: The entry that says that the folder of external data is of the session class, not of the caller.
_OUR_FOLDER_ENTRY = "onnx_sparse.folder"


@dataclass(frozen=True)
class Source:
    """A model in a form that ONNX Runtime loads, or that can be rewritten for Python kernels.

    Attributes:
        model: A path, bytes, or a parsed model.
        folder: The folder of external data where the model is not a path and has such data; else "".
    """

    model: str | bytes | ModelProto
    folder: str = ""


def session_source(model: str | os.PathLike[str] | bytes | ModelProto, *, is_native: bool) -> Source:
    """What a session is made of.

    A model that needs no rewriting is handed over as it is, and so is what is no model: ONNX Runtime refuses it.

    Raises:
        NoModelFileError: There is no such file.
        ValueError: It is of a later opset of the domain, or in ONNX Runtime's own format and calls the domain's
            operators, for which there are only native kernels.
    """
    if isinstance(model, (str, os.PathLike)):
        if not os.path.exists(model):
            raise NoModelFileError(errno.ENOENT, os.strerror(errno.ENOENT), str(model))
        return _source_of_file(os.fspath(model), is_native=is_native)
    if isinstance(model, bytes):
        return _source_of_bytes(model, is_native=is_native)
    refuse_later_opset(model.opset_import)
    return Source(model, _folder_in_memory(model))


def _source_of_file(path: str, *, is_native: bool) -> Source:
    is_loaded_by_path = is_read_by_libraries(path)
    is_file = not os.path.isdir(path)
    if is_file:
        require_file(path)
    if is_native and is_loaded_by_path:
        if not is_file:
            return Source(path)
        with open(path, "rb") as file:
            refuse_later_opset(imported_opsets(file))
            file.seek(0)
            if not has_renamed_bodies(local_functions(file)):
                return Source(path)
    try:
        proto = read_model(path)
    except (OSError, ValueError):
        if not is_loaded_by_path or (is_file and names_domain_in_ort_format(Path(path).read_bytes())):
            raise
        return Source(path)
    refuse_later_opset(proto.opset_import)
    if is_loaded_by_path and is_file and not uses_domain(proto):
        return Source(path)
    return Source(proto, _folder_of_file(proto, Path(path)))


def _source_of_bytes(content: bytes, *, is_native: bool) -> Source:
    if is_native:
        refuse_later_opset(imported_opsets(io.BytesIO(content)))
        is_ready = b"location" not in content and not has_renamed_bodies(local_functions(io.BytesIO(content)))
        if is_ready or is_ort_format(content):
            return Source(content)  # no need to parse it
    try:
        proto = parsed_model(content)
    except ValueError:
        if names_domain_in_ort_format(content):
            raise
        return Source(content)
    refuse_later_opset(proto.opset_import)
    is_ready = not has_renamed_bodies(proto.functions) if is_native else not uses_domain(proto)
    return Source(content if is_ready else proto, _folder_in_memory(proto))


def without_functions(source: Source) -> Source | None:
    """The model with the functions inlined that call the domain's operators; None where it has none.

    ONNX Runtime infers no types through calls of such functions: it refuses a call whose outputs have no declared type.
    """
    try:
        if not isinstance(source.model, ModelProto):
            source = session_source(source.model, is_native=False)
    except (OSError, ValueError):
        return None
    if not isinstance(source.model, ModelProto) or not calls_domain_in_functions(source.model):
        return None
    return Source(without_calls_of_functions(source.model), source.folder)


@contextmanager
def data_folder(options: ort.SessionOptions, folder: str, *, is_shared: bool) -> Iterator[None]:
    """While a session is made, tell ONNX Runtime the folder of its external data, unless the caller has named one.

    ONNX Runtime prefers that folder to the one of a model's path. What another session has left is replaced.

    Args:
        options: The session's options.
        folder: The folder, or "".
        is_shared: Whether sessions of other classes may be made of the options, which must not read this folder.
    """
    held = config_entry(options, FOLDER_ENTRY)
    if held and held != config_entry(options, _OUR_FOLDER_ENTRY):
        yield
        return
    if held != folder:  # ONNX Runtime complains on stderr about an entry that is set again
        options.add_session_config_entry(FOLDER_ENTRY, folder)
        options.add_session_config_entry(_OUR_FOLDER_ENTRY, folder)
    try:
        yield
    finally:
        if is_shared and folder not in ("", NO_FOLDER):
            options.add_session_config_entry(FOLDER_ENTRY, "")


def _folder_in_memory(model: ModelProto) -> str:
    """No folder, so that ONNX Runtime refuses the external data of a model in memory.

    The options may hold the data, which they do not tell; otherwise ONNX Runtime would take what lies in the current
    directory.
    """
    return NO_FOLDER if any(map(uses_external_data, all_tensors(model))) else ""


def _folder_of_file(model: ModelProto, path: Path) -> str:
    """The folder of a file's external data; the model is changed where these are in another folder than the file.

    As ONNX Runtime does with a file, this follows symbolic links, which caches of downloads consist of: data may be in
    the folder of the link, or in that of the file that it points to.
    """
    tensors = [tensor for tensor in all_tensors(model) if uses_external_data(tensor)]
    if not tensors:
        return ""
    folder, real_folder = path.absolute().parent, path.resolve().parent
    places = [entry for tensor in tensors for entry in tensor.external_data if entry.key == "location"]
    files = [(folder / place.value).resolve() for place in places]
    is_linked = any(not file.is_relative_to(folder.resolve()) for file in files)
    if is_linked and all(file.is_relative_to(real_folder) for file in files):
        folder = real_folder
        for place, file in zip(places, files, strict=True):
            place.value = file.relative_to(real_folder).as_posix()
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{folder}: ONNX Runtime finds external data only in folders whose names are UTF-8") from None
    return str(folder)
