"""A rule for stacks, as tf.stack and torch.stack make them: recommenders stack features before their interactions."""

from __future__ import annotations

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.models.graphs import attribute


class StackByReshape(Rule[Graph]):
    """Tensors that are stacked become tensors that are joined and reshaped once, instead of each before. Equal.

    `Concat(Unsqueeze(x, k), Unsqueeze(y, k), axis=k)` is `Reshape(Concat(x, y, axis=k))`: of one row, the time of an
    Unsqueeze for each is that of a lookup.
    """

    name = "stack"
    anchors = ("Concat",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Concat of tensors that have got its axis."""
        made = [graph.producer(name, "Unsqueeze") for name in node.input]
        before = [unsqueeze.input[0] for unsqueeze in made if unsqueeze is not None]
        shape = graph.shape(before[0]) if before else None
        if len(before) < len(made) or len(before) < 2 or shape is None:
            return None
        axis = attribute(node, "axis") % (len(shape) + 1)
        axes = [graph.integers(unsqueeze.input[1]) for unsqueeze in made if unsqueeze is not None]
        if any(given not in ([axis], [axis - len(shape) - 1]) for given in axes):
            return None
        return {"axis": axis, "shape": shape, "before": before}

    def check(self, graph: Graph, node: NodeProto, axis: int, shape: Shape, before: list[str]) -> str | None:
        """The tensors must have the axis that follows the new one, and one size at most that is not known."""
        if axis == len(shape):
            return "the new axis is the last"
        sizes = {shape} | {graph.shape(name) for name in before}
        size = shape[axis]
        if size is None or any(other is None or other[axis : axis + 1] != (size,) for other in sizes):
            return "the tensors may have different sizes"
        if shape.count(None) > 1 or 0 in shape:
            return f"a shape of {list(shape)} cannot be written"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, axis: int, shape: Shape, before: list[str]) -> None:
        """Join, then reshape."""
        emit = graph.emitter(node)
        size = shape[axis]
        joined_shape = tuple(None if k == axis else known for k, known in enumerate(shape))
        joined = emit.op("Concat", *map(graph.tensor, before), shape=joined_shape, axis=axis)
        known = [*shape[:axis], len(before), size, *shape[axis + 1 :]]
        target = emit.constant([-1 if known_size is None else known_size for known_size in known])
        graph.replace(node, "Reshape", [joined, target])
