"""Smaller tables in three recommenders: sizes, and how far they lead from the answers of float32.

    python benchmarks/smaller_tables.py [--rows 100000]

The models are TensorFlow's, with random weights as their layers are initialized: wide and deep (crossed ids in a table
of width 1, embeddings under dense layers), DLRM (embeddings and their products) and two towers (the product of a
user's and an item's vector). Every lookup is a safe_embedding_lookup_sparse of 512 rows of about 10 ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from machine import this_machine
from runner import parser

import onnx_sparse
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.models.tables.quantization import FORMATS, TableChange

Array = np.ndarray[Any, Any]

_BATCH = 512
_FEATURES = ("user", "items", "places")


class Model(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """What the three models share: tables, and dense layers over what is looked up."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        random = np.random.default_rng(0)
        self.tables = {
            name: tf.Variable(random.uniform(-0.05, 0.05, (rows, 64)).astype(np.float32)) for name in _FEATURES
        }
        self.wide = tf.Variable(random.normal(0, 0.05, (rows, 1)).astype(np.float32))
        self._random = random

    def dense(self, inputs: int, outputs: int) -> tf.Variable:
        """The weights of a dense layer."""
        limit = math.sqrt(6 / (inputs + outputs))
        return tf.Variable(self._random.uniform(-limit, limit, (inputs, outputs)).astype(np.float32))

    def embedded(self, features: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        """Every feature's mean row."""
        return {
            name: tf.nn.safe_embedding_lookup_sparse(self.tables[name], features[name], combiner="mean")
            for name in _FEATURES
        }


class WideAndDeep(Model):
    """Two dense layers over the embeddings, and a sum of weights of ids beside them."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.first, self.second = self.dense(192, 64), self.dense(64, 1)

    def score(self, features: Mapping[str, tf.SparseTensor]) -> tf.Tensor:
        """A probability."""
        deep = tf.nn.relu(tf.concat(list(self.embedded(features).values()), 1) @ self.first) @ self.second
        wide = tf.nn.safe_embedding_lookup_sparse(self.wide, features["items"], combiner="sum")
        return tf.sigmoid(deep + wide)


class DLRM(Model):
    """Products of all pairs of embeddings under a dense layer."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.last = self.dense(9 + 192, 1)

    def score(self, features: Mapping[str, tf.SparseTensor]) -> tf.Tensor:
        """A probability."""
        vectors = tf.stack(list(self.embedded(features).values()), 1)
        products = tf.reshape(vectors @ tf.transpose(vectors, [0, 2, 1]), [-1, 9])
        return tf.sigmoid(tf.concat([products, tf.reshape(vectors, [-1, 192])], 1) @ self.last)


class TwoTowers(Model):
    """The product of a user's vector and an item's, each of length 1."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.user, self.item = self.dense(64, 32), self.dense(128, 32)

    def score(self, features: Mapping[str, tf.SparseTensor]) -> tf.Tensor:
        """A cosine."""
        found = self.embedded(features)
        user = tf.nn.l2_normalize(found["user"] @ self.user, 1)
        item = tf.nn.l2_normalize(tf.concat([found["items"], found["places"]], 1) @ self.item, 1)
        return tf.reduce_sum(user * item, 1, keepdims=True)


def concrete(model: Any) -> Any:
    """The model's function of sparse tensors' parts."""
    specs = {name: tf.SparseTensorSpec([None, None], tf.int64) for name in _FEATURES}
    score: Callable[..., Any] = tf.function(model.score, input_signature=[specs])
    return score


def feeds_of(inputs: list[str], rows: int) -> dict[str, Array]:
    """Ids of a batch: each row of a feature has about ten, drawn evenly."""
    random = np.random.default_rng(1)
    feeds: dict[str, Array] = {}
    for place in range(0, len(inputs), 3):
        lengths = random.poisson(10, _BATCH)
        row = np.repeat(np.arange(_BATCH), lengths)
        column = np.concatenate([np.arange(length) for length in lengths])
        feeds[inputs[place]] = np.stack([row, column], 1)
        feeds[inputs[place + 1]] = random.integers(0, rows, len(row))
        feeds[inputs[place + 2]] = np.array([_BATCH, lengths.max()])
    return feeds


def main() -> None:
    """Print a table for documentation."""
    rows = parser(__doc__, rows=100_000).parse_args().rows
    print(f"{this_machine()}\n")
    print("| model | tables | MB of tables | largest difference | root mean square |\n|---|---|---|---|---|")
    for kind in (WideAndDeep, DLRM, TwoTowers):
        model = convert(concrete(kind(rows)))
        feeds = feeds_of([value.name for value in model.graph.input], rows)
        (exact,) = onnx_sparse.InferenceSession(model).run(None, feeds)
        for format in FORMATS:
            changes: list[TableChange] = []
            smaller = onnx_sparse.quantize_tables(model, format, explain=changes.append)
            (near,) = onnx_sparse.InferenceSession(smaller).run(None, feeds)
            error = np.abs(exact.astype(np.float64) - near)
            before, after = (sum(getattr(c, when) for c in changes) / 1e6 for when in ("before", "after"))
            print(
                f"| {kind.__name__} | {len(changes)} {format} | {before:.0f} -> {after:.0f} | {error.max():.1e} | "
                f"{np.sqrt(np.mean(error**2)):.1e} |"
            )


if __name__ == "__main__":
    main()
