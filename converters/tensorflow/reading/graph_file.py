"""Graphs without a SavedModel around them: a frozen GraphDef, and a checkpoint of TensorFlow 1 with its `.meta` file.

Inputs and outputs are tensors (`"a:0"`, or `"a"` for short) and keep the names by which they are requested. When
omitted, the inputs are the placeholders that the outputs need, and the outputs those tensors that no other node
consumes, named by their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint
from onnx_sparse.converters.tensorflow.reading.concrete_functions import function_names
from onnx_sparse.converters.tensorflow.reading.effects import ancestors
from onnx_sparse.converters.tensorflow.reading.element_types import type_name
from onnx_sparse.converters.tensorflow.reading.given_tables import Contents, checked_tables
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef, MetaGraphDef
from onnx_sparse.converters.tensorflow.reading.model import Model, graph_of
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.operators import operators
from onnx_sparse.converters.tensorflow.reading.ports import Port, distinct, refuse_repeated, refuse_unknown
from onnx_sparse.converters.tensorflow.reading.saved_model import parsed, read_bytes, values_of
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, COPIES, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.tensorflow.reading.variables import VARIABLES, Variables
from onnx_sparse.converters.tensorflow.source_files import kind_of

#: Operators whose results are no answers of a model.
_NO_RESULT = frozenset({"Const", "NoOp", "Assert", "Placeholder", "PlaceholderWithDefault", "VarHandleOp"})
#: The operators that stand for inputs.
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def read_graph_file(
    path: Path,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, Contents] | None = None,
) -> tuple[Model, Any]:
    """Read a GraphDef, binary (`.pb`) or text (`.pbtxt`), or a checkpoint's `.meta` file and the checkpoint.

    Args:
        path: The file.
        inputs, outputs: The tensors that are the inputs and outputs.
        lookup_tables: The keys and values of its lookup tables, by the nodes that make these or their shared names.

    Returns:
        The model, and its GraphDef.

    Raises:
        ConversionError: It cannot be read, or has no such tensor.
    """
    content = read_bytes(path)
    if not content:
        raise ConversionError(f"{path} is empty")
    if kind_of(path) == ".meta":
        meta_graph = parsed(MetaGraphDef, content, path, is_text=False)
        checkpoint = Checkpoint(str(path).removesuffix(".meta"))
        model = read_graph(
            meta_graph.graph_def,
            name=path.stem.partition(".")[0] or path.parent.name,
            inputs=inputs,
            outputs=outputs,
            lookup_tables=lookup_tables,
            checkpoint=checkpoint,
        )
        return model, meta_graph.graph_def
    try:
        graph_def = parsed(GraphDef, content, path, is_text=path.suffix == ".pbtxt")
        if not graph_def.node:
            raise ConversionError(f"{path} holds no GraphDef: it has no nodes")
    except ConversionError:
        if path.stem == "saved_model":
            raise ConversionError(f"{path} belongs to a SavedModel; give its directory, {path.parent}") from None
        raise
    model = read_graph(graph_def, name=path.stem, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)
    return model, graph_def


def read_tensors(
    path: Path, meta_graph: Any, *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Model:
    """Read a SavedModel by the names of tensors: one that has no signatures.

    Args:
        path: Its folder.
        meta_graph: Which of its graphs.
        inputs, outputs: The tensors that are the inputs and outputs; all placeholders when there are no inputs.

    Raises:
        ConversionError: There is no such tensor, or no outputs are given.
    """
    graph = graph_of(meta_graph.graph_def)
    if outputs is None:
        # What saves and restores variables is no part of the model.
        ends = {_tensor(name): graph.nodes[name.partition(":")[0]].op for name in _unconsumed(graph)}
        ours = [name for name, op in ends.items() if not name.startswith("save") and op != "VarIsInitializedOp"]
        fed = [_tensor(port.name) for port in placeholders(graph) if not port.name.startswith("save")]
        cure = "save it with tf.saved_model.save(..., signatures=...)"
        if ours and fed:
            cure = f"choose tensors of its graph, as in --inputs={','.join(fed)} --outputs={','.join(ours[:3])}"
        if functions := function_names(meta_graph):
            cure = (
                f"choose a function, as in --function={functions[0]} (there is {', '.join(functions[:10])}), or {cure}"
            )
        raise ConversionError(f"{path} has no signatures; {cure}")
    model = read_graph(meta_graph.graph_def, name=path.name, inputs=inputs, outputs=outputs)
    return replace(model, **values_of(meta_graph, model.graph, path))


def read_graph(
    graph_def: Any,
    *,
    name: str,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, Contents] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """A GraphDef as a model; see `read_graph_file`.

    Args:
        graph_def: The graph.
        name: A name for the model.
        inputs, outputs: The tensors that are the inputs and outputs.
        lookup_tables: The keys and values of its lookup tables.
        checkpoint: The values of its variables.
    """
    graph = graph_of(graph_def)
    fetched = _unconsumed(graph) if outputs is None else list(outputs)
    refuse_repeated([_tensor(tensor) for tensor in inputs or ()], "input")
    refuse_repeated(fetched, "output")
    results = _ports(graph, fetched)
    ends = {port.tensor.partition(":")[0] for port in results}
    needed = ends | ancestors(graph, (graph.nodes[end] for end in ends))
    own = [port for port in placeholders(graph) if outputs is None or port.name in needed]
    given = own if inputs is None else _ports(graph, inputs)
    if not results:
        raise ConversionError(f"{name} has no outputs")
    # ONNX requires all names to differ, even where an input is also an output.
    names = distinct((port.name for port in results), (port.name for port in given))
    return Model(
        name=name,
        graph=graph,
        inputs=tuple(given),
        outputs=tuple(port.renamed(free) for port, free in zip(results, names, strict=True)),
        variables=Variables(graph, checkpoint),
        lookup_tables=checked_tables(graph, lookup_tables),
    )


def placeholders(graph: Scope) -> list[Port]:
    """The inputs that a graph has itself."""
    return _ports(graph, [node.name for node in graph.nodes.values() if node.op in PLACEHOLDERS])


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _unconsumed(graph: Scope) -> list[str]:
    consumed = {_tensor(name) for node in graph.nodes.values() for name in node.input if not name.startswith("^")}
    ends: list[str] = []
    for node in graph.nodes.values():
        count = len(_types(graph, node))
        tensors = [f"{node.name}:{k}" for k in range(count)]
        if node.op in _NO_RESULT | VARIABLES or not consumed.isdisjoint(tensors):
            continue
        ends += [node.name] if count == 1 else tensors
    return ends


def _ports(graph: Scope, names: Sequence[str]) -> list[Port]:
    known = graph.nodes
    unknown = [name for name in names if not _exists(graph, name)]
    refuse_unknown(unknown, known, "tensor")
    ports = []
    for name in names:
        node_name, _, position = _tensor(name).partition(":")
        node = graph.nodes[node_name]
        types = _types(graph, node)
        ports.append(Port(name, _tensor(name), type_name(types[int(position)]), _shape(node, int(position))))
    return ports


def _exists(graph: Scope, name: str) -> bool:
    node, _, position = _tensor(name).partition(":")
    return node in graph.nodes and position.isdecimal() and int(position) < len(_types(graph, graph.nodes[node]))


def _types(graph: Scope, node: NodeDef) -> list[int]:
    """The types of a node's outputs; of an unknown operator, one output of the type T is assumed."""
    if node.op in graph.library.functions:
        return [argument.type for argument in graph.library[node.op].signature.output_arg]
    if node.op in CALLS:
        return list(node.attr["Tout"].list.type)
    operator = operators().get(node.op)
    if operator is None or node.op in COPIES:
        return [node.attr[key].type for key in ("dtype", "T") if key in node.attr][:1] or [0]
    try:
        return [dtype for types in operator.outputs_of(node.attr).values() for dtype in types]
    except Unsupported as reason:
        raise ConversionError(f"{node.name} ({node.op}): {reason}") from None


def _shape(node: NodeDef, position: int) -> tuple[int | None, ...] | None:
    """The shape of an output, where the graph says it."""
    if "shape" in node.attr and node.op.startswith("Placeholder"):
        shape = shape_of(node.attr["shape"].shape)
        if shape != () or "_output_shapes" not in node.attr:
            return shape
    if "_output_shapes" in node.attr:
        shapes = node.attr["_output_shapes"].list.shape
        if position < len(shapes):
            return shape_of(shapes[position])
    return None
