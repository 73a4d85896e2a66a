"""Random models of feature columns behind a parser of tf.Example messages, fed with random messages.

`python -m support.random_feature_columns --seed 0 --count 200` saves that many models, as Estimators and Keras export
them, converts each, verifies it on inputs that are made for it, and runs it in TensorFlow and in ONNX Runtime on 50
batches. It prints every difference, failure and refusal. Some messages are malformed: both must refuse them.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from contract.example_messages import FLOAT, INT64, STRING, entry, feature, message, mutated, varint
from support.random_findings import Finding, difference, main

_FED = 50  # how many batches each model is fed with

_AT_ONCE = 20  # how many models a process examines

_VOCABULARY = ("red", "green", "blue", "grün", "", "a word of twenty two.", "x" * 40)
_OTHER_WORDS = (b"violet", b"\xff\xfe", b"a\0b", b"3")


class Export:
    """A random model: its columns, and what it takes from messages."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = np.random.default_rng(seed)
        self.folder = folder
        self.steps: list[str] = []
        self.spec: dict[str, Any] = {}

    def save(self) -> Path:
        """Save the model; its path."""
        path = self.folder / "saved"
        kinds = [self._graph, self._graph, self._keras, self._sequences]
        kinds[self.rng.integers(len(kinds))](path)
        return path

    def _graph(self, path: Path) -> None:
        """As an Estimator exports it: a graph of TensorFlow 1."""
        import tensorflow as tf

        v1 = tf.compat.v1
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(int(self.rng.integers(1000)))
            self.steps.append("graph")
            dense = [self._dense(shared=True) for _ in range(self.rng.integers(1, 5))]
            dense = _distinct(column for made in dense for column in (made if isinstance(made, list) else [made]))
            linear = _distinct(self._linear() for _ in range(self.rng.integers(0, 4)))
            self.spec = v1.feature_column.make_parse_example_spec(dense + linear)
            examples = v1.placeholder(tf.string, [None], "examples")
            features = v1.io.parse_example(examples, self.spec)
            outputs = {"deep": v1.feature_column.input_layer(features, dense)}
            if linear:
                combiner = str(self.rng.choice(["sum", "mean", "sqrtn"]))
                self.steps.append(f"linear {combiner}")
                outputs["wide"] = v1.feature_column.linear_model(features, linear, 2, combiner)
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for variable in v1.global_variables():  # a linear model's start as zeros
                variable.load(self.rng.standard_normal(variable.shape).astype(np.float32), session)
            initialize = v1.tables_initializer()
            v1.saved_model.simple_save(session, str(path), {"examples": examples}, outputs, legacy_init_op=initialize)

    def _keras(self, path: Path) -> None:
        """A layer of Keras 2 in a signature of TensorFlow 2."""
        import tf_keras

        self.steps.append("Keras")
        columns = _distinct(self._dense() for _ in range(self.rng.integers(1, 5)))
        self._save_layer(path, tf_keras.layers.DenseFeatures(columns), columns)

    def _sequences(self, path: Path) -> None:
        """A layer of sequences, which are padded."""
        import tf_keras

        self.steps.append("sequences")
        columns = [self._sequence(k) for k in range(self.rng.integers(1, 4))]
        self._save_layer(path, tf_keras.experimental.SequenceFeatures(columns), columns)

    def _save_layer(self, path: Path, layer: Any, columns: list[Any]) -> None:
        import tensorflow as tf

        self.spec = tf.feature_column.make_parse_example_spec(columns)
        module = tf.Module()
        module.layer = layer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")], autograph=False)
        def serve(examples: Any) -> dict[str, Any]:
            features = tf.io.parse_example(examples, self.spec)
            return {f"y{k}": y for k, y in enumerate(tf.nest.flatten(layer(features)))}

        serve.get_concrete_function()
        tf.saved_model.save(module, str(path), signatures=serve)

    def _choice(self, choices: dict[str, Callable[[], Any]]) -> Any:
        name = str(self.rng.choice(list(choices)))
        self.steps.append(name)
        return choices[name]()

    def _dense(self, *, shared: bool = False) -> Any:
        """A dense column; shared embeddings are several."""
        choices = {
            "numeric": self._numeric,
            "bucketized": self._bucketized,
            "indicator": self._indicator,
            "embedding": lambda: self._embedding(self._categorical()),
        }
        return self._choice(choices | ({"shared": self._shared} if shared else {}))

    def _linear(self) -> Any:
        """A column of a linear model."""
        return self._choice({"numeric": self._numeric, "categorical": self._categorical})

    def _numeric(self, key: str | None = None) -> Any:
        import tensorflow as tf

        key = f"number{self.rng.integers(3)}" if key is None else key
        # The same key has the same shape and default.
        shape = ((1,), (2,), (2, 2))[int(key[-1])]
        default = (None, 0.5, [[1.0, -1.0], [0.0, 3.0]])[int(key[-1])]
        return tf.feature_column.numeric_column(key, shape, default, normalizer_fn=_halved if key[-1] == "1" else None)

    def _bucketized(self, key: str | None = None) -> Any:
        import tensorflow as tf

        boundaries = np.sort(self.rng.choice(np.arange(-20, 20), self.rng.integers(1, 5), replace=False)) / 2
        # It takes no matrices.
        return tf.feature_column.bucketized_column(
            self._numeric(key or f"number{self.rng.integers(2)}"), boundaries.tolist()
        )

    def _indicator(self) -> Any:
        import tensorflow as tf

        return tf.feature_column.indicator_column(self._categorical())

    def _embedding(self, column: Any) -> Any:
        import tensorflow as tf

        combiner = str(self.rng.choice(["sum", "mean", "sqrtn"]))
        most = float(self.rng.choice([0, 0, 0.5])) or None
        self.steps.append(f"{combiner}{' of a norm' * bool(most)}")
        return tf.feature_column.embedding_column(column, int(self.rng.integers(1, 5)), combiner, max_norm=most)

    def _shared(self) -> list[Any]:
        import tensorflow as tf

        buckets = int(self.rng.integers(4, 11))
        both = [tf.feature_column.categorical_column_with_identity(f"ids{k}", buckets) for k in range(2)]
        combiner = str(self.rng.choice(["sum", "mean", "sqrtn"]))
        made: list[Any] = tf.compat.v1.feature_column.shared_embedding_columns(
            both, 3, combiner, shared_embedding_collection_name=f"shared{len(self.steps)}"
        )
        return made

    def _categorical(self) -> Any:
        choices = self._simple() | {"crossed": self._crossed, "weighted": self._weighted}
        return self._choice(choices)

    def _simple(self) -> dict[str, Callable[[], Any]]:
        return {
            "identity": self._identity,
            "vocabulary": self._vocabulary,
            "vocabulary of ids": self._vocabulary_of_ids,
            "vocabulary file": self._vocabulary_file,
            "hashed": self._hashed,
            "hashed ids": self._hashed_ids,
        }

    def _identity(self, make: str = "categorical_column_with_identity", key: str | None = None) -> Any:
        import tensorflow as tf

        default = None if self.rng.random() < 0.5 else 0
        key = key or f"ids{self.rng.integers(2)}"
        return getattr(tf.feature_column, make)(key, int(self.rng.integers(4, 11)), default)

    def _unknown(self) -> dict[str, int]:
        """What happens to words that are not in a vocabulary."""
        return [{}, {"num_oov_buckets": 3}, {"default_value": 1}][self.rng.integers(3)]

    def _vocabulary(self, make: str = "categorical_column_with_vocabulary_list", key: str | None = None) -> Any:
        import tensorflow as tf

        words = self.rng.permutation(_VOCABULARY)[: self.rng.integers(2, len(_VOCABULARY))].tolist()
        return getattr(tf.feature_column, make)(key or f"words{self.rng.integers(2)}", words, **self._unknown())

    def _vocabulary_of_ids(self, make: str = "categorical_column_with_vocabulary_list", key: str | None = None) -> Any:
        import tensorflow as tf

        ids = self.rng.permutation(np.array([3, 1, 7, 2**40, -1]))[: self.rng.integers(2, 5)].tolist()
        return getattr(tf.feature_column, make)(
            key or f"ids{self.rng.integers(2)}", ids, dtype=tf.int64, **self._unknown()
        )

    def _vocabulary_file(self, make: str = "categorical_column_with_vocabulary_file", key: str | None = None) -> Any:
        import tensorflow as tf

        words = [word for word in self.rng.permutation(_VOCABULARY) if word]
        path = self.folder / f"words{len(self.steps)}.txt"
        path.write_text("".join(f"{word}\n" for word in words), "utf-8")
        size = int(self.rng.integers(2, len(words)))
        return getattr(tf.feature_column, make)(
            key or f"words{self.rng.integers(2)}", str(path), size, **self._unknown()
        )

    def _hashed(self, make: str = "categorical_column_with_hash_bucket", key: str | None = None) -> Any:
        import tensorflow as tf

        return getattr(tf.feature_column, make)(key or f"words{self.rng.integers(2)}", int(self.rng.integers(2, 20)))

    def _hashed_ids(self, make: str = "categorical_column_with_hash_bucket", key: str | None = None) -> Any:
        import tensorflow as tf

        buckets = int(self.rng.integers(2, 20))
        return getattr(tf.feature_column, make)(key or f"ids{self.rng.integers(2)}", buckets, tf.int64)

    def _crossed(self) -> Any:
        import tensorflow as tf

        choices = {
            "words": lambda: f"words{self.rng.integers(2)}",
            "bucketized": self._bucketized,
            "identity": self._identity,
            "vocabulary": self._vocabulary,
        }
        parts = [self._choice(choices) for _ in range(self.rng.integers(2, 4))]
        key = None if self.rng.random() < 0.5 else int(self.rng.integers(1, 2**40))
        return tf.feature_column.crossed_column(parts, int(self.rng.integers(2, 30)), key)

    def _weighted(self) -> Any:
        import tensorflow as tf

        column = self._choice(self._simple())
        return tf.feature_column.weighted_categorical_column(column, f"weights_of_{column.key}")

    def _sequence(self, k: int) -> Any:
        import tensorflow as tf

        if self.rng.random() < 0.25:
            self.steps.append("numeric")
            key, shape = ((f"numbers{k}", (1,)), (f"pairs{k}", (2,)))[self.rng.integers(2)]
            return tf.feature_column.sequence_numeric_column(key, shape, 0.25)
        name = str(self.rng.choice(list(self._simple())))
        self.steps.append(name)
        kind = {"identity": "identity", "hashed": "hash_bucket", "hashed ids": "hash_bucket"}.get(name)
        kind = kind or ("vocabulary_file" if "file" in name else "vocabulary_list")
        key = f"{'ids' if 'id' in name else 'words'}_{k}"
        column = partial(self._simple()[name], f"sequence_categorical_column_with_{kind}", key)()
        if self.rng.random() < 0.5:
            return self._embedding(column)
        self.steps.append("indicator")
        return tf.feature_column.indicator_column(column)

    def batches(self) -> Iterator[tuple[list[bytes], bool]]:
        """Batches of messages, and whether one of them is malformed; the last has no messages."""
        for turn in range(_FED):
            most = (4, 1, 30)[turn % 3]
            batch = [self._message() for _ in range(int(self.rng.integers(1, most + 1)) if turn < _FED - 1 else 0)]
            malformed = bool(batch) and self.rng.random() < 0.25
            if malformed:
                k = self.rng.integers(len(batch))
                batch[k] = mutated(self.rng, batch[k]) if self.rng.random() < 0.7 else self._message(misfit=True)
            yield batch, malformed

    def _message(self, *, misfit: bool = False) -> bytes:
        """A message; of a misfit one feature has another type, or too many values."""
        import tensorflow as tf

        types = {tf.float32: FLOAT, tf.int64: INT64, tf.string: STRING}
        keys = [str(key) for key in self.rng.permutation(sorted(self.spec))]
        wrong = self.rng.choice(keys) if misfit else None
        lengths: dict[str, int] = {}
        entries = []
        for key in keys:
            told = self.spec[key]
            dtype = types[told.dtype]
            if isinstance(told, tf.io.FixedLenFeature):
                size = int(np.prod(told.shape))
                if told.default_value is not None and self.rng.random() < 0.3:
                    continue
            else:
                # Weights are as many as what they weigh, and sequences of one message mostly have one length.
                whose = key.removeprefix("weights_of_") if "sequences" not in self.steps else ""
                size = lengths.setdefault(whose, int(self.rng.choice([0, 1, 2, 3, 5])))
                size = size * 2 if key.startswith("pairs") else size
                if not size and self.rng.random() < 0.5:
                    continue
            if key == wrong:
                size, dtype = (size + 1, dtype) if self.rng.random() < 0.3 else (max(size, 1), types[tf.int64])
            values = [self._value(dtype) for _ in range(size)]
            entries.append(entry(key.encode(), feature(dtype, values, packed=bool(self.rng.random() < 0.8))))
        return message(*entries)

    def _value(self, dtype: int) -> bytes:
        if dtype == FLOAT:
            odd = self.rng.random() < 0.02
            number = self.rng.choice([np.nan, np.inf, -np.inf, 1e30]) if odd else self.rng.integers(-24, 24) / 2
            return np.float32(number).tobytes()
        if dtype == INT64:
            odd = self.rng.random() < 0.02
            return varint(int(self.rng.choice([-1, 11, 2**40, -(2**63)]) if odd else self.rng.integers(4)) % 2**64)
        known = self.rng.random() < 0.8
        return str(self.rng.choice(_VOCABULARY)).encode() if known else _OTHER_WORDS[self.rng.integers(4)]


def _distinct(columns: Iterable[Any]) -> list[Any]:
    """The columns without those that have the name of another one, which TensorFlow refuses."""
    return list({column.name: column for column in columns}.values())


def _halved(values: Any) -> Any:
    return values / 2


def examine(seed: int) -> tuple[Finding | None, int]:
    """Compare one model with TensorFlow; returns what went wrong, and how many batches were compared."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _examine(seed, Export(seed, Path(folder)))


def _examine(seed: int, export: Export) -> tuple[Finding | None, int]:
    import tensorflow as tf
    from onnxruntime import SessionOptions

    from onnx_sparse import InferenceSession, example_array
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.tensorflow import convert, verify

    def found(kind: str, what: object) -> tuple[Finding, int]:
        return Finding(seed, kind, tuple(export.steps), str(what).replace("\n", " ")[:500]), compared

    compared = 0
    try:
        path = export.save()
    except Exception as error:
        return found("not built", f"{type(error).__name__}: {error}")
    try:
        model = convert(path)
    except ConversionError as error:
        return found("refused", error)
    except Exception as error:
        return found("failed", f"{type(error).__name__}: {error}")
    unequal = [record for record in verify(path, model) if not record.ok]
    if unequal:
        return found("not verified", f"{unequal[0].output}: {unequal[0].verdict}: {unequal[0].note}")
    options = SessionOptions()
    # Threads that spin make each session end some 50 ms later.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    try:
        session = InferenceSession(model, options)
    except Exception as error:
        return found("does not load", error)
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    outputs = [output.name for output in session.get_outputs()]
    for batch, malformed in export.batches():
        try:
            wanted = signature(examples=tf.constant(batch, tf.string))
        except (tf.errors.OpError, UnicodeDecodeError) as error:  # it makes no message of bytes that are not UTF-8
            wanted, refusal = None, error
        try:
            results = session.run(outputs, {"examples": example_array(batch)})
        except Exception as error:
            # A single id in a batch without weights is no error in TensorFlow, which drops it.
            if wanted is None or (malformed and "weighted" in export.steps):
                compared += wanted is None
                continue
            return found("does not run", f"{batch}: {error}")
        if wanted is None:
            if _is_left_out(refusal):
                continue
            return found("does not refuse", f"{refusal}: {batch}")
        for name, got in zip(outputs, results, strict=True):
            if what := difference(np.asarray(got), wanted[name].numpy()):
                return found("differs", f"{name}: {what}; {batch}")
        compared += 1
    return None, compared


def _is_left_out(refusal: Exception) -> bool:
    """Whether a check is left out that TensorFlow makes of sequences: that they have equal lengths.

    The converter leaves every Assert out, and ONNX Runtime's Concat takes an empty tensor of any shape.
    """
    return "assert_all_equal" in str(refusal) or "ConcatOp : Dimension 1" in str(refusal)


if __name__ == "__main__":
    main(__file__, examine, "models of feature columns", _AT_ONCE)
