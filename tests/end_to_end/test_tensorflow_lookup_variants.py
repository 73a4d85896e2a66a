"""Every variant of embedding_lookup_sparse and safe_embedding_lookup_sparse gives TensorFlow's results.

Each is converted from TensorFlow, and from GE's graph as TensorFlow's adapter writes it.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.ge_from_tensorflow import graph_of  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.ascend import convert as convert_ge  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

pytestmark = pytest.mark.slow

VOCABULARY, WIDTH = 12, 4
TABLE = np.random.default_rng(1).standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
BATCHES = ("normal", "without any id", "of size zero", "with rows that count for nothing")
EPS = np.finfo(np.float32).eps


@dataclass(frozen=True)
class Variant:
    """One way to call a lookup."""

    safe: bool = True
    combiner: str = "mean"
    weights: bool = False
    ragged: bool = False
    rank: int = 2
    ids: str = "int64"
    table: str = "variable"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every sum is in the order of TensorFlow's kernels."""
        return not self.weights

    def table_of_its_kind(self) -> Any:
        if self.table == "constant":
            return tf.constant(TABLE)
        if self.table == "float16":
            return tf.constant(TABLE, tf.float16)
        if self.table in ("div", "mod"):
            return VARIABLE_PARTS
        return VARIABLE

    def lookup(self) -> Any:
        """TensorFlow's function for this variant."""
        if self.table == "mod":  # the second version of the functions has div only
            name = "safe_embedding_lookup_sparse" if self.safe else "embedding_lookup_sparse"
            return functools.partial(getattr(tf.compat.v1.nn, name), partition_strategy="mod")
        return tf.nn.safe_embedding_lookup_sparse if self.safe else tf.nn.embedding_lookup_sparse

    def function(self) -> Any:
        """A tf.function with this variant; it takes the tensors of `feeds`."""
        names = ["values", "splits"] if self.ragged else ["values", "indices", "shape"]
        specs = {
            "values": tf.TensorSpec([None], self.ids, "values"),
            "splits": tf.TensorSpec([None], tf.int64, "splits"),
            "indices": tf.TensorSpec([None, self.rank], tf.int64, "indices"),
            "shape": tf.TensorSpec([self.rank], tf.int64, "shape"),
        }
        signature = [specs[name] for name in names]
        if self.weights:
            signature.append(tf.TensorSpec([None], tf.float32, "weights"))

        @tf.function(input_signature=signature)
        def function(values, *rest):
            def like_the_ids(entries):
                if self.ragged:
                    return tf.RaggedTensor.from_row_splits(entries, rest[0], validate=False)
                return tf.SparseTensor(rest[0], entries, rest[1])

            weights = like_the_ids(rest[-1]) if self.weights else None
            table = self.table_of_its_kind()
            return self.lookup()(table, like_the_ids(values), weights, combiner=self.combiner, **self.options)

        return function


VARIABLE = tf.Variable(TABLE)
VARIABLE_PARTS = [tf.Variable(part) for part in np.split(TABLE, 3)]

COMBINERS = ("sum", "mean", "sqrtn")
VARIANTS = {
    **{f"plain {c}": Variant(safe=False, combiner=c) for c in COMBINERS},
    **{f"plain {c}, constant table": Variant(safe=False, combiner=c, table="constant") for c in COMBINERS},
    **{f"plain {c}, weights": Variant(safe=False, combiner=c, weights=True) for c in COMBINERS},
    **{f"plain {c}, ragged": Variant(safe=False, combiner=c, ragged=True) for c in COMBINERS},
    "plain mean, ragged, weights": Variant(safe=False, ragged=True, weights=True),
    "plain mean, max_norm": Variant(safe=False, options={"max_norm": 1.0}),
    "plain mean, div": Variant(safe=False, table="div"),
    "plain mean, mod": Variant(safe=False, table="mod"),
    "plain mean, int32 ids": Variant(safe=False, ids="int32"),
    "plain mean, float16": Variant(safe=False, table="float16"),
    "plain sqrtn, float16, weights": Variant(safe=False, combiner="sqrtn", table="float16", weights=True),
    **{f"safe {c}": Variant(combiner=c) for c in COMBINERS},
    **{f"safe {c}, constant table": Variant(combiner=c, table="constant") for c in COMBINERS},
    **{f"safe {c}, default_id": Variant(combiner=c, options={"default_id": 3}) for c in COMBINERS},
    **{f"safe {c}, weights": Variant(combiner=c, weights=True) for c in COMBINERS},
    **{
        f"safe {c}, weights, default_id": Variant(combiner=c, weights=True, options={"default_id": 3})
        for c in COMBINERS
    },
    "safe mean, default_id 0": Variant(options={"default_id": 0}),
    "safe mean, max_norm": Variant(options={"max_norm": 1.0}),
    "safe mean, max_norm, weights": Variant(weights=True, options={"max_norm": 1.0}),
    "safe mean, div": Variant(table="div"),
    "safe mean, div, weights": Variant(table="div", weights=True),
    "safe mean, mod": Variant(table="mod"),
    "safe mean, rank 3": Variant(rank=3),
    "safe sqrtn, rank 3, weights": Variant(combiner="sqrtn", rank=3, weights=True),
    "safe mean, ragged": Variant(ragged=True),
    "safe mean, ragged, weights": Variant(ragged=True, weights=True),
    "safe mean, ragged, default_id": Variant(ragged=True, options={"default_id": 3}),
    "safe mean, int32 ids": Variant(ids="int32"),
    "safe mean, float16": Variant(table="float16"),
}


def rows_of(variant: Variant, batch: str) -> tuple[list[list[int]], list[list[float]]]:
    """The ids and the weights of a batch, row by row; an even number of rows, for rank 3."""
    rng = np.random.default_rng(7)
    if batch == "normal":
        lengths = [3, 1, 18, 10, 2, 33]  # TensorFlow's order of summation depends on the length
    else:
        lengths = {"without any id": [0, 0, 0, 0], "of size zero": []}.get(batch, [2, 0, 3, 1])
    ids = [rng.integers(0, VOCABULARY, length).tolist() for length in lengths]
    weights = [rng.uniform(0.1, 2.0, length).tolist() for length in lengths]
    if batch == BATCHES[-1] and variant.safe:
        # Rows 0 and 3 are pruned entirely, row 2 in part, by ids or by weights.
        ids = [[-1, -5], [], [4, -2, 0], [-1]] if not variant.weights else [[-1, 6], [], [4, -2, 0], [1]]
        weights = [[1.0, 0.0], [], [0.5, 3.0, 2.0], [-1.0]]
    elif batch == BATCHES[-1]:
        weights = [[0.5, -0.5], [], [0.5, 0.0, 2.0], [0.0]]
    return ids, weights


def feeds(variant: Variant, batch: str) -> dict[str, np.ndarray]:
    """The tensors that the function of a variant takes, in order."""
    ids, weights = rows_of(variant, batch)
    fed = {"values": np.array([i for row in ids for i in row], variant.ids)}
    if variant.ragged:
        fed["splits"] = np.cumsum([0, *map(len, ids)])
    else:
        places = [(r, c) for r, row in enumerate(ids) for c in range(len(row))]
        outer = [(r // 2, r % 2) if variant.rank == 3 else (r,) for r in range(len(ids))]
        coordinates = [(*outer[r], c) for r, c in places]
        size = [len(ids) // 2, 2] if variant.rank == 3 else [len(ids)]
        fed["indices"] = np.array(coordinates, np.int64).reshape(-1, variant.rank)
        fed["shape"] = np.array([*size, max(map(len, ids), default=0)])
    if variant.weights:
        fed["weights"] = np.array([w for row in weights for w in row], np.float32)
    return fed


@functools.cache
def function_of(name: str) -> Any:
    """The function of a variant, which is traced once."""
    return VARIANTS[name].function()


@functools.cache
def converted(name: str) -> tuple[Any, list[str], Any]:
    """The function, and the session of its model with the names of the inputs in the order of the feeds."""
    function = function_of(name)
    session = onnx_sparse.InferenceSession(convert(function))
    return function, list(feeds(VARIANTS[name], BATCHES[0])), session


@functools.cache
def converted_from_ge(name: str) -> tuple[Any, list[str], Any]:
    """The same of the function's graph as GE has it, in which no number of rows is known."""
    function = function_of(name)
    graph, names = graph_of(function)
    with tempfile.TemporaryDirectory() as folder:
        model = convert_ge(graph.write(Path(folder), "ge_proto_00000000_graph_1_PreRunBegin.txt"))
    return function, names, onnx_sparse.InferenceSession(model)


def test_there_are_33_and_more():
    assert len(VARIANTS) >= 33


@pytest.mark.parametrize("converted", [converted, converted_from_ge], ids=["TensorFlow", "GE"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", VARIANTS)
def test_lookup(name, batch, converted):
    """Equal to the bit if nothing is weighted or clipped, else within 2 ulp of the row's largest summand per id."""
    variant = VARIANTS[name]
    function, names, session = converted(name)
    fed = feeds(variant, batch)
    named = dict(zip(names, fed.values(), strict=True))
    if variant.safe and variant.ragged and batch == "of size zero":
        # TensorFlow's own kernel fails on it; the model returns no rows.
        with pytest.raises(tf.errors.OpError):
            function(*map(tf.constant, fed.values()))
        assert session.run(None, named)[0].shape == (0, WIDTH)
        return
    expected = function(*map(tf.constant, fed.values())).numpy()
    (actual,) = session.run(None, named)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if variant.exact:
        np.testing.assert_array_equal(actual, expected)
    elif variant.table == "float16":
        np.testing.assert_allclose(actual, expected, rtol=2**-10, atol=0)  # rounded once, from the same float32 sum
    else:
        longest = max(map(len, rows_of(variant, batch)[0]), default=0)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2 * EPS * longest * np.abs(TABLE).max())
