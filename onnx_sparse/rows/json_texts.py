"""Arrays of texts that are held as JSON: millions of objects of Python take ten times its memory, and long to make."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_sparse.rows.json_text import parsed

Array = np.ndarray[Any, Any]

#: How many texts are read at once, and the fewest that are held in this way.
PIECE = 1 << 14


class JsonTexts:
    """An array of texts. Of rows that are looked at, and only of these, it makes an array of numpy.

    Args:
        pieces: The texts in the order of the array: some with their quotes in JSON, with commas between them, and more.
        counts: How many texts each piece has.
        shape: The shape of the array.
    """

    dtype = np.dtype(object)

    def __init__(self, pieces: Sequence[Any], counts: Sequence[int], shape: Sequence[int]) -> None:
        self._pieces, self._counts, self.shape = [*pieces], [*counts], tuple(shape)
        self._ends = np.cumsum(self._counts)

    @classmethod
    def of(cls, array: Array) -> JsonTexts:
        """The texts of an array of numpy."""
        flat = array.reshape(-1)
        parts = [flat[begin : begin + PIECE].tolist() for begin in range(0, len(flat), PIECE)]
        return cls([json.dumps(part).encode()[1:-1] for part in parts], [*map(len, parts)], array.shape)

    @classmethod
    def joined(cls, parts: Sequence[JsonTexts]) -> JsonTexts:
        """The rows of several arrays whose rows have one shape, one after another."""
        pieces = [piece for part in parts for piece in part._pieces]
        counts = [count for part in parts for count in part._counts]
        return cls(pieces, counts, (sum(map(len, parts)), *parts[0].shape[1:]))

    def __reduce__(self) -> Any:
        return JsonTexts, ([*map(bytes, self._pieces)], self._counts, self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice) -> Array:
        if isinstance(rows, int):
            found: Array = self[rows : rows + 1][0]
            return found
        begin, end, _ = rows.indices(len(self))
        width = math.prod(self.shape[1:])
        made = np.empty(max(end - begin, 0) * width, object)
        first, done = begin * width, 0
        number = int(np.searchsorted(self._ends, first, "right"))
        while done < len(made):
            start = int(self._ends[number]) - self._counts[number]
            part = parsed(b"[%b]" % self._pieces[number])[first + done - start : first + len(made) - start]
            made[done : done + len(part)] = part
            done, number = done + len(part), number + 1
        return made.reshape(-1, *self.shape[1:]) if width else made.reshape(max(end - begin, 0), *self.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of texts."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the JSON."""
        return sum(map(len, self._pieces))

    def reshape(self, *shape: Any) -> JsonTexts:
        """The same texts in another shape."""
        sizes = np.broadcast_to(np.False_, self.shape).reshape(*shape).shape
        return JsonTexts(self._pieces, self._counts, sizes)

    def tolist(self) -> Any:
        """All texts as Python's, in lists as deep as the array."""
        return self[:].tolist()

    def json(self) -> Sequence[Any]:
        """The texts in pieces of JSON, without the lists that they are in."""
        return self._pieces
