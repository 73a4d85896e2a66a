"""Valid inputs for a converted model, generated from what its operators say about each input.

Random numbers alone would be refused, by TensorFlow as well: the coordinates of a sparse tensor must be sorted and
inside its dense shape, ids inside the vocabulary, segment ids sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, TensorShapeProto, ValueInfoProto

from onnx_sparse.comparison import TOLERANCES
from onnx_sparse.converters.verification.constraints import find_constraints
from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.example_messages import Messages, Partition
from onnx_sparse.converters.verification.layout import GUESSED, ROWS, Axis, Layout
from onnx_sparse.converters.verification.values import HASHED, Values
from onnx_sparse.models.graphs import graphs
from onnx_sparse.models.key_lookups import LOOKUPS, some_keys
from onnx_sparse.rows.input_roles import FEWEST_SEGMENTS, TABLE_ROWS, Roles, find_roles
from onnx_sparse.schemas import hashing
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]
Shape = tuple[int | None, ...] | None


@dataclass(frozen=True)
class SparseInput:
    """The inputs that are the parts of a sparse tensor, its static shape, and its name, unless theirs say it."""

    indices: str
    values: str
    dense_shape: str
    shape: Shape = None
    name: str = ""


@dataclass(frozen=True)
class RaggedInput:
    """The inputs that are the parts of a ragged tensor: its innermost values, and its row splits from the outermost;
    and its name, unless theirs say it."""

    values: str
    splits: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class BagsInput:
    """The inputs with one element or row per entry, and those that say where each bag of entries begins, or how long it
    is: of several features, the bags of the first one, then those of the next."""

    entries: tuple[str, ...] = ()
    starts: str | None = None
    lengths: str | None = None
    features: int = 1


@dataclass(frozen=True)
class CompositeSpecs:
    """Which inputs are parts of sparse and ragged tensors and of bags, as far as the source says."""

    sparse: tuple[SparseInput, ...] = ()
    ragged: tuple[RaggedInput, ...] = ()
    bags: tuple[BagsInput, ...] = ()


#: A batch of which every input is empty.
NO_ROWS = "of no rows"

#: The kinds of batches, which take turns: each occurs in practice.
KINDS = ("ordinary", "with empty rows", "without entries", "of one row", NO_ROWS)

#: Ordinary batches in which inputs have everything that the model compares with, and numbers without a row in tables.
OF_MANY_VALUES, BEYOND_TABLES = "of many values", "of ids beyond tables"

#: The batch of inputs that are given.
GIVEN = "given"

#: A batch from whose refusal sizes are learned: no two dimensions that may differ have the same size.
PROBE = "probing"

#: How many rows a batch has; how many entries a probe has.
_ROWS = {"of one row": 1, NO_ROWS: 0, PROBE: 13}
_PROBED_ENTRIES = 37

#: Ids of a probe without known bounds are below this.
_PROBED_IDS = 97

#: For a source without specs.
NOTHING_SAID = CompositeSpecs()

_MANY = 7  # entries of a long row

_EMPTY_COLUMNS = 4  # of a sparse tensor

_DIMENSION = 3  # the size of an unknown dimension other than the first

_IDS = 4  # ids without known bounds are below this

_MASK = re.compile(r"(.*[^a-z])?masks?([^a-z].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Batch:
    """The inputs of one run.

    Attributes:
        kind: One of `KINDS`, `PROBE`, or `GIVEN`.
        feeds: One array per input; strings as objects of type str, tf.Example messages as objects of type bytes.
        has_rows: Whether there is something in every input.
        sizes: The sizes of the dimensions that the model leaves open.
        free_ids: The integer inputs whose bounds are not known.
    """

    kind: str
    feeds: dict[str, Array]
    has_rows: bool = True
    sizes: dict[Axis, int] | None = None
    free_ids: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """How many rows it has; where the model states that, the most of an input."""
        known = (self.sizes or {}).get(ROWS)
        return max((len(value) for value in self.feeds.values() if value.ndim), default=1) if known is None else known


def sample(model: ModelProto, *, seed: int, kind: str, specs: CompositeSpecs = NOTHING_SAID) -> dict[str, Array]:
    """Inputs for one run of a model.

    Args:
        model: A converted model.
        seed: The same seed gives the same inputs.
        kind: One of `KINDS`.
        specs: What the source says about sparse and ragged tensors and the model does not.

    Returns:
        One array per input, in the model's order; strings as objects of type str, tf.Example messages of type bytes.
    """
    return Sampler(model, specs).batch(kind, seed).feeds


class Sampler:
    """Makes inputs for a model."""

    def __init__(self, model: ModelProto, specs: CompositeSpecs = NOTHING_SAID) -> None:
        self.specs = specs
        self.values = {value.name: value for value in model.graph.input}
        self.model = model
        self.roles = find_roles(model)
        self._add_composites(self.roles)
        self.values_of = Values(find_constraints(model), words=_words(model))
        #: How features of messages say how the values of others form rows.
        self.partitions: dict[Origin, Partition] = {}
        self.shapes = {sparse.dense_shape: sparse.shape for sparse in specs.sparse if sparse.shape is not None}
        #: How deep inside rows the values of a ragged tensor are.
        self.depths = {ragged.values: len(ragged.splits) for ragged in specs.ragged}
        #: The depth of the rows that row splits delimit.
        self.splits = dict.fromkeys(self.roles.splits, 0)
        self.splits |= {name: depth for ragged in specs.ragged for depth, name in enumerate(ragged.splits)}
        #: The inputs that say where bags begin, and those that say how long those of so many features are.
        self.starts = self.roles.starts | {bags.starts for bags in specs.bags if bags.starts is not None}
        self.lengths = {bags.lengths: bags.features for bags in specs.bags if bags.lengths is not None}

    def _add_composites(self, roles: Roles) -> None:
        """The source knows better than the model's operators what is part of a sparse or ragged tensor."""
        for sparse in self.specs.sparse:
            roles.coordinates[sparse.indices] = sparse.dense_shape
            roles.shapes.add(sparse.dense_shape)
            roles.entries.add(sparse.values)
        for ragged in self.specs.ragged:
            roles.entries.add(ragged.values)
            roles.splits |= set(ragged.splits)
        for bags in self.specs.bags:
            roles.entries |= set(bags.entries)
        parts = {*roles.coordinates, *roles.shapes, *roles.splits}
        roles.entries -= parts
        roles.segments -= parts
        roles.counts -= parts
        roles.tables -= {*parts, *roles.entries}

    def batch(self, kind: str, seed: int, layout: Layout = GUESSED, *, careful: bool = False) -> Batch:
        """The inputs of one run; the same seed gives the same.

        Args:
            careful: Whether to leave out values that are likely to be refused: words that a table does not have, and
                ids beyond what they index.
        """
        return _Drawing(self, np.random.default_rng(seed), kind, layout, careful=careful).batch()

    def known_size(self, name: str, axis: int) -> int | None:
        """The size of a dimension of an input, if the model or a spec states it."""
        if name in self.roles.shapes:
            shape = self.shapes.get(name)
            return shape[axis] if shape and axis < len(shape) else None
        dims = self.values[name].type.tensor_type.shape.dim
        return _size_of(dims[axis]) if axis < len(dims) else None

    def is_of_rows(self, axis: Axis) -> bool:
        """Whether a dimension is that of the rows of the batch, or of their entries."""
        name, position = axis
        return axis == ROWS or name in self.roles.shapes or (position == 0 and name not in self.roles.tables)

    def columns(self) -> list[Axis]:
        """The open first dimensions of the inputs that are parts of nothing; none if one of these may delimit rows."""
        specs = self.specs
        parts = {name for each in specs.sparse for name in (each.indices, each.values, each.dense_shape)}
        parts |= {name for each in specs.ragged for name in (each.values, *each.splits)}
        roles = self.roles
        delimiting = {*self.splits, *roles.segments, *roles.coordinates, *self.starts, *self.lengths, *roles.counts}
        if not delimiting <= parts:
            return []
        found = []
        for name, value in self.values.items():
            dims = value.type.tensor_type.shape.dim
            if name not in parts | roles.tables | roles.shapes and dims and not dims[0].HasField("dim_value"):
                found.append((name, 0))
        return found

    def symbol(self, axis: Axis) -> str:
        """The name that the model gives to the size of a dimension; empty if it has none."""
        name, position = axis
        return str(self.values[name].type.tensor_type.shape.dim[position].dim_param)

    def floats(self) -> list[Origin]:
        """The inputs and the features of messages that are floats, and whose values are drawn freely."""
        known = self.values_of.constraints.bounds
        found = []
        for name, value in self.values.items():
            if features := self.roles.examples.get(name):
                found += [Origin(name, each.key) for each in features if each.dtype == TensorProto.FLOAT]
            elif numpy_dtype(value.type.tensor_type.elem_type).name in TOLERANCES:
                found.append(Origin(name))
        return [origin for origin in found if origin not in known and origin.input not in self.roles.bounds]

    def lacking_values(self, batch: Batch) -> float:
        """How many times larger a batch must be for each input to have all values at which answers may change."""
        edges: dict[str, int] = {}
        known = self.values_of.constraints
        for origin in {*known.words, *known.numbers, *known.keys, *known.bounds}:
            if origin.input in batch.feeds:
                edges[origin.input] = max(edges.get(origin.input, 0), self.values_of.edge_count(origin))
        # At most every second value is one of these.
        return max((2 * count / max(batch.feeds[name].size, 1) for name, count in edges.items()), default=0.0)

    def known_rows(self) -> Iterator[int | None]:
        """The numbers of rows of the batch that the inputs state."""
        roles = self.roles
        sparse = {*roles.coordinates, *roles.shapes, *roles.entries, *roles.segments, *roles.splits, *roles.counts}
        for name in self.values.keys() - sparse - roles.tables:
            size = self.known_size(name, 0)
            yield size and size // self.lengths.get(name, 1)
        for name in self.shapes:
            yield self.known_size(name, 0)
        for name, depth in self.splits.items():
            length = self.known_size(name, 0)
            if depth == 0 and length is not None:
                yield length - 1

    def rank(self, coordinates: str) -> int:
        """The number of coordinates of an entry."""
        shape = self.roles.coordinates[coordinates]
        known = self.known_size(coordinates, 1)
        if known is None and shape is not None:
            dims = self.values[shape].type.tensor_type.shape.dim
            known = (_size_of(dims[0]) if dims else None) or len(self.shapes.get(shape) or ())
        return known or 2


class _Drawing:
    """One batch in the making."""

    def __init__(self, sampler: Sampler, rng: np.random.Generator, kind: str, layout: Layout, *, careful: bool) -> None:
        self.sampler, self.roles, self.careful = sampler, sampler.roles, careful
        self.rng, self.kind, self.layout = rng, kind, layout
        self.sizes: dict[Axis, int] = {}
        self._own: dict[Axis, int] = {}
        self._primes = _primes(_PROBED_ENTRIES)
        self.batch_size = self._batch_size(_ROWS.get(kind))
        #: The positions at which rows begin and end, by depth; the same in every sparse or ragged input, because ids
        #: and their weights must have equal rows.
        self.row_splits = [_splits(self._lengths(kind))]
        while len(self.row_splits) < max(sampler.depths.values(), default=1):
            inner = rng.integers(0 if kind == "with empty rows" else 1, 3, self.row_splits[-1][-1])
            self.row_splits.append(_splits(inner))
        #: The row of each entry.
        self.rows = np.repeat(np.arange(self.batch_size), np.diff(self.row_splits[0]))
        self.longest = int(np.diff(self.row_splits[0]).max(initial=0)) or 1

    def _lengths(self, kind: str) -> Array:
        """How many entries each row has."""
        lengths: Array
        if kind == PROBE:
            lengths = np.full(self.batch_size, _PROBED_ENTRIES // max(self.batch_size, 1))
            lengths[: _PROBED_ENTRIES - lengths.sum()] += 1
        else:
            per_row = {"with empty rows": (0, 3), "without entries": (0, 1)}.get(kind, (1, 4))
            lengths = self.rng.integers(*per_row, self.batch_size)
            if kind == "with empty rows":
                lengths[0], lengths[-1] = _MANY, 0
                if len(lengths) > 3:  # also between others, where it counts even if the number of rows is inferred
                    lengths[1:3] = 0, 1
        ends = {name: self.layout.ends_at((name, 1)) for name in self.roles.shapes}
        # The number of entries is not known before the rows are.
        widths = [
            self._stated((name, 1))
            for name, end in ends.items()
            if isinstance(end, int) or not self._counts_entries(end)
        ]
        narrowest = min((width for width in widths if width is not None), default=None)
        return lengths if narrowest is None else np.minimum(lengths, narrowest)

    def batch(self) -> Batch:
        feeds = {}
        free = set()
        for name, value in self.sampler.values.items():
            dtype = numpy_dtype(value.type.tensor_type.elem_type)
            feeds[name] = self._array(name, value).astype(dtype)
            if np.issubdtype(dtype, np.integer) and self._draws_ids(name) and self._bound(name) is None:
                free.add(name)
        counted = (a for name, a in feeds.items() if 0 not in self._known_sizes(name))
        return Batch(self.kind, feeds, all(a.size for a in counted), self.sizes, frozenset(free))

    def _known_sizes(self, name: str) -> list[int | None]:
        dims = self.sampler.values[name].type.tensor_type.shape.dim
        return [_size_of(dim) for dim in dims]

    def _batch_size(self, wanted: int | None) -> int:
        """The number of rows: fixed by the model or the layout, else the wanted one, else random."""
        stated = self.layout.ends_at(ROWS)
        known = [stated] if isinstance(stated, int) else list(self.sampler.known_rows())
        fixed = max(filter(None, known), default=0)
        if not fixed and wanted is not None and self.kind != PROBE:
            return wanted
        fewest = 4 if self.kind == "with empty rows" else FEWEST_SEGMENTS
        size = fixed or wanted or int(self.rng.integers(fewest, 6))
        most = self.roles.most_segments
        size = size if most is None else max(1, min(size, most))
        if not fixed:
            self.sizes[ROWS] = size
        return size

    def _stated(self, axis: Axis) -> int | None:
        """The size of a dimension if anything states it."""
        known = self.sampler.known_size(*axis)
        if known is not None:
            return known
        end = self.layout.ends_at(axis)
        if isinstance(end, int):
            return end
        if end == ROWS:
            return self.batch_size
        name, position = axis
        if end == axis and position and name in self.sampler.values_of.constraints.square & self.roles.shapes:
            end = (name, 0)
        return None if end == axis else self._size(end)

    def _size(self, axis: Axis) -> int:
        """The size of a dimension: the stated one, or one that is likely to fit."""
        stated = self._stated(axis)
        size = self._likely(axis) if stated is None else stated
        if self.sampler.known_size(*axis) is None and axis not in self.layout.sizes:
            self.sizes[axis] = size
        return size

    def _likely(self, axis: Axis) -> int:
        name, position = axis
        if self._counts_entries(axis):
            return int(self.row_splits[self.sampler.depths.get(name, 1) - 1][-1])
        if position == 0 and name not in self.roles.tables:
            return self.batch_size
        if self.layout.distinct:
            if axis not in self._own:
                self._own[axis] = next(self._primes)
            return self._own[axis]
        if name in self.roles.shapes:  # sometimes with empty columns at the end
            return self.longest + _EMPTY_COLUMNS * (self.kind == "with empty rows")
        return max(TABLE_ROWS if position == 0 else _DIMENSION, self.roles.least_sizes.get(axis, 0))

    def _counts_entries(self, axis: Axis) -> bool:
        """Whether a dimension has one element for each entry of the rows."""
        name, position = axis
        return position == 0 and (name in self.roles.entries or name in self.roles.coordinates)

    def _shape(self, name: str) -> list[int]:
        return [self._size((name, axis)) for axis in range(len(self._known_sizes(name)))]

    def _array(self, name: str, value: ValueInfoProto) -> Array:
        roles = self.roles
        if name in roles.examples:
            return self._examples(name, self._shape(name))
        if name in roles.coordinates:
            return self._coordinates(name)
        if name in self.sampler.splits:
            return self.row_splits[self.sampler.splits[name]]
        if name in self.sampler.starts:
            return self.row_splits[0][:-1]
        if name in self.sampler.lengths:
            return self._lengths_of_features(self.sampler.lengths[name])
        if name in roles.shapes:
            rank = next((self.sampler.rank(c) for c, shape in roles.coordinates.items() if shape == name), None)
            return np.array([self._size((name, k)) for k in range(rank or self._known_sizes(name)[0] or 2)])
        if name in roles.counts:
            return np.asarray(max(self.batch_size, FEWEST_SEGMENTS))
        shape = self._shape(name)
        if name in roles.segments:
            if shape[0] == len(self.rows):
                return self.rows
            return np.sort(self.rng.integers(0, max(self.batch_size, 1), shape), axis=0)
        return self._values(name, value.type.tensor_type.elem_type, shape)

    def _values(self, name: str, dtype: int, shape: list[int]) -> Array:
        """The values of an input that is no part of a composite."""
        values, origin = self.sampler.values_of, Origin(name)
        if dtype == TensorProto.STRING:
            return values.texts(self.rng, origin, shape, careful=self.careful)
        if dtype == TensorProto.BOOL:
            return self.rng.integers(0, 2, shape)
        is_integer = np.issubdtype(numpy_dtype(dtype), np.integer)
        bound = self._bound(name) if is_integer or name in self.roles.bounds else None
        if bound is None and (stated := self._keys(name)):
            return values.keyed(self.rng, origin, stated, shape, careful=self.careful)
        if bound == 0:  # there is no legal id
            shape = [known or 0 for known in self._known_sizes(name)]
        if is_integer or bound is not None or origin in values.constraints.bounds:
            free = _PROBED_IDS if self.kind == PROBE else _IDS
            legal = values.range_of(origin, bound, free)
            how = {"careful": self.careful, "beyond": self.kind == BEYOND_TABLES}
            drawn = values.integers(self.rng, origin, shape, legal, numpy_dtype(dtype), **how)
            return np.sort(drawn, axis=0) if drawn.ndim and origin in values.constraints.ascending else drawn
        return values.floats(self.rng, origin, shape, self.layout.ranges)

    def _lengths_of_features(self, features: int) -> Array:
        """The lengths of the rows, each of which is divided among so many features, feature by feature."""
        lengths: Array = np.diff(self.row_splits[0])
        if features == 1:
            return lengths
        return self.rng.multinomial(lengths, [1 / features] * features).T.ravel()

    def _keys(self, name: str) -> list[int]:
        """The numbers that a table has, and one that it does not have."""
        keys = [key for key in self.sampler.values_of.constraints.keys.get(Origin(name), ()) if isinstance(key, int)]
        keys = keys or list(self.roles.keys.get(name, ()))
        if not keys or name in self.layout.bounds or self.careful:
            return keys
        return [*keys, max(keys) + 1]

    def _examples(self, name: str, shape: list[int]) -> Array:
        lengths = np.diff(self.row_splits[0]) if shape else [self.longest * (self.kind != "without entries")]
        messages = Messages(
            self.sampler.values_of,
            self.rng,
            name,
            self.roles.examples[name],
            self.sampler.partitions,
            self.careful,
            self.layout.ranges,
        )
        return messages.array(shape, lengths, with_gaps=self.kind == "with empty rows")

    def _draws_ids(self, name: str) -> bool:
        roles = self.roles
        taken = {
            *roles.examples,
            *roles.coordinates,
            *self.sampler.splits,
            *roles.shapes,
            *roles.counts,
            *roles.segments,
            *self.sampler.starts,
            *self.sampler.lengths,
        }
        return name not in taken and name not in roles.keys

    def _bound(self, name: str) -> int | None:
        """The number that ids are below, if it is known."""
        bound = self.layout.bounds.get(name)
        if bound is not None:
            return bound if isinstance(bound, int) else self.batch_size if bound == ROWS else self._size(bound)
        known = self.roles.bounds.get(name)
        indexed = self.roles.indexed.get(name)
        if indexed is not None:
            rows = self._size(indexed)
            return rows if known is None else min(rows, known)
        if known is None and _MASK.fullmatch(name):
            return 2
        return known

    def _coordinates(self, name: str) -> Array:
        """Row-major: the row, then the position in the row, then zeros."""
        rank, shape = self.sampler.rank(name), self.roles.coordinates[name]
        rows = self.rows
        if shape is not None:
            rows = np.minimum(rows, max(self._size((shape, 0)) - 1, 0))
        columns = [rows, np.arange(len(rows)) - np.searchsorted(rows, rows)]
        columns += [np.zeros_like(rows)] * max(rank - 2, 0)
        return np.stack(columns[:rank], axis=1)


def _splits(lengths: Array) -> Array:
    """The row splits of rows of these lengths."""
    splits: Array = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return splits


def _primes(above: int) -> Iterator[int]:
    """The prime numbers above a number: no size of a model is a multiple of another one by accident."""
    number = above
    while True:
        number += 1
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number


def _size_of(dim: TensorShapeProto.Dimension) -> int | None:
    """The size of a dimension; None for an open one, which some exporters write as -1."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _words(model: ModelProto) -> list[str]:
    """Words for a model's text: also those for which a hash function has branches of its own, if there is one."""
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    hashed = HASHED if any(node.op_type in hashing.FAMILY.names for node in nodes) else ()
    constants = {tensor.name: tensor for graph in graphs(model.graph) for tensor in graph.initializer}
    keys = (key for node in nodes if node.op_type in LOOKUPS for key in some_keys(node, constants, 20))
    return [*hashed, *dict.fromkeys(key for key in keys if isinstance(key, str)), "a", "b", "ab", ""]
