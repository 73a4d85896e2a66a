"""Numbers rounded to those that a smaller type has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import dtype_name

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
#: The most levels of integers of 8 bits.
_MOST_LEVELS = 256
#: The 8-bit floats by OpenVINO's names.
_FLOAT8 = {"f8e4m3": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2}


@handles("FakeQuantize-1", to="Round, Where", notes="Constants become integers and their scale.")
def fake_quantize(node: Node, emit: InferringEmitter) -> Tensor:
    """FakeQuantize-1: round x to one of `levels` steps from input_low to input_high, mapped to the output range.

    x <= min(low, high) becomes output_low, x > max(low, high) output_high.
    """
    if node.choice("auto_broadcast", ("numpy", "none", "pdpd"), "numpy") == "pdpd":
        raise Unsupported("auto_broadcast = 'pdpd' is not supported")
    has_wide_limits = any(node[k].dtype == TensorProto.FLOAT for k in range(1, 5))
    x = emit.wide(node[0]) if has_wide_limits else node[0]
    low, high, out_low, out_high = (emit.cast(node[k], x.dtype) for k in range(1, 5))
    levels = node.integer("levels")
    known = [node.known(k) for k in range(5)]
    if all(value is not None for value in known):
        return emit.cast(_rounded([v.astype(np.float32) for v in known if v is not None], levels, emit), node[0].dtype)
    steps = emit.like(levels - 1, x)
    scaled = emit.op("Mul", emit.op("Div", emit.op("Sub", x, low), emit.op("Sub", high, low)), steps)
    unit = emit.op("Div", emit.op("Round", scaled), steps)
    inner = emit.op("Add", emit.op("Mul", unit, emit.op("Sub", out_high, out_low)), out_low)
    below = emit.op("LessOrEqual", x, emit.op("Min", low, high))
    above = emit.op("Greater", x, emit.op("Max", low, high))
    kept = emit.op("Where", above, out_high, inner)
    return emit.cast(emit.op("Where", below, out_low, kept), node[0].dtype)


def _rounded(values: Sequence[Array], levels: int, emit: InferringEmitter) -> Tensor:
    """What FakeQuantize makes of constants: integers that ONNX Runtime turns into floats when it loads the model."""
    x, low, high, out_low, out_high = values
    steps, size = np.float32(levels - 1), out_high - out_low
    with np.errstate(all="ignore"):  # a range of no size
        places = np.rint((x - low) / (high - low) * steps)
    places = np.where(x <= np.minimum(low, high), np.float32(0), np.where(x > np.maximum(low, high), steps, places))
    made = np.asarray(places / steps * size + out_low, np.float32)
    is_whole = levels <= _MOST_LEVELS and bool((low < high).all()) and bool(((places >= 0) & (places <= steps)).all())
    if not is_whole:
        return emit.constant(made)
    whole = emit.cast(emit.constant(places.astype(np.uint8)), TensorProto.FLOAT)
    scaled = emit.op("Mul", emit.op("Div", whole, emit.like(levels - 1, whole)), emit.constant(np.asarray(size)))
    return emit.op("Add", scaled, emit.constant(np.asarray(out_low)), shape=made.shape)


@handles("FakeConvert-13", to="Cast", notes="Of float, float16 and bfloat16. NaN stays NaN.")
def fake_convert(node: Node, emit: InferringEmitter) -> Tensor:
    """FakeConvert-13: (x, scale, shift): x * scale - shift rounded to an 8-bit float, and scaled back.

    It is rounded to a float16 before, as by OpenVINO. Beyond the largest number of the type, the result is that number.
    """
    if node[0].dtype not in _FLOATS:
        raise Unsupported(f"x has the type {dtype_name(node[0].dtype)}; float, float16 and bfloat16 are supported")
    to = _FLOAT8[node.choice("destination_type", tuple(_FLOAT8), "f8e4m3")]
    emit.require_opset(19)
    x, scale = (emit.cast(node[k], TensorProto.FLOAT) for k in (0, 1))
    shift = None if node.optional(2) is None else emit.cast(node[2], TensorProto.FLOAT)
    made = emit.op("Mul", x, scale)
    if shift is not None:
        made = emit.op("Sub", made, shift)
    made = emit.op("Cast", emit.cast(made, TensorProto.FLOAT16), to=to, dtype=to)
    made = emit.op("Cast", made, to=TensorProto.FLOAT, dtype=TensorProto.FLOAT)
    if shift is not None:
        made = emit.op("Add", made, shift)
    return emit.cast(emit.op("Div", made, scale), node[0].dtype)
