"""Rows of other libraries give a model the inputs that nested lists give it, whatever holds them; drawn rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import parser

import onnx_sparse

MODEL = parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
g (int64[k, 2] i, int64[k] v, int64[2] s, float[m] w, int64[r] splits, int32[n] age)
  => (int64[k] y, int32[n] ages) { y = Identity(v) ages = Identity(age) }""")
MAPPING = {
    "items": {"indices": "i", "values": "v", "dense_shape": "s"},
    "weights": {"values": "w", "row_splits": "splits"},
}
FEATURES = onnx_sparse.features(MODEL, MAPPING)
Rows = list[list[Any]]


def library(name: str) -> Any:
    return pytest.importorskip(name, exc_type=ImportError)


def drawn(seed: int) -> dict[str, Any]:
    """Columns of equally many rows, some of which are empty."""
    random = np.random.default_rng(seed)
    count = int(random.integers(0, 7))
    sizes = random.integers(0, 4, (2, count)) * random.integers(0, 2, (2, count))
    return {
        "items": [random.integers(1, 50, size).tolist() for size in sizes[0]],
        "weights": [(random.integers(-8, 8, size) / 4).tolist() for size in sizes[1]],
        "age": random.integers(0, 99, count).tolist(),
    }


def same(got: dict[str, Any], columns: dict[str, Any]) -> None:
    for name, expected in FEATURES.feeds(columns).items():
        assert (got[name].dtype, got[name].tolist()) == (expected.dtype, expected.tolist()), name


def each(make: Callable[[Any], Any]) -> Callable[[Rows], Any]:
    return lambda rows: [make(row) for row in rows]


def torch_rows(form: str) -> Callable[[Rows], Any]:
    def make(rows: Rows) -> Any:
        torch = library("torch")
        dtype = torch.int64 if all(isinstance(value, int) for row in rows for value in row) else torch.float32
        parts = [torch.tensor(row, dtype=dtype, requires_grad=dtype.is_floating_point) for row in rows]
        if form == "bfloat16":
            return [part.bfloat16() if dtype.is_floating_point else part for part in parts]
        if form == "list" or not parts:
            return parts
        if form == "torchrec":
            ends = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
            return SimpleNamespace(values=lambda: torch.cat(parts), offsets=lambda: ends)
        return torch.nested.nested_tensor(parts, layout=getattr(torch, form))

    return make


def tensorflow_rows(form: str) -> Callable[[Rows], Any]:
    def make(rows: Rows) -> Any:
        tf = library("tensorflow")
        dtype = tf.int64 if all(isinstance(value, int) for row in rows for value in row) else tf.float32
        if form == "eager":
            return [tf.constant(row, dtype) for row in rows]
        return tf.ragged.constant(rows, dtype, ragged_rank=1)

    return make


#: How libraries hold a column of lists.
COLUMNS: dict[str, Callable[[Rows], Any]] = {
    "arrays without types": each(np.array),  # an empty one is float64 to numpy
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "scalars": lambda rows: [[np.asarray(value) for value in row] for row in rows],
    "polars": lambda rows: library("polars").Series(rows),
    "polars rows": lambda rows: list(map(library("polars").Series, rows)),
    "pandas": lambda rows: library("pandas").Series(rows, dtype=object),
    "pandas rows": lambda rows: list(map(library("pandas").Series, rows)),
    "awkward": lambda rows: library("awkward").from_iter(rows),
    "datasets": lambda rows: library("datasets").Dataset.from_dict({"column": rows})["column"],
    "Arrow rows": lambda rows: list(map(library("pyarrow").array, rows)),
    "DLPack": each(lambda row: Exported(np.array(row))),
    "torch": torch_rows("list"),
    "torch bfloat16": torch_rows("bfloat16"),
    "torch nested": torch_rows("strided"),
    "torch jagged": torch_rows("jagged"),
    "torchrec": torch_rows("torchrec"),
    "TensorFlow eager": tensorflow_rows("eager"),
    "TensorFlow ragged": tensorflow_rows("ragged"),
}


class SelectedLater(SimpleNamespace):
    """A table of an unknown library, whose rows are computed later."""

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)


class Exported:
    """An array that has DLPack's interface and no other."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_lists(kind):
    for seed in range(8):
        columns = drawn(seed)
        lists = {name: COLUMNS[kind](columns[name]) for name in ("items", "weights")}
        same(FEATURES.feeds(columns | lists), columns)


#: How libraries hold all columns.
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "records": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "pandas": lambda columns: library("pandas").DataFrame(columns),
    "polars": lambda columns: library("polars").DataFrame(columns),
    "Arrow": lambda columns: library("pyarrow").table(columns),
    "Arrow batch": lambda columns: library("pyarrow").RecordBatch.from_pydict(columns),
    "polars, lazy": lambda columns: library("polars").LazyFrame(columns),
    "datasets": lambda columns: library("datasets").Dataset.from_dict(columns),
    "datasets, some rows": lambda columns: (
        library("datasets")
        .Dataset.from_dict({name: [*values, *values[:1]] for name, values in columns.items()})
        .select(range(len(columns["age"])))
    ),
    "awkward": lambda columns: library("awkward").zip(
        {name: library("awkward").from_iter(values) for name, values in columns.items()}, depth_limit=1
    ),
    "capsule": lambda columns: SimpleNamespace(__arrow_c_stream__=library("pyarrow").table(columns).__arrow_c_stream__),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind):
    for seed in range(8):
        columns = drawn(seed)
        if columns["age"]:  # records without rows have no names
            same(FEATURES.feeds(TABLES[kind](columns)), columns)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed")
def test_scorers_take_tables(kind):
    scorer = onnx_sparse.arrow.Scorer(MODEL, mapping=MAPPING, outputs=["ages"], keep=["age"], check_rows=False)
    columns = drawn(4)
    columns["age"] = [np.array(age) for age in columns["age"]] if kind == "records" else columns["age"]
    scored = scorer(TABLES[kind](columns))
    assert scored.to_pydict() == {"age": columns["age"], "ages": columns["age"]}


def test_sparse_tensors():
    """Their coordinates stay, in a sparse feature; a ragged one has their rows."""
    torch, tf = library("torch"), library("tensorflow")
    dense = torch.tensor([[0.0, 5, 7], [0, 0, 0], [3, 0, 0]])
    rows = [[5.0, 7.0], [], [3.0]]
    sparse = dense.to(torch.int64).to_sparse()
    for tensor in (
        sparse,
        sparse.to_sparse_csr(),
        sparse.to_sparse_csc(),
        tf.sparse.from_dense(dense.numpy().astype(int)),
        tf.compat.v1.SparseTensorValue([[0, 1], [0, 2], [2, 0]], [5, 7, 3], [3, 3]),  # which is a tuple
    ):
        made = FEATURES.feeds({"items": tensor, "weights": rows, "age": [1, 2, 3]})
        assert made["i"].tolist() == [[0, 1], [0, 2], [2, 0]]
        assert made["s"].tolist() == [3, 3]
    for tensor in (dense.to_sparse(), dense.to_sparse_csr(), tf.sparse.from_dense(dense.numpy())):
        same(
            FEATURES.feeds({"items": [[], [], []], "weights": tensor, "age": [1, 2, 3]}),
            {"items": [[], [], []], "weights": rows, "age": [1, 2, 3]},
        )
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [5, 7], (3, 3))
    with pytest.raises(ValueError, match=r"feature 'items': cannot read .*: it has several values at one coordinate"):
        FEATURES.feeds({"items": twice, "weights": rows, "age": [1, 2, 3]})


PAIRS = onnx_sparse.features(
    parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
    g (float[n, 2] pair, string[n] word) => (float[n, 2] p, string[n] w) { p = Identity(pair) w = Identity(word) }""")
)


@pytest.mark.parametrize(
    "made",
    [
        lambda pairs: [np.array(pair) for pair in pairs],
        lambda pairs: library("pandas").Series(pairs),  # as data frames hold embeddings
        lambda pairs: library("pandas").Series([np.array(pair) for pair in pairs]),
        lambda pairs: library("polars").Series(pairs),
        lambda pairs: library("torch").tensor(pairs, requires_grad=True),
        lambda pairs: [library("tensorflow").constant(pair) for pair in pairs],
    ],
)
def test_dense_rows(made):
    words = ["a", "\u00f6", ""]
    feeds = PAIRS.feeds(
        {"pair": made([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "word": np.array(words, np.dtypes.StringDType())}
    )
    assert feeds["pair"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (feeds["pair"].dtype, feeds["word"].tolist()) == (np.float32, words)


def test_dense_rows_of_different_lengths():
    for pairs in ([[1.0, 2.0], [3.0]], [np.zeros(2), np.zeros(1)], library("pandas").Series([[1.0, 2.0], [3.0]])):
        with pytest.raises(ValueError, match=r"^feature 'pair', row 1 has 1 values; the first has 2$"):
            PAIRS.feeds({"pair": pairs, "word": ["a", "b"]})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"items": [np.array([1]), np.array([2.5])]},
            "feature 'items', row 1, position 0: 2.5 does not fit into int64",
        ),
        (
            {"items": [np.array([1]), np.array([True])]},
            "feature 'items', row 1, position 0: True does not fit into int64",
        ),
        ({"items": [[1], np.array(3)]}, "feature 'items', row 1: expected a list, got array(3)"),
        ({"items": iter([[1], 2])}, "feature 'items', row 1: expected a list, got 2"),
        ({"items": "ab"}, "feature 'items': expected a list of rows, got 'ab'"),
        ({"items": [[1], float("nan")]}, "feature 'items', row 1: expected a list, got nan"),
        ({"age": np.array([1, np.nan])}, "feature 'age', row 1: nan does not fit into int32"),
        ({"age": SimpleNamespace(tocsr=None)}, "feature 'age': expected a dense array, got a sparse or ragged one"),
        ({"age": {1, 2}}, "feature 'age': expected a list or an array, got {1, 2}"),
        ({"age": iter([1, "a"])}, "feature 'age', row 1: 'a' does not fit into int32"),
    ],
)
def test_rows_that_do_not_fit(changed, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        FEATURES.feeds({"items": [[1], [2]], "weights": [[], []], "age": [1, 2]} | changed)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("rows", [None, 3, "items", [], [[1, 2]], np.zeros(3), object()])
def test_what_is_no_table(rows):
    with pytest.raises(TypeError, match=r"expected columns by feature, a table or a list of records .*, got "):
        FEATURES.feeds(rows)


def test_tables_that_cannot_be_read():
    with pytest.raises(TypeError, match=r"in memory, got a \S+SelectedLater; call its collect\(\) first"):
        FEATURES.feeds(SelectedLater(columns=["age"], collect=lambda: [{"age": 1}]))
    names = ["age", "age", "items", "weights"]
    for table in (library("pandas").DataFrame, library("pyarrow").table):
        columns = [[1], [2], [[3]], [[0.5]]]
        made = (
            table([[1, 2, [3], [0.5]]], columns=names)
            if table is library("pandas").DataFrame
            else table([library("pyarrow").array(column) for column in columns], names=names)
        )
        with pytest.raises(ValueError, match="the table has several columns 'age'"):
            FEATURES.feeds(made)
    with pytest.raises(TypeError, match="got a list with None"):
        FEATURES.feeds([{"age": 1}, None])


def test_records_that_differ():
    row = {"items": [1], "weights": [], "age": 1}
    without = {"items": [1], "weights": []}
    for position, records in enumerate(([without, row], [row, without])):
        with pytest.raises(ValueError, match=rf"^record {position} lacks 'age'$"):
            FEATURES.feeds(records)
    with pytest.raises(ValueError, match=r"^record 0 lacks 'uid'$"):
        FEATURES.feeds([row, row | {"uid": 3}], extra="error")


@pytest.mark.parametrize("kind", ["columns", *TABLES])
def test_columns_that_are_no_features(kind):
    """An id or a label is ignored, or refused on request, in whatever holds the rows; no feature may be missing."""
    columns = drawn(1)
    assert columns["age"]
    more = {"uid": columns["age"], **columns, "itemz": columns["items"]}
    rows = more if kind == "columns" else TABLES[kind](more)
    same(FEATURES.feeds(rows), columns)
    same(FEATURES.feeds(rows, extra="ignore"), columns)
    with pytest.raises(ValueError, match="the model has no feature 'uid'; it has 'items', 'weights', 'age'"):
        FEATURES.feeds(rows, extra="error")
    del more["items"]
    with pytest.raises(ValueError, match=r"^feature 'items' is missing; the rows have 'uid', 'itemz'$"):
        FEATURES.feeds(more if kind == "columns" else TABLES[kind](more))


def test_what_extra_may_be():
    with pytest.raises(ValueError, match=r"^extra is 'drop', not one of 'ignore', 'error'$"):
        FEATURES.feeds(drawn(1), extra="drop")  # type: ignore[arg-type]


def test_records_without_the_keys_of_others_that_are_no_features():
    columns = drawn(1)
    records = TABLES["records"](columns)
    records[0]["uid"] = 7
    same(FEATURES.feeds(records), columns)


@pytest.mark.parametrize("missing", [None, float("nan"), "NA"])
def test_missing_lists_and_texts_of_pandas(missing: Any) -> None:
    """`merge` leaves NaN where a row has no partner: of lists an empty one, of texts a missing value."""
    pandas = library("pandas")
    absent = pandas.NA if missing == "NA" else missing
    lists = pandas.Series([[5, 7], absent, [3]], dtype=object)
    same(FEATURES.feeds({"items": lists, "weights": [[], [], []], "age": [1, 2, 3]}), {
        "items": [[5, 7], [], [3]], "weights": [[], [], []], "age": [1, 2, 3],
    })  # fmt: skip
    texts = onnx_sparse.features(
        parser.parse_model(
            '<ir_version: 10, opset_import: ["": 18]> g (string[n] s) => (string[n] y) { y = Identity(s) }'
        )
    )
    for column in (pandas.Series(["a", absent]), pandas.Series(["a", absent], dtype=object)):
        with pytest.raises(ValueError, match="feature 's', row 1 has no value"):
            texts.feeds({"s": column})
    assert FEATURES.feeds_of("weights", [[1.5], pandas.Series([float("nan")])])[0]["w"].tolist()[0] == 1.5
