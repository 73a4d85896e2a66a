"""Planted faults: one node of a right model is changed, and verification must find it.

`python tests/planted_faults.py` converts models of TensorFlow (random specifications of messages, lookups by rows and
dense layers), verifies each, plants faults (an axis, a constant, a comparison, an operator, an id that is off by one)
and verifies the wrong models. A fault that changes no answer on 40 other batches is no fault. It prints the faults that
were not found and the right models that were not called equal, and counts both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from random_parsing import Specification

_EXCHANGED = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Greater": "GreaterOrEqual",
    "GreaterOrEqual": "Greater",
    "Less": "LessOrEqual",
    "LessOrEqual": "Less",
    "Equal": "Greater",
    "Max": "Min",
    "Min": "Max",
    "ReduceMax": "ReduceMin",
    "ReduceMean": "ReduceSum",
    "And": "Or",
    "Relu": "Identity",
    "EmbeddingSegmentsMean": "EmbeddingSegmentsSum",
    "EmbeddingSegmentsSum": "EmbeddingSegmentsMean",
    "SegmentMax": "SegmentMin",
}

#: The seeds of the batches that tell whether a fault changes an answer.
_OTHER_SEEDS = range(1000, 1040)


def faults(model: ModelProto, rng: np.random.Generator, count: int) -> Iterator[tuple[str, ModelProto]]:
    """Models with one fault each, and what it is."""
    sites = [
        (kind, k)
        for k, node in enumerate(model.graph.node)
        for kind in ("operator", "axis", "constant", "id")
        if _applies(model, node, kind)
    ]
    for place in rng.permutation(len(sites))[:count]:
        kind, k = sites[place]
        wrong = ModelProto()
        wrong.CopyFrom(model)
        node = wrong.graph.node[k]
        what = f"{kind} of {node.op_type} {node.name}"
        _plant(wrong, node, kind)
        yield what, wrong


def _applies(model: ModelProto, node: NodeProto, kind: str) -> bool:
    if kind == "operator":
        return node.op_type in _EXCHANGED
    if kind == "axis":
        return node.op_type in ("Concat", "Softmax", "CumSum") and any(a.name == "axis" for a in node.attribute)
    if kind == "id":
        return node.op_type == "Gather"
    return _constant(model, node) is not None


def _constant(model: ModelProto, node: NodeProto) -> int | None:
    """The place of a scalar constant of a node that computes or compares."""
    scalars = {t.name for t in model.graph.initializer if np.prod(t.dims) == 1 and t.data_type in (1, 6, 7, 11)}
    if node.op_type not in ("Add", "Sub", "Mul", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Where"):
        return None
    return next((k for k, name in enumerate(node.input) if name in scalars), None)


def _plant(model: ModelProto, node: NodeProto, kind: str) -> None:
    if kind == "operator":
        node.op_type = _EXCHANGED[node.op_type]
    elif kind == "axis":
        axis = next(a for a in node.attribute if a.name == "axis")
        axis.i = 0 if axis.i else 1
    elif kind == "constant":
        place = _constant(model, node)
        assert place is not None
        tensor = next(t for t in model.graph.initializer if t.name == node.input[place])
        value = numpy_helper.to_array(tensor)
        model.graph.initializer.append(numpy_helper.from_array((value + 1).astype(value.dtype), "planted"))
        node.input[place] = "planted"
    else:
        indices, name = node.input[1], "planted"
        position = next(k for k, other in enumerate(model.graph.node) if other.output == node.output)
        dtype = _integer_type(model, indices)
        model.graph.initializer.append(numpy_helper.from_array(np.array(1, dtype), "planted_one"))
        node.input[1] = name
        model.graph.node.insert(position, helper.make_node("Sub", [indices, "planted_one"], [name]))


def _integer_type(model: ModelProto, name: str) -> Any:
    known = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.value_info, *model.graph.input)}
    known |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return np.int32 if known.get(name) == 6 else np.int64


def _sources(count: int) -> Iterator[tuple[str, Any]]:
    """Models of TensorFlow that can be saved."""
    for seed in range(count):
        yield f"messages {seed}", Specification(seed).save
    import tensorflow as tf

    rng = np.random.default_rng(0)
    table, weight = rng.standard_normal((40, 4)).astype("f4"), rng.standard_normal((4, 3)).astype("f4")

    def bags(ids: Any) -> Any:
        return tf.nn.relu(tf.reduce_mean(tf.gather(table, ids), 1) @ weight)

    def masked(ids: Any) -> Any:
        kept = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., None]
        return tf.reduce_sum(tf.gather(table, ids) * kept, 1) / tf.maximum(tf.reduce_sum(kept, 1), 1.0)

    def buckets(x: Any) -> Any:
        return tf.where(x >= 1.5, x * 2.0, tf.where(x < -0.5, x - 1.0, tf.nn.softmax(x, axis=-1)))

    shapes = {bags: ([None, None], tf.int64), masked: ([None, 6], tf.int64), buckets: ([None, 5], tf.float32)}
    for function, (shape, dtype) in shapes.items():
        module = tf.Module()
        module.f = tf.function(function, input_signature=[tf.TensorSpec(shape, dtype, name="x")])
        yield function.__name__, lambda path, module=module: tf.saved_model.save(module, str(path))


def _changes_answers(path: Path, right: ModelProto, wrong: ModelProto) -> bool:
    from onnx_sparse.converters.tensorflow import verify

    return any(
        not all(record.ok or record.verdict.value == "not compared" for record in records)
        for records in (verify(path, wrong, described_by=right, seed=seed, batch_count=5) for seed in _OTHER_SEEDS[::5])
    )


def main() -> None:
    """Plant faults and count those that are found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="how many specifications of messages")
    parser.add_argument("--faults", type=int, default=8, help="how many faults for each model")
    arguments = parser.parse_args()
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.tensorflow import convert, load, verify

    totals: Counter[str] = Counter()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, save in _sources(arguments.count):
            path = Path(folder) / name.replace(" ", "_")
            try:
                save(path)
                right = convert(path)
            except (ConversionError, TypeError, ValueError):
                continue
            loaded = load(path)
            alarm = [record for record in verify(loaded, right) if not record.ok]
            totals["right models"] += 1
            if alarm:
                totals["false alarms"] += 1
                sys.stdout.write(f"{name}: {alarm[0].verdict}: {alarm[0].note[:200]}\n")
                continue
            for what, wrong in faults(right, rng, arguments.faults):
                if any(not record.ok for record in verify(loaded, wrong, described_by=right)):
                    totals["found"] += 1
                elif _changes_answers(loaded, right, wrong):
                    totals["missed"] += 1
                    sys.stdout.write(f"{name}: missed: {what}\n")
                else:
                    totals["no fault"] += 1
            sys.stdout.flush()
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in totals.items()) + "\n")


if __name__ == "__main__":
    main()
