"""The portable way to sum many short segments: padded pieces of them, and padded sums of those.

`ReduceSum` over the middle axis of [pieces, entries, ...] runs on all threads and is as fast as the copy of the rows,
but needs segments of one length. Each segment is therefore cut in pieces of a length that hardly pads anything, the
rows behind the last entries are made zeros, and the sums of a segment's pieces, of which there are few, are summed in
the same way. That takes memory for a fraction more than the rows; where segments differ too much, it would take far
more, and `ScatterElements` sums them, which takes the same time for segments of any lengths.
"""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.function_body import Body, Value

#: The fewest entries for which pieces pay: all that is counted before takes a fraction of a millisecond.
_FEWEST = 4096


class Pieces:
    """Sorted segments cut in pieces.

    Args:
        b: The body.
        ids: int64 [K], the segment of each entry.
        counts: int64 [S], the number of entries of each segment.
    """

    def __init__(self, b: Body, ids: Value, counts: Value) -> None:
        self.b = b
        self.ids = ids
        self.counts = counts
        self.entries = b.Shape(ids)
        zero, one = b.constant([0]), b.constant([1])
        segments = b.Shape(counts)
        # ReduceMax refuses no elements.
        longest = b.ReduceMax(b.Concat(counts, one, axis=0), zero, keepdims=1)
        padded = b.Mul(segments, longest)
        self.is_padded_little = b.Less(b.Mul(padded, b.constant([4])), b.Mul(self.entries, b.constant([5])))
        root = b.int64(b.Ceil(b.Sqrt(b.cast(longest, TensorProto.FLOAT))))
        self.length = b.Where(self.is_padded_little, longest, root)
        self.pieces = b.Div(b.Sub(b.Add(counts, self.length), one), self.length)
        self.most = b.ReduceMax(b.Concat(self.pieces, one, axis=0), zero, keepdims=1)

    def is_worthwhile(self) -> Value:
        """Whether to sum by pieces, a scalar bool: entries are many and in order, and little is padded."""
        b = self.b
        zero = b.constant([0])
        count = b.ReduceSum(self.pieces, zero, keepdims=1)
        conditions = [
            b.Less(b.constant([_FEWEST]), self.entries),
            b.Less(b.Mul(count, self.length), b.Mul(self.entries, b.constant([2]))),
            b.Less(b.Mul(b.Shape(self.counts), self.most), b.Add(self.entries, self.entries)),
        ]
        following = b.Slice(self.ids, b.constant([1]), b.constant([2**62]), zero)
        preceding = b.Slice(self.ids, zero, b.constant([-1]), zero)
        is_back = b.cast(b.Less(following, preceding), TensorProto.INT32)
        backward = b.ReduceSum(is_back, zero, keepdims=1)
        conditions.append(b.Equal(backward, b.constant([0], TensorProto.INT32)))
        found = conditions[0]
        for condition in conditions[1:]:
            found = b.And(found, condition)
        return b.Reshape(found, b.filled(b.constant([0]), 0))
