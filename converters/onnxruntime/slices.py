"""Slices with negative steps, whose bounds ONNX Runtime reads otherwise than numpy and TensorFlow."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: Beyond every dimension, and to ONNX Runtime a number like others.
_BEYOND = 2**62
#: What ONNX Runtime takes for the end of a dimension, in each direction.
_TAKEN_FOR_ENDS = (2**31 - 1, 2**63 - 1)

_NUMBERS = np.arange(4, dtype=np.float32)
_NONE = np.zeros(0, np.float32)


class _Backward(Guard):
    """A Slice with a step that may be negative."""

    anchors = ("Slice",)

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A negative step with bounds that may be read otherwise."""
        if len(node.input) < 5 or not node.input[4]:
            return False
        steps = graph.integers(node.input[4])
        starts, ends = (graph.integers(name) for name in node.input[1:3])
        if steps is None:
            return self._may_differ(graph, node, starts, ends, None)
        return any(
            step < 0 and self._may_differ(graph, node, starts and starts[k : k + 1], ends and ends[k : k + 1], k)
            for k, step in enumerate(steps)
        )

    def _may_differ(
        self, graph: Graph, node: NodeProto, starts: list[int] | None, ends: list[int] | None, entry: int | None
    ) -> bool:
        """Whether bounds may be read otherwise; of one entry, or of all."""
        raise NotImplementedError

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Let the end be a number beyond every dimension where the bounds are read otherwise."""
        emit = graph.emitter(node)
        for k, name in enumerate(node.input[1:], 1):
            if name and graph.dtype(name) != TensorProto.INT64:
                graph.set_input(node, k, emit.cast(graph.tensor(name), TensorProto.INT64).name)
        ends = graph.tensor(node.input[2])
        beyond = emit.constant([_BEYOND])
        graph.set_input(
            node, 2, emit.op("Where", self._differs(graph, node, emit), beyond, ends, shape=ends.shape).name
        )

    def _differs(self, graph: Graph, node: NodeProto, emit: Emitter) -> Tensor:
        """Where bounds are read otherwise."""
        raise NotImplementedError


class BackwardSliceToTheLargest(_Backward):
    """A Slice with a negative step takes an end of 2^31 - 1 or 2^63 - 1 for "to the end": from 1, it takes the elements
    1 and 0 instead of none.

    A number that is not taken for the end replaces it.
    """

    name = "backward slice to the largest integer"
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "Slice", _NUMBERS, expected=_NONE, constants={"from": [1], "to": [2**31 - 1], "axes": [0], "steps": [-1]}
    )

    def _may_differ(
        self, graph: Graph, node: NodeProto, starts: list[int] | None, ends: list[int] | None, entry: int | None
    ) -> bool:
        return ends is None or not set(ends).isdisjoint(_TAKEN_FOR_ENDS)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Write constant ends as such."""
        ends = graph.integers(node.input[2])
        if ends is None or graph.dtype(node.input[2]) != TensorProto.INT64:
            super().rewrite(graph, node)
        else:
            written = [_BEYOND if end in _TAKEN_FOR_ENDS else end for end in ends]
            graph.set_input(node, 2, graph.emitter(node).constant(written).name)

    def _differs(self, graph: Graph, node: NodeProto, emit: Emitter) -> Tensor:
        ends = graph.tensor(node.input[2])
        marks = [emit.op("Equal", ends, emit.constant([number]), shape=ends.shape) for number in _TAKEN_FOR_ENDS]
        return emit.op("Or", *marks, shape=ends.shape)


class BackwardSliceFromBefore(_Backward):
    """A Slice with a negative step that begins before the first element takes the first element, as ONNX specifies and
    OpenVINO does; Python and TensorFlow take none: `x[-5::-1]` of 4.

    The slice ends where it begins.
    """

    name = "backward slice from before the first"
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "Slice", _NUMBERS, expected=_NONE, constants={"from": [-5], "to": [-(2**63)], "axes": [0], "steps": [-1]}
    )

    def _may_differ(
        self, graph: Graph, node: NodeProto, starts: list[int] | None, ends: list[int] | None, entry: int | None
    ) -> bool:
        if starts is None:
            return True
        size = None if entry is None else self._size(graph, node, entry)
        # Of nothing, a slice from the last element has none in either reading.
        return min(starts, default=0) < (-1 if size is None else -max(size, 1))

    @staticmethod
    def _size(graph: Graph, node: NodeProto, entry: int) -> int | None:
        """The size that an entry is for, if it is known."""
        shape = graph.shape(node.input[0])
        axes = graph.integers(node.input[3]) if node.input[3] else range(entry + 1)
        if shape is None or axes is None or not -len(shape) <= axes[entry] < len(shape):
            return None
        return shape[axes[entry]]

    def _differs(self, graph: Graph, node: NodeProto, emit: Emitter) -> Tensor:
        starts, steps = graph.tensor(node.input[1]), graph.tensor(node.input[4])
        sizes = emit.shape_of(graph.tensor(node.input[0]))
        if node.input[3]:
            sizes = emit.op("Gather", sizes, graph.tensor(node.input[3]), shape=starts.shape)
        else:
            sizes = emit.op("Slice", sizes, emit.constant([0]), emit.op("Shape", starts, shape=(1,)))
        is_before = emit.op("Less", starts, emit.op("Neg", sizes), shape=starts.shape)
        is_backward = emit.op("Less", steps, emit.constant([0]), shape=starts.shape)
        return emit.op("And", is_before, is_backward, shape=starts.shape)
