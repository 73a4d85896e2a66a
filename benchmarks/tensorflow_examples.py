"""tf.io.parse_example, converted and run in ONNX Runtime, against TensorFlow itself, timed in one run.

    python benchmarks/tensorflow_examples.py [--threads 1 2] [--json FILE] [--save]

The messages have 40 features: ten sparse ones of 20 ids, and ten each with a float, an int64 and a string. ONNX
Runtime copies the messages from an array; TensorFlow has them in a tensor. No strings are made for Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from contest import contest
from machine import this_machine
from records import Line
from runner import finish, measured_apart, parse, parser, show

_EACH = 10


def messages(count: int) -> list[bytes]:
    """Serialized messages."""
    from tensorflow.train import BytesList, Example, Feature, Features, FloatList, Int64List

    random = np.random.default_rng(0)
    made = []
    for _ in range(count):
        features = {}
        for k in range(_EACH):
            ids = random.integers(0, 10**6, 20).tolist()
            features[f"ids_{k}"] = Feature(int64_list=Int64List(value=ids))
            features[f"price_{k}"] = Feature(float_list=FloatList(value=[random.random()]))
            features[f"count_{k}"] = Feature(int64_list=Int64List(value=[int(random.integers(1000))]))
            features[f"user_{k}"] = Feature(bytes_list=BytesList(value=[b"user %d" % random.integers(10**6)]))
        made.append(Example(features=Features(feature=features)).SerializeToString())
    return made


def parsing() -> Any:
    """The parser as a tf.function."""
    import tensorflow as tf

    features: dict[str, Any] = {}
    for k in range(_EACH):
        features[f"ids_{k}"] = tf.io.VarLenFeature(tf.int64)
        features[f"price_{k}"] = tf.io.FixedLenFeature([], tf.float32)
        features[f"count_{k}"] = tf.io.FixedLenFeature([], tf.int64, 0)
        features[f"user_{k}"] = tf.io.FixedLenFeature([], tf.string, "")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "serialized")])
    def parse(serialized: Any) -> Any:
        return tf.nest.flatten(tf.io.parse_example(serialized, features), expand_composites=True)

    return parse


def measure(threads: int) -> list[Line]:
    """The lines for one number of threads."""
    import tensorflow as tf

    from onnx_sparse.converters.tensorflow import convert

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    function = parsing()
    model = convert(function)
    lines = []
    for count in (4096, 64, 1):
        given = messages(count)
        tensor = tf.constant(given)
        run = _bound(model, given, threads)
        runs = {"converted": run, "tensorflow": lambda tensor=tensor: function(tensor)}
        lines.append(contest(f"{count} messages of 40 features", runs, threads=threads))
    return lines


def _bound(model: Any, given: list[bytes], threads: int) -> Callable[[], object]:
    import onnx_sparse

    options = onnx_sparse.session_options()
    options.intra_op_num_threads = threads
    session = onnx_sparse.InferenceSession(model, options, backend="native")
    outputs = [output.name for output in session.get_outputs() if output.type != "tensor(string)"]
    array = onnx_sparse.example_array(given)
    return lambda: session.run(outputs, {"serialized": array})


def main() -> None:
    """Measure and print."""
    arguments = parse(parser(__doc__, threads=[1, 2]))
    here = this_machine()
    lines = measured_apart(arguments.threads, measure, lambda lines: show(f"{lines[0].threads} threads", here, lines))
    finish("tensorflow_examples", here, lines, arguments)


if __name__ == "__main__":
    main()
