"""The models that every tool gets, in three forms: what `onnx-sparse demo` converts, a recommender, one by hand.

They need no TensorFlow. This module imports onnx_sparse, which registers the domain's schemas: tools are run in other
processes, as most users run them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper, parser, save
from tools.registry import MODELS

import onnx_sparse
from onnx_sparse.cli import demo
from onnx_sparse.cli.demo.baskets import SAVED_MODEL, make_feeds
from onnx_sparse.converters import tensorflow

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]

_RECOMMENDER = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
recommender (int64[n,2] indices, int64[n] items, int64[2] shape, int64[k] words, int64[batch] offsets,
             float[batch,4] dense) => (float[batch,1] score) {
  filled, values, empty, reverse =
      onnx_sparse.SparseFillEmptyRows <order = "row_stable"> (items, shape, indices, no_item)
  rows_column = Gather <axis = 1> (filled, zero)
  rows = Gather <axis = 0> (shape, zero)
  item = onnx_sparse.EmbeddingSegmentsMean <segment_ids_order = "sorted">
      (item_table, values, rows_column, rows, minus_one, no_weights)
  word = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "false">
      (word_table, words, offsets, minus_one, no_weights, minus_one)
  features = Concat <axis = 1> (item, word, dense)
  hidden = Gemm (features, w1, b1)
  active = Relu (hidden)
  logit = Gemm (active, w2, b2)
  score = Sigmoid (logit)
}"""

#: As users write it: optional inputs omitted, and one operator with two values of its attribute.
_BY_HAND = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
by_hand (float[k,3] data, int64[k] ids, bool[3] mask) => (float[s,3] y, float[s,3] z) {
  zero = Constant <value = float {0.0}> ()
  highest = onnx_sparse.SegmentMax <fill_mode = "ZERO"> (data, ids)
  lowest = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (data, ids)
  total = onnx_sparse.SegmentSum (data, ids)
  spread = Add (total, highest)
  y = onnx_sparse.MaskedFill (spread, mask, zero)
  bounded = Max (lowest, floor)
  z = Mul (bounded, half)
}"""


def write(folder: Path) -> None:
    """Write `MODEL.FORM.onnx` of each model, `MODEL.feeds.npz`, and `MODEL.results.npz`."""
    for name, (model, feeds) in _models().items():
        forms = {
            "domain": model,
            "functions": onnx_sparse.embed_functions(model),
            "plain": onnx_sparse.lower(model),
        }
        for form, made in forms.items():
            save(made, folder / f"{name}.{form}.onnx")
        np.savez(folder / f"{name}.feeds.npz", **feeds)
        np.savez(folder / f"{name}.results.npz", *results_of(folder / f"{name}.domain.onnx", feeds))


def results_of(path: Path, feeds: Mapping[str, Array]) -> Sequence[Array]:
    """What a model gives, in onnx_sparse's own session."""
    results: Sequence[Array] = onnx_sparse.InferenceSession(path).run(None, dict(feeds))
    return results


def _models() -> dict[str, tuple[ModelProto, Feeds]]:
    made = (_demo(), _recommender(), _by_hand())
    return dict(zip(MODELS, made, strict=True))


def _demo() -> tuple[ModelProto, Feeds]:
    return tensorflow.convert(Path(demo.__file__).parent / SAVED_MODEL), dict(make_feeds())


def _recommender() -> tuple[ModelProto, Feeds]:
    random = np.random.default_rng(0)
    model = parser.parse_model(_RECOMMENDER)
    constants = {
        "item_table": random.normal(size=(50, 8)).astype(np.float32),
        "word_table": random.normal(size=(40, 8)).astype(np.float32),
        "w1": random.normal(size=(20, 16)).astype(np.float32),
        "b1": random.normal(size=16).astype(np.float32),
        "w2": random.normal(size=(16, 1)).astype(np.float32),
        "b2": np.zeros(1, np.float32),
        "no_weights": np.zeros(0, np.float32),
        "no_item": np.array(0, np.int64),
        "zero": np.array(0, np.int64),
        "minus_one": np.array(-1, np.int64),
    }
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    feeds = {
        "indices": np.array([[0, 0], [0, 1], [2, 0], [3, 0], [3, 2]], np.int64),
        "items": np.array([7, 49, 3, 3, 12], np.int64),
        "shape": np.array([4, 3], np.int64),
        "words": np.array([1, 39, 5, 5, 8], np.int64),
        "offsets": np.array([0, 2, 2, 4], np.int64),
        "dense": random.normal(size=(4, 4)).astype(np.float32),
    }
    return model, feeds


def _by_hand() -> tuple[ModelProto, Feeds]:
    model = parser.parse_model(_BY_HAND)
    constants = {"floor": np.array(-10, np.float32), "half": np.array(0.5, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    feeds = {
        "data": np.array([[1, -2, 3], [4, 5, -6], [-7, -8, -9], [0.5, 0.25, 2]], np.float32),
        "ids": np.array([0, 0, 2, 3], np.int64),
        "mask": np.array([True, False, False]),
    }
    return model, feeds
