"""What `convert` reports about a verification: how far apart the answers of two models are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from onnx_sparse.converters.verification.comparison import Record


class Verified(TypedDict):
    """The verification of one output, as a part of `--json`'s document."""

    output: str
    dtype: str
    shape: list[int]
    max_abs: float | None
    max_rel: float | None
    tolerance: float | None
    explained: int
    ok: bool
    verdict: str
    batches_with_rows: int
    most_rows: int
    status: str
    note: str
    worst: str
    where: str


def document(record: Record) -> Verified:
    """The verification of one output for machines."""
    return {
        "output": record.output,
        "dtype": record.dtype,
        "shape": [int(size) for size in record.shape],
        "max_abs": record.max_abs,
        "max_rel": record.max_rel,
        "tolerance": record.tolerance,
        "explained": record.explained,
        "ok": record.ok,
        "verdict": record.verdict.value,
        "batches_with_rows": record.batches,
        "most_rows": record.most_rows,
        "status": record.status,
        "note": record.note,
        "worst": record.worst,
        "where": record.where,
    }


def failure(records: Sequence[Record], *, given: bool) -> str | None:
    """Why no model is written, in one line; None if every output was compared and equal.

    Args:
        records: What the converter says about each output.
        given: Whether the inputs were the user's.
    """
    failed = {record.verdict.value: record for record in reversed(records) if not record.ok}
    if record := failed.get("differs"):
        return f"verification fails, no model is written: {record.output}: {record.note or 'values differ'}"
    way_out = "" if given else "; give inputs of your own with --verify-with (--write-inputs makes some)"
    if record := failed.get("refused"):
        inputs = "the given" if given else "all generated"
        return f"{inputs} inputs are refused, so nothing was compared and no model is written{way_out}: {record.note}"
    if record := failed.get("not compared"):
        return f"nothing was compared, and no model is written{way_out}: {record.output}: {record.note}"
    if record := failed.get("random"):
        return f"no model is written; convert without verification: {record.output}: {record.note}"
    return None


def distance(value: float | None) -> str:
    """A distance with two digits."""
    return "-" if value is None else "0" if value == 0 else f"{value:.2g}"
