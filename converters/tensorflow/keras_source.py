"""Keras 3 models as a source: a `.keras` file or a model in memory."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensorflow.function_source import FunctionSource
from onnx_sparse.converters.tensorflow.lazy_imports import require


def from_keras_file(path: Path, *, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> FunctionSource:
    """Load a `.keras` file.

    Raises:
        ConversionError: If Keras cannot read it.
    """
    keras = require("keras")
    if not zipfile.is_zipfile(path):  # Keras would report that the file does not exist
        raise ConversionError(f"{path} is not a Keras 3 model: it is damaged, cut short, or something else")
    try:
        model = keras.saving.load_model(path, compile=False)
    except Exception as error:  # Keras raises whatever its layers raise
        reason = first_line(error)
        if unknown := re.search(r"Could not locate \w+ '([^']+)'", str(error)):  # follows a page of configuration
            reason = f"{unknown[1]} is not part of Keras; load the model where it is defined, and pass it to convert()"
        raise ConversionError(f"{path} cannot be read as a Keras model: {reason}") from error
    return from_keras_model(model, inputs=inputs, outputs=outputs)


def from_keras_model(model: Any, *, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> FunctionSource:
    """Trace the inference call of a functional, Sequential or built model.

    Inputs have the names given to `keras.Input`. Outputs are named by their keys if the model returns a dictionary,
    else by the layers that make them.

    Raises:
        ConversionError: If the model does not know its inputs, or does not run on TensorFlow.
    """
    tf, keras = require("tensorflow"), require("keras")
    if keras.config.backend() != "tensorflow":
        raise ConversionError(f"Keras runs on {keras.config.backend()} here; set KERAS_BACKEND=tensorflow")
    # A Sequential or functional model knows its inputs once it is built; a subclassed one never does.
    if not getattr(model, "inputs", None):
        raise ConversionError(
            f"{model.name} does not know its inputs; build it, or convert the SavedModel that model.export() writes"
        )
    structure = model.input if hasattr(model, "input") else model.inputs
    symbolic = keras.tree.flatten(structure)
    names = [tensor._keras_history.operation.name for tensor in symbolic]
    specs = [
        (
            tf.SparseTensorSpec(t.shape, t.dtype)
            if getattr(t, "sparse", False)
            else tf.TensorSpec(t.shape, t.dtype, name)
        )
        for t, name in zip(symbolic, names, strict=True)
    ]

    def infer(*tensors: Any) -> Any:
        return model(keras.tree.pack_sequence_as(structure, list(tensors)), training=False)

    concrete = tf.function(infer, input_signature=specs, autograph=False).get_concrete_function()
    return FunctionSource(
        concrete,
        name=model.name,
        trackable=model,
        inputs=inputs,
        outputs=outputs,
        output_names=_layer_names(model, concrete),
    )


def _layer_names(model: Any, concrete: Any) -> list[str] | None:
    """The names of the layers that make the outputs; None if the model returns a dictionary, which names them."""
    if isinstance(concrete.structured_outputs, Mapping) or not getattr(model, "outputs", None):
        return None
    names = [tensor._keras_history.operation.name for tensor in model.outputs]
    return names if len(names) == len(concrete.outputs) else None
