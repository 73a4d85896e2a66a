"""Images of a camera's formats, NV12 and I420: brightness, and color for blocks of two by two pixels."""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_F32 = TensorProto.FLOAT
_TO = "Mul, Add, Clip"


def _image(node: Node, emit: Emitter, *, planar: bool, order: str) -> Tensor:
    """[batch, height, width, 3] of one input with all planes below each other, or of one input for each plane.

    Args:
        node: The layer.
        emit: Receives the nodes.
        planar: Whether the two colors are in planes of their own, as in I420; in NV12 they take turns.
        order: The order of the result, `rgb` or `bgr`.
    """
    planes = [emit.cast(t, _F32) for t in node.inputs]
    if len(planes) not in (1, 3 if planar else 2):
        raise Unsupported(f"{len(planes)} inputs")
    batch, rows, width = (emit.shape_of(planes[0], k, k + 1) for k in range(3))
    two = emit.constant([2])
    half_width = emit.op("Div", width, two)
    if len(planes) == 1:
        half_height = emit.op("Div", rows, emit.constant([3]))
        height = emit.op("Mul", half_height, two)
        sizes = emit.op("Concat", height, half_height, axis=0)
        bright, colors = emit.node("Split", [planes[0], sizes], [_F32] * 2, axis=1)
    else:
        height, half_height = rows, emit.op("Div", rows, two)
        bright, colors = planes[0], emit.op("Concat", *planes[1:], axis=3) if planar else planes[1]
    split = [emit.constant([2]), half_height, half_width] if planar and len(planes) == 1 else [
        half_height, half_width, emit.constant([2])]  # fmt: skip
    pairs = emit.op("Reshape", colors, emit.op("Concat", batch, *split, axis=0), allowzero=1)
    axis = 1 if planar and len(planes) == 1 else 3
    shape = emit.op("Concat", batch, height, width, axis=0)
    blocks = emit.op("Concat", batch, half_height, two, half_width, two, axis=0)

    def pixels(k: int) -> Tensor:
        color = emit.op("Unsqueeze", emit.op("Gather", pairs, emit.constant(k), axis=axis), emit.constant([2, 4]))
        full = emit.op("Reshape", emit.op("Expand", color, blocks), shape, allowzero=1)
        return emit.op("Sub", full, emit.constant(128, _F32))

    blue, red = pixels(0), pixels(1)
    white = emit.op("Reshape", bright, shape, allowzero=1)
    white = _times(emit, emit.op("Sub", white, emit.constant(16, _F32)), 1.164)
    made = {
        "r": emit.op("Add", white, _times(emit, red, 1.596)),
        "g": emit.op("Sub", emit.op("Sub", white, _times(emit, blue, 0.391)), _times(emit, red, 0.813)),
        "b": emit.op("Add", white, _times(emit, blue, 2.018)),
    }
    image = emit.op("Concat", *(emit.op("Unsqueeze", made[name], emit.constant([3])) for name in order), axis=3)
    image = emit.op("Clip", image, emit.constant(0, _F32), emit.constant(255, _F32))
    return emit.op("Round", image) if node[0].dtype == TensorProto.UINT8 else image


def _times(emit: Emitter, value: Tensor, factor: float) -> Tensor:
    return emit.op("Mul", value, emit.constant(factor, _F32))


handles("NV12toRGB-8", to=_TO)(partial(_image, planar=False, order="rgb"))
handles("NV12toBGR-8", to=_TO)(partial(_image, planar=False, order="bgr"))
handles("I420toRGB-8", to=_TO)(partial(_image, planar=True, order="rgb"))
handles("I420toBGR-8", to=_TO)(partial(_image, planar=True, order="bgr"))
