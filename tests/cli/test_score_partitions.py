"""`onnx-sparse score --partition-by`: each row is in one folder, once, for keys of every type that pyarrow has."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from onnx import TensorProto, helper, save

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from onnx_sparse.errors import CommandError  # noqa: E402
from onnx_sparse.scoring.partitions import Partitions  # noqa: E402
from onnx_sparse.scoring.places import Place  # noqa: E402

NAN = float("nan")
OTHER_NAN = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
FLOATS = [0.0, -0.0, NAN, OTHER_NAN, float("inf"), 1.5]
TEXTS = ["", "a", "A", "a/b", "__HIVE_DEFAULT_PARTITION__", "ä", "nan"]
TIMES = [0, 1, 1000, -1, 10**9, 86399 * 10**9]
DECIMALS = [decimal.Decimal(text) for text in ("0.00", "-0.00", "1.50", "-1.50")]

#: Some values of each type, whose neighbors are equal in one sense and not in another.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.null(): [None],
    pa.bool_(): [True, False],
    **{kind: [0, 1, 127] for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())},
    pa.int64(): [-(2**63), 2**63 - 1, 2**63 - 2, 2**53, 2**53 + 1],
    pa.uint64(): [2**64 - 1, 2**64 - 2, 0],
    pa.float16(): [np.float16(value) for value in FLOATS],
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.decimal128(10, 2): DECIMALS,
    pa.decimal256(50, 2): DECIMALS,
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), TEXTS),
    **{kind: [b"", b"a", b"\xff", b"\xff\0"] for kind in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(2): [b"ab", b"\xff\0"],
    pa.date32(): [0, 1, -1],
    pa.date64(): [0, 86400000],
    pa.time32("s"): [0, 1],
    pa.time32("ms"): [0, 1, 1000],
    pa.time64("us"): [0, 1, 1000],
    pa.time64("ns"): [time for time in TIMES if time >= 0],
    **{pa.timestamp(unit): [0, 1, 1000, -1] for unit in ("s", "ms", "us")},
    pa.timestamp("ns"): TIMES,
    pa.timestamp("ns", "Europe/Berlin"): TIMES,
    pa.timestamp("us", "UTC"): TIMES,
    **{pa.duration(unit): [0, 1, 1000, -1] for unit in ("s", "ms", "us", "ns")},
    pa.month_day_nano_interval(): [(1, 2, 3), (0, 0, 1)],
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.dictionary(pa.int32(), pa.float64()): FLOATS,
    pa.run_end_encoded(pa.int32(), pa.string()): TEXTS,
    **({pa.uuid(): [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes]} if hasattr(pa, "uuid") else {}),
}
REFUSED = [pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.map_(pa.string(), pa.int64()), pa.list_(pa.int8(), 2)]


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(values) + 1), pa.int32())
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, kind.value_type))
    return pa.array(values, kind)


@strategies.composite
def columns(draw: strategies.DrawFn, rows: int) -> pa.ChunkedArray:
    kind = draw(strategies.sampled_from(list(VALUES)))
    values = draw(strategies.lists(strategies.sampled_from([None, *VALUES[kind]]), min_size=rows, max_size=rows))
    cut = draw(strategies.integers(0, rows))
    return pa.chunked_array([array(kind, values[:cut]), array(kind, values[cut:])], kind)


@hypothesis.given(strategies.data(), strategies.integers(0, 12), strategies.integers(1, 3))
@hypothesis.settings(max_examples=150, deadline=None)
def test_the_rows_of_all_folders_are_those_of_the_file(data: strategies.DataObject, rows: int, keys: int) -> None:
    names = [f"k{number}" for number in range(keys)]
    drawn = [data.draw(columns(rows)) for _ in names]
    table = pa.table([pa.array(range(rows)), *drawn], names=["row", *names])
    parts = list(Partitions(Place("out/rows.parquet"), names).split(table))
    assert Counter(row for _, part in parts for row in part["row"].to_pylist()) == Counter(range(rows))
    assert all(count == 1 for count in Counter(place for place, _ in parts).values())
    for place, part in parts:
        assert part.column_names == ["row"]
        assert part["row"].to_pylist() == sorted(part["row"].to_pylist())
        assert [folder.partition("=")[0] for folder in Path(place.path).parts[1:-1]] == names


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_that_differ_have_folders_of_their_own(kind: pa.DataType) -> None:
    """NaN of any bits is one; text that is empty is like no value, as in Hive."""
    values = [None, *VALUES[kind]]
    table = pa.table({"k": array(kind, values)})
    names = [Path(place.path).parent.name for place, _ in Partitions(Place("out/rows.parquet"), ["k"]).split(table)]
    same = sum(value in ("", b"", "__HIVE_DEFAULT_PARTITION__") for value in VALUES[kind])
    same += max(0, sum(value != value for value in VALUES[kind]) - 1)
    same += kind == pa.null()
    same += kind in (pa.decimal128(10, 2), pa.decimal256(50, 2))  # which have one zero
    assert len(names) == len(set(names)) == len(values) - same


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_values_that_name_no_folder_are_refused(kind: pa.DataType) -> None:
    table = pa.table({"k": pa.nulls(2, kind)})
    with pytest.raises(CommandError) as raised:
        list(Partitions(Place("out/rows.parquet"), ["k"]).split(table))
    assert str(raised.value) == f"--partition-by k: values of type {kind} do not name folders"


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        (pa.timestamp("us"), datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03%3A04%3A05"),
        (pa.timestamp("ns"), datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03%3A04%3A05"),
        (pa.timestamp("ns"), 1, "1970-01-01 00%3A00%3A00.000000001"),
        (pa.date32(), datetime.date(2026, 1, 2), "2026-01-02"),
        (pa.bool_(), True, "true"),
        (pa.binary(), b"a\xff", "a%FF"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), NAN, "nan"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
    ],
    ids=str,
)
def test_names_of_folders(kind: pa.DataType, value: Any, name: str) -> None:
    ((place, _),) = Partitions(Place("out/rows.parquet"), ["k"]).split(pa.table({"k": pa.array([value], kind)}))
    assert Path(place.path).parent.name == f"k={name}"


def test_a_file_with_nan(cli: Any, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["N"])],
                              [value("y", TensorProto.FLOAT, ["N"])])  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    rows = {"x": pa.array([1, 2, 3, 4, 5], pa.float32()), "price": pa.array([0.0, NAN, -0.0, None, NAN])}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    done = cli("score", tmp_path / "m.onnx", tmp_path / "rows.parquet", "-o", tmp_path / "out", "--keep", "x",
               "--partition-by", "price", "--batch-rows", 2, "--json")  # fmt: skip
    files = list((tmp_path / "out").rglob("*.parquet"))
    assert json.loads(done.out)["rows"] == 5
    assert sorted(x for file in files for x in pq.ParquetFile(file).read()["x"].to_pylist()) == [1, 2, 3, 4, 5]
