"""Walking through nested graphs: their nodes, tensors, names and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.models.data.references import array_of_reference, is_reference
from onnx_sparse.schemas.declaration import HALF_FLOATS, DType, numpy_dtype

#: The types of attributes that hold no graph; a malformed attribute has none.
_WITHOUT_GRAPHS = frozenset(
    (
        *(AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.FLOATS),
        *(AttributeProto.STRING, AttributeProto.STRINGS, AttributeProto.TENSOR),
    )
)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes: branches and bodies."""
    found: list[GraphProto] = []
    for a in node.attribute:  # a loop, and no list for each attribute: this is asked of every node many times
        if a.type not in _WITHOUT_GRAPHS:
            found += a.graphs
            if a.HasField("g"):
                found.append(a.g)
    return found


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs(inner)


def read_names(nodes: Iterable[NodeProto]) -> set[str]:
    """The names of the tensors that nodes read, and the graphs inside them of those outside."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for inner in subgraphs(node):
            names |= (read_names(inner.node) | {value.name for value in inner.output}) - _made_in(inner)
    return names


def _made_in(graph: GraphProto) -> set[str]:
    """The names of the tensors that a graph gives to its own, and which may be those of others outside."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    return own.union(*(node.output for node in graph.node))


def rename(nodes: Iterable[NodeProto], renamed: Mapping[str, str], *, reading_only: bool = False) -> None:
    """Rename tensors where nodes and the graphs inside them read them and, unless told otherwise, make them.

    A tensor that an inner graph makes under the name of an outer one stays, where it is only read.
    """
    if not renamed:
        return
    for node in nodes:
        for names in (node.input,) if reading_only else (node.input, node.output):
            if any(name in renamed for name in names):
                names[:] = [renamed.get(name, name) for name in names]
        for inner in subgraphs(node):
            visible = _visible(renamed, inner) if reading_only else renamed
            rename(inner.node, visible, reading_only=reading_only)
            made = () if reading_only else (*inner.input, *inner.value_info, *inner.initializer)
            for value in (*inner.output, *made):
                value.name = visible.get(value.name, value.name)


def _visible(renamed: Mapping[str, str], inner: GraphProto) -> Mapping[str, str]:
    """The names of outer tensors that an inner graph does not give to tensors of its own."""
    own = _made_in(inner)
    return renamed if own.isdisjoint(renamed) else {old: new for old, new in renamed.items() if old not in own}


def needed_nodes(nodes: Sequence[NodeProto], names: Iterable[str]) -> list[NodeProto]:
    """The nodes, in their order, on which tensors depend."""
    needed, kept = {*names}, []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed |= read_names([node])
    return kept[::-1]


def put_nodes(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    """Let a graph have these nodes; some may be its own."""
    copied = [NodeProto.FromString(node.SerializeToString()) for node in nodes]  # emptying the list ends its nodes
    del graph.node[:]
    graph.node.extend(copied)


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Every node, including those of subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def every_node(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the model's graph, its subgraphs and its functions."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from all_nodes(nodes)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model: initializers, and those in attributes, also of functions."""
    for graph in graphs(model.graph):
        yield from graph.initializer
    for node in every_node(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def element_types(graph: GraphProto) -> dict[str, DType]:
    """The element types of a graph's own values, as far as it declares them."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        element = value.type.tensor_type.elem_type
        if element:
            types[value.name] = element
    return types


def half_floats(model: ModelProto) -> set[str]:
    """The half-float types that a model computes with: those of its constants and of casts."""
    types = {tensor.data_type for graph in graphs(model.graph) for tensor in graph.initializer}
    casts = [node for graph in graphs(model.graph) for node in graph.node if node.op_type == "Cast"]
    types |= {attribute.i for node in casts for attribute in node.attribute if attribute.name == "to"}
    return {numpy_dtype(dtype).name for dtype in HALF_FLOATS if dtype in types}


def attributes(node: NodeProto) -> dict[str, Any]:
    """The values of the attributes of a node."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute of a node."""
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


class Names:
    """The names of a model or graph: each is given once.

    Args:
        taken: Names that are not given.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = dict.fromkeys(taken, 0)  # with the last number tried, as many may want the same name

    def fresh(self, wanted: str) -> str:
        """The name, or the first free one of name_1, name_2, ..."""
        name = wanted
        while name in self._taken:
            self._taken[wanted] += 1
            name = f"{wanted}_{self._taken[wanted]}"
        self._taken[name] = 0
        return name


def names_of(model: ModelProto) -> Names:
    """The names of a model's tensors and nodes, also of those in subgraphs."""
    taken: set[str] = set()
    for graph in graphs(model.graph):
        taken.update(value.name for value in (*graph.input, *graph.output, *graph.initializer))
        taken.update(tensor.values.name for tensor in graph.sparse_initializer)
        for node in graph.node:
            taken.update((node.name, *node.input, *node.output))
    return Names(taken)


def array_of(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """The array that a tensor is; the data of a reference are mapped.

    Strings are text, or bytes where one of them is not UTF-8.
    """
    if is_reference(tensor):
        return array_of_reference(tensor)
    if tensor.data_type != TensorProto.STRING:
        return numpy_helper.to_array(tensor)
    try:
        strings: list[Any] = [string.decode() for string in tensor.string_data]
    except UnicodeDecodeError:
        strings = list(tensor.string_data)
    array = np.empty(len(strings), object)
    array[:] = strings
    return array.reshape(tuple(tensor.dims))
