"""`function=` converts any function of a SavedModel, as TensorFlow would call it, where no signature does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402


class Scale(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], name="x"), tf.TensorSpec([None])])
    def __call__(self, x: Any, y: Any) -> Any:
        return x * self.factor, y + self.factor


class Recommender(tf.Module):
    """Functions that capture variables (two of one name), a constant and a lookup table."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Scale(), Scale()
        self.second.factor.assign(3.0)
        self.table = tf.Variable(np.arange(30, dtype=np.float32).reshape(10, 3))
        self.offset = tf.constant([1.0, 2.0, 3.0])
        words = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        self.words = tf.lookup.StaticHashTable(words, -1)

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.int64)])
    def lookup(self, items: Any) -> Any:
        rows = tf.nn.safe_embedding_lookup_sparse(self.table, items, combiner="sum") + self.offset
        return {"rows": rows, "count": tf.shape(rows)[0]}

    @tf.function
    def ids(self, words: Any) -> Any:
        return self.words.lookup(words) * 10


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = Recommender()
    model.ids(tf.constant(["a"]))
    model.ids(tf.constant([["a", "b"]]))
    path = tmp_path_factory.mktemp("models") / "recommender"
    tf.saved_model.save(model, str(path), signatures={})
    return path


def answers(path: Path, function: str, feeds: dict[str, Any]) -> dict[str, Any]:
    session = onnx_sparse.InferenceSession(convert(path, function=function))
    names = [output.name for output in session.get_outputs()]
    assert [value.name for value in session.get_inputs()] == list(feeds)
    return {name: value.tolist() for name, value in zip(names, session.run(names, feeds), strict=True)}


def test_a_function_with_a_sparse_argument_and_a_dict_of_results(saved: Path):
    feeds = {"items": np.array([[0, 0], [0, 1], [2, 0]]), "items_1": np.array([1, 2, 9]), "items_2": np.array([3, 2])}
    model = Recommender()  # which its functions do not keep
    expected = model.lookup(tf.SparseTensor(*feeds.values()))
    assert answers(saved, "lookup", feeds) == {name: value.numpy().tolist() for name, value in expected.items()}


@pytest.mark.parametrize(("name", "factor"), [("first", 2.0), ("second", 3.0)])
def test_functions_of_parts_have_the_variables_of_these(saved: Path, name: str, factor: float):
    x = np.array([1.0, 4.0], np.float32)
    expected = {"output_0": (x * factor).tolist(), "output_1": (x + factor).tolist()}
    assert answers(saved, f"{name}.__call__", {"x": x, "y": x}) == expected


def test_each_trace_of_a_function_can_be_chosen(saved: Path):
    with pytest.raises(ConversionError, match="no function named 'ids'; there is lookup") as refused:
        convert(saved, function="ids")
    traces = [name for name in str(refused.value).replace(",", "").split() if name.startswith("__inference_ids")]
    ranks = set()
    for trace in traces:
        (shape,) = [value.shape for value in onnx_sparse.InferenceSession(convert(saved, function=trace)).get_inputs()]
        words = np.full(shape, "b", object)
        assert answers(saved, trace, {"words": words}) == {"output_0": np.full(shape, 20).tolist()}
        ranks.add(len(shape))
    assert ranks == {1, 2}


@pytest.mark.parametrize("name", ["lookup", "second.__call__"])
def test_verification_calls_the_same_function(saved: Path, name: str, tmp_path: Path):
    conversion = onnx_sparse.convert(saved, tmp_path / "model.onnx", function=name, verify=True)
    assert conversion.verification is not None
    assert {record.verdict.name for record in conversion.verification} == {"EQUAL"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "has no signatures; choose a function, as in --function=lookup"),
        ({"function": "lookpu"}, r"no function named 'lookpu'; did you mean lookup\?"),
        ({"function": "lookup", "signature": "serving_default"}, "choose a signature or a function, not both"),
    ],
)
def test_what_cannot_be_chosen_is_refused(saved: Path, options: dict[str, str], message: str):
    with pytest.raises(ConversionError, match=message):
        convert(saved, **options)


def _bind_an_object_that_is_not_there(objects: Any, trace: str) -> None:
    objects.concrete_functions[trace].bound_inputs[0] = 10**6


def _bind_more_than_the_function_takes(objects: Any, trace: str) -> None:
    objects.concrete_functions[trace].bound_inputs.extend([1] * 20)


def _have_children_that_are_not_there(objects: Any, trace: str) -> None:
    objects.nodes[0].children[0].node_id = 10**6
    objects.concrete_functions[trace].bound_inputs[0] = -1


@pytest.mark.parametrize(
    "damage",
    [
        _bind_an_object_that_is_not_there,
        _bind_more_than_the_function_takes,
        _have_children_that_are_not_there,
    ],
)
def test_objects_that_contradict_the_graph_are_refused(saved: Path, tmp_path: Path, damage: Any):
    message = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())
    objects = message.meta_graphs[0].object_graph_def
    trace = next(name for name in objects.concrete_functions if "lookup" in name)
    damage(objects, trace)
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    with pytest.raises(ConversionError, match=r"is damaged|captures|no function named"):
        convert(tmp_path, function="lookup")
