"""Matrix products and convolutions."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.compression import dequantize
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import paddings, per_axis, window
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.lowering.einsum import einsum
from onnx_sparse.converters.writing.lowering.inverse import LIMITS, inverse
from onnx_sparse.schemas.declaration import dtype_name

#: Experts of a layer; each becomes a product of its own.
_MOST_GROUPS = 1024
#: The values of auto_pad.
_AUTO = ("explicit", "notset", "same_upper", "same_lower", "valid")


@handles("MatMul-1", to="MatMul")
def matmul(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """MatMul-1. A vector is not transposed."""
    transposed = [node.flag(f"transpose_{what}", False) for what in "ab"]
    a = _transposed(emit, node[0]) if transposed[0] else node[0]
    weight = emit.weights.get(node[1].name)
    if weight is not None:  # computed in float32, in which ONNX Runtime multiplies by integers
        matrix = dequantize(weight, node.weights, emit, transposed=transposed[1])
        return emit.cast(emit.op("MatMul", emit.cast(a, matrix.dtype), matrix), a.dtype)
    return emit.op("MatMul", a, _transposed(emit, node[1]) if transposed[1] else node[1])


@handles("GroupedMatMul-17", to="MatMul, Split", notes="Rows after the last group are 0.")
def grouped_matmul(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GroupedMatMul-17: (a, b [groups, columns, width], offsets): each group of rows of a by a matrix of its own.

    The offsets say where groups end. Without them, a has the groups as an axis.
    """
    a, b = node.ranked(0, 2, 3), _transposed(emit, node.ranked(1, 3, 3))
    offsets = node.optional(2)
    if a.rank == 3:
        node.disregard("2")
        return emit.op("MatMul", a, b)
    groups = b.dim(0)
    if offsets is None or groups is None or not 0 < groups <= _MOST_GROUPS:
        raise Unsupported(f"rows {a} need offsets and a known number of groups, at most {_MOST_GROUPS}")
    ends, whole = emit.vector(offsets), emit.shape_of(a, 0, 1)
    bounds = emit.op("Concat", emit.constant([0]), ends, whole, axis=0)
    before = emit.op("Slice", bounds, emit.constant([0]), emit.constant([-1]))
    sizes = emit.op("Sub", emit.op("Slice", bounds, emit.constant([1]), emit.constant([groups + 2])), before)
    *parts, rest = emit.node("Split", [a, sizes], [a.dtype] * (groups + 1), [(None, a.dim(1))] * (groups + 1), axis=0)
    matrices = [emit.op("Gather", b, emit.constant(group), axis=0) for group in range(groups)]
    made = [emit.op("MatMul", part, matrix) for part, matrix in zip(parts, matrices, strict=True)]
    size = emit.op("Concat", emit.shape_of(rest, 0, 1), emit.shape_of(b, 2, 3), axis=0)
    return emit.op("Concat", *made, emit.op("Expand", emit.like(0, a), size), axis=0)


def _transposed(emit: OpenVINOEmitter, tensor: Tensor) -> Tensor:
    rank = tensor.rank
    if rank < 2:
        return tensor
    return emit.op("Transpose", tensor, perm=[*range(rank - 2), rank - 1, rank - 2])


@handles("Einsum-7", to="MatMul")
def einsum_7(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Einsum-7."""
    return einsum(node.attributes.get("equation", ""), node.inputs, emit)


@handles("Convolution-1", to="Conv")
def convolution(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Convolution-1."""
    return emit.op("Conv", node[0], node[1], **window(node, _kernel_sizes(node, 2)))


@handles("BinaryConvolution-1", to="Conv", notes="The filters must be constants of u1, and the channels full bytes.")
def binary_convolution(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """BinaryConvolution-1: each number that is positive is taken for 1, any other for -1; so are the filters' bits.

    As OpenVINO's kernels do, it reads the filters' bytes from their lowest bit, and adds `pad_value`, which is 1, -1 or
    0, as one of these numbers.
    """
    node.choice("mode", ("xnor-popcount",))
    filling, channels = node.number("pad_value"), node.ranked(1, 4, 4).dim(1)
    if filling not in (-1, 0, 1):
        raise Unsupported(f"pad_value = {filling} is not supported; -1, 0 and 1 are")
    if node[0].dtype not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        raise Unsupported(f"it is of {dtype_name(node[0].dtype)}; float, float16 and bfloat16 are supported")
    if node.layer.inputs[1].precision != "u1" or channels is None or channels % 8:
        raise Unsupported(f"its filters {node[1]} of {node.layer.inputs[1].precision or 'an unknown type'}, "
                          "which must be of u1 with a multiple of 8 channels")  # fmt: skip
    bits = node[1].constant("the filters")
    bits = np.unpackbits(np.packbits(bits), bitorder="little").reshape(bits.shape)
    filters = 2 * bits.astype(np.float32) - 1
    zero = emit.constant(0, TensorProto.FLOAT)
    is_positive = emit.op("Greater", emit.cast(node[0], TensorProto.FLOAT), zero)
    # What paddings add is what zeros add to the numbers less than these by it, and the filling in every place.
    signs = emit.op("Where", is_positive, emit.constant(1 - filling, TensorProto.FLOAT),
                    emit.constant(-1 - filling, TensorProto.FLOAT))  # fmt: skip
    bias = emit.constant(filling * filters.sum((1, 2, 3)), TensorProto.FLOAT)
    made = emit.op("Conv", signs, emit.constant(filters, TensorProto.FLOAT), bias, **window(node, bits.shape[2:]))
    return emit.cast(made, node[0].dtype)


def _kernel_sizes(node: Node, channels: int) -> Shape:
    """The kernel's spatial dimensions, which follow the group and channel dimensions."""
    return (node[1].shape or ())[channels : node[1].rank]


@handles("GroupConvolution-1", to="Conv")
def group_convolution(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GroupConvolution-1, whose kernel is [groups, out, in, ...]; ONNX merges the first two."""
    kernel, groups = _grouped(node, emit)
    return emit.op("Conv", node[0], kernel, group=groups, **window(node, _kernel_sizes(node, 3)))


def _grouped(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, int]:
    """The kernel with groups and channels per group merged into one axis, and the number of groups."""
    kernel = node[1]
    if kernel.rank < 3:
        raise Unsupported(f"a kernel of rank {kernel.rank}, which has no axis of groups")
    groups, channels, *rest = kernel.shape or ()
    if groups is None:
        raise Unsupported("the number of groups is not known")
    known = [d for d in rest if d is not None]
    if kernel.value is not None:
        return emit.constant(kernel.value.reshape(groups * (channels or 0), *known), kernel.dtype), groups
    if len(known) == len(rest) and 0 not in known:
        return emit.op("Reshape", kernel, emit.constant([-1, *known])), groups
    shape = emit.op("Concat", emit.constant([-1]), emit.shape_of(kernel, 2), axis=0)
    return emit.op("Reshape", kernel, shape), groups


@handles("ConvolutionBackpropData-1", to="ConvTranspose")
def deconvolution(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ConvolutionBackpropData-1."""
    return _deconvolution(node, emit, node[1], _kernel_sizes(node, 2), 1)


@handles("GroupConvolutionBackpropData-1", to="ConvTranspose")
def group_deconvolution(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GroupConvolutionBackpropData-1, whose kernel is [groups, in, out, ...]."""
    kernel, groups = _grouped(node, emit)
    return _deconvolution(node, emit, kernel, _kernel_sizes(node, 3), groups)


def _deconvolution(node: Node, emit: OpenVINOEmitter, kernel: Tensor, sizes: Shape, groups: int) -> Tensor:
    """A ConvTranspose whose result is cut at both ends by the paddings, or extended by zeros at the end."""
    spatial = len(sizes)
    strides, dilations = (per_axis(node, key, spatial, least=1) for key in ("strides", "dilations"))
    wanted = node.optional(2)
    if wanted is not None and _known_sizes(node, spatial) is None:
        whole = emit.op("ConvTranspose", node[0], kernel, group=groups, strides=strides, dilations=dilations)
        return _cut_to(node, emit, whole, emit.vector(wanted), spatial)
    cut = _cut(node, spatial, strides, dilations)
    if min(cut[:spatial], default=0) < 0:
        raise Unsupported("negative paddings at the start")
    made = emit.op("ConvTranspose", node[0], kernel, group=groups, strides=strides, dilations=dilations,
                   pads=[max(n, 0) for n in cut])  # fmt: skip
    if min(cut) >= 0:
        return made
    longer = [max(-n, 0) for n in cut[spatial:]]
    return emit.op("Pad", made, emit.constant([0] * (spatial + 4) + longer))


def _wanted(node: Node, spatial: int) -> Shape | None:
    """The requested output shape: the value of the input, or the shape of the result in the file."""
    if (given := node.optional(2)) is None:
        return None
    if given.value is not None:
        return tuple(int(d) for d in given.value.ravel())
    return (node.results[0][1] or (None,) * spatial)[-spatial:]


def _known_sizes(node: Node, spatial: int) -> list[tuple[int, int, int]] | None:
    """For each axis the sizes of data, kernel and requested output, if all of them are known."""
    shapes = ((node[0].shape or ())[-spatial:], (node[1].shape or ())[-spatial:], _wanted(node, spatial) or ())
    rows = [(a, b, c) for a, b, c in zip(*shapes, strict=False) if a is not None and b is not None and c is not None]
    return rows if len(rows) == spatial else None


def _auto(node: Node) -> str:
    """How paddings are chosen; those that are given have no effect if they are chosen."""
    auto = node.choice("auto_pad", _AUTO, "explicit")
    if auto not in ("explicit", "notset"):
        node.disregard("pads_begin", "pads_end")
    return auto


def _cut_to(node: Node, emit: OpenVINOEmitter, whole: Tensor, wanted: Tensor, spatial: int) -> Tensor:
    """Like `_cut`, for sizes that are known only when the model runs: Pad with negative paddings cuts."""
    auto = _auto(node)
    surplus = emit.op("Sub", emit.shape_of(whole, 2), wanted)
    if not auto.startswith("same"):
        node.disregard("output_padding")
        begin = emit.constant([0] * spatial if auto == "valid" else paddings(node, spatial)[:spatial])
    else:
        extra = emit.constant(per_axis(node, "output_padding", spatial))
        total = emit.op("Max", emit.op("Add", surplus, extra), emit.constant([0]))
        begin = emit.op("Div", total, emit.constant([2]))
        if auto == "same_upper":
            begin = emit.op("Sub", total, begin)
    none = emit.constant([0, 0])
    pads = emit.op("Concat", none, emit.op("Neg", begin), none, emit.op("Sub", begin, surplus), axis=0)
    return emit.op("Pad", whole, pads)


def _cut(node: Node, spatial: int, strides: list[int], dilations: list[int]) -> list[int]:
    """How much of the whole result is cut off at the start of each axis, then at the end; negative values extend it.

    Without an output shape, OpenVINO has no paddings for `auto_pad`. With one, SAME_LOWER puts the larger half last,
    the opposite of padding data, and output_padding counts only for the two SAME modes.
    """
    auto = _auto(node)
    given = paddings(node, spatial) if auto in ("explicit", "notset") else [0] * (2 * spatial)
    extra = per_axis(node, "output_padding", spatial)
    sizes = _known_sizes(node, spatial)
    if node.optional(2) is None or sizes is None:
        return given[:spatial] + [end - more for end, more in zip(given[spatial:], extra, strict=True)]
    begins, ends = given[:spatial], []
    for k, (size, length, wanted) in enumerate(sizes):
        surplus = (size - 1) * strides[k] + (length - 1) * dilations[k] + 1 - wanted
        if auto.startswith("same"):
            halved = max(surplus + extra[k], 0)
            begins[k] = halved // 2 if auto == "same_lower" else halved - halved // 2
        ends.append(surplus - begins[k])
    return begins + ends


@handles("Inverse-14", to="GatherElements", notes=f"{LIMITS}.")
def inverse_14(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Inverse-14. float16 is computed in float32, as OpenVINO does."""
    if node.flag("adjoint", False):
        raise Unsupported("adjoint matrices")
    x = node.ranked(0, 2)
    return inverse(x if x.dtype == TensorProto.DOUBLE else emit.cast(x, TensorProto.FLOAT), emit)
