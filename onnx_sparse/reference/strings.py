"""Operators that take text apart and put it together, in Python."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_allocatable, require_in_range, require_row_splits
from onnx_sparse.reference.string_tensor import bytes_of, text_of
from onnx_sparse.schemas import strings as declarations
from onnx_sparse.schemas.validation import KernelError

_WHITESPACE = b" \t\n\v\f\r"
_LAST_CHARACTER = 0x10FFFF
_REPLACEMENT = 0xFFFD
_NO_CHARACTER = -1
_MOST_DIGITS = 4096
_CONVERSIONS = {"FIXED": "f", "SCIENTIFIC": "e", "SHORTEST": "g"}
_FLAGS = {"SPACE": " ", "PLUS": "+", "HASH": "#"}


@implements(declarations.RAGGED_STRING_SPLIT)
def ragged_string_split(
    strings: Array, separator: Array, max_splits: Array, *, empty_separator: str = "WHITESPACE"
) -> tuple[Array, Array]:
    """The pieces of strings [N], and their row splits; see the semantics of RaggedStringSplit."""
    (by,), limit = bytes_of(separator), int(max_splits)
    if not by and empty_separator == "BYTES":
        return _ragged([_single_bytes(string, limit) for string in bytes_of(strings)])
    return _ragged([_pieces(string, by, limit) for string in bytes_of(strings)])


def _single_bytes(string: bytes, limit: int) -> list[bytes]:
    single = len(string) if limit < 0 else min(limit, len(string))
    rest = [string[single:]] if single < len(string) else []
    return [*(string[k : k + 1] for k in range(single)), *rest]


def _pieces(string: bytes, separator: bytes, limit: int) -> list[bytes]:
    if limit == 0:
        return [string]
    if separator:
        return string.split(separator, max(limit, -1))
    pieces = string.split(None, max(limit, -1))
    return [*pieces, b""] if len(pieces) == limit else pieces


@implements(declarations.RAGGED_REDUCE_JOIN)
def ragged_reduce_join(values: Array, row_splits: Array, separator: Array) -> Array:
    """The joined strings of each row [B]; see the semantics of RaggedReduceJoin."""
    require_row_splits("row_splits", row_splits, len(values))
    (between,) = bytes_of(separator)
    return text_of(between.join(row) for row in _rows(bytes_of(values), row_splits))


@implements(declarations.REPLACE_CHARACTERS)
def replace_characters(strings: Array, ranges: Array, rewrite: Array, *, matches: str) -> Array:
    """Strings of the same shape with the matches replaced; see the semantics of ReplaceCharacters."""
    if ranges.shape[1] != 2:
        raise KernelError(f"dimension 1 of ranges is {ranges.shape[1]}; expected 2")
    around = bytes_of(rewrite)
    replaced = []
    for string in bytes_of(strings):
        result, match = b"", b""
        for piece, is_match in (*_characters(string, ranges), (b"", False)):
            if match and not (is_match and matches == "run"):
                result, match = result + match.join(around), b""
            if is_match:
                match += piece
            else:
                result += piece
        replaced.append(result)
    return text_of(replaced, strings.shape)


def _characters(string: bytes, ranges: Array) -> Iterator[tuple[bytes, bool]]:
    """The characters of a class and the bytes between them, and whether they are of the class."""
    has_all = any(first <= 0x80 and last >= _LAST_CHARACTER for first, last in ranges)
    at = 0
    while at < len(string):
        lead = string[at]
        size = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0)
        piece = string[at : at + size]
        if lead < 0x80:
            number = lead
        elif lead < 0xC2 or lead > 0xF4 or len(piece) < size or any(byte & 0xC0 != 0x80 for byte in piece[1:]):
            number = _NO_CHARACTER
        elif has_all:
            number = 0x80
        else:
            try:
                number = ord(piece.decode("utf-8", "surrogatepass"))
            except UnicodeDecodeError:
                number = _NO_CHARACTER
        is_match = number != _NO_CHARACTER and any(first <= number <= last for first, last in ranges)
        size = size if is_match else 1
        yield string[at : at + size], is_match
        at += size


@implements(declarations.STRING_N_GRAMS)
def string_n_grams(
    data: Array,
    data_splits: Array,
    ngram_widths: Array,
    separator: Array,
    left_pad: Array,
    right_pad: Array,
    pad_width: Array,
    preserve_short_sequences: Array,
) -> tuple[Array, Array]:
    """The n-grams of each row and their row splits; see the semantics of StringNGrams."""
    require_row_splits("data_splits", data_splits, len(data))
    if not len(data):
        return text_of([]), np.zeros_like(data_splits)
    (between,), (left,), (right,) = (bytes_of(string) for string in (separator, left_pad, right_pad))
    most, rows = int(pad_width), []
    for row in _rows(bytes_of(data), data_splits):
        ngrams: list[bytes] = []
        for width in map(int, ngram_widths):
            pads = width - 1 if most < 0 else min(most, width - 1)
            count = max(len(row) + 2 * pads - width + 1, 0)
            if not count:
                continue
            require_allocatable([count, width], np.dtype(object), f"ngram_widths of {width}")
            padded = [left] * pads + row + [right] * pads
            ngrams += [between.join(padded[k : k + width]) for k in range(count)]
        if preserve_short_sequences and row and not ngrams:
            pads = max(most, 0)
            ngrams = [between.join([left] * pads + row + [right] * pads)]
        rows.append(ngrams)
    return _ragged(rows)


@implements(declarations.STRING_LENGTH)
def string_length(strings: Array, *, unit: str) -> Array:
    """The lengths of strings, int32 of the same shape; see the semantics of StringLength."""
    lengths = [len(s) if unit == "BYTE" else sum(map(_begins_character, s)) for s in bytes_of(strings)]
    return np.array(lengths, np.int32).reshape(strings.shape)


@implements(declarations.SUBSTR)
def substr(strings: Array, pos: Array, length: Array, *, unit: str) -> Array:
    """A part of each string, in the same shape; see the semantics of Substr."""
    parts = []
    for k, (string, first, count) in enumerate(
        zip(bytes_of(strings), pos.reshape(-1).tolist(), length.reshape(-1).tolist(), strict=True)
    ):
        starts = _starts(string, unit)
        size = len(starts) - 1
        if not -size <= first <= size:
            at = ",".join(map(str, np.unravel_index(k, pos.shape)))
            raise KernelError(f"pos{f'[{at}]' if at else ''} = {first} is out of range [{-size}, {size + 1})")
        first += size if first < 0 else 0
        if count < 0:
            count = size if unit == "BYTE" else 0
        end = min(first + count, size)
        parts.append(string[starts[first] : starts[end]])
    return text_of(parts, strings.shape)


def _starts(string: bytes, unit: str) -> Sequence[int]:
    """Where the bytes or characters of a string begin, and its end."""
    if unit == "BYTE":
        return range(len(string) + 1)
    return [*(k for k, byte in enumerate(string) if not k or _begins_character(byte)), len(string)]


def _begins_character(byte: int) -> bool:
    return byte & 0xC0 != 0x80


@implements(declarations.STRING_STRIP)
def string_strip(strings: Array) -> Array:
    """Strings of the same shape without whitespace at the ends; see the semantics of StringStrip."""
    return text_of((string.strip(_WHITESPACE) for string in bytes_of(strings)), strings.shape)


@implements(declarations.STRING_CASE)
def string_case(strings: Array, *, case: str) -> Array:
    """Strings of the same shape with their ASCII letters changed; see the semantics of StringCase."""
    changed = bytes.lower if case == "LOWER" else bytes.upper  # of bytes, which know ASCII only
    return text_of(map(changed, bytes_of(strings)), strings.shape)


@implements(declarations.UNICODE_DECODE)
def unicode_decode(strings: Array, replacement_char: Array, *, errors: str) -> tuple[Array, ...]:
    """The row splits of the characters [N+1], int32 characters, and their int64 positions; see UnicodeDecode."""
    values: list[int] = []
    starts: list[int] = []
    splits = [0]
    for string in bytes_of(strings):
        for start, character in _decoded(string):
            if character is not None or errors == "replace":
                values.append(int(replacement_char) if character is None else character)
                starts.append(start)
        splits.append(len(values))
    return np.array(splits, np.int64), np.array(values, np.int32), np.array(starts, np.int64)


def _decoded(string: bytes) -> Iterator[tuple[int, int | None]]:
    """The positions of the characters of a string, and the characters; None where bytes are not UTF-8."""
    errors: list[tuple[int, int]] = []

    def note(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        errors.append((error.start, error.end))
        return "\ufffd", error.end

    codecs.register_error("onnx_sparse.note", note)
    text = string.decode("utf-8", "onnx_sparse.note")
    ends = dict(errors)
    at = 0
    for character in text:
        if at in ends:
            yield at, None
            at = ends[at]
        else:
            yield at, ord(character)
            at += len(character.encode())


@implements(declarations.UNICODE_ENCODE)
def unicode_encode(input_values: Array, input_splits: Array, replacement_char: Array, *, errors: str) -> Array:
    """A string of the characters of each row [B]; see the semantics of UnicodeEncode."""
    require_row_splits("input_splits", input_splits, len(input_values))
    stand_in = int(replacement_char) if _is_character(int(replacement_char)) else _REPLACEMENT
    encoded = []
    for row in _rows(input_values.tolist(), input_splits):
        if errors == "ignore":
            row = [number for number in row if _is_character(number)]
        encoded.append("".join(chr(number if _is_character(number) else stand_in) for number in row).encode())
    return text_of(encoded)


def _is_character(number: int) -> bool:
    return 0 <= number < 0xD800 or 0xE000 <= number <= _LAST_CHARACTER


def _rows(values: Sequence[Any], splits: Array) -> Iterator[list[Any]]:
    for first, end in zip(splits[:-1].tolist(), splits[1:].tolist(), strict=True):
        yield list(values[first:end])


def _ragged(rows: Sequence[Iterable[bytes]]) -> tuple[Array, Array]:
    """The strings of all rows, and their row splits."""
    values = [list(row) for row in rows]
    splits = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return text_of(string for row in values for string in row), splits


@implements(declarations.AS_STRING)
def as_string(numbers: Array, precision: Array, width: Array, *, notation: str, fill: str) -> Array:
    """Numbers as text, in the same shape; see the semantics of AsString."""
    require_in_range("precision", precision, _MOST_DIGITS + 1, -1)
    require_in_range("width", width, _MOST_DIGITS + 1, -1)
    if numbers.dtype == bool:
        return np.where(numbers, "true", "false").astype(object)
    digits, size = int(precision) if precision >= 0 else 6, int(width)
    if numbers.dtype.kind in "iu":
        form = f"%{_FLAGS.get(fill, '') if numbers.dtype.kind == 'i' else ''}d"
    else:
        form = f"%{_FLAGS.get(fill, '')}.{digits}{_CONVERSIONS[notation]}"
        numbers = numbers.astype(np.float64)
    texts = [_padded(form % number, size, fill) for number in numbers.reshape(-1).tolist()]
    for k in np.flatnonzero(np.isnan(numbers) & np.signbit(numbers)):
        texts[k] = _padded("-nan", size, fill)
    return np.array(texts, object).reshape(numbers.shape)


def _padded(text: str, width: int, fill: str) -> str:
    if fill == "MINUS":
        return text.ljust(width)
    return text.zfill(width) if fill == "ZERO" and text[-1].isdigit() else text.rjust(width)
