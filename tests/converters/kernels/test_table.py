"""The table of what ONNX Runtime's kernels lack, against the installed version."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from onnx_sparse.converters.kernels import table
from onnx_sparse.converters.kernels.element_types import computed_as_one, computed_in, kernel_types
from onnx_sparse.converters.kernels.forms import has_kernel, is_refused, known_ranks, ranks, resized
from onnx_sparse.converters.kernels.probing import highest_opset, installed, lacking


def test_the_table_is_that_of_the_installed_version() -> None:
    """`python -m onnx_sparse.converters.kernels` renews it."""
    version = installed()
    assert table.probed().get(version) == highest_opset(), "the kernels of this version have not been probed"
    known = {
        subject: {thing for thing, versions in things.items() if version in versions}
        for subject, things in table.read().items()
        if int(subject.partition(", opset ")[2] or 0) <= highest_opset()
    }
    assert {subject: things for subject, things in known.items() if things} == lacking()


def test_a_form_that_one_version_lacks_has_no_kernel() -> None:
    assert has_kernel(resized(4, "linear", (2, 3)))
    assert has_kernel(resized(4, "linear", (3, 2)))
    assert not has_kernel(resized(4, "linear", (0, 2)))
    assert not has_kernel(resized(4, "cubic", (1, 2)))  # it enlarges these, but does not shrink them
    assert not is_refused(resized(4, "cubic", (2, 3)))
    assert is_refused(resized(4, "cubic", (0, 2)))


@pytest.mark.parametrize("rank", [6, 9])
def test_ranks_beyond_those_of_the_table(rank: int) -> None:
    assert not has_kernel(ranks("MaxPool", rank))
    assert has_kernel(ranks("Conv", rank))
    assert has_kernel(resized(rank, "nearest", (5,)))
    assert not has_kernel(resized(rank, "linear", (5,)))
    assert known_ranks("MaxPool") == [3, 4, 5]


def test_types_without_a_kernel() -> None:
    double, float_, int32, int64 = TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
    assert computed_in("Max", "T", TensorProto.INT16, 18) == int32
    assert computed_in("Cos", "T", double, 18) == float_  # versions up to 1.28
    assert computed_in("Add", "T", double, 18) == double
    assert computed_in("ReduceSum", "T", TensorProto.INT16, 18) == int32  # ONNX does not allow it either
    assert computed_in("NonZero", "T", double, 18) == TensorProto.BOOL  # a float may be 0 where the double is not
    assert computed_in("TopK", "T", TensorProto.UINT64, 18) == int64
    assert computed_in("ConvInteger", "T1", TensorProto.INT8, 18) == TensorProto.INT8
    assert computed_in("Nothing", "T", double, 18) == double
    assert computed_in("GridSample", "T1", double, 20, mixed=True) == float_
    assert computed_in("GridSample", "T1", double, 20) == double
    assert double not in kernel_types("Conv", "T", 18)


def test_types_without_a_kernel_beside_each_other() -> None:
    double, float_, half = TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16
    assert computed_as_one("GridSample", {"T1": double, "T2": float_}, 20) == double
    assert computed_as_one("GridSample", {"T1": float_, "T2": double}, 20) == double
    assert computed_as_one("BatchNormalization", {"T1": half, "T2": double}, 20) == double
    assert computed_as_one("BatchNormalization", {"T1": half, "T2": float_}, 20) == 0  # each has its kernel
    assert computed_as_one("QLinearMatMul", {"T1": TensorProto.INT8, "T2": TensorProto.UINT8}, 20) == 0


def test_a_lack_of_older_versions_only_is_no_refusal() -> None:
    assert table.lacking("Where T", 18) == {
        **dict.fromkeys(("bfloat16", "bool", "int16", "uint16", "uint64"), True),
        **dict.fromkeys(("int8", "uint32"), False),
    }
    assert table.lacking("Where T", 99) == table.lacking("Where T", 26)


def test_the_table_is_written_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table._TABLE.read_text("utf-8")
    opsets, things = table.probed(), table.read()
    monkeypatch.setattr(table, "_TABLE", tmp_path / "table.txt")
    table.write(opsets, things)
    assert (tmp_path / "table.txt").read_text("utf-8") == before
    versions = {"1.9": 22, "1.10": 23}
    table.write(versions, {"Pad rank": {"1": frozenset(versions)}, "Abs T, opset 23": {"int8": frozenset({"1.10"})}})
    assert (tmp_path / "table.txt").read_text("utf-8").splitlines() == [
        "operator set: 22: 1.9",
        "operator set: 23: 1.10",
        "Abs T, opset 23: int8: 1.9-1.10",
        "Pad rank: 1: 1.9-1.10",
    ]
