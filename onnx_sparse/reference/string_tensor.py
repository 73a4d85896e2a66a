"""String tensors as the bytes that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from onnx_sparse.reference.implementation import Array


def bytes_of(strings: Array) -> list[bytes]:
    """The bytes of every string, in row-major order; text stands for UTF-8, a surrogate in it for another byte."""
    return [s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in strings.reshape(-1)]


def text_of(strings: Iterable[bytes], shape: Sequence[int] = (-1,)) -> Array:
    """Strings as text, object[shape], in which a surrogate stands for a byte that is not UTF-8."""
    return np.array([string.decode("utf-8", "surrogateescape") for string in strings], object).reshape(shape)
