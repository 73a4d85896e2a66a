"""Tables that change while they are served: the nodes of a graph that find the newest row of a key.

An update adds rows at the end of a table. Which rows these are is in a small table of newer keys, which the graph asks
first. For a table that is read by row numbers, the keys are row numbers:

    newer = FindKeys(TABLE.newer_keys, TABLE.newer_index, key)
    row = newer < 0 ? the row before : TABLE.newer_positions[newer]

The nodes that do this are made by one function, and recognized by making them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.models.graphs import array_of, graphs, names_of
from onnx_sparse.models.tables.key_flows import (
    BEFORE,
    FINDERS,
    FOUND,
    NEWER,
    Flow,
    ModelReads,
    constants_of,
    integer_of,
    node_label,
    row_places,
)
from onnx_sparse.models.tools.opsets import default_opset
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.function_body import operator_name

Array = np.ndarray[Any, Any]

_INDEX, _POSITIONS, _ROWS, _ADDED, _ZERO = ".newer_index", ".newer_positions", ".rows", ".added_rows", ".zero"
#: The nodes that find rows need operators of this opset.
OPSET = 15
#: The row of absent keys that are an error: every lookup refuses it, in 32 bits, too, and no table gets as many rows.
NO_ROW = 2**31 - 1


@dataclass(frozen=True)
class Lookup:
    """A node that reads a table.

    Attributes:
        graph: The graph that holds it.
        node: It.
        places: Which of its inputs are row numbers.
    """

    graph: GraphProto
    node: NodeProto
    places: tuple[int, ...]


@dataclass
class LiveTable:
    """A table, and how its rows are found.

    Attributes:
        tensors: It; then the scales and biases of a quantized one.
        lookups: The nodes that read it.
        finds: The nodes that find its keys, and their graphs; none if it is read by row numbers.
        shift: What is added to the position of a key, which gives its row.
        masks: The nodes that give missing keys a row, and which of their inputs is it; lookups for which a constant
            row after those of keys has another meaning are among them.
        is_updated: Whether the graph asks a table of newer keys.
    """

    tensors: list[TensorProto]
    lookups: list[Lookup]
    finds: list[tuple[GraphProto, NodeProto]] = field(default_factory=list)
    shift: int = 0
    masks: list[tuple[NodeProto, int]] = field(default_factory=list)
    is_updated: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.tensors[0].name)

    @property
    def finder(self) -> str:
        """The operator that finds its keys."""
        return str(self.finds[0][1].op_type) if self.finds else "FindKeys"

    @property
    def keys(self) -> list[str]:
        """The names of the tensors with its keys and their index; none if it is read by row numbers."""
        return list(self.finds[0][1].input[: FINDERS[self.finder] + 1]) if self.finds else []

    @property
    def newer(self) -> list[str]:
        """The names of the tensors with the newer keys, their index and their positions."""
        return [f"{self.name}{end}" for end in (*NEWER[self.finder], _INDEX, _POSITIONS)]

    @property
    def extent(self) -> list[str]:
        """The names of the number of rows before updates, and of rows added, where it is read by row numbers."""
        return [] if self.finds else [f"{self.name}{_ROWS}", f"{self.name}{_ADDED}"]


def live_table(reads: ModelReads, tensors: Sequence[TensorProto]) -> LiveTable:
    """How the rows of a table are found, with its updates.

    Args:
        reads: What reads the tables of the model.
        tensors: The table, and its scales and biases if it is quantized.

    Raises:
        CommandError: The table cannot be updated; the message says why.
    """
    table, model, constants = LiveTable(list(tensors), []), reads.model, reads.constants
    if not any(imported.domain == DOMAIN for imported in model.opset_import):
        raise _refusal(table, "the model has no operators of onnx_sparse, which an update needs; replace the table")
    if default_opset(model) < OPSET:
        raise _refusal(table, f"the model's opset is {default_opset(model)}; convert it with --opset {OPSET} or more")
    table = looked_up_table(reads, tensors)
    table.is_updated = any(name in constants for name in (*table.newer, *table.extent))
    if table.is_updated:
        for graph, nodes in _update_nodes(table):
            found = {node.output[0]: node for node in graph.node}
            if any(found.get(node.output[0]) != node for node in nodes):
                raise _refusal(table, "another program has changed the nodes of earlier updates; replace the table")
        if missing := [name for name in (*table.newer, *table.extent) if name not in constants]:
            raise _refusal(table, f"{printable(missing[0])}, of earlier updates, is not in the model")
    return table


def looked_up_table(reads: ModelReads, tensors: Sequence[TensorProto]) -> LiveTable:
    """How the rows of a table are found, where only lookups read it.

    Raises:
        CommandError: Its rows cannot be moved; the message says why.
    """
    readers = {n: each for tensor in tensors for n, each in reads.readers.get(tensor.name, {}).items()}
    table, others = LiveTable(list(tensors), []), []
    for _, (graph, node) in sorted(readers.items(), key=lambda item: item[0]):
        if node.input[0] == tensors[0].name and (places := row_places(node)):
            table.lookups.append(Lookup(graph, node, places))
        else:
            others.append(node)
    if any(f.domain == DOMAIN for f in reads.model.functions):  # which may hold the keys
        raise _refusal(table, "the model holds the function bodies of operators; convert it without --portable")
    if any(tensor.name in reads.boundary for tensor in tensors):
        raise _refusal(table, "it is an input or an output of a graph")
    if not table.lookups:
        raise _refusal(table, "no lookup reads it")
    if others:
        raise _refusal(table, f"{node_label(others[0])} reads all of it")
    numbers = {number for lookup in table.lookups for number in reads.flows_to.get(id(lookup.node), ())}
    if numbers:
        _add_keys(table, [reads.flows[number] for number in sorted(numbers)], reads.constants)
    return table


def newer_positions(model: ModelProto) -> dict[str, str]:
    """The names of the tensors with the positions of newer keys, by the tables that were updated."""
    names = [str(tensor.name) for tensor in model.graph.initializer]
    tables = {name: name.removesuffix(_POSITIONS) for name in names if name.endswith(_POSITIONS)}
    return {table: name for name, table in tables.items() if table in names}


def _refusal(table: LiveTable, reason: str) -> CommandError:
    return CommandError(f"table {printable(table.name)} cannot be changed: {reason}")


def len_of_keys(table: LiveTable, constants: Mapping[str, TensorProto]) -> int:
    """How many keys a table has.

    Raises:
        CommandError: They are computed.
    """
    keys = constants.get(table.keys[-2])
    if keys is None or not keys.dims:
        raise _refusal(table, f"its keys, {printable(table.keys[-2])}, are computed")
    return int(keys.dims[0]) - (table.finder == "FindStrings")


def place_name(node: NodeProto, place: int) -> str:
    """The name of an input of a lookup."""
    return "indices" if node.op_type == "Gather" else OPS[operator_name(node.op_type)].inputs[place].name


def _add_keys(table: LiveTable, found: Sequence[Flow], constants: Mapping[str, TensorProto]) -> None:
    lookups = [lookup.node for lookup in table.lookups]
    for flow in found:
        for end, shift, is_safe in flow.ends:
            if not any(end is lookup for lookup in lookups):
                raise _refusal(table, f"{node_label(end)} reads another table by the same keys")
            if shift != found[0].ends[0][1]:
                raise _refusal(table, "its lookups add different numbers to the positions of keys")
            if end.op_type == "Gather" and not is_safe and shift < 1:
                raise _refusal(
                    table, f"a missing key is its last row in {node_label(end)}, which an update would change"
                )
        if flow.others:
            raise _refusal(table, f"{flow.others[0]}, which an update would change")
        if list(flow.node.input[:2]) != list(found[0].node.input[:2]):
            raise _refusal(table, "its lookups find different keys")
    ends = [end for flow in found for end, _, _ in flow.ends]
    if others := [lookup for lookup in lookups if not any(lookup is end for end in ends)]:
        raise _refusal(table, f"{node_label(others[0])} reads it by row numbers, not by its keys")
    table.finds = [(flow.graph, flow.node) for flow in found]
    table.shift = found[0].ends[0][1]
    table.masks = [mask for flow in found for mask in flow.masks]
    for node, place in table.masks:
        row = integer_of(node.input[place], constants)
        if row is not None and table.tensors[0].dims[0] <= row < NO_ROW:
            raise _refusal(
                table, f"a missing key is row {row} in {node_label(node)}, which the table does not have yet"
            )
    positions = {name for flow in found for name in flow.passed}
    for lookup in table.lookups:
        for place in lookup.places:
            if lookup.node.input[place] in positions:
                continue
            row = integer_of(lookup.node.input[place], constants)
            what = f"{place_name(lookup.node, place)} of {node_label(lookup.node)}"
            if row is None:
                raise _refusal(table, f"{what} is computed, and not the position of a key")
            if row >= table.shift + len_of_keys(table, constants):
                table.masks.append((lookup.node, place))  # a row after those of keys
            elif row >= table.shift:
                raise _refusal(table, f"{what} is row {row}, which is that of a key")


# --- The nodes of updates ---------------------------------------------------------------------------------------------


def _update_nodes(table: LiveTable) -> Iterator[tuple[GraphProto, list[NodeProto]]]:
    """The nodes of updates that a graph has for each lookup of a table that is updated."""
    for graph, node in table.finds:
        yield graph, _nodes_of_key(table, node.input[-1], node.output[0].removesuffix(BEFORE))
    made = {id(graph): {output: node for node in graph.node for output in node.output} for graph, _, _ in _reads(table)}
    for graph, node, place in _reads(table):
        row = node.input[place]
        last = made[id(graph)].get(row)
        rows = last.input[1] if last is not None and last.op_type == "CastLike" else row
        yield graph, _nodes_of_row(table, rows, row, is_gather=node.op_type == "Gather")


def _reads(table: LiveTable) -> Iterator[tuple[GraphProto, NodeProto, int]]:
    """The row numbers that lookups read; none if they are those of keys."""
    for lookup in () if table.finds else table.lookups:
        for place in lookup.places:
            yield lookup.graph, lookup.node, place


def _nodes_of_newer(table: LiveTable, queries: str, name: str) -> list[NodeProto]:
    """What asks the table of newer keys: `NAME.is_older`, and `NAME.newer`, which is a position where it is not."""
    *keys, positions = table.newer
    zero = f"{table.name}{_ZERO}"
    return [
        _node(table.finder, [*keys, queries], f"{name}{FOUND}", domain=DOMAIN),
        _node("Less", [f"{name}{FOUND}", zero], f"{name}.is_older"),
        _node("Max", [f"{name}{FOUND}", zero], f"{name}.number"),
        _node("Gather", [positions, f"{name}.number"], f"{name}.newer", axis=0),
    ]


def _nodes_of_key(table: LiveTable, queries: str, name: str) -> list[NodeProto]:
    """The nodes that give the positions `name` of keys, from those before updates."""
    choice = _node("Where", [f"{name}.is_older", f"{name}{BEFORE}", f"{name}.newer"], name)
    return [*_nodes_of_newer(table, queries, name), choice]


def _nodes_of_row(table: LiveTable, rows: str, name: str, *, is_gather: bool) -> list[NodeProto]:
    """The nodes that give where rows are now. A number that is out of range stays out of range."""
    count, added = table.extent
    zero, row = f"{table.name}{_ZERO}", f"{name}.row"
    nodes = [_node("Cast", [rows], row, to=TensorProto.INT64)]
    if is_gather:  # negative numbers count from the end
        nodes += [
            _node("Less", [row, zero], f"{name}.is_negative"),
            _node("Add", [row, count], f"{name}.from_end"),
            _node("Where", [f"{name}.is_negative", f"{name}.from_end", row], f"{name}.counted"),
        ]
        row = f"{name}.counted"
    nodes += [
        *_nodes_of_newer(table, row, name),
        _node("Less", [row, count], f"{name}.is_inside"),
        _node("Add", [row, added], f"{name}.outside"),
        _node("Where", [f"{name}.is_inside", row, f"{name}.outside"], f"{name}{BEFORE}"),
    ]
    before = f"{name}{BEFORE}"
    if is_gather:
        nodes += [
            _node("Less", [row, zero], f"{name}.is_below"),
            _node("Sub", [row, count], f"{name}.below_count"),
            _node("Sub", [f"{name}.below_count", added], f"{name}.below"),
            _node("Where", [f"{name}.is_below", f"{name}.below", before], f"{name}.counted_before"),
        ]
        before = f"{name}.counted_before"
    return [
        *nodes,
        _node("Where", [f"{name}.is_older", before, f"{name}.newer"], f"{name}.now"),
        _node("CastLike", [f"{name}.now", rows], name),
    ]


def _node(op_type: str, inputs: Sequence[str], output: str, **more: Any) -> NodeProto:
    return helper.make_node(op_type, inputs, [output], name=f"{output}.updated", **more)


def ask_newer_keys(model: ModelProto, table: LiveTable) -> None:
    """Let a graph ask the table of newer keys of a table first; its tensors are added empty."""
    if table.is_updated:
        return
    names = names_of(model)
    wanted = [*table.newer, *table.extent, f"{table.name}{_ZERO}"]
    if taken := [name for name in wanted if names.fresh(name) != name]:
        raise _refusal(table, f"the model has another tensor named {printable(taken[0])}")
    for name in wanted[:-1]:
        model.graph.initializer.add(name=name, data_type=TensorProto.INT64)
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), wanted[-1]))
    for graph, node in table.finds:
        name, node.output[0] = node.output[0], f"{node.output[0]}{BEFORE}"
        insert_nodes(graph, _nodes_of_key(table, node.input[-1], name), after=node)
    made: dict[tuple[int, str, bool], str] = {}
    for graph, node, place in _reads(table):
        key = id(graph), node.input[place], node.op_type == "Gather"
        if key not in made:
            made[key] = names.fresh(f"{table.name}.row_of.{node.input[place]}")
            insert_nodes(graph, _nodes_of_row(table, node.input[place], made[key], is_gather=key[2]), before=node)
        node.input[place] = made[key]
    made_twice = [name for name, count in Counter(_made(model)).items() if count > 1]
    if made_twice:
        raise _refusal(table, f"the model has another tensor named {printable(made_twice[0])}")
    table.is_updated = True


def _made(model: ModelProto) -> Iterator[str]:
    """The names that tensors are given; a name may be given in two graphs."""
    for graph in graphs(model.graph):
        for node in graph.node:
            yield from filter(None, node.output)


def insert_nodes(
    graph: GraphProto, nodes: Sequence[NodeProto], *, before: NodeProto | None = None, after: NodeProto | None = None
) -> None:
    """Insert nodes before or after one of a graph."""
    at = next(k for k, node in enumerate(graph.node) if node is before or node is after)
    for k, node in enumerate(nodes, at + (after is not None)):
        graph.node.insert(k, node)


def rows_after_keys(model: ModelProto, table: LiveTable, count: int) -> list[int]:
    """The rows after those of keys, which absent keys have; the graph names where they will be after `count` keys."""
    if not table.masks:
        return []
    constants, names = constants_of(model), names_of(model)
    before = table.shift + len_of_keys(table, constants)
    named = [(node, place, integer_of(node.input[place], constants)) for node, place in table.masks]
    for node, _, row in named:
        if row is None or table.shift <= row < before:
            where = "computed" if row is None else f"row {row}"
            raise _refusal(table, f"the row of missing keys in {node_label(node)} is {where}: export it as a whole")
    after = sorted({row for *_, row in named if row is not None and before <= row < NO_ROW})
    for node, place, row in named:
        if row in after and (new := table.shift + count + after.index(row)) != row:
            like = array_of(constants[node.input[place]])
            node.input[place] = names.fresh(f"{table.name}.missing_row")
            model.graph.initializer.append(numpy_helper.from_array(np.full_like(like, new), node.input[place]))
    return after


def has_shared_keys(model: ModelProto, table: LiveTable) -> bool:
    """Whether the keys of a table are read by other nodes than those that find its keys."""
    names, own = {*table.keys}, [node for _, node in table.finds]
    readers = (node for graph in graphs(model.graph) for node in graph.node if names.intersection(node.input))
    return any(not any(reader is node for node in own) for reader in readers)


def forget_newer_keys(model: ModelProto, table: LiveTable) -> None:
    """Let a graph no longer ask the table of newer keys."""
    if not table.is_updated:
        return
    dropped: list[tuple[GraphProto, NodeProto]] = []
    for graph, nodes in _update_nodes(table):
        outputs = {node.output[0] for node in nodes}
        dropped += [(graph, node) for node in graph.node if outputs.intersection(node.output)]
    before = {node.output[0]: node.input[1] for _, node in dropped if node.op_type == "CastLike"}
    for _, node, place in _reads(table):
        node.input[place] = before[node.input[place]]
    for _, node in table.finds:
        node.output[0] = node.output[0].removesuffix(BEFORE)
    for graph, node in dropped:
        if any(node is each for each in graph.node):  # lookups may share it
            graph.node.remove(node)
    gone = {*table.newer, *table.extent, f"{table.name}{_ZERO}"}
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name in gone]:
        model.graph.initializer.remove(tensor)
    table.is_updated = False
