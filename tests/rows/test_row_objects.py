"""Tables and records of many libraries, by what is in their columns: read exactly, or refused with the row."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import fractions
import itertools
import types
from collections.abc import Callable
from decimal import Decimal
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


class Walked:
    """Elements that are reached by iterating alone."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __iter__(self) -> Any:
        return iter(self._rows)


def each_row(make: Callable[[Any], Any]) -> Callable[[Rows], Any]:
    """Lists in a column, each as another list; nothing for other columns."""
    return lambda rows: {"x": [r if r is None else make(r) for r in rows]} if isinstance(rows[0], list) else None


def each_number(make: Callable[[Any], Any]) -> Callable[[Rows], Any]:
    """A column whose numbers are each another number."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(part) for part in value]
        if isinstance(value, (bool, str)):
            raise OverflowError
        return value if value is None else make(value)

    def made(rows: Rows) -> Any:
        try:
            return {"x": [changed(row) for row in rows]}
        except OverflowError:
            return None

    return made


def decimals(rows: Rows) -> Any:
    return each_number(lambda value: Decimal(repr(value)))(rows)


def tensor_data(batch: int | None, numpy: bool = False, label: bool = False) -> Callable[[Rows], Any]:
    """A data set of TensorFlow of records, or of batches."""

    def make(rows: Rows) -> Any:
        tf = library("tensorflow")
        if None in rows or any(isinstance(row, list) and None in row for row in rows):
            return None
        is_ragged = isinstance(rows[0], list) and len({*map(len, rows)}) > 1
        first = rows[0][0] if isinstance(rows[0], list) else rows[0]
        dtype = {bool: tf.bool, int: tf.int64, float: tf.float32, str: tf.string}[type(first)]
        column = tf.ragged.constant(rows, dtype, 1) if is_ragged else tf.constant(rows, dtype)
        data = tf.data.Dataset.from_tensor_slices({"x": column})
        if label:
            data = data.map(lambda row: (row, 1))
        if batch:
            data = data.ragged_batch(batch) if is_ragged else data.batch(batch)
        return data.as_numpy_iterator() if numpy else data

    return make


def loaded(rows: Rows) -> Any:
    """A loader of torch with batches of two."""
    data = library("torch.utils.data")
    if numpy_array(rows) is None:
        return None
    return data.DataLoader([{"x": np.array(row) if not isinstance(row, str) else row} for row in rows], batch_size=2)


#: Tables by what makes one of rows; None if it holds no such rows.
TABLES: dict[str, Callable[[Rows], Any]] = {
    **{name: lambda rows, make=make: [make(row) for row in rows] for name, make in RECORDS.items()},
    "a generator of records": lambda rows: ({"x": row} for row in rows),
    "an iterator of records": lambda rows: map(RECORDS["named tuples"], rows),
    "views of records": lambda rows: dict(enumerate({"x": row} for row in rows)).values(),
    "records without a length": lambda rows: Walked([{"x": row} for row in rows]),
    "an array of records": lambda rows: np.array([{"x": row} for row in rows], object),
    "pandas, series of records": lambda rows: library("pandas").Series([{"x": row} for row in rows]),
    "pandas, chunks": lambda rows: iter([pandas_frame(rows)[:2], pandas_frame(rows)[2:]]),
    "polars, slices": lambda rows: library("polars").DataFrame({"x": rows}).iter_slices(2),
    "a generator as a column": lambda rows: {"x": (row for row in rows)},
    "a map as a column": lambda rows: {"x": map(copy.copy, rows)},
    "a chain as a column": lambda rows: {"x": itertools.chain(rows[:1], rows[1:])},
    "a view as a column": lambda rows: {"x": dict(enumerate(rows)).values()},
    "a deque as a column": lambda rows: {"x": collections.deque(rows)},
    "a column without a length": lambda rows: {"x": Walked(rows)},
    "generators as rows": each_row(lambda row: (value for value in row)),
    "deques as rows": each_row(collections.deque),
    "keys as rows": each_row(lambda row: dict.fromkeys(row).keys()),
    "rows without a length": each_row(Walked),
    "generators in records": lambda rows: [{"x": iter(row) if isinstance(row, list) else row} for row in rows],
    "decimals": decimals,
    "fractions": each_number(fractions.Fraction),
    "Arrow, decimals": lambda rows: None if decimals(rows) is None else library("pyarrow").table(decimals(rows)),
    "TensorFlow, records": tensor_data(None),
    "TensorFlow, records of numpy": tensor_data(None, numpy=True),
    "TensorFlow, batches": tensor_data(2),
    "TensorFlow, batches of numpy": tensor_data(2, numpy=True),
    "TensorFlow, batches with labels": tensor_data(2, label=True),
    "torch, loader": loaded,
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


@pytest.mark.parametrize(
    ("kind", "column", "said"),
    [
        ("int64", {1, 2}, r"expected a list or an array, got \{1, 2\}"),  # which has no order
        ("ragged", [{1, 2}], r"row 0: expected a list, got \{1, 2\}"),
        ("int64", {1: 2}, r"expected a list or an array, got \{1: 2\}"),
        ("int64", itertools.count(), r"count\(0\) never ends; pass a part, as itertools"),
        ("int64", itertools.cycle([1]), "a itertools.cycle never ends; pass a part, as itertools"),
        ("int64", iter([1, 2.5]), "row 1: 2.5 does not fit into int64"),
        ("int64", [Decimal(1), Decimal("2.5")], "row 1: 2.5 does not fit into int64"),
        ("int64", [Decimal("1E+400000000")], "does not fit into int64"),
        ("int64", [Decimal("NaN")], "nan does not fit into int64"),
        ("float", [Decimal("1E+400000000")], "does not fit into float"),
        ("float", [Decimal("1.5E+39")], "does not fit into float"),
        ("float", [Decimal("sNaN")], r"Decimal\('sNaN'\) does not fit into float"),
        ("float", [Decimal(2**24 + 1)], "16777217 does not fit into float exactly"),
        ("float", [fractions.Fraction(10**400, 3)], "does not fit into float"),
        ("flag", [Decimal(1)], "1 does not fit into bool"),
        ("text", [Decimal(1)], r"expected a string, got Decimal\('1'\)"),
        (
            "int64",
            [datetime.date(2026, 1, 2)],
            "does not fit into int64; pass a number, of days or seconds for example",
        ),
        ("int64", np.array(["2026-01-02"], "M8[D]"), "the model expects int64; pass times as numbers, of days"),
        ("text", np.array(["2026-01-02"], "M8[D]"), "the model expects string; pass times as texts"),
        ("text", [datetime.date(2026, 1, 2)], "pass its text, as '2026-01-02'"),
    ],
)
def test_columns_that_do_not_fit(kind, column, said):
    with pytest.raises(ValueError, match=said):
        FEATURES[kind].feeds({"x": column})


def test_decimals_follow_the_rule_of_numbers():
    """A whole one must be exact; another one is rounded as a float is."""
    texts = ["0.1", "16777217.0", "-Infinity", "1E-400000000", "1E+3"]
    got = FEATURES["float"].feeds({"x": [*map(Decimal, texts), fractions.Fraction(1, 3)]})["x"]
    assert got.tolist() == np.array([0.1, 16777217.0, -np.inf, 0, 1000, 1 / 3], np.float32).tolist()
    whole = [Decimal("3.00"), Decimal(2**53 + 1), fractions.Fraction(6, 2)]
    assert FEATURES["int64"].feeds({"x": whole})["x"].tolist() == [3, 2**53 + 1, 3]


def test_errors_of_an_iterator_are_its_own():
    with pytest.raises(ZeroDivisionError):
        FEATURES["int64"].feeds({"x": (1 // n for n in (1, 0))})


def test_columns_that_are_no_features_are_not_read():
    assert FEATURES["int64"].feeds({"x": [1], "id": itertools.count()})["x"].tolist() == [1]


@pytest.mark.parametrize("wrap", [lambda rows: rows, iter])
def test_a_scorer_keeps_what_it_reads_once(wrap):
    """Its iterators are read for the feature and for the column that is kept."""
    library("pyarrow")
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18]> g (int64[n] x, int64[r] splits, int64[m] age) => (int64[m] y) {
        y = Identity(age) }"""
    )
    mapping = {"items": {"values": "x", "row_splits": "splits"}}
    scorer = onnx_sparse.arrow.Scorer(model, mapping=mapping, keep=["items", "age"], check_rows=False)
    columns = {"items": wrap([iter([1, 2]), (n for n in range(1))]), "age": map(abs, [-1, 2])}
    assert scorer(columns).to_pydict() == {"items": [[1, 2], [0]], "age": [1, 2], "y": [1, 2]}
    records = wrap([{"items": iter([1, 2]), "age": 1}, {"items": iter([0]), "age": 2}])
    assert scorer(records).to_pydict() == {"items": [[1, 2], [0]], "age": [1, 2], "y": [1, 2]}


def test_batches_answer_as_columns():
    tf = library("tensorflow")
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (int64[n] x) => (int64[n] y) { y = Identity(x) }'
    )
    session = onnx_sparse.InferenceSession(model.SerializeToString())
    data = tf.data.Dataset.from_tensor_slices({"x": tf.constant([1, 2, 3], tf.int64)})
    assert session.predict(data) == [{"y": 1}, {"y": 2}, {"y": 3}]
    assert session.predict(data.batch(2))["y"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"the data set never ends; pass a part of it, as dataset.take\(100\)"):
        session.predict(data.repeat())
    with pytest.raises(TypeError, match=r"got a list with .*1"):
        session.predict(tf.data.Dataset.range(1, 3))


def test_batches_of_sparse_tensors_keep_their_coordinates():
    tf = library("tensorflow")
    batch = tf.sparse.from_dense(tf.constant([[0, 5, 7], [0, 0, 0]], tf.int64))
    data = tf.data.Dataset.from_tensors({"x": batch}).repeat(2)
    feeds = FEATURES["sparse"].feeds(data)
    assert feeds["at"].tolist() == [[0, 1], [0, 2], [2, 1], [2, 2]]
    assert (feeds["x"].tolist(), feeds["shape"].tolist()) == ([5, 7, 5, 7], [4, 3])


def test_frames_in_chunks_stay_exact():
    """pandas makes floats of integers in one chunk and floats in another."""
    pd = library("pandas")
    chunks = [pd.DataFrame({"x": [2**53 + 1]}), pd.DataFrame({"x": [0.5]})]
    double = onnx_sparse.features(
        parser.parse_model('<ir_version: 10, opset_import: ["": 18]> g (double[n] x) => (double[n] y) { y = Abs(x) }')
    )
    with pytest.raises(ValueError, match="row 0: 9007199254740993 does not fit into double exactly"):
        double.feeds(chunks)
    assert double.feeds(chunks[1:] * 2)["x"].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="feature 'x' is missing"):
        double.feeds([*chunks, pd.DataFrame({"z": [1]})])
    pl = library("polars")
    with pytest.raises(ValueError, match="the frames do not fit together: type Float64"):
        double.feeds([pl.DataFrame({"x": [1]}), pl.DataFrame({"x": [0.5]})])
