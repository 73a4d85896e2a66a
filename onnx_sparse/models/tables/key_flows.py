"""Where the positions of keys go: from the nodes that find them to the lookups, and what reads a model's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnx_sparse.errors import printable
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.graphs import array_of, attribute, graphs, read_names, subgraphs
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.function_body import operator_name

#: The operators that find keys, and how many of their inputs are the keys.
FINDERS = {"FindKeys": 1, "FindStrings": 2}
#: What an update adds to the name of a table, for the inputs of its finder.
NEWER = {"FindKeys": (".newer_keys",), "FindStrings": (".newer_key_bytes", ".newer_key_offsets")}
#: What passes positions on.
_PASSING = {"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
#: What `_step` says of a lookup.
_END = -(1 << 62)
#: What only tells which keys are missing, or how many were asked for.
_TELLING = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Shape", "Size"}
#: What is added to the name of what a node gave before an update, and to those of what is in between.
BEFORE, FOUND = ".before", ".found"


class ModelReads:
    """What the tables of a model have in common, read once: all of it is of the model as it is now.

    Attributes:
        model: The model.
        constants: Its `constants_of`.
        readers: By tensor, the nodes that read it, with their graphs, by their numbers in the order of the graphs.
        boundary: The names of inputs and outputs of graphs.
        flows: Where the positions of keys go.
        flows_to: The numbers of the flows that end in a node, by its `id`.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model, self.constants = model, constants_of(model)
        every_graph = list(graphs(model.graph))
        self.readers: dict[str, dict[int, tuple[GraphProto, NodeProto]]] = {}
        numbered = enumerate((graph, node) for graph in every_graph for node in graph.node)
        for number, (graph, node) in numbered:
            for name in node.input:
                self.readers.setdefault(name, {})[number] = graph, node
        self.boundary = {value.name for graph in every_graph for value in (*graph.input, *graph.output)}
        self.flows = [flow for graph in every_graph for flow in _flows(graph, self.constants)]
        self.flows_to: dict[int, list[int]] = {}
        for number, flow in enumerate(self.flows):
            for end, _, _ in flow.ends:
                self.flows_to.setdefault(id(end), []).append(number)


@dataclass
class Flow:
    """Where the positions go that a node finds.

    Attributes:
        graph: The graph of the node.
        node: The node.
        ends: The lookups that read them, each with what was added to them, and whether missing keys have a row.
        masks: Nodes that give missing keys a row, and which of their inputs is it.
        others: Other nodes that read them.
        passed: The names under which the positions are passed on.
    """

    graph: GraphProto
    node: NodeProto
    ends: list[tuple[NodeProto, int, bool]] = field(default_factory=list)
    masks: list[tuple[NodeProto, int]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)


def _flows(graph: GraphProto, constants: Mapping[str, TensorProto]) -> Iterator[Flow]:
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in read_names([node]):
            readers.setdefault(name, []).append(node)
    for node in graph.node:
        if node.domain != DOMAIN or node.op_type not in FINDERS or _is_of_update(node):
            continue
        flow, begin = Flow(graph, node), node.output[0]
        if [list(reader.output) for reader in readers.get(begin, ())] == [[begin.removesuffix(BEFORE)]]:
            begin = begin.removesuffix(BEFORE)
        todo = [(begin, 0, False)]
        while todo:
            name, shift, is_safe = todo.pop()
            flow.passed.add(name)
            if name in outputs:
                flow.others.append(f"{name} is an output of a graph")
            for reader in readers.get(name, ()):
                step = _step(flow, reader, name, constants)
                if step is None:
                    if reader.op_type not in _TELLING or reader.domain:
                        flow.others.append(f"{node_label(reader)} reads positions")
                elif step == _END:
                    flow.ends.append((reader, shift, is_safe))
                else:
                    if is_safe and step:
                        flow.others.append(f"{node_label(reader)} moves the row of missing keys")
                    todo.append((reader.output[0], shift + step, is_safe or reader.op_type in ("Where", "Max")))
        yield flow


def _is_of_update(finder: NodeProto) -> bool:
    name, keys = str(finder.output[0]), str(finder.input[0])
    return name.endswith(FOUND) and keys.endswith(NEWER[finder.op_type][0])


def _step(flow: Flow, node: NodeProto, name: str, constants: Mapping[str, TensorProto]) -> int | None:
    """What a node adds to the positions that it passes on; None if it does not pass them on."""
    places = [k for k, value in enumerate(node.input) if value == name]
    if len(places) != 1 or subgraphs(node):
        return None
    (place,) = places
    if place in row_places(node):
        return _END
    if node.domain or (node.op_type in _PASSING and place):
        return None
    if node.op_type in _PASSING:
        return 0
    if node.op_type == "Where" and place:
        flow.masks.append((node, 3 - place))
        return 0
    if node.op_type in ("Add", "Max") and len(node.input) == 2:
        other = integer_of(node.input[1 - place], constants)
        return other if node.op_type == "Add" or other == 0 else None
    return None


def integer_of(name: str, constants: Mapping[str, TensorProto]) -> int | None:
    """The value of a constant of one integer."""
    tensor = constants.get(name)
    if tensor is None or not is_known(tensor) or tensor.data_type not in (TensorProto.INT64, TensorProto.INT32):
        return None
    array = array_of(tensor)
    return int(array.reshape(-1)[0]) if array.size == 1 else None


def constants_of(model: ModelProto) -> dict[str, TensorProto]:
    """The initializers of a model's main graph, and the values of the Constant nodes of all graphs."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in (node for graph in graphs(model.graph) for node in graph.node if node.op_type == "Constant"):
        value = next((a for a in node.attribute if a.name in ("value", "value_int")), None)
        if value is not None:
            number = numpy_helper.from_array(np.array(value.i, np.int64))
            constants.setdefault(node.output[0], value.t if value.HasField("t") else number)
    return constants


def node_label(node: NodeProto) -> str:
    """A node in messages."""
    return f"{printable(node.op_type)} node {printable(node.name or node.output[0])}"


def row_places(node: NodeProto) -> tuple[int, ...]:
    """Which inputs of a node are row numbers of its first input; none if it is no lookup."""
    if node.domain != DOMAIN:
        is_rows = node.op_type == "Gather" and not node.domain and not attribute(node, "axis", 0)
        return (1,) if is_rows else ()
    op = OPS.get(operator_name(node.op_type))
    if op is None or op.inputs[0].name != "emb_table":
        return ()
    wanted = [k for k, i in enumerate(op.inputs) if i.values.kind == "index" and i.values.of == "V"]
    return tuple(k for k in wanted if k < len(node.input) and node.input[k])
