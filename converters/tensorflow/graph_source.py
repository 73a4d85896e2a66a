"""A frozen GraphDef, or a checkpoint of TensorFlow 1 with its `.meta` file, as a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.importing.conversion import inferred_shape
from onnx_sparse.converters.tensorflow.importing.input_shapes import with_shapes, without_shapes
from onnx_sparse.converters.tensorflow.lazy_imports import require, with_tensorflow_text
from onnx_sparse.converters.tensorflow.reading.given_tables import Contents
from onnx_sparse.converters.tensorflow.reading.graph_file import (
    PLACEHOLDERS,
    placeholders,
    read_graph,
    read_graph_file,
    read_tensors,
)
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.source import Source, as_array
from onnx_sparse.converters.tensorflow.source_files import kind_of

#: The operators that fill a table with keys and values, and those that take the same inputs for each kind of table.
_FILLING = ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")
_FILLED_BY = {"HashTableV2": "InitializeTableV2", "MutableHashTableV2": "LookupTableImportV2"}


class GraphSource(Source):
    """A graph, with the values of its variables in a checkpoint if it has any.

    Args:
        model: The graph as it was read.
        graph_def: The graph.
        checkpoint: What the files of its checkpoint begin with.
    """

    def __init__(self, model: Model, graph_def: Any, checkpoint: str | None = None) -> None:
        self.model = model
        self._graph_def = graph_def
        self._checkpoint = checkpoint
        self._session: Any = None

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the graph in a session."""
        if self._session is None:
            self._session = self._opened(require("tensorflow"))
        given = {port.tensor: feeds[port.name] for port in self.inputs}
        return [as_array(value) for value in self._session.run([port.tensor for port in self.outputs], given)]

    def reset(self) -> None:
        """See `Source`."""
        self._session = None

    def _opened(self, tf: Any) -> Any:
        """A session in which variables and tables have their values."""
        return with_tensorflow_text(tf, lambda: self._imported(tf))

    def _imported(self, tf: Any) -> Any:
        graph, saver = tf.Graph(), None
        try:
            with graph.as_default():
                if self._checkpoint is None:
                    tf.import_graph_def(tf.compat.v1.GraphDef.FromString(self._graph_def.SerializeToString()), name="")
                else:
                    meta_graph = tf.compat.v1.MetaGraphDef.FromString(Path(f"{self._checkpoint}.meta").read_bytes())
                    for node in meta_graph.graph_def.node:  # today's TensorFlow infers others than it did then
                        node.attr.pop("_output_shapes", None)
                    saver = tf.compat.v1.train.import_meta_graph(meta_graph)
                filling = list(_filling(tf, graph, self.model.lookup_tables))
                session = tf.compat.v1.Session(graph=graph)
                if saver is not None:
                    saver.restore(session, self._checkpoint)
                session.run(filling)
        except (ValueError, OSError, tf.errors.OpError) as error:
            raise ConversionError(f"{self.name} is not a graph that TensorFlow runs: {first_line(error)}") from error
        return session


class TensorsSource(GraphSource):
    """Tensors of a SavedModel that has no signatures.

    Args:
        path: Its folder.
        meta_graph: Which of its graphs.
        inputs, outputs: The tensors that are the inputs and outputs.

    Raises:
        ConversionError: There is no such tensor.
    """

    def __init__(
        self,
        path: Path,
        meta_graph: Any,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        names, shapes = without_shapes(inputs)
        model = with_shapes(read_tensors(path, meta_graph, inputs=names, outputs=outputs), shapes)
        super().__init__(_with_inferred_shapes(model), meta_graph.graph_def)
        self._path = path

    def _imported(self, tf: Any) -> Any:
        session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            with session.graph.as_default():
                tf.compat.v1.saved_model.load(session, list(self.model.tags), str(self._path))
        except Exception as error:  # TensorFlow raises OSError, ValueError, AttributeError, ... for damaged files
            raise ConversionError(f"{self._path} cannot be loaded by TensorFlow: {first_line(error)}") from error
        return session


def from_graph(
    graph_def: Any,
    *,
    name: str,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, Contents] | None = None,
) -> GraphSource:
    """A GraphDef in memory, TensorFlow's message or what this package reads; see `from_graph_file`."""
    own = GraphDef.FromString(graph_def.SerializeToString())
    names, shapes = without_shapes(inputs)
    model = read_graph(own, name=name, inputs=names, outputs=outputs, lookup_tables=lookup_tables)
    return GraphSource(_with_inferred_shapes(with_shapes(model, shapes)), own)


def from_graph_file(
    path: Path,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, Contents] | None = None,
) -> GraphSource:
    """A `.pb` or `.pbtxt` file, or a `.meta` file with its checkpoint; see `read_graph_file`."""
    names, shapes = without_shapes(inputs)
    model, graph_def = read_graph_file(path, inputs=names, outputs=outputs, lookup_tables=lookup_tables)
    model = _with_inferred_shapes(with_shapes(model, shapes))
    return GraphSource(model, graph_def, str(path).removesuffix(".meta") if kind_of(path) == ".meta" else None)


def _with_inferred_shapes(model: Model) -> Model:
    """The model with the shapes of those inputs within the graph of which the graph does not say them."""
    found = {}
    for position, port in enumerate(model.inputs):
        node = model.graph.nodes[port.tensor.partition(":")[0]]
        if port.shape is None and node.op not in PLACEHOLDERS:
            whole = replace(model.fresh(), inputs=tuple(placeholders(model.graph)))
            found[position] = inferred_shape(whole, port.tensor)
    return with_shapes(model, found)


def _filling(tf: Any, graph: Any, tables: Mapping[str, tuple[Array, Array]]) -> Iterator[Any]:
    """Operations that fill tables, with what was given for them or with the graph's own constants."""
    for op in graph.get_operations():
        if op.type in _FILLING:
            table = op.inputs[0].op
            while table.type == "Identity":
                table = table.inputs[0].op
            if table.name not in tables and all(tf.get_static_value(tensor) is not None for tensor in op.inputs[1:]):
                yield op
        elif op.name in tables:
            types = op.get_attr("key_dtype"), op.get_attr("value_dtype")
            keys, values = (tf.constant(array, dtype) for array, dtype in zip(tables[op.name], types, strict=True))
            fill = getattr(tf.raw_ops, _FILLED_BY[op.type])
            yield fill(table_handle=op.outputs[0], keys=keys, values=values)
