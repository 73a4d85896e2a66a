"""Random specifications of parsed messages: every kind of feature, and every way to give rows.

`python -m support.random_parsing --seed 0 --count 200` saves that many models of TensorFlow, converts each and verifies
it on inputs that are made for it, as `onnx-sparse convert --verify` does. It prints what is refused by the converter,
and every verdict that is not "ok".
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from support.program import parser

#: The kinds of partitions, by the names of TensorFlow's classes.
PARTITIONS = ("RowLengths", "RowSplits", "RowStarts", "RowLimits", "ValueRowIds", "UniformRowLength")

_WORDS = ("red", "green", "blue")
_ROWS = 7  # of the table


class Specification:
    """A random specification of features, and a model behind it.

    Args:
        seed: The same seed gives the same specification.
        kinds: The kinds of partitions to choose from.
    """

    def __init__(self, seed: int, kinds: tuple[str, ...] = PARTITIONS) -> None:
        import tensorflow as tf

        self.rng = np.random.default_rng(seed)
        self.kinds = kinds
        self.parts: list[str] = []
        count = int(self.rng.integers(1, 5))
        self.features = {f"f{k}": self._feature(tf, f"f{k}") for k in range(count)}
        self.table = tf.Variable(self.rng.standard_normal((_ROWS, 2)).astype(np.float32))

    def _feature(self, tf: Any, key: str) -> Any:
        dtype = [tf.int64, tf.float32, tf.string][self.rng.integers(3)]
        kind = self.rng.integers(6)
        if kind == 0:
            self.parts.append("fixed")
            return tf.io.FixedLenFeature([int(self.rng.integers(1, 4))], dtype)
        if kind == 1:
            self.parts.append("variable")
            return tf.io.VarLenFeature(dtype)
        if kind == 2:
            self.parts.append("sequence")
            default = {tf.int64: 0, tf.float32: 0.0, tf.string: ""}[dtype]
            return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True, default_value=default)
        partitions = [self._partition(tf, f"{key}_{k}") for k in range(int(self.rng.integers(0, 3)))]
        self.parts.append("ragged " + " ".join(type(each).__name__ for each in partitions))
        return tf.io.RaggedFeature(dtype, value_key=f"{key}_values", partitions=partitions, row_splits_dtype=tf.int64)

    def _partition(self, tf: Any, key: str) -> Any:
        kind = self.kinds[self.rng.integers(len(self.kinds))]
        make = getattr(tf.io.RaggedFeature, kind)
        return make(int(self.rng.integers(2, 4))) if kind == "UniformRowLength" else make(key)

    def save(self, path: Path) -> None:
        """Save a model that parses the features and computes something of each."""
        import tensorflow as tf

        module = tf.Module()
        module.table = self.table

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False)
        def serve(examples: Any) -> dict[str, Any]:
            parsed = tf.io.parse_example(examples, self.features)
            return {f"out_{key}": self._used(tf, value) for key, value in parsed.items()}

        module.serve = serve
        tf.saved_model.save(module, str(path), {"serving_default": serve})

    def _used(self, tf: Any, value: Any) -> Any:
        if isinstance(value, tf.sparse.SparseTensor):
            value = tf.sparse.to_dense(value)
        if isinstance(value, tf.RaggedTensor):
            if value.dtype == tf.float32 and self.rng.random() < 0.4:
                return (
                    tf.reduce_sum(value, axis=value.ragged_rank).to_tensor()
                    if value.ragged_rank > 1
                    else tf.reduce_sum(value, axis=1)
                )
            value = value.to_tensor()
        if value.dtype == tf.int64 and self.rng.random() < 0.6:
            return tf.gather(self.table, value)
        if value.dtype == tf.string:
            return tf.strings.to_hash_bucket_fast(value, 50)
        return value


def outcome(seed: int, folder: Path, kinds: tuple[str, ...] = PARTITIONS) -> tuple[str, str]:
    """What becomes of a specification: "ok", "refused" by the converter, or another verdict; and why."""
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.tensorflow import convert, verify

    specification = Specification(seed, kinds)
    path = folder / f"saved_{seed}"
    try:
        specification.save(path)
    except (ValueError, TypeError) as error:
        return "not made", str(error).splitlines()[0]
    try:
        model = convert(path)
    except ConversionError as error:
        return "refused", str(error)
    failed = [record for record in verify(path, model) if not record.ok]
    if not failed:
        return "ok", ""
    return failed[0].verdict.value, f"{'; '.join(specification.parts)}: {failed[0].output}: {failed[0].note}"


def main() -> None:
    """Print what becomes of specifications."""
    arguments = parser(__doc__, seed=0, count=200).parse_args()
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            verdict, why = outcome(seed, Path(folder))
            totals[verdict] += 1
            if verdict != "ok":
                sys.stdout.write(f"{seed} {verdict} {why[:400]}\n")
    sys.stdout.write(", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()) + "\n")


if __name__ == "__main__":
    main()
