"""Parsers of tf.SequenceExample messages: context features and feature lists, of many messages and of one."""

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
    random_value,
)

import onnx_sparse  # noqa: E402
from onnx_sparse import example_array  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

CONTEXT = {
    "age": tf.io.FixedLenFeature([], tf.int64, 7),
    "box": tf.io.FixedLenFeature([2], tf.float32),
    "tags": tf.io.VarLenFeature(tf.string),
    "path": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int32),
}
LISTS = {
    "points": tf.io.FixedLenSequenceFeature([2], tf.float32),
    "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
    "ids": tf.io.VarLenFeature(tf.int64),
    "age": tf.io.VarLenFeature(tf.float32),
    "more": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
}
#: The types of the features, with the numbers of values that they may have.
TYPES = {
    (False, b"age"): (INT64, (1,)),
    (False, b"box"): (FLOAT, (2,)),
    (False, b"tags"): (STRING, (0, 1, 3)),
    (False, b"path"): (INT64, (0, 1, 3)),
    (True, b"points"): (FLOAT, (2,)),
    (True, b"words"): (STRING, (1,)),
    (True, b"ids"): (INT64, (0, 1, 3)),
    (True, b"age"): (FLOAT, (0, 1, 3)),
    (True, b"more"): (STRING, (0, 1, 3)),
}
REQUIRED = {(False, b"box"), (True, b"points")}


def sequence(*, context: list[bytes], lists: list[bytes]) -> bytes:
    """A message of entries."""
    return message(*context) + field(0x12, b"".join(lists))


def steps(*features: bytes) -> bytes:
    """A feature list."""
    return b"".join(field(0x0A, each) for each in features)


def random_message(random: np.random.Generator, wrong: float = 0.0) -> bytes:
    """A message, of which each entry is wrong with some probability: of another type or length, missing, or unset."""
    entries: dict[bool, list[bytes]] = {False: [], True: []}
    for (in_lists, key), (dtype, sizes) in TYPES.items():
        if (in_lists, key) not in REQUIRED and random.random() < 0.2:
            continue
        for _ in range(random.choice([1, 2], p=[0.9, 0.1])):  # the last one counts
            made = []
            for _ in range(random.integers(4) if in_lists else 1):
                kind = int(random.choice([INT64, FLOAT, STRING])) if random.random() < wrong else dtype
                length = int(random.choice(sizes)) + (random.random() < wrong)
                values = [random_value(random, kind) for _ in range(length)]
                unset = random.random() < wrong
                made.append(b"" if unset else feature(kind, values, packed=bool(random.random() < 0.5)))
            entries[in_lists].append(entry(key, steps(*made) if in_lists else made[0]))
    entries[False].append(entry(b"another", feature(INT64, [b"\7"])))
    for own in entries.values():
        if random.random() < wrong:
            own.pop(int(random.integers(len(own)))) if own else None
    return sequence(
        context=[entries[False][k] for k in random.permutation(len(entries[False]))],
        lists=[entries[True][k] for k in random.permutation(len(entries[True]))],
    )


def flat(parsed: Any) -> list[Any]:
    """All tensors; strings, which Python cannot always see, by their hash."""
    found = tf.nest.flatten(parsed, expand_composites=True)
    return [tf.strings.to_hash_bucket_fast(t, 2**40) if t.dtype == tf.string else t for t in found]


def parser(shape: tuple[Any, ...], parse: Any, context: Any = CONTEXT, lists: Any = LISTS, **more: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec(shape, tf.string, "serialized")], autograph=False)
    def parsed(serialized: Any) -> Any:
        return flat(parse(serialized, context, lists, **more))

    return parsed


def outcome(run: Any, *refusals: type[Exception]) -> Any:
    try:
        return run()
    except refusals:
        return None


def agree(function: Any, session: Any, messages: list[bytes], *, is_batch: bool) -> bool:
    """Whether both run; they must give the same."""
    fed = messages if is_batch else messages[0]
    theirs = outcome(
        lambda: [t.numpy() for t in function(tf.constant(fed, tf.string))], tf.errors.OpError, UnicodeDecodeError
    )
    ours = outcome(lambda: session.run(None, {"serialized": example_array(fed)}), onnx_sparse.KernelError)
    assert (ours is None) == (theirs is None), messages
    if ours is None:
        return False
    for got, want in zip(ours, theirs, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes(), messages
    return True


@pytest.mark.parametrize("is_batch", [True, False], ids=["batch", "one"])
def test_every_kind_of_feature(is_batch):
    function = parser((None,) if is_batch else (), tf.io.parse_sequence_example)
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    random, agreed = np.random.default_rng(3), 0
    for wrong in (0.0, 0.03):
        for _ in range(60):
            messages = [random_message(random, wrong) for _ in range(random.integers(1, 5) if is_batch else 1)]
            agreed += agree(function, session, messages, is_batch=is_batch)
    assert 65 < agreed < 119


@pytest.mark.parametrize("is_batch", [True, False], ids=["batch", "one"])
def test_verification_draws_messages(is_batch):
    function = parser((None,) if is_batch else (), tf.io.parse_sequence_example)
    for record in verify(function, convert(function)):
        assert record.ok, record
        assert record.batches


@pytest.mark.parametrize("keys", [["age"], ["tags"], ["path"], []], ids=" ".join)
@pytest.mark.parametrize("list_keys", [["points"], ["words", "ids"], ["more"]], ids=" ".join)
def test_saved_models_leave_empty_lists_of_types_out(keys, list_keys, tmp_path):
    context, lists = {key: CONTEXT[key] for key in keys}, {key: LISTS[key] for key in list_keys}
    module = tf.Module()
    module.serve = parser((None,), lambda *of: tf.io.parse_sequence_example(*of)[:2], context, lists)
    signature = tf.function(
        lambda serialized: {f"y{k}": y for k, y in enumerate(module.serve(serialized))},
        input_signature=[tf.TensorSpec((None,), tf.string, "serialized")],
    )
    tf.saved_model.save(module, str(tmp_path), {"serving_default": signature})
    for record in verify(tmp_path, convert(tmp_path)):
        assert record.ok, record


def test_one_message_by_the_older_parser():
    context = {key: told for key, told in CONTEXT.items() if key != "path"}
    lists = {key: told for key, told in LISTS.items() if key != "more"}
    function = parser((), tf.io.parse_single_sequence_example, context, lists)
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    random = np.random.default_rng(4)
    for _ in range(60):
        assert agree(function, session, [random_message(random)], is_batch=False)


def test_the_first_version_of_the_operator():
    """Its keys are attributes."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "serialized")])
    def parsed(serialized):
        return flat(
            tf.raw_ops.ParseSequenceExample(
                serialized=serialized,
                debug_name=tf.constant([], tf.string),
                context_dense_defaults=[tf.constant(7, tf.int64), tf.constant([], tf.float32)],
                feature_list_dense_missing_assumed_empty=["words"],
                context_sparse_keys=["tags"],
                context_dense_keys=["age", "box"],
                feature_list_sparse_keys=["ids"],
                feature_list_dense_keys=["points", "words"],
                Ncontext_sparse=1,
                Ncontext_dense=2,
                Nfeature_list_sparse=1,
                Nfeature_list_dense=2,
                context_sparse_types=[tf.string],
                context_dense_shapes=[[], [2]],
                feature_list_sparse_types=[tf.int64],
                feature_list_dense_types=[tf.float32, tf.string],
                feature_list_dense_shapes=[[2], []],
            )
        )

    session = onnx_sparse.InferenceSession(convert(parsed), backend="native")
    random = np.random.default_rng(5)
    for _ in range(30):
        assert agree(parsed, session, [random_message(random) for _ in range(3)], is_batch=True)


POINTS = entry(b"points", steps(feature(FLOAT, [b"abcd"] * 2)))
BOX = entry(b"box", feature(FLOAT, [b"abcd"] * 2))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"\n\x02\n", "serialized[1] is not a tf.SequenceExample"),
        (sequence(context=[], lists=[POINTS]), "serialized[1], feature 'box' is missing; it is required"),
        (sequence(context=[BOX], lists=[]), "serialized[1], feature list 'points' is missing; it is required"),
        (
            sequence(context=[entry(b"box", feature(INT64, [b"\1", b"\2"]))], lists=[POINTS]),
            "feature 'box' has an Int64List; a FloatList expected",
        ),
        (
            sequence(context=[BOX], lists=[entry(b"points", steps(feature(FLOAT, [b"abcd"])))]),
            "feature list 'points', step 0, has 1 values; 2 expected",
        ),
        (
            sequence(context=[BOX], lists=[POINTS, entry(b"ids", steps(feature(INT64, [b"\1"]), feature(FLOAT, [])))]),
            "feature list 'ids', step 1, has a FloatList; an Int64List expected",
        ),
        (
            sequence(context=[BOX], lists=[POINTS, entry(b"ids", steps(b"\x1a\x03\x0a\x01\x80"))]),
            "feature list 'ids', step 0, has an Int64List that is damaged",
        ),
    ],
)
def test_errors_name_the_message_the_feature_and_the_step(broken, reason):
    function = parser((None,), tf.io.parse_sequence_example)
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    whole = sequence(context=[BOX], lists=[POINTS])
    with pytest.raises(onnx_sparse.KernelError, match=re.escape(reason)):
        session.run(None, {"serialized": example_array([whole, broken])})
    with pytest.raises((tf.errors.InvalidArgumentError, UnicodeDecodeError)):
        function(tf.constant([whole, broken]))


def test_what_tensorflow_refuses_for_every_message_is_refused():
    twice = {"x": tf.io.FixedLenFeature([2], tf.float32, [1.0, 2.0])}
    function = parser((None,), tf.io.parse_sequence_example, twice, {}, example_names=tf.constant("a"))
    with pytest.raises(ConversionError, match="the names are not as many as the messages"):
        convert(function)


def test_names_must_be_as_many_as_messages():
    function = parser((None,), tf.io.parse_sequence_example, example_names=tf.constant(["a", "b"]))
    session = onnx_sparse.InferenceSession(convert(function), backend="native")
    random = np.random.default_rng(6)
    messages = [random_message(random) for _ in range(2)]
    assert agree(function, session, messages, is_batch=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(tf.constant(messages[:1]))
    with pytest.raises(Exception, match="cannot be reshaped"):
        session.run(None, {"serialized": example_array(messages[:1])})
