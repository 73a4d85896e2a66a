"""`--write-inputs`: inputs made for a model, in a file that can be edited and given to --verify-with or --input."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_sparse.files.array_file import Array, save_npz
from onnx_sparse.files.new_file import new_file

if TYPE_CHECKING:
    from onnx import ModelProto

SUFFIXES = (".json", ".npz")


def write_inputs(path: Path, model: ModelProto) -> None:
    """Write inputs for one run of a model.

    Args:
        path: A JSON file, one object with the inputs by name, or an `.npz` archive.
        model: The model.

    Raises:
        CommandError: The file cannot be written.
    """
    from onnx_sparse.converters.verification.verify import example_inputs

    inputs = example_inputs(model)
    if path.suffix.lower() == ".npz":
        save_npz(path, {name: _storable(value) for name, value in inputs.items()})
        return
    lines = (f"  {json.dumps(name)}: {json.dumps(_plain(value), ensure_ascii=False)}" for name, value in inputs.items())
    with new_file(path) as file:
        file.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def _storable(value: Array) -> Array:
    """An array without objects: messages as bytes, other text as numpy's."""
    if value.dtype != object:
        return value
    if any(isinstance(item, bytes) for item in value.ravel()):
        from onnx_sparse.rows.example_arrays import example_array

        return example_array(value.tolist())
    return value.astype(str)


def _plain(value: Any) -> Any:
    """What JSON can say of an array: messages as objects, bytes that are not text in base64."""
    from onnx_sparse.converters.verification.example_messages import Message

    if isinstance(value, np.ndarray):
        return _plain((value.astype(np.float32) if value.dtype.kind == "V" else value).tolist())
    if isinstance(value, Message):
        return (
            {"context": _plain(value.context), "feature_lists": _plain(value.lists)}
            if value.has_lists
            else _plain(value.context)
        )
    if isinstance(value, Mapping):
        return {key.decode(errors="replace"): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value
