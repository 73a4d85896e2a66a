"""Rows as people hold them become the inputs of a model: lists, arrays, matrices, sparse and ragged tensors."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import onnx_sparse
from onnx_sparse.schemas.features import METADATA_KEY, Feature, read_features, write_features

MAPPING = {
    "items": {"indices": "items_i", "values": "items_v", "dense_shape": "items_s"},
    "words": {"values": "words_v", "row_splits": "words_r"},
    "path": {"values": "path_v", "row_splits": "path_r", "row_splits_1": "path_r1"},
    "serialized": {"serialized": "messages"},
}
INPUTS = {
    "items_i": (TensorProto.INT64, [None, 2]),
    "items_v": (TensorProto.INT64, [None]),
    "items_s": (TensorProto.INT64, [2]),
    "words_v": (TensorProto.STRING, [None]),
    "words_r": (TensorProto.INT64, [None]),
    "path_v": (TensorProto.FLOAT, [None]),
    "path_r": (TensorProto.INT32, [None]),
    "path_r1": (TensorProto.INT64, [None]),
    "messages": (TensorProto.STRING, [None]),
    "age": (TensorProto.INT32, [None]),
    "box": (TensorProto.FLOAT, [None, 2]),
}
ROWS: dict[str, Any] = {
    "items": [[5, 7], [], [3]],
    "words": [["a"], None, ["ß", b"b"]],
    "path": [[[1, 2], []], [], [[3]]],
    "serialized": [b"", b"\0", b"abc"],
    "age": [1, 2, 3],
    "box": [[1, 2], [3, 4], [5, 6]],
}


def model(**inputs: Any) -> onnx.ModelProto:
    """A model with these inputs that computes nothing."""
    values = [helper.make_tensor_value_info(name, *told) for name, told in (inputs or INPUTS).items()]
    nodes = [helper.make_node("Identity", [value.name], [f"{value.name}_out"]) for value in values]
    outputs = [
        helper.make_tensor_value_info(f"{value.name}_out", value.type.tensor_type.elem_type, None) for value in values
    ]
    graph = helper.make_graph(nodes, "g", values, outputs)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


def feeds(**changed: Any) -> dict[str, Any]:
    return onnx_sparse.features(model(), MAPPING).feeds(ROWS | changed)


def test_nested_lists():
    made = feeds()
    assert made["items_i"].tolist() == [[0, 0], [0, 1], [2, 0]]
    assert made["items_v"].tolist() == [5, 7, 3]
    assert made["items_s"].tolist() == [3, 2]
    assert made["words_v"].tolist() == ["a", "ß", "b"]
    assert made["words_r"].tolist() == [0, 1, 1, 3]
    assert made["path_v"].tolist() == [1, 2, 3]
    assert made["path_r"].tolist() == [0, 2, 2, 3]
    assert made["path_r1"].tolist() == [0, 2, 2, 3]
    assert made["messages"].dtype.kind == "V"
    assert made["age"].tolist() == [1, 2, 3]
    assert made["box"].tolist() == [[1, 2], [3, 4], [5, 6]]
    for name, (dtype, shape) in INPUTS.items():
        assert made[name].ndim == len(shape)
        assert name == "messages" or made[name].dtype == helper.tensor_dtype_to_np_dtype(dtype)
    session = onnx_sparse.InferenceSession(model())
    assert session.run(["items_v_out"], made)[0].tolist() == [5, 7, 3]


def test_every_input_is_a_dense_feature_if_nothing_is_said():
    simple = model(a=(TensorProto.FLOAT, [None]), b=(TensorProto.INT64, [None, 2]))
    known = onnx_sparse.features(simple)
    assert [(feature.name, feature.kind) for feature in known.values()] == [("a", "dense"), ("b", "dense")]
    made = known.feeds({"a": [1, 2.5], "b": np.zeros((2, 2), np.int64)})
    assert made["a"].dtype == np.float32


@pytest.mark.parametrize("source", ["model", "bytes", "path", "session"])
def test_the_record_in_a_model(tmp_path, source):
    described = model()
    written = [
        Feature("items", "sparse", MAPPING["items"], 10, (None, 4)),
        Feature("words", "ragged", MAPPING["words"], None, (None, 5), MAPPING["items"]),
    ]
    held = {name for feature in written for name in feature.inputs.values()}
    written += [Feature(name, "dense", {"values": name}) for name in INPUTS if name not in held]
    write_features(described, written[:1])
    write_features(described, written)  # replaces what was written
    onnx.save(described, tmp_path / "m.onnx")
    given: Any = {
        "model": described,
        "bytes": described.SerializeToString(),
        "path": tmp_path / "m.onnx",
        "session": onnx_sparse.InferenceSession(tmp_path / "m.onnx"),
    }[source]
    assert list(onnx_sparse.features(given).values()) == written
    assert [entry.key for entry in described.metadata_props] == [METADATA_KEY]


@pytest.mark.parametrize("source", [None, 5, [], {}, onnx.GraphProto()])
def test_what_is_no_model(source):
    with pytest.raises(TypeError, match=rf"a model is an onnx.ModelProto.*, not {type(source).__name__}$"):
        onnx_sparse.features(source)


def test_a_scalar():
    """It is none of rows, and not made one."""
    known = onnx_sparse.features(model(a=(TensorProto.FLOAT, []), b=(TensorProto.FLOAT, [None])))
    for scalar in (2.5, np.float32(2.5), np.array(2.5), np.array(2.5, np.float32)):
        assert known.feeds_of("a", scalar)[0]["a"].shape == ()
        with pytest.raises(ValueError, match=r"feature 'b' has the shape \[\]; the model expects \[\?\]"):
            known.feeds_of("b", scalar)


def test_the_width_of_a_sparse_feature():
    """Of the longest row, or the one that the model has."""
    described = model(**{name: INPUTS[name] for name in MAPPING["items"].values()})
    assert onnx_sparse.features(described, {"items": MAPPING["items"]}).feeds({"items": [[], []]})[
        "items_s"
    ].tolist() == [2, 0]
    write_features(described, [Feature("items", "sparse", MAPPING["items"], None, (None, 3))])
    known = onnx_sparse.features(described)
    assert known.feeds({"items": [[1], []]})["items_s"].tolist() == [2, 3]
    with pytest.raises(ValueError, match="feature 'items', row 1 has 4 values; the model takes at most 3"):
        known.feeds({"items": [[1], [1, 2, 3, 4]]})


def same(column: Any, name: str) -> None:
    for key, expected in feeds().items():
        got = feeds(**{name: column})[key]
        assert got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64, np.int64])
def test_numpy_rows(dtype):
    rows = np.empty(3, object)
    rows[:] = [np.array(row, dtype) for row in ROWS["items"]]
    same(rows, "items")
    same([np.array(row, dtype) for row in ROWS["items"]], "items")


def test_a_matrix_is_rows_of_one_length():
    made = feeds(items=np.array([[5, 7], [3, 4], [1, 2]]))
    assert made["items_i"].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert made["items_v"].tolist() == [5, 7, 3, 4, 1, 2]


def test_scipys_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_matrix(([5, 7, 3], ([0, 0, 2], [1, 4, 0])), shape=(3, 6))
    for form in (matrix, matrix.tocsr(), matrix.tocsc()):
        made = feeds(items=form)
        assert made["items_i"].tolist() == [[0, 1], [0, 4], [2, 0]]
        assert made["items_v"].tolist() == [5, 7, 3]
        assert made["items_s"].tolist() == [3, 6]


def test_sparse_and_ragged_tensors():
    triple = SimpleNamespace(indices=np.array([[0, 0], [0, 1], [2, 0]]), values=np.array([5, 7, 3]), dense_shape=[3, 2])
    same(triple, "items")
    path = SimpleNamespace(
        flat_values=np.array([1.0, 2, 3]), nested_row_splits=(np.array([0, 2, 2, 3]), np.array([0, 2, 2, 3]))
    )
    same(path, "path")


def test_arrays_of_the_models_type_are_not_copied():
    given = np.arange(3, dtype=np.int32)
    assert feeds(age=given)["age"] is given


def test_no_rows():
    made = feeds(**{name: [] for name in ROWS} | {"box": np.zeros((0, 2), np.float32)})
    assert made["items_i"].shape == (0, 2)
    assert made["items_s"].tolist() == [0, 0]
    assert made["words_r"].tolist() == [0]
    assert made["path_r1"].tolist() == [0]
    assert made["box"].shape == (0, 2)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"items": [[5], [None], [3]]}, "feature 'items', row 1, position 0 has no value"),
        ({"items": [[5], [1, 2.5], [3]]}, "feature 'items', row 1, position 1: 2.5 does not fit into int64"),
        (
            {"items": [[5], [2**63], [3]]},
            "feature 'items', row 1, position 0: 9223372036854775808 does not fit into int64",
        ),
        ({"items": [[5], [2**70], [3]]}, "feature 'items', row 1, position 0: 1180591620717411303424 does not fit"),
        ({"items": [[5], 7, [3]]}, "feature 'items', row 1: expected a list, got 7"),
        ({"items": [["a"], [], []]}, "feature 'items', row 0, position 0: 'a' does not fit into int64"),
        ({"items": [[True], [], []]}, "feature 'items', row 0, position 0: True does not fit into int64"),
        ({"items": [[5], [6]]}, "feature 'words' has 3 rows, and feature 'items' has 2"),
        ({"words": ["ab", [], []]}, "feature 'words', row 0: expected a list, got 'ab'"),
        ({"words": [["a"], {"b": 2}, []]}, "feature 'words', row 1: expected a list, got {'b': 2}"),
        ({"words": [["a"], {"b"}, []]}, "feature 'words', row 1: expected a list, got {'b'}"),
        ({"age": None}, "feature 'age', row 0 has no value"),
        ({"words": [["a"], [3], []]}, "feature 'words', row 1, position 0: expected a string, got 3"),
        ({"words": [["a"], [b"\xff"], []]}, "feature 'words', row 1, position 0: b'\\xff' is not UTF-8"),
        ({"path": [[[1, None]], [], []]}, "feature 'path', row 0 has no value"),
        ({"path": [[1], [], []]}, "feature 'path', row 0: expected a list, got 1"),
        ({"path": [[[1e39]], [], []]}, "feature 'path', row 0: 1e+39 does not fit into float"),
        ({"serialized": [b"", "a", b""]}, "feature 'serialized', row 1: 'a' is not a serialized message (bytes)"),
        ({"age": [1, 2**31, 3]}, "feature 'age', row 1: 2147483648 does not fit into int32"),
        ({"age": [1, None, 3]}, "feature 'age', row 1 has no value"),
        ({"age": [1, 2.5, 3]}, "feature 'age', row 1: 2.5 does not fit into int32"),
        ({"age": np.array([1.0])}, "feature 'age' has values of the type float64; the model expects int32"),
        ({"box": [[1, 2], [3], [4, 5]]}, "feature 'box'"),
        ({"box": [1, 2, 3]}, "feature 'box' has the shape [3]; the model expects [?, 2]"),
        ({"box": [[1, 2], [3, None], [4, 5]]}, "feature 'box', row 1, position 1 has no value"),
        (
            {"box": [[1, 2], [3, 2**24 + 1], [4, 5]]},
            "feature 'box', row 1, position 1: 16777217 does not fit into float",
        ),
        ({"items": {}}, "feature 'items': expected a list of rows, got {}"),
        ({"items": {3}}, "feature 'items': expected a list of rows, got {3}"),
        ({"items": np.array(3)}, "feature 'items': expected a list of rows, got array(3)"),
        ({"items": [[[1]], [[2]], [[3]]]}, "feature 'items' has values of the shape [3, 1]; the model expects [?]"),
        ({"items": np.zeros((3, 2, 2), np.int64)}, "feature 'items' has values of the shape [6, 2]; the model"),
        ({"words": [[["a"]], [], []]}, "feature 'words' has values of the shape [1, 1]; the model expects [?]"),
    ],
)
def test_rows_that_do_not_fit(changed, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        feeds(**changed)
    assert reason in str(caught.value)


def test_a_feature_that_is_missing():
    with pytest.raises(ValueError, match=r"no feature 'bax' \(did you mean 'box'\?\); it has 'items', 'words'"):
        onnx_sparse.features(model(), MAPPING).feeds_of("bax", [])
    rows = {name: rows for name, rows in ROWS.items() if name != "age"}
    with pytest.raises(ValueError, match=r"feature 'age' is missing$"):
        onnx_sparse.features(model(), MAPPING).feeds(rows)
    with pytest.raises(ValueError, match=r"feature 'age' is missing; the rows have 'agee'$"):
        onnx_sparse.features(model(), MAPPING).feeds({**rows, "agee": ROWS["age"]})


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ({"items": {"indices": "items_i"}}, "feature 'items': no kind has the roles indices"),
        ({"items": {"values": "nothing"}}, "feature 'items': its values 'nothing' is not an input of the model"),
        ({"a": {"values": "age"}, "b": {"values": "age"}}, "input 'age' is in two features, 'a' and 'b'"),
        (
            {"items": MAPPING["items"] | {"dense_shape": MAPPING["items"]["indices"]}},
            "feature 'items' has an input in two roles",
        ),
    ],
)
def test_mappings_that_do_not_fit(mapping, reason):
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        onnx_sparse.features(model(), mapping)


RAGGED = '{"version": 1, "features": [{"name": "a", "kind": "ragged", "inputs": {ROLES}, "source": SOURCE}]}'
TRIPLE = '{"indices": "i", "values": "v", "dense_shape": "s"}'


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 2, "features": []}',
        '{"version": 1, "features": [3]}',
        '{"version": 1, "features": [{"name": "a"}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "dense", "inputs": {"values": 3}}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "other", "inputs": {"values": "x"}}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "dense", "inputs": {"value": "x"}}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "dense", "inputs": {"values": "x"}, "shape": ["b"]}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "dense", "inputs": {}}]}',
        '{"version": 1, "features": [{"name": "a", "kind": "dense", "inputs": {"values": "x"}, "source": {}}]}',
        RAGGED.replace("ROLES", '"values": "x", "row_splits": "y"').replace("SOURCE", '{"indices": "x"}'),
        RAGGED.replace("ROLES", '"values": "x", "row_splits": "y"').replace("SOURCE", "3"),
        RAGGED.replace("ROLES", '"values": "x", "row_splits": "y"').replace("SOURCE", '{"indices": 3}'),
        RAGGED.replace("ROLES", '"values": "x", "row_splits": "y", "row_splits_1": "z"').replace("SOURCE", TRIPLE),
        "[" * 100_000,
    ],
)
def test_records_of_untrusted_models(record):
    with pytest.raises(ValueError, match="feature"):
        read_features(record)


@pytest.mark.timeout(30)
def test_a_record_takes_time_in_proportion_to_its_length():
    """It comes from the model's file, which anybody may have written."""
    many = 60_000
    features = [{"name": f"f{k}", "kind": "dense", "inputs": {"values": f"i{k}"}} for k in range(many)]
    record = json.dumps({"version": 1, "features": features})
    assert len(read_features(record)) == many
    roles = {"values": "v", **{f"row_splits_{k}" if k else "row_splits": f"s{k}" for k in range(many)}}
    record = json.dumps({"version": 1, "features": [{"name": "f", "kind": "ragged", "inputs": roles}]})
    assert len(read_features(record)[0].row_splits) == many
    inputs = [helper.make_tensor_value_info(f"i{k}", TensorProto.FLOAT, [None]) for k in range(many)]
    large = helper.make_model(helper.make_graph([], "g", inputs, []))
    large.metadata_props.add(key=METADATA_KEY, value=json.dumps({"version": 1, "features": features}))
    with pytest.raises(ValueError, match=r"no feature 'x'; it has 'f0', 'f1'.*, 'f11', \.\.\.$"):
        onnx_sparse.features(large).feeds({"x": [1.0]}, extra="error")


def test_inputs_of_unknown_rank(tmp_path):
    """A session reports [] for them, as for scalars, which stay scalars."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", None), ("s", []))]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Add", ["x", "s"], ["y"])], "g", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    sources = [tmp_path / "m.onnx", model.SerializeToString(), model]
    sessions = [onnx_sparse.InferenceSession(source) for source in sources]
    for held in (*sessions, *sources):
        found = onnx_sparse.features(held)
        assert [kind.shape for kind in found.inputs.values()] == [None, ()]
        for rows in ([1.0, 2.0], [[1.0], [2.0]]):
            assert found.feeds_of("x", rows)[0]["x"].tolist() == rows
        with pytest.raises(ValueError, match=r"expects \[\]"):
            found.feeds_of("s", [1.0])


@pytest.mark.parametrize("last", ["false", "true", "exact"])
@pytest.mark.parametrize("before", ["", "ends = Identity(offsets)", "ends = Cast<to = 7>(offsets)", "ends = PART"])
def test_offsets_of_bags_as_row_splits(last, before):
    """Without the end of the last bag they would be those of a row more, in each run; a part of them is not they."""
    part = "Slice(offsets, zero, last)"
    text = f"""<ir_version: 10, opset_import: ["": 18, "onnx_sparse": 1]>
    g (float[v, 2] table, int64[k] items, int64[b] offsets) => (float[n, 2] y)
    <int64[1] zero = {{0}}, int64[1] last = {{-1}}, int64 none = {{-1}}, float[0] weights = {{}}> {{
        {before.replace("PART", part)}
        y = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "{last}"> (
            table, items, {"ends" if before else "offsets"}, none, weights)
    }}"""
    mapping = {"items": {"values": "items", "row_splits": "offsets"}}
    made = parser.parse_model(text)
    if last == "false" and "PART" not in before:
        with pytest.raises(
            ValueError, match=r"feature 'items': input 'offsets' says where bags begin.*_last_offset=True"
        ):
            onnx_sparse.features(made, mapping)
    else:
        assert onnx_sparse.features(made, mapping)["items"].kind == "ragged"
