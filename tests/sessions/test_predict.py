"""`session.predict` answers rows in the form in which they came: columns, records, frames, tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import onnx_sparse
from onnx_sparse.schemas.features import Feature, write_features

ROWS = {"items": [[5, 7], [], [3]], "age": [31, 42, 27]}
RECORDS = [{"items": items, "age": age} for items, age in zip(*ROWS.values(), strict=True)]
ANSWERS = {"sums": [12.0, 0.0, 3.0], "pairs": [[31, 62], [42, 84], [27, 54]], "names": ["31", "42", "27"]}


@pytest.fixture(scope="module")
def session() -> onnx_sparse.InferenceSession:
    """A number, a pair and a text for each row, and one number for the batch."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (int64[n] ids, int64[r] splits, int32[b] age)
          => (float[s] sums, int32[b, 2] pairs, string[b] names, float total)
          <float[9, 1] table = {0, 1, 2, 3, 4, 5, 6, 7, 8}, int64[1] one = {1}, int32[2] factors = {1, 2}>
        {
          rows = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "exact"> (table, ids, splits)
          sums = Squeeze (rows, one)
          column = Unsqueeze (age, one)
          pairs = Mul (column, factors)
          names = Cast <to = 8> (age)
          total = ReduceSum <keepdims = 0> (sums)
        }""")
    roles = {"items": ("ragged", {"values": "ids", "row_splits": "splits"}), "age": ("dense", {"values": "age"})}
    write_features(model, [Feature(name, *role) for name, role in roles.items()])
    return onnx_sparse.InferenceSession(onnx_sparse.canonicalize(model))


def test_columns_give_arrays(session: onnx_sparse.InferenceSession):
    answers = session.predict(ROWS, list(ANSWERS))
    assert {name: answer.tolist() for name, answer in answers.items()} == ANSWERS
    assert answers["pairs"].dtype == np.int32


def test_records_give_records(session: onnx_sparse.InferenceSession):
    assert session.predict(RECORDS, ["pairs", "names"]) == [
        {"pairs": [31, 62], "names": "31"},
        {"pairs": [42, 84], "names": "42"},
        {"pairs": [27, 54], "names": "27"},
    ]


@pytest.mark.parametrize("names", [["sums"], list(ANSWERS)])
def test_a_frame_of_pandas_gives_one_with_its_index(session: onnx_sparse.InferenceSession, names: list[str]):
    pandas = pytest.importorskip("pandas")
    answers = session.predict(pandas.DataFrame(ROWS, index=[7, 7, "x"]), names)
    assert isinstance(answers, pandas.DataFrame)
    assert answers.index.tolist() == [7, 7, "x"]
    assert {name: [np.asarray(value).tolist() for value in answers[name]] for name in answers} == {
        name: ANSWERS[name] for name in names
    }


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_a_table_gives_a_table_of_its_library(session: onnx_sparse.InferenceSession, library: str):
    table = getattr(pytest.importorskip(library), {"pyarrow": "table", "polars": "DataFrame"}[library])
    answers = session.predict(table(ROWS), list(ANSWERS))
    assert type(answers) is type(table(ROWS))
    values = "to_pylist" if library == "pyarrow" else "to_list"
    assert {name: getattr(answers[name], values)() for name in ANSWERS} == ANSWERS


@pytest.mark.parametrize("library", ["polars", "datasets"])
def test_rows_that_are_read_later(session: onnx_sparse.InferenceSession, library: str):
    made = pytest.importorskip(library)
    rows = made.LazyFrame(ROWS) if library == "polars" else made.Dataset.from_dict(ROWS)
    answers = session.predict(rows, ["sums"])
    assert type(answers).__name__ == {"polars": "DataFrame", "datasets": "Table"}[library]
    assert list(map(float, answers["sums"].to_numpy())) == ANSWERS["sums"]


def test_columns_that_are_no_features(session: onnx_sparse.InferenceSession):
    records = [record | {"label": 1} for record in RECORDS]
    assert session.predict(records, ["names"]) == [{"names": "31"}, {"names": "42"}, {"names": "27"}]
    with pytest.raises(ValueError, match="no feature 'label'"):
        session.predict(records, ["names"], extra="error")


def empty_rows(form: str) -> Any:
    none: dict[str, list[Any]] = {"items": [], "age": []}
    if form == "columns":
        return none
    return getattr(pytest.importorskip(form), {"pyarrow": "table"}.get(form, "DataFrame"))(none)


@pytest.mark.parametrize("form", ["columns", "pandas", "pyarrow", "polars"])
def test_no_rows_have_no_answers(session: onnx_sparse.InferenceSession, form: str):
    answers = session.predict(empty_rows(form), list(ANSWERS))
    assert [len(answers[name]) for name in ANSWERS] == [0, 0, 0]


@pytest.mark.parametrize(
    ("rows", "outputs", "kind", "message"),
    [
        (ROWS, None, ValueError, r"output 'total' has the shape \[\]; the batch has 3 rows"),
        (ROWS, ["sum"], ValueError, r"no output 'sum' \(did you mean 'sums'\?\); it has"),
        (ROWS, "sums", TypeError, "outputs is a list of names, not the name 'sums'"),
        ({"item": [[1]], "age": [1]}, ["sums"], ValueError, "feature 'items' is missing; the rows have 'item'"),
        ({"items": [[9]], "age": [1]}, ["sums"], onnx_sparse.KernelError, r"indices\[0\] = 9 is out of range"),
        ([[1], [2]], ["sums"], TypeError, "expected columns by feature, a table or a list of records"),
    ],
)
def test_what_cannot_be_answered_is_an_error(
    session: onnx_sparse.InferenceSession, rows: Any, outputs: Any, kind: type[Exception], message: str
):
    with pytest.raises(kind, match=message):
        session.predict(rows, outputs)
