"""EmbeddingBagOffsetsSum, -Mean, -SqrtN and -Max: look rows up and reduce them by bag, given where each bag begins."""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import INDEX, NUMBERS
from onnx_sparse.schemas.embedding import (
    ARITHMETIC,
    EMB_TABLE,
    INDICES,
    NEGATIVE_INDICES,
    PER_SAMPLE_WEIGHTS,
    default_index,
    lookup,
    optional_index,
)
from onnx_sparse.schemas.embedding_body import Entries, Table, all_weights, write_reduction
from onnx_sparse.schemas.function_body import Body
from onnx_sparse.schemas.segment_body import Segments, first

OFFSETS = Input(
    "offsets",
    "I",
    "B",
    "The position in indices at which each bag begins.",
    Values("offsets", of="K"),
    values_under={("include_last_offset", "exact"): Values("row_splits", of="K")},
)
_LOOKUP = (EMB_TABLE, INDICES, OFFSETS, default_index("bag"))
PADDING_INDEX = optional_index("padding_index", "The index whose entries are dropped", "none")
_INPUTS = (*_LOOKUP, PER_SAMPLE_WEIGHTS, PADDING_INDEX)
#: The items of an output's shape that the last offset changes.
BAGS_UNDER = {("include_last_offset", choice): {"B": "B - 1"} for choice in ("true", "exact")}
_OUTPUT = Output("output", "T", "B, ...", "One row per bag.", items_under=BAGS_UNDER)
LAST_OFFSET = Attribute(
    "include_last_offset",
    ("false", "true", "exact"),
    "`true`: the last offset ends the last bag and begins no bag. `exact`: it must also be K, as in row splits.",
    default="false",
)
BAG_ATTRIBUTES = (LAST_OFFSET, NEGATIVE_INDICES)

BAGS_SEMANTICS = """
- Bag b has the entries at positions [`offsets[b]`, `offsets[b + 1]`). The last bag ends with `indices`. With
  `include_last_offset` = `true` it ends at the last offset, which begins no bag, so there are B - 1 bags. `exact` is
  the same, but the last offset must be K: offsets are row splits.
- The first offset must be 0, offsets must not decrease, and none may be greater than K; anything else is an error. An
  empty `offsets` is an error with `include_last_offset` = `true` or `exact`; with `false` there are no bags.
- Entries of no bag are dropped, and their indices are not checked: entries from the last offset on with
  `include_last_offset` = `true`, and all entries if there are no bags.
- Entries whose index is `padding_index` are dropped from their bag; a mean does not count them. So
  are entries with a negative index, if `negative_indices` = `drop`.
- An index outside [0, V) in an entry that is not dropped is an error. So are a `default_index` and a `padding_index`
  outside [-1, V), even if they are not used. Unlike in torch, a negative `padding_index` does not count from the end.
- A bag that is empty, or has padding only, is 0, or `emb_table[default_index]` without a weight.
""".lstrip()


def entries(b: Body, table: Table) -> Entries:
    """The entries of a lookup by bag."""
    offsets, indices = b.int64("offsets"), "indices"
    count, bags = b.Shape(indices), b.Shape(offsets)
    one = b.constant([1])
    # The bag of an entry is the number of offsets up to its position, less one.
    marks = b.filled(b.Add(count, one), 0)
    marks = b.ScatterElements(marks, offsets, b.filled(bags, 1), axis=0, reduction="add")
    ids = b.Sub(b.CumSum(marks, b.constant(0)), one)
    if b.attributes["include_last_offset"] != "false":
        kept, bags = b.Gather(offsets, b.constant([-1]), axis=0), b.Sub(bags, one)
    else:
        kept = b.Mul(count, b.Min(bags, one))  # without bags, no entry has one
    indices, ids, weights = first(b, indices, kept), first(b, ids, kept), all_weights(b)
    weights = None if weights is None else first(b, weights, kept)
    left_out = []
    if "padding_index" in b.given:
        left_out.append(b.Equal(indices, "padding_index"))
    if b.attributes["negative_indices"] == "drop":
        left_out.append(b.Less(b.int64(indices), b.constant(0)))
    if left_out:
        looked_up = b.Not(b.Or(*left_out) if len(left_out) == 2 else left_out[0])
        indices, ids = b.Compress(indices, looked_up, axis=0), b.Compress(ids, looked_up, axis=0)
        weights = None if weights is None else b.Compress(weights, looked_up, axis=0)
    return Entries(table, indices, Segments(b, ids, bags, table.inner), weights)


def _body(b: Body) -> None:
    write_reduction(entries(b, Table(b)))


_EXAMPLE_TYPES = {"T": TensorProto.FLOAT, "I": TensorProto.INT32}
_OPENVINO_TABLE = [[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]]
_TABLE = [[1, 2], [3, 4], [5, 6]]

_op = partial(
    lookup,
    "EmbeddingBagOffsets",
    group="b",
    members="in bag b",
    rules=BAGS_SEMANTICS + ARITHMETIC,
    inputs=_INPUTS,
    outputs=(_OUTPUT,),
    attributes=BAG_ATTRIBUTES,
    body=_body,
)

EMBEDDING_BAG_OFFSETS_SUM = _op(
    "sum",
    summary="Looks up rows of a table and sums them by bag; offsets mark where the bags begin.",
    source="torch.nn.functional.embedding_bag, mode sum; OpenVINO EmbeddingBagOffsets-15 and EmbeddingBagOffsetsSum-3",
    examples=(
        Example(
            "EmbeddingBagOffsetsSum-3 XML example",
            _EXAMPLE_TYPES,
            {
                "emb_table": _OPENVINO_TABLE,
                "indices": [0, 2, 3, 4],
                "offsets": [0, 2, 2],
                "default_index": 0,
                "per_sample_weights": [0.5, 0.5, 0.5, 0.5],
            },
            {"output": [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]]},
        ),
        Example(
            "padding and an end of the last bag",
            _EXAMPLE_TYPES,
            {
                "emb_table": _TABLE,
                "indices": [1, 0, 1, 1, 2, 0],
                "offsets": [0, 2, 4, 5],
                "default_index": -1,
                "per_sample_weights": [1, 1, 1, 1, 10, 1],
                "padding_index": 1,
            },
            {"output": [[1, 2], [0, 0], [50, 60]]},
            {"include_last_offset": "true"},
        ),
        Example(
            "row splits, and negative indices that are dropped",
            _EXAMPLE_TYPES,
            {"emb_table": _TABLE, "indices": [1, -1, 2, -7], "offsets": [0, 2, 3, 4]},
            {"output": [[3, 4], [5, 6], [0, 0]]},
            {"include_last_offset": "exact", "negative_indices": "drop"},
        ),
    ),
)

EMBEDDING_BAG_OFFSETS_MEAN = _op(
    "mean",
    summary="Looks up rows of a table and averages them by bag, weighted or not; offsets mark where the bags begin.",
    source="torch.nn.functional.embedding_bag, mode mean; OpenVINO EmbeddingBagOffsets-15, reduction mean",
    examples=(
        Example(
            "padding is not counted",
            _EXAMPLE_TYPES,
            {"emb_table": _TABLE, "indices": [0, 2, 1, 1], "offsets": [0, 3], "padding_index": 1},
            {"output": [[3, 4], [0, 0]]},
        ),
    ),
)

EMBEDDING_BAG_OFFSETS_SQRT_N = _op(
    "sqrtn",
    summary="Looks up rows of a table and sums them by bag, divided by the root of the sum of squared weights; "
    "offsets say where the bags begin.",
    source="tf.nn.embedding_lookup_sparse of a RaggedTensor, combiner sqrtn",
    examples=(
        Example(
            "four rows are divided by two",
            _EXAMPLE_TYPES,
            {"emb_table": [[1], [2]], "indices": [0, 1, 1, 0], "offsets": [0, 4]},
            {"output": [[3]]},
            {"include_last_offset": "true"},
        ),
    ),
)

EMBEDDING_BAG_OFFSETS_MAX = Op(
    name="EmbeddingBagOffsetsMax",
    reduction="max",
    summary="Looks up rows of a table and takes their maximum by bag; offsets mark where the bags begin.",
    semantics="`output[b] = max(emb_table[indices[k]] for k in bag b)`, element by element.\n\n"
    + BAGS_SEMANTICS
    + "- NaN propagates. In torch that depends on the order of the rows. The maximum of a bag of -inf is -inf.\n"
    "- The result does not depend on the number of threads.",
    source="torch.nn.functional.embedding_bag, mode max",
    inputs=(*_LOOKUP, PADDING_INDEX),
    outputs=(_OUTPUT,),
    types={"T": NUMBERS, "I": INDEX},
    attributes=BAG_ATTRIBUTES,
    body=_body,
    examples=(
        Example(
            "an empty bag is zero",
            _EXAMPLE_TYPES,
            {"emb_table": [[-1, 2], [-3, 4]], "indices": [0, 1], "offsets": [0, 0]},
            {"output": [[0, 0], [-1, 4]]},
        ),
    ),
)

FAMILY = Family(
    "embedding_bag",
    (EMBEDDING_BAG_OFFSETS_SUM, EMBEDDING_BAG_OFFSETS_MEAN, EMBEDDING_BAG_OFFSETS_SQRT_N, EMBEDDING_BAG_OFFSETS_MAX),
    origin="`torch.nn.EmbeddingBag`, OpenVINO EmbeddingBagOffsets-15",
)
