"""Bodies that are compressed by gzip or zlib, which HTTP calls deflate."""

from __future__ import annotations

import zlib

from onnx_sparse.serving.errors import RequestError

#: zlib's window bits for each format that HTTP names, and for any of them.
_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_ANY = zlib.MAX_WBITS | 32
#: The streams of gzip in a body.
_MOST_PARTS = 64
#: The bytes that are read and decompressed at once; and the least of an answer that is compressed, and how well.
_PIECE, _LEAST, _LEVEL = 1 << 16, 1 << 10, 1


def check_encoding(name: str) -> bool:
    """Whether a body is compressed, by the name of its encoding.

    Raises:
        RequestError: The encoding is not known.
    """
    if name not in ("identity", *_BITS):
        raise RequestError(f"the body has the encoding {name[:40]!r}; {', '.join(_BITS)} and none are read", 415)
    return name != "identity"


def decompressed(body: bytes | bytearray, most: int) -> bytearray:
    """A body that was compressed.

    Args:
        body: The body.
        most: How many bytes it may have.

    Raises:
        RequestError: It is damaged, or has more bytes.
    """
    found, parts = bytearray(), 0
    stream = None
    try:
        for at in range(0, len(body), _PIECE):
            rest = bytes(body[at : at + _PIECE])
            while rest:
                if stream is None:  # the parts of gzip follow each other
                    stream, parts = zlib.decompressobj(_ANY), parts + 1
                if parts > _MOST_PARTS:
                    raise RequestError(f"the compressed body has more than {_MOST_PARTS} parts")
                found += stream.decompress(rest, _PIECE)
                if len(found) > most:
                    found.clear()  # the error keeps it for a while
                    raise RequestError(f"the body has more than {most} bytes, the most that this server takes", 413)
                rest = stream.unconsumed_tail
                if stream.eof:
                    rest, stream = stream.unused_data, None
        if stream is not None:
            raise RequestError("the compressed body ends too soon")
    except zlib.error as error:
        raise RequestError(f"the compressed body is damaged: {error}") from error
    return found


def answer_encoding(accepted: str, size: int) -> str | None:
    """How an answer is compressed, None for not at all.

    Args:
        accepted: The header Accept-Encoding.
        size: The bytes of the answer.
    """
    if size < _LEAST:
        return None
    for choice in accepted.split(","):
        name, _, parameters = choice.partition(";")
        if name.strip() in _BITS and parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return name.strip()
    return None


def compressed(content: bytes | bytearray, encoding: str) -> bytearray:
    """An answer that is compressed."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _BITS[encoding])
    found = bytearray(stream.compress(content))
    found += stream.flush()
    return found
