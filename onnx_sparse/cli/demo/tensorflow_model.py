"""The demo's model in TensorFlow. `python -m onnx_sparse.cli.demo.tensorflow_model` records it and its answers."""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli.demo.baskets import ANSWERS_FILE, INPUTS, ITEMS, MODEL_FILE, make_feeds

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.cli.demo.baskets import Arrays


def save_model(folder: Path) -> Arrays:
    """Build the model, save it as a SavedModel and run it.

    Returns:
        TensorFlow's answers.
    """
    from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require

    tf: Any = require("tensorflow")

    class Baskets(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
        """Adds up the price and the energy of each shopper's basket; an empty one gets a glass of water."""

        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable([facts for _name, *facts in ITEMS], dtype=tf.float32)

        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[
                tf.TensorSpec([None, 2], tf.int64, "indices"),
                tf.TensorSpec([None], tf.int64, "items"),
                tf.TensorSpec([2], tf.int64, "shape"),
            ]
        )
        def add_up(self, indices: Any, items: Any, shape: Any) -> Any:
            baskets = tf.SparseTensor(indices, items, shape)
            filled, was_empty = tf.sparse.fill_empty_rows(baskets, default_value=0)
            totals = tf.sparse.segment_sum(self.table, filled.values, filled.indices[:, 0])
            return {"totals": totals, "was_empty": was_empty}

    with quietly():
        module = Baskets()
        tf.saved_model.save(module, str(folder), signatures=module.add_up)
        answers = module.add_up(**{name: tf.constant(array) for name, array in make_feeds().items()})
    return {name: answer.numpy() for name, answer in sorted(answers.items())}


def record(folder: Path) -> None:
    """Write what `demo` shows where TensorFlow is not installed."""
    from onnx import printer

    from onnx_sparse.converters import tensorflow

    with tempfile.TemporaryDirectory() as saved_model:
        answers = save_model(Path(saved_model))
        model: ModelProto = tensorflow.convert(saved_model)
    model.graph.name = "baskets"  # not the random name of the folder that it was converted from
    (folder / MODEL_FILE).write_text(printer.to_text(model) + "\n", encoding="utf-8")
    recorded = {
        "tensorflow": version("tensorflow"),
        "inputs": INPUTS,
        "answers": {name: {"dtype": str(a.dtype), "values": a.tolist()} for name, a in answers.items()},
    }
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items())
    (folder / ANSWERS_FILE).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(__file__).parent)
