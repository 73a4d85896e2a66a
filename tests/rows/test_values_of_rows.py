"""A value of a row is taken or refused by every door alike, with the same words: drawn over containers and types."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_sparse import arrow
from onnx_sparse.commands.inputs.feeds import read_feeds
from onnx_sparse.errors import CommandError
from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature, write_features
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.inference_requests import read_request
from onnx_sparse.serving.row_requests import read_rows
from onnx_sparse.serving.tensors import Tensors, datatype

T = TensorProto
NUMBERS = [
    T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64,
]  # fmt: skip
TYPES = [*NUMBERS, T.BOOL, T.STRING]
NAN, INF = float("nan"), float("inf")
VALUES: list[Any] = [
    None, 0, 5, -3, 257, 2049, 2**24 + 1, 1700000001, -(2**24) - 1, 2**31, 2**53 + 1, -(2**53) - 1, 2**60, 2**62 + 1,
    2**63 - 1, 2**63, 2**64 - 1, 2**70, 0.1, -2.5, -0.0, 3.0, 1700000001.0, 70000.5, 1e300, NAN, INF, -INF, True,
    "a", "",
]  # fmt: skip


def fits(value: Any, dtype: int) -> bool:
    """By exact arithmetic: a whole number is exact, a float is rounded, and what is missing is no number."""
    wanted = numpy_dtype(dtype)
    if value is None or (dtype == T.BOOL) != isinstance(value, bool) or (dtype == T.STRING) != isinstance(value, str):
        return value is not None and dtype in (T.BOOL, T.STRING) and isinstance(value, (bool, str)[dtype == T.STRING])
    if dtype in (T.BOOL, T.STRING):
        return True
    if wanted.kind in "iu":
        return isinstance(value, int) and np.iinfo(wanted).min <= value <= np.iinfo(wanted).max
    info = ml_dtypes.finfo(wanted)  # type: ignore[no-untyped-call]
    if isinstance(value, float):
        return not np.isfinite(value) or bool(np.isfinite(np.float64(value).astype(wanted)))
    odd = abs(value) >> ((abs(value) & -abs(value)).bit_length() - 1) if value else 0
    return odd.bit_length() <= info.nmant + 1 and abs(value) <= float(info.max)


class Given:
    """A feature of an element type with one value to try, in the second row after a usual one."""

    def __init__(self, dtype: int, value: Any, *, in_lists: bool) -> None:
        self.dtype, self.value, self.in_lists = dtype, value, in_lists
        usual: Any = True if dtype == T.BOOL else "b" if dtype == T.STRING else 1.5 if self.is_floating else 1
        self.flat = [usual, value]
        self.rows: list[Any] = [[usual], [value]] if in_lists else self.flat
        inputs = {"x": InputType(dtype, (None,))}
        feature = Feature("x", "dense", {"values": "x"})
        if in_lists:
            inputs["r"] = InputType(T.INT64, (None,))
            feature = Feature("x", "ragged", {"values": "x", "row_splits": "r"})
        self.features = Features([feature], inputs)

    @property
    def is_floating(self) -> bool:
        return numpy_dtype(self.dtype).kind in "fV"


Door = Callable[[Given], Any]


def model_of(given: Given) -> Any:
    values = [helper.make_tensor_value_info(name, kind.dtype, ["N"]) for name, kind in given.features.inputs.items()]
    graph = helper.make_graph([], "g", values, values[:1])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    write_features(model, list(given.features.values()))
    return model


def run(given: Given) -> Any:
    return read_feeds(model_of(given), [f"x={json.dumps(given.rows)}"])


def instances(given: Given) -> Any:
    return read_rows(json.dumps({"instances": [{"x": row} for row in given.rows]}).encode(), given.features)[0]


def inputs(given: Given) -> Any:
    return read_rows(json.dumps({"inputs": {"x": given.rows}}).encode(), given.features)[0]


def tensor(given: Given) -> Any:
    if given.in_lists:
        return None
    data = {"name": "x", "shape": [2], "datatype": datatype(given.dtype), "data": given.flat}
    request = read_request(json.dumps({"inputs": [data]}).encode(), None, Tensors(given.features.inputs, []), ["y"])
    return request.feeds


def in_cell(given: Given) -> bool:
    """Whether a cell of CSV can have the value: "nan" and "" are no value, 0 is a flag, and a number is a text."""
    if given.in_lists:
        return True
    if given.dtype in (T.BOOL, T.STRING):
        return type(given.value) is type(given.flat[0])
    return not isinstance(given.value, str | bool) and given.value is not NAN


def text_door(is_csv: bool) -> Door:
    def door(given: Given) -> Any:
        from onnx_sparse.scoring.score_file import _text_type
        from onnx_sparse.scoring.text_rows import Wanted, csv_rows, json_rows

        if is_csv and not in_cell(given):
            return None
        wanted = Wanted({"x": _text_type(given.features, "x")}, elements={"x": given.dtype})
        if is_csv:
            text = io.StringIO()
            cells = [json.dumps(row) if given.in_lists or row is not None else "" for row in given.rows]
            if given.dtype == T.STRING and not given.in_lists:
                cells = [row if isinstance(row, str) else "" for row in given.rows]
            csv.writer(text).writerows([["x", "y"], *([cell, 0] for cell in cells)])
            batch = next(csv_rows(io.BytesIO(text.getvalue().encode()), 9, wanted))
        else:
            lines = [json.dumps({"x": row}).encode() for row in given.rows]
            batch = next(json_rows(io.BytesIO(b"\n".join([*lines, b""])), 9, wanted))
        if batch.bad:
            raise ValueError(batch.bad[min(batch.bad)])
        return arrow.feeds(batch.rows, given.features)

    return door


def feeds_of(make: Callable[[Given], Any]) -> Door:
    def door(given: Given) -> Any:
        column = make(given)
        return None if column is None else given.features.feeds({"x": column})

    return door


def records(given: Given) -> Any:
    return given.features.feeds([{"x": row} for row in given.rows])


def objects(given: Given) -> Any:
    column = np.empty(2, object)
    column[:] = [np.array(row, object) for row in given.rows] if given.in_lists else given.rows
    return column


def own_type(given: Given) -> np.dtype[Any] | None:
    """The type of numpy, of the feature or a wider one, that has both values unchanged; None if there is none."""
    if given.value is None or type(given.value) is not type(given.flat[0]):
        return None
    if given.dtype in (T.BOOL, T.STRING):
        return np.dtype(bool if given.dtype == T.BOOL else "U1")
    if given.is_floating:
        return np.dtype(np.float64)
    return next(
        (np.dtype(t) for t in (np.int64, np.uint64) if fits(given.value, helper.np_dtype_to_tensor_dtype(np.dtype(t)))),
        None,
    )


def numpy_array(given: Given) -> Any:
    dtype = own_type(given)
    if dtype is None:
        return None
    return [np.array(row, dtype) for row in given.rows] if given.in_lists else np.array(given.rows, dtype)


def integers(given: Given) -> Any:
    """A column of integers for a floating feature."""
    if type(given.value) is not int or not given.is_floating or abs(given.value) >= 2**64:
        return None
    dtype = np.uint64 if given.value >= 2**63 else np.int64
    rows = np.array([1, given.value], dtype)
    return [rows[:1], rows[1:]] if given.in_lists else rows


def masked(form: str) -> Callable[[Given], Any]:
    """What has a value that counts below the mask."""

    def make(given: Given) -> Any:
        if given.value is not None:
            return None
        held: Any = np.ma.array([given.flat[0], given.flat[0]], mask=[False, True])
        if form == "elements":
            held = [held[0], np.ma.masked]
        if form == "objects":
            held = np.array([held[0], np.ma.masked], object)
        if form == "matrix":
            return held.reshape(2, 1) if given.in_lists else None
        return [held[:1], held[1:]] if given.in_lists else held

    return make


def pandas_column(dtype: str) -> Callable[[Given], Any]:
    def make(given: Given) -> Any:
        pandas = pytest.importorskip("pandas")
        if given.in_lists or not (given.value is None or type(given.value) is type(given.flat[0])):
            return None
        kind = own_type(Given(given.dtype, given.flat[0], in_lists=False))
        if kind is not None and own_type(given) not in (None, kind):
            return None
        if given.value is NAN and dtype != "object":
            return None  # the same as no value to these types
        names = {"f": "Float64", "i": "Int64", "b": "boolean", "U": "string"}
        arrow_names = {"f": "float64", "i": "int64", "b": "bool", "U": "string"}
        if kind is None or (kind.kind == "i" and own_type(given) is None and given.value is not None):
            return None
        name = {"nullable": names[kind.kind], "arrow": f"{arrow_names[kind.kind]}[pyarrow]"}.get(dtype, dtype)
        return pandas.Series(given.flat, dtype=name)

    return make


def arrow_array(given: Given) -> Any:
    pa = pytest.importorskip("pyarrow")
    try:
        array = pa.array(given.rows)
    except (pa.ArrowException, OverflowError):
        return None
    return array if repr(array.to_pylist()) == repr(given.rows) else None


def polars_series(given: Given) -> Any:
    polars = pytest.importorskip("polars")
    try:
        series = polars.Series(given.rows, strict=True)
    except (TypeError, OverflowError):
        return None
    return series if repr(series.to_list()) == repr(given.rows) else None


DOORS: dict[str, Door] = {
    "list": feeds_of(lambda given: given.rows),
    "tuple": feeds_of(lambda given: tuple(map(tuple, given.rows) if given.in_lists else given.rows)),
    "records": records,
    "objects": feeds_of(objects),
    "numpy": feeds_of(numpy_array),
    "integers": feeds_of(integers),
    **{f"masked {form}": feeds_of(masked(form)) for form in ("array", "elements", "objects", "matrix")},
    **{f"pandas {dtype}": feeds_of(pandas_column(dtype)) for dtype in ("object", "nullable", "arrow", "category")},
    "arrow": feeds_of(arrow_array),
    "polars": feeds_of(polars_series),
    "run": run,
    "instances": instances,
    "inputs": inputs,
    "tensor": tensor,
    "CSV": text_door(is_csv=True),
    "JSON lines": text_door(is_csv=False),
}
#: Doors for which Arrow, pandas or polars choose a type for both values: the words name another value or the type.
TYPED = {"arrow", "polars", "numpy", "pandas nullable", "pandas arrow", "pandas category", "pandas object"}


def outcome_of(door: Door, given: Given) -> str | list[Any] | None:
    """The values that a model is fed, or the words of the refusal; None for a door that cannot have the value."""
    try:
        feeds = door(given)
    except (ValueError, RequestError, CommandError) as error:
        return str(error)
    return None if feeds is None else list(feeds["x"].tolist())


@pytest.mark.parametrize("in_lists", [False, True], ids=["dense", "ragged"])
@pytest.mark.parametrize("dtype", TYPES, ids=T.DataType.Name)
def test_every_door_reads_a_value_alike(dtype: int, in_lists: bool) -> None:
    reached: set[str] = set()
    for value in VALUES:
        given = Given(dtype, value, in_lists=in_lists)
        outcomes = {name: outcome for name, door in DOORS.items() if (outcome := outcome_of(door, given)) is not None}
        reached |= {*outcomes}
        refused = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, str)}
        assert not refused or not fits(value, dtype), (value, refused)
        for name in outcomes.keys() - refused.keys():
            assert fits(value, dtype), f"{name}, {value!r} is taken as {outcomes[name]}"
            expected = np.array(value, np.float64 if given.is_floating else object).astype(numpy_dtype(dtype)).tolist()
            assert repr(outcomes[name][1]) == repr(expected), (name, value)
        words = {re.sub(r"^.*?, row 1(, position 0)?", "", text) for name, text in refused.items() if name not in TYPED}
        assert len(words) <= 1, refused
        assert value is not None or words == {" has no value"}, refused
    lacking = {name for name in DOORS if name not in reached}
    assert lacking <= {"integers", "tensor", "masked matrix", *(name for name in DOORS if name.startswith("pandas"))}
    assert importlib.util.find_spec("pandas") is None or in_lists or not {n for n in lacking if n.startswith("pandas")}
