"""A frozen GraphDef as a source, binary (`.pb`) or text (`.pbtxt`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensorflow.attributes import every_node
from onnx_sparse.converters.tensorflow.damaged_constants import refuse_damaged_constants
from onnx_sparse.converters.tensorflow.derived_tables import derive_tables
from onnx_sparse.converters.tensorflow.freeze import inlinable
from onnx_sparse.converters.tensorflow.graph_tables import Contents, GraphTables
from onnx_sparse.converters.tensorflow.large_tables import set_aside, with_rows
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.loops_of_tensorflow_1 import with_functions
from onnx_sparse.converters.tensorflow.source import (
    Frozen,
    Port,
    Source,
    distinct,
    refuse_repeated,
    refuse_unknown,
)
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.graphs import Names

_NO_RESULT = ("Const", "NoOp", "Assert", "Placeholder", "PlaceholderWithDefault")


class GraphDefSource(Source):
    """A GraphDef.

    Inputs and outputs are tensors (`"a:0"`, or `"a"` for short) and keep the names by which they are requested. When
    omitted, the inputs are the placeholders and the outputs those that no other node consumes, named by their nodes.
    The contents of its lookup tables are given by the names of their nodes, unless the graph has them.
    """

    def __init__(
        self,
        graph_def: Any,
        *,
        name: str,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        lookup_tables: Mapping[str, Contents] | None = None,
    ) -> None:
        tf = require("tensorflow")
        self.name = name
        self.specs = CompositeSpecs()
        self._graph = tf.Graph()
        refuse_damaged_constants(graph_def, name)
        try:
            with self._graph.as_default():
                tf.import_graph_def(graph_def, name="")
        except (ValueError, tf.errors.OpError) as error:
            raise ConversionError(f"{name} is not a valid graph: {first_line(error)}") from error
        self.inputs = self._ports(self._placeholders() if inputs is None else inputs, "input")
        self.outputs = self._ports(self._unconsumed() if outputs is None else outputs, "output")
        # ONNX requires all names to differ, even where an input is also an output.
        names = distinct((p.name for p in self.outputs), (p.name for p in self.inputs))
        self.outputs = tuple(replace(p, name=name) for p, name in zip(self.outputs, names, strict=True))
        if not self.outputs:
            raise ConversionError(f"{name} has no outputs")
        self._tables = GraphTables(self._graph, lookup_tables)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the graph in a session."""
        tf = require("tensorflow")
        with tf.compat.v1.Session(graph=self._graph) as session:
            self._tables.fill(session)
            fetched = session.run([p.tensor for p in self.outputs], {p.tensor: feeds[p.name] for p in self.inputs})
        return [_as_array(value) for value in fetched]

    def freeze(self) -> Frozen:
        """Extract the part of the graph between inputs and outputs and fold its constants."""
        tf, loader = require("tensorflow"), require("tf2onnx.tf_loader")
        cut = tf.Graph()
        with cut.as_default():
            scopes = {operation.name.split("/")[0] for operation in self._graph.get_operations()}
            prefix = Names(scopes).fresh("fetches")
            placeholders = {}
            for k, port in enumerate(self.inputs):
                tensor = self._graph.get_tensor_by_name(port.tensor)
                placeholders[port.tensor] = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, f"{prefix}/input_{k}")
            wanted = [p.tensor for p in self.outputs]
            fetched = tf.import_graph_def(self._graph.as_graph_def(), placeholders, wanted, name="")
            fetches = [tf.identity(tensor, f"{prefix}/output_{k}") for k, tensor in enumerate(fetched)]
        inputs = [replace(p, tensor=placeholders[p.tensor].name) for p in self.inputs]
        outputs = [replace(p, tensor=end.name) for p, end in zip(self.outputs, fetches, strict=True)]
        graph_def = tf.compat.v1.graph_util.extract_sub_graph(
            _without_colocation(cut.as_graph_def(add_shapes=True)),
            [port.tensor.partition(":")[0] for port in (*inputs, *outputs)],
        )
        graph_def = with_functions(graph_def, [port.tensor for port in (*inputs, *outputs)])
        _keep_loops(graph_def)
        lookup_tables = self._tables.name(graph_def)
        omitted = [n.name for n in graph_def.node if n.op == "Placeholder" and not n.name.startswith(f"{prefix}/")]
        if omitted:
            raise ConversionError(f"the model needs every input: {', '.join(omitted)} was omitted")
        fed, fetches = [p.tensor for p in inputs], [p.tensor for p in outputs]
        values: dict[str, Array] = {}
        derivation = derive_tables(graph_def, values, fetches)
        tables = set_aside(graph_def, values, fetches)
        with tf.Graph().as_default():  # Grappler's export is refused in eager mode, though it does not use this graph
            inlinable(graph_def)
            graph_def = loader.tf_optimize([*fed, *(f"{name}:0" for name in tables)], fetches, graph_def)
        with_rows(graph_def, tables)
        return Frozen(self.name, graph_def, tuple(inputs), tuple(outputs), derivation, lookup_tables, tables)

    def _placeholders(self) -> list[str]:
        return [op.name for op in self._graph.get_operations() if op.type == "Placeholder"]

    def _unconsumed(self) -> list[str]:
        names = []
        for op in self._graph.get_operations():
            if op.type in _NO_RESULT or any(tensor.consumers() for tensor in op.outputs):
                continue
            names += [op.name] if len(op.outputs) == 1 else [tensor.name for tensor in op.outputs]
        return names

    def _ports(self, names: Sequence[str], kind: str) -> tuple[Port, ...]:
        known = {tensor.name: tensor for op in self._graph.get_operations() for tensor in op.outputs}
        tensors = {name: name if ":" in name else f"{name}:0" for name in names}
        refuse_unknown([name for name in names if tensors[name] not in known], known, "tensor")
        refuse_repeated(list(tensors.values()) if kind == "input" else names, kind)
        ports = []
        for name in names:
            tensor = known[tensors[name]]
            shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
            ports.append(Port(name, tensor.name, tensor.dtype.base_dtype.name, shape))
        return tuple(ports)


def _without_colocation(graph_def: Any) -> Any:
    """The graph, changed in place, without the wishes to be on the same device, which would keep replaced inputs."""
    for node in graph_def.node:
        node.attr.pop("_class", None)
    return graph_def


def _keep_loops(graph_def: Any) -> None:
    """Let TensorFlow's optimizer leave loops and branches whole: lowered to single nodes, they are not recognised."""
    for node in every_node(graph_def):
        if "_lower_using_switch_merge" in node.attr:
            node.attr["_lower_using_switch_merge"].b = False


def from_graph_file(
    path: Path,
    *,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    lookup_tables: Mapping[str, Contents] | None = None,
) -> GraphDefSource:
    """Read a GraphDef from a `.pb` or `.pbtxt` file.

    Raises:
        ConversionError: If the file holds no GraphDef.
    """
    tf = require("tensorflow")
    graph_def = tf.compat.v1.GraphDef()
    try:
        if path.suffix == ".pbtxt":
            require("google.protobuf.text_format").Parse(path.read_text(), graph_def)
        else:
            graph_def.ParseFromString(path.read_bytes())
    except Exception as error:  # the only common base of protobuf's DecodeError and ParseError
        if path.name in ("saved_model.pb", "saved_model.pbtxt"):
            raise ConversionError(f"{path} belongs to a SavedModel; give its directory, {path.parent}") from error
        raise ConversionError(f"{path} holds no GraphDef: it is damaged, cut short, or something else") from error
    if not graph_def.node:
        raise ConversionError(f"{path} holds no GraphDef: it has no nodes")
    return GraphDefSource(graph_def, name=path.stem, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)


def _as_array(value: Any) -> Array:
    """What a session returns: an array, a numpy scalar, or bytes for a scalar string."""
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
