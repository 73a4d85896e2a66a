"""Parsers of tf.Example messages: dense, sparse and ragged features, of many messages and of one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from contract.example_messages import (  # noqa: E402
    FLOAT,
    INT64,
    STRING,
    entry,
    feature,
    field,
    message,
    mutated,
    random_value,
    varint,
)

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.rows.example_arrays import example_array  # noqa: E402

FEATURES = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "box": tf.io.FixedLenFeature([2, 2], tf.float32, [[0.5, 1.0], [-1.0, float("inf")]]),
    "name": tf.io.FixedLenFeature([1], tf.string, "nobody"),
    "points": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=-1.0),
    "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="?"),
    "ids": tf.io.VarLenFeature(tf.int64),
    "tags": tf.io.VarLenFeature(tf.string),
    "weights": tf.io.VarLenFeature(tf.float32),
    "path": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int32),
    "more": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
}

#: A message that has everything, one that has the least, and one with empty lists.
MESSAGES = [
    tf.train.Example(
        features=tf.train.Features(
            feature={
                "age": tf.train.Feature(int64_list=tf.train.Int64List(value=[2**62])),
                "box": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2, 3, float("nan")])),
                "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=["naïve\0".encode()])),
                "points": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2, 3, 4])),
                "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"to", b"", b"see"])),
                "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 0, 300])),
                "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", "日本語".encode()])),
                "weights": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
                "path": tf.train.Feature(int64_list=tf.train.Int64List(value=[7, 8])),
                "more": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * 40])),
                "unknown": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
            }
        )
    ).SerializeToString(),
    message(entry(b"age", feature(INT64, [b"\x05"], packed=False))),
    message(
        entry(b"age", feature(INT64, [b"\0"])),
        *(entry(key, feature(INT64, [])) for key in (b"ids", b"path")),
        *(entry(key, feature(STRING, [])) for key in (b"tags", b"words", b"more")),
        *(entry(key, feature(FLOAT, [])) for key in (b"weights", b"points")),
    ),
]


def parser(features: Any, shape: tuple[Any, ...] = (None,), parse: Any = tf.io.parse_example) -> Any:
    @tf.function(input_signature=[tf.TensorSpec(shape, tf.string, "serialized")])
    def parsed(serialized: Any) -> Any:
        return tf.nest.flatten(parse(serialized, features), expand_composites=True)

    return parsed


def results(session: Any, messages: list[bytes], *, is_batch: bool = True) -> list[np.ndarray]:
    return list(session.run(None, {"serialized": example_array(messages if is_batch else messages[0])}))


def assert_same(ours: list[np.ndarray], theirs: list[Any]) -> None:
    for got, want in zip(ours, theirs, strict=True):
        wanted = want.numpy()
        assert got.shape == wanted.shape
        if want.dtype == tf.string:
            assert [text.encode() for text in got.reshape(-1)] == wanted.reshape(-1).tolist()
        else:
            assert got.dtype == wanted.dtype
            assert got.tobytes() == wanted.tobytes()


@pytest.fixture(scope="module")
def everything() -> Any:
    function = parser(FEATURES)
    return function, onnx_sparse.InferenceSession(convert(function), backend="native")


@pytest.mark.parametrize("chosen", [[0], [1], [2], [0, 1, 2], [2, 2, 1, 0], []], ids=str)
def test_every_kind_of_feature(everything, chosen):
    function, session = everything
    messages = [MESSAGES[k] for k in chosen]
    assert_same(results(session, messages), function(tf.constant(messages, tf.string)))


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("parse", [tf.io.parse_example, tf.io.parse_single_example], ids=lambda f: f.__name__)
def test_one_message(parse, k):
    features = dict(FEATURES)
    if parse is tf.io.parse_single_example:
        features = {name: f for name, f in features.items() if not isinstance(f, tf.io.RaggedFeature)}
    function = parser(features, (), parse)
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    assert_same(results(session, [MESSAGES[k]], is_batch=False), function(tf.constant(MESSAGES[k])))


def test_the_first_version_of_the_operator():
    """Its keys are tensors of their own."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "serialized")])
    def parsed(serialized):
        found = tf.raw_ops.ParseExample(
            serialized=serialized,
            names=tf.constant([], tf.string),
            sparse_keys=["ids", "tags"],
            dense_keys=["age", "name", "words"],
            dense_defaults=[tf.constant([], tf.int64), tf.constant(["nobody"]), tf.constant("?")],
            sparse_types=[tf.int64, tf.string],
            dense_shapes=[[], [1], [None]],
        )
        return tf.nest.flatten(found)

    session = onnx_sparse.InferenceSession(convert(parsed), backend="native")
    assert_same(results(session, MESSAGES), parsed(tf.constant(MESSAGES)))


def test_a_default_that_is_computed():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "serialized"), tf.TensorSpec([], tf.int64, "age")])
    def parsed(serialized, age):
        features = {"age": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([], tf.int64, 3)}
        found = tf.raw_ops.ParseExampleV2(
            serialized=serialized,
            names=tf.constant([], tf.string),
            sparse_keys=tf.constant([], tf.string),
            dense_keys=list(features),
            ragged_keys=tf.constant([], tf.string),
            dense_defaults=[age, tf.constant(3, tf.int64)],
            num_sparse=0,
            sparse_types=[],
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=[[], []],
        )
        return found.dense_values

    session = onnx_sparse.InferenceSession(convert(parsed), backend="native")
    ours = session.run(None, {"serialized": example_array([b"", MESSAGES[1]]), "age": np.array(40)})
    assert [values.tolist() for values in ours] == [[40, 5], [3, 3]]


HOSTILE = {
    "a": tf.io.FixedLenFeature([1], tf.int64),
    "b": tf.io.FixedLenFeature([2], tf.float32, [1.0, 2.0]),
    "c": tf.io.FixedLenFeature([1], tf.string, "?"),
    "d": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True),
    "e": tf.io.VarLenFeature(tf.int64),
    "f": tf.io.VarLenFeature(tf.string),
    "g": tf.io.RaggedFeature(tf.float32),
    "h": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
}
TYPES = {b"a": INT64, b"b": FLOAT, b"c": STRING, b"d": INT64, b"e": INT64, b"f": STRING, b"g": FLOAT, b"h": FLOAT}


def random_message(random: np.random.Generator) -> bytes:
    """A message that need not be legal: entries twice, unset, in pieces; of the wrong length or type."""
    entries = []
    for key, dtype in TYPES.items():
        for _ in range(random.choice([1, 0, 2], p=[0.86, 0.07, 0.07])):
            length = {b"a": 1, b"b": 2, b"c": 1, b"d": 2 * random.integers(3)}.get(key, random.integers(4))
            values = [random_value(random, dtype) for _ in range(length + (random.random() < 0.01))]
            made = feature(dtype, values, packed=bool(random.random() < 0.5)) if random.random() < 0.97 else b""
            swapped = field(0x0A, field(0x12, made) + field(0x0A, key))
            entries.append(entry(key, made) if random.random() < 0.95 else swapped)
    if random.random() < 0.3:
        entries.append(entry(b"other", b"\x0a"))
    order = [entries[k] for k in random.permutation(len(entries))]
    cut = int(random.integers(len(order) + 1)) if random.random() < 0.2 else 0
    whole = (message(*order[:cut]) if cut else b"") + message(*order[cut:])
    if random.random() < 0.1:
        whole = field(0x12, random.bytes(5)) + whole + b"\x10" + varint(700)
    return mutated(random, whole) if random.random() < 0.6 else whole


def outcome(run: Any, *refusals: type[Exception]) -> Any:
    try:
        return run()
    except refusals:
        return None


@pytest.mark.slow
def test_hostile_messages():
    """Both refuse a message, or both give the same. Strings that are not UTF-8, which Python cannot see, are hashed."""

    def hashed(parse: Any, shape: tuple[Any, ...]) -> Any:
        @tf.function(input_signature=[tf.TensorSpec(shape, tf.string, "serialized")])
        def parsed(serialized):
            flat = tf.nest.flatten(parse(serialized, HOSTILE), expand_composites=True)
            return [tf.strings.to_hash_bucket_fast(t, 2**40) if t.dtype == tf.string else t for t in flat]

        return parsed

    random, agreed, refused = np.random.default_rng(1), 0, 0
    for shape in ((None,), ()):
        function = hashed(tf.io.parse_example, shape)
        session = onnx_sparse.InferenceSession(convert(function), backend="native")
        for _ in range(300):
            messages = [random_message(random) for _ in range(random.integers(1, 3) if shape else 1)]
            feed = messages if shape else messages[0]
            # TensorFlow fails to make a message of bytes that are not UTF-8.
            theirs = outcome(
                lambda feed=feed, function=function: [t.numpy() for t in function(tf.constant(feed))],
                tf.errors.InvalidArgumentError,
                UnicodeDecodeError,
            )
            ours = outcome(
                lambda messages=messages, shape=shape, session=session: results(
                    session, messages, is_batch=bool(shape)
                ),
                onnx_sparse.KernelError,
            )
            assert (ours is None) == (theirs is None), messages
            if ours is None or theirs is None:
                refused += 1
                continue
            agreed += 1
            for got, want in zip(ours, theirs, strict=True):
                assert got.dtype == want.dtype
                assert got.shape == want.shape
                assert got.tobytes() == want.tobytes(), messages
    assert min(agreed, refused) > 100


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"\n\x02\n", "serialized[1] is not a tf.Example"),
        (b"", "serialized[1], feature 'age' is missing; it is required"),
        (message(entry(b"age", feature(FLOAT, [b"abcd"]))), "'age' has a FloatList; an Int64List expected"),
        (message(entry(b"age", feature(INT64, [b"\1", b"\2"]))), "'age' has 2 values; 1 expected"),
        (message(entry(b"age", field(0x1A, field(0x0A, b"\x80")))), "'age' has an Int64List that is damaged"),
        (message(entry(b"age", b"\x22\0")), "'age' has a list of no known type"),
        (
            message(entry(b"age", feature(INT64, [b"\0"])), entry(b"points", feature(FLOAT, [b"abcd"]))),
            "'points' has 1 values; a multiple of 2 expected",
        ),
    ],
)
def test_errors_name_the_message_and_the_feature(everything, broken, reason):
    function, session = everything
    with pytest.raises(onnx_sparse.KernelError, match=re.escape(reason)):
        results(session, [MESSAGES[0], broken])
    with pytest.raises((tf.errors.InvalidArgumentError, UnicodeDecodeError)):
        function(tf.constant([MESSAGES[0], broken]))


@pytest.mark.parametrize("given", [[], ["a", "b"], ["a"]], ids=str)
def test_names_must_be_as_many_as_messages(given):
    """Also where there may be none."""
    function = parser(
        {"age": FEATURES["age"]}, parse=lambda s, f: tf.io.parse_example(s, f, tf.constant(given, tf.string))
    )
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    if len(given) == 1:
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(tf.constant(MESSAGES[1:]))
        with pytest.raises(Exception, match="cannot be reshaped"):
            results(session, MESSAGES[1:])
    else:
        assert results(session, MESSAGES[1:])[0].tolist() == [5, 0]


def refusal(**changes: Any) -> str:
    """Why a parser is refused."""
    arguments = {
        "names": tf.constant([], tf.string),
        "sparse_keys": tf.constant([], tf.string),
        "dense_keys": ["x"],
        "ragged_keys": tf.constant([], tf.string),
        "dense_defaults": [tf.constant([1.0, 2.0])],
        "num_sparse": 0,
        "sparse_types": [],
        "ragged_value_types": [],
        "ragged_split_types": [],
        "dense_shapes": [[2]],
        **changes,
    }
    function = tf.function(
        lambda serialized: tf.raw_ops.ParseExampleV2(serialized=serialized, **arguments).dense_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    with pytest.raises(ConversionError) as caught:
        convert(function)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"names": tf.constant("a")}, "the names are not as many as the messages"),
        ({"dense_shapes": [[1]]}, "feature 'x' of shape [1] has a default of shape [2]"),
        ({"dense_shapes": [[None]]}, "feature 'x' is padded with a tensor of shape [2]"),
        (
            {"dense_keys": ["x", "x"], "dense_shapes": [[1], [1]], "dense_defaults": [tf.constant([1.0])] * 2},
            "two features have the same key",
        ),
    ],
    ids=["names", "default", "padding", "keys"],
)
def test_what_tensorflow_refuses_for_every_message_is_refused(changes, reason):
    assert reason in refusal(**changes)
