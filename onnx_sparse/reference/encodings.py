"""Encoded bytes, in Python."""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import element_name, require_allocatable
from onnx_sparse.reference.string_tensor import bytes_of, shown, text_of
from onnx_sparse.schemas import encodings as declarations
from onnx_sparse.schemas.declaration import dtype_name, element_type
from onnx_sparse.schemas.validation import KernelError

_BASE64 = re.compile(rb"(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?", re.DOTALL)

#: zlib's `wbits` of each format.
_FORMATS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}


@implements(declarations.DECODE_BASE64)
def decode_base64(strings: Array) -> Array:
    """The decoded bytes of strings, in the same shape; see the semantics of DecodeBase64."""

    def decoded(text: bytes, where: str) -> bytes:
        if not _BASE64.fullmatch(text):
            raise KernelError(f"{where} = {shown(text)} is not web-safe base64")
        return base64.urlsafe_b64decode(text.rstrip(b"=") + b"==")

    return _mapped(decoded, strings)


@implements(declarations.ENCODE_BASE64)
def encode_base64(strings: Array, *, padding: str = "NONE") -> Array:
    """The encoded strings, in the same shape; see the semantics of EncodeBase64."""
    encoded = map(base64.urlsafe_b64encode, bytes_of(strings))
    return text_of((text if padding == "EQUALS" else text.rstrip(b"=") for text in encoded), strings.shape)


@implements(declarations.DECODE_RAW)
def decode_raw(strings: Array, fixed_length: Array, like: Array, *, byte_order: str = "LITTLE") -> Array:
    """The numbers [*S, L] in strings [*S]; see the semantics of DecodeRaw."""
    texts, size = bytes_of(strings), like.dtype.itemsize
    name = dtype_name(element_type(like.dtype))
    length = int(fixed_length)
    if length == -1:
        length = _common_length(texts, strings.shape, size, name)
    elif length <= 0 or length % size:
        raise KernelError(f"fixed_length = {length} is not a positive multiple of {size}, the size of {name}, nor -1")
    shape = (*strings.shape, length // size)
    require_allocatable(shape, like.dtype, f"fixed_length = {length}")
    memory = b"".join(text[:length].ljust(length, b"\0") for text in texts)
    rows = np.frombuffer(memory, np.uint8).reshape(-1, size)
    if byte_order == "BIG":
        rows = rows[:, ::-1]
    if like.dtype == bool:
        numbers: Array = rows != 0
    else:
        numbers = np.ascontiguousarray(rows).view(like.dtype.newbyteorder("<")).astype(like.dtype, copy=False)
    return numbers.reshape(shape)


def _common_length(texts: Sequence[bytes], shape: Sequence[int], size: int, name: str) -> int:
    """The number of bytes that each text has."""
    length = len(texts[0]) if texts else 0
    for k, text in enumerate(texts):
        if len(text) != length:
            first = element_name("input", (0,) * len(shape))
            raise KernelError(f"{_name(k, shape)} has {len(text)} bytes but {first} has {length}; expected as many")
    if length % size:
        raise KernelError(f"{_name(0, shape)} has {length} bytes; a multiple of {size}, the size of {name}, expected")
    return length


@implements(declarations.DECODE_COMPRESSED)
def decode_compressed(strings: Array, *, compression: str) -> Array:
    """The decompressed bytes of strings, in the same shape; see the semantics of DecodeCompressed."""

    most = (int(os.environ.get("ONNX_SPARSE_DECOMPRESSED_MIB") or 0) or 1024) << 20
    total = 0

    def decompressed(text: bytes, where: str) -> bytes:
        nonlocal total
        content = b""
        while text:
            stream = zlib.decompressobj(_FORMATS[compression])
            try:
                content += stream.decompress(text, most - total - len(content) + 1)
            except zlib.error:
                raise KernelError(f"{where} has damaged data of {compression}") from None
            if len(content) > most - total:
                raise KernelError(
                    f"the strings decompress to more than {most} bytes, up to {where}; ONNX_SPARSE_DECOMPRESSED_MIB "
                    "allows more"
                )
            if not stream.eof:
                raise KernelError(f"{where} ends inside its data of {compression}")
            text = stream.unused_data if compression == "GZIP" else b""
        total += len(content)
        return content

    return _mapped(decompressed, strings)


def _mapped(function: Callable[[bytes, str], bytes], strings: Array) -> Array:
    """What a function makes of each string and its name in messages."""
    texts = [function(text, _name(k, strings.shape)) for k, text in enumerate(bytes_of(strings))]
    return text_of(texts, strings.shape)


def _name(k: int, shape: Sequence[int]) -> str:
    return element_name("input", tuple(map(int, np.unravel_index(k, shape))))
