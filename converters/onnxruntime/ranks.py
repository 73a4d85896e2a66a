"""Ranks and layouts that no kernel takes, and in which other shape one does."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from onnx_sparse.converters.kernels.forms import has_kernel
from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.node_forms import RECURRENT, form_of
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attributes


class RankOfImage(Guard):
    """Global pools, InstanceNormalization and LRN lack kernels for some ranks.

    The axes of space are joined, or one is added.
    """

    name = "rank of an image"
    anchors = ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization", "LRN")
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "LRN", np.ones((1, 2, 3), np.float32), expected=np.full((1, 2, 3), 0.5, np.float32), size=1, alpha=1.0, beta=1.0
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A rank without a kernel."""
        form = form_of(graph, node)
        return form is not None and not has_kernel(form) and (graph.rank(node.input[0]) or 0) > 1

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Compute with one axis of space, or two where the kernel takes matrices."""
        emit, (data, *others) = graph.emitter(node), map(graph.tensor, node.input)
        shape, start = emit.op("Shape", data), emit.constant([0])
        front = emit.op("Slice", shape, start, emit.constant([2]))
        space = emit.op("Slice", shape, emit.constant([2]), emit.constant([data.rank]))
        ones = [emit.constant([1])] if node.op_type == "LRN" else []
        joined = emit.op("Concat", front, emit.op("ReduceProd", space, start, keepdims=1), *ones, axis=0)
        image = emit.reshaped(data, joined, (None,) * (3 + len(ones)))
        made = emit.op(node.op_type, image, *others, **attributes(node))
        if node.op_type.startswith("Global"):
            shape = emit.op("Concat", front, emit.constant([1] * (data.rank - 2)), axis=0)
        graph.replace_by(node, [emit.reshaped(made, shape, graph.shape(node.output[0]))])


class BatchFirst(Guard):
    """Recurrent layers take steps first, not rows first.

    Steps are moved to the front, and back in the results.
    """

    name = "recurrent layer with rows first"
    anchors = RECURRENT
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "RNN",
        np.zeros((3, 2, 4), np.float32),
        constants={"w": np.ones((1, 5, 4), np.float32), "r": np.ones((1, 5, 5), np.float32)},
        hidden_size=5,
        layout=1,
        expected=np.zeros((3, 2, 1, 5), np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Rows first."""
        form = form_of(graph, node)
        return form is not None and not has_kernel(form)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Transpose the data and the states."""
        emit, written = graph.emitter(node), attributes(node)
        given = [graph.tensor(name) if name else None for name in node.input]
        for k in (0, 5, 6):
            tensor = given[k] if k < len(given) else None
            if tensor is not None:
                given[k] = emit.op("Transpose", tensor, perm=[1, 0, 2])
        dtypes = [graph.dtype(node.input[0])] * len(node.output)
        del written["layout"]
        made = emit.ops(node.op_type, given, dtypes, **written)
        orders = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
        graph.replace_by(node, [emit.op("Transpose", t, perm=orders[k]) for k, t in enumerate(made)])


class LimitsOfRange(Guard):
    """A Range whose limits are vectors of one element runs, but is not loaded where their shape is known.

    The limits become scalars, as ONNX has them.
    """

    name = "limits of a range"
    anchors = ("Range",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = of_nodes(
        [helper.make_node("Range", ["start", "limit", "delta"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])],
        {"x": np.array([1])},
        np.arange(1, 4),
        constants={"start": np.int64(0), "limit": np.array([3]), "delta": np.int64(1)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A limit that is known to be a vector."""
        return any(graph.rank(name) == 1 for name in node.input)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Reshape the vectors."""
        emit = graph.emitter(node)
        limits = [graph.tensor(name) for name in node.input]
        graph.replace(node, "Range", [emit.scalar(t) if graph.rank(t.name) == 1 else t for t in limits])
