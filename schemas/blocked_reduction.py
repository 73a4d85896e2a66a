"""The portable way to reduce many rows by segment: in blocks of equal length, some thousand rows at a time.

ScatterElements runs on one thread and takes some 20 ns for every number. Here, the entries of each segment are cut into
blocks of 64 and a rest of 1 to 64. Rests are sorted by length, and a Loop looks up and reduces blocks and rests of one
length together, [blocks, length, ...], as many as the processor's cache holds. No entry is padded, and the looked-up
rows are never in memory together. What is left to combine are the blocks of the segments of more than 64 entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.schemas.element_types import DType
from onnx_sparse.schemas.function_body import Body, Value

#: The element types that ONNX Runtime reduces as they are: it adds integers as doubles.
TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE)

#: The fewest numbers for which it pays to sort segments by their length.
FEWEST_NUMBERS = 1 << 15

#: The length of a block.
_LENGTH = 64

#: How many numbers are reduced at a time, about.
_NUMBERS_AT_A_TIME = 1 << 15

_REDUCED_BY = {"add": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}


@dataclass(frozen=True)
class BlockedReduction:
    """Writes the reduction of the rows of each segment.

    Attributes:
        b: The body.
        counts: int64 [S], the number of entries of each segment; at least one has one.
        rows: Writes, on a body, the rows [..., *inner] of entries [...], which are numbered in the order of segments.
        reduction: `"add"`, `"max"` or `"min"`. A segment without entries has the sum 0, and any maximum or minimum; so
            has one with NaN.
        scatter: Writes, on a body, the reduction of rows [n, *inner] into some of others, by the numbers [n] of these.
        dtype: The element type of the rows.
        width: How many numbers a row has, about.
    """

    b: Body
    counts: Value
    rows: Callable[[Body, Value], Value]
    reduction: str
    scatter: Callable[[Body, Value, Value, Value], Value]
    dtype: DType
    width: int

    def write(self) -> tuple[Value, Value]:
        """Write the reduced rows, [S, *inner], and numbers [n] of which one is NaN if a row has a NaN.

        Infinities of both signs may make a NaN among the numbers, too.
        """
        b, zero, one = self.b, self.b.constant([0]), self.b.constant([1])
        starts = b.CumSum(self.counts, b.constant(0), exclusive=1)
        # An empty segment has (0 - 1) / 64 = 0 blocks and a rest of 0.
        blocks = b.Div(b.Sub(self.counts, b.constant(1)), b.constant(_LENGTH))
        rests = b.Sub(self.counts, b.Mul(blocks, b.constant(_LENGTH)))
        long = b.Compress(_numbers(b, self.counts), b.Less(b.constant(0), blocks), axis=0)
        owners, begins = self._cut(b.Gather(starts, long, axis=0), b.Gather(blocks, long, axis=0))
        is_used = b.cast(b.cast(self.counts, TensorProto.BOOL), TensorProto.INT64)
        lengths, order = b.node("TopK", rests, b.ReduceSum(is_used, zero, keepdims=1), outputs=2, axis=0)
        rest_begins = b.Gather(b.Sub(b.Add(starts, self.counts), rests), order, axis=0)
        # Empty segments have the sum of a last piece of no rows, or the extremum of any row.
        last = zero if self.reduction == "add" else one
        lengths = b.Concat(b.filled(b.Shape(owners), _LENGTH), lengths, last, axis=0)
        reduced, numbers, places = self._pieces(b.Concat(begins, rest_begins, zero, axis=0), lengths)
        own_places = b.Slice(places, b.Shape(owners), b.constant([-1]), zero)
        place = b.Expand(b.Gather(places, b.constant([-1]), axis=0), b.Shape(self.counts))
        place = b.ScatterElements(place, order, own_places, axis=0)
        short, all_ = b.branch(), b.branch()
        short.Gather(reduced, place, axis=0)
        block_rows = all_.Slice(reduced, zero, all_.Shape(owners), zero)
        self.scatter(all_, all_.Gather(reduced, place, axis=0), all_.Gather(long, owners, axis=0), block_rows)
        return b.choose(b.Equal(b.Size(owners), b.constant(0)), short, all_, self.dtype), numbers

    def _pieces(self, begins: Value, lengths: Value) -> tuple[Value, Value, Value]:
        """The reductions of pieces [P], numbers that are NaN where rows are, and each piece's place among reductions.

        The lengths fall. Pieces of one length are in groups, of which the last is filled up.
        """
        b, zero, one = self.b, self.b.constant([0]), self.b.constant([1])
        size = self._group_size(lengths)
        ones = b.filled(b.Shape(lengths), 1)
        count = b.ScatterElements(b.constant([0] * (_LENGTH + 1)), lengths, ones, axis=0, reduction="add")
        groups = b.Div(b.Sub(b.Add(count, size), one), size)
        before = {"exclusive": 1, "reverse": 1}
        added = b.Sub(b.Mul(b.CumSum(groups, b.constant(0), **before), size), b.CumSum(count, b.constant(0), **before))
        places = b.Add(_numbers(b, lengths), b.Gather(added, lengths, axis=0))
        number = b.ReduceSum(groups, zero, keepdims=1)
        table = b.Concat(number, size, axis=0)
        nothing = b.filled(b.Mul(number, size), 0)
        all_begins = b.Reshape(b.ScatterElements(nothing, places, begins, axis=0), b.Concat(table, one, axis=0))
        all_lengths = b.Reshape(b.ScatterElements(nothing, places, lengths, axis=0), table)
        group_lengths = b.Gather(all_lengths, b.constant(0), axis=1)

        def reduced(body: Body, group: Value) -> list[Value]:
            length = body.Gather(group_lengths, group, axis=0)
            begin = body.Gather(all_begins, group, axis=0)  # [pieces, 1]
            found = self.rows(body, body.Add(begin, body.Range(body.constant(0), length, body.constant(1))))
            results = body.node(_REDUCED_BY[self.reduction], found, body.constant([1]), keepdims=0)
            return [*results, body.ReduceSum(found, keepdims=0)] if self.reduction != "add" else [*results]

        stacked, *numbers = b.stacked(b.Squeeze(number, zero), reduced, self.dtype)
        shape = b.Concat(b.Shape(nothing), b.Shape(stacked, start=2), axis=0)
        return b.Reshape(stacked, shape, allowzero=1), numbers[0] if numbers else "", places

    def _group_size(self, lengths: Value) -> Value:
        """How many pieces are reduced at a time, int64 [1], by their average length."""
        b = self.b
        rows = b.ReduceSum(lengths, b.constant([0]), keepdims=1)
        at_a_time = max(_NUMBERS_AT_A_TIME // self.width, 1)
        return b.Add(b.Div(b.Mul(b.Shape(lengths), b.constant([at_a_time])), rows), b.constant([1]))

    def _cut(self, starts: Value, counts: Value) -> tuple[Value, Value]:
        """The blocks of long segments: each block's segment and first entry."""
        b = self.b
        before = b.CumSum(counts, b.constant(0), exclusive=1)
        total = b.ReduceSum(counts, b.constant([0]), keepdims=1)
        # The segment of a block is the number of segments that begin up to it, less one.
        first = b.ScatterElements(b.filled(total, 0), before, b.filled(b.Shape(counts), 1), axis=0)
        owners = b.Sub(b.CumSum(first, b.constant(0)), b.constant(1))
        jumps = b.Sub(starts, b.Mul(before, b.constant(_LENGTH)))
        begins = b.Add(b.Mul(_numbers(b, owners), b.constant(_LENGTH)), b.Gather(jumps, owners, axis=0))
        return owners, begins


def in_order(b: Body, ids: Value) -> Value:
    """The entries [K] in the order of their segments, those of one in their own order."""
    zero, one = b.constant([0]), b.constant([1])
    later = b.Slice(ids, one, b.constant([2**62]), zero)
    earlier = b.Slice(ids, zero, b.constant([-1]), zero)
    back = b.Compress(later, b.Less(later, earlier), axis=0)
    same, found = b.branch(), b.branch()
    _numbers(same, ids)
    found.Identity(found.node("TopK", ids, found.Shape(ids), outputs=2, axis=0, largest=0)[1])
    return b.choose(b.Equal(b.Size(back), b.constant(0)), same, found, TensorProto.INT64)


def _numbers(b: Body, vector: Value) -> Value:
    """0, 1, 2, ... for the elements of a vector."""
    return b.Range(b.constant(0), b.Size(vector), b.constant(1))
