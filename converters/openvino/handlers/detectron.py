"""The operators of Detectron that OpenVINO has."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_F32, _I64 = TensorProto.FLOAT, TensorProto.INT64


@handles(
    "ExperimentalDetectronTopKROIs-6",
    to="TopK, Gather",
    notes="Of equal chances, the first comes first; the rows behind the last box are 0.",
)
def top_k_rois(node: Node, emit: Emitter) -> Tensor:
    """ExperimentalDetectronTopKROIs-6: the `max_rois` most likely of boxes [boxes, 4] with chances [boxes]."""
    boxes, chances = node.ranked(0, 2, 2), node.ranked(1, 1, 1)
    most = node.integer("max_rois", 0)
    if most < 1:
        raise Unsupported(f"max_rois = {most}")
    count = emit.op("Min", emit.shape_of(chances), emit.constant([most]))
    _, places = emit.node("TopK", [chances, count], [chances.dtype, _I64], axis=0)
    best = emit.op("Gather", boxes, places, axis=0)
    missing = emit.op("Sub", emit.constant([most]), count)
    if missing.value is not None and not missing.value.any():
        return best
    return emit.op("Pad", best, emit.op("Concat", emit.constant([0, 0]), missing, emit.constant([0]), axis=0))


@handles("ExperimentalDetectronPriorGridGenerator-6", to="Range, Add")
def prior_grid(node: Node, emit: Emitter) -> Tensor:
    """ExperimentalDetectronPriorGridGenerator-6: boxes [priors, 4] around the center of every cell of a feature map.

    The sizes of the cells are the strides, or those by which the map divides the image.
    """
    boxes = emit.cast(node.ranked(0, 2, 2), _F32)
    centers = []
    for axis, size_key, stride_key in ((3, "w", "stride_x"), (2, "h", "stride_y")):
        given, stride = node.integer(size_key, 0), np.float32(node.number(stride_key, 0))
        known = node.ranked(1, 4, 4).dim(axis)
        if not np.isfinite(stride) or (given and known not in (None, given)):  # OpenVINO's result is the map's size
            raise Unsupported(f"{size_key} = {given}, {stride_key} = {stride}, for a feature map {node[1]}")
        count = _size(emit, node[1], axis)
        if stride:
            step = emit.constant(stride, _F32)
        else:
            step = emit.op("Div", *(emit.cast(t, _F32) for t in (_size(emit, node.ranked(2, 4, 4), axis), count)))
        numbers = emit.cast(emit.op("Range", emit.constant(0), count, emit.constant(1)), _F32)
        centers.append(emit.op("Mul", step, emit.op("Add", numbers, emit.constant(0.5, _F32))))
    x, y = (emit.op("Unsqueeze", t, emit.constant(axes)) for t, axes in zip(centers, ([0, 2], [1, 2]), strict=True))
    space = emit.op("Concat", *(emit.shape_of(t, k, k + 1) for t, k in ((y, 0), (x, 1))), emit.constant([1]), axis=0)
    x, y = (emit.op("Expand", t, space) for t in (x, y))
    shifts = emit.op("Unsqueeze", emit.op("Concat", x, y, x, y, axis=2), emit.constant([2]))
    made = emit.cast(emit.op("Add", boxes, shifts), node[0].dtype)
    return emit.op("Reshape", made, emit.constant([-1, 4])) if node.flag("flatten", True) else made


def _size(emit: Emitter, tensor: Tensor, axis: int) -> Tensor:
    return emit.op("Squeeze", emit.shape_of(tensor, axis, axis + 1), emit.constant([0]))
