"""`save`: a model into a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from onnx_sparse.commands.errors import raised
from onnx_sparse.models.data.references import holding_arrays
from onnx_sparse.models.files.large_models import load, without_tables
from onnx_sparse.models.files.load_and_save import save_model
from onnx_sparse.models.files.model_files import model_of

if TYPE_CHECKING:
    from onnx_sparse.models.files.model_files import ModelSource


def save(model: ModelSource, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
    """Write a model, whole or not at all. Tables that it refers to are copied from file to file.

        model = onnx_sparse.load("model.onnx")
        onnx_sparse.save(onnx_sparse.fuse(model), "fused.onnx")

    Args:
        model: A ModelProto, also one that refers to its tables; its bytes, a path or an onnx_ir.Model. It is not
            changed.
        path: The file; its suffix chooses the form, as in `onnx.save`.
        external_data: Whether tensors go to a file next to it; by default from 16 MiB on.

    Raises:
        ConversionError: It cannot be written.
        OSError: A file that the model refers to has changed.
    """
    with holding_arrays(), raised():
        copy = ModelProto()
        given = load(model) if isinstance(model, (str, os.PathLike)) else model_of(model)
        copy.CopyFrom(without_tables(given))  # what goes to the other file leaves the model
        save_model(copy, Path(path), external=external_data)
