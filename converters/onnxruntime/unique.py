"""Unique of floats among which there is no number (NaN), to which ONNX Runtime's order does not apply."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.moved_axes import to_front
from onnx_sparse.converters.onnxruntime.nan_branches import may_have_nan, replace_if_nan
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute

_NAN = np.nan
_INT64 = TensorProto.INT64


class _NaNAmongValues(Guard):
    """A Unique of floats.

    Where there is a NaN, each element is compared as a pair: whether, or which, NaN it is, and a number. Pairs have an
    order, in which NaN is last.
    """

    anchors = ("Unique",)
    is_one: ClassVar[bool]

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats that may be NaN."""
        return may_have_nan(graph, node.input[0])

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Choose pairs where there is a NaN."""
        data = graph.tensor(node.input[0])
        replace_if_nan(graph, node, [data.dtype, _INT64, _INT64, _INT64], lambda body: self._by_pairs(body, node, data))

    def _by_pairs(self, body: Emitter, node: NodeProto, data: Tensor) -> tuple[Tensor, ...]:
        """The results for pairs, in rows of one element or of a slice; the values are gathered by their places."""
        axis = attribute(node, "axis")
        if axis is None:
            values = body.op("Reshape", data, body.constant([-1]))
            rows = body.op("Reshape", data, body.constant([-1, 1]))
        else:
            values, turned = data, to_front(body, data, axis)
            count = body.op("Gather", body.shape_of(data), body.constant([axis]))
            rows = body.op("Reshape", turned, body.op("Concat", count, body.constant([-1]), axis=0))
        number = body.op("Squeeze", body.op("Slice", body.shape_of(rows), body.constant([0]), body.constant([1])))
        # Doubles hold every place.
        one, zero = body.constant(1, TensorProto.DOUBLE), body.constant(0, TensorProto.DOUBLE)
        which = one
        if not self.is_one:
            places = body.op("Range", body.constant(1), body.op("Add", number, body.constant(1)), body.constant(1))
            which = body.op("Reshape", body.cast(places, TensorProto.DOUBLE), body.constant([-1, 1]))
        wide = body.cast(rows, TensorProto.DOUBLE)
        is_nan = body.op("IsNaN", wide)
        last = body.constant([2])
        pair = [
            body.op("Unsqueeze", part, last)
            for part in (body.op("Where", is_nan, which, zero), body.op("Where", is_nan, zero, wide))
        ]
        found = body.op("Concat", *pair, axis=2)
        dtypes = [TensorProto.DOUBLE, _INT64, _INT64, _INT64]
        _, first, inverse, counts = body.node("Unique", [found], dtypes, axis=0, sorted=attribute(node, "sorted", 1))
        return body.op("Gather", values, first, axis=axis or 0), first, inverse, counts


class OneNaN(_NaNAmongValues):
    """Unique takes a NaN for equal to any number, so numbers are lost: of [NaN, 1, NaN, 0], NaN remains.

    All NaN are one value, the last in order, as in numpy and onnx's evaluator. Elements are compared as pairs of a mark
    of NaN and a number, if the sum of all is NaN.
    """

    name = "unique values and NaN"
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("Unique", np.array([_NAN, 1, _NAN, 0], np.float32), expected=np.array([0, 1, _NAN], np.float32))
    is_one = True

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats, not slices of them."""
        return attribute(node, "axis") is None and super().may_fail(graph, node)


class EachNaN(_NaNAmongValues):
    """Unique takes a NaN for equal to any number, so slices are lost. To torch and OpenVINO each NaN is a value of its
    own, along an axis also to numpy.

    Each NaN differs from all others, and is last in order. Elements are compared as pairs of the place of a NaN and a
    number, if the sum of all is NaN.
    """

    name = "each NaN is unique"
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "Unique",
        np.array([[1, _NAN], [1, 2], [1, 2], [1, _NAN], [0, 5]], np.float32),
        axis=0,
        expected=np.array([[0, 5], [1, 2], [1, _NAN], [1, _NAN]], np.float32),
    )
    is_one = False
