"""JSON as people send it, for requests and for files of rows: one reader, with Python's exactness.

Integers have any size, the last of equal keys counts, and `NaN`, `Infinity` and `-Infinity` are read. A number that no
double holds, as 1e999, is an error, not an infinity.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

try:
    import msgspec
except ImportError:  # the extras `serve` and `score` install it: it takes a third of the time
    msgspec = None  # type: ignore[assignment]

#: What is in every text with a number beyond doubles, and in few others.
_PERHAPS_LARGE = re.compile(rb"[eE]\+?0*[1-9]\d\d|(?<!\d)\d{200}")


def parsed(text: bytes | bytearray) -> Any:
    """The value in a text in UTF-8.

    Raises:
        ValueError: It is not JSON, or has a number that no double holds.
        RecursionError: It is nested too deeply.
    """
    if msgspec is not None:
        with suppress(msgspec.DecodeError, RecursionError):  # of NaN and infinities; Python's errors are better
            return msgspec.json.decode(text)
    return json.loads(text, parse_float=_finite if _PERHAPS_LARGE.search(text) else None)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number
