"""Workarounds for faults of tf2onnx.

- It loses a node's domain when it moves the node into the body of an If or a Loop.
- It counts a loop in int64 but leaves the int32 with which TensorFlow's condition compares the counter.
- It mistakes bfloat16 for float16.
- Its optimizer confuses two meanings of a 0 in the shape of a Reshape.
- It uses names that numpy 2 no longer has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import numpy_dtype

_COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """Work around tf2onnx's faults inside the context."""
    tf_utils, utils = require("tf2onnx.tf_utils"), require("tf2onnx.utils")
    bfloat16 = require("tensorflow").bfloat16.as_datatype_enum
    with contextlib.ExitStack() as stack:
        if not hasattr(np, "product"):
            stack.enter_context(mock.patch.object(np, "product", np.prod, create=True))
        stack.enter_context(mock.patch.dict(tf_utils.TF_TO_ONNX_DTYPE, {bfloat16: TensorProto.BFLOAT16}))
        numpy_names = {TensorProto.BFLOAT16: numpy_dtype(TensorProto.BFLOAT16).type}
        stack.enter_context(mock.patch.dict(utils.ONNX_TO_NUMPY_DTYPE, numpy_names))
        stack.enter_context(mock.patch.dict(utils.ONNX_DTYPE_NAMES, {TensorProto.BFLOAT16: "bfloat16"}))
        stack.enter_context(_zeros_kept())
        yield


def _zeros_kept() -> Any:
    """Keep tf2onnx's optimizer from confusing two meanings of a 0 in the shape of a Reshape: size 0, or a copied size.

    It writes the latter, with a -1 beside it, which ONNX Runtime cannot infer for an empty tensor.
    """
    reshapes = require("tf2onnx.optimizer.reshape_optimizer").ReshapeOptimizer
    simplify = reshapes._optimize_reshape

    def cautious(self: Any, node: Any, graph: Any) -> Any:
        def around() -> list[str]:
            return [node.input[0], *(user.name for user in graph.find_output_consumers(node.output[0]))]

        computed, before = node.input[1], around()
        changed = simplify(self, node, graph)
        if node.get_attr("allowzero") is None or not changed or not node.inputs[1].is_const():
            return changed
        sizes = node.inputs[1].get_tensor_value()
        if 0 in sizes and -1 in sizes and around() == before:
            graph.replace_input(node, node.input[1], computed, 1)
            return False
        del node.attr["allowzero"]
        return changed

    return mock.patch.object(reshapes, "_optimize_reshape", cautious)


def repair_bodies(graph: Any) -> None:
    """Repair what tf2onnx breaks when it moves a graph into a body."""
    for node in graph.get_nodes():
        if node.domain == "" and node.type in OPS:
            node.domain = DOMAIN
        elif node.type == "LabelEncoder":
            node.domain = "ai.onnx.ml"
        for body in (node.get_body_graphs() or {}).values():
            if node.type == "Loop":
                _compare_as_int64(graph, node.input[0])
                _compare_as_int64(body, body.input_names[0])
            repair_bodies(body)


def _compare_as_int64(graph: Any, number: str) -> None:
    """Compare a loop's counter, or its number of rounds, as int64, whatever its type in TensorFlow."""
    for node in [node for node in graph.get_nodes() if node.type in _COMPARISONS]:
        if number in [_origin(graph, name) for name in node.input]:
            for name in dict.fromkeys(node.input):
                graph.insert_new_node_on_input(node, "Cast", name, to=TensorProto.INT64)


def _origin(graph: Any, name: str) -> str:
    """The tensor that a tensor is a copy of."""
    maker = graph.get_node_by_output(name, search_in_parent_graphs=False)
    return _origin(graph, maker.input[0]) if maker is not None and maker.type == "Identity" else name
