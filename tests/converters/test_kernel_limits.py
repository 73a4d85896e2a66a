"""The table of the forms of operators that ONNX Runtime's kernels lack, against the installed version."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest

from onnx_sparse.converters.onnxruntime import kernel_limits
from onnx_sparse.converters.onnxruntime.kernel_limits import has_kernel, read, write
from onnx_sparse.converters.onnxruntime.kernel_probes import refused

INSTALLED = ".".join(ort.__version__.split(".")[:2])


def test_the_table_is_that_of_the_installed_version() -> None:
    """`python -m onnx_sparse.converters.onnxruntime.kernel_probes` renews it."""
    assert INSTALLED in read(), "the kernels of this version have not been probed"
    assert sorted(read()[INSTALLED]) == sorted(refused())


def test_a_form_that_one_version_lacks_has_no_kernel() -> None:
    assert has_kernel("Resize", 4, "linear", (2, 3))
    assert has_kernel("Resize", 4, "linear", (3, 2))
    assert not has_kernel("Resize", 4, "linear", (0, 2))
    assert "Resize cubic, rank 4, axes 1 2" not in read()["1.32"]
    assert not has_kernel("Resize", 4, "cubic", (1, 2))  # 1.21 lacks it


@pytest.mark.parametrize("rank", [6, 9])
def test_ranks_beyond_those_of_the_table(rank: int) -> None:
    assert has_kernel("Resize", rank, "nearest", (5,))
    assert not has_kernel("Resize", rank, "linear", (5,))
    assert not has_kernel("MaxPool", rank)
    assert has_kernel("Conv", rank)


def test_the_table_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_limits._TABLE.read_text("utf-8")
    monkeypatch.setattr(kernel_limits, "_TABLE", tmp_path / "table.txt")
    (tmp_path / "table.txt").write_text(before, "utf-8")
    write(read())
    assert (tmp_path / "table.txt").read_text("utf-8") == before
    write(read() | {"9.10": {"Pad, rank 1"}, "9.9": set()})
    assert (tmp_path / "table.txt").read_text("utf-8").splitlines()[0].endswith(" 1.32 9.9 9.10")
