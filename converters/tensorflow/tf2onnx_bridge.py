"""How tf2onnx is used for the standard operators, with our handlers for the others.

Its public entry points log the nodes that they cannot convert and write the model regardless; here every such node is
recorded, and `to_onnx` reports them all at once. TensorFlow does not infer the shapes of values found in lookup tables,
nor of what is computed from them, which the handlers of other operators need; they are told to it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from onnx import ModelProto, helper

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode
from onnx_sparse.converters.tensorflow.attributes import unknown_attributes
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.handlers.example_parsing import DENSE_SHAPES
from onnx_sparse.converters.tensorflow.handlers.registry import REFUSALS
from onnx_sparse.converters.tensorflow.handlers.sequence_parsing import CONTEXT_SHAPES, LIST_SHAPES
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.loops import convert_loop
from onnx_sparse.converters.tensorflow.source import Frozen
from onnx_sparse.converters.tensorflow.tf2onnx_nodes import convert_node
from onnx_sparse.converters.tensorflow.tf2onnx_workarounds import obey_masks, repair_bodies, repaired
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import dtype_name

#: The newest opset that tf2onnx writes.
OPSET = 18

_CONVERSIONS = itertools.count()


def to_onnx(frozen: Frozen) -> ModelProto:
    """Convert a frozen graph.

    The tensors keep TensorFlow's names, embedding tables that are not in the graph become inputs after the others, and
    the model is not checked yet.

    Raises:
        ConversionError: With every node that neither a handler nor tf2onnx converts.
    """
    tf, tfonnx = require("tensorflow"), require("tf2onnx.tfonnx")
    recorder = _Recorder()
    recorder.unsupported += unknown_attributes(frozen.graph_def)
    graph_def = _with_shapes_of_lookups(_with_distinct_names(_without_defaults(frozen)))
    graph_def = _with_dense_shapes(graph_def)
    with tf.Graph().as_default() as graph, repaired(), recorder.listening():
        try:
            tf.import_graph_def(graph_def, name="")
            converter = functools.partial(convert_node, tables=frozen.lookup_tables)
            converted = tfonnx.process_tf_graph(
                graph,
                opset=OPSET,
                extra_opset=[helper.make_opsetid(DOMAIN, OPSET_VERSION)],
                custom_op_handlers={
                    op_type: (converter, []) for op_type, handler in HANDLERS.items() if not handler.partial
                },
                input_names=[*(p.tensor for p in frozen.inputs), *(f"{name}:0" for name in frozen.embedding_tables)],
                output_names=list(dict.fromkeys(p.tensor for p in frozen.outputs)),
                initialized_tables=dict(frozen.lookup_tables),
                use_default=_with_defaults(frozen),
            )
        except Exception as error:
            # If nodes could not be converted, they are the cause of whatever fails in tf2onnx afterwards.
            if not recorder.unsupported:
                raise _failure(error) from error
        if recorder.unsupported:
            raise ConversionError(unsupported=dict.fromkeys(recorder.unsupported))
        repair_bodies(converted)
        try:
            model: ModelProto = converted.make_model("")
        except Exception as error:  # tf2onnx raises whatever its passes raise
            raise _failure(error) from error
    return model


def _failure(error: BaseException) -> ConversionError:
    return ConversionError(f"tf2onnx failed: {_reason(error)}")


def _without_defaults(frozen: Frozen) -> Any:
    """The graph, its inputs without defaults: tf.sparse.placeholder gives a shape a default that is not legal."""
    inputs = {port.tensor.partition(":")[0] for port in frozen.inputs}
    graph_def = type(frozen.graph_def)()
    graph_def.CopyFrom(frozen.graph_def)
    for node in graph_def.node:
        if node.op == "PlaceholderWithDefault" and node.name in inputs:
            node.op = "Placeholder"
            del node.input[:]
    return graph_def


def _with_distinct_names(graph_def: Any) -> Any:
    """The graph, changed in place, with functions without names that occur elsewhere.

    The functions become parts of one graph. TensorFlow has one library of functions for the whole process, and gives
    the first of two with the same name for both.
    """
    number, taken = next(_CONVERSIONS), Names(node.name for node in graph_def.node)
    library = graph_def.library.function
    functions = {function.signature.name: f"{function.signature.name}_{number}" for function in library}
    for node in (*graph_def.node, *(node for function in library for node in function.node_def)):
        for attribute in node.attr.values():
            called = [attribute.func] if attribute.HasField("func") else attribute.list.func
            for function in called:
                function.name = functions.get(function.name, function.name)
    for function in library:
        function.signature.name = functions[function.signature.name]
        holders = [*function.signature.input_arg, *function.node_def]
        renamed = {holder.name: taken.fresh(holder.name) for holder in holders}
        for holder in holders:
            holder.name = renamed[holder.name]
        for node in function.node_def:
            node.input[:] = [_renamed(name, renamed) for name in node.input]
        for returned in (function.ret, function.control_ret):
            for key in list(returned):
                returned[key] = _renamed(returned[key], renamed)
    return graph_def


def _renamed(name: str, renamed: Mapping[str, str]) -> str:
    """The name of a tensor in a function, `node:output:0`, or of a control dependency, after its node was renamed."""
    node, colon, output = name.removeprefix("^").partition(":")
    return f"{'^' * name.startswith('^')}{renamed[node]}{colon}{output}"


def _with_defaults(frozen: Frozen) -> list[str]:
    """The placeholders with a default that are not inputs; their value is the default."""
    inputs = {port.tensor.partition(":")[0] for port in frozen.inputs}
    return [n.name for n in frozen.graph_def.node if n.op == "PlaceholderWithDefault" and n.name not in inputs]


def _with_shapes_of_lookups(graph_def: Any) -> Any:
    """The graph with the shapes of lookups, from which TensorFlow infers those of what comes after them.

    A lookup gives one value, shaped as the default, per key. Keys may come from another lookup, so the graph is
    imported until no more is known.
    """
    tf = require("tensorflow")
    nodes = {node.name: node for node in graph_def.node if node.op == "LookupTableFindV2"}
    found: dict[str, Any] = {}
    while len(found) < len(nodes):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
        known = len(found)
        for name in nodes.keys() - found.keys():
            _, keys, default = graph.get_operation_by_name(name).inputs
            shape = keys.shape.concatenate(default.shape)
            if shape.rank is not None:
                found[name] = shape
                nodes[name].attr["_output_shapes"].list.shape.append(shape.as_proto())
        if len(found) == known:
            break
    return graph_def


def _with_dense_shapes(graph_def: Any) -> Any:
    """The graph with the shapes of parsed features as text, because tf2onnx drops an attribute of several shapes."""
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in nodes:
            for name in (DENSE_SHAPES, CONTEXT_SHAPES, LIST_SHAPES):
                given = name.removeprefix("_")
                if given in node.attr:
                    shapes = [[dim.size for dim in shape.dim] for shape in node.attr[given].list.shape]
                    node.attr[name].s = json.dumps(shapes).encode()
    return graph_def


class _Recorder:
    """Stands in for tf2onnx's mapping of operators to handlers and records every node that fails."""

    def __init__(self) -> None:
        self.unsupported: list[UnsupportedNode] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Record the nodes that fail in tf2onnx's mapping pass inside the context."""
        tfonnx = require("tf2onnx.tfonnx")
        mapping_pass = tfonnx.tensorflow_onnx_mapping

        def recorded(graph: Any, handlers: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            if not isinstance(handlers, _RecordingMapping):
                handlers = _RecordingMapping(handlers, self)
            return mapping_pass(graph, handlers, *args, **kwargs)

        with mock.patch.object(tfonnx, "tensorflow_onnx_mapping", recorded):
            yield

    def record(self, node: Any, reason: str) -> None:
        """Record a node."""
        self.unsupported.append(UnsupportedNode(node.name, node.type, reason))


class _RecordingMapping(dict[str, Any]):
    """A mapping from operators to (function, arguments); for unknown operators, the function records the node."""

    def __init__(self, handlers: Mapping[str, Any], recorder: _Recorder) -> None:
        super().__init__(
            {op_type: (self._guarded(_shared(op_type, f)), kwargs) for op_type, (f, kwargs) in handlers.items()}
        )
        self._recorder = recorder

    def get(self, op_type: str, default: Any = None) -> Any:
        """The function and arguments for an operator."""
        return super().get(op_type, (self._unknown, {}))

    def _unknown(self, graph: Any, node: Any, **_: Any) -> None:
        self._recorder.record(node, REFUSALS.get(node.type, "no converter for this operator"))

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(graph: Any, node: Any, **kwargs: Any) -> None:
            try:
                if node.type == "StridedSlice":
                    obey_masks(graph, node)
                function(graph, node, **kwargs)
            except Exception as error:
                self._recorder.record(node, REFUSALS.get(node.type) or _reason(error))

        return guarded


def _shared(op_type: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for an operator of which tf2onnx converts some nodes, or a part."""
    if op_type in ("While", "StatelessWhile"):
        return functools.partial(convert_loop, function)
    handler = HANDLERS.get(op_type)
    if handler is None or not handler.partial:
        return function
    types = handler.dtypes

    def shared(graph: Any, node: Any, **kwargs: Any) -> None:
        if dtype_name(graph.get_dtype(node.input[0])) in types:
            convert_node(graph, node, node.name, tables={})
        else:
            function(graph, node, **kwargs)

    return shared


def _reason(error: BaseException) -> str:
    """An exception's message on one line, without tf2onnx's own prefix."""
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, KeyError):
        text = f"{text} is not known to tf2onnx"
    return text.removeprefix("make_sure failure: ") or type(error).__name__
