"""Reading serialized tf.Example messages (tensorflow/core/example/feature.proto), as leniently as TensorFlow does."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

#: The first byte of a feature, its list's field, says what the list holds.
ELEMENT_TYPES = {0x0A: TensorProto.STRING, 0x12: TensorProto.FLOAT, 0x1A: TensorProto.INT64}

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
        length = self.length()
        inner = Reader(self._data, self._position, min(self._position + length, self._end))
        self._position = inner._end
        return inner

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
