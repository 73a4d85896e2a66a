"""EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN: look rows up and reduce them by segment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import FLOATS, INDEX, NUMBERS
from onnx_sparse.schemas.embedding_body import Entries, Table, all_weights, write_reduction
from onnx_sparse.schemas.function_body import Body
from onnx_sparse.schemas.segment_body import Segments, first

EMB_TABLE = Input("emb_table", "T", "V, ...", "The embedding table.")
INDICES = Input(
    "indices",
    "I",
    "K",
    "The rows to look up.",
    Values("index", of="V"),
    values_under={("negative_indices", "drop"): Values("segment", of="V")},
)
PER_SAMPLE_WEIGHTS = Input(
    "per_sample_weights",
    "T",
    "K",
    "The weight of each looked-up row; empty (the same as omitting it) means 1.",
    sentinel=(),
)


def default_index(group: str) -> Input:
    """The input that says which row fills an empty group of entries."""
    return optional_index("default_index", f"The row that fills an empty {group}", "zeros")


def optional_index(name: str, meaning: str, without: str) -> Input:
    """A row of the table, or -1."""
    description = f"{meaning}; -1 (the same as omitting it) means {without}."
    return Input(name, "I", "", description, Values("index", of="V", low=-1), sentinel=-1)


SEGMENT_IDS = Input(
    "segment_ids",
    "I",
    "K",
    "The segment of each index.",
    Values("sorted_segment", of="num_segments"),
    values_under={("segment_ids_order", "any"): Values("index", of="num_segments")},
)
NUM_SEGMENTS = Input("num_segments", "I", "", "The number of segments.", Values("size"))
_INPUTS = (EMB_TABLE, INDICES, SEGMENT_IDS, NUM_SEGMENTS, default_index("segment"), PER_SAMPLE_WEIGHTS)
_OUTPUT = Output("output", "T", "num_segments, ...", "One row per segment.")
SEGMENT_IDS_ORDER = Attribute(
    "segment_ids_order", ("sorted", "any"), "The order in which segment_ids may come.", default="sorted"
)
NEGATIVE_INDICES = Attribute(
    "negative_indices",
    ("error", "drop"),
    "What happens to entries with a negative index: an error, or they are dropped.",
    default="error",
)
SEGMENTS_ATTRIBUTES = (SEGMENT_IDS_ORDER, NEGATIVE_INDICES)

#: How sums are computed.
ARITHMETIC = """
- float16 and bfloat16 are computed in float32, including the products with weights, and rounded once.
- In the reference, Python and native kernels, unweighted float and double results are bit-identical to
  TensorFlow's SparseSegment ops on CPU: the first `n % 8` rows (8 for 0, 9 for 1) are added one by one, then blocks of
  eight, each block summed first. The result does not depend on the number of threads.
""".strip()

SEGMENTS_SEMANTICS = """
- With `segment_ids_order` = `sorted`, `segment_ids` must be sorted in non-decreasing order and not negative; anything
  else is an error. Entries of segments at or beyond `num_segments` are dropped, and their indices are not checked.
- With `segment_ids_order` = `any`, `segment_ids` may be in any order; one outside [0, `num_segments`) is an error. The
  entries of a segment are reduced in the order of their positions, as after a stable sort by segment. Entries that are
  already sorted take no longer than with `sorted`.
- With `negative_indices` = `drop`, entries with a negative index are dropped before anything else: their segment ids
  are not checked, and a mean does not count them.
- An index outside [0, V) in an entry that is not dropped is an error. So is a `default_index` outside [-1, V), even if
  it is not used, and a negative `num_segments`.
- An empty segment, or a segment whose entries are all dropped, is 0, or `emb_table[default_index]` without a weight.
""".lstrip()


def entries(b: Body, table: Table) -> Entries:
    """The entries of a lookup by segment."""
    ids, size, indices = b.int64("segment_ids"), b.as_vector("num_segments"), "indices"
    weights, conditions = all_weights(b), []
    if b.attributes["segment_ids_order"] == "sorted":
        conditions.append(b.Less(ids, size))
    if b.attributes["negative_indices"] == "drop":
        conditions.append(b.GreaterOrEqual(b.int64(indices), b.constant(0)))
    if conditions:
        kept = b.And(*conditions) if len(conditions) == 2 else conditions[0]
        ids, indices = b.Compress(ids, kept, axis=0), b.Compress(indices, kept, axis=0)
        weights = None if weights is None else b.Compress(weights, kept, axis=0)
    elif weights is not None:  # all are in use, and a scatter takes them in any order
        weights = first(b, weights, b.Shape(indices))
    segments = Segments(b, ids, size, table.inner, is_sorted=b.attributes["segment_ids_order"] == "sorted")
    return Entries(table, indices, segments, weights)


def lookup(
    prefix: str, reduction: str, *, group: str, members: str, rules: str, body: Callable[[Body], None], **others: Any
) -> Op:
    """The operator that looks rows up and makes the `sum`, `mean` or `sqrtn` of those of each group.

    Args:
        prefix: What precedes the name of the reduction in the operator's name.
        reduction: How rows become one.
        group: The letter of a group in formulas.
        members: Which positions k belong to the group.
        rules: What all reductions do (Markdown).
        body: Writes the function body.
        others: What the operator is declared with besides.
    """
    rows, is_sum = "emb_table[indices[k]]", reduction == "sum"
    if is_sum:
        formula = f"`output[{group}] = sum(per_sample_weights[k] * {rows} for k {members.replace('`', '')})`."
    else:
        divisor = {"mean": "Σ w[k]", "sqrtn": "√(Σ w[k]²)"}[reduction]
        formula = f"`output[{group}] = Σ w[k] * {rows} / {divisor}` over k {members}; 0 if the divisor is 0."
    return Op(
        name=prefix + {"sum": "Sum", "mean": "Mean", "sqrtn": "SqrtN"}[reduction],
        reduction=reduction,
        semantics=f"{formula}\n\n{rules}" + ("\n- Integer sums and products wrap." if is_sum else ""),
        types={"T": NUMBERS if is_sum else FLOATS, "I": INDEX},
        body=body,
        body_notes=("Float sums" if is_sum else "Sums") + " may be rounded in another order.",
        **others,
    )


_op = partial(
    lookup,
    "EmbeddingSegments",
    group="s",
    members="with `segment_ids[k] = s`",
    rules=SEGMENTS_SEMANTICS + ARITHMETIC,
    inputs=_INPUTS,
    outputs=(_OUTPUT,),
    attributes=SEGMENTS_ATTRIBUTES,
    body=lambda b: write_reduction(entries(b, Table(b))),
)
_EXAMPLE_TYPES = {"T": TensorProto.FLOAT, "I": TensorProto.INT32}
_TABLE = [[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]]

EMBEDDING_SEGMENTS_SUM = _op(
    "sum",
    summary="Looks up rows of a table and sums them by segment, without an intermediate tensor of the looked-up rows.",
    source="OpenVINO EmbeddingSegmentsSum-3; tf.raw_ops.SparseSegmentSum",
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
            "negative indices that are dropped",
            _EXAMPLE_TYPES,
            {
                "emb_table": [[1, 2], [3, 4], [5, 6]],
                "indices": [2, -1, -7, 0],
                "segment_ids": [0, 0, 1, 2],
                "num_segments": 3,
                "default_index": 1,
            },
            {"output": [[5, 6], [3, 4], [1, 2]]},
            {"negative_indices": "drop"},
        ),
        Example(
            "an empty segment without a default is zero",
            _EXAMPLE_TYPES,
            {"emb_table": _TABLE, "indices": [0, 2], "segment_ids": [0, 2], "num_segments": 4},
            {"output": [[-0.2, -0.6], [0, 0], [-1.9, -1.8], [0, 0]]},
        ),
    ),
)

EMBEDDING_SEGMENTS_MEAN = _op(
    "mean",
    summary="Looks up rows of a table and averages them by segment, weighted or not.",
    source="tf.raw_ops.SparseSegmentMean; tf.nn.embedding_lookup_sparse with combiner mean",
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

EMBEDDING_SEGMENTS_SQRT_N = _op(
    "sqrtn",
    summary="Looks up rows of a table and sums them by segment, divided by the root of the sum of squared weights.",
    source="tf.raw_ops.SparseSegmentSqrtN; tf.nn.embedding_lookup_sparse with combiner sqrtn",
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
