"""Recurrent layers without rows or steps, which end the process."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute, attributes

_NODE = helper.make_node


class NoRows(Guard):
    """An LSTM or GRU without rows ends the process, and so does a GRU or RNN without steps.

    One row or step is added, and removed from the results.
    """

    name = "recurrent layer without rows"
    anchors = ("LSTM", "GRU", "RNN")
    seen, effect = ("1.21", "1.32"), "process death"
    example = of_nodes(
        [_NODE("LSTM", ["x", "w", "r"], ["y"], hidden_size=5)],
        {"x": np.zeros((3, 0, 4), np.float32)},
        np.zeros((3, 1, 0, 5), np.float32),
        constants={"w": np.ones((1, 20, 4), np.float32), "r": np.ones((1, 20, 5), np.float32)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A number of steps or rows that is not known, or 0."""
        shape = graph.shape(node.input[0])
        return not attribute(node, "layout", 0) and not (shape is not None and all(shape[:2]))

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Pad what has a dimension of steps or rows: the data, the lengths and the states."""
        emit = graph.emitter(node)
        shape = graph.shape(node.input[0])
        given = [graph.tensor(name) if name else None for name in node.input]
        data = given[0]
        assert data is not None
        zeros = [emit.constant(np.zeros(count, np.int64)) for count in range(1, 5)]
        axis_0, axis_1, past_rows = zeros[0], emit.constant([1]), emit.constant([2])
        sizes = emit.op("Slice", emit.shape_of(data), axis_0, past_rows)
        missing = emit.cast(emit.op("Equal", sizes, axis_0), TensorProto.INT64)
        rows, row = (emit.op("Slice", counts, axis_1, past_rows) for counts in (sizes, missing))
        of_state = [zeros[3], row, axis_0]  # before [directions, rows, units], then after
        ends = {0: [zeros[2], missing, axis_0], 4: [axis_0, row], 5: of_state, 6: of_state}
        padded = [
            emit.op("Pad", t, emit.op("Concat", *ends[k], axis=0)) if t is not None and k in ends else t
            for k, t in enumerate(given)
        ]
        results = emit.node(node.op_type, padded, [data.dtype] * len(node.output), **attributes(node))
        for k, (result, name) in enumerate(zip(results, node.output, strict=True)):
            if not name:
                continue
            if k == 0:
                places = emit.constant([0, 2])
                graph.bypass(node, emit.op("Slice", result, zeros[1], sizes, places).name, k)
                continue
            state = emit.op("Slice", result, axis_0, rows, axis_1)
            if not (shape and shape[0]):  # without steps, the state is what it was
                no_steps = emit.op("Equal", emit.op("Slice", sizes, axis_0, axis_1), axis_0)
                before = given[4 + k] if len(given) > 4 + k else None
                state = emit.op("Where", no_steps, before or emit.op("Sub", state, state), state)
            graph.bypass(node, state.name, k)
