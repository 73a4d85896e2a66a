"""Functions of TensorFlow itself as its guides use them: embedding lookups, ragged and sparse tensors, segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from zoo.inputs import Adjacency, Dense, Input, Ragged, Sparse, booleans, floats, ids, words
from zoo.registry import Built, model


def function(name: str, *inputs: Input, quick: bool = False, **least: int) -> Callable[[Any], Any]:
    """Register a function of the inputs by name; `tf` is TensorFlow, `table` a variable of 12 rows."""

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        def build() -> Built:
            import tensorflow as tf

            owner = tf.Module()
            owner.table = tf.Variable(np.random.default_rng(2).standard_normal((12, 4)).astype(np.float32))
            return Built(lambda **features: call(tf, owner.table, **features), inputs, owner, least)

        model(f"tensorflow/{name}", quick=quick)(build)
        return call

    return register


IDS = Sparse("ids", ids(12), key="k")
WEIGHTS = Sparse("weights", floats(), key="k")
ITEMS = Ragged("items", ids(12), key="k")
X = Ragged("x", floats(), key="k")
WIDE = Ragged("x", floats(), (3,), key="k")
MATRIX = Sparse("x", floats(), 6)
OTHER = Sparse("y", floats(), 6, key="y")
DATA = Dense("data", floats(), ("edges", 3))
SEGMENTS = Dense("segments", ids("nodes"), ("edges",), ordered=True)
UNORDERED = Dense("segments", ids("nodes", low=-1), ("edges",))
NODES = Dense("nodes", floats(), ("nodes", 3))

for _combiner in ("sum", "mean", "sqrtn"):

    def _lookup(tf: Any, table: Any, ids: Any, combiner: str = _combiner) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(table, ids, combiner=combiner)

    def _weighted(tf: Any, table: Any, ids: Any, weights: Any, combiner: str = _combiner) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner=combiner)

    def _ragged(tf: Any, table: Any, items: Any, combiner: str = _combiner) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(table, items, combiner=combiner)

    function(f"safe lookup, {_combiner}", IDS, quick=_combiner == "mean")(_lookup)
    function(f"safe lookup, weighted {_combiner}", IDS, WEIGHTS, quick=_combiner == "sqrtn")(_weighted)
    function(f"safe lookup of ragged ids, {_combiner}", ITEMS, quick=_combiner == "sum")(_ragged)


@function("lookup, max_norm", IDS)
def lookup_max_norm(tf: Any, table: Any, ids: Any) -> Any:
    return tf.nn.safe_embedding_lookup_sparse(table, ids, max_norm=0.5, default_id=3)


@function("lookup in two tables", IDS)
def lookup_parts(tf: Any, table: Any, ids: Any) -> Any:
    return tf.nn.safe_embedding_lookup_sparse([table[:6], table[6:]], ids, combiner="mean")


@function("embedding_lookup of ragged ids", ITEMS)
def lookup_ragged(tf: Any, table: Any, items: Any) -> Any:
    return tf.nn.embedding_lookup(table, items)


for _reduce in ("sum", "mean", "max", "min", "prod"):

    def _over_rows(tf: Any, table: Any, x: Any, name: str = _reduce) -> Any:
        return getattr(tf, f"reduce_{name}")(x, axis=1)

    def _over_all(tf: Any, table: Any, x: Any, name: str = _reduce) -> Any:
        return getattr(tf, f"reduce_{name}")(x, axis=0)

    def _segments(tf: Any, table: Any, data: Any, segments: Any, name: str = _reduce) -> Any:
        return getattr(tf.math, f"segment_{name}")(data, segments)

    def _unsorted(tf: Any, table: Any, data: Any, segments: Any, nodes: Any, name: str = _reduce) -> Any:
        return getattr(tf.math, f"unsorted_segment_{name}")(data, segments, tf.shape(nodes)[0])

    function(f"ragged reduce_{_reduce} of rows", WIDE, quick=_reduce == "max")(_over_rows)
    function(f"ragged reduce_{_reduce} of columns", X)(_over_all)
    function(f"segment_{_reduce}", DATA, SEGMENTS)(_segments)
    function(f"unsorted_segment_{_reduce}", DATA, UNORDERED, NODES, quick=_reduce == "mean")(_unsorted)


@function("ragged to_tensor", X, quick=True)
def ragged_to_tensor(tf: Any, table: Any, x: Any) -> Any:
    return x.to_tensor(-1.0)


@function("ragged to_tensor of a width", ITEMS)
def ragged_to_width(tf: Any, table: Any, items: Any) -> Any:
    return items.to_tensor(0, shape=[None, 3])


@function("ragged to_sparse", X)
def ragged_to_sparse(tf: Any, table: Any, x: Any) -> Any:
    return x.to_sparse()


@function("ragged from_tensor", Dense("x", floats(), ("rows", 4)), Dense("n", ids(5)))
def ragged_from_tensor(tf: Any, table: Any, x: Any, n: Any) -> Any:
    return tf.RaggedTensor.from_tensor(x, lengths=n)


@function("ragged concatenation of columns", X, Ragged("y", floats()))
def ragged_concat(tf: Any, table: Any, x: Any, y: Any) -> Any:
    return tf.concat([x, y], axis=1)


@function("ragged arithmetic", X, Ragged("y", floats(), key="k"))
def ragged_arithmetic(tf: Any, table: Any, x: Any, y: Any) -> Any:
    return tf.sqrt(tf.abs(x * y + 2.0 * x))


@function("ragged slices", X)
def ragged_slices(tf: Any, table: Any, x: Any) -> Any:
    return x[:, :2]


@function("ragged rows chosen", X, Dense("rows", ids(1)))
def ragged_gather(tf: Any, table: Any, x: Any, rows: Any) -> Any:
    return tf.gather(x, rows)


@function("ragged boolean_mask", X)
def ragged_mask(tf: Any, table: Any, x: Any) -> Any:
    return tf.ragged.boolean_mask(x, x > 0)


@function("ragged softmax of rows", X)
def ragged_softmax(tf: Any, table: Any, x: Any) -> Any:
    return tf.nn.softmax(x)


@function("ragged row_lengths and splits", X)
def ragged_lengths(tf: Any, table: Any, x: Any) -> Any:
    return x.row_lengths(), x.row_splits, x.value_rowids(), x.nrows()


@function("ragged ranges", Dense("n", ids(6)))
def ragged_range(tf: Any, table: Any, n: Any) -> Any:
    return tf.ragged.range(n)


@function("ragged expand and tile", X)
def ragged_tile(tf: Any, table: Any, x: Any) -> Any:
    return tf.tile(x, [1, 2])


@function("ragged reverse", X)
def ragged_reverse(tf: Any, table: Any, x: Any) -> Any:
    return tf.reverse(x, [1])


@function("ragged bincount", ITEMS)
def ragged_bincount(tf: Any, table: Any, items: Any) -> Any:
    return tf.math.bincount(items, minlength=12, maxlength=12, axis=-1)


@function("ragged attention", WIDE, Dense("query", floats(), ("rows", 3)))
def ragged_attention(tf: Any, table: Any, x: Any, query: Any) -> Any:
    scores = tf.ragged.map_flat_values(lambda values: tf.reduce_sum(values * tf.gather(query, x.value_rowids()), -1), x)
    weights = tf.nn.softmax(scores)
    return tf.reduce_sum(x * weights[:, :, None], 1)


@function("sparse to_dense", MATRIX, quick=True)
def sparse_to_dense(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.to_dense(x, -1.0)


@function("sparse times dense", MATRIX)
def sparse_times_dense(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.sparse_dense_matmul(x, table[:6])


@function("sparse times dense, adjoint", Adjacency("x"), NODES)
def sparse_adjoint(tf: Any, table: Any, x: Any, nodes: Any) -> Any:
    return tf.sparse.sparse_dense_matmul(x, nodes, adjoint_a=True)


@function("sparse reduce_sum", MATRIX)
def sparse_reduce_sum(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.reduce_sum(x, 1), tf.sparse.reduce_sum(x, -2, keepdims=True)


@function("sparse reduce_max", MATRIX)
def sparse_reduce_max(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.reduce_max(x, 1)


@function("sparse addition", MATRIX, Sparse("y", floats(), 6, key="x"))
def sparse_add(tf: Any, table: Any, x: Any, y: Any) -> Any:
    return tf.sparse.to_dense(tf.sparse.add(x, y))


@function("sparse concatenation", MATRIX, OTHER)
def sparse_concat(tf: Any, table: Any, x: Any, y: Any) -> Any:
    return tf.sparse.concat(1, [x, y])


@function("sparse slices", MATRIX)
def sparse_slice(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.slice(x, [0, 1], [100, 3])


@function("sparse transpose", MATRIX)
def sparse_transpose(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.transpose(x)


@function("sparse reshape", MATRIX)
def sparse_reshape(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.reshape(x, [-1, 3])


@function("sparse softmax", MATRIX)
def sparse_softmax(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.softmax(x)


@function("sparse retain", MATRIX)
def sparse_retain(tf: Any, table: Any, x: Any) -> Any:
    return tf.sparse.retain(x, x.values > 0)


@function("sparse fill_empty_rows", IDS, quick=True)
def sparse_fill(tf: Any, table: Any, ids: Any) -> Any:
    return tf.sparse.fill_empty_rows(ids, np.int64(7))


@function("sparse times elements", MATRIX, Dense("y", floats(), ("rows", 6)))
def sparse_elements(tf: Any, table: Any, x: Any, y: Any) -> Any:
    return x * y


@function("sparse crossed words", Sparse("a", words("x", "y", "zz")), Sparse("b", ids(9)))
def sparse_cross(tf: Any, table: Any, a: Any, b: Any) -> Any:
    return tf.sparse.cross_hashed([a, b], 50)


@function("sparse bincount", IDS)
def sparse_bincount(tf: Any, table: Any, ids: Any) -> Any:
    return tf.sparse.bincount(ids, minlength=12, maxlength=12, axis=-1).values


@function("sparse to_indicator", IDS)
def sparse_indicator(tf: Any, table: Any, ids: Any) -> Any:
    return tf.sparse.to_indicator(ids, 12)


@function("sparse_segment_sqrt_n", Dense("at", ids(12), ("edges",)), SEGMENTS, quick=True)
def sparse_segments(tf: Any, table: Any, at: Any, segments: Any) -> Any:
    return tf.sparse.segment_sqrt_n(table, at, segments)


@function("scatter and gather", DATA, Dense("at", ids(12), ("edges",)))
def scatter(tf: Any, table: Any, data: Any, at: Any) -> Any:
    spread = tf.scatter_nd(at[:, None], data, [12, 3])
    return tf.gather_nd(spread, at[:, None]), tf.tensor_scatter_nd_max(table[:, :3], at[:, None], data)


@function("unique ids and counts", Dense("at", ids(5), ("edges",)), quick=True)
def unique(tf: Any, table: Any, at: Any) -> Any:
    return tf.unique_with_counts(at)


@function("dynamic partitions", Dense("x", floats(), ("rows", 2)), Dense("part", ids(3, "int32")))
def partitions(tf: Any, table: Any, x: Any, part: Any) -> Any:
    parts = tf.dynamic_partition(x, part, 3)
    return tf.dynamic_stitch(tf.dynamic_partition(tf.range(tf.shape(x)[0]), part, 3), parts)


@function("boolean_mask", Dense("x", floats(), ("rows", 2)), Dense("keep", booleans()))
def boolean_mask(tf: Any, table: Any, x: Any, keep: Any) -> Any:
    return tf.boolean_mask(x, keep), tf.where(keep)


@function("top_k and sorted", Dense("x", floats(), ("rows", 7)))
def top_k(tf: Any, table: Any, x: Any) -> Any:
    return tf.math.top_k(x, 3), tf.argsort(x, stable=True), tf.math.in_top_k(tf.argmax(x, 1), x, 2)


@function("sequence_mask and reverse", Dense("x", floats(), ("rows", 5)), Dense("n", ids(6)))
def sequence_mask(tf: Any, table: Any, x: Any, n: Any) -> Any:
    return tf.sequence_mask(n, 5, tf.float32) * x, tf.reverse_sequence(x, n, seq_axis=1)


@function("hash buckets", Ragged("w", words("x", "", "日本", "a longer word of text")), quick=True)
def hash_buckets(tf: Any, table: Any, w: Any) -> Any:
    return tf.gather(table, tf.strings.to_hash_bucket_fast(w, 12))


@function("strings compared", Ragged("w", words("x", "y", "z")))
def strings_compared(tf: Any, table: Any, w: Any) -> Any:
    return tf.gather(table, tf.cast(tf.ragged.map_flat_values(lambda v: tf.where(v == "x", 1, 2), w), tf.int64))


@function("bucketize", Dense("x", floats(scale=5), ("rows", 2)))
def bucketize(tf: Any, table: Any, x: Any) -> Any:
    return tf.raw_ops.Bucketize(input=x, boundaries=[-3.0, 0.0, 2.5])


@function("map_fn over rows", Dense("x", floats(), ("rows", 3)))
def map_fn(tf: Any, table: Any, x: Any) -> Any:
    return tf.map_fn(lambda row: tf.cumsum(row) / (1.0 + tf.reduce_max(tf.abs(row))), x)


@function("while_loop", Dense("x", floats(), ("rows", 3)))
def while_loop(tf: Any, table: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) * 2.0), [tf.constant(0), x])[1]


@model("tensorflow/lookup table", quick=True)
def lookup_table() -> Built:
    import tensorflow as tf

    owner = tf.Module()
    pairs = tf.lookup.KeyValueTensorInitializer(["x", "y"], tf.constant([4, 7], tf.int64))
    owner.ids = tf.lookup.StaticHashTable(pairs, 0)
    owner.table = tf.Variable(np.random.default_rng(2).standard_normal((12, 4)).astype(np.float32))

    def call(w: Any) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(owner.table, owner.ids.lookup(w), combiner="mean")

    return Built(call, [Sparse("w", words("x", "y", "z"))], owner)
