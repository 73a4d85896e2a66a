"""From other frameworks' models to ONNX with operators of the domain `onnx_sparse`.

`convert` takes what the command line takes, and models in memory. There is one package for each source, with a
`convert` of its own options, a `verify`, and the `coverage` of its operators.
"""

from __future__ import annotations

import importlib
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, MissingPackageError, UnknownSourceError, UnsupportedNode

__all__ = ["ConversionError", "MissingPackageError", "UnknownSourceError", "UnsupportedNode", "convert"]


def convert(source: Any, **options: Any) -> ModelProto:
    """Convert a model, whatever it comes from, to ONNX with operators of the domain `onnx_sparse`.

        model = onnx_sparse.converters.convert("saved_model", signature="serve")

    Args:
        source: A file or folder as `onnx-sparse convert` takes it, or a model in memory: of Keras, `tf.function`, an
            ExportedProgram of torch, an OpenVINO model, an ONNX model. A `torch.nn.Module` needs example inputs:
            `onnx_sparse.converters.torch.export`.
        options: The options of the source's road, and `check_ids`, `progress` and `explain`, which all of them take.

    Returns:
        A new model in canonical form.

    Raises:
        ConversionError: The source cannot be read or converted; every unsupported node is listed.
        MissingPackageError: A package that the source needs is not installed; a kind of ConversionError.
        TypeError: The source has no such option.
    """
    table = importlib.import_module("onnx_sparse.converters.roads.table")  # the roads stand on this package
    model: ModelProto = table.road_of(source).convert(source, **options)
    return model
