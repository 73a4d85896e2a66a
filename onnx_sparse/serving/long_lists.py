"""Long lists of numbers and texts in JSON, read by the native library: no objects are made, and other threads run."""

from __future__ import annotations

import ctypes
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from onnx_sparse.native.location import library_path
from onnx_sparse.rows.columns import Array, RowError, row_error, typed_list
from onnx_sparse.rows.json_text import parsed
from onnx_sparse.rows.json_texts import PIECE, JsonTexts
from onnx_sparse.schemas.declaration import DType, numpy_dtype
from onnx_sparse.serving.errors import RequestError

#: The characters of a long list, and how many of its numbers are read at once.
_LONG, _PART = 1 << 16, 1 << 15
#: The lists and objects in the JSON of a request; each takes 64 bytes and more of memory, whatever it holds.
MOST_LISTS = 1 << 20
#: What stands for a list in the rest of the JSON; no client knows it.
_MARK = secrets.token_hex(16)
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
    if path is None or not hasattr(library := ctypes.CDLL(str(path)), "OnnxSparseFindLongList"):
        return None
    for name in ("FindLongList", "FindNumbers", "ReadNumbers", "FindTexts", "ReadTexts"):
        getattr(library, f"OnnxSparse{name}").restype = ctypes.c_int64
    return library


@dataclass(frozen=True)
class LongList:
    """A list in a text, of numbers or of texts, or of lists of them that are all equally deep.

    Attributes:
        text: The text.
        begin: Where the list begins, with its bracket.
        end: Where it ends.
        counts: How many elements the lists of each depth have; the last one is the number of values.
    """

    text: bytes | bytearray
    begin: int
    end: int
    counts: tuple[int, ...]
    are_texts: ClassVar[bool]

    def __len__(self) -> int:
        return self.counts[0]

    def lengths(self) -> tuple[Array, ...]:
        """The lengths of the lists within the list, for each depth."""
        found = tuple(np.empty(count, np.int64) for count in self.counts[:-1])
        addresses = (ctypes.c_void_p * _DEEPEST)(*(array.ctypes.data for array in found))
        _find(self._content(), addresses, are_texts=self.are_texts)
        return found

    def _content(self) -> Array:
        return np.frombuffer(self.text, np.uint8, self.end - self.begin, self.begin)

    def _in_lists(self, values: Any) -> Any:
        """Values in as many dimensions as the lists are deep; in lists of arrays if lengths differ."""
        column = values
        for lengths in reversed(self.lengths()):
            if len(lengths) and (lengths == lengths[0]).all() and not isinstance(column, list):
                column = column.reshape(len(lengths), int(lengths[0]), *column.shape[1:])
            else:
                ends = np.cumsum(lengths).tolist()
                column = [column[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        return column


class NumberList(LongList):
    """A long list of numbers."""

    are_texts = False

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

    def column(self, where: str, dtype: DType) -> Any:
        """The numbers as an array of as many dimensions as the lists are deep; as lists of arrays if lengths differ.

        Raises:
            ValueError: A value is no number, or does not fit the type.
        """
        return self._in_lists(self.numbers(where, dtype))


class TextList(LongList):
    """A long list of texts."""

    are_texts = True

    def texts(self) -> Any:
        """All texts, as an array of one dimension; of numpy if they are few."""
        content, library = self._content(), _library()
        view, position = memoryview(self.text)[self.begin : self.end], ctypes.c_int64(0)
        is_flat = len(self.counts) == 1
        room = np.empty(0 if is_flat else len(content), np.uint8)
        pieces: list[Any] = []
        counts: list[int] = []
        while sum(counts) < self.counts[-1]:
            begin, copied = position.value, ctypes.c_int64(0)
            counts.append(
                library.OnnxSparseReadTexts(
                    ctypes.c_void_p(content.ctypes.data), ctypes.c_int64(len(content)), ctypes.byref(position),
                    None if is_flat else ctypes.c_void_p(room.ctypes.data), ctypes.byref(copied), ctypes.c_int64(PIECE),
                )
            )  # fmt: skip
            pieces.append(view[begin + 1 : position.value] if is_flat else room[: copied.value].tobytes())
        found = JsonTexts(pieces, counts, (self.counts[-1],))
        return found[:] if len(found) <= PIECE else found

    def column(self) -> Any:
        """The texts as an array of as many dimensions as the lists are deep; as lists of arrays if lengths differ."""
        return self._in_lists(self.texts())


#: What the library takes for a number.
_NUMBER = re.compile(rb"[0-9+\-.eENaInfity]+")


def _find(content: Array, lengths: Any = None, *, are_texts: bool = False) -> tuple[int, tuple[int, ...]]:
    """The bytes of the list that a text begins with, 0 if it is none of these; and the elements for each depth."""
    counts = (ctypes.c_int64 * _DEEPEST)()
    find = _library().OnnxSparseFindTexts if are_texts else _library().OnnxSparseFindNumbers
    size = find(ctypes.c_void_p(content.ctypes.data), ctypes.c_int64(len(content)), counts, lengths)
    return size, tuple(count for count in counts if count >= 0)


def cut(text: bytes | bytearray, keys: Iterable[str]) -> tuple[bytes | bytearray, list[LongList]]:
    """JSON without its long lists of numbers and texts, and these; see `put_back`.

    Args:
        text: JSON, or not.
        keys: The keys of objects whose values are looked at.

    Raises:
        RequestError: There are too many lists.
    """
    words = b"".join(b'"%b"' % key.encode() for key in keys if key.isascii() and key.isidentifier())
    library = _library()
    if len(text) < _LONG or not words or library is None:
        return text, []
    lists: list[LongList] = []
    kept: list[bytes | bytearray] = []
    content = np.frombuffer(text, np.uint8)
    position, counts, are_texts = ctypes.c_int64(0), (ctypes.c_int64 * _DEEPEST)(), ctypes.c_int32(0)
    at = 0
    while size := library.OnnxSparseFindLongList(
        ctypes.c_void_p(content.ctypes.data), ctypes.c_int64(len(content)), ctypes.byref(position), words,
        ctypes.c_int64(len(words)), ctypes.c_int64(_LONG), counts, ctypes.byref(are_texts),
    ):  # fmt: skip
        begin = position.value
        found = tuple(count for count in counts if count >= 0)
        if sum(found[:-1]) > MOST_LISTS:
            raise too_many_lists()
        kept += [text[at:begin], b'{"%b": %d}' % (_MARK.encode(), len(lists))]
        position.value = at = begin + size
        lists.append((TextList if are_texts.value else NumberList)(text, begin, at, found))
    return b"".join([*kept, text[at:]]), lists


def too_many_lists() -> RequestError:
    """The error of a request with too many lists."""
    return RequestError(f"the JSON has more than {MOST_LISTS} lists and objects; send less, or binary tensors", 413)


def put_back(value: Any, lists: list[LongList]) -> Any:
    """The list that stood where a value of the rest is, or the value."""
    return lists[value[_MARK]] if lists and isinstance(value, dict) and _MARK in value else value
