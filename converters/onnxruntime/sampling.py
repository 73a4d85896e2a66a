"""GridSample of places far outside of the image."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.kernels.forms import is_refused
from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.node_forms import form_of, mode_of
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import FLOATS

#: In an image of one pixel, too, no pixel beside a place so far off is inside; places this near have digits left.
_FAR = 8.0

#: From here on, the numbers of a type are whole.
_WHOLE: dict[int, float] = {TensorProto.DOUBLE: 2.0**52, TensorProto.FLOAT: 2.0**23, TensorProto.FLOAT16: 2.0**10}

_IMAGE = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)


def _places(*x: float) -> np.ndarray:
    """Places in the middle row."""
    return np.array([[[(each, 0) for each in x]]], np.float32)


class FarPlaces(Guard):
    """GridSample of far places, and of those that are not finite, gives pixels from inside of the image or 0: with
    padding `border` beyond 2^24 pixels, with the others beyond 2^63.

    Places are moved near before: to where the padding is the same, or is reflected to. Between pixels, a place that is
    not finite gives NaN with padding `zeros` and in mode `cubic`, as in torch and OpenVINO.
    """

    name = "far places"
    anchors = ("GridSample",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "GridSample",
        _IMAGE,
        _places(1e8, -1e8),
        mode="bilinear",
        padding_mode="border",
        expected=np.array([[[[6, 4]]]], np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Places that may be far, where there is a kernel."""
        form = form_of(graph, node)
        if graph.dtype(node.input[0]) not in FLOATS or (form is not None and is_refused(form)):
            return False
        places = graph.constant(node.input[1])
        return places is None or not bool((np.abs(places) <= _FAR).all())

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Move places near."""
        emit, given = graph.emitter(node), attributes(node)
        image, places = map(graph.tensor, node.input)
        padding, mode = attribute(node, "padding_mode", b"zeros"), mode_of(node)
        is_aligned = bool(attribute(node, "align_corners", 0))
        is_reflected = padding == b"reflection"
        near = _reflected(emit, image, places, is_aligned, mode) if is_reflected else _clipped(emit, places)
        if (padding != b"zeros" and mode != "cubic") or (mode == "nearest" and not is_aligned):
            graph.replace(node, "GridSample", [image, near], **given)
            return
        (result,) = emit.node("GridSample", [image, near], [image.dtype], **given)
        marks = unless_finite(emit, image, places, is_aligned)
        if mode == "nearest":  # the one pixel of an image is at every place, but not at those
            graph.replace(node, "Where", [emit.op("IsNaN", marks), emit.like(0, image), result])
        else:
            graph.replace(node, "Add", [result, marks])


def unless_finite(emit: Emitter, image: Tensor, places: Tensor, is_aligned: bool) -> Tensor:
    """NaN for places of which the pixel is not a finite number and 0 for others, for each channel of an image.

    Args:
        emit: Writes the nodes.
        image: The image, `[N, C, ...]`.
        places: The places, `[N, ..., 2 or 3]`.
        is_aligned: Whether -1 and 1 are the centers of the outermost pixels instead of their edges.

    Returns:
        `[N, 1, ...]`, of the image's element type.
    """
    pixels, _ = _from_edge(emit, image, places, is_aligned)
    nothing = emit.op("Mul", pixels, emit.like(0, places))
    marks = emit.op("ReduceSum", nothing, emit.constant([-1]), keepdims=0)
    return emit.cast(emit.op("Unsqueeze", marks, emit.constant([1])), image.dtype)


def _from_edge(emit: Emitter, image: Tensor, places: Tensor, is_aligned: bool) -> tuple[Tensor, Tensor]:
    """How many pixels places are from the edge at -1, and how many the edge at 1 is; at least one."""
    *ends, step = (emit.constant([end]) for end in (-1, 1, -1))  # sizes, the last first, as coordinates are
    sizes = emit.op("Slice", emit.shape_of(image), *ends, emit.constant([0]), step)
    one, two = emit.like(1, places), emit.like(2, places)
    size = emit.cast(sizes, places.dtype)
    moved = emit.op("Add", places, one, shape=places.shape)
    if is_aligned:
        size = emit.op("Sub", size, one)
        return emit.op("Mul", emit.op("Div", moved, two), size), emit.op("Max", size, one)
    half = emit.like(0.5, places)  # in torch's order, whose rounding far places have
    return emit.op("Add", emit.op("Div", emit.op("Sub", emit.op("Mul", moved, size), one), two), half), size


def _clipped(emit: Emitter, places: Tensor) -> Tensor:
    """Places at most so far off; NaN is before the first pixel."""
    lowest, highest = (emit.like(end, places) for end in (-_FAR, _FAR))
    is_below = emit.op("Less", places, highest, shape=places.shape)
    near = emit.op("Where", is_below, places, highest, shape=places.shape)
    is_above = emit.op("Greater", places, lowest, shape=places.shape)
    return emit.op("Where", is_above, near, lowest, shape=places.shape)


def _reflected(emit: Emitter, image: Tensor, places: Tensor, is_aligned: bool, mode: str) -> Tensor:
    """Far places, reflected at -1 and 1 until they are between; what is not finite is -1."""
    pixels, span = _from_edge(emit, image, places, is_aligned)
    zero, one, two = (emit.like(number, places) for number in (0, 1, 2))
    far = emit.op("Abs", pixels)
    both = emit.op("Mul", span, two)
    turns = emit.op("Floor", emit.op("Div", far, both))
    rest = emit.op("Sub", far, emit.op("Mul", turns, both))
    inside = emit.op("Min", rest, emit.op("Sub", both, rest))
    inside = emit.op("Where", emit.op("Greater", inside, zero), inside, zero)
    if mode == "cubic" and not is_aligned:  # beyond the digits of halves, a place is one pixel
        half, most = emit.like(0.5, places), emit.like(_WHOLE.get(places.dtype, 2.0**7), places)
        pixel = emit.op("Floor", emit.op("Sub", inside, half))
        pixel = emit.op("Add", emit.op("Where", emit.op("Greater", pixel, zero), pixel, zero), half)
        inside = emit.op("Where", emit.op("Less", far, most), inside, pixel)
    inside = emit.op("Sub", emit.op("Div", emit.op("Mul", inside, two), span), one)
    most = emit.like(1.0 if mode == "nearest" else _FAR, places)  # a place is reflected before it is rounded
    is_near = emit.op("LessOrEqual", emit.op("Abs", places), most, shape=places.shape)
    return emit.op("Where", is_near, places, inside, shape=places.shape)
