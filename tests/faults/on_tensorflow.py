"""A tf.function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto

from faults.operations import Array, Body, Named, Specs, named


class TensorFlow(Named):
    """A tf.function."""

    without: ClassVar[frozenset[str]] = frozenset(("recurrent", "places of NaN", "far places"))
    propagates_nan = True
    names: ClassVar[Mapping[str, str]] = named(
        "constant maximum minimum sign transpose matmul einsum split",
        relu="nn.relu",
        clip="clip_by_value",
        places="where",
        distinct="unique_with_counts",
    )

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        self.tf = self.library = tf

    def divide(self, x: Any, y: Any) -> Any:
        return x // y

    def reduce(self, kind: str, x: Any, axis: int, keep: bool) -> Any:
        return getattr(self.tf, f"reduce_{kind}")(x, axis, keepdims=keep)

    def flatten(self, x: Any, start: int) -> Any:
        shape = self.tf.shape(x)
        return self.tf.reshape(x, self.tf.concat([shape[:start], [self.tf.reduce_prod(shape[start:])]], 0))

    def reverse(self, x: Any) -> Any:
        return self.tf.gather(x, self.tf.range(self.tf.shape(x)[0] - 1, -1, -1))

    def scatter_add(self, x: Any, ids: Any, updates: Any) -> Any:
        return self.tf.tensor_scatter_nd_add(x, ids[:, None], updates)

    def one_hot(self, ids: Any, depth: Any) -> Any:
        return self.tf.one_hot(ids, self.tf.cast(depth, self.tf.int32))

    def unique(self, x: Any) -> Any:
        return self.tf.raw_ops.UniqueV2(x=x, axis=[0])[0]

    def slice(self, x: Any, start: Any, end: Any, step: int) -> Any:
        return self.tf.strided_slice(x, start, end, self.tf.constant([step], self.tf.int64))

    def log_sigmoid(self, x: Any) -> Any:
        return self.tf.math.log(self.tf.sigmoid(x))

    def words(self, x: Any, ids: Any) -> Any:
        return self.tf.gather(self.tf.strings.as_string(x), ids)

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        return [np.asarray(t.numpy()) for t in body(self, *map(self.tf.constant, inputs))]

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        from onnx_sparse.converters.tensorflow import convert

        tf = self.tf
        counts = [len(spec) for spec in specs]

        def call(*flat: Any) -> dict[str, Any]:
            results: list[Any] = []
            for body, start, count in zip(bodies, np.cumsum([0, *counts]), counts, strict=False):
                results += body(self, *flat[start : start + count])
            return {f"y{k:03}": result for k, result in enumerate(results)}

        signature = [
            tf.TensorSpec([None] * rank, dtype, f"x{k}")
            for k, (dtype, rank) in enumerate(item for spec in specs for item in spec)
        ]
        return convert(tf.function(call, input_signature=signature, autograph=False))
