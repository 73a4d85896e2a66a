"""Which source a file or an object comes from, and `convert` for all of them."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.models.model_files import ONNX_SUFFIXES

#: What a source can be; each has a package of that name among the converters.
SOURCES = ("tensorflow", "torch", "ascend", "openvino", "onnx")

_SUFFIXES = {
    **dict.fromkeys((".pb", ".pbtxt", ".keras", ".h5", ".hdf5", ".meta", ".tflite"), "tensorflow"),
    ".pt2": "torch",
    **dict.fromkeys((".json", ".om", ".air"), "ascend"),
    ".xml": "openvino",
    **dict.fromkeys(ONNX_SUFFIXES, "onnx"),
}

#: The packages that classes of objects belong to, and the source that these are.
_PACKAGES = {
    **dict.fromkeys(("tensorflow", "keras", "tf_keras"), "tensorflow"),
    "torch": "torch",
    "openvino": "openvino",
    **dict.fromkeys(("onnx", "onnx_ir"), "onnx"),
}


class UnknownSourceError(ConversionError):
    """Neither the name nor the class of a source tells what it is."""


def source_of(source: Any) -> str:
    """What a file, a folder or an object comes from: one of `SOURCES`.

    Args:
        source: A path; or an object of TensorFlow, Keras, torch, OpenVINO or onnx, a class of its own derived from
            theirs included; or the bytes of an ONNX model.

    Raises:
        UnknownSourceError: Neither its name nor its class tells.
        ConversionError: It is a folder, and no SavedModel.
    """
    if isinstance(source, bytes | bytearray):
        return "onnx"
    if isinstance(source, str | os.PathLike):
        return _source_of_path(Path(source))
    for base in type(source).__mro__:
        package = base.__module__.partition(".")[0]
        if package in _PACKAGES:
            return _PACKAGES[package]
    raise UnknownSourceError(f"an object of type {type(source).__name__} is no model that can be converted")


def _source_of_path(path: Path) -> str:
    if path.is_dir():
        return _source_of_folder(path)
    suffix = path.suffix.lower() or path.name  # ".meta" is the graph of a checkpoint without a name
    if suffix in (".onnx", ".pbtxt", ".txt") and _is_ascend(path):
        return "ascend"
    found = _SUFFIXES.get(suffix)
    if found is None:
        raise UnknownSourceError(f"the name of {path} does not tell what it is")
    return found


def _is_ascend(path: Path) -> bool:
    """Whether one of Ascend's tools wrote a file; they use the suffixes of others."""
    found: bool = importlib.import_module("onnx_sparse.converters.ascend.source").is_ascend(path)
    return found


def _source_of_folder(folder: Path) -> str:
    if any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        return "tensorflow"
    if is_dump(folder):
        raise ConversionError(
            f"{folder} is an Ascend dump: `onnx-sparse replay` runs it; to convert a graph, give its file"
        )
    raise ConversionError(f"{folder} is not a SavedModel: there is no saved_model.pb in it")


def is_dump(folder: Path) -> bool:
    """Whether a folder has the layout that ATB's dump tools write."""
    return any((folder / name).is_dir() for name in ("layer", "model", "info", "operation_io_tensors"))


def convert(source: Any, **options: Any) -> ModelProto:
    """Convert a model, whatever it comes from, to ONNX with operators of the domain `onnx_sparse`.

        model = onnx_sparse.converters.convert("saved_model", signature="serve")

    Args:
        source: A file or folder as `onnx-sparse convert` takes it, or a model in memory: of Keras, `tf.function`, an
            ExportedProgram of torch, an OpenVINO model, an ONNX model. A `torch.nn.Module` needs example inputs:
            `onnx_sparse.converters.torch.export`.
        options: The options of the source's own `convert`, such as `progress`, which all of them take.

    Returns:
        A new model in canonical form.

    Raises:
        ConversionError: The source cannot be read or converted; every unsupported node is listed.
        MissingPackageError: A package that the source needs is not installed; a kind of ConversionError.
        TypeError: The source has no such option.
    """
    converter = importlib.import_module(f"onnx_sparse.converters.{source_of(source)}")
    model: ModelProto = converter.convert(source, **options)
    return model
