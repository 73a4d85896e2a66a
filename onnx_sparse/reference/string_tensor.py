"""String tensors as the bytes that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from onnx_sparse.reference.implementation import Array

_MOST_SHOWN = 64


def bytes_of(strings: Array) -> list[bytes]:
    """The bytes of every string, in row-major order; text stands for UTF-8, a surrogate in it for another byte."""
    return [s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in strings.reshape(-1)]


def text_of(strings: Iterable[bytes], shape: Sequence[int] = (-1,)) -> Array:
    """Strings as text, object[shape], in which a surrogate stands for a byte that is not UTF-8."""
    return np.array([string.decode("utf-8", "surrogateescape") for string in strings], object).reshape(shape)


def shown(text: bytes) -> str:
    """A text as messages write it: in quotes, at most 64 bytes of it, `?` for what is not printable ASCII."""
    printable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in text[:_MOST_SHOWN])
    return f"'{printable}{'...' * (len(text) > _MOST_SHOWN)}'"
