"""SegmentSum, SegmentMean, SegmentMax, SegmentMin, SegmentProd: reduce rows by sorted segment ids."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, DecidedSize, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import INDEX, NUMBERS
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import Rows, Segments, first, highest, last_plus_one, lowest

_DATA = Input("data", "T", "K, ...", "The rows to reduce.")
_SEGMENT_IDS = Input(
    "segment_ids",
    "I",
    "K",
    "The segment of each row: sorted, non-negative.",
    Values("sorted_segment", of="num_segments"),
)
_NUM_SEGMENTS = Input(
    "num_segments",
    "N",
    "",
    "The number of segments; -1 (the same as omitting it) means the last segment id + 1.",
    Values("size", low=-1),
    sentinel=-1,
)
_OUTPUT = Output("output", "T", "num_segments, ...", "One row per segment.")
_TYPES = {"T": NUMBERS, "I": INDEX, "N": INDEX}


def _segments(segment_ids: np.ndarray[Any, Any], num_segments: np.ndarray[Any, Any]) -> int | None:
    """How many segments sorted ids have."""
    if num_segments >= 0:
        return int(num_segments)
    if not segment_ids.size:
        return 0
    if segment_ids[0] < 0 or (segment_ids[1:] < segment_ids[:-1]).any():
        return None
    return int(segment_ids[-1]) + 1


_DECIDED = {"num_segments": DecidedSize(("segment_ids", "num_segments"), _segments)}

_COMMON_SEMANTICS = """
- `segment_ids` must be sorted in non-decreasing order and not negative; anything else is an error.
- Rows of segments at or beyond `num_segments` are dropped. Segments beyond the last id are empty.
- `num_segments` is -1 or a size; a value below -1 is an error. With no rows, -1 gives zero segments.
- float16 and bfloat16 are reduced in float32 and rounded once. The result does not depend on the number of threads.
""".strip()


def _rows(b: Body) -> tuple[Value, Segments, Value | None]:
    """The rows in the compute type, their segments, and how many of these to keep where there is one more."""
    rows, ids, inner = b.cast("data", b.compute_type("T")), b.int64("segment_ids"), b.inner("data")
    if "num_segments" not in b.given:
        return rows, Segments(b, ids, last_plus_one(b, ids), inner), None
    size = b.as_vector("num_segments")
    if "num_segments" not in b.known.constants:
        size = b.Where(b.Less(size, b.constant(0)), last_plus_one(b, ids), size)
    # Dropped rows go to an extra last segment.
    return rows, Segments(b, b.smaller(ids, size), b.Add(size, b.constant([1])), inner), size


def _body(b: Body) -> None:
    rows, segments, kept = _rows(b)
    reduction, dtype = b.op.reduction, b.compute_type("T")
    if reduction in ("max", "min"):
        worst = (lowest if reduction == "max" else highest)(b.types["T"])
        otherwise = 0 if b.attributes["fill_mode"] == "ZERO" else worst
        reduced = segments.extremum_or(reduction, otherwise, Rows.of(rows), dtype)
    else:
        reduced = segments.reduced(reduction, rows, dtype)
    b.output("output", reduced if kept is None else first(b, reduced, kept))


#: What the operators have in common.
_op = partial(
    Op, inputs=(_DATA, _SEGMENT_IDS, _NUM_SEGMENTS), outputs=(_OUTPUT,), types=_TYPES, decided=_DECIDED, body=_body
)


def _semantics(reduced: str, *corners: str) -> str:
    """What a segment is: a formula in which `...` are its rows, and what only this reduction does."""
    formula = reduced.replace("...", "data[k] for k with segment_ids[k] = s")
    return "\n".join((f"`output[s] = {formula}\n\n{_COMMON_SEMANTICS}", *corners))


SEGMENT_SUM = _op(
    name="SegmentSum",
    reduction="sum",
    summary="Sums the rows of each segment.",
    semantics=_semantics("sum(...)`.", "- An empty segment is 0. Integer sums wrap."),
    source="tf.raw_ops.SegmentSum, with OpenVINO SegmentMax-16's num_segments",
    body_notes="Float sums may be rounded in another order.",
    examples=(
        Example(
            "three rows, the middle segment empty",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT64},
            {"data": [[1, 2], [3, 4], [5, 6]], "segment_ids": [0, 0, 2], "num_segments": -1},
            {"output": [[4, 6], [0, 0], [5, 6]]},
        ),
    ),
)

SEGMENT_MEAN = _op(
    name="SegmentMean",
    reduction="mean",
    summary="Averages the rows of each segment.",
    semantics=_semantics(
        "sum(...) / count`.",
        "- An empty segment is 0. For integers the sum wraps in T and the division truncates toward zero.",
    ),
    source="tf.raw_ops.SegmentMean, with OpenVINO SegmentMax-16's num_segments",
    body_notes="Float sums may be rounded in another order.",
    examples=(
        Example(
            "integers divide toward zero",
            {"T": TensorProto.INT32, "I": TensorProto.INT32, "N": TensorProto.INT64},
            {"data": [-1, -2, 4, 3], "segment_ids": [0, 0, 1, 1], "num_segments": 3},
            {"output": [-1, 3, 0]},
        ),
    ),
)

SEGMENT_PROD = _op(
    name="SegmentProd",
    reduction="prod",
    summary="Multiplies the rows of each segment.",
    semantics=_semantics("prod(...)`.", "- An empty segment is 1. Integer products wrap."),
    source="tf.raw_ops.SegmentProd, with OpenVINO SegmentMax-16's num_segments",
    body_notes="Float products may be rounded in another order.",
    examples=(
        Example(
            "an empty segment is one",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT64, "N": TensorProto.INT64},
            {"data": [2, 3, 5], "segment_ids": [0, 0, 2], "num_segments": -1},
            {"output": [6, 1, 5]},
        ),
    ),
)

SEGMENT_MAX = _op(
    name="SegmentMax",
    reduction="max",
    summary="Takes the maximum of the rows of each segment.",
    semantics=_semantics(
        "max(...)`, element by element.",
        "- An empty segment is 0 with `fill_mode` `ZERO`, and the lowest finite value of T with `LOWEST`.",
        "- NaN propagates. The maximum of a segment of -inf is -inf.",
    ),
    source="OpenVINO SegmentMax-16; tf.raw_ops.SegmentMax is fill_mode ZERO",
    attributes=(Attribute("fill_mode", ("ZERO", "LOWEST"), "The value of an empty segment."),),
    examples=tuple(
        Example(name, types, inputs, {"output": output}, {"fill_mode": mode})
        for name, types, inputs, outputs in (
            (
                "SegmentMax-16 example 1, num_segments < max(segment_ids) + 1",
                {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT64},
                {"data": [2, 7, -1, 4, 9], "segment_ids": [0, 0, 2, 3, 3], "num_segments": 2},
                {"ZERO": [7, 0], "LOWEST": [7, lowest(TensorProto.FLOAT)]},
            ),
            (
                "SegmentMax-16 example 2, num_segments > max(segment_ids) + 1",
                {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT64},
                {"data": [2, 7, -1, 4, 9], "segment_ids": [0, 0, 2, 3, 3], "num_segments": 8},
                {
                    "ZERO": [7, 0, -1, 9, 0, 0, 0, 0],
                    "LOWEST": [7, lowest(TensorProto.FLOAT), -1, 9, *[lowest(TensorProto.FLOAT)] * 4],
                },
            ),
            (
                "SegmentMax-16 example 3, 2D input data, no num_segments",
                {"T": TensorProto.INT32, "I": TensorProto.INT64, "N": TensorProto.INT64},
                {"data": [[1, 2, 3, 4], [5, -6, 7, 8], [-9, 10, 11, 0]], "segment_ids": [0, 1, 1]},
                {"ZERO": [[1, 2, 3, 4], [5, 10, 11, 8]], "LOWEST": [[1, 2, 3, 4], [5, 10, 11, 8]]},
            ),
        )
        for mode, output in outputs.items()
    ),
)

SEGMENT_MIN = _op(
    name="SegmentMin",
    reduction="min",
    summary="Takes the minimum of the rows of each segment.",
    semantics=_semantics(
        "min(...)`, element by element.",
        "- An empty segment is 0 with `fill_mode` `ZERO`, and the highest finite value of T with `HIGHEST`.",
        "- NaN propagates. The minimum of a segment of +inf is +inf.",
    ),
    source="tf.raw_ops.SegmentMin (fill_mode ZERO), with OpenVINO SegmentMax-16's num_segments and fill_mode",
    attributes=(Attribute("fill_mode", ("ZERO", "HIGHEST"), "The value of an empty segment."),),
    examples=(
        Example(
            "an empty segment between two others",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT32, "N": TensorProto.INT64},
            {"data": [2, 7, -1], "segment_ids": [0, 0, 2], "num_segments": -1},
            {"output": [2, 0, -1]},
            {"fill_mode": "ZERO"},
        ),
    ),
)

FAMILY = Family(
    "segment",
    (SEGMENT_SUM, SEGMENT_MEAN, SEGMENT_MAX, SEGMENT_MIN, SEGMENT_PROD),
    origin="OpenVINO SegmentMax-16, `tf.math.segment_*`",
)
