"""Long lists of numbers in JSON, read in pieces: other threads run between them, and no list of objects is made."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.rows.columns import Array, typed_list
from onnx_sparse.rows.json_text import parsed
from onnx_sparse.schemas.declaration import DType

#: The characters of a long list, and of a piece of it.
_LONG, _PIECE = 1 << 17, 1 << 14
#: What stands for a list in the rest of the JSON; no client knows it.
_MARK = secrets.token_hex(16)


@dataclass(frozen=True)
class NumberList:
    """A list in a text, from behind its bracket to the other one: no quotes, lists or objects are between them.

    Attributes:
        text: The text.
        begin: Where the list begins.
        end: Where it ends.
    """

    text: bytes | bytearray
    begin: int
    end: int

    def array(self, where: str, dtype: DType) -> Array:
        """The numbers as an array of one dimension.

        Args:
            where: What has them, for messages.
            dtype: The element type.

        Raises:
            ValueError: The text is no list, or a value does not fit the type.
        """
        parts: list[Array] = []
        count = 0
        for piece in self._pieces():
            numbers = parsed(b"[" + piece + b"]")
            if not numbers:
                raise ValueError(f"{where} has a comma without a value next to it, after {count} values")
            parts.append(typed_list(f"{where}, from value {count} on", numbers, dtype, (len(numbers),)))
            count += len(numbers)
        return np.concatenate(parts)

    def _pieces(self) -> Iterator[bytes | bytearray]:
        """The text in pieces, without the commas between them."""
        at = self.begin
        while self.end - at > _PIECE:
            comma = self.text.rfind(b",", at, at + _PIECE)
            if comma < 0 and (comma := self.text.find(b",", at, self.end)) < 0:
                break
            yield self.text[at:comma]
            at = comma + 1
        yield self.text[at : self.end]


def cut(text: bytes | bytearray, keys: Iterable[str]) -> tuple[bytes | bytearray, list[NumberList]]:
    """JSON without its long lists of numbers, and these; see `put_back`.

    Args:
        text: JSON, or not.
        keys: The keys of objects whose values are looked at. Only words count: no word is between two strings, so a
            word in quotes is a key or a value, and never between the end of a string and the begin of the next one.
    """
    words = [key.encode() for key in keys if key.isascii() and key.isidentifier()]
    if len(text) < _LONG or not words:
        return text, []
    lists: list[NumberList] = []
    kept: list[bytes | bytearray] = []
    key = re.compile(rb'"(?:%b)"\s*:\s*\[' % b"|".join(words))
    at = 0
    while (found := key.search(text, at)) is not None:
        begin = found.end()
        end = text.find(b"]", begin)
        if end - begin < _LONG or any(text.find(other, begin, end) >= 0 for other in (b'"', b"[", b"{")):
            kept.append(text[at:begin])
            at = begin
            continue
        kept += [text[at : begin - 1], b'{"%b": %d}' % (_MARK.encode(), len(lists))]
        lists.append(NumberList(text, begin, end))
        at = end + 1
    return b"".join([*kept, text[at:]]), lists


def put_back(value: Any, lists: list[NumberList]) -> Any:
    """The list that stood where a value of the rest is, or the value."""
    return lists[value[_MARK]] if lists and isinstance(value, dict) and _MARK in value else value
