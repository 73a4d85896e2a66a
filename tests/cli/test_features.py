"""Features of several inputs on the command line."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_sparse.schemas.features import METADATA_KEY, Feature, write_features

PARTS = {"indices": "items", "values": "items_1", "dense_shape": "items_2"}
LISTED = {
    "items": (TensorProto.INT64, ["n", 2]),
    "items_1": (TensorProto.INT64, ["n"]),
    "items_2": (TensorProto.INT64, [2]),
    "words": (TensorProto.STRING, ["m"]),
    "words_1": (TensorProto.INT64, ["r"]),
}


@pytest.fixture
def composed(make_model):
    """A model with a sparse and a ragged feature, of which the first has the name of one of its inputs."""
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in LISTED]
    model = make_model(nodes, LISTED, {f"{name}_out": told for name, told in LISTED.items()})
    write_features(
        model,
        [
            Feature("items", "sparse", PARTS, 10),
            Feature("texts", "ragged", {"values": "words", "row_splits": "words_1"}),
        ],
    )
    return model


def test_rows(cli, save, composed):
    given = ["--input", "items=[[5, 7], null, [3]]", "--input", 'texts=[["a"], [], ["b", "c"]]']
    outputs = cli("run", save(composed), *given, "--json").json["outputs"]
    assert {output["name"]: output["values"] for output in outputs} == {
        "items_out": [[0, 0], [0, 1], [2, 0]],
        "items_1_out": [5, 7, 3],
        "items_2_out": [3, 2],
        "words_out": ["a", "b", "c"],
        "words_1_out": [0, 1, 1, 3],
    }


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"items": [[5, 7]], "age": [31, 42, 27]}, "feature 'age' has 3 rows, and feature 'items' has 1"),
        ({"items": [[5, 7], []], "age": [31]}, "feature 'age' has 1 rows, and feature 'items' has 2"),
        ({"items": [], "age": [31]}, "feature 'age' has 1 rows, and feature 'items' has 0"),
        ({"items": [[5], [7]], "age": [31, 42]}, None),
    ],
)
def test_as_many_rows_of_each_feature(cli, save, make_model, given, reason):
    """ONNX Runtime would broadcast one row to several, without a word."""
    inputs = {"items": (TensorProto.INT64, ["n"]), "splits": (TensorProto.INT64, ["r"])}
    inputs |= {"age": (TensorProto.FLOAT, ["b"]), "bias": (TensorProto.FLOAT, [3]), "scale": (TensorProto.FLOAT, [])}
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in inputs]
    model = make_model(nodes, inputs, {f"{name}_out": told for name, told in inputs.items()})
    items = Feature("items", "ragged", {"values": "items", "row_splits": "splits"})
    write_features(model, [items, *(Feature(name, "dense", {"values": name}) for name in ("age", "bias", "scale"))])
    given = {**given, "bias": [1, 2, 3], "scale": 2}  # neither has rows
    sources = [part for name, value in given.items() for part in ("-i", f"{name}={json.dumps(value)}")]
    result = cli("run", save(model), *sources)
    assert result.code == (0 if reason is None else 1)
    assert reason is None or f"{reason}; all must have as many" in result.error


def test_the_inputs_themselves(cli, save, composed):
    given = ["items=[[0, 1]]", "items_1=[7]", "items_2=[1, 2]", 'words=["a"]', "words_1=[0, 1]"]
    sources = [part for text in given for part in ("--input", text)]
    outputs = cli("run", save(composed), *sources, "--json").json["outputs"]
    assert outputs[0]["values"] == [[0, 1]]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("items=[[1], [null]]", "feature 'items', row 1, position 0 has no value"),
        ("items=3", "feature 'items'"),
        ("texts=[[1]]", "feature 'texts', row 0, position 0: expected a string, got 1"),
        ("items=[[1]]", "feature texts not given; its features are items, texts, whose rows are JSON; its inputs are"),
        ("words=[]", "feature items, input words_1 not given; its features are items, texts"),
        ("text=[[1]]", "the model has no input text (did you mean 'texts'?); its features are items, texts"),
    ],
)
def test_rows_that_do_not_fit(cli, save, composed, given, reason):
    result = cli("run", save(composed), "--input", given)
    assert result.code == 1
    assert reason in result.error


def test_a_feature_beside_its_inputs(cli, save, composed):
    result = cli("run", save(composed), "--input", 'texts=[["a"]]', "--input", 'words=["a"]')
    assert result.code == 1
    assert "feature texts is passed together with its inputs" in result.error


def test_inspect(cli, save, composed):
    path = save(composed)
    assert cli("inspect", path, "--json").json["features"] == [
        {"name": "items", "kind": "sparse", "inputs": PARTS, "vocabulary_size": 10},
        {
            "name": "texts",
            "kind": "ragged",
            "inputs": {"values": "words", "row_splits": "words_1"},
            "vocabulary_size": None,
        },
    ]
    shown = cli("inspect", path).out
    assert "texts" in shown
    assert "row_splits: words_1" in shown


@pytest.mark.parametrize("record", ["[", json.dumps({"version": 1, "features": [{"name": "a"}]})])
def test_a_record_that_is_none(cli, save, composed, record):
    """It is not read, and says so; what does not need it works."""
    del composed.metadata_props[:]
    composed.metadata_props.add(key=METADATA_KEY, value=record)
    path = save(composed)
    assert cli("inspect", path, "--json").json["features"] == []
    result = cli("run", path, "--input", "items=[[1]]")
    assert result.code == 1
    assert METADATA_KEY in result.error
    onnx.checker.check_model(composed)
