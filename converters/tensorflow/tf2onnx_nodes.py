"""How handlers read and write the graphs of tf2onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers import HANDLERS, Handler
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.tensor import Array, Shape, Tensor
from onnx_sparse.schemas.declaration import DType, dtype_name

#: Keys and values of lookup tables, by shared name.
Tables = Mapping[bytes, tuple[Array, Array]]

_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


def convert_node(graph: Any, node: Any, name: str, _: Any = None, *, tables: Tables) -> None:
    """Replace a TensorFlow node by its handler's nodes; tf2onnx calls this for every operator in the registry."""
    handler = HANDLERS[node.type]
    results = handler.convert(_source_node(graph, node, handler, tables), GraphEmitter(graph, name))
    outputs = list(node.output)
    shapes = [graph.get_shape(output) for output in outputs]
    dtypes = [graph.get_dtype(output) for output in outputs]
    graph.remove_node(node.name)
    for output, result, shape, dtype in zip(outputs, results, shapes, dtypes, strict=True):
        if shape is not None:
            graph.set_shape(result.name, shape)
        # These keep the names of the outputs, on which the graph's outputs depend; tf2onnx's optimizer removes them.
        graph.make_node("Identity", [result.name], outputs=[output], shapes=[shape], dtypes=[dtype])


def _source_node(graph: Any, node: Any, handler: Handler, tables: Tables) -> Node:
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
    dtypes = tuple(graph.get_dtype(output) for output in node.output)
    return Node(node.name, node.type, inputs, attributes, table, dtypes)


def _table(handle: Any, tables: Tables) -> tuple[Array, Array] | None:
    """The table behind a handle, if its contents are known."""
    while handle.type == "Identity":
        handle = handle.inputs[0]
    name = handle.get_attr_value("shared_name")
    if not isinstance(name, bytes):
        raise Unsupported("the table is passed into a loop or branch; look up keys before it")
    return tables.get(name)


class GraphEmitter(Emitter):
    """Writes to a tf2onnx graph; the names of the new nodes start with the name of the source node."""

    def __init__(self, graph: Any, scope: str) -> None:
        self._graph = graph
        self._scope = scope
        self._name = require("tf2onnx.utils").make_name

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape | None] = (),
        *,
        domain: str = "",
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node as it is."""
        made = self._graph.make_node(
            op_type,
            ["" if tensor is None else tensor.name for tensor in inputs],
            attr={name: value for name, value in attributes.items() if value is not None},
            output_count=len(dtypes),
            name=self._name(f"{self._scope}/{op_type}"),
            dtypes=list(dtypes),
            domain=domain,
        )
        return self._results(made.output, dtypes, shapes)

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        made = self._graph.make_const(self._name(f"{self._scope}/const"), array, skip_conversion=True)
        if dtype == TensorProto.STRING:  # of bytes, make_const loses zeros at the end
            made.set_attr("value", numpy_helper.from_array(array, made.name))
        return str(made.output[0])
