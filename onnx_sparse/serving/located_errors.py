"""Which row and feature of a request a model refuses: kernels see the inputs of a run, and clients have sent rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from time import perf_counter

import numpy as np

from onnx_sparse.batching import rows_between
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.model_features import Features
from onnx_sparse.schemas.features import Feature
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.serving.deadlines import TimedSession, is_ended
from onnx_sparse.sessions.ort_errors import ort_message

#: The bytes of the largest request whose rows are run again: a bad request costs at most some of its runs more.
_MOST_BYTES = 1 << 20


def located(
    session: TimedSession,
    feeds: Mapping[str, Array],
    known: Features,
    error: Exception,
    end: float = math.inf,
    first: int | None = None,
) -> str:
    """The message of a run's error, with the row and the feature that are at fault, as far as they are found.

    Halves of the rows are run again until one row is left, and that without the values of each feature.

    Args:
        session: What has raised the error.
        feeds: The inputs of the run.
        known: The features of the model.
        error: The error.
        end: When nothing is run again any more, as `time.perf_counter` counts.
        first: The first of the rows, if they are a part of those of a request.
    """
    text = _text(error) if first is None else f"in the rows from {first} on: {_text(error)}"
    if sum(array.nbytes for array in feeds.values()) > _MOST_BYTES:
        return text
    try:
        return _found(session, feeds, known, end, first or 0) or text
    except (ValueError, IndexError, TypeError, TimeoutError):  # the inputs do not fit together, and are no rows
        return text


def _found(session: TimedSession, feeds: Mapping[str, Array], known: Features, end: float, first: int) -> str:
    counts = known.counts(feeds)
    rows = {*counts.values()}
    if len(counts) < len(known) or len(rows) != 1:
        return ""

    def refusal(made: Mapping[str, Array]) -> Exception | None:
        if perf_counter() > end:
            raise TimeoutError
        try:
            session.run(None, made)
        except Exception as found:  # ONNX Runtime's have no common class
            return found
        return None

    low, high = 0, rows.pop()  # the first `low` rows are taken, the first `high` are not
    if not high or refusal(rows_between(feeds, known, 0, 0)) is not None:  # then no row is at fault
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        is_taken = refusal(rows_between(feeds, known, 0, middle)) is None
        low, high = (middle, high) if is_taken else (low, middle)
    row = rows_between(feeds, known, low, high)
    alone = refusal(row)
    if alone is None or is_ended(alone):
        return ""
    at_fault = [name for name in known if len(known) == 1 or refusal(_without_values(row, known[name])) is None]
    feature = f"feature {at_fault[0]!r}, " if len(at_fault) == 1 else ""
    return f"{feature}row {first + low}: {_text(alone)}"


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, (ValueError, KernelError)) else ort_message(error)


def _without_values(row: Mapping[str, Array], feature: Feature) -> dict[str, Array]:
    """One row without the values of a feature: none, or zeros in a dense one."""
    found = dict(row)
    for role, name in feature.inputs.items():
        array = row[name]
        if feature.kind == "dense":
            found[name] = np.full_like(array, "" if array.dtype.kind == "O" else 0)
        elif role in ("values", "indices"):
            found[name] = array[:0]
        elif feature.kind == "ragged":
            found[name] = np.zeros_like(array)
    return found
