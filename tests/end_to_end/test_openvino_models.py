"""Whole models: those that OpenVINO converted from torch and TensorFlow are saved as IRs, converted to ONNX and give
OpenVINO's own results; those converted here from TensorFlow give TensorFlow's results on OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.openvino_runs import FLOAT32, outputs_of, run_model, run_saved

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert

pytestmark = pytest.mark.slow

ov = pytest.importorskip("openvino")

#: OpenVINO's kernels and ONNX Runtime's add in different orders. Both models have the same weights, also from an IR
#: with float16 weights, which are widened before anything is computed.
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}


@pytest.fixture(params=[False, True], ids=["float32", "float16 weights"])
def round_trip(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """`round_trip(ov_model, *batches)`: save, convert, check, and run both on each batch; returns the ONNX model."""

    def check(model: Any, *batches: list[Any]) -> Any:
        path = tmp_path / "model.xml"
        ov.save_model(model, path, compress_to_fp16=request.param)
        converted = convert(path)
        onnx.checker.check_model(converted, full_check=True)
        session = InferenceSession(converted)
        core = ov.Core()
        compiled = core.compile_model(core.read_model(path), "CPU", FLOAT32)
        names = [value.name for value in converted.graph.input]
        for batch in batches:
            feeds = dict(zip(names, batch, strict=True))
            actual = session.run(None, feeds)
            for got, want in zip(actual, outputs_of(compiled, dict(enumerate(batch))), strict=True):
                assert got.dtype == want.dtype
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, **TOLERANCE)
        return converted

    return check


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # OpenVINO cannot convert it
    return torch


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def from_torch(module: Any, *example: Any) -> Any:
    import torch

    return ov.convert_model(module.eval(), example_input=tuple(torch.from_numpy(x) for x in example))


def test_a_convolutional_network(torch: Any, round_trip: Callable[..., Any]) -> None:
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width), nn.SiLU(),
                nn.Conv2d(width, width, 1), nn.GroupNorm(2, width), nn.Hardswish(),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), Residual(8), nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3, dilation=2), nn.ConvTranspose2d(4, 4, 2, stride=2),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
        nn.Softmax(-1),
    )  # fmt: skip
    round_trip(from_torch(network, normal(1, 3, 32, 32)), [normal(1, 3, 32, 32)], [normal(3, 3, 40, 28)])


def test_a_recurrent_network(torch: Any, round_trip: Callable[..., Any]) -> None:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(30, 6)
            self.lstm = torch.nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.gru = torch.nn.GRU(10, 4, batch_first=True)
            self.tags = torch.nn.Linear(4, 3)

        def forward(self, ids: Any) -> Any:
            states, _ = self.lstm(self.words(ids))
            states, last = self.gru(states)
            return self.tags(states).log_softmax(-1), last

    batches = [[np.random.default_rng(k).integers(0, 30, (2 + k, 7 + k))] for k in range(2)]
    round_trip(from_torch(Tagger(), *batches[0]), *batches)


def test_a_transformer_encoder(torch: Any, round_trip: Callable[..., Any]) -> None:
    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, 16)
            layer = torch.nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
            self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, ids: Any) -> Any:
            states = self.layers(self.words(ids), src_key_padding_mask=ids == 0)
            kept = (ids != 0).unsqueeze(-1)
            return (states * kept).sum(1) / kept.sum(1)

    batches = [[np.int64([[3, 7, 9, 0, 0], [1, 2, 3, 4, 5]])], [np.int64([[8, 0, 0]])]]
    round_trip(from_torch(Encoder(), *batches[0]), *batches)


def test_a_detector(torch: Any, round_trip: Callable[..., Any]) -> None:
    """The best boxes of a feature map: those above a threshold, except those that overlap a better one."""

    class Detector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.heads = torch.nn.Conv2d(8, 5, 1)

        def forward(self, image: Any) -> Any:
            found = self.heads(torch.relu(self.backbone(image))).flatten(2).transpose(1, 2)[0]
            scores, order = found[:, 0].sigmoid().topk(20)
            middle, size = found[order, 1:3], found[order, 3:5].exp()
            low, high = middle - size / 2, middle + size / 2
            overlap = torch.minimum(high[:, None], high[None]) - torch.maximum(low[:, None], low[None])
            both = overlap.clamp(min=0).prod(-1)
            area = size.prod(-1)
            covered = (both / (area[:, None] + area[None] - both) > 0.6).tril(-1).any(-1)
            chosen = torch.nonzero((scores > 0.4) & ~covered)[:, 0]
            return torch.cat([low, high], -1)[chosen], scores[chosen], order[chosen]

    model = round_trip(from_torch(Detector(), normal(1, 3, 24, 24)), [normal(1, 3, 24, 24)], [normal(1, 3, 32, 20)])
    assert {"TopK", "NonZero"} <= {node.op_type for node in model.graph.node}


@pytest.fixture
def tf() -> Any:
    tf = pytest.importorskip("tensorflow")
    tf.keras.utils.set_random_seed(0)
    return tf


def test_a_wide_and_deep_recommender(tf: Any, round_trip: Callable[..., Any]) -> None:
    table = tf.Variable(normal(40, 6))
    wide = tf.Variable(normal(40, 1))
    deep = [tf.Variable(normal(13, 8)), tf.Variable(normal(8, 1))]

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.int64, "indices"),
            tf.TensorSpec([None], tf.int64, "ids"),
            tf.TensorSpec([2], tf.int64, "shape"),
            tf.TensorSpec([None, 1], tf.float32, "age"),
        ]
    )
    def recommender(indices: Any, ids: Any, shape: Any, age: Any) -> Any:
        filled, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), tf.constant(7, tf.int64))
        rows = filled.indices[:, 0]
        embedded = tf.gather(table, filled.values)
        highest = tf.math.segment_max(embedded, rows)
        mean = tf.sparse.segment_mean(table, filled.values, rows)
        hidden = tf.nn.relu(tf.concat([highest, mean, age], 1) @ deep[0])
        linear = tf.math.segment_sum(tf.gather(wide, filled.values), rows)
        return tf.sigmoid(hidden @ deep[1] + linear)

    batches = [
        [np.int64([[0, 0], [0, 1], [2, 0], [3, 1]]), np.int64([5, 1, 7, 39]), np.int64([5, 3]), normal(5, 1)],
        [np.int64([[1, 0]]), np.int64([3]), np.int64([2, 3]), normal(2, 1)],
    ]
    model = round_trip(ov.convert_model(recommender), *batches)
    assert {"SparseFillEmptyRows", "SegmentMax"} <= {node.op_type for node in model.graph.node}


def test_a_keras_model(tf: Any, round_trip: Callable[..., Any]) -> None:
    """OpenVINO converts Keras's recurrent layers only if they are unrolled."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            tf.keras.Input((12, 6)), layers.Conv1D(8, 3, padding="same", activation="elu"), layers.LayerNormalization(),
            layers.GRU(5, return_sequences=True, unroll=True), layers.LSTM(4, unroll=True), layers.Dense(3, "softmax"),
        ]
    )  # fmt: skip
    serve = tf.function(network, input_signature=[tf.TensorSpec([None, 12, 6], tf.float32)])
    round_trip(ov.convert_model(serve), [normal(2, 12, 6)], [normal(1, 12, 6)])


@pytest.mark.parametrize("run", [run_model, run_saved], ids=["read", "saved as an IR"])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_tensorflow_lookups_on_openvino(tf: Any, run: Callable[..., Any], combiner: str) -> None:
    """Converted from TensorFlow here, run on OpenVINO; OpenVINO's own conversion of these fails or differs."""
    from onnx_sparse.converters import tensorflow

    table = tf.constant(normal(20, 4))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.int64, "indices"),
            tf.TensorSpec([None], tf.int64, "ids"),
            tf.TensorSpec([2], tf.int64, "shape"),
            tf.TensorSpec([None], tf.float32, "weights"),
        ]
    )
    def lookups(indices: Any, ids: Any, shape: Any, weights: Any) -> Any:
        sparse, weighted = tf.SparseTensor(indices, ids, shape), tf.SparseTensor(indices, weights, shape)
        filled, empty = tf.sparse.fill_empty_rows(tf.sparse.reshape(sparse, [-1]), tf.constant(9, tf.int64))
        return (
            tf.nn.safe_embedding_lookup_sparse(table, sparse, weighted, combiner=combiner),
            tf.nn.safe_embedding_lookup_sparse(table, sparse, default_id=3, combiner=combiner),
            filled.indices, filled.values, empty,
        )  # fmt: skip

    model = tensorflow.convert(lookups)
    names = [value.name for value in model.graph.input]
    for batch in (
        [
            np.int64([[0, 0], [0, 1], [2, 0], [3, 1]]),
            np.int64([5, -1, 7, 2]),
            np.int64([5, 3]),
            np.float32([1, 2, -3, 4]),
        ],
        [np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.int64([3, 2]), np.zeros(0, np.float32)],
    ):
        wanted = [value.numpy() for value in lookups(*map(tf.constant, batch))]
        for got, want in zip(run(model, dict(zip(names, batch, strict=True))), wanted, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, **TOLERANCE)
