"""`load`: turns whatever the user has into a `Source`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensorflow.damaged_constants import refuse_damaged_constants
from onnx_sparse.converters.tensorflow.late_variables import left_on_disk
from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require
from onnx_sparse.converters.tensorflow.reading.saved_model import require_signature
from onnx_sparse.converters.tensorflow.source import Source, refuse_huge, refuse_what_onnx_lacks


def load(
    source: Any,
    *,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
) -> Source:
    """Load a model. `convert` and `verify` accept the result, so that the model is loaded only once.

    Args:
        source: A SavedModel directory, a frozen GraphDef (`.pb`, `.pbtxt`), a `.keras` or HDF5 file, a model of Keras 3
            or of `tf_keras`, a tf.function with an input_signature, a ConcreteFunction; or a loaded model, which is
            returned.
        signature: Which signature of a SavedModel; `serving_default`, or the only one, when omitted.
        inputs: The chosen inputs. In a GraphDef any tensors; else some of the model's own names.
        outputs: The chosen outputs, likewise.
        lookup_tables: For a GraphDef, the keys and values of its lookup tables, by the names of the nodes that make
            these or by their shared names.
        custom_objects: Layers and functions that a Keras file uses and Keras does not know, by name.

    Raises:
        ConversionError: If the source cannot be read, or has no such signature, input or output.
    """
    if isinstance(source, Source):
        if (signature, inputs, outputs, lookup_tables) != (None, None, None, None):
            raise ConversionError(f"{source.name} is loaded: its signature, inputs and outputs are chosen already")
        return source
    selected = {"inputs": inputs, "outputs": outputs}
    with quietly():
        if isinstance(source, (str, PathLike)):
            loaded = _load_path(Path(source), signature, selected, lookup_tables, custom_objects)
        else:
            _refuse_tables(type(source).__name__, lookup_tables)
            loaded = _load_object(source, selected)
    refuse_huge(loaded.inputs)
    refuse_what_onnx_lacks(loaded.inputs, "input")
    refuse_what_onnx_lacks(loaded.outputs, "output")
    return loaded


def _refuse_tables(source: object, lookup_tables: Mapping[str, Any] | None) -> None:
    if lookup_tables:
        raise ConversionError(f"{source} has its lookup tables with it; only those of a GraphDef are given")


def _load_path(
    path: Path,
    signature: str | None,
    selected: dict[str, Sequence[str] | None],
    lookup_tables: Mapping[str, tuple[Any, Any]] | None,
    custom_objects: Mapping[str, Any] | None,
) -> Source:
    if not path.exists():
        raise ConversionError(f"no such file or directory: {path}")
    if path.suffix not in (".pb", ".pbtxt"):
        _refuse_tables(path, lookup_tables)
    if path.is_dir():
        return _load_saved_model(path, signature, selected)
    if signature is not None:
        raise ConversionError(f"{path} has no signatures; only a SavedModel directory has")
    if path.suffix in (".keras", ".h5", ".hdf5"):
        from onnx_sparse.converters.tensorflow.keras_source import from_keras_file

        return from_keras_file(path, **selected, custom_objects=custom_objects)
    if path.suffix in (".pb", ".pbtxt"):
        from onnx_sparse.converters.tensorflow.graph_def_source import from_graph_file

        return from_graph_file(path, lookup_tables=lookup_tables, **selected)
    raise ConversionError(f"{path} is not a SavedModel directory, Keras file (.keras, .h5) or GraphDef (.pb, .pbtxt)")


def _load_saved_model(path: Path, signature: str | None, selected: dict[str, Sequence[str] | None]) -> Source:
    if signature is not None:
        require_signature(path, signature)  # before the seconds that TensorFlow takes to import
    from onnx_sparse.converters.tensorflow.function_source import FunctionSource

    tf = require("tensorflow")
    if not any((path / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise ConversionError(f"{path} is not a SavedModel: it holds no saved_model.pb")
    if not any(file.stat().st_size for file in path.glob("saved_model.pb*")):
        raise ConversionError(f"{path} is not a SavedModel: its saved_model.pb is empty")
    with _errors_of_reading(path):
        for meta_graph in require("tensorflow.python.saved_model.loader_impl").parse_saved_model(str(path)).meta_graphs:
            refuse_damaged_constants(meta_graph.graph_def, str(path))
        with left_on_disk(path / "variables" / "variables") as late:
            model = tf.saved_model.load(str(path))
        signatures = dict(model.signatures)
    # Names with a leading underscore are TensorFlow's own (__saved_model_init_op).
    available = sorted(name for name in signatures if not name.startswith("_"))
    listed = ", ".join(available)
    if signature is None:
        if not available:
            raise ConversionError(f"{path} has no signatures; save it with tf.saved_model.save(..., signatures=...)")
        if "serving_default" not in available and len(available) > 1:
            raise ConversionError(f"{path} has several signatures, choose one: {listed}")
        signature = "serving_default" if "serving_default" in available else available[0]
    if signature not in available:
        raise ConversionError(f"{path} has no signature {signature!r}; it has {listed or 'none'}")
    with _errors_of_reading(path):
        return FunctionSource(signatures[signature], name=path.name, trackable=model, late=late, **selected)


@contextmanager
def _errors_of_reading(path: Path) -> Iterator[None]:
    """Raise TensorFlow's errors for damaged files, OSError, ValueError, AttributeError, ..., as ConversionErrors."""
    try:
        yield
    except ConversionError:
        raise
    except Exception as error:
        raise ConversionError(f"{path} cannot be read as a SavedModel: {first_line(error)}") from error


def _load_object(source: Any, selected: dict[str, Sequence[str] | None]) -> Source:
    from onnx_sparse.converters.tensorflow.function_source import from_function
    from onnx_sparse.converters.tensorflow.keras_source import from_keras_model, is_keras_model

    require("tensorflow")
    if is_keras_model(source):
        return from_keras_model(source, **selected)
    if hasattr(source, "structured_outputs") or hasattr(source, "get_concrete_function"):
        return from_function(source, **selected)
    raise ConversionError(
        f"an object of type {type(source).__name__} is not a path, Keras model, tf.function or ConcreteFunction of "
        "TensorFlow"
    )
