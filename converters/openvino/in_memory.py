"""The files of models of OpenVINO, also of those in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line, require


@contextmanager
def file_of(source: Any) -> Iterator[Path]:
    """The `.xml` of a source: its path, or that of an openvino.Model in a temporary folder with its `.bin`.

    Raises:
        MissingPackageError: The `openvino` package, which writes models, is not installed.
        ConversionError: It is neither, or OpenVINO cannot write it.
    """
    if isinstance(source, str | os.PathLike):
        yield Path(source)
        return
    openvino = require("openvino", "openvino")
    if not isinstance(source, openvino.Model):
        raise ConversionError(f"an object of type {type(source).__name__} is neither a file nor an openvino.Model")
    with tempfile.TemporaryDirectory(prefix="onnx_sparse_") as folder:
        path = Path(folder) / "model.xml"
        try:
            openvino.serialize(source, path, path.with_suffix(".bin"))  # save_model would round weights to float16
        except RuntimeError as error:
            raise ConversionError(f"OpenVINO cannot write the model: {first_line(error)}") from error
        yield path
