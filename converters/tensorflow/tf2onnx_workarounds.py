"""Workarounds for faults of tf2onnx.

- It loses a node's domain when it moves the node into the body of an If or a Loop.
- It gives a Range in a body the domain com.microsoft.
- It mistakes bfloat16 for float16.
- Where TensorFlow does not know a shape, it guesses one: both values of a Select would have the same shape.
- It takes bounds of a strided slice that a mask tells to ignore, and bits of a mask that stand for no bounds.
- It compares the fed bounds of a strided slice as float32, which rounds large ones.
- It cuts zero bytes off the end of constant strings.
- It fails on an attribute of several shapes whose name it does not know.
- It uses names that numpy 2 no longer has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from onnx import TensorProto, numpy_helper

from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import numpy_dtype

#: Its Flatten has other sizes than TensorFlow's reshape if several are 0. All its random numbers are of one seed, and
#: it takes a dropout for what it is when a model is not trained.
_WRONG_REWRITERS = (
    *("rewrite_flatten", "rewrite_random_uniform", "rewrite_random_uniform_fold_const", "rewrite_random_normal"),
    "rewrite_dropout",
)

_SEVERAL_SHAPES = {"context_dense_shapes", "feature_list_dense_shapes"}

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """Work around tf2onnx's faults inside the context."""
    tf_utils, utils = require("tf2onnx.tf_utils"), require("tf2onnx.utils")
    bfloat16 = require("tensorflow").bfloat16.as_datatype_enum
    with contextlib.ExitStack() as stack:
        if not hasattr(np, "product"):
            stack.enter_context(mock.patch.object(np, "product", np.prod, create=True))
        stack.enter_context(mock.patch.object(tf_utils, "tf_to_onnx_tensor", _constant))
        stack.enter_context(mock.patch.dict(tf_utils.TF_TO_ONNX_DTYPE, {bfloat16: TensorProto.BFLOAT16}))
        numpy_names = {TensorProto.BFLOAT16: numpy_dtype(TensorProto.BFLOAT16).type}
        stack.enter_context(mock.patch.dict(utils.ONNX_TO_NUMPY_DTYPE, numpy_names))
        stack.enter_context(mock.patch.dict(utils.ONNX_DTYPE_NAMES, {TensorProto.BFLOAT16: "bfloat16"}))
        ignored = tf_utils.TF_IGNORED_NODE_ATTRS | _SEVERAL_SHAPES
        stack.enter_context(mock.patch.object(tf_utils, "TF_IGNORED_NODE_ATTRS", ignored))
        for rewriter in _WRONG_REWRITERS:
            stack.enter_context(mock.patch.object(require("tf2onnx.tfonnx"), rewriter, lambda graph, ops: ops))
        stack.enter_context(mock.patch.object(require("tf2onnx.onnx_opset.math"), "make_min_or_max_op", _extremum))
        inference = require("tf2onnx.shape_inference")
        for guess in ("infer_shape_for_op", "infer_shape_for_op_legacy"):
            stack.enter_context(mock.patch.object(inference, guess, return_value=False))
        yield


def _constant(tensor: Any, name: str = "") -> TensorProto:
    """A constant of TensorFlow as one of ONNX.

    Raises:
        ValueError: It has strings that are not UTF-8.
    """
    array = require("tf2onnx.tf_utils").get_tf_tensor_data(tensor)
    try:
        texts = [text.decode() for text in array.reshape(-1)] if array.dtype == object else []
    except UnicodeDecodeError as error:
        raise ValueError(f"the constant {name} has strings that are not UTF-8") from error
    return numpy_helper.from_array(np.array(texts, object).reshape(array.shape) if texts else array, name)


def _extremum(graph: Any, op_type: str, inputs: list[str], outputs: list[str]) -> Any:
    """The Min or Max of tensors, of whatever type."""
    return graph.make_node(op_type, inputs, outputs=outputs, dtypes=[graph.get_dtype(inputs[0])])


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


def obey_masks(graph: Any, node: Any) -> None:
    """Clear what the masks of a StridedSlice say to ignore: bounds, and bits of other masks."""
    shape = next(filter(None, (graph.get_shape(bounds) for bounds in node.input[1:])), None)
    if shape is None or shape[0] < 0:
        return  # tf2onnx refuses it
    begin, end, ellipsis, new_axis, shrink = (node.get_attr_value(name, 0) & ((1 << shape[0]) - 1) for name in _MASKS)
    new_axis &= ~ellipsis
    shrink &= ~(ellipsis | new_axis)
    begin, end = ((mask | ellipsis | new_axis) & ~shrink for mask in (begin, end))
    for name, mask in zip(_MASKS, (begin, end, ellipsis, new_axis, shrink), strict=True):
        node.set_attr(name, mask)
    for position, mask, value in ((1, begin, 0), (2, end, 0), (3, ellipsis | new_axis, 1)):
        ignored = np.array([bool(mask >> bit & 1) for bit in range(shape[0])])
        if ignored.any():
            _replace_where(graph, node, position, ignored, value)


def _replace_where(graph: Any, node: Any, position: int, replaced: Any, value: int) -> None:
    """Replace elements of a node's input of one dimension."""
    make_name = require("tf2onnx.utils").make_name
    old, dtype = node.inputs[position], graph.get_dtype(node.input[position])
    filler = np.array(value, require("tf2onnx.utils").map_onnx_to_numpy_type(dtype))
    if old.is_const():
        values = np.where(replaced, filler, old.get_tensor_value(as_list=False))
        new = graph.make_const(make_name(f"{node.name}/bounds"), values)
    else:
        chosen = [
            graph.make_const(make_name(f"{node.name}/ignored"), replaced).output[0],
            graph.make_const(make_name(f"{node.name}/filler"), filler).output[0],
            node.input[position],
        ]
        new = graph.make_node("Where", chosen, dtypes=[dtype], shapes=[[len(replaced)]])
    graph.replace_input(node, node.input[position], new.output[0], position)
