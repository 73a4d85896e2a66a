"""What the inputs of a converted model are for, read from its operators.

Each operator's inputs are traced back to graph inputs: one that reaches SparseReshape as `input_shape` is a dense
shape, one that indexes a table of ten rows in a Gather holds ids below ten. Where no operator tells, names do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from onnx_sparse.models.graphs import array_of, graphs
from onnx_sparse.models.key_lookups import LOOKUPS, some_keys
from onnx_sparse.rows.tf_examples import ParsedFeature, merged
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import shape_items

#: The sets of operators that are known here.
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", DOMAIN)

#: The number of rows of a table that is an input of unknown size.
TABLE_ROWS = 7

#: The least number of segments in a batch whose size is free.
FEWEST_SEGMENTS = 3

#: The input to which an output is traced back, by operator; a tuple has one entry per output.
_CARRIERS: dict[str, int | tuple[int, ...]] = dict.fromkeys(
    [
        "Identity",
        "Cast",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Gather",
        "GatherND",
        "Unique",
        "Flatten",
        "Compress",
        "StringToHashBucketFast",
        "StringToHashBucketStrong",
        "Transpose",
        "ValidateRowSplits",
        "ValidateSparseIndices",
    ],
    0,
) | {"SparseFillEmptyRows": (2, 0), "SparseReshape": (0, 1), "RaggedFillEmptyRows": (0, 1)}

#: Some keys of each dictionary are enough.
_MOST_KEYS = 20

#: The kinds of values of inputs with an element, or a row, for each entry or bag.
_OF_ENTRIES = ("coordinates", "index", "offsets", "segment", "sorted_segment")

_ELEMENTWISE = frozenset(["Add", "Div", "Mul", "Pow", "Sub"])

#: Parsers of messages, with the end of the inputs that say what they take: keys, types, sizes, required, in_lists.
_PARSERS = {"ParseExample": 5, "ParseSequenceExample": 6}

_SPLITS = re.compile(r".*(^|[^a-z])(row_)?splits([_:]\d+)?")

_PARTS = re.compile(r"(?P<stem>.*?)[_/.]?(?P<part>indices|values|dense_shape|shape)([_:]\d+)?")


@dataclass
class Roles:
    """What the inputs of a model are for, by input name.

    Attributes:
        coordinates: Coordinates of sparse entries [N, R], with the input that holds their dense shape (or None).
        shapes: Dense shapes.
        entries: Inputs with one element (or slice) per entry: values, weights, ids, segment ids.
        segments: Sorted segment ids, one per entry.
        splits: Row splits of ragged tensors.
        starts: Where each bag of entries begins.
        counts: Scalars that say how many segments or rows there are.
        tables: Embedding tables.
        bounds: Ids, with the number of rows of the table they index (unsorted segment ids: the number of segments).
        indexed: Ids, with the input and its axis that they index.
        examples: Serialized messages, with the features that the model takes from them.
        keys: Integers that are looked up in a dictionary, with some of its keys.
        words: Texts that are looked up in a dictionary, with some of its keys.
        numeric: Texts that are read as numbers.
        values: The inputs whose elements have these coordinates, by the input with the coordinates, as far as operators
            tell.
        least_sizes: The least sizes of axes, which constant indices need.
        most_segments: The smallest constant number of segments in the model.
    """

    coordinates: dict[str, str | None]
    shapes: set[str]
    entries: set[str]
    segments: set[str]
    counts: set[str]
    tables: set[str]
    bounds: dict[str, int]
    indexed: dict[str, tuple[str, int]] = field(default_factory=dict)
    splits: set[str] = field(default_factory=set)
    starts: set[str] = field(default_factory=set)
    examples: dict[str, tuple[ParsedFeature, ...]] = field(default_factory=dict)
    keys: dict[str, list[int]] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    numeric: set[str] = field(default_factory=set)
    values: dict[str, set[str]] = field(default_factory=dict)
    least_sizes: dict[tuple[str, int], int] = field(default_factory=dict)
    most_segments: int | None = None

    def limit_segments(self, count: int | None) -> None:
        """Take a constant number of segments into account; a negative one is found in the data."""
        if count is not None and count >= 0:
            self.most_segments = count if self.most_segments is None else min(count, self.most_segments)


def _with_every_input(node: NodeProto) -> NodeProto:
    """A node of the domain with its omitted optional inputs, which have no name."""
    op = OPS.get(node.op_type) if node.domain == DOMAIN else None
    missing = 0 if op is None else len(op.inputs) - len(node.input)
    if missing <= 0:
        return node
    whole = NodeProto()
    whole.CopyFrom(node)
    whole.input.extend([""] * missing)
    return whole


def find_roles(model: ModelProto) -> Roles:
    """What each input of a model is for."""
    every = (node for graph in graphs(model.graph) for node in graph.node)
    nodes = [_with_every_input(node) for node in every if node.domain in _DOMAINS]
    trace = _Trace(model.graph, nodes)
    roles = Roles({}, set(), set(), set(), set(), set(), {})
    counted = {node.input[0] for node in nodes if node.op_type == "CumSum"}
    kept_before = _numbers_of_kept(nodes)
    for node in nodes:
        names = [trace.origin(name) for name in node.input]
        if node.domain == DOMAIN and node.op_type in OPS:
            _add_declared(roles, trace, node, names)
        if node.op_type in _PARSERS and names[0] is not None:
            columns = [trace.array(name) for name in node.input[1 : _PARSERS[node.op_type]]]
            known = [column for column in columns if column is not None]
            if len(known) == len(columns):
                features = tuple(ParsedFeature(*feature) for feature in zip(*known, strict=True))
                roles.examples[names[0]] = merged(roles.examples.get(names[0], ()), features)
        elif node.op_type in LOOKUPS and (queries := names[LOOKUPS[node.op_type]]) is not None:
            keys = some_keys(node, trace.tensors, _MOST_KEYS)
            if texts := [key for key in keys if isinstance(key, str)]:
                roles.words.setdefault(queries, []).extend(texts)
            if integers := [key for key in keys if isinstance(key, int)]:
                roles.keys[queries] = integers
        elif node.op_type in ("Cast", "StringToNumber") and trace.holds_text(names[0]):
            roles.numeric |= _known(names[0])
        elif node.op_type == "ScatterElements" and node.output[0] in counted:
            roles.splits |= _known(names[1])  # the pattern that the rule `rows-of-splits` writes
        elif node.op_type == "Gather" and node.input[0] in kept_before:
            roles.splits |= _known(names[1])  # the pattern that the rule `bags-of-splits` writes
        elif node.op_type == "ScatterND" and names[1] is not None and trace.has_rows_of_coordinates(names[1]):
            _add_triple(roles, indices=names[1], values=names[2], shape=trace.shape_of(node.input[0]))
        elif node.op_type == "Gather" and trace.has_axes(node.input[0]) and (chosen := trace.array(node.input[1])):
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            at = node.input[0], axis % trace.rank(node.input[0])
            indices = np.array(chosen)
            least = int(max(indices.max() + 1, -indices.min()))
            roles.least_sizes[at] = max(least, roles.least_sizes.get(at, 0))
        elif node.op_type == "Gather" and trace.ids(node.input[1]) is not None:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            if axis == 0:
                roles.tables |= _known(names[0])
            _index(roles, trace, trace.ids(node.input[1]), node.input[0], axis)
        elif node.op_type == "Slice" and (splits := trace.splits_of_slice(node)) is not None:
            roles.splits.add(splits)
            roles.entries |= trace.sources(node.input[0])
        elif node.op_type == "GatherElements":
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            _index(roles, trace, trace.ids(node.input[1]), node.input[0], axis)
    _add_triples_by_name(roles, model)
    roles.splits |= {name for name in trace.inputs_of_rank(1) if _SPLITS.fullmatch(name)}
    # The row of an entry is its first coordinate, so segment ids are often traced back to coordinates.
    roles.segments -= set(roles.coordinates)
    roles.entries |= roles.segments
    roles.entries -= {*roles.coordinates, *roles.shapes}
    roles.tables -= {*roles.entries, *roles.coordinates}
    return roles


class _Trace:
    """Where tensors come from."""

    def __init__(self, graph: GraphProto, nodes: list[NodeProto]) -> None:
        self._inputs = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
        self._texts = {v.name for v in graph.input if v.type.tensor_type.elem_type == TensorProto.STRING}
        self._origins: dict[str, str | None] = {name: name for name in self._inputs}
        #: The tensors whose axes are not those of their origins.
        self._transposed: set[str] = set()
        self._places: dict[str, bool] = {}
        self._producers = {name: (node, k) for node in nodes for k, name in enumerate(node.output) if name}
        self._shapes: dict[str, list[int | None]] = {
            tensor.name: list(tensor.dims) for inner in graphs(graph) for tensor in inner.initializer
        }
        self._scalars: dict[str, int] = {
            tensor.name: array_of(tensor).item()
            for inner in graphs(graph)
            for tensor in inner.initializer
            if not tensor.dims and tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
        }
        self.tensors = {tensor.name: tensor for inner in graphs(graph) for tensor in inner.initializer}
        for value in (*graph.input, *graph.value_info):
            dims = value.type.tensor_type.shape.dim
            sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
            self._shapes.setdefault(value.name, sizes)

    def inputs_of_rank(self, rank: int) -> list[str]:
        """The graph inputs of a rank."""
        return [name for name, known in self._inputs.items() if known == rank]

    def is_input(self, name: str) -> bool:
        """Whether a tensor is an input of the graph."""
        return name in self._inputs

    def holds_text(self, name: str | None) -> bool:
        """Whether a tensor is an input of the graph with text."""
        return name in self._texts

    def has_axes(self, name: str) -> bool:
        """Whether a tensor is an input of the graph, and no scalar."""
        return self._inputs.get(name, 0) > 0

    def rank(self, name: str) -> int:
        """The rank of a graph input."""
        return self._inputs[name]

    def has_rows_of_coordinates(self, name: str) -> bool:
        """Whether a graph input may be coordinates [N, R]; the edges [2, E] of a graph, with any columns, are not."""
        if self.rank(name) != 2:
            return False
        rows, columns = self._shapes[name]
        return rows is None or columns is not None

    def origin(self, name: str) -> str | None:
        """The graph input that a tensor's elements are taken from, as `ids` says, if the axes have the same order."""
        found = self.ids(name)
        return None if name in self._transposed else found

    def ids(self, name: str) -> str | None:
        """The graph input that a tensor's elements are taken from; None when there is no single one."""
        passed: dict[str, None] = {}
        current: str | None = name
        while current is not None and current not in self._origins and current not in passed:  # so that a cycle ends
            passed[current] = None
            current = self._carried(current)
        found = None if current is None else self._origins.get(current)
        self._origins.update(dict.fromkeys(passed, found))
        is_transposed = current in self._transposed
        for each in reversed(passed):
            node, _ = self._producers.get(each, (None, 0))
            is_transposed = is_transposed or (node is not None and node.op_type == "Transpose")
            if is_transposed:
                self._transposed.add(each)
        return found

    def _carried(self, name: str) -> str | None:
        """The tensor that the elements of a node's output are taken from."""
        node, position = self._producers.get(name, (None, 0))
        if node is None:
            return None
        carried = _CARRIERS.get(node.op_type)
        if node.op_type == "Where" and self._counts_from_the_front(node):
            carried = 2
        if node.op_type == "Where" and self.constant(node.input[2]) == -1:
            carried = 1  # ids of which some are left out
        if node.op_type == "Gather" and self._are_places(node.input[0]):
            carried = 1  # ids of which some count from the end
        if isinstance(carried, tuple):
            carried = carried[position] if position < len(carried) else None
        return None if carried is None else node.input[carried]

    def splits_of_slice(self, node: NodeProto) -> str | None:
        """The graph input that says where the rows begin one of which a Slice cuts out, as loops over rows do."""
        bounds = [self._producers.get(name, (None, 0))[0] for name in node.input[1:3]]
        starts, ends = (None if bound is None or bound.op_type != "Gather" else bound for bound in bounds)
        if starts is None or ends is None or starts.input[1] == ends.input[1]:
            return None
        origin = self.origin(starts.input[0])
        return origin if origin == self.origin(ends.input[0]) and self._inputs.get(origin or "") == 1 else None

    def _counts_from_the_front(self, where: NodeProto) -> bool:
        """Whether a Where changes only ids that are negative."""
        test, _ = self._producers.get(where.input[0], (None, 0))
        return test is not None and test.op_type == "Less" and test.input[0] == where.input[2]

    def _are_places(self, name: str) -> bool:
        """Whether a tensor counts from 0."""
        maker, _ = self._producers.get(name, (None, 0))
        if maker is not None:
            return maker.op_type == "Range" and self.constant(maker.input[0]) == 0
        if name not in self._places:
            tensor = self.tensors.get(name)
            self._places[name] = (
                tensor is not None
                and len(tensor.dims) == 1
                and tensor.data_type == TensorProto.INT64
                and np.array_equal(array_of(tensor), np.arange(tensor.dims[0]))
            )
        return self._places[name]

    def before_expansion(self, name: str) -> str | None:
        """The graph input that a tensor's elements are taken from, perhaps repeated."""
        node, _ = self._producers.get(name, (None, 0))
        return self.origin(node.input[0] if node is not None and node.op_type == "Expand" else name)

    def sources(self, name: str) -> set[str]:
        """The graph inputs that a tensor is computed from element by element; in rows * weights also the weights."""
        found: set[str] = set()
        seen, waiting = {name}, [name]
        while waiting:
            current = waiting.pop()
            node, _ = self._producers.get(current, (None, 0))
            if (origin := self.origin(current)) is not None:
                found.add(origin)
            elif node is not None and (node.op_type in _ELEMENTWISE or isinstance(_CARRIERS.get(node.op_type), int)):
                taken = node.input if node.op_type in _ELEMENTWISE else node.input[:1]
                waiting += [each for each in taken if each not in seen]
                seen.update(taken)
        return found

    def shape_of(self, name: str) -> str | None:
        """The graph input that holds the shape of a tensor made by Expand."""
        node, _ = self._producers.get(name, (None, 0))
        return self.origin(node.input[1]) if node is not None and node.op_type == "Expand" else None

    def constant(self, name: str) -> int | None:
        """The value of a scalar; None if it is not a constant."""
        return self._scalars.get(name)

    def array(self, name: str) -> list[Any] | None:
        """The elements of an initializer, strings as bytes; None if it is not an initializer."""
        tensor = self.tensors.get(name)
        if tensor is None:
            return None
        if tensor.data_type == TensorProto.STRING:
            return list(tensor.string_data)
        elements: list[Any] = array_of(tensor).tolist()
        return elements

    def rows(self, table: str, axis: int = 0) -> int | None:
        """The number of rows of a table; None if it is known only when the model runs.

        In that case the table was gathered from another one, and that lookup bounds the ids.
        """
        shape = self._shapes.get(table, [])
        return shape[axis] if -len(shape) <= axis < len(shape) else None


def _add_declared(roles: Roles, trace: _Trace, node: NodeProto, origins: list[str | None]) -> None:
    """Add what the declaration of an operator of the domain says of its inputs."""
    inputs = OPS[node.op_type].inputs
    names = dict(zip((declared.name for declared in inputs), node.input, strict=False))
    origin_of = dict(zip(names, origins, strict=False))
    for declared in inputs:
        kind, of, origin = declared.values.kind, declared.values.of, origin_of[declared.name]
        items = shape_items(declared.shape)
        if kind == "row_splits":
            roles.splits |= _known(origin)
        if kind not in _OF_ENTRIES or not items:
            continue
        along = [i.name for i in inputs if i is not declared and shape_items(i.shape)[:1] == items[:1]]
        entries = set().union(*(trace.sources(names[name]) for name in along))
        entries |= _known(*(trace.before_expansion(names[name]) for name in along))
        if kind == "coordinates" and origin is not None and trace.rank(origin) == 1:
            continue  # positions in one dimension, to which the graph adds the second axis
        if kind == "coordinates":
            _add_triple(roles, indices=origin, values=None, shape=origin_of[of])
            _add_values(roles, origin, *entries)
        elif kind == "offsets":
            (roles.splits if _has_end(node) else roles.starts).update(_known(origin))
        elif kind == "segment":
            entries |= _known(origin)
            roles.counts |= _known(origin_of[of])
            _bound(roles, trace.ids(names[declared.name]), trace.constant(names[of]) or FEWEST_SEGMENTS)
        elif kind == "sorted_segment" or of in names:
            _add_segments(roles, trace, origin, origin_of[of])
            _add_values(roles, origin, *entries)
            roles.limit_segments(trace.constant(names[of]))
        else:
            table = next(i.name for i in inputs if shape_items(i.shape)[:1] == [of])
            roles.tables |= _known(origin_of[table])
            entries |= _known(origin)
            _index(roles, trace, trace.ids(names[declared.name]), names[table])
        roles.entries |= entries


def starts_of_bags(model: ModelProto) -> set[str]:
    """The inputs that say where bags begin, without the end of the last one; not those of which a part does."""
    taken: set[str] = set()
    for node in model.graph.node:
        if node.domain == DOMAIN and (op := OPS.get(node.op_type)) and not _has_end(node):
            inputs = zip(op.inputs, node.input, strict=False)
            taken |= {name for declared, name in inputs if declared.values.kind == "offsets"}
    for node in reversed(model.graph.node):
        if node.op_type in ("Cast", "Identity") and node.output[0] in taken:
            taken.add(node.input[0])
    return taken & {value.name for value in model.graph.input}


def _has_end(node: NodeProto) -> bool:
    """Whether the offsets of a node have the end of the last bag."""
    return any(a.name == "include_last_offset" and a.s in (b"true", b"exact") for a in node.attribute)


def _numbers_of_kept(nodes: list[NodeProto]) -> set[str]:
    """The tensors that say how many values are kept before each: running sums of masks by which others are kept."""
    made = {node.output[0]: node for node in nodes if node.op_type in ("Cast", "CumSum")}
    masks = {node.input[1] for node in nodes if node.op_type == "Compress"}
    sums = {name for name, node in made.items() if node.op_type == "CumSum" and node.input[0] in made}
    of_masks = {name for name in sums if made[made[name].input[0]].input[0] in masks}
    return {node.output[0] for node in nodes if node.op_type == "Concat" and not of_masks.isdisjoint(node.input)}


def _known(*names: str | None) -> set[str]:
    return {name for name in names if name is not None}


def _bound(roles: Roles, ids: str | None, rows: int | None) -> None:
    if ids is not None and rows is not None:
        roles.bounds[ids] = min(rows, roles.bounds.get(ids, rows)) or 1


def _index(roles: Roles, trace: _Trace, ids: str | None, table: str, axis: int = 0) -> None:
    """Add ids of the rows of a table."""
    rows = trace.rows(table, axis)
    _bound(roles, ids, rows)
    # What is traced back may have other axes than the input, but has its first one.
    origin = trace.origin(table) if axis == 0 else table if trace.is_input(table) else None
    if ids is not None and rows is None and origin is not None and trace.rank(origin):
        roles.indexed[ids] = origin, axis % trace.rank(origin)


def _add_segments(roles: Roles, trace: _Trace, segments: str | None, count: str | None) -> None:
    """Add segment ids and their number: inputs of their own, or a column of coordinates and part of a dense shape."""
    shape = count if count is not None and trace.rank(count) == 1 else None
    if segments is not None and trace.has_rows_of_coordinates(segments):
        _add_triple(roles, indices=segments, values=None, shape=shape)
    else:
        roles.segments |= _known(segments)
    roles.shapes |= _known(shape)
    roles.counts |= _known(count) - roles.shapes


def _add_triple(roles: Roles, *, indices: str | None, values: str | None, shape: str | None) -> None:
    if indices is not None:
        roles.coordinates[indices] = shape or roles.coordinates.get(indices)
    roles.shapes |= _known(shape)
    roles.entries |= _known(values)


def _add_values(roles: Roles, indices: str | None, *values: str | None) -> None:
    if indices is not None and indices in roles.coordinates:
        roles.values.setdefault(indices, set()).update(_known(*values))


def _add_triples_by_name(roles: Roles, model: ModelProto) -> None:
    """Find the parts of SparseTensors by name: `x_indices`, `x_values`, `x_dense_shape`, or `x`, `x_1`, `x_2`."""
    ranks: dict[str, Any] = {value.name: len(value.type.tensor_type.shape.dim) for value in model.graph.input}
    stems: dict[str, dict[str, str]] = {}
    for name in ranks:
        if match := _PARTS.fullmatch(name):
            part = match["part"].removeprefix("dense_")
            stems.setdefault(match["stem"], {})[part] = name
        elif f"{name}_1" in ranks and f"{name}_2" in ranks:
            stems.setdefault(
                name, dict(zip(("indices", "values", "shape"), (name, f"{name}_1", f"{name}_2"), strict=True))
            )
    for parts in stems.values():
        if len(parts) == 3 and [ranks[parts[p]] for p in ("indices", "values", "shape")] == [2, 1, 1]:
            _add_triple(roles, **parts)
