"""Reading the files of models: onnx's binary form and its text forms, which the suffix tells apart."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import onnx
from onnx import ModelProto
from onnx.serialization import registry


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
