"""What a model costs a server, and what requests for it are bounded by: measured and computed before it is served."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from onnx_sparse.models.files.model_files import read_model
from onnx_sparse.models.tables.constant_keys import checking_indexes
from onnx_sparse.rows.row_independence import reason_against_joining
from onnx_sparse.rows.sample_rows import Draws
from onnx_sparse.serving.served_model import LoadedModel, one_line
from onnx_sparse.serving.server import opened
from onnx_sparse.serving.settings import Settings
from onnx_sparse.serving.watched_files import look

#: The rows of runs that are timed, the values of each, and how often they run.
_ROWS, _VALUES, _TIMES = (1, 64), 3, 5


def costs(settings: Settings) -> dict[str, Any]:
    """What is bounded for the server, and what each model costs.

    Args:
        settings: How the models are to be served.

    Returns:
        `bounds`: by name. `models`: by name; their files' bytes, whether requests are joined and else why not, and the
        milliseconds of a run by number of rows, of generated rows; no number where the model takes none of them.

    Raises:
        StartError: A model cannot be opened, or an index of its keyed tables is damaged.
    """
    limits = settings.limits
    bounds = {
        "bytes of a request": settings.most_bytes,
        "waiting requests of a model": limits.waiting_requests,
        "requests of a run": limits.batch_requests,
        "seconds of a run": limits.run_seconds,
    }
    with checking_indexes():
        served = opened(settings)
    models = {}
    for name, model in served.items():
        loaded = model.loaded
        states = look(model.path).states
        reason = reason_against_joining(loaded.timed, loaded.features)
        models[name] = {
            "bytes": sum(state[2] for _, state in states if state is not None),
            "joined": reason is None,
            "reason": reason and one_line(reason),
            "milliseconds": {rows: found for rows in _ROWS if (found := _milliseconds(loaded, model.path, rows))},
        }
    return {"bounds": bounds, "models": models}


def _milliseconds(loaded: LoadedModel, path: Any, rows: int) -> float | None:
    """The median time of a run with generated rows."""
    draws = Draws.of(loaded.features, read_model(path))
    for texts in draws.texts():
        columns = draws.columns([_VALUES] * rows, texts)
        if columns is None:
            return None
        try:
            feeds = loaded.features.feeds(columns)
            times = []
            for _ in range(_TIMES):
                begun = time.perf_counter()
                loaded.session.run(None, feeds)
                times.append(time.perf_counter() - begun)
        except Exception:  # texts that it does not take; ONNX Runtime's errors have no common class
            continue
        return round(float(np.median(times)) * 1000, 3)
    return None
