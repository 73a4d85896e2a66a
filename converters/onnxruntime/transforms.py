"""Fourier transforms of lengths that are no powers of two."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import FLOATS

_SIGNAL = np.arange(400, dtype=np.float32) ** 2 % 17
_SPECTRUM = np.fft.fft(_SIGNAL.astype(np.float64) * (1 + 1j))

#: The opset from which on the axis of a DFT is an input.
_AXIS_INPUT = 20


class TransformOfAnyLength(Guard):
    """DFT and STFT lose digits where the length is not a power of 2: 4 of 7 with 400, 6 with 16,000.

    They compute in double, which takes about as long.
    """

    name = "transform of any length"
    anchors = ("DFT", "STFT")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "DFT",
        np.stack([_SIGNAL, _SIGNAL], axis=-1)[None],
        expected=np.stack([_SPECTRUM.real, _SPECTRUM.imag], axis=-1)[None].astype(np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Narrow floats, of a length that is not known to be a power of 2."""
        dtype = graph.dtype(node.input[0])
        if dtype not in FLOATS or dtype == TensorProto.DOUBLE:
            return False
        length = _length(graph, node)
        return dtype != TensorProto.FLOAT or length is None or length.bit_count() != 1

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Cast, transform, and cast back."""
        emit = graph.emitter(node)
        given = [graph.tensor(name) if name else None for name in node.input]
        wide = [
            emit.cast(tensor, TensorProto.DOUBLE) if tensor is not None and tensor.dtype in FLOATS else tensor
            for tensor in given
        ]
        shape = graph.shape(node.output[0])
        (made,) = emit.node(node.op_type, wide, [TensorProto.DOUBLE], [shape], **attributes(node))
        graph.bypass(node, emit.cast(made, graph.dtype(node.input[0])).name)


def _length(graph: Graph, node: NodeProto) -> int | None:
    """The number of places that are transformed; None if it is not known."""
    place = 1 if node.op_type == "DFT" else 3
    if len(node.input) > place and node.input[place]:
        length = graph.tensor(node.input[place]).value
        return None if length is None else int(length.reshape(()))
    shape, axis = (
        (graph.shape(node.input[2]), 0) if _is_framed(node) else (graph.shape(node.input[0]), _axis(graph, node))
    )
    size = None if shape is None or axis is None else shape[axis]
    return size if isinstance(size, int) else None


def _is_framed(node: NodeProto) -> bool:
    """Whether the length is that of a window."""
    return node.op_type == "STFT" and len(node.input) > 2


def _axis(graph: Graph, node: NodeProto) -> int | None:
    """The axis of a DFT; None if it is not known."""
    if graph.opset < _AXIS_INPUT:
        return int(attribute(node, "axis", 1))
    if len(node.input) < 3 or not node.input[2]:
        return -2
    given = graph.tensor(node.input[2]).value
    return None if given is None else int(given.reshape(()))
