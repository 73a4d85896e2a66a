"""Models of OpenVINO in memory, as files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line, require


@contextmanager
def saved(model: Any) -> Iterator[Path]:
    """The `.xml` of an openvino.Model, in a temporary folder with its `.bin`.

    Raises:
        MissingPackageError: The `openvino` package is not installed.
        ConversionError: It is no such model, or OpenVINO cannot write it.
    """
    openvino = require("openvino", "openvino")
    if not isinstance(model, openvino.Model):
        raise ConversionError(f"an object of type {type(model).__name__} is neither a file nor an openvino.Model")
    with tempfile.TemporaryDirectory(prefix="onnx_sparse_") as folder:
        path = Path(folder) / "model.xml"
        try:
            openvino.serialize(model, path, path.with_suffix(".bin"))  # save_model would round weights to float16
        except RuntimeError as error:
            raise ConversionError(f"OpenVINO cannot write the model: {first_line(error)}") from error
        yield path
