"""The recommender of several benchmarks: means of looked-up rows of three tables, and two layers over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

import onnx_sparse

Array = np.ndarray[Any, Any]

NAMES = ("items", "pages", "words")
DENSE, HIDDEN = 8, 64


def recommender(
    inputs: str, lookups: str, vocabulary: int, width: int, draw: Callable[[tuple[int, int]], Array]
) -> ModelProto:
    """A model with an input `dense` [rows, DENSE] and an output `score` [rows, 1].

    Args:
        inputs: The inputs of the lookups, in ONNX's text form.
        lookups: The nodes that make `items_mean` and so on, [rows, width], of the table `items_table` and so on.
        vocabulary: The rows of each table.
        width: Their columns.
        draw: Draws the float32 numbers of a table or layer of a shape.
    """
    model = onnx.parser.parse_model(f"""
    <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g ({inputs}, float[rows,{DENSE}] dense) => (float[rows,1] score) <int64 zero = {{0}}>
    {{
      {lookups}
      joined = Concat <axis = 1> ({", ".join(f"{name}_mean" for name in NAMES)}, dense)
      hidden = MatMul (joined, first)
      positive = Relu (hidden)
      score = MatMul (positive, second)
    }}""")
    shapes = {f"{name}_table": (vocabulary, width) for name in NAMES}
    shapes |= {"first": (len(NAMES) * width + DENSE, HIDDEN), "second": (HIDDEN, 1)}
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(draw(shape), name))
    return onnx_sparse.canonicalize(model)
