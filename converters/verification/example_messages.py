"""Serialized tf.Example and tf.SequenceExample messages for verification.

Features may say how the values of others form rows: lengths, splits, starts, limits or ids of rows. Of n values a
message has n rows, the last of which is not empty; so what says how rows form groups is the same as what says how
values form rows, and one and the same partition fits at every depth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.values import Values
from onnx_sparse.rows.tf_examples import ParsedFeature, serialized_example
from onnx_sparse.rows.tf_examples import Values as ListOfValues
from onnx_sparse.schemas.declaration import DType

Array = np.ndarray[Any, Any]

_IDS = 4  # integers without known bounds are below this

#: How rows may be given, in the order in which they are tried.
PARTITIONS = ("lengths", "rowids", "limits", "starts", "splits", "values")


@dataclass(frozen=True)
class Partition:
    """How a feature says what forms rows.

    Attributes:
        kind: One of `PARTITIONS`; `"values"` for a feature that says nothing of the kind.
        unit: How many values are already one in what it makes rows of: the product of the uniform lengths inside.
    """

    kind: str
    unit: int = 1


class Message(bytes):
    """A serialized message that knows what is in it.

    Attributes:
        context: The values of its features by key.
        lists: The values of each list of its feature lists by key.
        has_lists: Whether the model takes feature lists.
    """

    context: dict[bytes, list[Any]]
    lists: dict[bytes, list[list[Any]]]
    has_lists: bool


class Messages:
    """Draws the messages of one batch.

    Args:
        values: What the model demands of values.
        rng: Where randomness comes from.
        name: The input that has the messages.
        features: The features that the model takes.
        partitions: Those that say what forms rows.
        careful: Whether to leave out values that are likely to be refused.
        ranges: Between which numbers floats are.
    """

    def __init__(
        self,
        values: Values,
        rng: np.random.Generator,
        name: str,
        features: Sequence[ParsedFeature],
        partitions: Mapping[Origin, Partition],
        careful: bool,
        ranges: Mapping[Origin, tuple[float, float]],
    ) -> None:
        self._ranges = ranges
        self._values, self._rng, self._name, self._careful = values, rng, name, careful
        self._features, self._partitions = features, partitions
        self._multiple = math.lcm(*values.constraints.units) if values.constraints.units else 1

    def array(self, shape: Sequence[int], lengths: Sequence[int] | Array, *, with_gaps: bool) -> Array:
        """As many messages as a shape has.

        Args:
            shape: The shape.
            lengths: The number of values of a feature with any number of them, for each message. All lists of a message
                are equally long: ids and weights must be.
            with_gaps: Whether features may be missing.
        """
        messages = np.empty(shape, object)
        for b in np.ndindex(*shape):
            # There may be more messages than rows were drawn for, where the source demands another number of them.
            length = int(lengths[(b[0] if b else 0) % len(lengths)]) if len(lengths) else 0
            messages[b] = self._message(length * self._multiple, with_gaps=with_gaps)
        return messages

    def _message(self, length: int, *, with_gaps: bool) -> Message:
        steps = self._rng.integers(0, 3, length).tolist()
        context: dict[bytes, tuple[DType, ListOfValues]] = {}
        lists: dict[bytes, tuple[DType, list[ListOfValues]]] = {}
        lists_missing = self._rng.random() < 0.3
        for feature in self._features:
            missing = lists_missing if feature.in_lists or feature.size < 0 else self._rng.random() < 0.3
            if with_gaps and not feature.required and missing:
                continue
            if feature.in_lists:
                lists[feature.key] = feature.dtype, [self._of(feature, size) for size in steps]
            else:
                context[feature.key] = feature.dtype, self._of(feature, length)
        message = Message(serialized_example(context, lists))
        message.context = {key: list(values) for key, (_, values) in context.items()}
        message.lists = {key: [list(values) for values in each] for key, (_, each) in lists.items()}
        message.has_lists = any(feature.in_lists for feature in self._features)
        return message

    def _of(self, feature: ParsedFeature, length: int) -> ListOfValues:
        """As many values as a feature has; of one with any number, that of a list of this length."""
        origin = Origin(self._name, feature.key)
        step = self._values.constraints.step_sizes.get(origin, 1)
        size = feature.size if feature.size >= 0 else -feature.size * length * step
        partition = self._partitions.get(origin)
        if partition is not None and partition.kind != "values" and feature.dtype == TensorProto.INT64:
            return self._rows(partition, size // partition.unit)
        if feature.dtype == TensorProto.STRING:
            words = self._values.texts(self._rng, origin, [size], careful=self._careful)
            return [word.encode("utf-8", "surrogateescape") for word in words]
        if feature.dtype == TensorProto.FLOAT:
            return [float(value) for value in self._values.floats(self._rng, origin, [size], self._ranges)]
        keys = [key for key in self._values.constraints.keys.get(origin, ()) if isinstance(key, int)]
        if keys:
            stated = keys if self._careful else [*keys, max(keys) + 1]
            drawn = self._values.keyed(self._rng, origin, stated, [size], careful=self._careful)
            return [int(key) for key in drawn]
        legal = self._values.range_of(origin, None, _IDS)
        drawn = self._values.integers(self._rng, origin, [size], legal, np.int64, careful=self._careful)
        return [int(value) for value in drawn]

    def _rows(self, partition: Partition, count: int) -> list[int]:
        """What says how `count` values form as many rows."""
        lengths = np.zeros(count, np.int64)
        if count:
            # The last row has a value, so that ids of rows tell of all of them.
            lengths = np.bincount([*self._rng.integers(0, count, count - 1), count - 1], minlength=count)
        ends = np.cumsum(lengths)
        said: dict[str, Array] = {
            "lengths": lengths,
            "limits": ends,
            "splits": np.array([0, *ends]),
            "starts": ends - lengths,
            "rowids": np.repeat(np.arange(count), lengths),
        }
        return [int(value) for value in said[partition.kind]]
