"""A table that a lookup derives from others in every run is derived once, when the model is converted.

A partitioned table is looked up part by part and the rows are put together again; with max_norm the rows found are
clipped. Both do the same to the same row in every run. The rows are computed with the graph's own nodes, so partition
strategies and norms are not implemented a second time.

A large new table is in a temporary file until it is written into the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.makers import Makers
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.schemas.declaration import numpy_dtype

#: How many rows are computed at a time.
_CHUNK = 1 << 18

_STITCHES = ("ParallelDynamicStitch", "DynamicStitch")

#: Operators that compute each element from the elements at the same position.
ELEMENTWISE = frozenset(
    {"Add", "AddV2", "Cast", "FloorDiv", "FloorMod", "Greater", "Less", "Maximum", "Minimum", "Mul", "OnesLike"}
    | {"RealDiv", "Select", "SelectV2", "Sqrt", "Square", "Sub", "ZerosLike"}
)


@dataclass
class Lookup:
    """Rows of a table that are looked up.

    Attributes:
        table: The table.
        sources: The tensors that it was made from; equal tables that are made from the same ones are one.
        ids: The rows.
        nodes: The tensors whose nodes it stands for.
    """

    table: Array
    sources: tuple[Any, ...]
    ids: Any
    nodes: Sequence[Origin] = ()


class DerivedTables:
    """The lookups in derived tables of a model; see the classes of the two kinds.

    Args:
        context: The conversion of the model.

    Attributes:
        attempts: Where a lookup looked like one of them, and what became of it.
    """

    def __init__(self, context: Context) -> None:
        self.attempts: list[Attempt] = []
        self._makers = Makers(context)
        self._known: dict[tuple[int, str], Lookup | None] = {}
        self._tables: dict[tuple[Any, ...], list[Array]] = {}

    def of(self, scope: Scope, node: NodeDef) -> Lookup | None:
        """The lookup in a derived table that a node is the result of; None if it is none."""
        rule = _RULES.get(node.op)
        if rule is None:
            return None
        key = (id(scope), node.name)
        if key not in self._known:
            self._known[key] = None  # a rule asks about the nodes before it
            with suppress(Unsupported):  # which is an error where the nodes are converted
                self._known[key] = rule(self, Origin(scope, node.name, 0))
        return self._known[key]

    def before(self, origin: Any) -> Lookup | None:
        """The lookup in a derived table that a tensor is; None if it is none."""
        return self.of(origin.scope, origin.scope.nodes[origin.node]) if isinstance(origin, Origin) else None

    def joined_parts(self, stitch: Origin) -> Lookup | None:
        """A lookup in the parts of a table becomes a lookup in one table: equal to the bit.

        The pattern is `stitch(partition(range(size(ids)), part), [gather(table_k, partition(row, part)[k])])`, where
        part and row are computed from each id alone. An id that is in no part is an error before and after.
        """
        given = self._makers.inputs(stitch)
        lookups = given[len(given) // 2 :]
        if not lookups or any(self._makers.table(lookup) is None for lookup in lookups):
            return None
        lookup = self._joined(given[: len(given) // 2], lookups)
        return self._attempted("joined-parts", stitch, lookup)

    def _joined(self, places: Sequence[Any], lookups: Sequence[Any]) -> Lookup | str:
        """The lookup in one table, or why there is none."""
        makers = self._makers
        place = self._partition(places)
        row = self._partition([makers.inputs(lookup)[1] for lookup in lookups])
        if place is None or row is None or makers.inputs(place)[1] != makers.inputs(row)[1]:
            return "the ids looked up in the parts are not partitioned like their positions"
        counted = makers.inputs(place)[0]
        limits = makers.inputs(counted) if makers.node(counted, "Range") is not None else []
        size = makers.node(limits[1], "Size") if len(limits) == 3 else None
        if size is None or (makers.number(limits[0]), makers.number(limits[2])) != (0, 1):
            return "the rows are not put at the positions of their ids"
        sources = tuple(makers.table(lookup) for lookup in lookups)
        arrays = [array for source in sources if (array := makers.constant(source)) is not None]
        if len(arrays) < len(lookups) or len({(array.dtype, array.shape[1:]) for array in arrays}) > 1:
            return "the parts are not constants of one type and width"
        (ids,) = makers.inputs(limits[1])
        part, row_of = makers.inputs(place)[1], makers.inputs(row)[0]
        found = self._place_of(ids, numpy_dtype(onnx_type(size.attr["T"].type)), part, row_of)
        if found is None:
            return "the part of an id is computed from more than the id"
        table = _joined(arrays, found[0])
        if table is None:
            return "the parts hold rows of other ids than 0, 1, ... up to their number of rows"
        nodes = [*found[1], place, row, counted, limits[1], *lookups]
        return Lookup(self._shared(table, sources), sources, ids, nodes)

    def _partition(self, parts: Sequence[Any]) -> Origin | None:
        """The DynamicPartition whose outputs, in order, are the given tensors; None if there is none."""
        first = parts[0]
        node = self._makers.node(first, "DynamicPartition")
        if node is None or node.attr["num_partitions"].i != len(parts):
            return None
        is_whole = list(parts) == [Origin(first.scope, first.node, k) for k in range(len(parts))]
        return first if is_whole else None

    def _place_of(
        self, ids: Any, dtype: np.dtype[Any], part: Any, row: Any
    ) -> tuple[Callable[[Array], list[Array]], list[Origin]] | None:
        """A function from ids to their parts and their rows in these, as the graph computes them from the ids alone."""
        nodes: list[Origin] = []
        for result in (part, row):
            found = self._makers.between(result, lambda tensor: tensor == ids, self._is_elementwise)
            if found is None:
                return None
            nodes += found[0]
        call = self._makers.function(ids, np.empty(0, dtype), [part, row], nodes) if isinstance(ids, Origin) else None
        return None if call is None else (lambda some: call(some.astype(dtype)), nodes)

    def _is_elementwise(self, tensor: Origin) -> bool:
        node = self._makers.node(tensor)
        return node.op in ELEMENTWISE or self._makers.number(tensor) is not None

    def unflattened(self, reshape: Origin) -> Lookup | None:
        """The rows of joined parts in the shape of the ids before these were flattened."""
        makers = self._makers
        given = makers.inputs(reshape)
        lookup = self.before(given[0]) if makers.node(given[0], *_STITCHES) is not None else None
        if lookup is None or makers.node(lookup.ids, "Reshape") is None or makers.node(given[1], "ConcatV2") is None:
            return None
        ids, minus_one = makers.inputs(lookup.ids)
        sizes = makers.inputs(given[1])
        if len(sizes) != 3 or makers.node(sizes[0], "Shape") is None or makers.inputs(sizes[0]) != [ids]:
            return None
        width, flat = makers.constant(sizes[1]), makers.constant(minus_one)
        if width is None or flat is None or width.tolist() != list(lookup.table.shape[1:]) or flat.tolist() != [-1]:
            return None
        return Lookup(lookup.table, lookup.sources, ids, (given[0], lookup.ids, given[1], sizes[0]))

    def clipped_rows(self, quotient: Origin) -> Lookup | None:
        """A lookup whose rows are clipped by norm becomes a lookup in a table of clipped rows.

        The pattern is `clip_by_norm(Gather(table, unique(ids)))`. A table that is also looked up without max_norm is
        then in the model twice.
        """
        found = self._makers.between(quotient, self._is_lookup, self._keeps_to_rows)
        if found is None or len(found[1]) != 1:
            return None
        sums = [tensor for tensor in found[0] if self._makers.node(tensor, "Sum") is not None]
        return self._attempted("clipped-rows", quotient, self._clipped(quotient, *found, sums)) if sums else None

    def _clipped(self, quotient: Origin, nodes: list[Origin], entries: list[Any], sums: list[Origin]) -> Lookup | str:
        """The lookup in a table of clipped rows, or why there is none."""
        makers, (rows,) = self._makers, entries
        before = self.before(rows)
        if before is None:
            source = makers.table(rows)
            table, sources, ids = makers.constant(source), (source,), makers.inputs(rows)[1]
        else:
            table, sources, ids = before.table, before.sources, before.ids
        if table is None:
            return "the rows are not from a constant table"
        if makers.node(ids, "Unique", "UniqueV2") is None:
            return "the ids are not known to be a vector"
        axes = [makers.constant(makers.inputs(tensor)[1]) for tensor in sums]
        if any(given is None or given.reshape(-1).tolist() != list(range(1, table.ndim)) for given in axes):
            return "the norm is not that of a row"
        clip = makers.function(rows, table[:0], [quotient], nodes)
        if clip is None:
            return "the norm is computed from more than the rows"
        clipped = empty_array(table.shape, table.dtype)
        for some in _chunks(len(table)):
            clipped[some] = clip(np.ascontiguousarray(table[some]))[0]
        return Lookup(self._shared(clipped, sources), sources, ids, [*nodes, rows])

    def _is_lookup(self, tensor: Any) -> bool:
        return self._makers.table(tensor) is not None or self.before(tensor) is not None

    def _keeps_to_rows(self, tensor: Origin) -> bool:
        """Whether a node computes each row from that row and from scalars."""
        makers = self._makers
        node, given = makers.node(tensor), makers.inputs(tensor)
        if node.op == "Sum":
            axes = makers.constant(given[1])
            return bool(node.attr["keep_dims"].b) and axes is not None and bool((axes > 0).all())
        if node.op == "Fill":  # as ones_like and zeros_like write it
            return makers.node(given[0], "Shape") is not None and makers.number(given[1]) is not None
        if node.op in ("Const", "Shape"):
            return True
        return node.op in ELEMENTWISE and not any(
            makers.node(name, "Shape") or (makers.node(name, "Const") and makers.number(name) is None) for name in given
        )

    def _attempted(self, rule: str, origin: Origin, found: Lookup | str) -> Lookup | None:
        reason = found if isinstance(found, str) else ""
        self.attempts.append(Attempt(rule, f"{origin.scope.name}{origin.node}", not reason, reason))
        return found if isinstance(found, Lookup) else None

    def _shared(self, table: Array, sources: tuple[Any, ...]) -> Array:
        """The table, or an equal one that was made from the same tensors."""
        known = self._tables.setdefault(sources, [])
        for other in known:
            if _are_equal(other, table):
                return other
        known.append(table)
        return table


_RULES: dict[str, Callable[[DerivedTables, Origin], Lookup | None]] = {
    **dict.fromkeys(_STITCHES, DerivedTables.joined_parts),
    "Reshape": DerivedTables.unflattened,
    "RealDiv": DerivedTables.clipped_rows,
}


def _joined(parts: list[Array], place_of: Callable[[Array], list[Array]]) -> Array | None:
    """The table whose rows are distributed over the parts; None if these hold other rows."""
    sizes = np.array([len(part) for part in parts])
    total = int(sizes.sum())
    margin = 2 * len(parts)
    part, row = place_of(np.concatenate([np.arange(-margin, 0), np.arange(total, total + margin)]))
    if _exist(part, row, sizes).any():
        return None
    table = empty_array((total, *parts[0].shape[1:]), parts[0].dtype)
    for ids in _chunks(total):
        part, row = place_of(ids)
        if not _exist(part, row, sizes).all():
            return None
        for k, rows in enumerate(parts):
            table[ids[part == k]] = rows[row[part == k]]
    return table


def _exist(part: Array, row: Array, sizes: Array) -> Array:
    """Whether the parts have these rows."""
    known = (part >= 0) & (part < len(sizes))
    return known & (row >= 0) & (row < sizes[np.where(known, part, 0)])


def _are_equal(one: Array, other: Array) -> bool:
    """Whether two tables are equal: compared in parts, as they may be larger than memory."""
    return one.shape == other.shape and all(np.array_equal(one[rows], other[rows]) for rows in row_ranges(one))


def _chunks(total: int) -> Iterator[Array]:
    """0, 1, ..., total - 1, in pieces."""
    for begin in range(0, total, _CHUNK):
        yield np.arange(begin, min(begin + _CHUNK, total))
