"""What tests/conftest.py promises: the same draws in every process, and reports that a worker can send."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    values: list[int] = []

    @given(st.integers())
    def check(value: int) -> None:
        values.append(value)

    check()
    return values


def test_modules_that_are_loaded_do_not_change_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = settings.get_current_profile_name()
    settings.register_profile("many", settings.get_profile("all"), max_examples=300)
    settings.load_profile("many")
    try:
        before = drawn()
        (tmp_path / "module_of_constants.py").write_text(f"CONSTANTS = {list(range(10**6, 10**6 + 1000))}")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.import_module("module_of_constants")
        assert drawn() == before
    finally:
        settings.load_profile(profile)


def test_a_message_with_a_part_of_a_character_is_sent(request: pytest.FixtureRequest) -> None:
    report = pytest.TestReport("a", ("a", 1, "a"), {}, "failed", "got b'\udcc3'", "call", [("output", "\ud800")])
    hook = request.config.hook
    data = hook.pytest_report_to_serializable(config=request.config, report=report)
    again = hook.pytest_report_from_serializable(config=request.config, data=data)
    assert again.longrepr == r"got b'\udcc3'"
    assert again.sections == [("output", r"\ud800")]
    assert again.location == report.location
