"""Arguments of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_sparse.errors import UsageError


def named_values(given: Sequence[str], form: str, option: str = "", *, at_last: bool = False) -> dict[str, str]:
    """The values by their names.

    Args:
        given: The arguments.
        form: What an argument looks like, for messages: `NAME=FILE`.
        option: The option that they belong to; none for arguments without one.
        at_last: Whether the last `=` ends the name, which may have others itself; else the first.

    Raises:
        UsageError: An argument has another form, or a name is given twice.
    """
    before = f"{option} " if option else ""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.rpartition("=") if at_last else text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{before}{text!r} is not {form}")
        if name in values:
            raise UsageError(f"{before}{name} is given twice")
        values[name] = value
    return values
