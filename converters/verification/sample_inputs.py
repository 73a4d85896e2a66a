"""Valid inputs for a converted model, generated from what its operators say about each input.

Random numbers alone would be refused, by TensorFlow as well: the coordinates of a sparse tensor must be sorted and
inside its dense shape, ids inside the vocabulary, segment ids sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from onnx_sparse.converters.graphs import graphs
from onnx_sparse.converters.verification.input_roles import FEWEST_SEGMENTS, TABLE_ROWS, find_roles
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]
Shape = tuple[int | None, ...] | None


@dataclass(frozen=True)
class CompositeSpecs:
    """What the specs of sparse and ragged tensors say about the inputs that are parts of these.

    Attributes:
        dense_shapes: The static shape, by the input that holds the dense shape.
        row_splits: The inputs that are outermost row splits, with the input that holds the values.
        inner_splits: The inputs that are inner row splits.
    """

    dense_shapes: Mapping[str, Shape] = field(default_factory=dict)
    row_splits: Mapping[str, str] = field(default_factory=dict)
    inner_splits: frozenset[str] = frozenset()


#: The kinds of batches, which take turns: each occurs in practice.
KINDS = ("ordinary", "with empty rows", "without entries", "of one row", "of no rows")

_SIZES = {"of one row": 1, "of no rows": 0}

#: For a source without specs.
NOTHING_SAID = CompositeSpecs()

#: Strings of every length for which the hash function has a branch of its own.
_HASHED = ("日本語", "user 4711", "a word of twenty two.", "straße " * 5, "long " * 30)

_DIMENSION = 3  # the size of an unknown dimension other than the first


def sample(model: ModelProto, *, seed: int, kind: str, specs: CompositeSpecs = NOTHING_SAID) -> dict[str, Array]:
    """Inputs for one run of a model.

    Args:
        model: A converted model.
        seed: The same seed gives the same inputs.
        kind: One of `KINDS`.
        specs: What the source's specs of sparse and ragged tensors say and the model does not.

    Returns:
        One array per input, in the model's order; strings as objects of type str.
    """
    rng = np.random.default_rng(seed)
    return _Sampler(model, rng, kind, specs).arrays()


class _Sampler:
    def __init__(self, model: ModelProto, rng: np.random.Generator, kind: str, specs: CompositeSpecs) -> None:
        self.specs = specs
        self.rng = rng
        self.roles = find_roles(model)
        self.roles.entries |= set(specs.row_splits.values())
        self.roles.splits |= {*specs.row_splits, *specs.inner_splits}
        self.values = {value.name: value for value in model.graph.input}
        self.batch = self._batch_size(_SIZES.get(kind))
        per_row = {"with empty rows": (0, 3), "without entries": (0, 1)}.get(kind, (1, 4))
        counts = rng.integers(*per_row, self.batch)
        if kind == "with empty rows":
            counts[0], counts[-1] = 2, 0
        widths = [
            shape[1] for shape in specs.dense_shapes.values() if shape and len(shape) > 1 and shape[1] is not None
        ]
        counts = np.minimum(counts, min(widths, default=counts.max(initial=0)))
        #: The row of each entry; the same in every sparse input, because ids and their weights must have equal rows.
        self.rows = np.repeat(np.arange(self.batch), counts)
        self.words = [*_vocabulary(model), "a", "b", "ab", ""]

    def arrays(self) -> dict[str, Array]:
        made = {}
        for name, value in self.values.items():
            made[name] = self._array(name, value).astype(numpy_dtype(value.type.tensor_type.elem_type))
        return made

    def _batch_size(self, wanted: int | None) -> int:
        """The number of rows: fixed by the model, else the wanted one, else random."""
        known = [self._size(value, 0) for value in self._batched()]
        known += [shape[0] for shape in self.specs.dense_shapes.values() if shape]
        fixed = max(filter(None, known), default=0)
        if not fixed and wanted is not None:
            return wanted
        size = fixed or int(self.rng.integers(FEWEST_SEGMENTS, 6))
        most = self.roles.most_segments
        return size if most is None else max(1, min(size, most))

    def _batched(self) -> Iterator[ValueInfoProto]:
        """The dense inputs, whose first dimension is the batch."""
        roles = self.roles
        sparse = {*roles.coordinates, *roles.shapes, *roles.entries, *roles.segments, *roles.splits, *roles.counts}
        sparse |= roles.tables
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
            first = TABLE_ROWS
        sizes = []
        for axis in range(len(value.type.tensor_type.shape.dim)):
            known = self._size(value, axis)
            sizes.append(known if known is not None else first if axis == 0 else _DIMENSION)
        return sizes

    def _array(self, name: str, value: ValueInfoProto) -> Array:
        roles, shape = self.roles, self._shape(name, value)
        if name in roles.coordinates:
            return self._coordinates(shape[1] if len(shape) > 1 else 1)
        if name in self.specs.inner_splits:
            return np.arange(len(self.rows) + 1)  # one value in each row inside a row
        if name in roles.splits:
            return np.searchsorted(self.rows, np.arange(self.batch + 1))
        if name in roles.shapes:
            return self._dense_shape(name, shape[0])
        if name in roles.segments:
            return self.rows
        if name in roles.counts:
            return np.asarray(max(self.batch, FEWEST_SEGMENTS))
        dtype = value.type.tensor_type.elem_type
        if dtype == TensorProto.STRING:
            return self.rng.choice(np.array(self.words, object), shape)
        if dtype == TensorProto.BOOL:
            return self.rng.integers(0, 2, shape)
        if name in roles.keys:
            return self.rng.choice([*roles.keys[name], max(roles.keys[name]) + 1], shape)
        if np.issubdtype(numpy_dtype(dtype), np.integer):
            return self.rng.integers(0, roles.bounds.get(name, 4), shape)
        return self.rng.standard_normal(shape)

    def _dense_shape(self, name: str, rank: int) -> Array:
        longest = int(max(np.bincount(self.rows), default=0)) or 1
        sizes = [self.batch] + [longest] * (rank - 1)
        known = self.specs.dense_shapes.get(name) or [None] * rank
        return np.array([size if fixed is None else fixed for size, fixed in zip(sizes, known, strict=True)])

    def _coordinates(self, rank: int) -> Array:
        """Row-major: the row, then the position in the row, then zeros."""
        first = np.searchsorted(self.rows, self.rows)
        columns = [self.rows, np.arange(len(self.rows)) - first]
        columns += [np.zeros_like(self.rows)] * max(rank - 2, 0)
        return np.stack(columns[:rank], axis=1)


def _vocabulary(model: ModelProto) -> list[str]:
    """Some keys of the model's lookup tables, and words for its hashes."""
    words: list[str] = []
    for graph in graphs(model.graph):
        if any(node.op_type.startswith("StringToHashBucket") for node in graph.node):
            words += _HASHED
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "LabelEncoder" and attribute.name == "keys_strings":
                    words += [word.decode() for word in attribute.strings[:20]]
    return words
