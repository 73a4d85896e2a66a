"""The census of refusals: reasons in their normal form, and a new one, which nobody has judged, is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals.__main__ import tabulated, wrong
from refusals.judgments import JUDGMENTS
from refusals.page import PAGE, page, record, recorded
from refusals.reasons import MOST_OF_OURS, OURS, RARE, TRUE, Judgment, normal
from refusals.sources import SOURCES

NAMES = st.from_regex(r"[a-z_/]+", fullmatch=True)
SHAPES = st.lists(st.integers(0, 10**6), max_size=4).map(str)


@given(NAMES, NAMES, SHAPES, SHAPES, st.integers(), st.integers())
def test_what_differs_from_model_to_model_is_left_out(name, other, shape, another, number, last):
    """Names, shapes and numbers do; words do not."""
    said = normal(f"'{name}' of float{shape} has {number}\n pads")
    assert said == normal(f"'{other}' of float{another} has {last} pads")
    assert said != normal(f"'{name}' of float{shape} has {number} axes")


def test_a_reason_that_nobody_has_judged_is_found():
    table, seen = tabulated([("torch", "abs", "the moon is full"), ("torch", "abs", ""), ("onnx", "Abs", "")])
    assert (table, dict(seen)) == ({("torch", "the moon is full"): (1, "abs")}, {"torch": 2, "onnx": 1})
    assert wrong(table) == ["not judged: torch, 1 times, abs: the moon is full"]


@pytest.mark.parametrize("verdict", [TRUE, RARE, OURS])
@pytest.mark.parametrize("count", [MOST_OF_OURS - 1, MOST_OF_OURS])
def test_frequent_reasons_of_ours_are_found(verdict, count):
    table, _ = tabulated([("onnx", "Abs", "the moon is full")] * count)
    said = wrong(table, (Judgment("onnx", "moon", verdict, "it is"),))
    assert said == ["to be cured: onnx, 5 times, Abs: the moon is full"] * (verdict == OURS and count == MOST_OF_OURS)


def test_judgments_are_of_roads_that_there_are():
    assert {judgment.roads for judgment in JUDGMENTS} <= set(SOURCES)
    assert all(judgment.verdict in (TRUE, OURS, RARE) and judgment.why for judgment in JUDGMENTS)


def test_the_census_of_torch_is_judged():
    """Whose record is here; what is drawn is judged at night."""
    table, _ = tabulated(SOURCES["torch"](0, 0))
    assert table
    assert wrong(table) == []


def test_the_page_is_current():
    assert PAGE.read_text("utf-8") == page(recorded()), "run `python -m refusals --roads torch --record` in tests"


def test_a_record_replaces_that_of_its_road_only(tmp_path):
    path = tmp_path / "record.jsonl"
    for count in (1, 2):
        record("torch", {("torch", "complex32"): (count, "abs")}, 3, path)
        record("onnx", {}, count, path)
    assert {name: line["cases"] for name, line in recorded(path).items()} == {"onnx": 2, "torch": 3}
    assert recorded(path)["torch"]["refused"] == [[2, "abs", "complex32"]]
    text = page(recorded(path))
    assert "Of 3 cases, 2 were refused (66.7%)" in text
    assert "| 2 | `abs` | cannot be converted |" in text


def test_a_page_with_a_reason_that_nobody_has_judged_is_refused():
    with pytest.raises(ValueError, match=r"nobody has judged the reason 'the moon is full' of abs"):
        page({"torch": {"road": "torch", "cases": 1, "refused": [[1, "abs", "the moon is full"]]}})
