"""Runs drawn graphs optimized and not, and compares."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, printer
from onnx.reference import ReferenceEvaluator
from support.comparison import difference

from fusions.drawing import REWRITES, draw
from fusions.known import KNOWN
from onnx_sparse.converters import ConversionError, pipeline
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.converters.onnxruntime.slices import BackwardSliceFromBefore
from onnx_sparse.converters.verification.isolation import EndedError, Isolated

#: The kinds of outcomes that are wrong.
WRONG = ("differs", "not ONNX's", "ends the process", "raises")
_LEVELS = onnxruntime.GraphOptimizationLevel


def run(model: ModelProto, feeds: dict[str, Any], *, optimized: bool) -> Any:
    """The outputs, or the error."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS.ORT_ENABLE_ALL if optimized else _LEVELS.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception as error:  # ONNX Runtime's have no common class
        return error


def differs(want: Any, got: Any) -> str:
    """How the outputs of two runs differ."""
    if isinstance(got, Exception):
        return "" if isinstance(want, Exception) else f"fails: {' '.join(str(got).split())[-200:]}"
    if isinstance(want, Exception):
        return ""
    for one, other in zip(want, got, strict=True):
        loose = 5e-2 if one.dtype.itemsize == 2 and one.dtype.kind == "f" else 1e-4
        size = np.abs(one[np.isfinite(one)]).max(initial=1) if one.dtype.kind == "f" else 1
        if said := difference(one, other, loose, loose * size):
            return said
    return ""


def examine(seed: int, omitted: Collection[type[Guard]] = (), chosen: str = "") -> dict[str, str]:
    """What comes of a graph: `equal`, `refused`, `not drawn`, `guarded` where only guards make it right, or what is
    wrong.
    """
    names = [name for name in REWRITES if chosen in name]
    name = names[seed % len(names)]
    try:
        chain = draw(np.random.default_rng(seed), name)
        model = chain.model()
    except Exception as error:  # of the evaluator, for what is not legal
        return {"rewrite": name, "outcome": "not drawn", "what": f"{type(error).__name__}: {error}"}
    feeds = {value.name: chain.feeds[value.name] for value in model.graph.input}
    want = run(model, feeds, optimized=False)
    if isinstance(want, Exception):
        return {"rewrite": name, "outcome": "no kernel", "what": str(want)}
    said = {"rewrite": name, "what": f"{printer.to_text(model.graph)} {_shown(feeds)}"}
    draft = pipeline.Draft(ModelProto.FromString(model.SerializeToString()))
    try:
        converted = pipeline.run(draft, (pipeline.INFER,))
        guard(converted, omitted=[*omitted, BackwardSliceFromBefore])  # which gives Python's answer, not ONNX's
    except ConversionError as error:
        return said | {"outcome": "refused", "what": str(error)}
    if wrong := differs(want, run(converted, feeds, optimized=True)):
        return said | {"outcome": f"differs: {wrong}"}
    if differs(want, run(model, feeds, optimized=True)):
        return said | {"outcome": "guarded"}
    if any(value.dtype == np.float16 for value in chain.values.values()):
        return said | {"outcome": "equal"}  # ONNX Runtime computes halves as floats, and the evaluator does not
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, feeds)
    wrong = differs([*map(np.asarray, expected)], run(converted, feeds, optimized=True))
    return said | {"outcome": f"not ONNX's: {wrong}" if wrong else "equal"}


def _shown(feeds: dict[str, Any]) -> str:
    return str({name: f"{a.dtype}{list(a.shape)}" for name, a in feeds.items()})


def walk(seeds: Iterable[int], omitted: Collection[type[Guard]] = (), chosen: str = "") -> Iterator[dict[str, Any]]:
    """Examine graphs in a process that may end."""
    with Isolated(lambda: lambda seed: examine(seed, omitted, chosen)) as call:
        for seed in seeds:
            try:
                said: dict[str, Any] = call(seed)
            except EndedError as error:
                said = {"outcome": "ends the process", "rewrite": "", "what": str(error)}
            except Exception as error:  # of a guard: an error of ours
                said = {"outcome": f"raises: {type(error).__name__}: {error}", "rewrite": "", "what": ""}
            said["kind"] = str(said["outcome"]).partition(":")[0]
            if said["kind"] in WRONG and any(known.is_like(said) for known in KNOWN):
                said["kind"] = "known"
            yield said | {"seed": seed}
