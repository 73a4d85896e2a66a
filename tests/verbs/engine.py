"""Draws the operands of a verb, converts it on a road, runs it in ONNX Runtime and compares it with its meaning."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from onnx import ModelProto

import onnx_sparse
from onnx_sparse.converters.errors import ConversionError
from verbs import declared
from verbs.declaration import Case, OutOfRangeError, Verb
from verbs.roads import ROADS, Array, Source


@dataclass
class Report:
    """What became of draws.

    Attributes:
        counts: How many were equal, refused, or wrong.
        wrong: What is wrong: the verb, the road, the operands and both answers.
        refused: Why draws were refused, by verb and road.
        hashes: The digest of each converted model, by verb, road and seed.
    """

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    hashes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Draw:
    case: Case
    source: Source
    expected: list[Array]
    is_error: bool


def examine(name: str, road: str, seed: int, report: Report) -> None:
    """Draw a verb for each element type, and convert all draws in one model."""
    verb = declared()[name]
    draws = _drawn(verb, road, seed)
    waiting = {key: draw for key, draw in draws.items() if not draw.is_error}
    model = _converted(verb, road, waiting, report)
    if model is not None:
        report.hashes[f"{name} {road} {seed}"] = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
        feeds = [array for draw in waiting.values() for array in draw.source.fed()]
        try:
            answers = iter(_run(model, feeds))
            for draw in waiting.values():
                _compare(verb, road, draw, [next(answers) for _ in draw.expected], report)
        except Exception as error:  # one of them: each by itself
            if len(waiting) == 1:
                _say_wrong(verb, road, *waiting.values(), " ".join(str(error).split())[:200], report)
            else:
                for key, draw in waiting.items():
                    _alone(verb, road, key, draw, report)
    for key, draw in draws.items():
        if draw.is_error:
            _alone(verb, road, key, draw, report)


def _drawn(verb: Verb, road: str, seed: int) -> dict[str, _Draw]:
    form, found = verb.roads[road], {}
    for dtype in verb.dtypes:
        if form.dtypes is not None and dtype not in form.dtypes:
            continue
        rng = np.random.default_rng([seed, zlib.crc32(f"{verb.name} {dtype.name}".encode())])
        case, is_error = verb.draw(rng, dtype), False
        try:
            expected = verb.results(road, case)
        except OutOfRangeError as error:
            expected, is_error = [np.asarray(each) for each in error.args[0]], True
        source = form.write(case, expected)
        if source is not None:
            found[f"{verb.name}_{dtype.name}"] = _Draw(case, source, expected, is_error)
    return found


def _converted(verb: Verb, road: str, waiting: dict[str, _Draw], report: Report) -> ModelProto | None:
    """The model of the draws; those that are refused leave."""
    while waiting:
        try:
            return ROADS[road]({key: draw.source for key, draw in waiting.items()})
        except ConversionError as error:
            reasons = {node.node.partition("/")[0]: node.reason for node in error.unsupported}
            named = [key for key in waiting if key in reasons] or ([*waiting] if len(waiting) == 1 else [])
            for key in named:
                waiting.pop(key)
                report.counts["refused"] += 1
                reason = " ".join(reasons.get(key, str(error)).split())[:160]
                report.refused[f"{road} {key}: {reason}"] += 1
            if not named:
                _keep_convertible(verb, road, waiting, report)
        except Exception as error:  # not the error that a user is told: of one of them
            if len(waiting) == 1:
                what = f"the conversion raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                _say_wrong(verb, road, *waiting.values(), what, report)
                return None
            _keep_convertible(verb, road, waiting, report)
    return None


def _keep_convertible(verb: Verb, road: str, waiting: dict[str, _Draw], report: Report) -> None:
    """Drop the draws that are not converted by themselves; one error of a graph names none of them."""
    for key in [*waiting]:
        if _converted(verb, road, {key: waiting[key]}, report) is None:
            waiting.pop(key)


def _alone(verb: Verb, road: str, key: str, draw: _Draw, report: Report) -> None:
    model = _converted(verb, road, {key: draw}, report)
    if model is None:
        return
    try:
        got = _run(model, draw.source.fed())
    except Exception as error:
        if draw.is_error:
            report.counts["equal"] += 1
        else:
            _say_wrong(verb, road, draw, " ".join(str(error).split())[:200], report)
        return
    if draw.is_error:
        _say_wrong(verb, road, draw, f"{[each.tolist() for each in got]}, where an error was expected", report)
    else:
        _compare(verb, road, draw, got, report)


def _run(model: ModelProto, feeds: list[Array]) -> list[Array]:
    options = onnx_sparse.session_options()
    options.log_severity_level = 4
    session = onnx_sparse.InferenceSession(model, options)
    names = [value.name for value in session.get_inputs()]
    return [np.asarray(each) for each in session.run(None, dict(zip(names, feeds, strict=True)))]


def _compare(verb: Verb, road: str, draw: _Draw, got: list[Array], report: Report) -> None:
    for want, have in zip(draw.expected, got, strict=True):
        if (have.dtype, have.shape) != (want.dtype, want.shape):
            _say_wrong(verb, road, draw, f"{have.dtype}{list(have.shape)}, not {want.dtype}{list(want.shape)}", report)
            return
        bad = ~near(have, want, verb, road)
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            count = f"{int(bad.sum())} of {bad.size}"
            operands = [each[at] for each in draw.case.operands if each.shape == want.shape] or [
                each.tolist() for each in draw.case.operands
            ]
            text = f"{count} differ, the first at {list(at)}: {have[at]!r}, not {want[at]!r}, of {operands!r}"
            _say_wrong(verb, road, draw, text, report)
            return
    report.counts["equal"] += 1


def near(have: Array, want: Array, verb: Verb, road: str) -> Array:
    """Where two arrays of one type are equal, and NaN as NaN; floats to some units in the last place.

    Half floats are computed in float32 and rounded once, OpenVINO computes doubles in float32.
    """
    if want.dtype.kind in "biu":
        return np.asarray(have == want)
    info = ml_dtypes.finfo(want.dtype)
    coarse, fine = float(info.eps), np.finfo(np.float64 if want.dtype == np.float64 else np.float32).eps
    if road == "openvino":
        coarse, fine = max(coarse, np.finfo(np.float32).eps), np.finfo(np.float32).eps
    least, most = float(info.smallest_normal), float(info.max)
    a, b = have.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= verb.digits * (coarse * np.abs(b) + fine * verb.near + least)
        # At the end of the type, rounding decides between the largest number and infinity.
        ends = np.minimum(np.abs(a), np.abs(b)) >= most * (1 - verb.digits * coarse)
    return np.asarray(close | (a == b) | (np.isnan(a) & np.isnan(b)) | (ends & (np.sign(a) == np.sign(b))))


def _say_wrong(verb: Verb, road: str, draw: _Draw, what: str, report: Report) -> None:
    report.counts["wrong"] += 1
    types = "/".join(each.dtype.name for each in draw.case.operands)
    report.wrong.append(f"{verb.name} on {road} of {types} {dict(draw.case.attributes)}: {what}"[:700])


def pairs(chosen: str = "") -> list[tuple[str, str]]:
    """The verbs and roads whose names have a part in common."""
    found = [(name, road) for name, verb in sorted(declared().items()) for road in verb.roads]
    return [(name, road) for name, road in found if chosen in f"{name}-{road}"]


def run(chosen: str, first: int, count: int) -> Report:
    """Draws of the chosen verbs on all of their roads, from a seed on."""
    report = Report()
    for seed in range(first, first + count):
        for name, road in pairs(chosen):
            examine(name, road, seed, report)
    return report
