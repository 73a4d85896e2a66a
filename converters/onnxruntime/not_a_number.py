"""Reductions of floats among which there is no number (NaN), which ONNX Runtime loses or keeps by their place."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import numpy_dtype

_NODE = helper.make_node
_FLOATS = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)


class ExtremeOfNaN(Guard):
    """ReduceMax and ReduceMin of a slice with a NaN are a number or NaN, depending on its place. TensorFlow and torch
    give NaN.

    The sum of all elements is NaN if one is, and costs little. Only then each slice is searched for NaN.
    """

    name = "extremes of NaN"
    anchors = ("ReduceMax", "ReduceMin")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "ReduceMax",
        np.array([[1, np.nan, 2, 3, 4, 5, 6, 7]], np.float32),
        axes=[1],
        keepdims=0,
        expected=np.array([np.nan], np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats."""
        return graph.dtype(node.input[0]) in _FLOATS and graph.opset >= 11

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Choose the exact way where there is a NaN."""
        emit = graph.emitter(node)
        inputs = [graph.tensor(name) for name in node.input]
        data = inputs[0]
        (extreme,) = emit.node(node.op_type, inputs, [data.dtype], **attributes(node))
        is_nan = emit.op("IsNaN", emit.op("ReduceSum", data, keepdims=0, shape=()), shape=())
        branches = {
            "then_branch": self._exact(graph, node, extreme.name),
            "else_branch": self._same(graph, node, extreme.name),
        }
        (result,) = emit.node("If", [is_nan], [data.dtype], **branches)
        graph.replace(node, "Identity", [result])

    @staticmethod
    def _same(graph: Graph, node: NodeProto, extreme: str) -> GraphProto:
        output = graph.fresh(node, "number")
        dtype = graph.dtype(extreme)
        result = helper.make_tensor_value_info(output, dtype, None)
        return helper.make_graph([_NODE("Identity", [extreme], [output], name=output)], output, [], [result])

    @staticmethod
    def _exact(graph: Graph, node: NodeProto, extreme: str) -> GraphProto:
        """The extreme, or NaN where a slice has one."""
        dtype = graph.dtype(extreme)
        marks, numbers, largest, has_nan, nan, output = (
            graph.fresh(node, what) for what in ("is_nan", "marks", "mark", "has_nan", "nan", "or_nan")
        )
        nodes = [
            _NODE("IsNaN", [node.input[0]], [marks], name=marks),
            _NODE("Cast", [marks], [numbers], name=numbers, to=TensorProto.FLOAT),
            _NODE("ReduceMax", [numbers, *node.input[1:]], [largest], name=largest, **attributes(node)),
            _NODE("Cast", [largest], [has_nan], name=has_nan, to=TensorProto.BOOL),
            _NODE("Where", [has_nan, nan, extreme], [output], name=output),
        ]
        constant = numpy_helper.from_array(np.array(np.nan, numpy_dtype(dtype)), nan)
        result = helper.make_tensor_value_info(output, dtype, None)
        return helper.make_graph(nodes, output, [], [result], [constant])


class PlaceOfNaN(Guard):
    """ArgMax and ArgMin of a slice with a NaN give the place of a number; torch gives the place of the first NaN.

    The result is the place of the first NaN.
    """

    name = "places of NaN"
    anchors = ("ArgMax", "ArgMin")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("ArgMax", np.array([[1, np.nan, 2]], np.float32), axis=1, keepdims=0, expected=np.array([1]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats."""
        return graph.dtype(node.input[0]) in _FLOATS and not attribute(node, "select_last_index", 0)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Where there is a NaN, take the place of the first."""
        emit = graph.emitter(node)
        data = graph.tensor(node.input[0])
        marks = emit.cast(emit.op("IsNaN", data, shape=data.shape), TensorProto.INT32)
        options = attributes(node)
        axis, keep = options.get("axis", 0), options.get("keepdims", 1)
        has_nan = emit.cast(emit.op("ReduceMax", marks, emit.constant([axis]), keepdims=keep), TensorProto.BOOL)
        (place,) = emit.node("ArgMax", [marks], [TensorProto.INT64], axis=axis, keepdims=keep)
        (number,) = emit.node(node.op_type, [data], [TensorProto.INT64], **options)
        graph.replace(node, "Where", [has_nan, place, number])


class SignOfNaN(Guard):
    """Sign of a NaN of float16 is 0; Sign of a NaN of other floats is NaN.

    Sign computes in float.
    """

    name = "sign of NaN"
    anchors = ("Sign",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("Sign", np.array([np.nan], np.float16), expected=np.array([np.nan], np.float16))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Half floats."""
        return graph.dtype(node.input[0]) == TensorProto.FLOAT16

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Take the sign of a float."""
        emit = graph.emitter(node)
        sign = emit.op("Sign", emit.cast(graph.tensor(node.input[0]), TensorProto.FLOAT))
        graph.replace(node, "Cast", [sign], to=TensorProto.FLOAT16)
