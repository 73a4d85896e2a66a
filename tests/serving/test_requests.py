"""Requests as bytes: what is legal is read bit for bit, and what is not gets one line that names the place."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from onnx import TensorProto

from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature
from onnx_sparse.serving.endpoints import ENDPOINTS, openapi
from onnx_sparse.serving.errors import _EXTENSIONS, RequestError
from onnx_sparse.serving.inference_requests import InferenceRequest, read_request, write_response
from onnx_sparse.serving.row_requests import read_rows, write_rows
from onnx_sparse.serving.tensors import Tensors, datatype, to_bytes
from onnx_sparse.serving.written_json import to_values

TYPES = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.STRING,
]  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    """An element type, and an array of it of any shape."""
    dtype = draw(st.sampled_from(TYPES))
    shape = draw(drawn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    if dtype == TensorProto.STRING:
        texts = st.text(st.characters(codec="utf-8"), max_size=4)
        return dtype, draw(drawn.arrays(object, shape, elements=texts, fill=st.nothing()))
    wanted = numpy_dtype(dtype)
    if wanted == ml_dtypes.bfloat16:
        return dtype, draw(drawn.arrays(np.uint16, shape)).view(wanted)
    return dtype, draw(drawn.arrays(wanted, shape))


def request_of(array: np.ndarray, dtype: int, *, is_binary: bool) -> tuple[bytes, str | None]:
    tensor: dict[str, Any] = {"name": "x", "datatype": datatype(dtype), "shape": list(array.shape)}
    content = b""
    if is_binary:
        content = to_bytes(array)
        tensor["parameters"] = {"binary_data_size": len(content)}
    else:
        tensor["data"] = to_values(array)
    head = json.dumps({"inputs": [tensor]}).encode()
    return head + content, str(len(head)) if is_binary else None


@given(arrays(), st.booleans())
def test_every_type_and_shape_is_read_bit_for_bit(drawn_array, is_binary):
    dtype, array = drawn_array
    tensors = Tensors({"x": InputType(dtype, (None,) * array.ndim)}, [])
    got = read_request(*request_of(array, dtype, is_binary=is_binary), tensors, ["y"]).feeds["x"]
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    if array.dtype.kind in "O":
        assert got.tolist() == array.tolist()
    elif is_binary or array.dtype.kind not in "fV":
        assert got.tobytes() == array.tobytes()
    else:  # JSON has one NaN
        assert np.array_equal(np.isnan(got), np.isnan(array))
        assert got[~np.isnan(array)].tobytes() == array[~np.isnan(array)].tobytes()


@given(arrays(), st.booleans())
def test_every_output_is_written_bit_for_bit(drawn_array, is_binary):
    dtype, array = drawn_array
    body, length = write_response("m", InferenceRequest({}, {}, is_binary, "7"), {"y": array})
    document = json.loads(body[:length])
    (tensor,) = document["outputs"]
    assert (document["id"], tensor["datatype"], tensor["shape"]) == ("7", datatype(dtype), list(array.shape))
    if is_binary:
        assert body[length:] == to_bytes(array)
        assert tensor["parameters"]["binary_data_size"] == len(to_bytes(array))
    else:
        again = np.array(tensor["data"], np.float64 if array.dtype.kind in "fV" else array.dtype)
        assert np.array_equal(again.astype(array.dtype), array.reshape(-1), equal_nan=array.dtype.kind in "fV")


def tensor(**changed: Any) -> dict[str, Any]:
    made = {"name": "x", "datatype": "INT64", "shape": [1], "data": [1], **changed}
    return {name: value for name, value in made.items() if value is not ...}


def binary(size: Any) -> dict[str, Any]:
    return tensor(data=..., parameters={"binary_data_size": size})


BAD_REQUESTS: dict[str, tuple[Any, str | None, str]] = {
    "no JSON": (b"{", None, "the request is not valid JSON: Expecting property name"),
    "not UTF-8": (b'{"\xff": 1}', None, "the request is not valid JSON"),
    "no object": (b"[]", None, "the request is a JSON list; an object is expected"),
    "deep": (b'{"inputs":' + b"[" * 100_000, None, "the JSON of the request is nested too deeply"),
    "no inputs": ({}, None, "no list of objects 'inputs'"),
    "inputs are no objects": ({"inputs": [1]}, None, "no list of objects 'inputs'"),
    "no name": ({"inputs": [{}]}, None, "an input has the name None"),
    "another input": ({"inputs": [tensor(name="y")]}, None, "the model has no input 'y'; it has x, f, b, s"),
    "another type": ({"inputs": [tensor(name="f")]}, None, "input 'f' is INT64; the model takes FP32"),
    "no type": ({"inputs": [tensor(datatype=...)]}, None, "input 'x' is None; the model takes INT64"),
    "no shape": ({"inputs": [tensor(shape=...)]}, None, "input 'x' has the shape None"),
    "a negative size": ({"inputs": [tensor(shape=[-1])]}, None, "input 'x' has the shape [-1]; a shape is a list"),
    "a size that is true": ({"inputs": [tensor(shape=[True])]}, None, "a shape is a list of sizes from 0 on"),
    "a huge shape": ({"inputs": [tensor(shape=[2**62])]}, None, "has 1 values; the shape [4611686018427387904] has"),
    "another shape": ({"inputs": [tensor(shape=[2])]}, None, "input 'x' has 1 values; the shape [2] has 2"),
    "another rank": ({"inputs": [tensor(shape=[1, 1])]}, None, "has the shape [1, 1]; the model takes [?]"),
    "no data": ({"inputs": [tensor(data=...)]}, None, "neither data nor the parameter binary_data_size"),
    "twice": ({"inputs": [tensor(), tensor()]}, None, "input 'x' is there twice"),
    "a large number": ({"inputs": [tensor(data=[2**70])]}, None, "does not fit into int64"),
    "a fraction": ({"inputs": [tensor(data=[1.5])]}, None, "input 'x', row 0: 1.5 does not fit into int64"),
    "a text": ({"inputs": [tensor(data=["1"])]}, None, "'1' does not fit into int64"),
    "a flag": ({"inputs": [tensor(data=[True])]}, None, "True does not fit into int64"),
    "nothing": ({"inputs": [tensor(data=[None])]}, None, "input 'x', row 0 has no value"),
    "infinite": ({"inputs": [tensor(name="f", datatype="FP32", data=[1e300])]}, None, "1e+300 does not fit into float"),
    "no flag": ({"inputs": [tensor(name="b", datatype="BOOL", data=[1])]}, None, "1 does not fit into bool"),
    "no string": ({"inputs": [tensor(name="s", datatype="BYTES", data=[1])]}, None, "row 0: expected a string, got 1"),
    "no header": (b"{}", "x", "the header inference-header-content-length is 'x'; the body has 2 bytes"),
    "a negative header": (b"{}", "-1", "the header inference-header-content-length is '-1'"),
    "a long header": (b"{}", "3", "the header inference-header-content-length is '3'; the body has 2 bytes"),
    "too short": ({"inputs": [binary(8)]}, ..., "input 'x' has binary_data_size 8; 0 bytes are left"),
    "a negative length": ({"inputs": [binary(-8)]}, ..., "input 'x' has binary_data_size -8"),
    "no length": ({"inputs": [binary("8")]}, ..., "the parameter binary_data_size is '8'; int is expected"),
    "too long": (b'{"inputs":[]}more', "13", "the request has 17 bytes, and its JSON and tensors 13"),
    "an output": ({"inputs": [], "outputs": [{"name": "z"}]}, None, "the model has no output 'z'; it has y"),
    "an id": ({"inputs": [], "id": 7}, None, "the id 7 is not a string"),
}

TENSORS = Tensors(
    {
        "x": InputType(TensorProto.INT64, (None,)),
        "f": InputType(TensorProto.FLOAT, (None,)),
        "b": InputType(TensorProto.BOOL, (None,)),
        "s": InputType(TensorProto.STRING, (None,)),
    },
    [],
)


@pytest.mark.parametrize("kind", BAD_REQUESTS)
def test_bad_requests(kind):
    body, length, message = BAD_REQUESTS[kind]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RequestError) as raised:
        read_request(content, str(len(content)) if length is ... else length, TENSORS, ["y"])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.status == 400


@given(st.binary(max_size=20), st.integers(0, 3))
def test_any_bytes_as_strings(content, count):
    """They are read whole, or refused."""
    try:
        array = TENSORS.from_bytes("s", content, [count], count)
    except RequestError as error:
        assert "input 's'" in str(error)  # noqa: PT017  # other bytes raise nothing
    else:
        assert to_bytes(array) == content


@given(st.binary(max_size=20), st.sampled_from(["x", "f", "b"]), st.integers(0, 3))
def test_any_bytes_as_numbers(content, name, count):
    try:
        array = TENSORS.from_bytes(name, content, [count], count)
    except RequestError as error:
        assert f"input {name!r}" in str(error)  # noqa: PT017
    else:
        assert array.tobytes() == content


BASKETS = Features(
    [
        Feature("items", "ragged", {"values": "v", "row_splits": "r"}),
        Feature("age", "dense", {"values": "age"}),
    ],
    {
        "v": InputType(TensorProto.INT64, (None,)),
        "r": InputType(TensorProto.INT64, (None,)),
        "age": InputType(TensorProto.FLOAT, (None,)),
    },
)
OUTPUTS = ["scores", "ids"]
ROW = {"items": [5, 7], "age": 31}
BAD_ROWS: dict[str, tuple[Any, str]] = {
    "neither": ({}, "send either 'instances' or 'inputs'"),
    "both": ({"instances": [], "inputs": {}}, "send either 'instances' or 'inputs'"),
    "another key": ({"instances": [ROW], "rows": []}, "the request has 'rows'"),
    "no output": ({"instances": [ROW], "outputs": ["score"]}, "the model has no output 'score'; it has scores, ids"),
    "no outputs": ({"instances": [ROW], "outputs": []}, "'outputs' is []; a list of the names of outputs is expected"),
    "outputs": ({"instances": [ROW], "outputs": {}}, "'outputs' is {}; a list of the names of outputs is expected"),
    "signature": ({"instances": [ROW], "signature_name": "x"}, "no signature 'x'; the model has 'serving_default'"),
    "no rows": ({"instances": []}, "'instances' must be a non-empty list"),
    "no list": ({"instances": ROW}, "'instances' must be a non-empty list"),
    "no object": ({"instances": [ROW, 1]}, "instances[1] must be an object with the features 'items', 'age'"),
    "missing": ({"instances": [ROW, {"items": []}]}, "instances[1]: feature 'age' is missing"),
    "unknown": ({"instances": [{**ROW, "x": 1}]}, "instances[0]: the model has no feature 'x'"),
    "a value": ({"instances": [ROW, {**ROW, "items": [1, 1.5]}]}, "feature 'items', row 1, position 1: 1.5 does not"),
    "no value": ({"instances": [{**ROW, "age": None}]}, "feature 'age', row 0 has no value"),
    "no list of ids": ({"instances": [{**ROW, "items": 5}]}, "feature 'items', row 0: expected a list, got 5"),
    "lengths": ({"inputs": {"items": [[1]], "age": [1, 2]}}, "feature 'age' has 2 rows, and feature 'items' has 1"),
    "a column": ({"inputs": {"items": [[1]]}}, "feature 'age' is missing"),
    "no columns": ({"inputs": [1]}, "'inputs' has no names, and the model has the features 'items', 'age'"),
}


def test_the_guide_has_every_address_and_field():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "serving.md").read_text()
    table = guide[guide.index("### Addresses and fields") :]
    schemas = openapi({})["components"]["schemas"]
    words = {field for name in ("Infer", "Predict") for field in schemas[name]["properties"]}
    words |= {*schemas["Infer"]["properties"]["inputs"]["items"]["properties"], *_EXTENSIONS}
    words -= {"parameters"}
    words |= {each.path.replace("/versions/{version}", "") for each in ENDPOINTS if "{verb}" not in each.path}
    assert [word for word in sorted(words) if f"{word}`" not in table] == []


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_bad_rows(kind):
    request, message = BAD_ROWS[kind]
    with pytest.raises(RequestError) as raised:
        read_rows(json.dumps(request).encode(), BASKETS, OUTPUTS)
    assert message in str(raised.value)


def test_rows_and_columns():
    expected = BASKETS.feeds({"items": [[5, 7], None], "age": [31, 2.5]})
    rows = {"instances": [ROW, {"items": None, "age": 2.5}], "signature_name": "serving_default"}
    columns = {"inputs": {"items": [[5, 7], []], "age": [31, 2.5]}}
    for request, count in ((rows, 2), (columns, None)):
        feeds, found, _ = read_rows(json.dumps(request).encode(), BASKETS, OUTPUTS)
        assert found == count
        assert {name: array.tolist() for name, array in feeds.items()} == {
            name: array.tolist() for name, array in expected.items()
        }


def test_a_single_feature_needs_no_name():
    known = Features([Feature("m", "example", {"serialized": "m"})], {"m": InputType(TensorProto.STRING, (None,))})
    message = {"b64": base64.b64encode(b"\0\xff").decode()}
    for request in ({"instances": [message]}, {"instances": [{"m": message}]}, {"inputs": [message]}):
        feeds, _, _ = read_rows(json.dumps(request).encode(), known, OUTPUTS)
        assert feeds["m"].tobytes() == b"\0\xff"
    with pytest.raises(RequestError, match="feature 'm', row 0: a serialized message is expected"):
        read_rows(b'{"instances": ["text"]}', known, OUTPUTS)
    for rows in ([{"n": message}], [{"m": message}, {"n": message}]):
        with pytest.raises(RequestError, match=rf"instances\[{len(rows) - 1}\]: the model has no feature 'n'"):
            read_rows(json.dumps({"instances": rows}).encode(), known, OUTPUTS)


def test_answers_of_rows():
    results = {"a": np.array([1.5, np.nan], np.float32), "b": np.array([[1, 2], [3, 4]])}
    assert write_rows(results, 2) == b'{"predictions": [{"a": 1.5, "b": [1, 2]}, {"a": NaN, "b": [3, 4]}]}'
    assert write_rows(results, None) == b'{"outputs": {"a": [1.5, NaN], "b": [[1, 2], [3, 4]]}}'
    assert write_rows({"a": np.array([1, 2])}, 2) == b'{"predictions": [1, 2]}'
    with pytest.raises(RequestError, match=r"output 'a' has the shape \[2\], and there are 3 rows"):
        write_rows(results, 3)
