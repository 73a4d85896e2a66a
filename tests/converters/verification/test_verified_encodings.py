"""Verification draws legal lines, base64, compressed data, numbers and tensors, and finds a decoder that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import numpy as np  # noqa: E402
from onnx import ModelProto, NodeProto, numpy_helper  # noqa: E402

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.converters.verification.comparison import Verdict  # noqa: E402

REQUIRED = tf.constant([], tf.int64)


def rows(numbers: Any) -> Any:
    return tf.reshape(numbers, [-1, 4])


BODIES: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "lines": (lambda b: tuple(tf.io.decode_csv(b, [[0.5], ["none"], REQUIRED, [7]])), (None,)),
    "some columns": (
        lambda b: tuple(tf.io.decode_csv(b, [[1.5], ["-"]], ";", na_value="NA", select_cols=[1, 3])),
        (None,),
    ),
    "lines without quotes": (lambda b: tuple(tf.io.decode_csv(b, [[""], [0]], "\t", use_quote_delim=False)), (None,)),
    "base64": (lambda b: tf.strings.length(tf.io.decode_base64(b)), (None, None)),
    "lines in base64": (lambda b: tuple(tf.io.decode_csv(tf.io.decode_base64(b), [[0], ["x"]])), (None,)),
    "floats in base64": (lambda b: rows(tf.io.decode_raw(tf.io.decode_base64(b), tf.float32)) * 2, (None,)),
    "pixels": (lambda b: tf.reshape(tf.io.decode_raw(b, tf.uint8), [-1, 7, 5]), (None,)),
    "doubles from the big end": (lambda b: tf.io.decode_raw(b, tf.float64, little_endian=False) + 1, (None,)),
    "padded numbers": (lambda b: tf.io.decode_raw(b, tf.int16, fixed_length=12), (None,)),
    "a tensor": (lambda b: rows(tf.io.parse_tensor(b, tf.float32)) + 1, ()),
    "a tensor of strings": (lambda b: tf.strings.length(tf.io.parse_tensor(b, tf.string)), ()),
    "numbers that are compressed": (
        lambda b: rows(tf.io.decode_raw(tf.io.decode_compressed(b, "GZIP"), tf.int32)),
        (None,),
    ),
    "text that is compressed": (lambda b: tf.strings.length(tf.io.decode_compressed(b, "ZLIB")), (None,)),
}


def converted(name: str) -> tuple[Any, ModelProto]:
    body, shape = BODIES[name]
    function = tf.function(body, input_signature=[tf.TensorSpec(shape, tf.string, "body")])
    return function, convert(function)


@pytest.mark.parametrize("name", BODIES)
def test_right_models_are_verified(name: str) -> None:
    function, model = converted(name)
    assert {output.verdict for output in verify(function, model)} == {Verdict.EQUAL}


def another_default(node: NodeProto, model: ModelProto) -> None:
    tensor = next(t for t in model.graph.initializer if t.name == node.input[3])
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(1), tensor.name))


def another_order(node: NodeProto, model: ModelProto) -> None:
    attribute = node.attribute[0]
    attribute.s = b"LITTLE" if attribute.s == b"BIG" else b"BIG"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("lines", another_default),
        ("some columns", another_default),
        ("floats in base64", another_order),
        ("doubles from the big end", another_order),
        ("padded numbers", another_order),
    ],
)
def test_a_wrong_decoder_is_found(name: str, fault: Callable[[NodeProto, ModelProto], None]) -> None:
    function, model = converted(name)
    node = next(node for node in model.graph.node if node.op_type in ("DecodeCSV", "DecodeRaw"))
    fault(node, model)
    assert Verdict.EQUAL not in {verify(function, model)[0].verdict}


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_result_that_is_one_string_is_verified(is_saved: bool, tmp_path: Path) -> None:
    """TensorFlow returns bytes for it, where it returns arrays for all others."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "scores"), tf.TensorSpec([None], tf.string)])
    def written(scores: Any, words: Any) -> dict[str, Any]:
        return {"text": tf.strings.format("{} of {}", [scores, words]), "sum": tf.reduce_sum(scores)}

    source: Any = written
    if is_saved:
        module = tf.Module()
        module.written = written
        tf.saved_model.save(module, str(tmp_path), signatures=written)
        source = tmp_path
    assert {output.verdict for output in verify(source, convert(source))} == {Verdict.EQUAL}
