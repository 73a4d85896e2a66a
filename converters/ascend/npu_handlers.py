"""The handlers of torch_npu's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import fast_gelu, range_filled, swapped
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE_HANDLERS
from onnx_sparse.converters.ascend.ge.handlers import Node as GeNode
from onnx_sparse.converters.ascend.ge.handlers import NodeAttributes as GeAttributes
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.activations import gelu, mish
from onnx_sparse.converters.writing.lowering.one_hot import one_hot
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.converters.writing.registry import Handler, Registry, Results, lowered

#: The handlers by operator.
HANDLERS = Registry(Handler)

handles = HANDLERS.handles

#: torch's numbers of element types, which the exporter writes.
_TORCH_DTYPES = {
    0: TensorProto.UINT8,
    1: TensorProto.INT8,
    2: TensorProto.INT16,
    3: TensorProto.INT32,
    4: TensorProto.INT64,
    5: TensorProto.FLOAT16,
    6: TensorProto.FLOAT,
    7: TensorProto.DOUBLE,
    11: TensorProto.BOOL,
    15: TensorProto.BFLOAT16,
}


class Node(GeNode):
    """A node as its handler sees it."""

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer among the attributes; exporters also write it as a float."""
        value = self.number(name, default)
        if not value.is_integer():
            raise Unsupported(f"attribute {name} is {value}, not an integer")
        return int(value)

    def vector(self, emit: AscendEmitter, name: str) -> Tensor:
        """A list of integers among the attributes, as a constant."""
        value = self.attributes.get(name)
        if value is None:
            raise Unsupported(f"attribute {name} is missing")
        values = np.atleast_1d(np.asarray(value))
        if values.ndim > 1 or (values.size and values.dtype != np.int64):
            raise Unsupported(f"attribute {name} is not a list of integers")
        return emit.constant(values.astype(np.int64))


def _as_ge(op_type: str, inputs: tuple[Tensor, ...], emit: AscendEmitter, **attributes: Any) -> Results:
    node = GeNode(op_type, Inputs[Tensor | None](inputs), GeAttributes(attributes), ())
    return GE_HANDLERS[op_type].convert(node, emit)


@handles("NPUMaskedFillRange", to="GreaterOrEqual, Less, And, MaskedFill")
def _masked_fill_range(node: Node, emit: AscendEmitter) -> Tensor:
    x, start, end, value = node.take(4)
    return range_filled(emit, x, start, end, value, node.integer("axis", -1))


@handles("NPUOneHot", to="Equal, Where, Cast")
def _one_hot(node: Node, emit: AscendEmitter) -> Tensor:
    """The attribute that torch_npu calls num_classes (its exporter num_classses) is the axis; the result is float32."""
    (x,) = node.take(1)
    axis = node.integer("num_classses", node.integer("num_classes", -1))
    on, off = (emit.constant(node.integer(name, default)) for name, default in (("on_value", 1), ("off_value", 0)))
    made = one_hot(emit, x, emit.constant(node.integer("depth", 1)), on, off, axis)
    return emit.cast(made, TensorProto.FLOAT)


@handles("NPUSlice", to="Slice")
def _slice(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    bounds = (node.vector(emit, "offsetss"), node.vector(emit, "sizes"))
    return _as_ge("Slice", (x, *bounds), emit)


@handles("NPUIndexing", to="Slice, Squeeze, Unsqueeze")
def _indexing(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    bounds = (node.vector(emit, name) for name in ("begins", "ends", "strides"))
    masks = {name: node.integer(name, 0) for name in node.attributes if name.endswith("_mask")}
    return _as_ge("StridedSlice", (x, *bounds), emit, **masks)


@handles("NPUFastGelu", to="Exp, Sigmoid, Mul")
def _fast_gelu(node: Node, emit: AscendEmitter) -> Tensor:
    return emit.in_float32(lambda wide: fast_gelu(emit, wide), *node.take(1))


@handles("NPUGeluV2", to="Erf, Tanh, Mul")
def _gelu(node: Node, emit: AscendEmitter) -> Tensor:
    exact = node.attributes.get("approximate", b"none") not in (b"tanh", "tanh")
    return gelu(emit, *node.take(1), exact=exact)


handles("NPUMish", to="Softplus, Tanh, Mul")(lowered(mish))


@handles("NPURmsNorm", to="Mul, ReduceMean, Sqrt, Div")
def _rms_norm(node: Node, emit: AscendEmitter) -> Results:
    return _as_ge("RmsNorm", node.take(2), emit, epsilon=float(node.number("epsilon", 1e-6)))


@handles("NPURotaryMul", to="Split, Neg, Concat, Mul, Add")
def _rotary_mul(node: Node, emit: AscendEmitter) -> Results:
    """X * cos + rotated(x) * sin, by halves of the last axis."""
    return _as_ge("RotaryMul", node.take(3), emit)


@handles("NPUScaledMaskedSoftmax", to="Mul, Where, Softmax")
def _scaled_masked_softmax(node: Node, emit: AscendEmitter) -> Results:
    """Softmax of x * scale, with -10000 where the mask is true; fixed_triu_mask is the mask above the diagonal."""
    scale, triangle = float(node.number("scale", 1.0)), node.integer("fixed_triu_mask", 0)
    return _as_ge("ScaledMaskedSoftmax", node.take(2), emit, scale=scale, fixed_triu_mask=triangle)


@handles("NPUGeGlu", to="Split, Erf, Tanh, Mul")
def _geglu(node: Node, emit: AscendEmitter) -> Results:
    """One half of x times gelu of the other, the right one unless activate_left; and gelu of that half."""
    given = {"dim": -1, "approximate": 1, "activate_left": 0}
    return _as_ge("GeGluV2", node.take(1), emit, **{name: node.integer(name, value) for name, value in given.items()})


@handles("NPUFusedAttentionScore", to="MatMul, Softmax, Transpose", notes="inference: keep_prob = 1")
def _fused_attention_score(node: Node, emit: AscendEmitter) -> Tensor:
    """Softmax(query key^T * scale + mask) @ value, with the heads of a token side by side: [tokens, hidden]."""
    query, key, value, mask = node.take(4)
    if node.number("keep_prob", 1.0) != 1.0:
        raise Unsupported("keep_prob is not 1: what is dropped is random")
    flags = ("query_transpose", "key_transpose", "bmm_score_transpose_a", "bmm_score_transpose_b", "value_transpose")
    if turned := [name for name in flags if node.integer(name, 0)]:
        raise Unsupported(f"{turned[0]} is not supported")
    q, k, v, addend = map(emit.wide, (query, key, value, mask))
    scores = emit.matmul(q, swapped(emit, k))
    scores = emit.op("Mul", scores, emit.like(float(node.number("scale", 1.0)), scores))
    weights = emit.op("Softmax", emit.op("Add", scores, addend), axis=3, shape=scores.shape)
    attended = emit.matmul(weights, v)
    batch, heads, length, size = attended.dims
    result = emit.transpose(attended, [0, 2, 1, 3])
    return emit.cast(emit.reshape(result, [batch * length, heads * size]), query.dtype)


# The format says how the NPU stores a tensor, not what it holds.
@handles("NPUFormatCast", to="Identity", ignored=("acl_format",))
def _format_cast(node: Node, emit: AscendEmitter) -> Results:
    return node.take(1)


@handles("NPUDtypeCast", to="Cast")
def _dtype_cast(node: Node, emit: AscendEmitter) -> Tensor:
    (x,) = node.take(1)
    number = node.integer("dtype", -1)
    if number not in _TORCH_DTYPES:
        raise Unsupported(f"dtype {number} is not one of torch's element types")
    return emit.cast(x, _TORCH_DTYPES[number])


@handles("NPUScatter", "NPUScatterOP", to="Unsqueeze, ScatterElements")
def _scatter(node: Node, emit: AscendEmitter) -> Tensor:
    """The exporter's name is NPUScatterOP. Indices and updates have size 1 along the axis, and may lack it."""
    x, indices, updates = node.take(3)
    axis = x.axis(node.integer("dim", 0))
    pair = []
    for tensor in (indices, updates):
        if tensor.rank == x.rank - 1:
            dims = tensor.shape or ()
            tensor = emit.op("Unsqueeze", tensor, emit.constant([axis]), shape=(*dims[:axis], 1, *dims[axis:]))
        pair.append(tensor)
    return emit.op("ScatterElements", x, *pair, shape=x.shape, axis=axis)
