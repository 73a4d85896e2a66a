"""Numbers rounded to those that a smaller type has."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import dtype_name

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
#: The 8-bit floats by OpenVINO's names.
_FLOAT8 = {"f8e4m3": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2}


@handles("FakeQuantize-1", to="Round, Where")
def fake_quantize(node: Node, emit: InferringEmitter) -> Tensor:
    """FakeQuantize-1: round x to one of `levels` steps from input_low to input_high, mapped to the output range.

    x <= min(low, high) becomes output_low, x > max(low, high) output_high.
    """
    if node.choice("auto_broadcast", ("numpy", "none", "pdpd"), "numpy") == "pdpd":
        raise Unsupported("auto_broadcast = 'pdpd' is not supported")
    x = node[0]
    low, high, out_low, out_high = (emit.cast(node[k], x.dtype) for k in range(1, 5))
    steps = emit.like(node.integer("levels") - 1, x)
    scaled = emit.op("Mul", emit.op("Div", emit.op("Sub", x, low), emit.op("Sub", high, low)), steps)
    unit = emit.op("Div", emit.op("Round", scaled), steps)
    inner = emit.op("Add", emit.op("Mul", unit, emit.op("Sub", out_high, out_low)), out_low)
    below = emit.op("LessOrEqual", x, emit.op("Min", low, high))
    above = emit.op("Greater", x, emit.op("Max", low, high))
    kept = emit.op("Where", above, out_high, inner)
    return emit.op("Where", below, out_low, kept)


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
