"""Valid inputs for a converted model: what its sparse operators say about an input decides what is put there.

Noise would be refused, by TensorFlow as well: the coordinates of a sparse tensor lie inside its dense shape and are
sorted, ids lie inside the vocabulary, segment ids are sorted. Which input is what is read from the model, by following
each operator's inputs back to where they come from; names (`x_indices`, `x_values`, `x_dense_shape`) help out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from onnx_sparse.converters.tensorflow.naming import graphs
from onnx_sparse.converters.tensorflow.source import Array, Shape
from onnx_sparse.schemas.declaration import numpy_dtype

#: What the rounds have in common with real batches, in turn.
KINDS = ("ordinary", "with empty rows", "without entries")

_TABLE_ROWS = 7  # of a table that is an input, where its shape does not say
_FEWEST_SEGMENTS = 3  # of a batch whose size is free
_DIMENSION = 3  # any other unknown dimension

#: Which input to follow back from an output, by operator; a tuple says it for each output.
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
    ],
    0,
) | {"SparseFillEmptyRows": (2, 0), "SparseReshape": (0, 1), "RaggedFillEmptyRows": (0, 1)}

_PARTS = re.compile(r"(?P<stem>.*?)[_/.]?(?P<part>indices|values|dense_shape|shape)")


@dataclass
class Roles:
    """What the inputs of a model are for, by input name.

    Attributes:
        coordinates: Coordinates of sparse entries [N, R], with the input that holds their dense shape (or None).
        shapes: Dense shapes, with the rank they are for.
        entries: Inputs with one element (or slice) per entry: values, weights, ids.
        segments: Sorted segment ids, one per entry.
        row_ids: Row ids of ragged values, one per entry.
        counts: Scalars that say how many segments or rows there are.
        tables: Embedding tables.
        bounds: Ids, with the number of rows of the table they look up (of segments, where they are in any order).
        most_segments: The smallest number of segments that is a constant in the model.
    """

    coordinates: dict[str, str | None]
    shapes: set[str]
    entries: set[str]
    segments: set[str]
    counts: set[str]
    tables: set[str]
    bounds: dict[str, int]
    most_segments: int | None = None

    def limit_segments(self, count: int | None) -> None:
        """Keep note of a constant number of segments."""
        if count is not None:
            self.most_segments = count if self.most_segments is None else min(count, self.most_segments)


def sample(
    model: ModelProto, *, seed: int, kind: str, dense_shapes: Mapping[str, Shape] | None = None
) -> dict[str, Array]:
    """Inputs for one run of a model.

    Args:
        model: A converted model.
        seed: The same seed gives the same inputs.
        kind: One of `KINDS`.
        dense_shapes: What is known of the values of dense shapes, by input; a SparseTensorSpec says it, a model cannot.

    Returns:
        One array per input, in the model's order; strings as objects of type str.
    """
    rng = np.random.default_rng(seed)
    return _Sampler(model, rng, kind, dense_shapes or {}).arrays()


class _Sampler:
    def __init__(
        self, model: ModelProto, rng: np.random.Generator, kind: str, dense_shapes: Mapping[str, Shape]
    ) -> None:
        self.dense_shapes = dense_shapes
        self.rng = rng
        self.roles = find_roles(model)
        self.values = {value.name: value for value in model.graph.input}
        self.batch = max((self._size(value, 0) or 0 for value in self._batched()), default=0) or int(
            rng.integers(_FEWEST_SEGMENTS, 6)
        )
        if self.roles.most_segments is not None:
            self.batch = min(self.batch, self.roles.most_segments)
        per_row = {"ordinary": (1, 4), "with empty rows": (0, 3), "without entries": (0, 1)}[kind]
        counts = rng.integers(*per_row, self.batch)
        if kind == "with empty rows":
            counts[0], counts[-1] = 2, 0
        widths = [shape[1] for shape in dense_shapes.values() if shape and len(shape) > 1 and shape[1] is not None]
        counts = np.minimum(counts, min(widths, default=counts.max()))
        #: The row of each entry; every sparse input has the same rows, as ids and their weights must.
        self.rows = np.repeat(np.arange(self.batch), counts)
        self.words = [*_vocabulary(model), "a", "b", "ab", ""]

    def arrays(self) -> dict[str, Array]:
        made = {}
        for name, value in self.values.items():
            made[name] = self._array(name, value).astype(numpy_dtype(value.type.tensor_type.elem_type))
        return made

    def _batched(self) -> Iterator[ValueInfoProto]:
        """The dense inputs, whose first dimension is the batch."""
        roles = self.roles
        sparse = {*roles.coordinates, *roles.shapes, *roles.entries, *roles.segments, *roles.counts, *roles.tables}
        return (value for name, value in self.values.items() if name not in sparse)

    @staticmethod
    def _size(value: ValueInfoProto, axis: int) -> int | None:
        dims = value.type.tensor_type.shape.dim
        return dims[axis].dim_value if axis < len(dims) and dims[axis].HasField("dim_value") else None

    def _shape(self, name: str, value: ValueInfoProto) -> list[int]:
        first = self.batch
        if name in self.roles.entries:
            first = len(self.rows)
        elif name in self.roles.tables:
            first = _TABLE_ROWS
        sizes = []
        for axis in range(len(value.type.tensor_type.shape.dim)):
            known = self._size(value, axis)
            sizes.append(known if known is not None else first if axis == 0 else _DIMENSION)
        return sizes

    def _array(self, name: str, value: ValueInfoProto) -> Array:
        roles, shape = self.roles, self._shape(name, value)
        if name in roles.coordinates:
            return self._coordinates(shape[1] if len(shape) > 1 else 1)
        if name in roles.shapes:
            return self._dense_shape(name, shape[0])
        if name in roles.segments:
            return self.rows
        if name in roles.counts:
            return np.asarray(max(self.batch, _FEWEST_SEGMENTS))
        dtype = value.type.tensor_type.elem_type
        if dtype == TensorProto.STRING:
            return self.rng.choice(np.array(self.words, object), shape)
        if dtype == TensorProto.BOOL:
            return self.rng.integers(0, 2, shape)
        if np.issubdtype(numpy_dtype(dtype), np.integer):
            return self.rng.integers(0, roles.bounds.get(name, 4), shape)
        return self.rng.standard_normal(shape)

    def _dense_shape(self, name: str, rank: int) -> Array:
        longest = int(max(np.bincount(self.rows), default=0)) or 1
        sizes = [self.batch] + [longest] * (rank - 1)
        known = self.dense_shapes.get(name) or [None] * rank
        return np.array([size if fixed is None else fixed for size, fixed in zip(sizes, known, strict=True)])

    def _coordinates(self, rank: int) -> Array:
        """Row-major: the row, then the position in the row, then zeros."""
        first = np.searchsorted(self.rows, self.rows)
        columns = [self.rows, np.arange(len(self.rows)) - first]
        columns += [np.zeros_like(self.rows)] * max(rank - 2, 0)
        return np.stack(columns[:rank], axis=1)


def find_roles(model: ModelProto) -> Roles:
    """What each input of a model is for."""
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    trace = _Trace(model.graph, nodes)
    roles = Roles({}, set(), set(), set(), set(), set(), {})
    for node in nodes:
        names = [trace.origin(name) for name in node.input]
        if node.op_type == "SparseFillEmptyRows":
            _add_triple(roles, indices=names[2], values=names[0], shape=names[1])
        elif node.op_type == "SparseReshape":
            _add_triple(roles, indices=names[0], values=None, shape=names[1])
        elif node.op_type == "RaggedFillEmptyRows":
            roles.segments |= _known(names[0])
            roles.entries |= _known(names[1])
            roles.counts |= _known(names[2])
        elif node.op_type.startswith("EmbeddingSegments"):
            roles.tables |= _known(names[0])
            roles.entries |= _known(names[1], names[5])
            roles.counts |= _known(names[3])
            roles.segments |= _known(names[2])
            _bound(roles, names[1], trace.rows(node.input[0]))
            roles.limit_segments(trace.constant(node.input[3]))
        elif node.op_type.startswith("UnsortedSegment"):
            roles.entries |= _known(names[0], names[1])
            roles.counts |= _known(names[2])
            _bound(roles, names[1], trace.constant(node.input[2]) or _FEWEST_SEGMENTS)
        elif node.op_type.startswith("Segment"):
            roles.entries |= _known(names[0])
            roles.segments |= _known(names[1])
        elif node.op_type == "Gather":
            _bound(roles, names[1], trace.rows(node.input[0]))
    _add_triples_by_name(roles, model)
    # The row of an entry is the first coordinate, so segment ids often lead back to coordinates.
    roles.segments -= set(roles.coordinates)
    roles.entries |= roles.segments
    roles.entries -= {*roles.coordinates, *roles.shapes}
    roles.tables -= {*roles.entries, *roles.coordinates}
    return roles


class _Trace:
    """Where tensors come from."""

    def __init__(self, graph: GraphProto, nodes: list[NodeProto]) -> None:
        self._inputs = {value.name for value in graph.input}
        self._producers = {name: (node, k) for node in nodes for k, name in enumerate(node.output)}
        self._rows: dict[str, int] = {
            tensor.name: tensor.dims[0] for inner in graphs(graph) for tensor in inner.initializer if tensor.dims
        }
        self._scalars: dict[str, int] = {
            tensor.name: numpy_helper.to_array(tensor).item()
            for inner in graphs(graph)
            for tensor in inner.initializer
            if not tensor.dims and tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
        }
        for value in (*graph.input, *graph.value_info):
            dims = value.type.tensor_type.shape.dim
            if dims and dims[0].HasField("dim_value"):
                self._rows.setdefault(value.name, dims[0].dim_value)

    def origin(self, name: str) -> str | None:
        """The graph input that a tensor's elements are taken from; None when there is no single one."""
        while name not in self._inputs:
            node, position = self._producers.get(name, (None, 0))
            carried = _CARRIERS.get(node.op_type) if node is not None else None
            if isinstance(carried, tuple):
                carried = carried[position] if position < len(carried) else None
            if node is None or carried is None:
                return None
            name = node.input[carried]
        return name

    def constant(self, name: str) -> int | None:
        """The value of a scalar; None where it is no constant."""
        return self._scalars.get(name)

    def rows(self, table: str) -> int | None:
        """The number of rows of a table; None where it is not known until the model runs.

        Such a table has been gathered from another, and the ids bound by that one's lookup.
        """
        if table in self._rows:
            return self._rows[table]
        return _TABLE_ROWS if self.origin(table) is not None else None


def _known(*names: str | None) -> set[str]:
    return {name for name in names if name is not None}


def _bound(roles: Roles, ids: str | None, rows: int | None) -> None:
    if ids is not None and rows is not None:
        roles.bounds[ids] = min(rows, roles.bounds.get(ids, rows)) or 1


def _add_triple(roles: Roles, *, indices: str | None, values: str | None, shape: str | None) -> None:
    if indices is not None:
        roles.coordinates[indices] = shape
    roles.shapes |= _known(shape)
    roles.entries |= _known(values)


def _add_triples_by_name(roles: Roles, model: ModelProto) -> None:
    """`x_indices`, `x_values`, `x_dense_shape`, and `x`, `x_1`, `x_2` as TensorFlow calls SparseTensor parts."""
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


def _vocabulary(model: ModelProto) -> list[str]:
    """Some keys of the model's lookup tables."""
    words: list[str] = []
    for graph in graphs(model.graph):
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "CategoryMapper" and attribute.name == "cats_strings":
                    words += [word.decode() for word in attribute.strings[:20]]
    return words
