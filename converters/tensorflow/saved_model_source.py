"""A SavedModel as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.importing.input_shapes import with_shapes, without_shapes
from onnx_sparse.converters.tensorflow.lazy_imports import require, with_tensorflow_text
from onnx_sparse.converters.tensorflow.reading.concrete_functions import add_signature
from onnx_sparse.converters.tensorflow.reading.ports import select
from onnx_sparse.converters.tensorflow.reading.saved_model import read_saved_model
from onnx_sparse.converters.tensorflow.source import CapturedVariables, Source, as_array


class SavedModelSource(Source):
    """A signature of a SavedModel. TensorFlow is imported, and loads the model, when it is run for the first time.

    Args:
        path: Its folder.
        meta_graph: Which of its graphs.
        signature: Which signature; `serving_default`, or the only one, when omitted.
        inputs, outputs: The chosen inputs and outputs, in order.

    Raises:
        ConversionError: It cannot be read, or has no such signature, input or output.
    """

    def __init__(
        self,
        path: Path,
        meta_graph: Any,
        *,
        signature: str | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        names, shapes = without_shapes(inputs)
        model = read_saved_model(path, meta_graph, signature=signature, inputs=names)
        self._path = path
        self._results = [port.name for port in model.outputs]
        self._function: Any = None
        self._first: CapturedVariables | None = None
        self.model = with_shapes(replace(model, outputs=select(model.outputs, outputs, "output", subset=True)), shapes)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Call the signature."""
        tf = require("tensorflow")
        if self._function is None:
            self._function = self._loaded(tf)
        given = {
            port.source_name: tf.constant(feeds[port.name], getattr(tf.dtypes, port.dtype)) for port in self.inputs
        }
        results = tf.nest.flatten(self._called(self._function.signature, given), expand_composites=True)
        by_name = dict(zip(self._results, results, strict=True))
        return [as_array(by_name[port.name].numpy()) for port in self.outputs]

    def reset(self) -> None:
        """See `Source`."""
        if self._function is None:
            self._function = self._loaded(require("tensorflow"))
        if self._first is None:
            self._first = CapturedVariables(self._function.signature)
        self._first.restore()

    def _loaded(self, tf: Any) -> Any:
        """The signature as TensorFlow loads it."""
        try:
            tags = list(self.model.tags) or None
            loaded = with_tensorflow_text(tf, lambda: tf.saved_model.load(str(self._path), tags=tags))
            return _Kept(loaded, self._chosen(loaded))
        except ConversionError:
            raise
        except Exception as error:  # TensorFlow raises OSError, ValueError, AttributeError, ... for damaged files
            raise ConversionError(f"{self._path} cannot be loaded by TensorFlow: {first_line(error)}") from error

    def _chosen(self, loaded: Any) -> Any:
        """What is called, of the model that TensorFlow loaded."""
        return loaded.signatures[self.model.signature]

    def _called(self, signature: Any, given: Mapping[str, Any]) -> Any:
        return signature(**given)


class FunctionOfModelSource(SavedModelSource):
    """A function of a SavedModel that no signature calls.

    Args:
        path: Its folder.
        meta_graph: Which of its graphs; it is changed.
        function: The name of the function, as in `function_names`.
        inputs, outputs: The chosen inputs and outputs, in order.

    Raises:
        ConversionError: It cannot be read, or has no such function, input or output.
    """

    def __init__(self, path: Path, meta_graph: Any, *, function: str, **chosen: Sequence[str] | None) -> None:
        signature, self._trace = add_signature(meta_graph, function, path)
        super().__init__(path, meta_graph, signature=signature, **chosen)

    def _chosen(self, loaded: Any) -> Any:
        function = loaded
        for attribute in self._trace.attributes:
            function = getattr(function, attribute)
        return getattr(function, "concrete_functions", [function])[self._trace.number]

    def _called(self, signature: Any, given: Mapping[str, Any]) -> Any:
        results = signature._call_flat([given[name] for name in self._trace.inputs], signature.captured_inputs)
        flat = require("tensorflow").nest.flatten(results, expand_composites=True)
        return dict(zip(self._trace.outputs, flat, strict=True))


class _Kept:
    """A signature that keeps its model, whose variables would be freed with it."""

    def __init__(self, model: Any, signature: Any) -> None:
        self._model = model
        self.signature = signature
