"""Resizes of axes and of element types that no kernel takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.kernels import element_types, forms
from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.node_forms import form_of, given_axes, resized_axes
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attributes
from onnx_sparse.schemas.declaration import FLOATS

#: The first operator set in which a Resize names its axes.
_WITH_AXES = 18
#: The first one in which it has a roi and sizes.
_WITH_SIZES = 11

_IMAGE = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)


def _halves(*scales: float) -> dict[str, Any]:
    return {"": None, "scales": np.array(scales, np.float32)}


class NegativeResizedAxes(Guard):
    """A Resize whose axes are negative writes beyond its memory.

    Axes are counted from the front.
    """

    name = "negative axes of a Resize"
    anchors = ("Resize",)
    seen, effect = ("1.21", "1.26"), "process death"
    example = of_nodes(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=[-1])],
        {"x": np.ones((2, 4), np.float32)},
        np.ones((2, 3), np.float32),
        constants={"sizes": np.array([3])},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A negative axis of a tensor of known rank."""
        axes = attributes(node).get("axes", ())
        return min(axes, default=0) < 0 and graph.rank(node.input[0]) is not None

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Count from the front."""
        written = attributes(node) | {"axes": given_axes(graph, node)}
        graph.replace(node, "Resize", list(node.input), **written)


class ResizedAxes(Guard):
    """Resize interpolates the last axes only; the cubic mode takes matrices, and the last two of four axes.

    The axes are moved to the end, and resized together or one after the other.
    """

    name = "axes of a Resize"
    anchors = ("Resize",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "Resize",
        np.ones((1, 4, 4, 1), np.float32),
        constants=_halves(1, 0.5, 0.5, 1),
        mode="cubic",
        expected=np.ones((1, 2, 2, 1), np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Axes without a kernel for the mode."""
        form = form_of(graph, node)
        return form is not None and not forms.has_kernel(form)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Resize groups of axes, each as the last ones of matrices, or of images with one channel."""
        changed = resized_axes(graph, node)
        mode = attributes(node).get("mode", b"nearest")
        together = 3 if mode == b"linear" and not attributes(node).get("antialias", 0) else 2
        groups = [changed] if len(changed) <= together else [[axis] for axis in changed]
        if len(groups) > 1 and attributes(node).get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
            raise Unsupported(f"{len(changed)} axes that keep their ratio")
        emit, image = graph.emitter(node), graph.tensor(node.input[0])
        for group in groups:
            image = _resized(graph, node, emit, image, group)
        graph.replace_by(node, [image])


def _resized(graph: Graph, node: NodeProto, emit: Emitter, image: Tensor, group: list[int]) -> Tensor:
    """The image with some axes resized."""
    rank, opset = image.rank, emit.kernels_of
    order = [*(axis for axis in range(rank) if axis not in group), *group]
    moved = image if order == [*range(rank)] else emit.op("Transpose", image, perm=order)
    shape = emit.op("Shape", moved)
    first, last = emit.constant([0]), emit.constant([rank - len(group)])
    outer = emit.op("Slice", shape, first, last)
    own = emit.op("Slice", shape, last, emit.constant([rank]))
    front = [emit.op("ReduceProd", outer, first, keepdims=1)]
    if len(group) > 1:
        front.append(emit.constant([1]))
    before = len(front)
    images = emit.reshaped(moved, emit.op("Concat", *front, own, axis=0), (None,) * (before + len(group)))
    places = emit.constant([given_axes(graph, node).index(axis) for axis in group])
    numbers = [_picked(graph, node, emit, position, places) for position in range(1, len(node.input))]
    written = {name: value for name, value in attributes(node).items() if name != "axes"}
    scales_at = 1 if opset < _WITH_SIZES else 2
    if opset >= _WITH_AXES:
        written["axes"] = [*range(before, before + len(group))]
    else:  # all axes have a scale or a size
        for position, tensor in enumerate(numbers, 1):
            if tensor is None or tensor.shape == (0,):
                continue
            if position >= scales_at:
                same = [emit.constant([1] * before, TensorProto.FLOAT)] if position == scales_at else front
                numbers[position - 1] = emit.op("Concat", *same, tensor, axis=0)
    made = emit.op("Resize", images, *numbers, **written)
    sizes = emit.op("Slice", emit.op("Shape", made), emit.constant([before]), emit.constant([before + len(group)]))
    whole = emit.reshaped(made, emit.op("Concat", outer, sizes, axis=0), (None,) * rank)
    if order == [*range(rank)]:
        return whole
    return emit.op("Transpose", whole, perm=[order.index(axis) for axis in range(rank)], shape=(None,) * rank)


def _picked(graph: Graph, node: NodeProto, emit: Emitter, position: int, places: Tensor) -> Tensor | None:
    """The scales, the sizes or the window of some axes."""
    name = node.input[position]
    if not name:
        return None
    given = graph.tensor(name)
    if given.shape == (0,):
        return given
    if emit.kernels_of >= _WITH_SIZES and position == 1:
        if attributes(node).get("coordinate_transformation_mode") != b"tf_crop_and_resize":
            return emit.constant(np.zeros(0, np.float32))
        if emit.kernels_of < _WITH_AXES:
            raise Unsupported("a window of some axes only")
        count = emit.constant([len(given_axes(graph, node))])
        places = emit.op("Concat", places, emit.op("Add", places, count), axis=0)
    return emit.op("Gather", given, places, axis=0)


class NearestOfOtherTypes(Guard):
    """Resize takes few element types: not int64, double, bool or strings.

    The nearest elements are gathered, by the result of resizing their positions.
    """

    name = "nearest elements of other types"
    anchors = ("Resize",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "Resize",
        np.array([2**60 + 1, 2**60 + 2]),
        constants=_halves(2),
        expected=np.array([2**60 + 1] * 2 + [2**60 + 2] * 2),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A type without a kernel, whose elements stay as they are."""
        if attributes(node).get("mode", b"nearest") != b"nearest" or graph.rank(node.input[0]) is None:
            return False
        if attributes(node).get("coordinate_transformation_mode") == b"tf_crop_and_resize":
            return False
        dtype, opset = graph.dtype(node.input[0]), graph.opset
        variable = element_types.input_variable("Resize", 0, opset)
        is_half = dtype in FLOATS and dtype != TensorProto.DOUBLE
        return bool(dtype) and not is_half and not element_types.has_kernel("Resize", variable, dtype, opset)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Resize the positions along each axis, and gather."""
        emit, image = graph.emitter(node), graph.tensor(node.input[0])
        rank, written = image.rank, attributes(node)
        if written.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
            raise Unsupported("axes that keep their ratio")
        axes = given_axes(graph, node)
        written.pop("axes", None)
        for axis in resized_axes(graph, node):
            size = emit.op("Gather", emit.op("Shape", image), emit.constant(axis), shape=())
            positions = emit.op("Range", *(emit.constant(0), size, emit.constant(1)))
            place = emit.constant([axes.index(axis)])
            numbers = [_picked(graph, node, emit, position, place) for position in range(1, len(node.input))]
            nearest = emit.op("Resize", emit.cast(positions, TensorProto.FLOAT), *numbers, **written)
            image = emit.op("Gather", image, emit.cast(nearest, TensorProto.INT64), axis=axis, shape=(None,) * rank)
        graph.replace_by(node, [image])
