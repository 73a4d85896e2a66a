"""Whether the answers of a row depend on the other rows of its batch: found by running rows together and each alone.

Where they do, as with a mean over the width of the longest row, an answer would depend on how rows are split into
batches, and on who else asks a server.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import onnx
from onnx import ModelProto

from onnx_sparse.comparison import difference, is_float, magnitude_of, noise_of_order
from onnx_sparse.models.graphs import half_floats
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.model_features import Features
from onnx_sparse.rows.sample_rows import Draws, row_of

if TYPE_CHECKING:
    import onnxruntime as ort

#: The rows that are generated: how many values they have, of several lengths and then some of none, and the magnitude
#: of their floats.
_TRIES = (((3, 1, 5, 2, 4), 1.0), ((2, 0, 4, 1, 0), 1e3), ((3, 1, 5, 2, 4), 1e-3))

#: Why rows are not joined that could not be tried.
UNTRIED = "the model refused the inputs that were generated to see whether the rows of a batch are independent"


def try_rows(
    session: ort.InferenceSession, known: Features, outputs: Sequence[str] | None = None
) -> tuple[bool, str | None]:
    """Run generated rows together and each alone.

    Args:
        session: A session of the model.
        known: The model's features.
        outputs: The outputs that are compared, of which those that are not of rows are passed over; all when omitted.

    Returns:
        Whether the model took any, and what is against joining rows.
    """
    model = _model_of(session)
    draws = Draws.of(known, model)
    computed = set() if model is None else half_floats(model)
    for texts in draws.texts():
        tried = False
        for lengths, scale in _TRIES:
            columns = draws.columns(lengths, texts, scale)
            if columns is None:
                return False, None
            rows = [
                {name: row_of(known[name], column, row) for name, column in columns.items()}
                for row in range(len(lengths))
            ]
            took, reason = compare(session, known, columns, rows, outputs, computed)
            tried = tried or took
            if reason is not None:
                return tried, reason
        if tried:
            return True, None
    return False, None


def _model_of(session: ort.InferenceSession) -> ModelProto | None:
    """The model of a session, without the data of its tables; None if it cannot be read."""
    path, content = getattr(session, "_model_path", None), getattr(session, "_model_bytes", None)
    try:
        return onnx.load(path, load_external_data=False) if path else onnx.load_model_from_string(content or b"")
    except Exception:  # of another format, or gone
        return None


def compare(
    session: ort.InferenceSession,
    known: Features,
    together: Mapping[str, Any],
    alone: Sequence[Mapping[str, Any]],
    outputs: Sequence[str] | None = None,
    computed: Collection[str] = (),
) -> tuple[bool, str | None]:
    """Run rows together and each alone.

    Args:
        session: A session of the model.
        known: The model's features.
        together: The columns of the rows.
        alone: The columns of each row.
        outputs: The outputs that are compared, of which those that are not of rows are passed over; all when omitted.
        computed: The half-float types that the model computes with.

    Returns:
        Whether the model took them, and what is against joining rows.
    """
    names = [value.name for value in session.get_outputs()] if outputs is None else list(outputs)
    try:
        whole = session.run(names, known.feeds(together))
        parts = [session.run(names, known.feeds(row)) for row in alone]
    except Exception:  # of ONNX Runtime or numpy: what is generated need not be what the model takes
        return False, None
    for name, joined, *own in zip(names, whole, *parts, strict=True):
        is_of_rows = isinstance(joined, np.ndarray) and joined.ndim and len(joined) == len(own)
        if outputs is not None and not is_of_rows:
            continue
        if not isinstance(joined, np.ndarray) or not joined.ndim:
            return True, f"output {name!r} has no rows"
        if len(joined) != len(own) or any(len(part) != 1 for part in own):
            return True, f"output {name!r} has {len(joined)} rows for {len(own)} rows of inputs"
        if not _near(own, joined, computed):
            return True, f"the rows of output {name!r} change with the other rows of a batch"
    return True, None


_reasons: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()


def reason_against_joining(session: ort.InferenceSession, known: Features) -> str | None:
    """What is against joining the requests of a session, tried once; the first time, a reason is also a warning."""
    if session not in _reasons:
        tried, reason = try_rows(session, known)
        _reasons[session] = reason = reason if tried else UNTRIED
        if reason is not None:
            warnings.warn(f"{reason}: requests are not joined", stacklevel=3)
    return _reasons[session]


def _near(parts: Sequence[Array], joined: Array, computed: Collection[str]) -> bool:
    """Whether rows are what they are alone, but for rounding."""
    if any(np.shape(part)[1:] != joined.shape[1:] for part in parts):
        return False
    alone = np.concatenate(parts)
    magnitude = magnitude_of([alone]) if is_float(alone) else None
    floor = noise_of_order([alone], computed)  # products of matrices add in another order for one row
    return not difference(alone, joined, computed, magnitude=magnitude, floor=floor).reason
