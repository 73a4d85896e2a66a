"""Malformed input that TensorFlow refuses and a converted model answers, with the reasons; a test keeps it complete."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """Malformed input that is not refused.

    Attributes:
        functions: The functions of TensorFlow.
        inputs: What is malformed.
        answer: What the model answers.
        reason: Why it does not refuse.
    """

    functions: tuple[str, ...]
    inputs: tuple[str, ...]
    answer: str
    reason: str

    def covers(self, function: str, kind: str) -> bool:
        """Whether the entry is about a function and an input."""
        return function in self.functions and kind in self.inputs


_NEGATIVE_SPLITS = ("splits that begin below 0",)
_OF_VALUES = "standard operators gather the values at the splits"
_COUNTED = "counts from the end"

ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        ("the first of each row", "tf.reverse", "tf.tile", "plus a column"),
        _NEGATIVE_SPLITS,
        f"a negative position of a value {_COUNTED}",
        _OF_VALUES,
    ),
    Accepted(("plus a column",), ("no splits",), "nothing", _OF_VALUES),
    Accepted(
        ("tf.sparse.segment_sum with num_segments",),
        ("an id too large", "an id far too large"),
        "entries of segments at or beyond num_segments are dropped",
        "OpenVINO's semantics of EmbeddingSegmentsSum",
    ),
    Accepted(
        (
            "tf.sparse.sparse_dense_matmul",
            "tf.sparse.add",
            "tf.sparse.add dense",
            "tf.sparse.maximum",
            "tf.sparse.minimum",
            "tf.sparse.concat",
            "sparse * dense",
            "sparse * row",
            "sparse / dense",
        ),
        ("more columns",),
        "the entries as if the dense shapes were alike",
        "entries are looked at, but not whether the dense shapes of two operands fit",
    ),
)
