"""Keras models as a source, of Keras 3 and of Keras 2 (`tf_keras`): a `.keras` or HDF5 file, or a model in memory."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensorflow.function_source import FunctionSource
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.keras_configuration import require_known_names
from onnx_sparse.converters.tensorflow.keras_limits import time_within, weights_within
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.files.guarded_files import require_harmless_archive

#: The package that Keras 2 lives on in.
_KERAS_2 = "tf_keras"

#: The seconds for which an examination is waited for, where its process cannot limit itself or does not run.
_PATIENCE = 60

#: What a model may take of the processor until it is loaded and traced, in seconds.
_SECONDS = 45

#: What is read of a file's weights in a second at least.
_BYTES_PER_SECOND = 5 << 20


def is_keras_model(source: Any) -> bool:
    """Whether an object is a model of either Keras."""
    legacy = sys.modules.get(_KERAS_2)
    return isinstance(source, require("keras").Model) or (legacy is not None and isinstance(source, legacy.Model))


def from_keras_file(
    path: Path,
    *,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    custom_objects: Mapping[str, Any] | None = None,
) -> FunctionSource:
    """Load a `.keras` or HDF5 file with the Keras that saved it.

    Args:
        path: The file.
        inputs, outputs: As for `load`.
        custom_objects: Classes and functions that the model uses and Keras does not know, by name.

    Raises:
        ConversionError: If Keras cannot read it.
    """
    try:
        require_harmless_archive(path)
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror or error}") from error
    numbers = _examined_hdf5(path)
    version = _version(path)
    legacy = version.startswith("2.")
    installed = importlib.util.find_spec(_KERAS_2) is not None
    keras = require(_KERAS_2 if legacy and installed else "keras")
    require_known_names(path, keras, dict(custom_objects or {}), HANDLERS)
    within = time_within(_SECONDS + path.stat().st_size / _BYTES_PER_SECOND, path)
    with within, weights_within(keras.layers.Layer, numbers, path), _without_code_of_files(keras):
        try:
            # Keras 2 does not know `keras.saving.load_model` in all its versions.
            model = keras.models.load_model(path, compile=False, custom_objects=dict(custom_objects or {}))
        except Exception as error:  # Keras raises whatever its layers raise
            reason = _reason(error)
            unknown = re.search(r"(?:Could not locate \w+|Unknown \w+:) '([^']+)'", str(error))
            if legacy and not installed:
                reason = f"Keras {version} saved it; run: pip install tf-keras"
            elif unknown:  # follows a page of configuration
                reason = (
                    f"{unknown[1]} is not part of Keras; name the module that defines it with --import, or load the "
                    "model where it is defined and pass it to convert()"
                )
            elif "deserialization of a" in reason and "risk of arbitrary code execution" in reason:
                reason = (
                    "it holds code, as a Lambda layer does; if you trust it, load it with Keras and pass the model "
                )
                reason += "to convert()"
            raise ConversionError(f"{path} cannot be read as a Keras model: {reason}") from error
        if not isinstance(model, keras.Model):  # a file can describe anything that Keras saves
            raise ConversionError(f"{path} cannot be read as a Keras model: it holds a {type(model).__name__}")
        return from_keras_model(model, inputs=inputs, outputs=outputs)


def _without_code_of_files(keras: Any) -> AbstractContextManager[Any]:
    """A context in which Keras runs no code that a file holds, unless it was told to; Keras 3 is like that."""
    if keras.__name__ != _KERAS_2:
        return nullcontext()
    safety = require(f"{_KERAS_2}.src.saving.serialization_lib")
    # From HDF5 files it would run code where it was told nothing.
    scope: AbstractContextManager[Any] = safety.SafeModeScope(safety.in_safe_mode() is not False)
    return scope


def _reason(error: Exception) -> str:
    """What is wrong, from an exception that Keras has wrapped into where that was, in bold print."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).rpartition("Exception encountered: ")[2].strip()
    text = re.sub(r"^Exception encountered when calling .*\n+", "", text)
    return first_line(Exception(text)) if text else type(error).__name__


def _examined_hdf5(path: Path) -> int | None:
    """Refuse a file that HDF5's library cannot read in the memory and the time that a file of its size can need.

    Returns:
        How many numbers the file holds; None where that is not known.

    Raises:
        ConversionError: It is such a file, or nothing that the library reads.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        return None  # there is no Python to start
    program = Path(__file__).with_name("hdf5_examination.py")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",  # each has memory of its own, of which the process has little
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(program), str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_PATIENCE + path.stat().st_size / _BYTES_PER_SECOND,
            check=False,
        )
        ended, answer = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        ended, answer = -1, ""
    if ended == 0:
        return int(answer) if answer else None
    if ended != 1:  # by a limit or a fault of HDF5's library
        answer = "cannot be read as a Keras model: it is damaged, and HDF5's library does not get to its end"
    if answer:
        raise ConversionError(f"{path} {answer}")
    return None  # Python does not start


def _version(path: Path) -> str:
    """The version of Keras that saved a file.

    Raises:
        ConversionError: If the file holds no model.
    """
    if path.suffix == ".keras":
        try:
            with zipfile.ZipFile(path) as archive:
                return str(json.loads(archive.read("metadata.json"))["keras_version"])
        except Exception as error:  # an archive raises much; Keras would say that the file does not exist
            raise ConversionError(f"{path} is not a Keras file: it is damaged, cut short, or something else") from error
    try:
        with require("h5py").File(path) as file:
            if "model_config" not in file.attrs:
                raise ConversionError(f"{path} holds weights without a model; give the model itself to convert()")
            version = file.attrs.get("keras_version", "2.")
            return version.decode() if isinstance(version, bytes) else str(version)
    except (OSError, ValueError) as error:
        raise ConversionError(f"{path} is not an HDF5 file: it is damaged, cut short, or something else") from error


def from_keras_model(model: Any, *, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> FunctionSource:
    """Trace the inference call of a functional, Sequential or built model.

    Inputs have the names given to `keras.Input`; the parts of a sparse or ragged input `s` are `s`, `s_1` and so on, as
    in a SavedModel. Outputs are named by their keys if the model returns a dictionary, else by the layers that make
    them.

    Raises:
        ConversionError: If the model does not know its inputs, or does not run on TensorFlow or at all.
    """
    tf = require("tensorflow")
    legacy = _KERAS_2 in (base.__module__.partition(".")[0] for base in type(model).__mro__)
    if not legacy and (backend := require("keras").config.backend()) != "tensorflow":
        raise ConversionError(f"Keras runs on {backend} here; set KERAS_BACKEND=tensorflow")
    nest = tf.nest if legacy else require("keras").tree
    # A Sequential or functional model knows its inputs once it is built; a subclassed one what it was called with.
    called = None if getattr(model, "inputs", None) else _called_with(model, nest)
    if called == {}:
        raise ConversionError(
            f"{model.name} does not know its inputs; call it on a batch, or convert the SavedModel that "
            "model.export() writes"
        )
    try:
        traced = _trace(model, nest) if called is None else _trace_of_call(model, called, nest)
        concrete, input_names, output_names = traced
    except Exception as error:  # Keras raises whatever its layers raise
        raise ConversionError(f"Keras cannot run the model {model.name}: {_reason(error)}") from error
    return FunctionSource(
        concrete,
        name=str(model.name),  # a file can give it another type
        inputs=inputs,
        outputs=outputs,
        input_names=input_names,
        output_names=output_names,
    )


def _trace(model: Any, nest: Any) -> tuple[Any, list[str], list[str] | None]:
    """The inference call of a model as a ConcreteFunction, and the names of its inputs and outputs.

    Args:
        model: A model that knows its inputs.
        nest: What its Keras flattens and packs structures with.

    Returns:
        The function, a name for each of its inputs, and one for each output, or None if these have names.
    """
    tf = require("tensorflow")
    structure = model.input if hasattr(model, "input") else model.inputs
    symbolic = nest.flatten(structure)
    names = [str(_layer(tensor).name) for tensor in symbolic]
    specs = [_spec(tensor, name) for tensor, name in zip(symbolic, names, strict=True)]
    parts = [
        f"{name}_{k}" if k else name
        for name, spec in zip(names, specs, strict=True)
        for k in range(len(tf.nest.flatten(spec, expand_composites=True)))
    ]

    def infer(*tensors: Any) -> Any:
        return model(nest.pack_sequence_as(structure, list(tensors)), training=False)

    concrete = tf.function(infer, input_signature=specs, autograph=False).get_concrete_function()
    return concrete, parts, _layer_names(model, concrete)


def _called_with(model: Any, nest: Any) -> dict[str, Any]:
    """The specs of the arguments with which a subclassed model was called first, of any number of rows, by name.

    Keras 3 remembers the shapes of the first argument only, which gets the type that `model.export` gives to it.

    Raises:
        ConversionError: The model takes more arguments than are known.
    """
    tf = require("tensorflow")
    parameters = [p for p in inspect.signature(model.call).parameters.values() if p.kind != p.VAR_KEYWORD]
    if hasattr(model, "save_spec"):
        spec = model.save_spec(dynamic_batch=True)
        positional, named = ((), {}) if spec is None else spec
        return dict(zip((p.name for p in parameters), positional, strict=False)) | dict(named)

    def of_shape(shape: Any) -> Any:
        return tf.TensorSpec((None, *shape[1:]), model.input_dtype)

    shapes = getattr(model, "_build_shapes_dict", None) or {}
    if not shapes:
        return {}
    needed = [p.name for p in parameters if p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    if len(needed) != 1 or len(shapes) != 1:
        raise ConversionError(
            f"{model.name} takes the arguments {', '.join(needed)}, and Keras does not know all of them; convert a "
            "tf.function with an input_signature that calls it"
        )
    (shape,) = shapes.values()
    return {needed[0]: nest.map_shape_structure(of_shape, shape)}


def _trace_of_call(model: Any, arguments: Mapping[str, Any], nest: Any) -> tuple[Any, list[str], None]:
    """The inference call of a subclassed model; see `_trace`. An input has the name of its argument, and of its key."""
    tf = require("tensorflow")
    specs, names = nest.flatten(dict(arguments)), []
    for name in sorted(arguments):
        parts = nest.flatten(arguments[name])
        keys = sorted(arguments[name]) if isinstance(arguments[name], Mapping) else range(len(parts))
        names += [name] if len(parts) == 1 else [f"{name}_{key}" for key in keys]

    def infer(*tensors: Any) -> Any:
        given = nest.pack_sequence_as(dict(arguments), list(tensors))
        first = next(iter(inspect.signature(model.call).parameters))
        return model(given.pop(first), **given, training=False)

    named = [tf.TensorSpec(spec.shape, spec.dtype, name) for spec, name in zip(specs, names, strict=True)]
    return tf.function(infer, input_signature=named, autograph=False).get_concrete_function(), names, None


def _layer(tensor: Any) -> Any:
    """The layer or operation that makes a symbolic tensor."""
    history = tensor._keras_history
    return history.operation if hasattr(history, "operation") else history.layer


def _spec(tensor: Any, name: str) -> Any:
    """The TypeSpec of an input."""
    tf = require("tensorflow")
    spec = getattr(tensor, "type_spec", None)  # Keras 2 has one
    if isinstance(spec, (tf.SparseTensorSpec, tf.RaggedTensorSpec)):
        return spec
    if getattr(tensor, "sparse", False):
        return tf.SparseTensorSpec(tensor.shape, tensor.dtype)
    if getattr(tensor, "ragged", False):
        rank = getattr(tensor, "ragged_rank", None) or 1
        splits = getattr(tensor, "row_splits_dtype", None) or "int64"
        return tf.RaggedTensorSpec(tensor.shape, tensor.dtype, rank, tf.as_dtype(splits))
    return tf.TensorSpec(tensor.shape, tensor.dtype, name)


def _layer_names(model: Any, concrete: Any) -> list[str] | None:
    """The names of the layers that make the outputs; None if the model returns a dictionary, which names them."""
    if isinstance(concrete.structured_outputs, Mapping) or not getattr(model, "outputs", None):
        return None
    names = [str(_layer(tensor).name) for tensor in model.outputs]
    return names if len(names) == len(concrete.outputs) else None
