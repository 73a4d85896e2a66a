"""Long lists of numbers in JSON, read by the native library: no list of objects is made, and other threads run."""

from __future__ import annotations

import ctypes
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from onnx_sparse.native.location import library_path
from onnx_sparse.rows.columns import Array, RowError, row_error, typed_list
from onnx_sparse.rows.json_text import parsed
from onnx_sparse.schemas.declaration import DType, numpy_dtype
from onnx_sparse.serving.errors import RequestError

#: The characters of a long list, and how many of its numbers are read at once.
_LONG, _PART = 1 << 16, 1 << 15
#: The lists and objects in the JSON of a request; each takes 64 bytes and more of memory, whatever it holds.
MOST_LISTS = 1 << 20
#: What stands for a list in the rest of the JSON; no client knows it.
_MARK = secrets.token_hex(16)
#: The most characters of a key, and of what is between it and its list.
_KEY = 1 << 9
#: How deep lists may be within each other, as in the native library.
_DEEPEST = 8
#: The library's kinds of numbers by kind of dtype: as doubles, int64 and uint64.
_KINDS = {"f": (0, np.float64), "V": (0, np.float64), "i": (1, np.int64), "u": (2, np.uint64)}
#: The bits of floating types, by bytes and kind.
_BITS = {(8, "f"): 53, (4, "f"): 24, (2, "f"): 11, (2, "V"): 8}


@cache
def _library() -> Any:
    """The native library; None where this installation has none, or an earlier one."""
    path = library_path()
    if path is None or not hasattr(library := ctypes.CDLL(str(path)), "OnnxSparseReadNumbers"):
        return None
    library.OnnxSparseFindNumbers.restype = library.OnnxSparseReadNumbers.restype = ctypes.c_int64
    return library


@dataclass(frozen=True)
class NumberList:
    """A list of numbers in a text, or of lists of numbers that are all equally deep.

    Attributes:
        text: The text.
        begin: Where the list begins, with its bracket.
        end: Where it ends.
        counts: How many elements the lists of each depth have; the last one is the number of numbers.
    """

    text: bytes | bytearray
    begin: int
    end: int
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return self.counts[0]

    def numbers(self, where: str, dtype: DType, shape: tuple[int, ...] = ()) -> Array:
        """All numbers, as an array of one dimension.

        Args:
            where: What has them, for messages.
            dtype: The element type.
            shape: Of what the numbers are, for messages.

        Raises:
            ValueError: A value is no number, or does not fit the type.
        """
        wanted = numpy_dtype(dtype)
        count = self.counts[-1]
        made = np.empty(count, wanted)
        # Of texts and booleans, none is read: the first number is the error.
        kind, held_as = _KINDS.get(wanted.kind, (0, np.float64))
        part = np.empty(min(count, _PART) if wanted.kind in _KINDS else 0, held_as)
        bits = ctypes.c_int32(_BITS.get((wanted.itemsize, wanted.kind), 0))
        position = ctypes.c_int64(0)
        content = self._content()
        done = 0
        while done < count:
            read = _library().OnnxSparseReadNumbers(
                ctypes.c_void_p(content.ctypes.data), ctypes.c_int64(len(content)), ctypes.byref(position),
                ctypes.c_int32(kind), bits, ctypes.c_void_p(part.ctypes.data), ctypes.c_int64(len(part)),
            )  # fmt: skip
            if read:
                values = part[:read]
                with np.errstate(over="ignore"):
                    made[done : done + read] = found = values.astype(wanted)
                lost = found != values if wanted.kind in "iu" else np.isinf(found) & ~np.isinf(values)
                if lost.any():
                    first = int(lost.argmax())
                    self._one(where, values[first].item(), dtype, done + first, shape)
                done += read
            if read < _PART and done < count:  # a value that the library does not read
                match = _NUMBER.search(self.text, self.begin + position.value)
                assert match is not None
                position.value = match.end() - self.begin
                try:
                    value = parsed(match[0])
                except ValueError as error:
                    raise ValueError(f"{where}, value {done}: {error}") from None
                made[done] = self._one(where, value, dtype, done, shape)
                done += 1
        return made

    def _one(self, where: str, value: Any, dtype: DType, number: int, shape: tuple[int, ...]) -> Any:
        """A value as one of an element type.

        Raises:
            ValueError: It does not fit.
        """
        try:
            return typed_list(where, [value], dtype, (1,))[0]
        except RowError as error:
            lengths = self.lengths()
            marked = np.zeros(self.counts[-1], bool)
            marked[number] = True
            raise row_error(where, marked if lengths else marked.reshape(shape or -1), lengths, error.reason) from None

    def lengths(self) -> tuple[Array, ...]:
        """The lengths of the lists within the list, for each depth."""
        found = tuple(np.empty(count, np.int64) for count in self.counts[:-1])
        addresses = (ctypes.c_void_p * _DEEPEST)(*(array.ctypes.data for array in found))
        _find(self._content(), addresses)
        return found

    def _content(self) -> Array:
        return np.frombuffer(self.text, np.uint8, self.end - self.begin, self.begin)

    def column(self, where: str, dtype: DType) -> Any:
        """The numbers as an array of as many dimensions as the lists are deep; as lists of arrays if lengths differ.

        Raises:
            ValueError: A value is no number, or does not fit the type.
        """
        values = self.numbers(where, dtype)
        column: Any = values
        for lengths in reversed(self.lengths()):
            if len(lengths) and (lengths == lengths[0]).all() and isinstance(column, np.ndarray):
                column = column.reshape(len(lengths), int(lengths[0]), *column.shape[1:])
            else:
                ends = np.cumsum(lengths).tolist()
                column = [column[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        return column


#: What the library takes for a number.
_NUMBER = re.compile(rb"[0-9+\-.eENaInfity]+")


def _find(content: Array, lengths: Any = None) -> tuple[int, tuple[int, ...]]:
    """The bytes of the list that a text begins with, 0 if it is none of numbers; and the elements for each depth."""
    counts = (ctypes.c_int64 * _DEEPEST)()
    size = _library().OnnxSparseFindNumbers(
        ctypes.c_void_p(content.ctypes.data), ctypes.c_int64(len(content)), counts, lengths
    )
    return size, tuple(count for count in counts if count >= 0)


def cut(text: bytes | bytearray, keys: Iterable[str]) -> tuple[bytes | bytearray, list[NumberList]]:
    """JSON without its long lists of numbers, and these; see `put_back`.

    Args:
        text: JSON, or not.
        keys: The keys of objects whose values are looked at. Only words count: no word is between two strings, so a
            word in quotes is a key or a value, and never between the end of a string and the begin of the next one.

    Raises:
        RequestError: There are too many lists.
    """
    words = [key.encode() for key in keys if key.isascii() and key.isidentifier() and len(key) < _KEY // 2]
    if len(text) < _LONG or not words or _library() is None:
        return text, []
    lists: list[NumberList] = []
    kept: list[bytes | bytearray] = []
    key = re.compile(rb'"(?:%b)"\s*:\s*\[' % b"|".join(words))
    content = np.frombuffer(text, np.uint8)
    at = 0
    # A list has no quotes: only what stands without them around each of these places can be a long one, so that records
    # with any number of short lists take no time.
    for place in range(_LONG, len(text), _LONG):
        after = text.rfind(b'"', max(at, place - _LONG - _KEY), place)
        before = text.rfind(b'"', max(at, after - _KEY), max(at, after))
        found = key.match(text, before, place) if before >= 0 else None
        if found is None:
            continue
        begin = found.end() - 1
        size, counts = _find(content[begin:])
        if size < _LONG or not counts[0]:
            continue
        if sum(counts[:-1]) > MOST_LISTS:
            raise too_many_lists()
        kept += [text[at:begin], b'{"%b": %d}' % (_MARK.encode(), len(lists))]
        at = begin + size
        lists.append(NumberList(text, begin, at, counts))
    return b"".join([*kept, text[at:]]), lists


def too_many_lists() -> RequestError:
    """The error of a request with too many lists."""
    return RequestError(f"the JSON has more than {MOST_LISTS} lists and objects; send less, or binary tensors", 413)


def put_back(value: Any, lists: list[NumberList]) -> Any:
    """The list that stood where a value of the rest is, or the value."""
    return lists[value[_MARK]] if lists and isinstance(value, dict) and _MARK in value else value
