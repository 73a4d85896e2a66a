"""The errors of what people ask for, and text from files as one line that a terminal can show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FAILED, USAGE = 1, 2


class CommandError(Exception):
    """The command failed; the message is the one line that the user sees.

    Attributes:
        exit_code: The exit status of the process.
        details: What `--json` shows beyond the message.
        lines: Lines below the message: a list that one line cannot hold.
    """

    exit_code = FAILED

    def __init__(self, message: object, *, details: Mapping[str, Any] | None = None, lines: Sequence[str] = ()) -> None:
        super().__init__(one_line(message))
        self.details = dict(details or {})
        self.lines = tuple(lines)


class UsageError(CommandError):
    """The arguments of the command make no sense."""

    exit_code = USAGE


def printable(value: object) -> str:
    """The text with unprintable characters escaped. Names that are not legal UTF-8 come as bytes."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def without_addresses(text: str) -> str:
    """A message of Python or a library without the addresses of its objects, which differ from run to run."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def one_line(value: object) -> str:
    """A message as one line."""
    return printable(without_addresses(" ".join(str(value).split())))


#: What onnx and ONNX Runtime say of a tensor whose data file is not there.
_NO_DATA = (
    r'.*initializer: (?P<tensor>.*?)\. Error: .*External data path does not exist: "(?P<file>.*?)"',
    r".*Data of TensorProto \( tensor name: (?P<tensor>.*?)\) should be stored in (?P<file>.*?), but it .*",
)


def about_data(message: str) -> str:
    """A message of onnx or ONNX Runtime; in plain words if it is about a data file that is not there."""
    for pattern in _NO_DATA:
        if found := re.match(pattern, message):
            file, tensor = found["file"].removeprefix("./"), found["tensor"]
            return f"the data of tensor {tensor!r} are in {file}, which is missing; copy it there with the model"
    return message


def meant(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: `" (did you mean 'items'?)"`; nothing if no known name is near."""
    close = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
