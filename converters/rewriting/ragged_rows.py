"""What rules ask about the rows of ragged tensors: which values are in which row, and how many rows there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx import NodeProto

from onnx_sparse.converters.rewriting.entries import FAR, column, is_same
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.sizes import measured, sizes
from onnx_sparse.models.graphs import attribute

#: The attributes of EmbeddingBagOffsets by which offsets are row splits.
ROW_SPLITS = {"include_last_offset": "exact"}


@dataclass(frozen=True)
class RowIds:
    """The row of each value of a ragged tensor, or of those that are kept.

    Attributes:
        splits: The row splits.
        kept: Which values are kept, a vector of booleans; None for all.
    """

    splits: str
    kept: str | None = None


def row_ids(graph: Graph, name: str) -> RowIds | None:
    """The rows that a vector is made of; None if it is anything else."""
    name = graph.without_casts(name)
    kept = graph.producer(name, "Compress")
    if kept is None or graph.rank(kept.input[0]) != 1:
        splits = _splits_of_rows(graph, part_of_column(graph, name) or name)
        return None if splits is None else RowIds(splits)
    found = row_ids(graph, kept.input[0])
    return None if found is None or found.kept is not None else RowIds(found.splits, kept.input[1])


def part_of_column(graph: Graph, name: str) -> str | None:
    """The vector that a column is, where the matrix is joined from columns; None if it is not such a column."""
    found = column(graph, name)
    joined = columns_of(graph, found.matrix) if found is not None else None
    if found is None or joined is None or not 0 <= found.index < len(joined):
        return None
    return vectors_of(graph, joined)[found.index]


def columns_of(graph: Graph, matrix: str) -> list[str] | None:
    """The matrices of one column, made of vectors, that a matrix is joined from; None if it is not."""
    joined = graph.producer(matrix, "Concat")
    if joined is None or attribute(joined, "axis") != 1:
        return None
    return list(joined.input) if len(vectors_of(graph, joined.input)) == len(joined.input) else None


def vectors_of(graph: Graph, columns: Iterable[str]) -> list[str]:
    """The vectors that matrices of one column are made of."""
    made = (graph.producer(name, "Unsqueeze") for name in columns)
    vectors = (node for node in made if node is not None and len(node.input) == 2 and graph.rank(node.input[0]) == 1)
    return [node.input[0] for node in vectors if graph.integers(node.input[1]) in ([1], [-1])]


def splits_between(graph: Graph, lengths: str) -> str | None:
    """The splits between which rows have the given lengths: lengths = splits[1:] - splits[:-1]."""
    difference = graph.producer(lengths, "Sub")
    if difference is None:
        return None
    ends, starts = (graph.producer(name, "Slice") for name in difference.input)
    if ends is None or starts is None or ends.input[0] != starts.input[0] or graph.rank(ends.input[0]) != 1:
        return None
    from_second, to_last = (bounds(graph, cut) for cut in (ends, starts))
    is_to_end = from_second is not None and from_second[0] == 1 and from_second[1] >= FAR
    splits: str = ends.input[0]
    return splits if is_to_end and to_last == (0, -1) else None


def is_row_count(graph: Graph, name: str, splits: str) -> bool:
    """Whether a number is that of the rows between splits."""
    found = sizes(graph, name)
    if found is None or len(found) != 1:
        return False
    number, symbols = found[0]
    if not symbols:
        shape = graph.shape(splits)
        return shape is not None and len(shape) == 1 and shape[0] == number + 1
    if number != 1 or len(symbols) != 1:
        return False
    rows = measured(symbols[0])
    if rows is not None:
        of_rows = splits_between(graph, rows[0])
        return of_rows is not None and _are_same(graph, of_rows, splits)
    less = graph.producer(symbols[0][0], "Sub")
    length = sizes(graph, less.input[0]) if less is not None and graph.integers(less.input[1]) == [1] else None
    counted = measured(length[0][1][0]) if length is not None and len(length[0][1]) == 1 else None
    return counted is not None and _are_same(graph, counted[0], splits)


def is_longest_row(graph: Graph, name: str, splits: str) -> bool:
    """Whether a number is that of the values in the longest row between splits, or 0 without rows."""
    largest = graph.producer(name, "ReduceMax")
    joined = graph.producer(largest.input[0], "Concat") if largest is not None else None
    if joined is None or len(joined.input) != 2 or graph.integers(joined.input[0]) != [0]:
        return False
    of_rows = splits_between(graph, joined.input[1])
    return of_rows is not None and _are_same(graph, of_rows, splits)


def is_place_in_row(graph: Graph, name: str, rows: RowIds) -> bool:
    """Whether a vector counts the values of each row: the number of each less that of the first of its row."""
    less = graph.producer(name, "Sub")
    numbers, first = (graph.producer(given) for given in less.input) if less is not None else (None, None)
    if numbers is None or first is None or (numbers.op_type, first.op_type) != ("Range", "Gather"):
        return False
    start, _, step = (graph.integers(given) for given in numbers.input)
    of_rows = row_ids(graph, first.input[1])
    return (start, step) == ([0], [1]) and is_same(graph, first.input[0], rows.splits) and of_rows == rows


def before_checking(graph: Graph, splits: str) -> str:
    """The splits that `checked_splits` was given, if it made these; any others themselves."""
    check = graph.producer(graph.without_casts(splits), "ValidateRowSplits")
    given: str = splits if check is None else check.input[0]
    return given


def _splits_of_rows(graph: Graph, name: str) -> str | None:
    """The splits of which a vector counts those up to each value, less one; None if it does not.

    That is how the row of each value is computed from splits; see `partitions.of_splits`.
    """
    less = graph.producer(name, "Sub")
    cut = graph.producer(less.input[0], "Slice") if less is not None else None
    counted = graph.producer(cut.input[0], "CumSum") if cut is not None else None
    begun = graph.producer(counted.input[0], "ScatterElements") if counted is not None else None
    if less is None or cut is None or counted is None or begun is None:
        return None
    zeros, splits, ones = begun.input
    total = graph.producer(graph.without_casts(cut.input[2]), "Gather")
    is_count = (
        graph.integers(less.input[1]) == [1]
        and graph.integers(cut.input[1]) == [0]
        and len(cut.input) == 3
        and graph.integers(counted.input[1]) == [0]
        and not counted.attribute
        and attribute(begun, "reduction") == b"add"
        and graph.uniform(zeros) == 0
        and graph.uniform(ones) == 1
        and total is not None
        and graph.integers(total.input[1]) == [-1]
        and is_same(graph, total.input[0], splits)
        and graph.rank(splits) == 1
    )
    return splits if is_count else None


def _are_same(graph: Graph, one: str, other: str) -> bool:
    """Whether two vectors of splits are the same, checked or not."""
    return is_same(graph, before_checking(graph, one), before_checking(graph, other))


def bounds(graph: Graph, cut: NodeProto) -> tuple[int, int] | None:
    """The start and end of a Slice of a vector, step by step; None where they are not known."""
    starts, ends, *others = (graph.integers(name) for name in cut.input[1:])
    if starts is None or ends is None or len(starts) != 1 or others not in ([], [[0]], [[0], [1]]):
        return None
    return starts[0], ends[0]
