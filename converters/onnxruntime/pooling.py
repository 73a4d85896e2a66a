"""Pooling of inputs that are shorter than a window, and of NaN."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.kernels.forms import is_refused
from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.nan_branches import may_have_nan, replace_if_nan
from onnx_sparse.converters.onnxruntime.node_forms import form_of
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.windows import least_sizes
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attributes


class PoolOfNaN(Guard):
    """The largest of a window with a NaN is a number; torch gives NaN.

    Where there is a NaN, windows of marks are pooled, too.
    """

    name = "pools of NaN"
    anchors = ("MaxPool", "GlobalMaxPool")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "MaxPool",
        np.array([[[1, np.nan, 3, 4]]], np.float32),
        expected=np.array([[[np.nan, 4]]], np.float32),
        kernel_shape=[2],
        strides=[2],
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats that may be NaN, where there is a kernel."""
        form = form_of(graph, node)
        return may_have_nan(graph, node.input[0]) and (form is None or not is_refused(form))

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Choose by marks where there is a NaN."""
        data = graph.tensor(node.input[0])
        dtypes = [data.dtype, TensorProto.INT64][: len(node.output)]

        def by_marks(body: Emitter) -> list[Tensor]:
            marks = body.cast(body.op("IsNaN", data), data.dtype)
            pooled, pooled_marks = (body.node(node.op_type, [x], dtypes, **attributes(node)) for x in (data, marks))
            has_nan = body.op("Greater", pooled_marks[0], body.like(0, data))
            values = body.op("Where", has_nan, body.like(np.nan, data), pooled[0])
            places = zip(pooled_marks[1:], pooled[1:], strict=True)
            return [values, *(body.op("Where", has_nan, one, other) for one, other in places)]

        replace_if_nan(graph, node, dtypes, by_marks)


class ShortInput(Guard):
    """Pooling of an input that is shorter than its window, by less than a stride, has one result instead of none.

    The results are cut to their number.
    """

    name = "input shorter than a window"
    anchors = ("AveragePool", "LpPool", "MaxPool")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "MaxPool",
        np.ones((1, 1, 2), np.float32),
        expected=np.ones((1, 1, 0), np.float32),
        kernel_shape=[3],
        strides=[2],
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """An axis of no known size, with a stride of more than 1."""
        given = attributes(node)
        if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or given.get("ceil_mode", 0):
            return False
        shape = graph.shape(node.input[0])
        axes = range(len(given["kernel_shape"]))
        return any(
            (size := None if shape is None else shape[2 + axis]) is None or size < needed
            for axis, needed, stride in zip(axes, _needed(node), _strides(node), strict=True)
            if needed > 1 and stride > 1
        )

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Pool, and slice all spatial axes."""
        emit, data = graph.emitter(node), graph.tensor(node.input[0])
        dtypes = [graph.dtype(name) for name in node.output]
        pooled = emit.node(node.op_type, [data], dtypes, **attributes(node))
        strides, axes = _strides(node), [2 + axis for axis in range(len(_strides(node)))]
        whole = emit.op("Shape", data, shape=(2 + len(axes),))
        sizes = emit.op("Slice", whole, emit.constant([2]), emit.constant([2 + len(axes)]), shape=(len(axes),))
        beyond = emit.constant([stride - needed for needed, stride in zip(_needed(node), strides, strict=True)])
        windows = emit.op("Add", sizes, beyond, shape=sizes.shape)
        counts = emit.op("Div", windows, emit.constant(strides), shape=sizes.shape)
        ends = emit.op("Max", counts, emit.constant([0] * len(axes)), shape=sizes.shape)
        begins = emit.constant([0] * len(axes))
        for k, result in enumerate(pooled):
            if node.output[k]:
                graph.bypass(node, emit.op("Slice", result, begins, ends, emit.constant(axes)).name, k)


def _strides(node: NodeProto) -> list[int]:
    given = attributes(node)
    return list(given.get("strides") or [1] * len(given["kernel_shape"]))


def _needed(node: NodeProto) -> list[int]:
    """How long each axis must be for a result."""
    given = attributes(node)
    return least_sizes(given, given["kernel_shape"])
