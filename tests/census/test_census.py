"""A few operators of the census; `python -m census` takes it whole, and `--page` writes what it found."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("expecttest", reason="torch's own tests, which have the samples, need it")

from census.cases import cases, operators
from census.expected import EXPECTED, FAULTS
from census.page import PAGE, page, recorded
from census.walk import walk
from onnx_sparse.converters.torch import conversion, translation_table


def faults(name: str) -> list[str]:
    """What is wrong with an operator's calls."""
    found = walk(list(cases(operators()[name], 1, 0, 1)))
    return [f"{each.outcome} {each.case.label}: {each.reason}" for each in found if each.outcome in FAULTS]


@pytest.mark.parametrize("name", ["clamp_min", "index_add"])
def test_operator(name: str) -> None:
    assert faults(name) == []


def test_a_missing_handler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = translation_table()
    theirs = {key: value for key, value in ours.items() if "diagonal" not in str(key)}
    assert len(theirs) < len(ours)
    monkeypatch.setattr(conversion, "translation_table", lambda **_: theirs)
    assert any("wrong" in fault for fault in faults("diagonal"))


def test_whole_numbers_are_given_as_sizes() -> None:
    sized = [case for case in cases(operators()["topk"], 1, 0, 1) if case.sized is not None]
    assert all(case.tensors[-1].shape[0] == case.leaves[case.sized] + 3 for case in sized)
    assert sized


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m census --page` in tests"


def test_every_fault_that_was_recorded_is_expected() -> None:
    _, lines = recorded()
    assert {line["operator"]: line["unexpected"] for line in lines if line["unexpected"]} == {}


def test_every_expected_fault_was_recorded() -> None:
    _, lines = recorded()
    gone = [
        each.operators
        for each in EXPECTED
        if not any(each.holds(line["operator"], outcome, "") for line in lines for outcome in line["counts"])
    ]
    assert gone == []
