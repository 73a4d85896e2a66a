"""Serialized messages as an array that ONNX Runtime's Python API passes on as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

#: The tag of a field that neither tf.Example nor tf.SequenceExample has.
_UNKNOWN_FIELD = b"\x1a"


def example_array(messages: bytes | Iterable[bytes]) -> np.ndarray[Any, Any]:
    """Serialized tf.Example or tf.SequenceExample messages as an input of a session.

        feeds = {"serialized": onnx_sparse.example_array([b"\\n\\x00", b""])}

    ONNX Runtime's Python API takes strings with zero bytes, or bytes that are not UTF-8, only in arrays of numpy's type
    void, whose elements have the same number of bytes. So all but the longest messages get a field before them that
    every parser skips.

    Args:
        messages: The messages, such as `tf.train.Example.SerializeToString()`, or a single one.

    Returns:
        An array [B] of type void, or [] for a single message.

    Raises:
        TypeError: A message is not bytes.
    """
    if isinstance(messages, bytes):
        return example_array([messages]).reshape(())
    given = list(messages)
    for message in given:
        if not isinstance(message, bytes):
            raise TypeError(f"a message is {type(message).__name__}; bytes expected")
    lengths = {len(message) for message in given}
    width = max(lengths, default=0) or 2  # numpy has no elements without bytes
    while width - 1 in lengths:  # no field has one byte
        width += 1
    array = np.empty(len(given), f"V{width}")
    array[:] = [_filling(width - len(message)) + message for message in given]
    return array


def _filling(size: int) -> bytes:
    """A field of that many bytes."""
    if not size:
        return b""
    length_bytes = next(count for count in range(1, 6) if size - 1 - count < 128**count)
    content = size - 1 - length_bytes
    length = [content >> 7 * k & 0x7F | 0x80 for k in range(length_bytes)]
    length[-1] &= 0x7F
    return _UNKNOWN_FIELD + bytes(length) + bytes(content)
