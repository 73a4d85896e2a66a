"""`load`: turns whatever the user has into a `Source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.graph_source import TensorsSource, from_graph_file
from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require
from onnx_sparse.converters.tensorflow.reading.ports import refuse_huge, refuse_what_onnx_lacks
from onnx_sparse.converters.tensorflow.reading.saved_model import meta_graph_of, signatures_of
from onnx_sparse.converters.tensorflow.saved_model_source import FunctionOfModelSource, SavedModelSource
from onnx_sparse.converters.tensorflow.source import Source
from onnx_sparse.converters.tensorflow.source_files import GRAPHS, KERAS, is_checkpoint, kind_of, refuse_other_files


def load(
    source: Any,
    *,
    tag: str | None = None,
    signature: str | None = None,
    function: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
) -> Source:
    """Load a model. `convert` and `verify` accept the result, so that the model is loaded only once.

    SavedModels, GraphDefs and checkpoints are read without TensorFlow, their variables when they are converted; so
    their files must stay where they are until then.

    Args:
        source: A SavedModel directory, a frozen GraphDef (`.pb`, `.pbtxt`), the `.meta` file of a checkpoint, a
            `.keras` or HDF5 file, a model of Keras 3 or of `tf_keras`, a tf.function with an input_signature, a
            ConcreteFunction; or a loaded model, which is returned.
        tag: Which graph of a SavedModel that has several; the one for serving when omitted.
        signature: Which signature of a SavedModel; `serving_default`, or the only one, when omitted.
        function: Which function of a SavedModel of TensorFlow 2, instead of a signature: `"lookup"`,
            `"encoder.__call__"`, or the name of one of its traces.
        inputs: The chosen inputs. In a GraphDef any tensors; else some of the model's own names. An input may have a
            shape after its name if the model leaves it open, `"x:0[-1,3]"`; -1 is any size.
        outputs: The chosen outputs, likewise.
        lookup_tables: For a GraphDef, the keys and values of its lookup tables, by the names of the nodes that make
            these or by their shared names.
        custom_objects: Layers and functions that a Keras file uses and Keras does not know, by name.

    Raises:
        ConversionError: If the source cannot be read, or has no such graph, signature, input or output.
    """
    if isinstance(source, Source):
        if any(each is not None for each in (tag, signature, function, inputs, outputs, lookup_tables)):
            raise ConversionError(f"{source.name} is loaded: its signature, inputs and outputs are chosen already")
        return source
    selected = {"inputs": inputs, "outputs": outputs}
    with quietly():
        if isinstance(source, (str, PathLike)):
            loaded = _load_path(Path(source), tag, signature, function, selected, lookup_tables, custom_objects)
        else:
            _refuse_tables(type(source).__name__, lookup_tables)
            loaded = _load_object(source, selected)
    refuse_huge(loaded.inputs)
    refuse_what_onnx_lacks(loaded.inputs, "input")
    refuse_what_onnx_lacks(loaded.outputs, "output")
    return loaded


def _refuse_tables(source: object, lookup_tables: Mapping[str, Any] | None) -> None:
    if lookup_tables:
        raise ConversionError(f"{source} includes its lookup tables; pass tables for a GraphDef only")


def _load_path(
    path: Path,
    tag: str | None,
    signature: str | None,
    function: str | None,
    selected: dict[str, Sequence[str] | None],
    lookup_tables: Mapping[str, tuple[Any, Any]] | None,
    custom_objects: Mapping[str, Any] | None,
) -> Source:
    if kind_of(path) not in GRAPHS:
        _refuse_tables(path, lookup_tables)
    if path.is_dir() and not is_checkpoint(path):
        meta_graph = meta_graph_of(path, tag)
        if function is not None:
            if signature is not None:
                raise ConversionError(f"{path}: choose a signature or a function, not both")
            return FunctionOfModelSource(path, meta_graph, function=function, **selected)
        if signature is None and not signatures_of(meta_graph):
            return TensorsSource(path, meta_graph, **selected)
        return SavedModelSource(path, meta_graph, signature=signature, **selected)
    refuse_other_files(path)
    if (signature, function, tag) != (None, None, None):
        what = "tags" if tag is not None else "signatures" if signature is not None else "functions"
        raise ConversionError(f"{path} has no {what}; only a SavedModel directory has")
    if path.suffix in KERAS:
        require("tensorflow")
        from onnx_sparse.converters.tensorflow.keras_source import from_keras_file

        return from_keras_file(path, **selected, custom_objects=custom_objects)
    return from_graph_file(path, lookup_tables=lookup_tables, **selected)


def _load_object(source: Any, selected: dict[str, Sequence[str] | None]) -> Source:
    require("tensorflow")
    from onnx_sparse.converters.tensorflow.function_source import from_function
    from onnx_sparse.converters.tensorflow.keras_source import from_keras_model, is_keras_model

    if is_keras_model(source):
        return from_keras_model(source, **selected)
    if hasattr(source, "structured_outputs") or hasattr(source, "get_concrete_function"):
        return from_function(source, **selected)
    raise ConversionError(
        f"an object of type {type(source).__name__} is not a path, Keras model, tf.function or ConcreteFunction of "
        "TensorFlow"
    )
