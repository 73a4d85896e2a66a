"""UnsortedSegmentSum, -Mean, -Max, -Min and -Prod: reduce slices by ids in any order."""

from __future__ import annotations

from functools import partial

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import FLOATS, INDEX, NUMBERS
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import END, Rows, Segments, first, highest, lowest

_INPUTS = (
    Input("data", "T", "*S, ...", "The slices to reduce; the leading dimensions are the shape of segment_ids."),
    Input(
        "segment_ids",
        "I",
        "*S",
        "The segment of each slice of data, in any order; a negative id drops the slice.",
        Values("segment", of="num_segments"),
    ),
    Input("num_segments", "N", "", "The number of segments.", Values("size")),
)
_OUTPUT = Output("output", "T", "num_segments, ...", "One slice per segment.")
_TYPES = {"T": NUMBERS, "I": INDEX, "N": INDEX}

_COMMON_SEMANTICS = """
- `segment_ids` may have any rank up to that of `data` (also 0); its shape is a prefix of the shape of `data`.
- A negative id drops its slice. An id >= `num_segments` is an error, whatever the size of `data`.
- `num_segments` < 0 is an error.
- float16 and bfloat16 are reduced in float32 and rounded once. The result does not depend on the number of threads.
""".strip()


def _rows(b: Body) -> tuple[Value, Segments, Value]:
    """The data as rows, their segments with one more for dropped rows, and how many segments to keep."""
    size = b.as_vector("num_segments")
    ids, rows = b.int64("segment_ids"), "data"
    ids_rank = b.rank("segment_ids")
    if ids_rank != 1:
        ids = b.Reshape(ids, b.constant([-1]))
        if ids_rank is None:
            inner = b.Slice(b.Shape("data"), b.Shape(b.Shape("segment_ids")), b.constant([END]))
        else:
            inner = b.Shape("data", start=ids_rank)
        rows = b.Reshape("data", b.Concat(b.Shape(ids), inner, axis=0), allowzero=1)
    ids = b.Where(b.Less(ids, b.constant(0)), size, ids)
    inner_sizes = None if ids_rank is None else b.inner("data", ids_rank)
    segments = Segments(b, ids, b.Add(size, b.constant([1])), inner_sizes, is_sorted=False)
    return b.cast(rows, b.compute_type("T")), segments, size


def _body(b: Body) -> None:
    rows, segments, size = _rows(b)
    reduction, dtype = b.op.reduction, b.types["T"]
    if reduction in ("max", "min"):
        finite, infinite = (lowest(dtype), -np.inf) if reduction == "max" else (highest(dtype), np.inf)
        initial = infinite if b.attributes["initial"].endswith("_INF") and dtype in FLOATS else finite
        reduced = segments.extremum(reduction, Rows.of(rows), initial, b.compute_type("T"))
    else:
        reduced = segments.reduced(reduction, rows, b.compute_type("T"))
    b.output("output", first(b, reduced, size))


#: What the operators have in common.
_op = partial(Op, inputs=_INPUTS, outputs=(_OUTPUT,), types=_TYPES, body=_body)

UNSORTED_SEGMENT_SUM = _op(
    name="UnsortedSegmentSum",
    reduction="sum",
    summary="Sums the slices of each segment, with ids in any order.",
    semantics=_COMMON_SEMANTICS + "\n- An empty segment is 0. Integer sums wrap.",
    source="tf.raw_ops.UnsortedSegmentSum",
    body_notes="Float sums may be rounded in another order.",
    examples=(
        Example(
            "a negative id is dropped",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT32},
            {"data": [1, 2, 3, 4], "segment_ids": [2, 0, -1, 2], "num_segments": 3},
            {"output": [2, 0, 5]},
        ),
    ),
)

UNSORTED_SEGMENT_MEAN = _op(
    name="UnsortedSegmentMean",
    reduction="mean",
    summary="Averages the slices of each segment, with ids in any order.",
    semantics=_COMMON_SEMANTICS
    + "\n- An empty segment is 0. For integers the sum wraps in T and the division truncates toward zero.",
    source="tf.math.unsorted_segment_mean, for floats; integers as in tf.raw_ops.SegmentMean",
    body_notes="Float sums may be rounded in another order.",
    examples=(
        Example(
            "a negative id is not counted",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT64},
            {"data": [1, 2, 3, 4], "segment_ids": [2, 0, -1, 2], "num_segments": 4},
            {"output": [2, 0, 2.5, 0]},
        ),
        Example(
            "integers divide toward zero",
            {"T": TensorProto.INT8, "I": TensorProto.INT64, "N": TensorProto.INT64},
            {"data": [[-1, 4], [-2, 3]], "segment_ids": [0, 0], "num_segments": 1},
            {"output": [[-1, 3]]},
        ),
    ),
)

UNSORTED_SEGMENT_MAX = _op(
    name="UnsortedSegmentMax",
    reduction="max",
    summary="Takes the maximum of the slices of each segment, with ids in any order.",
    semantics=_COMMON_SEMANTICS
    + "\n- The reduction starts from a value that is also the result for an empty segment. With `initial` = `LOWEST` "
    "that is the lowest finite value of T, and so is the maximum of a segment of -inf. With `NEG_INF` it is -inf; for "
    "integers, which have none, the lowest value.\n- NaN propagates.",
    source="tf.raw_ops.UnsortedSegmentMax, which is initial LOWEST; torch's scatter_reduce starts from -inf",
    attributes=(Attribute("initial", ("LOWEST", "NEG_INF"), "What the reduction starts from.", default="LOWEST"),),
    examples=(
        Example(
            "an empty segment is the lowest value",
            {"T": TensorProto.INT8, "I": TensorProto.INT64, "N": TensorProto.INT64},
            {"data": [[1, 2], [3, 0]], "segment_ids": [0, 0], "num_segments": 2},
            {"output": [[3, 2], [-128, -128]]},
        ),
        Example(
            "a reduction from -inf",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT64, "N": TensorProto.INT64},
            {"data": [3, -np.inf], "segment_ids": [0, 1], "num_segments": 3},
            {"output": [3, -np.inf, -np.inf]},
            {"initial": "NEG_INF"},
        ),
    ),
)

UNSORTED_SEGMENT_MIN = _op(
    name="UnsortedSegmentMin",
    reduction="min",
    summary="Takes the minimum of the slices of each segment, with ids in any order.",
    semantics=_COMMON_SEMANTICS
    + "\n- The reduction starts from a value that is also the result for an empty segment. With `initial` = `HIGHEST` "
    "that is the highest finite value of T, and so is the minimum of a segment of +inf. With `POS_INF` it is +inf; for "
    "integers, which have none, the highest value.\n- NaN propagates.",
    source="tf.raw_ops.UnsortedSegmentMin, which is initial HIGHEST; torch's scatter_reduce starts from +inf",
    attributes=(Attribute("initial", ("HIGHEST", "POS_INF"), "What the reduction starts from.", default="HIGHEST"),),
    examples=(
        Example(
            "ids of rank 2",
            {"T": TensorProto.UINT8, "I": TensorProto.INT32, "N": TensorProto.INT64},
            {"data": [[4, 2], [7, 3]], "segment_ids": [[1, 0], [1, -1]], "num_segments": 3},
            {"output": [2, 4, 255]},
        ),
    ),
)

UNSORTED_SEGMENT_PROD = _op(
    name="UnsortedSegmentProd",
    reduction="prod",
    summary="Multiplies the slices of each segment, with ids in any order.",
    semantics=_COMMON_SEMANTICS + "\n- An empty segment is 1. Integer products wrap.",
    source="tf.raw_ops.UnsortedSegmentProd",
    body_notes="Float products may be rounded in another order.",
    examples=(
        Example(
            "an empty segment is one",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT64, "N": TensorProto.INT32},
            {"data": [2, 3, 5], "segment_ids": [2, 0, 2], "num_segments": 3},
            {"output": [3, 1, 10]},
        ),
    ),
)

FAMILY = Family(
    "unsorted_segment",
    (UNSORTED_SEGMENT_SUM, UNSORTED_SEGMENT_MEAN, UNSORTED_SEGMENT_MAX, UNSORTED_SEGMENT_MIN, UNSORTED_SEGMENT_PROD),
    origin="`tf.math.unsorted_segment_*`",
)
