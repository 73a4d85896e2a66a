"""The table of Unicode's properties has what the RE2 of the installed TensorFlow has."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow")

from support.unicode_classes import TABLE, lines_of  # noqa: E402

from onnx_sparse.converters.tensorflow.unicode_classes import property_ranges  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("names", ["Mn Lu Zs Po Cf", "Greek Han Common"])
def test_the_table_is_that_of_tensorflow(names: str) -> None:
    written = TABLE.read_text("utf-8").splitlines()
    assert [line for line in written if line.split()[0] in names.split()] == sorted(
        lines_of(names.split()), key=written.index
    )


def test_groups_of_categories() -> None:
    letters = property_ranges("L")
    assert letters is not None
    assert sum(last - first + 1 for first, last in letters) == sum(
        last - first + 1 for name in ("Ll", "Lm", "Lo", "Lt", "Lu") for first, last in property_ranges(name) or ()
    )
    assert property_ranges("Cn") is None
    assert property_ranges("X") is None
