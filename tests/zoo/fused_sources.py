"""Writes ONNX files with other exporters, for `fused_suite.py`.

    pip install skl2onnx hummingbird-ml tf2onnx tensorflow torch
    python tests/zoo/fused_sources.py FOLDER

Runs in an environment without this project. An exporter that is not installed is skipped, and so is a model that it
does not take.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Makes the bytes of a file.
Make = Callable[[], bytes]

_ROWS, _FEATURES, _CLASSES = 40, 6, 3


def _data() -> tuple[Array, Array, Array]:
    """Features, classes and targets."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, (_ROWS, _FEATURES)).astype(np.float32)
    return x, rng.integers(0, _CLASSES, _ROWS), x.sum(1) + rng.normal(size=_ROWS)


def _estimators() -> Iterator[tuple[str, Any]]:
    from sklearn.utils import all_estimators

    x, classes, targets = _data()
    for kind in ("classifier", "regressor", "transformer", "cluster"):
        for name, made in all_estimators(type_filter=kind):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator = made()
                estimator.fit(x, classes if kind == "classifier" else targets)
                yield f"{kind}-{name}", estimator


def skl2onnx() -> Iterator[tuple[str, Make]]:
    """scikit-learn's estimators with their default settings."""
    from skl2onnx import to_onnx

    x, _, _ = _data()
    for name, estimator in _estimators():
        yield name, lambda estimator=estimator: to_onnx(estimator, x[:2], target_opset=18).SerializeToString()
        if "classifier" in name:
            options = {id(estimator): {"zipmap": False}}
            yield (
                f"{name}-arrays",
                lambda estimator=estimator, options=options: to_onnx(
                    estimator, x[:2], target_opset=18, options=options
                ).SerializeToString(),
            )


def hummingbird() -> Iterator[tuple[str, Make]]:
    """The same estimators as tensor operations."""
    from hummingbird.ml import convert

    x, _, _ = _data()
    for name, estimator in _estimators():
        yield name, lambda estimator=estimator: convert(estimator, "onnx", x).model.SerializeToString()


def torchscript() -> Iterator[tuple[str, Make]]:
    """torch's older exporter."""
    import torch
    from torch import nn

    embedding = nn.EmbeddingBag(20, 4, mode="sum")
    ids, offsets = torch.randint(0, 20, (9,)), torch.tensor([0, 2, 5])
    rows, images, steps = torch.randn(5, 8), torch.randn(2, 3, 12, 12), torch.randn(2, 7, 8)
    index = torch.tensor([0, 2, 0, 1, 1])
    calls: dict[str, Callable[..., Any]] = {
        "scatter_add": lambda x, i: torch.zeros(4, 8).scatter_add(0, i[:, None].expand_as(x), x),
        "index_add": lambda x, i: torch.zeros(4, 8).index_add(0, i, x),
        "index_put": lambda x, i: torch.zeros(4, 8).index_put((i,), x, accumulate=True),
        "index_put last": lambda x, i: torch.zeros(4, 8).index_put((i,), x),
        "scatter": lambda x, i: torch.zeros(4, 8).scatter(0, i[:, None].expand_as(x), x),
        "gather": lambda x, i: x[i],
        "index_select": lambda x, i: x.index_select(0, i),
        "where": lambda x, i: torch.where(x > 0, x, i[:, None]),
        "one_hot": lambda x, i: nn.functional.one_hot(i, 5),
        "mean by index": lambda x, i: (
            torch.zeros(4, 8).index_add(0, i, x) / torch.zeros(4, 1).index_add(0, i, x[:, :1] * 0 + 1).clamp(min=1)
        ),
        "topk": lambda x, i: x.topk(3),
        "sort": lambda x, i: x.sort(0)[0][i],
        "cumsum": lambda x, i: x.cumsum(0),
        "nonzero": lambda x, i: i.nonzero(),
        "unique": lambda x, i: torch.unique(i, return_inverse=True, return_counts=True),
        "masked_fill": lambda x, i: x.masked_fill(x > 0, -1),
        "masked_select": lambda x, i: x.masked_select(x > 0),
        "softmax": lambda x, i: x.softmax(1),
        "layer norm": lambda x, i: nn.functional.layer_norm(x, (8,)),
        "norm": lambda x, i: nn.functional.normalize(x),
        "einsum": lambda x, i: torch.einsum("ij,kj->ik", x, x[i]),
        "cdist": lambda x, i: torch.cdist(x, x[i]),
        "roll": lambda x, i: x.roll(2, 0),
        "flip": lambda x, i: x.flip(0),
        "pad": lambda x, i: nn.functional.pad(x, (1, 2)),
        "std": lambda x, i: x.std(1),
        "argmax": lambda x, i: x.argmax(1),
        "repeat_interleave": lambda x, i: x.repeat_interleave(2, 0),
        "amax": lambda x, i: x.amax(1),
        "clamp": lambda x, i: x.clamp(-1, 1) + x.clamp(-2, 2),
    }
    layers: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "EmbeddingBag": (embedding, (ids, offsets)),
        "EmbeddingBag mean": (nn.EmbeddingBag(20, 4, mode="mean"), (ids, offsets)),
        "Embedding": (nn.Embedding(20, 4), (ids,)),
        "LSTM": (nn.LSTM(8, 5, batch_first=True), (steps,)),
        "GRU": (nn.GRU(8, 5, batch_first=True, bidirectional=True), (steps,)),
        "RNN": (nn.RNN(8, 5), (steps,)),
        "TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (steps,)),
        "MultiheadAttention": (nn.MultiheadAttention(8, 2), (steps, steps, steps)),
        "Conv2d": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), (images,)),
        "ConvTranspose2d": (nn.ConvTranspose2d(3, 4, 3, stride=2), (images,)),
        "Upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), (images,)),
        "GroupNorm": (nn.GroupNorm(1, 3), (images,)),
        "PixelShuffle": (nn.PixelUnshuffle(2), (images,)),
        "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(1), (images,)),
        "MLP": (nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.Dropout(), nn.Linear(4, 2), nn.Sigmoid()), (rows,)),
        "Bilinear": (nn.Bilinear(8, 8, 3), (rows, rows)),
    }
    for activation in ("ELU", "SELU", "CELU", "Hardswish", "Softplus", "PReLU", "Mish", "SiLU", "LogSigmoid", "Tanh"):
        layers[activation] = (getattr(nn, activation)(), (rows,))

    class Call(nn.Module):  # type: ignore[misc]
        def __init__(self, call: Callable[..., Any]) -> None:
            super().__init__()
            self.call = call

        def forward(self, *given: Any) -> Any:
            return self.call(*given)

    layers |= {name: (Call(call), (rows, index)) for name, call in calls.items()}
    for opset in (13, 17):
        for name, (layer, given) in layers.items():

            def make(layer: Any = layer, given: Any = given, opset: int = opset) -> bytes:
                buffer = io.BytesIO()
                names = [f"input_{k}" for k in range(len(given))]
                dynamic = {each: {0: "rows"} for each in names} if len(given) == 1 else None
                torch.onnx.export(
                    layer.eval(),
                    given,
                    buffer,
                    dynamo=False,
                    opset_version=opset,
                    input_names=names,
                    dynamic_axes=dynamic,
                )
                return buffer.getvalue()

            yield f"{name}-{opset}", make


def tf2onnx() -> Iterator[tuple[str, Make]]:
    """Functions of TensorFlow."""
    import tensorflow as tf
    import tf2onnx

    rows, ids = tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int64)
    table = tf.constant(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
    calls: dict[str, Callable[..., Any]] = {
        "unsorted_segment_sum": lambda x, i: tf.math.unsorted_segment_sum(x, i, 5),
        "unsorted_segment_mean": lambda x, i: tf.math.unsorted_segment_mean(x, i, 5),
        "unsorted_segment_max": lambda x, i: tf.math.unsorted_segment_max(x, i, 5),
        "unsorted_segment_min": lambda x, i: tf.math.unsorted_segment_min(x, i, 5),
        "unsorted_segment_prod": lambda x, i: tf.math.unsorted_segment_prod(x, i, 5),
        "segment_sum": tf.math.segment_sum,
        "segment_mean": tf.math.segment_mean,
        "segment_max": tf.math.segment_max,
        "gather": lambda x, i: tf.gather(table, i),
        "scatter_nd": lambda x, i: tf.scatter_nd(i[:, None], x, [5, 4]),
        "tensor_scatter_nd_add": lambda x, i: tf.tensor_scatter_nd_add(table, i[:, None], x),
        "one_hot": lambda x, i: tf.one_hot(i, 5),
        "where": lambda x, i: tf.where(x > 0, x, -x),
        "boolean_mask": lambda x, i: tf.boolean_mask(x, i > 0),
        "unique": lambda x, i: tf.unique(i),
        "top_k": lambda x, i: tf.math.top_k(x, 2),
        "cumsum": lambda x, i: tf.cumsum(x),
        "softmax": lambda x, i: tf.nn.softmax(x),
        "lookup": lambda x, i: tf.nn.embedding_lookup_sparse(
            table, tf.SparseTensor(tf.stack([i, 0 * i], 1), i, [5, 1]), None, combiner="mean"
        ),
        "safe lookup": lambda x, i: tf.nn.safe_embedding_lookup_sparse(
            table, tf.SparseTensor(tf.stack([i, 0 * i], 1), i, [5, 1]), None, combiner="sum"
        ),
        "concat": lambda x, i: tf.concat([x, x], 0),
        "matmul": lambda x, i: tf.matmul(x, table, transpose_b=True),
        "split": lambda x, i: tf.split(x, 2, 1),
        "reverse": lambda x, i: tf.reverse(x, [0]),
        "strided": lambda x, i: x[::2, 1:],
        "norm": lambda x, i: tf.nn.l2_normalize(x, 1),
        "clip": lambda x, i: tf.clip_by_value(x, -1, 1),
        "range": lambda x, i: tf.range(tf.size(i)) + tf.cast(i, tf.int32),
        "argmax": lambda x, i: tf.argmax(x, 1),
        "pad": lambda x, i: tf.pad(x, [[0, 1], [1, 0]]),
    }
    for opset in (13, 18):
        for name, call in calls.items():

            def make(call: Callable[..., Any] = call, opset: int = opset) -> bytes:
                function = tf.function(call, input_signature=[rows, ids])
                model, _ = tf2onnx.convert.from_function(function, input_signature=[rows, ids], opset=opset)
                written: bytes = model.SerializeToString()
                return written

            yield f"{name}-{opset}", make


def main() -> int:
    folder = Path(sys.argv[1])
    for exporter in (skl2onnx, hummingbird, torchscript, tf2onnx):
        written = refused = 0
        (folder / exporter.__name__).mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), contextlib.suppress(ImportError):
            warnings.simplefilter("ignore")
            for name, make in exporter():
                try:
                    made = make()
                except Exception as error:  # whatever an exporter raises
                    refused += 1
                    sys.stderr.write(f"{exporter.__name__} does not write {name}: {str(error).splitlines()[:1]}\n")
                    continue
                (folder / exporter.__name__ / f"{name}.onnx").write_bytes(made)
                written += 1
        sys.stdout.write(f"{exporter.__name__}: {written} files, {refused} are not written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
