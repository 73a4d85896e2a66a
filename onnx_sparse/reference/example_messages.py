"""Reading serialized tf.Example and tf.SequenceExample messages (tensorflow/core/example/*.proto) as TensorFlow does.

It has a reader of its own for each of the two; the one of sequences is stricter in some places, and laxer in others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import TensorProto

#: The first byte of a feature, its list's field, says what the list holds.
ELEMENT_TYPES = {0x0A: TensorProto.STRING, 0x12: TensorProto.FLOAT, 0x1A: TensorProto.INT64}

#: The tag of the list of each type.
LIST_TAGS: dict[int, int] = {dtype: tag for tag, dtype in ELEMENT_TYPES.items()}

#: The tag of a message's features, of their entries, an entry's key, and of whatever a list holds in one piece.
_FIRST_FIELD = 0x0A
#: The tag of an entry's feature.
_SECOND_FIELD = 0x12
_FIXED32 = 0x0D
_VARINT = 0x08

#: The most bytes of a varint.
_LONGEST_VARINT = 10


class Malformed(Exception):  # noqa: N818 - it is caught where the message and the feature are known
    """The bytes are not what they should be."""


class AnotherList(Malformed):
    """A feature has a list of another type.

    Attributes:
        dtype: The element type of the list; None where no list is known.
    """

    def __init__(self, dtype: int | None) -> None:
        super().__init__()
        self.dtype = dtype


class Reader:
    """A part of a message, read from its first byte to its last."""

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self._data = data
        self._position = position
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return self._end - self._position

    def skip_tag(self, tag: int) -> bool:
        """Go past a tag if it is the next byte."""
        found = self.left > 0 and self._data[self._position] == tag
        self._position += found
        return found

    def expect_tag(self, tag: int) -> None:
        """Go past a tag."""
        if not self.skip_tag(tag):
            raise Malformed

    def expect_list(self, dtype: int) -> None:
        """Go past the tag of a list of a type."""
        if not self.skip_tag(LIST_TAGS[dtype]):
            raise AnotherList(ELEMENT_TYPES.get(self._data[self._position]) if self.left else None)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count > self.left:
            raise Malformed
        self._position += count
        return self._data[self._position - count : self._position]

    def varint(self) -> int:
        """An unsigned integer of 64 bits."""
        value = 0
        for position in range(_LONGEST_VARINT):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                return value % 2**64
        raise Malformed

    def length(self) -> int:
        """A length: the lower 32 bits of an integer."""
        return self.varint() % 2**32

    def nested(self) -> Reader:
        """A part with its length before it; it ends with this one if it should be longer."""
        return self.part(self.length())

    def part(self, length: int) -> Reader:
        """A part of that many bytes; it ends with this one if it should be longer."""
        inner = Reader(self._data, self._position, min(self._position + length, self._end))
        self._position = inner._end
        return inner

    def continue_from(self, inner: Reader) -> None:
        """Go back to where the reading of a part ended."""
        self._position = inner._position

    def skip_field(self) -> None:
        """Go past a field that is not known; one that should be longer than the rest ends with it."""
        wire_type = self.length() & 7
        if wire_type == 0:
            self.varint()
        elif wire_type == 1:
            self.take(8)
        elif wire_type == 2:
            length = self.length()
            if length < 2**31:  # TensorFlow skips nothing where the length is negative as an int
                self.take(min(length, self.left))
        elif wire_type == 5:
            self.take(4)
        else:
            raise Malformed


def entries(message: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a message's map of features: keys and serialized features.

    Raises:
        Malformed: The message is not a tf.Example.
    """
    reader = Reader(message)
    while reader.left:
        if not reader.skip_tag(_FIRST_FIELD):
            reader.skip_field()
            continue
        features = reader.nested()
        while features.left:
            features.expect_tag(_FIRST_FIELD)
            entry = features.nested()
            fields = {_FIRST_FIELD: b"", _SECOND_FIELD: b""}
            for _ in fields:  # in either order
                tag = entry.length()
                if tag not in fields:
                    raise Malformed
                fields[tag] = entry.take(entry.length())
            if entry.left:
                raise Malformed
            yield fields[_FIRST_FIELD], fields[_SECOND_FIELD]


def sequence_entries(message: bytes) -> Iterator[tuple[bool, bytes, bytes]]:
    """The entries of the two maps of a tf.SequenceExample: whether of its feature lists, keys, and serialized features.

    Raises:
        Malformed: The message is not a tf.SequenceExample.
    """
    reader = Reader(message)
    while reader.left:
        if not (of_context := reader.skip_tag(_FIRST_FIELD)) and not reader.skip_tag(_SECOND_FIELD):
            reader.skip_field()
            continue
        entries = reader.nested()
        while entries.left:
            entries.expect_tag(_FIRST_FIELD)
            entry = entries.nested()
            entry.expect_tag(_FIRST_FIELD)
            key = entry.take(entry.length())
            entry.expect_tag(_SECOND_FIELD)
            content = entry.take(entry.length())
            if entry.left:
                raise Malformed
            yield not of_context, key, content


def single(content: bytes, dtype: int) -> Iterator[list[Any]]:
    """The values of a feature of the context, as `of_sequence` returns them; one that has no list has no values.

    Raises:
        Malformed: It is damaged.
        AnotherList: It has a list of another type.
    """
    yield of_sequence(Reader(content), dtype) if content else []


def steps(content: bytes, dtype: int) -> Iterator[list[Any]]:
    """The values of each feature in a feature list, as `of_sequence` returns them.

    Raises:
        Malformed: A feature is damaged.
        AnotherList: A feature has a list of another type.
    """
    reader = Reader(content)
    while reader.left:
        reader.expect_tag(_FIRST_FIELD)
        length = reader.length()
        if length > 2:
            feature = reader.part(length)
            values = of_sequence(feature, dtype)
            reader.continue_from(feature)
        else:
            values = []
            if length == 1:
                raise Malformed
            if length == 2:  # the tag and the length of an empty list
                reader.expect_list(dtype)
                if reader.length():
                    raise Malformed
        yield values


def of_sequence(feature: Reader, dtype: int) -> list[Any]:
    """The values of a feature in a tf.SequenceExample: bytes, the four bytes of floats, or integers modulo 2**64.

    Raises:
        Malformed: The feature is damaged.
        AnotherList: It has a list of another type.
    """
    feature.expect_list(dtype)
    values, found = feature.nested(), []
    if dtype == TensorProto.STRING:
        while values.left:
            values.expect_tag(_FIRST_FIELD)
            found.append(values.take(values.length()))
    elif values.left and values.skip_tag(_FIRST_FIELD):  # in one piece
        piece = values.nested()
        while piece.left:
            found.append(_number(piece, dtype))
        values.continue_from(piece)
    else:
        while values.left:
            values.expect_tag(_FIXED32 if dtype == TensorProto.FLOAT else _VARINT)
            found.append(_number(values, dtype))
    feature.continue_from(values)
    return found


def _number(reader: Reader, dtype: int) -> Any:
    return reader.take(4) if dtype == TensorProto.FLOAT else reader.varint()


def strings(feature: bytes) -> list[bytes]:
    """The values of a feature that has a BytesList.

    Raises:
        Malformed: The list is damaged.
    """
    values, found = Reader(feature, 1).nested(), []
    while values.left:
        values.expect_tag(_FIRST_FIELD)
        found.append(values.take(values.length()))
    return found


def floats(feature: bytes) -> bytes:
    """The values of a feature that has a FloatList, little-endian.

    Raises:
        Malformed: The list is damaged.
    """
    values = Reader(feature, 1).nested()
    if values.skip_tag(_FIRST_FIELD):  # in one piece
        return values.take(values.length() // 4 * 4)
    found = b""
    while values.left:
        values.expect_tag(_FIXED32)
        found += values.take(4)
    return found


def integers(feature: bytes) -> list[int]:
    """The values of a feature that has an Int64List, modulo 2**64.

    Raises:
        Malformed: The list is damaged.
    """
    values, found = Reader(feature, 1).nested(), []
    if values.skip_tag(_FIRST_FIELD):  # in one piece
        piece = values.nested()
        while piece.left:
            found.append(piece.varint())
        return found
    while values.left:
        values.expect_tag(_VARINT)
        found.append(values.varint())
    return found
