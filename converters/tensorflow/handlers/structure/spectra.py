"""tf.raw_ops.RFFT, IRFFT, FFT, IFFT and their 2D, and what makes numbers of complex ones: ComplexAbs, Real, Imag.

ONNX Runtime has no complex tensors. Here a complex tensor is one of numbers with a dimension more at the end, of the
real and the imaginary part.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.importing.values import COMPLEX, ComplexTensor, Value
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering.fourier import real_of_half


@structure("Complex")
def fromparts_of(node: GraphNode, emit: InferringEmitter) -> Value:
    """The complex numbers of two tensors, real and imaginary parts."""
    real, imaginary = node.values()
    real, imaginary = _tensor(real), _tensor(imaginary)
    shape = emit.op("Shape", emit.op("Add", real, imaginary))
    last = emit.constant([-1])
    parts = [emit.op("Unsqueeze", emit.op("Expand", part, shape), last) for part in (real, imaginary)]
    return ComplexTensor(emit.op("Concat", *parts, axis=-1))


@structure("Real", "Imag")
def part(node: GraphNode, emit: InferringEmitter) -> Value:
    """The real or the imaginary part."""
    (value,) = node.values()
    return emit.op("Gather", parts_of(value), emit.constant(int(node.op == "Imag")), axis=-1)


@structure("Conj")
def conjugate(node: GraphNode, emit: InferringEmitter) -> Value:
    """The conjugate complex numbers."""
    (value,) = node.values()
    parts = parts_of(value)
    return ComplexTensor(emit.op("Mul", parts, emit.cast(emit.constant([1, -1]), parts.dtype)))


@structure("ComplexAbs")
def absolute(node: GraphNode, emit: InferringEmitter) -> Value:
    """The absolute values."""
    (value,) = node.values()
    parts = parts_of(value)
    total = emit.op("ReduceSum", emit.op("Mul", parts, parts), emit.constant([-1]), keepdims=0)
    return emit.op("Sqrt", total)


@structure("FFT", "FFT2D", "IFFT", "IFFT2D")
def transform(node: GraphNode, emit: InferringEmitter) -> Value:
    """A DFT along the last dimension, or the last two."""
    (value,) = node.values()
    parts, count = parts_of(value), 2 if node.op.endswith("2D") else 1
    for axis in range(count):
        parts = _transformed(parts, parts.rank - 2 - axis, None, emit, inverse=int(node.op.startswith("I")))
    return ComplexTensor(parts)


@structure("RFFT", "RFFT2D")
def transform_of_real(node: GraphNode, emit: InferringEmitter) -> Value:
    """The first half of a DFT of real numbers, along the last dimension or the last two."""
    value, lengths = node.values()
    x, sizes = _tensor(value), emit.int64(_tensor(lengths))
    parts = emit.op("Unsqueeze", x, emit.constant([-1]))
    count = 2 if node.op.endswith("2D") else 1
    for axis in range(count):
        length = emit.scalar(emit.op("Gather", sizes, emit.constant(count - 1 - axis)))
        parts = _transformed(parts, x.rank - 1 - axis, length, emit, onesided=int(axis == 0))
    return ComplexTensor(parts)


@structure("IRFFT", "IRFFT2D")
def real_transform(node: GraphNode, emit: InferringEmitter) -> Value:
    """The real numbers of the first half of their DFT, along the last dimension or the last two."""
    value, lengths = node.values()
    parts, sizes = parts_of(value), emit.int64(_tensor(lengths))
    rank, first = parts.rank, emit.constant([0])
    if node.op.endswith("2D"):
        length = emit.scalar(emit.op("Gather", sizes, emit.constant(0)))
        parts = _transformed(parts, rank - 3, length, emit, inverse=1)
        parts = replace(parts, shape=(None,) * (rank - 1) + (2,))
    length = emit.scalar(emit.op("Gather", sizes, emit.constant(-1)))
    batch = emit.op("Unsqueeze", parts, first)
    return emit.op("Squeeze", real_of_half(emit, batch, rank - 1, length), first)


def is_complex_cast(node: NodeDef) -> bool:
    """Whether a node casts from or to complex numbers."""
    return node.op == "Cast" and any(node.attr[name].type in COMPLEX for name in ("SrcT", "DstT"))


def complex_cast(value: Value, node: NodeDef, emit: InferringEmitter) -> Value:
    """Complex numbers of real or other complex ones, or the real parts of complex ones."""
    number = node.attr["DstT"].type
    if number not in COMPLEX:
        real = emit.op("Gather", parts_of(value), emit.constant(0), axis=-1)
        return emit.cast(real, onnx_type(number))
    dtype = COMPLEX[number]
    if isinstance(value, ComplexTensor):
        return ComplexTensor(emit.cast(value.parts, dtype))
    real = emit.cast(_tensor(value), dtype)
    last = emit.constant([-1])
    real = emit.op("Unsqueeze", real, last)
    return ComplexTensor(emit.op("Concat", real, emit.op("Sub", real, real), axis=-1))


def _transformed(
    parts: Tensor,
    axis: int,
    length: Tensor | None,
    emit: InferringEmitter,
    *,
    onesided: int = 0,
    inverse: int = 0,
) -> Tensor:
    """A DFT along an axis; ONNX's takes a batch."""
    first = emit.constant([0])
    batch = emit.op("Unsqueeze", parts, first)
    shape = (*batch.shape[:-1], 2) if batch.shape is not None else None
    if shape is not None:
        shape = tuple(None if k == axis + 1 else size for k, size in enumerate(shape))
    (made,) = emit.node(
        "DFT", [batch, length], [parts.dtype], [shape], axis=axis + 1, onesided=onesided, inverse=inverse
    )
    return emit.op("Squeeze", made, first)


def _tensor(value: Value) -> Tensor:
    if not isinstance(value, Tensor):
        raise Unsupported("its input is not a tensor of numbers")
    return value


def parts_of(value: Value) -> Tensor:
    """The real and imaginary parts of complex numbers."""
    if not isinstance(value, ComplexTensor):
        raise Unsupported("its input is not a tensor of complex numbers")
    return value.parts
