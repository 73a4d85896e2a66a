"""The page of the fields of `--json`. The fixture `cli` compares every document of all tests with it."""

from __future__ import annotations

import pytest
from support.json_fields import declared, misfits

from onnx_sparse.cli import _commands

COMPLETION = {"shell": "bash", "script": ""}
FINDING = {"level": "error", "where": "model", "message": ""}
CHECK = {"model": "m.onnx", "ok": True, "findings": [FINDING], "form": "plain", "not_for": {"any tool": "why"}}


def test_the_page_has_every_command() -> None:
    assert set(declared()) == {"Errors", *(command.NAME for command in _commands())}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"age": 3}, [".age is unknown"]),
        ({"ok": 1}, [".ok = 1 is not of the type 'true or false'"]),
        ({"findings": [FINDING | {"line": 3}]}, [".findings[].line is unknown"]),
        ({"findings": [{"level": "error", "where": "model"}]}, [".findings[].message is missing"]),
        ({"not_for": {"any tool": None}}, [".not_for.any tool = None is not of the type 'text'"]),
    ],
)
def test_what_is_not_on_the_page_is_found(change: dict[str, object], found: list[str]) -> None:
    assert misfits("check", CHECK | change) == found


def test_an_error_has_what_there_was_until_then() -> None:
    assert misfits("check", {"error": "damaged"}) == []
    assert misfits("completion", COMPLETION) == []
    assert misfits("completion", {"shell": "bash"}) == [".script is missing"]
