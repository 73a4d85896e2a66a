"""What tests/conftest.py promises: the same draws in every process, reports that can be sent, all pairs by day."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.parts_of_tests import split


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


def case(name: str, mark: str = "", *values: int) -> Mock:
    """A test that `split` takes for one of these parameters."""
    params = {f"p{k}": value for k, value in enumerate(values)}
    return Mock(
        nodeid=name,
        fixturenames=[],
        callspec=Mock(params=params),
        get_closest_marker={mark: Mock(args=(3,))}.get,
    )


@pytest.mark.parametrize("counts", [(2, 2, 2), (4, 3, 2), (1, 5, 2, 3)], ids=str)
def test_all_pairs_of_values_are_tested_by_day_and_all_cases_at_night(counts: tuple[int, ...]) -> None:
    values = [*itertools.product(*map(range, counts))]
    cases = [case(f"a.py::test[{chosen}]", "pairwise", *chosen) for chosen in values]
    items = [case("a.py::first"), *cases, case("a.py::last")]
    kept, left = split(items, whole=False)
    assert [items[0], items[-1]] == [kept[0], kept[-1]]
    assert kept + left != items
    assert {*kept, *left} == {*items}
    pairs = [{*itertools.combinations(item.callspec.params.items(), 2)} for item in (*kept, *cases)]
    assert set().union(*pairs[: len(kept)]) == set().union(*pairs)
    assert split(items, whole=True) == (cases, [items[0], items[-1]])


def test_one_of_so_many_cases_runs_by_day() -> None:
    cases = [case(f"a.py::{name}[{k}]", "one_of") for name in ("test", "other") for k in range(5)]
    kept, left = split([case("a.py::first"), *cases], whole=False)
    assert [item.nodeid for item in kept] == [
        "a.py::first",
        *(f"a.py::{n}[{k}]" for n in ("test", "other") for k in (0, 3)),
    ]
    assert len(left) == 6
