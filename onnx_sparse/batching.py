"""Requests joined into one run of a model, and its results split again: what a server does that batches.

Servers that stack inputs along their first dimension cannot join the coordinates of sparse tensors, which count rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_sparse.columns import Array
from onnx_sparse.model_features import Features, Model, features
from onnx_sparse.schemas.features import Feature


def join(requests: Sequence[Mapping[str, Array]], model: Model | Features) -> tuple[dict[str, Array], list[int]]:
    """The inputs of one run on the rows of several requests.

    Args:
        requests: The inputs of each; at least one.
        model: A model or session that records its features, or what `onnx_sparse.features` returned.

    Returns:
        The inputs, and the number of rows of each request, for `split`.

    Raises:
        ValueError: There is no request; one lacks an input, or its features have different numbers of rows; or inputs
            do not fit together.
    """
    known = model if isinstance(model, Features) else features(model)
    if not requests:
        raise ValueError("there are no requests to join")
    for number, request in enumerate(requests):
        if missing := [name for name in known.inputs if name not in request]:
            raise ValueError(f"request {number} lacks the input {missing[0]!r}")
    counts = {name: [_count(feature, request) for request in requests] for name, feature in known.items()}
    first = next(iter(counts))
    for name, own in counts.items():
        for number, (count, other) in enumerate(zip(own, counts[first], strict=True)):
            if count != other:
                raise ValueError(f"request {number}: feature {name!r} has {count} rows, and {first!r} has {other}")
    feeds: dict[str, Array] = {}
    for name, feature in known.items():
        try:
            feeds |= _joined(feature, requests, counts[name])
        except ValueError as error:
            raise ValueError(f"the requests do not fit together: feature {name!r}: {error}") from None
    return feeds, counts[first]


def split(results: Sequence[Array], rows: Sequence[int]) -> list[list[Array]]:
    """The results of each request: views of the results of the run.

    Args:
        results: The results of a run on joined requests, each with one element for each row.
        rows: The number of rows of each request.

    Raises:
        ValueError: A result has another number of rows.
    """
    for number, result in enumerate(results):
        if not result.ndim or result.shape[0] != sum(rows):
            raise ValueError(f"result {number} has the shape {list(result.shape)}; the requests have {sum(rows)} rows")
    ends = np.cumsum(rows).tolist()
    return [[result[end - count : end] for result in results] for end, count in zip(ends, rows, strict=True)]


def _count(feature: Feature, request: Mapping[str, Array]) -> int:
    """The number of rows of a feature."""
    if feature.kind == "sparse":
        return int(request[feature.inputs["dense_shape"]][0])
    if feature.kind == "ragged":
        return len(request[feature.row_splits[0]]) - 1
    array = request[next(iter(feature.inputs.values()))]
    return len(array) if np.ndim(array) else 1


def _joined(feature: Feature, requests: Sequence[Mapping[str, Array]], rows: Sequence[int]) -> dict[str, Array]:
    def parts(name: str) -> list[Array]:
        return [np.asarray(request[name]) for request in requests]

    named = feature.inputs
    if feature.kind in ("dense", "example"):
        (name,) = named.values()
        return {name: _concatenated([np.atleast_1d(part) for part in parts(name)])}
    feeds = {named["values"]: np.concatenate(parts(named["values"]))}
    if feature.kind == "sparse":
        indices = np.concatenate(parts(named["indices"]))
        entries = [len(part) for part in parts(named["indices"])]
        indices[:, 0] += np.repeat(np.cumsum([0, *rows[:-1]]), entries).astype(indices.dtype)
        shape = np.max(parts(named["dense_shape"]), axis=0)
        shape[0] = sum(rows)
        return feeds | {named["indices"]: indices, named["dense_shape"]: shape}
    for name in feature.row_splits:
        splits = parts(name)
        begins = np.cumsum([0, *(part[-1] for part in splits[:-1])])
        moved = [part[1:] + begin for part, begin in zip(splits, begins, strict=True)]
        feeds[name] = np.concatenate([splits[0][:1], *moved]).astype(splits[0].dtype, copy=False)
    return feeds


def _concatenated(arrays: Sequence[Array]) -> Array:
    """Rows one after another; messages, of type void, may have different numbers of bytes."""
    if arrays[0].dtype.kind == "V" and arrays[0].dtype.names is None and len({a.dtype.itemsize for a in arrays}) > 1:
        from onnx_sparse.example_arrays import example_array

        return example_array([message for array in arrays for message in array.tolist()])
    return np.concatenate(arrays)
