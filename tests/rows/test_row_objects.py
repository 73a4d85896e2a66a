"""Tables and records of many libraries, by what is in their columns: read exactly, or refused with the row."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import parser

import onnx_sparse
from onnx_sparse.schemas.features import Feature, write_features

INPUTS = {
    "float": "float[n] x",
    "vector": "float[n, 2] x",
    "int64": "int64[n] x",
    "int32": "int32[n] x",
    "text": "string[n] x",
    "flag": "bool[n] x",
    "ragged": "int64[n] x, int64[r] splits",
    "words": "string[n] x, int64[r] splits",
    "floats": "float[n] x, int64[r] splits",
    "sparse": "int64[n, 2] at, int64[n] x, int64[2] shape",
}


def features_of(kind: str) -> Any:
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g ({INPUTS[kind]}) => (int64[d] y) {{ y = Shape(x) }}'
    )
    roles = {"ragged": {"values": "x", "row_splits": "splits"}, "dense": {"values": "x"}}
    roles |= {"sparse": {"indices": "at", "values": "x", "dense_shape": "shape"}}
    role = "sparse" if kind == "sparse" else "ragged" if "splits" in INPUTS[kind] else "dense"
    write_features(model, [Feature("x", role, roles[role])])
    return onnx_sparse.features(model)


FEATURES = {kind: features_of(kind) for kind in INPUTS}
#: A kind, its rows, and what they are read as; a text is what the error has.
CASES: list[tuple[str, list[Any], Any]] = [
    ("float", [0.5, 1.5, -2.0], [0.5, 1.5, -2.0]),
    ("vector", [[0.5, 1.5], [2.5, 3.5], [-1.0, 0.0]], [[0.5, 1.5], [2.5, 3.5], [-1.0, 0.0]]),
    ("int64", [1, 2**53 + 1, -5], [1, 2**53 + 1, -5]),
    ("int32", [1, 2, -5], [1, 2, -5]),
    ("int32", [1, 2**31 + 5, 3], "row 1: 2147483653 does not fit into int32"),
    ("text", ["a", "", "\u00f6"], ["a", "", "\u00f6"]),
    ("flag", [True, False, True], [True, False, True]),
    ("ragged", [[1, 2**53 + 1], [], [3]], [[1, 2**53 + 1], [], [3]]),
    ("words", [["a"], [], ["b", "c"]], [["a"], [], ["b", "c"]]),
    ("floats", [[0.5], [], [1.0, 2.0]], [[0.5], [], [1.0, 2.0]]),
    ("sparse", [[1, 2], [], [3]], [[1, 2], [], [3]]),
    ("ragged", [[1, 2], None, [3]], [[1, 2], [], [3]]),
    ("ragged", [[1, None], [], [3]], "row 0, position 1 has no value"),
    ("int64", [1, None, 2], "row 1 has no value"),
    ("float", [0.5, None, 2.0], "row 1 has no value"),
    ("text", ["a", None, "b"], "row 1 has no value"),
    ("flag", [True, None, False], "row 1 has no value"),
]
Rows = list[Any]


def library(name: str) -> Any:
    return pytest.importorskip(name, exc_type=ImportError)


def numpy_array(rows: Rows) -> Any:
    """An array of them; nothing if numpy would have to make objects."""
    if None in rows or (isinstance(rows[0], list) and len({*map(len, rows)}) > 1):
        return None
    return np.array(rows)


def structured(rows: Rows) -> Any:
    array = numpy_array(rows)
    return None if array is None else np.array([(row,) for row in rows], [("x", array.dtype, array.shape[1:])])


def arrow(change: Callable[[Any, Any], Any]) -> Callable[[Rows], Any]:
    def make(rows: Rows) -> Any:
        pa = library("pyarrow")
        changed = change(pa, pa.array(rows))
        return None if changed is None else pa.table({"x": changed})

    return make


def run_ends(pa: Any, array: Any) -> Any:
    if pa.types.is_nested(array.type):
        return None
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)


def batches(rows: Rows) -> list[Any]:
    pa = library("pyarrow")
    array = pa.array(rows)
    return [pa.RecordBatch.from_pydict({"x": part}) for part in (array[:1], array[1:])]


def data_set(rows: Rows) -> Any:
    return library("pyarrow.dataset").dataset(library("pyarrow").table({"x": rows}))


def pandas_frame(rows: Rows) -> Any:
    return library("pandas").DataFrame({"x": library("pandas").Series(rows, dtype=object)})


class Row(tuple):
    """A row as Spark has it: a tuple with the names of its fields."""

    __fields__ = ("x",)


#: Records by what makes one of a value.
RECORDS: dict[str, Callable[[Any], Any]] = {
    "dicts": lambda value: {"x": value},
    "mappings": lambda value: collections.UserDict({"x": value}),
    "named tuples": collections.namedtuple("Record", ["x"]),
    "tuples whose fields are named as methods": lambda value: collections.namedtuple("R", ["count", "x"])(1, value),
    "rows of Spark": lambda value: Row([value]),
    "dataclasses": dataclasses.make_dataclass("Record", ["x"]),
    "dataclasses with slots": dataclasses.make_dataclass("Record", ["x"], slots=True),
    "namespaces": lambda value: types.SimpleNamespace(x=value),
    "attrs": lambda value: library("attrs").make_class("Record", ["x"])(value),
    "pydantic": lambda value: library("pydantic").create_model("Record", x=(Any, ...))(x=value),
    "msgspec": lambda value: library("msgspec").defstruct("Record", ["x"])(value),
}

#: Tables by what makes one of rows; None if it holds no such rows.
TABLES: dict[str, Callable[[Rows], Any]] = {
    **{name: lambda rows, make=make: [make(row) for row in rows] for name, make in RECORDS.items()},
    "a generator of records": lambda rows: ({"x": row} for row in rows),
    "an iterator of records": lambda rows: map(RECORDS["named tuples"], rows),
    "numpy": lambda rows: None if numpy_array(rows) is None else {"x": numpy_array(rows)},
    "structured": structured,
    "structured elements": lambda rows: None if structured(rows) is None else list(structured(rows)),
    "pandas": pandas_frame,
    "pandas, nullable": lambda rows: pandas_frame(rows).convert_dtypes(),
    "pandas, itertuples": lambda rows: pandas_frame(rows).itertuples(index=False),
    "pandas, rows": lambda rows: [row for _, row in pandas_frame(rows).iterrows()],
    "polars": lambda rows: library("polars").DataFrame({"x": rows}),
    "polars, lazy": lambda rows: library("polars").LazyFrame({"x": rows}),
    "polars, rows": lambda rows: library("polars").DataFrame({"x": rows}).iter_rows(named=True),
    "Arrow": arrow(lambda _, array: array),
    "Arrow, chunks": arrow(lambda pa, array: pa.chunked_array([array[:1], array[1:]])),
    "Arrow, run ends": arrow(run_ends),
    "Arrow, dictionary": arrow(lambda pa, a: None if pa.types.is_nested(a.type) else a.dictionary_encode()),
    "Arrow, batches": batches,
    "Arrow, iterator of batches": lambda rows: iter(batches(rows)),
    "Arrow, reader": lambda rows: library("pyarrow").table({"x": rows}).to_reader(),
    "Arrow, data set": data_set,
    "awkward": lambda rows: library("awkward").Array([{"x": row} for row in rows]),
    "datasets": lambda rows: library("datasets").Dataset.from_dict({"x": rows}),
    "datasets, iterable": lambda rows: library("datasets").Dataset.from_dict({"x": rows}).to_iterable_dataset(),
}


@pytest.mark.parametrize("held", TABLES)
def test_tables_and_records(held):
    read = 0
    for kind, rows, expected in CASES:
        made = TABLES[held](rows)
        if made is None:
            continue
        if isinstance(expected, str):
            with pytest.raises(ValueError, match=expected):
                FEATURES[kind].feeds(made)
            continue
        wanted = FEATURES[kind].feeds({"x": expected})
        got = FEATURES[kind].feeds(made)
        shown = {name: (array.dtype, array.tolist()) for name, array in got.items()}
        assert shown == {name: (array.dtype, array.tolist()) for name, array in wanted.items()}, kind
        read += 1
    assert read >= 5


@pytest.mark.parametrize("held", ["dataclasses", "a generator of records", "Arrow, iterator of batches"])
def test_answers(held):
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (int64[n] x) => (int64[n] y) { y = Identity(x) }'
    )
    answers = onnx_sparse.InferenceSession(model.SerializeToString()).predict(TABLES[held]([1, 2]))
    assert (answers.to_pylist() if held.startswith("Arrow") else answers) == [{"y": 1}, {"y": 2}]


def test_scalars_of_tensors_that_do_not_fit():
    for scalar in (np.array, library("torch").tensor):
        with pytest.raises(ValueError, match=r"^feature 'x', row 1: 2147483653 does not fit into int32$"):
            FEATURES["int32"].feeds([{"x": scalar(1)}, {"x": scalar(2**31 + 5)}])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([types.SimpleNamespace(x=1), 3], "got a list with namespace"),
        ([object(), object()], "got a list with a object"),
        ([(1, 2)], r"got a list with \(1, 2\)"),
        ([dict], "got a list with <class 'dict'>"),
    ],
)
def test_what_is_no_record(rows, said):
    with pytest.raises(TypeError, match=f"expected columns by feature, a table or a list of records .*, {said}"):
        FEATURES["int64"].feeds(rows)


def test_a_column_of_the_values_of_a_mapping():
    with pytest.raises(ValueError, match=r"expected a list or an array, got dict_values\(\[1, 2\]\)"):
        FEATURES["int64"].feeds({"x": {"a": 1, "b": 2}.values()})
