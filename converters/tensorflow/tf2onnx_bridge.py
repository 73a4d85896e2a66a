"""Everything that knows tf2onnx: its use for the standard operators, and workarounds for its faults.

- Its public entry points log the nodes that they cannot convert and write the model regardless; here every such node is
  recorded, and `to_onnx` reports them all at once.
- It loses a node's domain when it moves the node into the body of an If or a Loop.
- It counts a loop in int64 but leaves the int32 with which TensorFlow's condition compares the counter.
- It mistakes bfloat16 for float16.
- It does not know the shapes of values found in lookup tables, which the handlers of other operators need.
- It uses names that numpy 2 no longer has.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
from onnx import ModelProto, TensorProto, helper

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode
from onnx_sparse.converters.tensorflow.handlers import HANDLERS, Handler
from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import REFUSALS, SourceNode, Tensor, Unsupported
from onnx_sparse.converters.tensorflow.quiet import require
from onnx_sparse.converters.tensorflow.source import Array, Frozen
from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION
from onnx_sparse.schemas.declaration import DType, dtype_name, numpy_dtype

#: Keys and values of lookup tables, by shared name.
_Tables = Mapping[bytes, tuple[Array, Array]]

_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)

_COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")

#: The newest opset that tf2onnx writes.
OPSET = 18


def to_onnx(frozen: Frozen) -> ModelProto:
    """Convert a frozen graph.

    The tensors keep TensorFlow's names, embedding tables that are not in the graph become inputs after the others, and
    the model is not checked yet.

    Raises:
        ConversionError: With every node that neither a handler nor tf2onnx converts.
    """
    tf, tfonnx, optimizer = require("tensorflow"), require("tf2onnx.tfonnx"), require("tf2onnx.optimizer")
    recorder = _Recorder()
    with tf.Graph().as_default() as graph, _repaired(recorder):
        try:
            tf.import_graph_def(_without_defaults(frozen), name="")
            _tell_shapes_of_lookups(graph)
            converter = functools.partial(_convert_node, tables=frozen.lookup_tables)
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
        _repair_bodies(converted)
        try:
            model: ModelProto = optimizer.optimize_graph(converted).make_model("")
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


def _with_defaults(frozen: Frozen) -> list[str]:
    """The placeholders with a default that are not inputs; their value is the default."""
    inputs = {port.tensor.partition(":")[0] for port in frozen.inputs}
    return [n.name for n in frozen.graph_def.node if n.op == "PlaceholderWithDefault" and n.name not in inputs]


def _tell_shapes_of_lookups(graph: Any) -> None:
    """Set the shapes that TensorFlow does not infer without the tables: one value, shaped as the default, per key."""
    for operation in graph.get_operations():
        if operation.type == "LookupTableFindV2":
            _, keys, default = operation.inputs
            operation.outputs[0].set_shape(keys.shape.concatenate(default.shape))


class _Recorder:
    """Stands in for tf2onnx's mapping of operators to handlers and records every node that fails."""

    def __init__(self) -> None:
        self.unsupported: list[UnsupportedNode] = []

    def wrap(self, mapping_pass: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap tf2onnx's mapping pass so that failures are recorded."""

        def recorded(graph: Any, handlers: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            if not isinstance(handlers, _RecordingMapping):
                handlers = _RecordingMapping(handlers, self)
            return mapping_pass(graph, handlers, *args, **kwargs)

        return recorded

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
                function(graph, node, **kwargs)
            except Exception as error:
                self._recorder.record(node, _reason(error))

        return guarded


@contextlib.contextmanager
def _repaired(recorder: _Recorder) -> Iterator[None]:
    """Work around tf2onnx's faults inside the context."""
    tfonnx, tf_utils, utils = require("tf2onnx.tfonnx"), require("tf2onnx.tf_utils"), require("tf2onnx.utils")
    bfloat16 = require("tensorflow").bfloat16.as_datatype_enum
    with contextlib.ExitStack() as stack:
        if not hasattr(np, "product"):
            stack.enter_context(mock.patch.object(np, "product", np.prod, create=True))
        stack.enter_context(mock.patch.dict(tf_utils.TF_TO_ONNX_DTYPE, {bfloat16: TensorProto.BFLOAT16}))
        numpy_names = {TensorProto.BFLOAT16: numpy_dtype(TensorProto.BFLOAT16).type}
        stack.enter_context(mock.patch.dict(utils.ONNX_TO_NUMPY_DTYPE, numpy_names))
        stack.enter_context(mock.patch.dict(utils.ONNX_DTYPE_NAMES, {TensorProto.BFLOAT16: "bfloat16"}))
        stack.enter_context(_zeros_kept())
        mapping_pass = recorder.wrap(tfonnx.tensorflow_onnx_mapping)
        stack.enter_context(mock.patch.object(tfonnx, "tensorflow_onnx_mapping", mapping_pass))
        yield


def _zeros_kept() -> Any:
    """Keep tf2onnx's optimizer from confusing two meanings of a 0 in the shape of a Reshape: size 0, or a copied size.

    It writes the latter, with a -1 beside it, which ONNX Runtime cannot infer for an empty tensor.
    """
    reshapes = require("tf2onnx.optimizer.reshape_optimizer").ReshapeOptimizer
    simplify = reshapes._optimize_reshape

    def cautious(self: Any, node: Any, graph: Any) -> Any:
        def around() -> list[str]:
            return [node.input[0], *(user.name for user in graph.find_output_consumers(node.output[0]))]

        computed, before = node.input[1], around()
        changed = simplify(self, node, graph)
        if node.get_attr("allowzero") is None or not changed or not node.inputs[1].is_const():
            return changed
        sizes = node.inputs[1].get_tensor_value()
        if 0 in sizes and -1 in sizes and around() == before:
            graph.replace_input(node, node.input[1], computed, 1)
            return False
        del node.attr["allowzero"]
        return changed

    return mock.patch.object(reshapes, "_optimize_reshape", cautious)


def _shared(op_type: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a partial handler, which leaves other nodes to tf2onnx's function."""
    handler = HANDLERS.get(op_type)
    if handler is None or not handler.partial:
        return function
    types = handler.dtypes

    def shared(graph: Any, node: Any, **kwargs: Any) -> None:
        if dtype_name(graph.get_dtype(node.input[0])) in types:
            _convert_node(graph, node, node.name, tables={})
        else:
            function(graph, node, **kwargs)

    return shared


def _convert_node(graph: Any, node: Any, name: str, _: Any = None, *, tables: _Tables) -> None:
    """Replace a TensorFlow node by its handler's nodes; tf2onnx calls this for every operator in the registry."""
    handler = HANDLERS[node.type]
    results = handler.convert(_source_node(graph, node, handler, tables), _GraphEmitter(graph, name))
    outputs = list(node.output)
    shapes = [graph.get_shape(output) for output in outputs]
    dtypes = [graph.get_dtype(output) for output in outputs]
    graph.remove_node(node.name)
    for output, result, shape, dtype in zip(outputs, results, shapes, dtypes, strict=True):
        if shape is not None:
            graph.set_shape(result.name, shape)
        # These keep the names of the outputs, on which the graph's outputs depend; tf2onnx's optimizer removes them.
        graph.make_node("Identity", [result.name], outputs=[output], shapes=[shape], dtypes=[dtype])


def _source_node(graph: Any, node: Any, handler: Handler, tables: _Tables) -> SourceNode:
    inputs = {}
    for name, tensor in zip(handler.names(len(node.input)), node.input, strict=True):
        dtype, shape = graph.get_dtype(tensor), graph.get_shape(tensor)
        if not dtype:
            raise Unsupported(f"input {name} is of a type that ONNX lacks")
        if dtype in _COMPLEX:
            raise Unsupported(f"input {name} is {dtype_name(dtype)}, which ONNX Runtime does not compute with")
        known = None if shape is None else tuple(None if size < 0 else size for size in shape)
        maker = graph.get_node_by_output(tensor)
        value = maker.get_tensor_value(as_list=False) if maker is not None and maker.is_const() else None
        inputs[name] = Tensor(tensor, dtype, known, value)
    attributes = {name: helper.get_attribute_value(attribute) for name, attribute in node.attr.items()}
    table = _table(node.inputs[0], tables) if "table_handle" in handler.inputs else None
    return SourceNode(node.name, node.type, inputs, attributes, table)


def _table(handle: Any, tables: _Tables) -> tuple[Array, Array] | None:
    """The table behind a handle, if its contents are known."""
    while handle.type == "Identity":
        handle = handle.inputs[0]
    name = handle.get_attr_value("shared_name")
    if not isinstance(name, bytes):
        raise Unsupported("the table is handed into a loop or branch; look keys up before it")
    return tables.get(name)


class _GraphEmitter(Emitter):
    """Writes to a tf2onnx graph; the names of the new nodes start with the name of the source node."""

    def __init__(self, graph: Any, scope: str) -> None:
        self._graph = graph
        self._scope = scope
        self._name = require("tf2onnx.utils").make_name

    def node(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[DType],
        attributes: Mapping[str, Any],
    ) -> tuple[Tensor, ...]:
        made = self._graph.make_node(
            op_type,
            [tensor.name for tensor in inputs],
            attr=dict(attributes),
            output_count=len(dtypes),
            name=self._name(f"{self._scope}/{op_type}"),
            dtypes=list(dtypes),
            domain=domain,
        )
        return tuple(Tensor(name, dtype) for name, dtype in zip(made.output, dtypes, strict=True))

    def constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        made = self._graph.make_const(self._name(f"{self._scope}/const"), array, skip_conversion=True)
        return Tensor(made.output[0], helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _repair_bodies(graph: Any) -> None:
    """Repair what tf2onnx breaks when it moves a graph into a body."""
    for node in graph.get_nodes():
        if node.domain == "" and node.type in OPS:
            node.domain = DOMAIN
        elif node.type == "LabelEncoder":
            node.domain = "ai.onnx.ml"
        for body in (node.get_body_graphs() or {}).values():
            if node.type == "Loop":
                _compare_counter_as_int64(body)
            _repair_bodies(body)


def _compare_counter_as_int64(body: Any) -> None:
    """Compare a loop's counter as int64, whatever its type in TensorFlow."""
    counter = body.input_names[0]
    for node in [node for node in body.get_nodes() if node.type in _COMPARISONS]:
        if counter in [_origin(body, name) for name in node.input]:
            for name in dict.fromkeys(node.input):
                body.insert_new_node_on_input(node, "Cast", name, to=TensorProto.INT64)


def _origin(graph: Any, name: str) -> str:
    """The tensor that a tensor is a copy of."""
    maker = graph.get_node_by_output(name, search_in_parent_graphs=False)
    return _origin(graph, maker.input[0]) if maker is not None and maker.type == "Identity" else name


def _reason(error: BaseException) -> str:
    """An exception's message on one line, without tf2onnx's own prefix."""
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, KeyError):
        text = f"{text} is not known to tf2onnx"
    return text.removeprefix("make_sure failure: ") or type(error).__name__
