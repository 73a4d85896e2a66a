"""Reading the files of models: onnx's binary form and its text forms, which the suffix tells apart."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, OperatorSetIdProto
from onnx.serialization import registry

#: protobuf's encodings of a field.
_VARINT, _LENGTH_DELIMITED = 0, 2
#: More bytes than the import of an opset takes.
_LONGEST_IMPORT = 2**16
#: More bytes than a field of a message takes.
_LARGEST_FIELD = 2**32


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """The model of a file, without its external data.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ONNX model.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its own text form experimental
            return onnx.load(os.fspath(path), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # each parser, protobuf's and those of the text forms, has its own exception
        if is_ort_format(Path(path).read_bytes()):
            raise ValueError(f"{path} is in ONNX Runtime's own format, which only the native backend runs") from None
        raise ValueError(f"{path} is not an ONNX model, or only a part of one: {_parser_message(error)}") from error


def is_ort_format(content: bytes) -> bool:
    """Whether a model is in ONNX Runtime's own format."""
    return content[4:8] == b"ORTM"


def imported_opsets(file: BinaryIO) -> Iterator[OperatorSetIdProto]:
    """The opsets that a model in binary form imports; what is in its graph is skipped, not read.

    A file in another form has none, or ends early: whoever reads it will say so.
    """
    while (key := _varint(file)) is not None:
        field, wire_type = key >> 3, key & 7
        if wire_type == _LENGTH_DELIMITED:
            size = _varint(file) or 0
            if field == ModelProto.OPSET_IMPORT_FIELD_NUMBER:
                with contextlib.suppress(DecodeError):
                    yield OperatorSetIdProto.FromString(file.read(min(size, _LONGEST_IMPORT)))
            else:
                file.seek(min(size, _LARGEST_FIELD), os.SEEK_CUR)
        elif wire_type == _VARINT:
            _varint(file)
        else:  # a model has no others
            return


def _varint(file: BinaryIO) -> int | None:
    """The next number in protobuf's encoding of integers; None at the end, or where there is none."""
    number = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    return None


def is_read_by_libraries(path: str | os.PathLike[str]) -> bool:
    """Whether ONNX Runtime and onnx's checker read the file: its form is binary, and its name is UTF-8.

    File names on Linux may be any bytes.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return registry.get_format_from_file_extension(Path(path).suffix) in (None, "protobuf")


def _parser_message(error: Exception) -> str:
    """The message of a parser; that of onnx's text form is bytes."""
    said = error.args[0] if error.args else error
    return said.decode(errors="backslashreplace") if isinstance(said, bytes) else str(error)
