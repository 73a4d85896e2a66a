"""Fourier transforms. OpenVINO's are over several axes, ONNX's over one at a time."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.fourier import real_of_half

_NOTES = "The axes must be constants."


@handles("DFT-7", to="DFT", notes=_NOTES)
def dft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """DFT-7: of complex numbers, which are the last axis."""
    return _complex(node, emit, inverse=False)


@handles("IDFT-7", to="DFT", notes=_NOTES)
def idft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """IDFT-7."""
    return _complex(node, emit, inverse=True)


def _complex(node: Node, emit: OpenVINOEmitter, *, inverse: bool) -> Tensor:
    made = node[0]
    for axis, length in _axes(node, emit, node.ranked(0, 2).rank - 1):
        made = emit.op("DFT", made, length, axis=axis, inverse=int(inverse))
    return made


@handles("RDFT-9", to="DFT", notes=_NOTES)
def rdft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """RDFT-9: of real numbers; the result has the first half of the last transformed axis."""
    *others, (axis, length) = _axes(node, emit, node.ranked(0, 1).rank)
    real = emit.op("Unsqueeze", node[0], emit.constant([-1]))
    made = emit.op("DFT", real, length, axis=axis, onesided=1)
    for other, size in others:
        made = emit.op("DFT", made, size, axis=other)
    return made


@handles("IRDFT-9", to="DFT", notes=_NOTES)
def irdft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """IRDFT-9: of the first half of the last transformed axis to real numbers."""
    rank = node.ranked(0, 2).rank
    *others, (axis, length) = _axes(node, emit, rank - 1)
    made = node[0]
    for other, size in others:
        made = emit.op("DFT", made, size, axis=other, inverse=1)
    first, one, two = emit.constant([0]), emit.constant(1), emit.constant(2)
    if length is None:  # the half is of an even number
        half = emit.op("Squeeze", emit.shape_of(made, axis, axis + 1), first)
        length = emit.op("Mul", emit.op("Sub", half, one), two)
    return real_of_half(emit, made, axis, emit.scalar(length))


@handles("STFT-15", to="STFT")
def stft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """STFT-15: [batch, length] or [length] to [..., frames, half of the frame's frequencies, 2].

    A window that is shorter than the frames is in their middle.
    """
    signal, window, size, step = node.ranked(0, 1, 2), node[1], *(emit.int64(emit.scalar(node[k])) for k in (2, 3))
    first, last = emit.constant([0]), emit.constant([-1])
    is_batch = signal.rank == 2
    column = emit.op("Unsqueeze", signal if is_batch else emit.op("Unsqueeze", signal, first), last)
    missing = emit.op("Sub", emit.op("Unsqueeze", size, first), emit.shape_of(window))
    before = emit.op("Div", missing, emit.constant([2]))
    pads = emit.op("Concat", before, emit.op("Sub", missing, before), axis=0)
    made = emit.op("STFT", column, step, emit.op("Pad", window, pads), size, onesided=1)
    if node.flag("transpose_frames", False):
        made = emit.op("Transpose", made, perm=[0, 2, 1, 3])
    return made if is_batch else emit.op("Squeeze", made, first)


@handles("ISTFT-16", to="DFT, ScatterElements")
def istft(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ISTFT-16: [batch, frequencies, frames, 2] or [frequencies, frames, 2] to signals of real numbers.

    The frames are windowed again, added up, and divided by the sum of the windows' squares; where that is 0, so is the
    signal. With `center` half a frame is cut at the start, and at the end unless the length is given.
    """
    # ONNX Runtime adds up no narrower floats.
    data, window = (emit.cast(t, TensorProto.FLOAT) for t in (node.ranked(0, 3, 4), node[1]))
    size, step = (emit.vector(emit.scalar(node[k])) for k in (2, 3))
    zero, one, two = emit.constant([0]), emit.constant([1]), emit.constant([2])
    is_batch = data.rank == 4
    frames = emit.op("Transpose", data if is_batch else emit.op("Unsqueeze", data, zero), perm=[0, 2, 1, 3])
    pieces = real_of_half(emit, frames, 2, emit.scalar(size))
    missing = emit.op("Sub", size, emit.shape_of(window))
    before = emit.op("Div", missing, two)
    framed = emit.op("Pad", window, emit.op("Concat", before, emit.op("Sub", missing, before), axis=0))
    count = emit.shape_of(frames, 1, 2)
    whole = emit.op("Add", emit.op("Mul", emit.op("Sub", count, one), step), size)
    starts = emit.op("Mul", _range(emit, count), step)
    places = emit.op("Add", emit.op("Unsqueeze", starts, one), _range(emit, size))
    squares = emit.op("Mul", framed, framed)
    every = emit.op("Unsqueeze", emit.op("Expand", squares, emit.shape_of(places)), zero)
    total, weight = (_added(emit, part, places, whole) for part in (emit.op("Mul", pieces, framed), every))
    is_empty = emit.op("Equal", weight, emit.like(0, weight))
    signal = emit.op("Div", total, emit.op("Where", is_empty, emit.like(1, weight), weight))
    signal = emit.op("Where", is_empty, emit.like(0, signal), signal)
    if node.flag("normalized"):
        signal = emit.op("Mul", signal, emit.op("Sqrt", emit.cast(size, signal.dtype)))
    margin = emit.op("Div", size, two) if node.flag("center") else zero
    length = node.optional(4)
    end = emit.op("Sub", whole, margin) if length is None else emit.op("Add", margin, emit.vector(length))
    if length is not None:
        after = emit.op("Max", emit.op("Sub", end, whole), zero)
        signal = emit.op("Pad", signal, emit.op("Concat", emit.constant([0, 0, 0]), after, axis=0))
    cut = emit.cast(emit.op("Slice", signal, margin, end, one), node[0].dtype)
    return cut if is_batch else emit.op("Squeeze", cut, zero)


def _added(emit: OpenVINOEmitter, pieces: Tensor, places: Tensor, whole: Tensor) -> Tensor:
    """Pieces [batch, frames, size] added up at their places [frames, size], [batch, whole]."""
    batch = emit.shape_of(pieces, 0, 1)
    flat, at = emit.op("Reshape", pieces, emit.constant([0, -1])), emit.op("Reshape", places, emit.constant([1, -1]))
    empty = emit.op("Expand", emit.like(0, pieces), emit.op("Concat", batch, whole, axis=0))
    return emit.op("ScatterElements", empty, emit.op("Expand", at, emit.shape_of(flat)), flat, axis=1, reduction="add")


def _range(emit: OpenVINOEmitter, end: Tensor) -> Tensor:
    return emit.op("Range", emit.constant(0), emit.op("Squeeze", end, emit.constant([0])), emit.constant(1))


def _axes(node: Node, emit: OpenVINOEmitter, rank: int) -> list[tuple[int, Tensor | None]]:
    """Each transformed axis with the length to which it is cut or extended; None keeps its own."""
    axes = node[1].integers("the axes")
    if not axes or not all(-rank <= axis < rank for axis in axes):
        raise Unsupported(f"axes {axes[:9]} of {rank}")
    axes = [axis % rank for axis in axes]
    lengths = node.optional(2)
    if lengths is not None and lengths.value is not None and lengths.value.size != len(axes):
        raise Unsupported(f"{lengths.value.size} lengths for {len(axes)} axes")
    if lengths is None:
        return [(axis, None) for axis in axes]
    found: list[tuple[int, Tensor | None]] = []
    for k, axis in enumerate(axes):
        if lengths.value is not None:
            size = int(lengths.value.ravel()[k])
            found.append((axis, None if size == -1 else emit.constant(size)))
        else:
            given = emit.op("Gather", emit.int64(lengths), emit.constant(k))
            own = emit.op("Squeeze", emit.shape_of(node[0], axis, axis + 1), emit.constant([0]))
            found.append((axis, emit.op("Where", emit.op("Less", given, emit.constant(0)), own, given)))
    return found
