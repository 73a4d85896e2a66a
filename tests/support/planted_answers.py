"""Faults in the answers of right models, which verification must find on the batches that it makes itself.

A fault changes each answer of a model in one way: rows reversed, a column scaled, an integer off by one. It is visible
if an answer to a batch, be it one of verification or one that was written by hand, changes by more than the rounding
noise that was measured there. A fault that is visible and not found is a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from onnx_sparse.comparison import is_float
from onnx_sparse.converters.verification import verify as verification
from onnx_sparse.converters.verification.batches import Attempt, compare_batches
from onnx_sparse.converters.verification.rounding_noise import RoundingNoise

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Sequence[Array]]

#: What a change must be to be visible, as a part of the value; smaller ones are allowed.
_VISIBLE = 1e-3


def _reversed(value: Array) -> Array:
    return value[::-1] if value.ndim else value


def _changed_element(value: Array) -> Array:
    if not is_float(value) or not value.size:
        return value
    changed = value.copy()
    size = np.abs(value.astype(np.float64)).ravel()
    typical = np.median(size[size > 0]) if (size > 0).any() else 0
    changed.reshape(-1)[np.argmin(np.abs(size - typical))] *= np.asarray(1.5, value.dtype)
    return changed


def _scaled_column(value: Array) -> Array:
    if not is_float(value) or value.ndim < 2 or not value.shape[-1]:
        return value
    changed = value.copy()
    changed[..., -1] = changed[..., -1] * np.asarray(1.25, value.dtype)
    return changed


def _one_of_several(value: Array) -> Array:
    """One row, or segment, has what the one before it has."""
    if not value.ndim or len(value) < 2:
        return value
    changed = value.copy()
    changed[len(value) // 2] = changed[len(value) // 2 - 1]
    return changed


def _nan(value: Array) -> Array:
    if not is_float(value) or not value.size:
        return value
    changed = value.copy()
    changed.reshape(-1)[value.size // 2] = np.nan
    return changed


def _off_by_one(value: Array) -> Array:
    if value.dtype.kind not in "iub" or not value.size:
        return value
    changed = value.copy()
    flat = changed.reshape(-1)
    flat[-1] = not flat[-1] if value.dtype.kind == "b" else flat[-1] + np.asarray(1, value.dtype)
    return changed


def _other_text(value: Array) -> Array:
    if value.dtype != object or not value.size:
        return value
    changed = value.copy()
    changed.reshape(-1)[-1] = f"{changed.reshape(-1)[-1]}x"
    return changed


#: What is planted, by kind. For "a number for NaN", the NaN is planted in what the source answers.
KINDS: dict[str, Callable[[Array], Array]] = {
    "rows reversed": _reversed,
    "rows of another batch": lambda value: value,
    "one element": _changed_element,
    "a scaled column": _scaled_column,
    "a thousandth": lambda value: value * np.asarray(1e-3, value.dtype) if is_float(value) else value,
    "zeros for tiny numbers": lambda value: value * np.asarray(0, value.dtype) if is_float(value) else value,
    "one segment of several": _one_of_several,
    "NaN for a number": _nan,
    "a number for NaN": _nan,
    "another shape": lambda value: value[..., None],
    "last row missing": lambda value: value[:-1] if value.ndim else value,
    "an integer off by one": _off_by_one,
    "another text": _other_text,
}

#: What makes outputs tiny.
_TINY = 1e-9


class _OtherBatch:
    """The answer to the batch before, as far as it has rows of the same shape."""

    def __init__(self) -> None:
        self._before: dict[int, Array] = {}

    def __call__(self, answers: Sequence[Array]) -> list[Array]:
        made = []
        for k, value in enumerate(answers):
            before = self._before.get(k)
            changed = value
            if before is not None and value.ndim and len(before) and before.shape[1:] == value.shape[1:]:
                changed = before[np.arange(len(value)) % len(before)]
            if value.ndim and len(value):
                self._before[k] = value
            made.append(changed)
        return made


def _plant(kind: str, run: Run) -> Run:
    if kind == "rows of another batch":
        other = _OtherBatch()
        return lambda feeds: other(run(feeds))
    return lambda feeds: [KINDS[kind](np.asarray(value)) for value in run(feeds)]


def _scaled(run: Run, by: float) -> Run:
    def scaled(feeds: Mapping[str, Array]) -> list[Array]:
        return [value * np.asarray(by, value.dtype) if is_float(value) else value for value in run(feeds)]

    return scaled


def examine(right: Any, run_right: Run) -> Iterator[tuple[str, str]]:
    """What became of the faults in the answers of a right model: "found", "missed" or "no fault", and their kinds.

    A right model that is not called equal is a "false alarm", and gets no faults.

    Args:
        right: The model.
        run_right: Runs it on inputs by name.
    """
    outcomes: list[tuple[str, str]] = []

    def planting(attempts: Sequence[Attempt], outputs: Mapping[str, str], run: Run, **how: Any) -> Any:
        known: dict[int, Sequence[Array]] = {}

        def answers(feeds: Mapping[str, Array]) -> Sequence[Array]:
            if id(feeds) not in known:
                known[id(feeds)] = run(feeds)
            return known[id(feeds)]

        records = compare_batches(attempts, outputs, answers, **how)
        if all(record.ok for record in records):
            outcomes.extend(_planted(right, run_right, attempts, outputs, answers, how))
        return records

    with mock.patch.object(verification, "compare_batches", planting):
        failed = [record for record in right.verify(right.model) if not record.ok]
    if failed:
        yield "false alarm", f"{failed[0].output} {failed[0].verdict}: {failed[0].note[:200]}"
    yield from outcomes


def _planted(
    right: Any,
    run_right: Run,
    attempts: Sequence[Attempt],
    outputs: Mapping[str, str],
    answers: Run,
    how: Mapping[str, Any],
) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        noise: RoundingNoise = how["noise"]
        tried, right_answers, source = attempts, answers, noise.source
        if kind == "zeros for tiny numbers":
            source, right_answers = _scaled(noise.source, _TINY), _scaled(answers, _TINY)
            tried = [replace(each, outputs=_scaled(lambda _, e=each: e.outputs, _TINY)({})) for each in attempts]

        elif kind == "a number for NaN":
            tried = [replace(each, outputs=[*map(_nan, each.outputs)]) for each in attempts]

        def wrong(run: Run, kind: str = kind) -> Run:
            if kind == "a number for NaN":
                return run
            return _plant(kind, _scaled(run, _TINY) if kind == "zeros for tiny numbers" else run)

        planted = RoundingNoise(
            source,
            wrong(noise.model),
            lambda noise=noise, wrong=wrong: [wrong(run) for run in noise.others],
            kept=noise.kept,
            computed=noise.computed,
        )
        records = compare_batches(tried, outputs, wrong(answers), **{**how, "noise": planted})
        if any(not record.ok for record in records):
            yield "found", kind
        elif _is_visible(kind, right_answers, [each.batch.feeds for each in attempts if each.refusal is None]):
            yield "missed", kind
        elif _is_visible(kind, run_right, right.batches):
            yield "missed", f"{kind} (on inputs written by hand)"
        else:
            yield "no fault", kind


def _is_visible(kind: str, run: Run, batches: Sequence[Mapping[str, Array]]) -> bool:
    """Whether a fault changes an answer by more than rounding."""
    wrong = _plant(kind, run)
    for feeds in batches:
        try:
            right_answers, wrong_answers = run(feeds), wrong(feeds)
        except Exception:  # the model refuses it: no legal batch
            continue
        if any(_apart(one, other) for one, other in zip(right_answers, wrong_answers, strict=True)):
            return True
    return False


def _apart(one: Array, other: Array) -> bool:
    if one.shape != other.shape or not is_float(one):
        return not np.array_equal(one, other)
    wide, changed = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isnan(wide), np.isnan(changed)):
        return True
    finite = np.isfinite(wide)
    size = np.abs(wide[finite])
    least = _VISIBLE * np.maximum(size, size.mean() if size.size else 0)
    return bool((np.abs(wide[finite] - changed[finite]) > least).any())
