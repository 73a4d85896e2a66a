"""Requests with very many texts run in parts of their rows: next to a part, a text takes no more than its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from onnx_sparse.batching import join, rows_between
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.json_texts import PIECE, JsonTexts
from onnx_sparse.rows.model_features import Features

#: The texts of a part, and the most parts.
_TEXTS, _MOST_PARTS = 2 * PIECE, 64

_R = TypeVar("_R")


def with_held_texts(read: Callable[..., _R], *arguments: Any) -> _R:
    """What a function reads in a request, with its texts as JSON, which another process gets in a tenth of the time."""
    found = read(*arguments)
    feeds: dict[str, Any] = found.feeds if hasattr(found, "feeds") else found[0]  # type: ignore[index]
    for name, array in feeds.items():
        if isinstance(array, np.ndarray) and array.dtype.kind == "O" and array.size > PIECE:
            feeds[name] = JsonTexts.of(array)
    return found


def has_many_texts(feeds: Mapping[str, Array]) -> bool:
    """Whether inputs have texts that are no objects yet."""
    return any(isinstance(array, JsonTexts) for array in feeds.values())


def made(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs with their texts as objects."""
    return {name: array[:] if isinstance(array, JsonTexts) else array for name, array in feeds.items()}


def parts(feeds: Mapping[str, Array], known: Features) -> list[tuple[int, int]]:
    """The first row of each part and the one after it; nothing if the inputs are no rows or too few."""
    # In place of texts, which are neither looked at nor copied here.
    empty = {n: np.zeros(a.shape, bool) if isinstance(a, JsonTexts) else a for n, a in feeds.items()}
    try:
        rows = join([empty], known)[1][0]
    except ValueError:  # which the model refuses
        return []
    texts = max(array.size for array in feeds.values() if isinstance(array, JsonTexts))
    count = min(-(-texts // _TEXTS), _MOST_PARTS, rows)
    ends = [rows * number // count for number in range(count + 1)] if count > 1 else []
    return [*pairwise(ends)]


def part(feeds: Mapping[str, Array], known: Features, rows: tuple[int, int]) -> dict[str, Array]:
    """The inputs of a part."""
    return rows_between(feeds, known, *rows)


class Joined:
    """The results of parts, texts as JSON."""

    def __init__(self) -> None:
        self._parts: list[list[Array | JsonTexts]] = []

    def add(self, results: Sequence[Any], rows: tuple[int, int]) -> bool:
        """Take the results of the next part; returns whether they are those of its rows, shaped as before."""
        own = [JsonTexts.of(a) if isinstance(a, np.ndarray) and a.dtype.kind == "O" else a for a in results]
        shapes = [np.shape(array) for array in results]
        fits = all(shape and shape[0] == rows[1] - rows[0] for shape in shapes)
        if fits and self._parts:
            fits = all(a.shape[1:] == b.shape[1:] for a, b in zip(self._parts[0], own, strict=True))
        self._parts.append(own)
        return fits

    def results(self) -> Iterator[Array]:
        """The results of all rows."""
        for arrays in zip(*self._parts, strict=True):
            if isinstance(arrays[0], JsonTexts):
                yield cast("Array", JsonTexts.joined(cast("Sequence[JsonTexts]", arrays)))
            else:
                yield np.concatenate(cast("Sequence[Array]", arrays))
