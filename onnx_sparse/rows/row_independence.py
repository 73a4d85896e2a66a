"""Whether the answers of a row depend on the other rows of its batch: found by running rows together and each alone.

Where they do, as with a mean over the width of the longest row, an answer would depend on how rows are split into
batches, and on who else asks a server.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from onnx_sparse.rows.columns import Array, Rows
from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature

if TYPE_CHECKING:
    import onnxruntime as ort

#: How near the answers of a row must be, alone and among others: matrix products round differently.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
#: How many values the rows have that are generated: of several lengths, then some of none.
_LENGTHS = ((3, 1, 5, 2, 4), (2, 0, 4, 1, 0))
#: The size of dimensions that the model leaves open, and what ids are below where it does not say so.
_OPEN, _FEW = 2, 3


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
    tried = False
    for lengths in _LENGTHS:
        columns = _columns(known, lengths)
        if columns is None:
            break
        rows = [
            {name: _row(known[name], column, row) for name, column in columns.items()} for row in range(len(lengths))
        ]
        took, reason = compare(session, known, columns, rows, outputs)
        tried = tried or took
        if reason is not None:
            return tried, reason
    return tried, None


def compare(
    session: ort.InferenceSession,
    known: Features,
    together: Mapping[str, Any],
    alone: Sequence[Mapping[str, Any]],
    outputs: Sequence[str] | None = None,
) -> tuple[bool, str | None]:
    """Run rows together and each alone.

    Args:
        session: A session of the model.
        known: The model's features.
        together: The columns of the rows.
        alone: The columns of each row.
        outputs: The outputs that are compared, of which those that are not of rows are passed over; all when omitted.

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
        if not all(_near(part, row) for row, part in zip(joined, own, strict=True)):
            return True, f"the rows of output {name!r} change with the other rows of a batch"
    return True, None


_reasons: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()


def reason_against_joining(session: ort.InferenceSession, known: Features) -> str | None:
    """What is against joining the requests of a session, tried once; the first time, a reason is also a warning."""
    if session not in _reasons:
        _reasons[session] = reason = try_rows(session, known)[1]
        if reason is not None:
            warnings.warn(f"{reason}: requests are not joined", stacklevel=3)
    return _reasons[session]


def _near(part: Array, row: Array) -> bool:
    if np.shape(part[0]) != np.shape(row):
        return False
    if part.dtype.kind in "fV":
        wide = part[0].astype(np.float64), row.astype(np.float64)
        return bool(np.allclose(*wide, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True))
    return bool(np.array_equal(part[0], row))


def _columns(known: Features, lengths: Sequence[int]) -> dict[str, Any] | None:
    """Columns of rows with so many values; None where no rows can be generated for a feature."""
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for name, feature in known.items():
        if feature.kind == "example":
            return None
        held = known.inputs[feature.inputs["values"]]
        if feature.kind == "dense":
            shape = (None, 1) if held.shape is None else held.shape
            if shape and shape[0] is not None:
                return None
            columns[name] = _values(random, feature, held, [len(lengths), *shape[1:]] if shape else [])
            continue
        widths = list(lengths)
        if feature.kind == "sparse" and feature.shape is not None:
            if len(feature.shape) != 2:
                return None
            widths = [min(width, feature.shape[1] or width) for width in widths]
        levels = [np.array(widths)]
        for _ in range(len(feature.row_splits) - 1):  # lists of rows have values of their own
            levels.append(random.integers(0, _FEW, int(levels[-1].sum())))
        count = int(levels[-1].sum())
        columns[name] = Rows(_values(random, feature, held, [count, *(held.shape or (None,))[1:]]), tuple(levels))
    return columns


def _values(random: np.random.Generator, feature: Feature, held: InputType, shape: Sequence[int | None]) -> Array:
    sizes = [_OPEN if size is None else size for size in shape]
    dtype = numpy_dtype(held.dtype)
    if dtype.kind == "O":
        return np.array(random.choice(["a", "b", "cd"], sizes), object)
    if dtype.kind in "fV":
        return np.asarray(random.standard_normal(sizes).astype(dtype))
    below = 2 if dtype.kind == "b" else min(_FEW, feature.vocabulary_size or _FEW)
    return np.asarray(random.integers(0, below, sizes)).astype(dtype)


def _row(feature: Feature, column: Any, row: int) -> Any:
    """One row of a column."""
    if not isinstance(column, Rows):
        return column[row : row + 1] if column.ndim else column
    begin, end = row, row + 1
    levels = []
    for lengths in column.lengths:
        levels.append(lengths[begin:end])
        begin, end = int(lengths[:begin].sum()), int(lengths[:end].sum())
    return Rows(column.values[begin:end], tuple(levels))
