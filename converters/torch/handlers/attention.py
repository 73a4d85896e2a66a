"""scaled_dot_product_attention: of no keys, and of rows that may look at none, it is 0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.scaled_dot_product_attention.default", to="MatMul, Softmax")
def attention(node: Node, emit: TorchEmitter) -> Tensor:
    """The values [..., keys, width], weighted by the softmax of the products of queries and keys."""
    if node.number("dropout_p"):
        raise Unsupported("dropout_p is not 0")
    given = node.tensor("query")
    queries, keys, values = (emit.wide(node.tensor(name)) for name in ("query", "key", "value"))
    if node.flag("enable_gqa"):
        keys, values = (_for_each_head(emit, part, queries) for part in (keys, values))
    scores = emit.op("MatMul", _scaled(node, emit, queries), _turned(emit, keys))
    mask = node.optional("attn_mask")
    if node.flag("is_causal"):
        mask = _is_before(emit, queries, keys)
    if mask is None:
        weights = emit.op("Softmax", scores, axis=-1)
    else:
        none = emit.like(-math.inf, scores)
        is_bool = mask.dtype == TensorProto.BOOL
        scores = (
            emit.op("Where", mask, scores, none) if is_bool else emit.op("Add", scores, emit.cast(mask, none.dtype))
        )
        # A row that may look at no key has no largest score, for which a softmax is NaN.
        seen = emit.op("Not", emit.op("Equal", emit.op("ReduceMax", scores, emit.constant([-1]), keepdims=1), none))
        weights = emit.op("Where", seen, emit.op("Softmax", scores, axis=-1), emit.like(0, scores))
    return emit.cast(emit.op("MatMul", weights, values), given.dtype)


def _scaled(node: Node, emit: TorchEmitter, queries: Tensor) -> Tensor:
    """The queries by the scale, by default 1 over the root of their width."""
    scale = node.optional_number("scale", 0)
    if isinstance(scale, Tensor):
        return emit.op("Mul", queries, emit.cast(scale, queries.dtype))
    width = None if queries.shape is None else queries.shape[-1]
    if scale or width is not None:
        return emit.op("Mul", queries, emit.like(scale or 1 / math.sqrt(max(width or 1, 1)), queries))
    root = emit.op("Sqrt", emit.cast(emit.scalar(emit.count(queries, queries.rank - 1)), queries.dtype))
    return emit.op("Div", queries, root)


def _turned(emit: TorchEmitter, x: Tensor) -> Tensor:
    """The last two dimensions in the other order."""
    *batch, rows, columns = range(x.rank)
    return emit.op("Transpose", x, perm=[*batch, columns, rows])


def _is_before(emit: TorchEmitter, queries: Tensor, keys: Tensor) -> Tensor:
    """Whether a key is not after a query [queries, keys]."""
    zero, one = emit.constant(0), emit.constant(1)
    places = [
        emit.op("Range", zero, emit.scalar(emit.count(x, x.rank - 2)), one, shape=(None,)) for x in (queries, keys)
    ]
    return emit.op("LessOrEqual", places[1], emit.op("Unsqueeze", places[0], emit.constant([1])))


def _for_each_head(emit: TorchEmitter, x: Tensor, queries: Tensor) -> Tensor:
    """Heads [..., heads, rows, width], each as often as there are more heads of queries."""
    axis = x.rank - 3
    many = emit.op("Div", emit.count(queries, axis), emit.count(x, axis))
    before, rest = emit.shape_of(x, 0, axis), emit.shape_of(x, axis + 1)
    each = emit.op("Unsqueeze", x, emit.constant([axis + 1]))
    sizes = emit.op("Concat", before, emit.count(x, axis), many, rest, axis=0)
    made = emit.op("Expand", each, sizes)
    joined = emit.op("Concat", before, emit.count(queries, axis), rest, axis=0)
    return emit.op("Reshape", made, joined, allowzero=1, shape=(None,) * x.rank)
