"""Requests joined into one run of a model, and its results split again: what a server does that batches.

Servers that stack inputs along their first dimension cannot join the coordinates of sparse tensors, which count rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.model_features import Features, Model, features
from onnx_sparse.rows.row_independence import reason_against_joining
from onnx_sparse.schemas.features import Feature, splits_role

if TYPE_CHECKING:
    import onnxruntime as ort


def run_joined(
    session: ort.InferenceSession, requests: Sequence[Mapping[str, Array]], known: Features | None = None
) -> list[list[Array] | Exception]:
    """Answer several requests by one run.

    Where that fails, each is run by itself: a bad request has no part in the answers of the others. So is each where
    the answers of a row depend on the other rows of a batch, which is tried, once for a session, with generated rows;
    then there is a warning.

    Args:
        session: A session of a model.
        requests: The inputs of each.
        known: The model's features, if it does not record them.

    Returns:
        The results of each request, or the error of its own run.
    """
    if len(requests) > 1:
        try:
            known = features(session) if known is None else known
            if reason_against_joining(session, known) is not None:
                return [_alone(session, request) for request in requests]
            feeds, rows = join(requests, known)
            return [*split(session.run(None, feeds), rows)]
        except Exception:  # ONNX Runtime's have no common class; the runs below tell whose fault it is
            pass
    return [_alone(session, request) for request in requests]


def _alone(session: ort.InferenceSession, request: Mapping[str, Array]) -> list[Array] | Exception:
    try:
        return list(session.run(None, dict(request)))
    except Exception as error:  # as above
        return error


def join(requests: Sequence[Mapping[str, Array]], model: Model | Features) -> tuple[dict[str, Array], list[int]]:
    """The inputs of one run on the rows of several requests.

        requests = [onnx_sparse.features(session).feeds({"items": items}) for items in ([[0], [1, 2]], [[]])]
        feeds, rows = onnx_sparse.batching.join(requests, session)

    Args:
        requests: The inputs of each; at least one.
        model: A model or session that records its features, or what `onnx_sparse.features` returned.

    Returns:
        The inputs, and the number of rows of each request, for `split`.

    Raises:
        ValueError: There is no request. A request lacks an input, has features of different numbers of rows, or counts
            rows or values that it does not have and would get from another request. Inputs of two requests do not fit
            together, because their element types differ for example.
    """
    known = model if isinstance(model, Features) else features(model)
    if not requests:
        raise ValueError("there are no requests to join")
    for number, request in enumerate(requests):
        if missing := [name for name in known.inputs if name not in request]:
            raise ValueError(f"request {number} lacks the input {missing[0]!r}")
    feeds: dict[str, Array] = {}
    counts: dict[str, list[int]] = {}
    for name, feature in known.items():
        parts = {role: [np.asarray(request[i]) for request in requests] for role, i in feature.inputs.items()}
        try:
            joined, counts[name] = _joined(feature, parts)
            for role, arrays in parts.items():
                _check_types(role, arrays)
        except _RequestError as error:
            raise ValueError(f"request {error.number}: feature {name!r}: {error}") from None
        except ValueError as error:
            raise ValueError(f"the requests do not fit together: feature {name!r}: {error}") from None
        feeds |= {feature.inputs[role]: array for role, array in joined.items()}
    first = next(iter(counts))
    for name, own in counts.items():
        for number, (count, other) in enumerate(zip(own, counts[first], strict=True)):
            if count != other:
                raise ValueError(f"request {number}: feature {name!r} has {count} rows, and {first!r} has {other}")
    return feeds, counts[first]


def rows_between(feeds: Mapping[str, Array], known: Features, first: int, end: int) -> dict[str, Array]:
    """Some rows of the inputs of a run, as inputs of another one: from one row on, and before another."""
    found: dict[str, Array] = {}
    for feature in known.values():
        own, begin, stop = feature.inputs, first, end
        if feature.kind == "sparse":
            indices, shape = feeds[own["indices"]], feeds[own["dense_shape"]].copy()
            is_inside = (indices[:, 0] >= first) & (indices[:, 0] < end)
            moved, shape[0] = indices[is_inside], end - first
            moved[:, 0] -= first
            found |= {own["indices"]: moved, own["values"]: feeds[own["values"]][is_inside], own["dense_shape"]: shape}
            continue
        for name in feature.row_splits:
            splits = feeds[name][begin : stop + 1]
            found[name], begin, stop = splits - splits[0], int(splits[0]), int(splits[-1])
        found |= {name: feeds[name][begin:stop] for name in own.values() if name not in feature.row_splits}
    return found


def split(results: Sequence[Array], rows: Sequence[int]) -> list[list[Array]]:
    """The results of each request: views of the results of the run.

        first, second = onnx_sparse.batching.split([np.array([1, 2, 3])], [2, 1])

    Args:
        results: The results of a run on joined requests, each with one element for each row.
        rows: The number of rows of each request.

    Raises:
        ValueError: A result has another number of rows.
    """
    for number, result in enumerate(results):
        if not isinstance(result, np.ndarray):
            raise ValueError(f"result {number} is a {type(result).__name__}; only arrays can be split")
        if not result.ndim or result.shape[0] != sum(rows):
            raise ValueError(f"result {number} has the shape {list(result.shape)}; the requests have {sum(rows)} rows")
    ends = np.cumsum(rows).tolist()
    return [[result[end - count : end] for result in results] for end, count in zip(ends, rows, strict=True)]


class _RequestError(Exception):
    """A request whose parts do not fit: others would get its entries, or it theirs."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


#: The arrays of a feature by role: one of each request.
_Parts: TypeAlias = Mapping[str, Sequence[Array]]


def _joined(feature: Feature, parts: _Parts) -> tuple[dict[str, Array], list[int]]:
    """The inputs of a feature by role, and the number of its rows in each request."""
    if feature.kind == "sparse":
        return _joined_sparse(**parts)
    if feature.kind == "ragged":
        return _joined_ragged(parts, len(feature.row_splits))
    ((role, arrays),) = parts.items()
    rows = [np.atleast_1d(array) for array in arrays]
    return {role: _concatenated(rows)}, list(map(len, rows))


def _check_types(role: str, arrays: Sequence[Array]) -> None:
    """Refuse two element types, which numpy would join to a third: one request would change the values of others."""
    dtypes = [array.dtype for array in arrays]
    if len({*dtypes}) == 1:
        return
    kinds = ["text" if dtype.kind in "OSU" else "bytes" if dtype.kind == "V" else dtype.name for dtype in dtypes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise _RequestError(number, f"{role} are {dtypes[number]}, but {dtypes[0]} in request 0")


def _joined_sparse(
    indices: Sequence[Array], values: Sequence[Array], dense_shape: Sequence[Array]
) -> tuple[dict[str, Array], list[int]]:
    rows, entries = [], []
    for number, (own, held, shape) in enumerate(zip(indices, values, dense_shape, strict=True)):
        if own.ndim != 2 or not own.shape[1] or shape.shape != own.shape[1:]:
            problem = f"indices have the shape {list(own.shape)}, and dense_shape {list(shape.shape)}"
            raise _RequestError(number, problem)
        if held.shape != own.shape[:1]:
            problem = f"indices have the shape {list(own.shape)}, and values {list(held.shape)}"
            raise _RequestError(number, problem)
        rows.append(int(shape[0]))
        entries.append(len(own))
        if rows[-1] < 0:
            raise _RequestError(number, f"dense_shape[0] = {rows[-1]} is negative")
    moved = np.concatenate(indices)
    column, begins = moved[:, 0], _begins(rows)
    outside = np.flatnonzero((column < 0) | (column >= np.repeat(rows, entries)))
    if outside.size:
        number = int(np.searchsorted(np.cumsum(entries), outside[0], "right"))
        at = outside[0] - sum(entries[:number])
        problem = f"indices[{at},0] = {indices[number][at, 0]} is out of range [0, {rows[number]})"
        raise _RequestError(number, problem)
    column += np.repeat(begins, entries).astype(moved.dtype)
    shape = np.max(dense_shape, axis=0)
    shape[0] = sum(rows)
    return {"indices": moved, "values": np.concatenate(values), "dense_shape": shape}, rows


def _joined_ragged(parts: _Parts, depths: int) -> tuple[dict[str, Array], list[int]]:
    joined = {"values": np.concatenate(parts["values"])}
    ends = list(map(len, parts["values"]))
    for role in map(splits_role, reversed(range(depths))):
        own = parts[role]
        for number, (splits, end) in enumerate(zip(own, ends, strict=True)):
            if splits.ndim != 1 or not splits.size:
                raise _RequestError(number, f"{role} have the shape {list(splits.shape)}")
            if splits[0] != 0:
                raise _RequestError(number, f"{role}[0] = {splits[0]} is not 0")
            if splits[-1] != end:
                raise _RequestError(number, f"{role} end at {splits[-1]}, and there are {end} to split")
        rows = [len(splits) - 1 for splits in own]
        moved = np.concatenate([own[0][:1], *(splits[1:] for splits in own)])
        moved[1:] += np.repeat(_begins(ends), rows).astype(moved.dtype)
        falls = np.flatnonzero(moved[1:] < moved[:-1])
        if falls.size:
            number = int(np.searchsorted(np.cumsum(rows), falls[0], "right"))
            at = falls[0] - sum(rows[:number])
            low, high = own[number][at + 1], own[number][at]
            raise _RequestError(number, f"{role}[{at + 1}] = {low} is below {role}[{at}] = {high}")
        joined[role], ends = moved, rows
    return joined, ends


def _begins(counts: Sequence[int]) -> Array:
    """Where each request's part of as many elements begins."""
    return np.cumsum([0, *counts[:-1]])


def _concatenated(arrays: Sequence[Array]) -> Array:
    """Rows one after another; messages, of type void, may have different numbers of bytes."""
    if arrays[0].dtype.kind == "V" and arrays[0].dtype.names is None and len({a.dtype.itemsize for a in arrays}) > 1:
        from onnx_sparse.rows.example_arrays import example_array

        return example_array([message for array in arrays for message in array.tolist()])
    return np.concatenate(arrays)
