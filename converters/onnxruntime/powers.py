"""Powers of integers, which ONNX Runtime computes as doubles."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS

#: Exponents of so many bits are multiplied out; greater ones stay.
_BITS = 6


class IntegerPower(Guard):
    """Powers of integers are doubles with 53 bits, and beyond the type's range the least integer: the 35th power of 3
    is off by 1.

    Squares are multiplied, which wraps. Negative exponents, and those from 64 on, stay.
    """

    name = "integer power"
    anchors = ("Pow",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("Pow", np.array([3]), np.array([35]), expected=np.array([3**35]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Integers to the power of integers."""
        base, exponent = map(graph.dtype, node.input)
        return base in (TensorProto.INT32, TensorProto.INT64) and exponent in (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply the squares of which the exponent has a bit."""
        emit = graph.emitter(node)
        base, given = map(graph.tensor, node.input)
        uniform = graph.uniform(node.input[1])
        if uniform is not None and 0 <= uniform < 1 << _BITS and given.shape is not None and len(given.shape) == 0:
            number, result, square = int(uniform), None, base
            while number:
                if number & 1:
                    result = square if result is None else emit.op("Mul", result, square)
                number >>= 1
                square = emit.op("Mul", square, square) if number else square
            one = emit.op("Mul", base, emit.like(0, base))
            graph.replace_by(node, [emit.op("Add", one, emit.like(1, base)) if result is None else result])
            return
        exponent = emit.cast(given, TensorProto.INT64)
        two, square = emit.constant(2), base
        power: Tensor = emit.like(1, base)
        for bit in range(_BITS):
            shifted = emit.op("Div", exponent, emit.constant(1 << bit)) if bit else exponent
            has_bit = emit.op("Equal", emit.op("Mod", shifted, two), emit.constant(1))
            power = emit.op("Mul", power, emit.op("Where", has_bit, square, emit.like(1, base)))
            square = emit.op("Mul", square, square)
        (left,) = emit.node("Pow", [base, given], [base.dtype])
        is_less = emit.op("Less", exponent, emit.constant(1 << _BITS))
        is_whole = emit.op("And", is_less, emit.op("GreaterOrEqual", exponent, emit.constant(0)))
        graph.replace(node, "Where", [is_whole, power, left])
