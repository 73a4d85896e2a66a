"""The whole models of TensorFlow that `whole_models.py` times: recommenders as they are served, and a graph network.

Weights are random. Sparse features have about ten ids a row, one row in fifty none; those of DLRM have one id.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sessions import Array, Subject

from onnx_sparse.converters.tensorflow import convert

VOCABULARY, WIDTH, DENSE, IDS = 100_000, 32, 13, 10
ONE_HOT = 26
EDGES = 10  # of each node


class Model(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """Variables that are made where they are used."""

    def __init__(self) -> None:
        super().__init__()
        self._random = np.random.default_rng(0)
        self._made: list[tf.Variable] = []

    def table(self, width: int = WIDTH) -> tf.Variable:
        """An embedding table."""
        return self._variable(self._random.uniform(-0.05, 0.05, (VOCABULARY, width)))

    def layers(self, *sizes: int) -> list[tf.Variable]:
        """The weights of dense layers."""
        pairs = itertools.pairwise(sizes)
        return [self._variable(self._random.normal(0, math.sqrt(2 / a), (a, b))) for a, b in pairs]

    def _variable(self, values: Array) -> tf.Variable:
        self._made.append(tf.Variable(values.astype(np.float32)))
        return self._made[-1]


def dense(x: tf.Tensor, layers: Sequence[tf.Variable]) -> tf.Tensor:
    """Dense layers, with Relu between them."""
    for weights in layers[:-1]:
        x = tf.nn.relu(x @ weights)
    return x @ layers[-1]


def looked_up(table: tf.Variable, ids: tf.SparseTensor, combiner: str = "mean") -> tf.Tensor:
    """The reduced rows of a sparse feature."""
    return tf.nn.safe_embedding_lookup_sparse(table, ids, combiner=combiner)


class WideAndDeep(Model):
    """Eight sparse features, each in a table of width 1 and in one of embeddings under dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.wide = ([self.table(width) for _ in range(8)] for width in (WIDTH, 1))
        self.top = self.layers(8 * WIDTH + DENSE, 256, 128, 1)

    def __call__(self, numbers: tf.Tensor, *features: tf.SparseTensor) -> tf.Tensor:
        """Probabilities."""
        embedded = [looked_up(table, ids) for table, ids in zip(self.deep, features, strict=True)]
        linear = [looked_up(table, ids, "sum") for table, ids in zip(self.wide, features, strict=True)]
        return tf.sigmoid(dense(tf.concat([*embedded, numbers], 1), self.top) + tf.add_n(linear))


class Dlrm(Model):
    """26 features of one id each, whose embeddings are multiplied by each other."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = [self.table() for _ in range(ONE_HOT)]
        self.bottom, self.top = self.layers(DENSE, 128, WIDTH), self.layers(27 * 27 + WIDTH, 256, 1)

    def interact(self, numbers: tf.Tensor, embedded: list[tf.Tensor]) -> tf.Tensor:
        """Probabilities."""
        bottom = tf.nn.relu(dense(numbers, self.bottom))
        vectors = tf.stack([bottom, *embedded], 1)
        products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, 27 * 27])
        return tf.sigmoid(dense(tf.concat([products, bottom], 1), self.top))

    def __call__(self, numbers: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Of a matrix of ids."""
        columns = tf.unstack(ids, ONE_HOT, axis=1)
        return self.interact(numbers, [tf.gather(t, c) for t, c in zip(self.tables, columns, strict=True)])


class DlrmOfBags(Dlrm):
    """The same with sparse features of many ids."""

    def __call__(self, numbers: tf.Tensor, *features: tf.SparseTensor) -> tf.Tensor:
        """Of sparse features."""
        return self.interact(numbers, [looked_up(t, ids, "sum") for t, ids in zip(self.tables, features, strict=True)])


class TwoTowers(Model):
    """The cosine of a user's vector and an item's."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = [self.table(64) for _ in range(6)]
        self.user, self.item = (self.layers(3 * 64, 128, 64) for _ in range(2))

    def __call__(self, numbers: tf.Tensor, *features: tf.SparseTensor) -> tf.Tensor:
        """Cosines."""
        found = [looked_up(table, ids) for table, ids in zip(self.tables, features, strict=True)]
        sides = [dense(tf.concat(found[:3], 1), self.user), dense(tf.concat(found[3:], 1), self.item)]
        user, item = (tf.nn.l2_normalize(side, 1) for side in sides)
        return tf.reduce_sum(user * item, 1) + 0 * numbers[:, 0]


class Sage(Model):
    """Two layers of a graph network: each node's own vector, and the mean of those that edges lead from."""

    def __init__(self, *, is_sorted: bool) -> None:
        super().__init__()
        self.is_sorted = is_sorted
        self.own, self.others = (self.layers(64, 64, 64) for _ in range(2))

    def __call__(self, nodes: tf.Tensor, sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Vectors of the nodes."""
        count = tf.shape(nodes)[0]
        for own, others in zip(self.own, self.others, strict=True):
            found = tf.gather(nodes, sources)
            if self.is_sorted:
                mean = tf.math.segment_mean(found, targets)
            else:
                mean = tf.math.unsorted_segment_mean(found, targets, count)
            nodes = tf.nn.relu(nodes @ own + mean @ others)
        return nodes


def sparse_feature(random: np.random.Generator, rows: int) -> dict[str, Array]:
    """The parts of a sparse tensor."""
    lengths = random.poisson(IDS, rows) * (random.random(rows) > 0.02)
    at = np.repeat(np.arange(rows), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    shape = np.array([rows, max(lengths.max(), 1)])
    return {"indices": np.stack([at, place], 1), "values": random.integers(0, VOCABULARY, len(at)), "shape": shape}


def _recommender(make: Callable[[], Any], sparse: int) -> tuple[Any, Callable[[int], list[Any]]]:
    """A tf.function of numbers and features, and batches for it as TensorFlow takes them."""
    model = make()
    ids = [tf.SparseTensorSpec([None, None], tf.int64)] * sparse or [tf.TensorSpec([None, ONE_HOT], tf.int64)]
    function = tf.function(model.__call__, input_signature=[tf.TensorSpec([None, DENSE], tf.float32), *ids])

    def batch(rows: int) -> list[Any]:
        random = np.random.default_rng(rows)
        numbers = random.standard_normal((rows, DENSE)).astype(np.float32)
        if not sparse:
            return [numbers, random.integers(0, VOCABULARY, (rows, ONE_HOT))]
        return [numbers, *(tf.SparseTensor(*sparse_feature(random, rows).values()) for _ in range(sparse))]

    return function, batch


def _graph(is_sorted: bool) -> tuple[Any, Callable[[int], list[Any]]]:
    model = Sage(is_sorted=is_sorted)
    ends = [tf.TensorSpec([None], tf.int64)] * 2
    function = tf.function(model.__call__, input_signature=[tf.TensorSpec([None, 64], tf.float32), *ends])

    def batch(rows: int) -> list[Any]:
        random, count = np.random.default_rng(rows), 40 * rows
        targets = np.append(random.integers(0, count, EDGES * count - 1), count - 1)
        nodes = random.standard_normal((count, 64)).astype(np.float32)
        return [nodes, random.integers(0, count, EDGES * count), np.sort(targets) if is_sorted else targets]

    return function, batch


_MODELS: dict[str, Callable[[], tuple[Any, Callable[[int], list[Any]]]]] = {
    "wide & deep": lambda: _recommender(WideAndDeep, 8),
    "DLRM, one id": lambda: _recommender(Dlrm, 0),
    "DLRM, bags": lambda: _recommender(DlrmOfBags, ONE_HOT),
    "two towers": lambda: _recommender(TwoTowers, 6),
    "SAGE, sorted edges": lambda: _graph(True),
    "SAGE": lambda: _graph(False),
}


def subjects(threads: int, rows: Sequence[int], only: str) -> Iterator[Subject]:
    """The models with batches; a graph has 40 nodes for each row."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for name, make in _MODELS.items():
        if only.lower() not in name.lower():
            continue
        function, batch = make()
        model = convert(function)
        for count in rows:
            given = [tf.convert_to_tensor(x) if isinstance(x, np.ndarray) else x for x in batch(count)]
            parts = [part.numpy() for part in tf.nest.flatten(given, expand_composites=True)]
            names = [value.name for value in model.graph.input]
            yield Subject(
                f"{name}, {count * (40 if 'SAGE' in name else 1):,}",
                model,
                dict(zip(names, parts, strict=True)),
                lambda function=function, given=given: function(*given).numpy(),  # type: ignore[misc]
            )
