"""QuantizedEmbeddingSegments* and QuantizedEmbeddingBagOffsets*: lookups in tables of 8-bit or 4-bit integers."""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output
from onnx_sparse.schemas.element_types import HALF_FLOATS, INDEX
from onnx_sparse.schemas.embedding import (
    INDICES,
    NUM_SEGMENTS,
    PER_SAMPLE_WEIGHTS,
    SEGMENT_IDS,
    SEGMENTS_ATTRIBUTES,
    SEGMENTS_SEMANTICS,
    default_index,
)
from onnx_sparse.schemas.embedding import entries as segment_entries
from onnx_sparse.schemas.embedding_bag import BAG_ATTRIBUTES, BAGS_SEMANTICS, BAGS_UNDER, OFFSETS, PADDING_INDEX
from onnx_sparse.schemas.embedding_bag import entries as bag_entries
from onnx_sparse.schemas.embedding_body import Table, write_reduction
from onnx_sparse.schemas.function_body import Body, Value

_TABLE = (
    Input("emb_table", "Q", "V, E", "The integers of the embedding table."),
    Input("scale_bias", "T", "V, G, A", "The scale of each block of columns of each row, and its bias where A = 2."),
)
_SEGMENTS = (*_TABLE, INDICES, SEGMENT_IDS, NUM_SEGMENTS, default_index("segment"), PER_SAMPLE_WEIGHTS)
_BAGS = (*_TABLE, INDICES, OFFSETS, default_index("bag"), PER_SAMPLE_WEIGHTS, PADDING_INDEX)

_BITS = Attribute("bits", ("8", "4"), "How many bits an integer has; two of 4 bits are in one byte.", default="8")
_WIDTH_UNDER = {("bits", "4"): {"E": "2 E"}}
_ROW_PER_SEGMENT = Output("output", "T", "num_segments, E", "One row per segment.", items_under=_WIDTH_UNDER)
_ROW_PER_BAG = Output("output", "T", "B, E", "One row per bag.", items_under={**BAGS_UNDER, **_WIDTH_UNDER})

_TYPES = {"Q": (TensorProto.INT8, TensorProto.UINT8), "T": (*HALF_FLOATS, TensorProto.FLOAT), "I": INDEX}

_QUANTIZED = """
Its rows are `bias + scale * emb_table`.

- With `bits` = `8` their width is E. With `bits` = `4` it is 2 E: a byte has two integers, that of the even column in
  its lower half, as in tables of FBGEMM and torch and in ONNX's 4-bit types; in int8 tables both have a sign.
- The columns are G blocks of equal width, each with its scale `scale_bias[row, block, 0]` and its bias
  `scale_bias[row, block, 1]`. G = 1 means one for the row. G must be at least 1 and divide E. A must be 2, or 1: the
  biases are 0 then. Anything else is an error.
- Integers are made float32, multiplied by the scale and added to the bias, each rounded to float32. Products with
  weights, sums and means are computed in float32, too, and rounded to T once. In the reference, Python and native
  kernels the result is bit for bit that of the same lookup in a float32 table of these rows, rounded to T.
"""


class _QuantizedTable(Table):
    def __init__(self, b: Body) -> None:
        super().__init__(b)
        self.has_halves = b.attributes["bits"] == "4"
        if self.inner is not None:
            (width,) = self.inner
            if self.has_halves:
                self.inner = (2 * width if isinstance(width, int) else None,)

    def rows(self, indices: Value) -> Value:
        """The rows of indices [...], [..., width]."""
        return self._scaled(*self._looked_up(indices))

    def row_or_zeros(self, indices: Value) -> Value:
        """The row of one index, zeros of none: [width]."""
        b = self.b
        # Of no index each is a sum of nothing. Multiplied before, static quantization would make it a QLinearMul of
        # no elements, which ends the process.
        parts = [b.ReduceSum(part, b.constant([0]), keepdims=0) for part in self._looked_up(indices)]
        return self._scaled(*parts)

    def _looked_up(self, indices: Value) -> list[Value]:
        """The integers of indices [...], their scales and, unless there are none, their biases; all float32."""
        b, dtype = self.b, int(TensorProto.FLOAT)
        integers = b.Gather("emb_table", indices, axis=0)
        numbers = b.cast(b.Gather("scale_bias", indices, axis=0), dtype)
        parts = [self._halves(integers) if self.has_halves else b.cast(integers, dtype)]
        parts.append(b.Gather(numbers, b.constant(0), axis=-1))
        given = b.size("scale_bias", 2)
        if given is None:  # the second number is the bias, or a zero behind the scale
            shape = b.Concat(b.Shape(numbers, end=-1), b.constant([1]), axis=0)
            numbers = b.Concat(numbers, b.filled(shape, 0, dtype), axis=-1)
        if given != 1:
            parts.append(b.Gather(numbers, b.constant(1), axis=-1))
        return parts

    def _scaled(self, rows: Value, scale: Value, bias: Value | None = None) -> Value:
        b = self.b
        if b.size("scale_bias", 1) == 1:
            rows = b.Mul(rows, scale)
            return rows if bias is None else b.Add(rows, bias)
        shape = b.Shape(rows)
        width, blocks = b.Shape(rows, start=-1), b.Shape(scale, start=-1)
        last = b.constant([-1])
        rows = b.Reshape(rows, b.Concat(b.Shape(scale), b.Div(width, blocks), axis=0), allowzero=1)
        rows = b.Mul(rows, b.Unsqueeze(scale, last))
        rows = rows if bias is None else b.Add(rows, b.Unsqueeze(bias, last))
        return b.Reshape(rows, shape, allowzero=1)

    def _halves(self, integers: Value) -> Value:
        """The halves of bytes [..., E] as float32 [..., 2 E]."""
        b, byte = self.b, int(TensorProto.UINT8)
        whole = b.cast(integers, byte)
        low = b.BitwiseAnd(whole, b.constant(15, byte))
        high = b.BitShift(whole, b.constant(4, byte), direction="RIGHT")
        last = b.constant([-1])
        pairs = b.Concat(b.Unsqueeze(low, last), b.Unsqueeze(high, last), axis=-1)
        width = b.Mul(b.Shape(whole, start=-1), b.constant([2]))
        halves = b.Reshape(pairs, b.Concat(b.Shape(whole, end=-1), width, axis=0), allowzero=1)
        if b.types["Q"] == TensorProto.UINT8:
            return b.cast(halves, TensorProto.FLOAT)
        # The highest bit counts -8: flipped, 8 too many.
        flipped = b.cast(b.BitwiseXor(halves, b.constant(8, byte)), TensorProto.FLOAT)
        return b.Sub(flipped, b.constant(8, TensorProto.FLOAT))


def _segments_body(b: Body) -> None:
    write_reduction(segment_entries(b, _QuantizedTable(b)))


def _bags_body(b: Body) -> None:
    write_reduction(bag_entries(b, _QuantizedTable(b)))


#: What the operators have in common.
_op = partial(
    Op,
    source="torch.ops.quantized.embedding_bag_byte_rowwise_offsets and _4bit_; FBGEMM IntNBitTableBatchedEmbeddingBags",
    types=_TYPES,
    body_notes="Sums may be rounded in another order.",
)
_segments_op = partial(
    _op, inputs=_SEGMENTS, outputs=(_ROW_PER_SEGMENT,), attributes=(_BITS, *SEGMENTS_ATTRIBUTES), body=_segments_body
)
_bags_op = partial(_op, inputs=_BAGS, outputs=(_ROW_PER_BAG,), attributes=(_BITS, *BAG_ATTRIBUTES), body=_bags_body)

_EXAMPLE_TYPES = {"Q": TensorProto.UINT8, "T": TensorProto.FLOAT, "I": TensorProto.INT32}
_EXAMPLE_TABLE = {"emb_table": [[0, 255], [10, 20]], "scale_bias": [[[0.5, -1]], [[2, 0]]]}

QUANTIZED_EMBEDDING_SEGMENTS_SUM = _segments_op(
    name="QuantizedEmbeddingSegmentsSum",
    reduction="sum",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and sums them by segment.",
    semantics=f"EmbeddingSegmentsSum of a quantized table.\n{_QUANTIZED}{SEGMENTS_SEMANTICS}",
    examples=(
        Example(
            "a scale and a bias per row",
            _EXAMPLE_TYPES,
            {
                **_EXAMPLE_TABLE,
                "indices": [0, 1, 1],
                "segment_ids": [0, 0, 2],
                "num_segments": 3,
                "default_index": -1,
                "per_sample_weights": [1, 1, 0.5],
            },
            {"output": [[19, 166.5], [0, 0], [10, 20]]},
        ),
        Example(
            "4 bits, a scale per block of two columns",
            _EXAMPLE_TYPES,
            {
                "emb_table": [[0x21, 0xF3]],
                "scale_bias": [[[1, 0], [10, 5]]],
                "indices": [0],
                "segment_ids": [0],
                "num_segments": 1,
            },
            {"output": [[1, 2, 35, 155]]},
            {"bits": "4"},
        ),
    ),
)

QUANTIZED_EMBEDDING_SEGMENTS_MEAN = _segments_op(
    name="QuantizedEmbeddingSegmentsMean",
    reduction="mean",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and averages them by segment.",
    semantics=f"EmbeddingSegmentsMean of a quantized table.\n{_QUANTIZED}{SEGMENTS_SEMANTICS}",
    examples=(
        Example(
            "an empty segment is the default row",
            _EXAMPLE_TYPES,
            {**_EXAMPLE_TABLE, "indices": [0, 1], "segment_ids": [0, 0], "num_segments": 2, "default_index": 1},
            {"output": [[9.5, 83.25], [20, 40]]},
        ),
    ),
)

QUANTIZED_EMBEDDING_SEGMENTS_SQRT_N = _segments_op(
    name="QuantizedEmbeddingSegmentsSqrtN",
    reduction="sqrtn",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and sums them by segment, divided by the "
    "root of the sum of squared weights.",
    semantics=f"EmbeddingSegmentsSqrtN of a quantized table.\n{_QUANTIZED}{SEGMENTS_SEMANTICS}",
    examples=(
        Example(
            "four rows are divided by two",
            _EXAMPLE_TYPES,
            {
                "emb_table": [[1], [2]],
                "scale_bias": [[[2]], [[2]]],
                "indices": [0, 1, 1, 0],
                "segment_ids": [0, 0, 0, 0],
                "num_segments": 1,
            },
            {"output": [[6]]},
        ),
    ),
)

QUANTIZED_EMBEDDING_BAG_OFFSETS_SUM = _bags_op(
    name="QuantizedEmbeddingBagOffsetsSum",
    reduction="sum",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and sums them by bag; offsets say where "
    "the bags begin.",
    semantics=f"EmbeddingBagOffsetsSum of a quantized table.\n{_QUANTIZED}{BAGS_SEMANTICS}",
    examples=(
        Example(
            "signed integers of 4 bits and an end of the last bag",
            {"Q": TensorProto.INT8, "T": TensorProto.FLOAT, "I": TensorProto.INT64},
            {
                "emb_table": [[0x21], [-0x1E]],  # 1 and 2; 2 and -2
                "scale_bias": [[[1]], [[0.5]]],
                "indices": [0, 1],
                "offsets": [0, 2, 2],
            },
            {"output": [[2, 1], [0, 0]]},
            {"bits": "4", "include_last_offset": "true"},
        ),
    ),
)

QUANTIZED_EMBEDDING_BAG_OFFSETS_MEAN = _bags_op(
    name="QuantizedEmbeddingBagOffsetsMean",
    reduction="mean",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and averages them by bag; offsets say "
    "where the bags begin.",
    semantics=f"EmbeddingBagOffsetsMean of a quantized table.\n{_QUANTIZED}{BAGS_SEMANTICS}",
    examples=(
        Example(
            "padding is not counted",
            _EXAMPLE_TYPES,
            {**_EXAMPLE_TABLE, "indices": [0, 1, 1], "offsets": [0, 2], "padding_index": 1},
            {"output": [[-1, 126.5], [0, 0]]},
        ),
    ),
)

QUANTIZED_EMBEDDING_BAG_OFFSETS_SQRT_N = _bags_op(
    name="QuantizedEmbeddingBagOffsetsSqrtN",
    reduction="sqrtn",
    summary="Looks up rows of a table of 8-bit or 4-bit integers, scales them and sums them by bag, divided by the "
    "root of the sum of squared weights; offsets mark where the bags begin.",
    semantics=f"EmbeddingBagOffsetsSqrtN of a quantized table.\n{_QUANTIZED}{BAGS_SEMANTICS}",
    examples=(
        Example(
            "four rows are divided by two",
            _EXAMPLE_TYPES,
            {"emb_table": [[1], [2]], "scale_bias": [[[2]], [[2]]], "indices": [0, 1, 1, 0], "offsets": [0, 4]},
            {"output": [[6]]},
            {"include_last_offset": "true"},
        ),
    ),
)

FAMILY = Family(
    "quantized_embedding",
    (
        QUANTIZED_EMBEDDING_SEGMENTS_SUM,
        QUANTIZED_EMBEDDING_SEGMENTS_MEAN,
        QUANTIZED_EMBEDDING_SEGMENTS_SQRT_N,
        QUANTIZED_EMBEDDING_BAG_OFFSETS_SUM,
        QUANTIZED_EMBEDDING_BAG_OFFSETS_MEAN,
        QUANTIZED_EMBEDDING_BAG_OFFSETS_SQRT_N,
    ),
    origin="torch's and FBGEMM's quantized embedding bags",
)
