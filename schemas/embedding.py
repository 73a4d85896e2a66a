"""EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN: look rows up and reduce them by segment."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import (
    FLOATS,
    INDEX,
    NUMBERS,
    Attribute,
    Example,
    Family,
    Input,
    Op,
    Output,
    Values,
)
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import as_column, counts, first, scatter_reduce, sorted_segments

_INPUTS = (
    Input("emb_table", "T", "V, ...", "The embedding table."),
    Input("indices", "I", "K", "The rows to look up.", Values("index", of="V")),
    Input(
        "segment_ids",
        "I",
        "K",
        "The segment of each index.",
        Values("sorted_segment", of="num_segments"),
        values_under={("segment_ids_order", "any"): Values("index", of="num_segments")},
    ),
    Input("num_segments", "I", "", "The number of segments.", Values("size")),
    Input(
        "default_index",
        "I",
        "",
        "The row that fills an empty segment; -1 (the same as omitting it) means zeros.",
        Values("index", of="V", low=-1),
        sentinel=-1,
    ),
    Input(
        "per_sample_weights",
        "T",
        "K",
        "The weight of each looked-up row; empty (the same as omitting it) means 1.",
        sentinel=(),
    ),
)
_OUTPUT = Output("output", "T", "num_segments, ...", "One row per segment.")
_ORDER = Attribute("segment_ids_order", ("sorted", "any"), "The order in which segment_ids may come.", default="sorted")

_COMMON_SEMANTICS = """
- With `segment_ids_order` = `sorted`, `segment_ids` must be sorted in non-decreasing order and not negative; anything
  else is an error. Entries of segments at or beyond `num_segments` are dropped, and their indices are not checked.
- With `segment_ids_order` = `any`, `segment_ids` may be in any order; one outside [0, `num_segments`) is an error. The
  entries of a segment are reduced in the order of their positions: the result is that of entries that were sorted by
  segment, stably. Entries that are sorted already take no longer than under `sorted`.
- An index outside [0, V) in an entry that is not dropped is an error; so is a `default_index` outside [-1, V), even if
  it is not used, and a negative `num_segments`.
- An empty segment is 0, or `emb_table[default_index]` without a weight.
- float16 and bfloat16 are computed in float32, including the products with weights, and rounded once.
- In the reference, Python and native kernels, unweighted float and double results are bit-identical to those of
  TensorFlow's SparseSegment ops on CPU: the first `n % 8` rows (8 for 0, 9 for 1) are added one by one, then blocks of
  eight, each block summed first. The result does not depend on the number of threads.
""".strip()


def _reduce(b: Body) -> tuple[Value, Value, Value, Value, Value | None]:
    """The (weighted) sums, the counts, the ids in use, the number of segments and the weights in use."""
    if b.attributes["segment_ids_order"] == "sorted":
        ids, kept, size = sorted_segments(b, "segment_ids", "num_segments")
    else:  # all are in use, and a scatter takes them in any order
        ids, kept = b.int64("segment_ids"), b.Shape("segment_ids")
        size = b.Reshape(b.int64("num_segments"), b.constant([1]))
    dtype = b.compute_type("T")
    rows = b.cast(b.Gather("emb_table", first(b, "indices", kept), axis=0), dtype)
    weights = None
    if "per_sample_weights" in b.given:
        # An empty input means ones: the first K of the weights followed by K ones are the weights if there are any.
        ones = b.Expand(b.constant(1, dtype), b.Shape("indices"))
        weights = first(b, b.Concat(b.cast("per_sample_weights", dtype), ones, axis=0), kept)
        rows = b.Mul(rows, as_column(b, weights, rows))
    total = scatter_reduce(b, "add", rows, ids, size, b.constant(0, dtype))
    return total, counts(b, ids, size), ids, size, weights


def _finish(b: Body, reduced: Value, count: Value) -> None:
    """Put the default row into empty segments and write the output."""
    reduced = b.cast(reduced, b.types["T"])
    if "default_index" in b.given:
        index = b.Reshape(b.int64("default_index"), b.constant([1]))
        row = b.Gather("emb_table", b.Compress(index, b.GreaterOrEqual(index, b.constant([0])), axis=0), axis=0)
        zero = b.cast(
            b.Expand(b.constant(0), b.Concat(b.constant([1]), b.Shape(reduced, start=1), axis=0)), b.types["T"]
        )
        candidates = b.Concat(reduced, zero, row, axis=0)  # the last of them is the default
        own = b.Range(b.constant(0), b.Size(count), b.constant(1))
        reduced = b.Gather(candidates, b.Where(b.cast(count, TensorProto.BOOL), own, b.constant(-1)), axis=0)
    b.move("output", reduced)


def _sum_body(b: Body) -> None:
    total, count, *_ = _reduce(b)
    _finish(b, total, count)


def _mean_body(b: Body) -> None:
    _divided_body(b, square=False)


def _sqrt_n_body(b: Body) -> None:
    _divided_body(b, square=True)


def _divided_body(b: Body, square: bool) -> None:
    total, count, ids, size, weights = _reduce(b)
    dtype = b.compute_type("T")
    zero = b.constant(0, dtype)
    if weights is None:
        divisor = b.cast(count, dtype)
    else:
        divisor = scatter_reduce(b, "add", b.Mul(weights, weights) if square else weights, ids, size, zero)
    column = as_column(b, b.Sqrt(divisor) if square else divisor, total)
    _finish(b, b.Where(b.Equal(column, zero), zero, b.Div(total, column)), count)


_EXAMPLE_TYPES = {"T": TensorProto.FLOAT, "I": TensorProto.INT32}
_TABLE = [[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]]

EMBEDDING_SEGMENTS_SUM = Op(
    name="EmbeddingSegmentsSum",
    summary="Looks up rows of a table and sums them by segment, without an intermediate tensor of the looked-up rows.",
    semantics="`output[s] = sum(per_sample_weights[k] * emb_table[indices[k]] for k with segment_ids[k] = s)`.\n\n"
    + _COMMON_SEMANTICS
    + "\n- Integer sums and products wrap.",
    source="OpenVINO EmbeddingSegmentsSum-3; tf.raw_ops.SparseSegmentSum",
    inputs=_INPUTS,
    outputs=(_OUTPUT,),
    types={"T": NUMBERS, "I": INDEX},
    attributes=(_ORDER,),
    body=_sum_body,
    body_notes="Materialises the looked-up rows [K, ...]; float sums may be rounded in another order.",
    examples=(
        Example(
            "EmbeddingSegmentsSum-3 XML example",
            _EXAMPLE_TYPES,
            {
                "emb_table": _TABLE,
                "indices": [0, 2, 3, 4],
                "segment_ids": [0, 0, 2, 2],
                "num_segments": 3,
                "default_index": 0,
                "per_sample_weights": [0.5, 0.5, 0.5, 0.5],
            },
            {"output": [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]]},
        ),
        Example(
            "entries in any order",
            _EXAMPLE_TYPES,
            {
                "emb_table": [[1, 2], [3, 4], [5, 6]],
                "indices": [2, 0, 1, 0],
                "segment_ids": [2, 0, 2, 0],
                "num_segments": 3,
                "default_index": 1,
                "per_sample_weights": [1, 2, 10, 3],
            },
            {"output": [[5, 10], [3, 4], [35, 46]]},
            {"segment_ids_order": "any"},
        ),
        Example(
            "an empty segment without a default is zero",
            _EXAMPLE_TYPES,
            {"emb_table": _TABLE, "indices": [0, 2], "segment_ids": [0, 2], "num_segments": 4},
            {"output": [[-0.2, -0.6], [0, 0], [-1.9, -1.8], [0, 0]]},
        ),
    ),
)

EMBEDDING_SEGMENTS_MEAN = Op(
    name="EmbeddingSegmentsMean",
    summary="Looks up rows of a table and averages them by segment, weighted or not.",
    semantics="`output[s] = Σ w[k] * emb_table[indices[k]] / Σ w[k]` over k with `segment_ids[k] = s`; "
    "0 where the divisor is 0.\n\n" + _COMMON_SEMANTICS,
    source="tf.raw_ops.SparseSegmentMean; tf.nn.embedding_lookup_sparse with combiner mean",
    inputs=_INPUTS,
    outputs=(_OUTPUT,),
    types={"T": FLOATS, "I": INDEX},
    attributes=(_ORDER,),
    body=_mean_body,
    body_notes="Materialises the looked-up rows [K, ...]; sums may be rounded in another order.",
    examples=(
        Example(
            "weighted",
            _EXAMPLE_TYPES,
            {
                "emb_table": [[1, 2], [3, 4]],
                "indices": [0, 1, 1],
                "segment_ids": [0, 0, 2],
                "num_segments": 3,
                "default_index": -1,
                "per_sample_weights": [1, 3, 0],
            },
            {"output": [[2.5, 3.5], [0, 0], [0, 0]]},
        ),
    ),
)

EMBEDDING_SEGMENTS_SQRT_N = Op(
    name="EmbeddingSegmentsSqrtN",
    summary="Looks up rows of a table and sums them by segment, divided by the root of the sum of squared weights.",
    semantics="`output[s] = Σ w[k] * emb_table[indices[k]] / √(Σ w[k]²)` over k with `segment_ids[k] = s`; "
    "0 where the divisor is 0.\n\n" + _COMMON_SEMANTICS,
    source="tf.raw_ops.SparseSegmentSqrtN; tf.nn.embedding_lookup_sparse with combiner sqrtn",
    inputs=_INPUTS,
    outputs=(_OUTPUT,),
    types={"T": FLOATS, "I": INDEX},
    attributes=(_ORDER,),
    body=_sqrt_n_body,
    body_notes="Materialises the looked-up rows [K, ...]; sums may be rounded in another order.",
    examples=(
        Example(
            "four rows are divided by two",
            _EXAMPLE_TYPES,
            {"emb_table": [[1], [2]], "indices": [0, 1, 1, 0], "segment_ids": [0, 0, 0, 0], "num_segments": 1},
            {"output": [[3]]},
        ),
    ),
)

FAMILY = Family(
    "embedding",
    (EMBEDDING_SEGMENTS_SUM, EMBEDDING_SEGMENTS_MEAN, EMBEDDING_SEGMENTS_SQRT_N),
    origin="OpenVINO EmbeddingSegmentsSum-3, `tf.sparse.segment_sum`, `segment_mean`, `segment_sqrt_n`",
)
