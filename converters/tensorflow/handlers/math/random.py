"""Random numbers: of TensorFlow's distributions, but other numbers than it draws.

A node with a seed draws the same numbers in every session, one without draws others in every process. tf2onnx gives all
nodes without a seed the same one, by which independent numbers would be equal.
"""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import DType

#: The bits of a number of [0, 1) that TensorFlow draws of each type; more would round to 1 in half floats.
_BITS: dict[DType, int] = {TensorProto.FLOAT16: 10, TensorProto.BFLOAT16: 7}

_NOTE = "the distribution is TensorFlow's, the numbers are not"
_FLOATING = ("float16", "bfloat16", "float", "double")


@handles("RandomUniform", to="RandomUniformLike", dtypes=_FLOATING, differs=_NOTE)
def random_uniform(node: Node, emit: Emitter) -> Tensor:
    """Numbers of [0, 1)."""
    dtype: DType = node.attributes["dtype"]
    bits = _BITS.get(dtype, 0)
    drawn = _drawn("RandomUniformLike", node, TensorProto.FLOAT if bits else dtype, emit)
    if bits:
        steps = emit.like(2**bits, drawn)
        drawn = emit.op("Div", emit.op("Floor", emit.op("Mul", drawn, steps)), steps)
    return emit.cast(drawn, dtype)


@handles("RandomStandardNormal", to="RandomNormalLike", dtypes=_FLOATING, differs=_NOTE)
def random_standard_normal(node: Node, emit: Emitter) -> Tensor:
    """Numbers of mean 0 and standard deviation 1."""
    dtype: DType = node.attributes["dtype"]
    drawn = _drawn("RandomNormalLike", node, TensorProto.FLOAT if dtype in _BITS else dtype, emit)
    return emit.cast(drawn, dtype)


@handles(
    "RandomUniformInt", to="RandomUniformLike", dtypes=("int32", "int64"), differs=f"{_NOTE}; they have 53 random bits"
)
def random_uniform_int(node: Node, emit: Emitter) -> Tensor:
    """Integers from `minval` to below `maxval`, with `maxval` > `minval`, which TensorFlow checks."""
    low, high = (emit.cast(node[name], TensorProto.INT64) for name in ("minval", "maxval"))
    drawn = _drawn("RandomUniformLike", node, TensorProto.DOUBLE, emit)
    count = emit.op("Sub", high, low)
    steps = emit.op("Floor", emit.op("Mul", drawn, emit.cast(count, TensorProto.DOUBLE)))
    # The product may have been rounded up.
    steps = emit.op("Min", emit.cast(steps, TensorProto.INT64), emit.op("Sub", count, emit.constant(1)))
    return emit.cast(emit.op("Add", low, steps), node["minval"].dtype)


@handles("RandomShuffle", to="Gather", dtypes=("every type",), differs=_NOTE)
def random_shuffle(node: Node, emit: Emitter) -> Tensor:
    """The slices in a random order."""
    value = node["value"]
    if value.shape == ():
        return value
    rows = emit.size(value, 0)
    keys = emit.op("RandomUniformLike", _zeros(rows, TensorProto.DOUBLE, emit), dtype=TensorProto.DOUBLE, **_seed(node))
    _, order = emit.node("TopK", [keys, rows], [TensorProto.DOUBLE, TensorProto.INT64], axis=0)
    return emit.op("Gather", value, order, axis=0)


@handles(
    "Multinomial",
    to="Multinomial",
    dtypes=("float16", "float", "double"),
    differs=_NOTE,
    notes="num_samples is a constant",
)
def multinomial(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Classes drawn by the logarithms of their probabilities."""
    count = node["num_samples"].value
    if count is None:
        raise Unsupported("num_samples is not a constant")
    dtype: DType = node.attributes.get("output_dtype", TensorProto.INT64)
    logits = emit.cast(node["logits"], TensorProto.FLOAT)
    attributes = {"sample_size": int(count), "dtype": dtype, **_seed(node)}
    return emit.node("Multinomial", [logits], [dtype], **attributes)


def _drawn(op_type: str, node: Node, dtype: DType, emit: Emitter) -> Tensor:
    """Random numbers of the shape that a node asks for."""
    zeros = _zeros(node["shape"], dtype, emit)
    return emit.node(op_type, [zeros], [dtype], [zeros.shape], dtype=dtype, **_seed(node))[0]


def _zeros(shape: Tensor, dtype: DType, emit: Emitter) -> Tensor:
    """What a RandomUniformLike is like; a RandomUniform takes neither a shape that is not constant nor a scalar's."""
    known = None if shape.value is None else tuple(map(int, shape.value))
    return emit.op("Expand", emit.constant(0, dtype), emit.cast(shape, TensorProto.INT64), shape=known)


def _seed(node: Node) -> dict[str, Any]:
    """The seed, if the node has one; ONNX has one float, TensorFlow two integers."""
    first, second = (int(node.attributes.get(name, 0)) for name in ("seed", "seed2"))
    return {"seed": float((first * 31 + second) % 2**24)} if first or second else {}
