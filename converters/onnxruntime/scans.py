"""Scans of tensors without elements: along another axis than the first, and of no steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.onnxruntime.examples import of_nodes
from onnx_sparse.converters.onnxruntime.guard import Guard, may_be_empty
from onnx_sparse.converters.onnxruntime.moved_axes import from_front, to_front
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import attributes, subgraphs

_NODE = helper.make_node
_END = np.iinfo(np.int64).max
#: The first opset whose Scan has no batch.
_SINCE = 9


class _OfScan(Guard):
    """What the faults of Scan share: which inputs are states, and which are sequences."""

    anchors = ("Scan",)

    @staticmethod
    def _states(node: NodeProto, given: dict[str, Any]) -> int:
        """The number of states: the first inputs, and the first outputs."""
        return len(node.input) - int(given["num_scan_inputs"])

    @staticmethod
    def _fits_body(graph: Graph, node: NodeProto) -> bool:
        """Whether the node has as many inputs and outputs as its body."""
        bodies = subgraphs(node)
        return (
            graph.opset >= _SINCE
            and len(bodies) == 1
            and len(bodies[0].input) == len(node.input)
            and len(bodies[0].output) == len(node.output)
            and 0 < int(attributes(node)["num_scan_inputs"]) <= len(node.input)
        )

    @staticmethod
    def _written(graph: Graph, node: NodeProto, inputs: list[Tensor], given: dict[str, Any]) -> tuple[Tensor, ...]:
        """Another Scan of the same body; its results."""
        made = [body.type.tensor_type for body in subgraphs(node)[0].output]
        dtypes = [kind.elem_type or graph.dtype(name) for kind, name in zip(made, node.output, strict=True)]
        return graph.emitter(node).node("Scan", inputs, dtypes, **given)


class ScanAxes(_OfScan):
    """A Scan along an axis other than the first, or one that joins its results along another, ends the process where
    there are no elements.

    The axis is moved to the front before, and back after.
    """

    name = "scan along another axis"
    seen, effect = ("1.21", "1.32"), "process death"
    example = of_nodes(
        [
            _NODE(
                "Scan",
                ["x"],
                ["y"],
                num_scan_inputs=1,
                scan_input_axes=[1],
                body=helper.make_graph(
                    [_NODE("Identity", ["element"], ["result"])],
                    "step",
                    [helper.make_tensor_value_info("element", TensorProto.FLOAT, None)],
                    [helper.make_tensor_value_info("result", TensorProto.FLOAT, None)],
                ),
            )
        ],
        {"x": np.zeros((3, 2, 0), np.float32)},
        np.zeros((2, 3, 0), np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Another axis of what may be empty."""
        if not self._fits_body(graph, node):
            return False
        inputs, outputs = self._axes(node)
        return any(
            axis and may_be_empty(graph, name)
            for axes, names in ((inputs, node.input), (outputs, node.output))
            for axis, name in zip(axes, names, strict=True)
            if name
        )

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Move the axes."""
        emit, body = graph.emitter(node), subgraphs(node)[0]
        axes_in, axes_out = self._axes(node)
        moved = []
        for name, axis, element in zip(node.input, axes_in, body.input, strict=True):
            moved.append(to_front(emit, graph.tensor(name), axis, _rank(graph, name, element)))
        kept = {key: value for key, value in attributes(node).items() if not key.endswith("_axes")}
        results = self._written(graph, node, moved, kept)
        for k, (name, axis, element) in enumerate(zip(node.output, axes_out, body.output, strict=True)):
            if not name:
                continue
            graph.bypass(node, from_front(emit, results[k], axis, _rank(graph, name, element)).name, k)

    def _axes(self, node: NodeProto) -> tuple[list[int], list[int]]:
        """The axis of each input and output; 0 for states."""
        given = attributes(node)
        states = self._states(node, given)
        counts = {"scan_input_axes": len(node.input) - states, "scan_output_axes": len(node.output) - states}
        inputs, outputs = ([0] * states + [*given.get(key, [0] * count)] for key, count in counts.items())
        return inputs, outputs


class ScanOfNoSteps(_OfScan):
    """A Scan of no steps is refused.

    A step of zeros is added, and taken off the results.
    """

    name = "scan of no steps"
    seen, effect = ("1.21", "1.32"), "refused"
    example = of_nodes(
        [
            _NODE(
                "Scan",
                ["start", "x"],
                ["y", "each"],
                num_scan_inputs=1,
                body=helper.make_graph(
                    [_NODE("Add", ["state", "element"], ["next"]), _NODE("Identity", ["next"], ["result"])],
                    "step",
                    [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("state", "element")],
                    [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("next", "result")],
                ),
            )
        ],
        {"start": np.ones(3, np.float32), "x": np.zeros((0, 3), np.float32)},
        np.ones(3, np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Sequences along the first axis, of which none is known to have steps."""
        given = attributes(node)
        if not self._fits_body(graph, node) or any(given.get("scan_input_axes", ())):
            return False
        shapes = [graph.shape(name) for name in node.input[self._states(node, given) :]]
        return not any(shape and shape[0] for shape in shapes)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Add a step where there is none, and keep the first states then."""
        emit, given = graph.emitter(node), attributes(node)
        states = self._states(node, given)
        tensors = [graph.tensor(name) for name in node.input]
        if any(not t.dtype for t in tensors):
            raise Unsupported("an element type is not known")
        first, zero, one = tensors[states], emit.constant([0]), emit.constant([1])
        steps = emit.op("Slice", emit.shape_of(first), zero, one, shape=(1,))
        is_none = emit.op("Equal", steps, zero)
        missing = emit.cast(is_none, TensorProto.INT64)
        for k in range(states, len(tensors)):
            sizes = emit.op("Slice", emit.shape_of(tensors[k]), one, emit.constant([_END]))
            filler = "" if tensors[k].dtype == TensorProto.STRING else 0
            step = emit.op("Expand", emit.constant(filler, tensors[k].dtype), emit.op("Concat", missing, sizes, axis=0))
            tensors[k] = emit.op("Concat", tensors[k], step, axis=0)
        results = self._written(graph, node, tensors, given)
        axes = [0] * states + [*given.get("scan_output_axes", [0] * (len(node.output) - states))]
        for k, (result, name) in enumerate(zip(results, node.output, strict=True)):
            if not name:
                continue
            if k < states:
                graph.bypass(node, emit.op("Where", emit.scalar(is_none), tensors[k], result).name, k)
            else:
                graph.bypass(node, emit.op("Slice", result, zero, steps, emit.constant([axes[k]])).name, k)


def _rank(graph: Graph, name: str, element: ValueInfoProto) -> int | None:
    """The rank of a sequence, by itself or by its elements in the body; None where neither is known."""
    rank, kind = graph.rank(name) if name else None, element.type.tensor_type
    return len(kind.shape.dim) + 1 if rank is None and kind.HasField("shape") else rank
