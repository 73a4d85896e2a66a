"""Workarounds for faults of tf2onnx.

- It loses a node's domain when it moves the node into the body of an If or a Loop.
- It gives a Range in a body the domain com.microsoft.
- It mistakes bfloat16 for float16.
- Where TensorFlow does not know a shape, it guesses one: both values of a Select would have the same shape.
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

#: Its Flatten has other sizes than TensorFlow's reshape if several are 0. All its random numbers are of one seed, and
#: it takes a dropout for what it is when a model is not trained.
_WRONG_REWRITERS = (
    *("rewrite_flatten", "rewrite_random_uniform", "rewrite_random_uniform_fold_const", "rewrite_random_normal"),
    "rewrite_dropout",
)


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
        for rewriter in _WRONG_REWRITERS:
            stack.enter_context(mock.patch.object(require("tf2onnx.tfonnx"), rewriter, lambda graph, ops: ops))
        inference = require("tf2onnx.shape_inference")
        for guess in ("infer_shape_for_op", "infer_shape_for_op_legacy"):
            stack.enter_context(mock.patch.object(inference, guess, return_value=False))
        yield


def repair_bodies(graph: Any) -> None:
    """Repair what tf2onnx breaks when it moves a graph into a body."""
    for node in graph.get_nodes():
        if node.domain == "" and node.type in OPS:
            node.domain = DOMAIN
        elif node.type == "LabelEncoder":
            node.domain = "ai.onnx.ml"
        elif node.type == "Range":
            node.domain = ""
        for body in (node.get_body_graphs() or {}).values():
            repair_bodies(body)
