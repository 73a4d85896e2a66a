"""Draws graphs of a few nodes around the rewrites of ONNX Runtime's optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from drawing.operands import sizes
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.drawn_nodes import Array, Rng, pick

from onnx_sparse.schemas.element_types import element_type

OPSET = 18
_DTYPES = ("float32", "float32", "float32", "float64", "float16", "int32", "int64")


@dataclass
class Chain:
    """A graph while it is drawn, with the value of each of its tensors.

    Attributes:
        nodes: Its nodes.
        feeds: What is fed, and `constants` what is not.
        values: All tensors.
        last: The name of the tensor that the next node reads.
    """

    rng: Rng
    nodes: list[NodeProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    last: str = ""

    @property
    def array(self) -> Array:
        """The value of the last tensor."""
        return self.values[self.last]

    def given(self, array: Any, *, constant: float = 0.5) -> str:
        """An operand that is fed, or with that probability constant."""
        name, held = f"i{len(self.values)}", np.asarray(array)
        self.values[name] = held
        (self.constants if self.rng.random() < constant else self.feeds)[name] = held
        return name

    def numbers(self, *shape: int, constant: float = 0.5) -> str:
        """An operand of small whole numbers, of the last tensor's type."""
        return self.given(self.rng.integers(-3, 4, shape).astype(self.array.dtype), constant=constant)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node, whose result is the last tensor then."""
        name = f"t{len(self.values)}"
        node = helper.make_node(op_type, inputs, [name], **attributes)
        types = {name: element_type(self.values[name].dtype) for name in inputs if name}
        ports = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in types.items()]
        graph = helper.make_graph([node], "one", ports, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
        one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        with np.errstate(all="ignore"):
            (value,) = ReferenceEvaluator(one).run(None, {i: self.values[i] for i in inputs if i})
        self.nodes.append(node)
        self.values[name], self.last = np.asarray(value), name
        return name

    def model(self) -> ModelProto:
        """The model; what no node reads is an output, and perhaps one more. Some sizes are not known to it."""
        read = {name for node in self.nodes for name in node.input}
        made = [node.output[0] for node in self.nodes]
        outputs = [name for name in made if name not in read]
        if self.rng.random() < 0.25:
            outputs = list(dict.fromkeys([*outputs, pick(self.rng, *made)]))
        is_known = self.rng.random()
        ports = []
        for name, array in self.feeds.items():
            if name in read:
                dims: list[Any] = [*array.shape]
                if is_known > 0.6:
                    dims = [n if self.rng.random() < 0.5 else f"{name}_{k}" for k, n in enumerate(dims)]
                shape = dims if is_known < 0.9 else None
                ports.append(helper.make_tensor_value_info(name, element_type(array.dtype), shape))
        held = [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in read]
        results = [helper.make_tensor_value_info(o, element_type(self.values[o].dtype), None) for o in outputs]
        graph = helper.make_graph(self.nodes, "drawn", ports, results, held)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", OPSET)])


def _is_float(c: Chain) -> bool:
    return c.array.dtype.kind == "f"


def transpose(c: Chain) -> None:
    rank = c.array.ndim
    order = [*range(rank)]
    if rank >= 2 and c.rng.random() < 0.5:
        order[-2:] = order[-2:][::-1]
    else:
        order = [int(axis) for axis in c.rng.permutation(rank)]
    c.op("Transpose", c.last, perm=order)


def identity(c: Chain) -> None:
    c.op(pick(c.rng, "Identity", "Identity", "Dropout"), c.last)


def cast(c: Chain) -> None:
    to = pick(c.rng, "float32", "float64", "float16", "int32", "int64")
    c.op("Cast", c.last, to=element_type(np.dtype(to)))


def matmul(c: Chain) -> None:
    """By a vector, a matrix or several, from either side."""
    rank, shape = c.array.ndim, c.array.shape
    if not rank:
        return unary(c)
    wide = int(pick(c.rng, 0, 1, 2, 3))
    if c.rng.random() < 0.7 or rank == 1:
        other = pick(c.rng, (shape[-1],), (shape[-1], wide), (*shape[:-2], shape[-1], wide), (1, shape[-1], wide))
        c.op("MatMul", c.last, c.numbers(*other))
    else:
        other = pick(c.rng, (shape[-2],), (wide, shape[-2]), (*shape[:-2], wide, shape[-2]))
        c.op("MatMul", c.numbers(*other), c.last)


def bias(c: Chain) -> None:
    shape = c.array.shape
    other = pick(c.rng, shape[-1:], shape, (), (1,), (1, *shape[1:]), shape[:-1] + (1,) * bool(shape))
    pair = [c.last, c.numbers(*other, constant=0.7)]
    c.op(pick(c.rng, "Add", "Add", "Sub", "Mul"), *pair[:: int(pick(c.rng, 1, 1, -1))])


def neutral(c: Chain) -> None:
    """What changes nothing, but perhaps the shape."""
    kind = pick(c.rng, "Mul", "Div", "Add", "Sub")
    number = np.full(pick(c.rng, (), (1,), (1, 1), (1,) * 5), kind in ("Mul", "Div"), c.array.dtype)
    c.op(kind, c.last, c.given(number, constant=0.9))


def scale(c: Chain) -> None:
    number = np.full(pick(c.rng, (), (1,)), pick(c.rng, 2, 0.5, -1, 4), c.array.dtype)
    c.op("Mul" if not _is_float(c) else pick(c.rng, "Mul", "Div"), c.last, c.given(number, constant=0.9))


def unary(c: Chain) -> None:
    if _is_float(c) and c.array.dtype.itemsize == 4:
        kind = pick(c.rng, "Relu", "Sigmoid", "Tanh", "Neg", "LeakyRelu", "Abs", "Clip", "Erf")
    else:
        kind = pick(c.rng, "Neg", "Abs")
    if kind == "Clip":
        low, high = sorted(c.rng.integers(-2, 3, 2))
        ends = [c.given(np.array(n, c.array.dtype), constant=0.8) for n in (low, high)]
        c.op("Clip", c.last, *pick(c.rng, ends, ends[:1], ["", ends[1]]))
    else:
        c.op(kind, c.last)


def clips(c: Chain) -> None:
    if _is_float(c) and c.array.dtype.itemsize == 4:
        c.op("Relu", c.last)
        ends = [c.given(np.array(n, c.array.dtype), constant=0.9) for n in pick(c.rng, (-1, 2), (-3, -1), (1, 2))]
        c.op("Clip", c.last, *pick(c.rng, ends, ends[:1], ["", ends[1]]))


def reshape(c: Chain) -> None:
    shape = c.array.shape
    kinds = [("whole", shape), ("flat", (-1,)), ("one more", (*shape, 1)), ("before", (1, *shape))]
    _, wanted = pick(c.rng, *kinds)
    if -1 in wanted and not c.array.size:
        wanted = (0,)
    allow = {"allowzero": 1} if 0 in wanted else {}
    c.op("Reshape", c.last, c.given(np.array(wanted, np.int64), constant=0.8), **allow)


def joined_reshape(c: Chain) -> None:
    """To sizes that are joined: of the tensor's own axes, which may be multiplied, and numbers."""
    x, shape = c.last, c.array.shape
    ends = sorted({len(shape), *c.rng.integers(0, len(shape) + 1, 2).tolist()} - {0})
    own = c.op("Shape", x)
    parts, wanted = [], []
    for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        size = int(np.prod(shape[start:end]))
        kind = pick(c.rng, "number", "vector", "vector", "scalar", "copy")
        if kind == "number" or (kind == "copy" and (start, end) != (place, place + 1)):
            parts.append(c.given(np.array([size]), constant=1))
        elif kind == "copy":
            parts.append(c.given(np.array([0]), constant=1))
        elif kind == "scalar" and end == start + 1:
            taken = c.op("Gather", own, c.given(np.array(start), constant=1))
            parts.append(c.op("Unsqueeze", taken, c.given(np.array([0]), constant=1)))
        else:
            taken = c.op("Gather", own, c.given(np.arange(start, end), constant=1))
            parts.append(c.op("ReduceProd", taken) if end > start + 1 else taken)
        wanted.append(size)
    if not parts:
        parts, wanted = [c.given(np.array([1]), constant=1)], [1]
    is_copied = all(size or shape[place : place + 1] == (0,) for place, size in enumerate(wanted))
    c.op("Reshape", x, c.op("Concat", *parts, axis=0), **({} if is_copied else {"allowzero": 1}))


def squeeze(c: Chain) -> None:
    axis = int(c.rng.integers(-c.array.ndim - 1, c.array.ndim + 1))
    c.op("Unsqueeze", c.last, c.given(np.array([axis]), constant=0.9))
    if c.rng.random() < 0.6:
        axis = pick(c.rng, *(k for k, size in enumerate(c.array.shape) if size == 1))
        c.op("Squeeze", c.last, c.given(np.array([axis]), constant=0.9))


def cut(c: Chain) -> None:
    """A Slice or two, or a Gather, whose ends may be beyond, negative or the same."""
    if not c.array.ndim:
        return unary(c)
    axis = int(c.rng.integers(c.array.ndim))
    size = c.array.shape[axis]
    if c.rng.random() < 0.4 and size:
        places = c.rng.integers(-size, size, pick(c.rng, (), (1,), (2,), (0,)))
        c.op("Gather", c.last, c.given(np.asarray(places), constant=0.8), axis=axis)
        return None
    for _ in range(int(pick(c.rng, 1, 1, 2))):
        step = int(pick(c.rng, 1, 1, 1, 2, -1))
        # What begins before the first element and goes down is one element to some, none to others.
        begin, end = int(c.rng.integers(-size, size + 2)), int(c.rng.integers(-size - 1, size + 2))
        if c.rng.random() < 0.4:
            begin, end = (0, 2**63 - 1) if step > 0 else (-1, -(2**63))
        parts = (np.array([n], np.int64) for n in (begin, end, axis, step))
        c.op("Slice", c.last, *(c.given(part, constant=0.9) for part in parts))
    return None


def expand(c: Chain) -> None:
    wanted = [int(pick(c.rng, 0, 1, 2)) if n == 1 else int(pick(c.rng, 1, n)) for n in c.array.shape]
    before = [int(pick(c.rng, 0, 1, 2)) for _ in range(int(pick(c.rng, 0, 0, 1)))]
    c.op("Expand", c.last, c.given(np.array([*before, *wanted], np.int64), constant=0.8))


def where(c: Chain) -> None:
    flags = c.given(c.rng.random(pick(c.rng, c.array.shape, c.array.shape[-1:], ())) < 0.5, constant=0.3)
    last, other = c.last, c.numbers(*pick(c.rng, c.array.shape, ()))
    if c.rng.random() < 0.7:
        flags = c.op("Not", flags)
    c.op("Where", flags, *pick(c.rng, (last, other), (other, last)))


def concat(c: Chain) -> None:
    """Twice the same, or parts of it that were split."""
    if not c.array.ndim:
        return unary(c)
    axis = int(c.rng.integers(-c.array.ndim, c.array.ndim))
    c.op("Concat", *[c.last] * int(pick(c.rng, 1, 2, 3)), axis=axis)
    if c.rng.random() < 0.5:
        cut(c)
    return None


def reduce(c: Chain) -> None:
    if not c.array.ndim or (c.array.dtype.kind == "f" and c.array.dtype.itemsize == 2):
        return unary(c)
    axes = [axis for axis in range(c.array.ndim) if c.rng.random() < 0.5]
    kind = pick(c.rng, "ReduceSum", "ReduceSum", *(["ReduceMean"] if _is_float(c) and 0 not in c.array.shape else []))
    c.op(kind, c.last, c.given(np.array(axes, np.int64), constant=0.9), keepdims=int(pick(c.rng, 0, 1)))
    return None


def softmax(c: Chain) -> None:
    if _is_float(c) and c.array.ndim and c.array.size:
        c.op(pick(c.rng, "Softmax", "LogSoftmax"), c.last, axis=int(c.rng.integers(-c.array.ndim, c.array.ndim)))


def twice(c: Chain) -> None:
    """The same node twice: a common subexpression."""
    last, kind = c.last, pick(c.rng, "Neg", "Abs")
    one, other = c.op(kind, last), c.op(kind, last)
    c.op(pick(c.rng, "Add", "Sub", "Mul"), one, other)


def layer_norm(c: Chain) -> None:
    """As exporters write it, with or without what is added before and after; or without a mean."""
    if not _is_float(c) or not c.array.ndim or 0 in c.array.shape or c.array.dtype.itemsize == 2:
        return unary(c)
    if c.rng.random() < 0.4:
        c.op("Add", c.last, c.numbers(*c.array.shape))
    x, dtype, width = c.last, c.array.dtype, c.array.shape[-1:]
    axes = c.given(np.array([pick(c.rng, -1, c.array.ndim - 1, 0)]), constant=1)
    keep = int(pick(c.rng, 1, 1, 1, 0))
    centered = x
    if c.rng.random() < 0.7:
        centered = c.op("Sub", x, c.op("ReduceMean", x, axes, keepdims=keep))
    squares = c.op("Pow", centered, c.given(np.array(2, dtype), constant=1))
    spread = c.op("Add", c.op("ReduceMean", squares, axes, keepdims=1), c.given(np.array(0.25, dtype), constant=1))
    root = c.op("Sqrt", spread)
    c.op("Div", centered, root)
    scaled = c.op("Mul", c.last, c.numbers(*pick(c.rng, width, width, (), (1,), (1, *width)), constant=0.9))
    if c.rng.random() < 0.7:
        c.op("Add", scaled, c.numbers(*pick(c.rng, width, width, (), (2, *width)), constant=0.9))
    return None


def gelu(c: Chain) -> None:
    """By an error function or by a hyperbolic tangent, of a sum or not."""
    if c.array.dtype != np.float32:
        return unary(c)
    if c.rng.random() < 0.5 and c.array.ndim:
        c.op("Add", c.last, c.numbers(*pick(c.rng, c.array.shape[-1:], c.array.shape)))
    x = c.last

    def number(value: float) -> str:
        return c.given(np.full(pick(c.rng, (), (), (1,)), value, np.float32), constant=1)

    if c.rng.random() < 0.6:
        inner = c.op("Erf", c.op("Div", x, number(pick(c.rng, 2**0.5, 1.4142, 2))))
    else:
        cube = c.op("Mul", number(0.044715), c.op("Pow", x, number(3)))
        inner = c.op("Tanh", c.op("Mul", number(pick(c.rng, 0.7978845, 0.8)), c.op("Add", x, cube)))
    whole = c.op("Add", inner, number(1))
    if c.rng.random() < 0.5:
        c.op("Mul", c.op("Mul", x, whole), number(pick(c.rng, 0.5, 0.5, 1)))
    else:
        c.op("Mul", c.op("Mul", x, number(0.5)), whole)
    return None


def quantize(c: Chain) -> None:
    """To 8 bits and back, once or twice, per tensor or per axis, with something between."""
    if c.array.dtype != np.float32:
        return unary(c)
    for _ in range(int(pick(c.rng, 1, 1, 2))):
        axis = int(c.rng.integers(c.array.ndim)) if c.array.ndim and c.rng.random() < 0.3 else None
        shape = () if axis is None else (c.array.shape[axis],)
        step = c.given(np.full(shape, pick(c.rng, 0.25, 0.5, 1), np.float32), constant=1)
        zero = c.given(np.full(shape, pick(c.rng, 0, 3), pick(c.rng, "int8", "uint8")), constant=1)
        attributes = {} if axis is None else {"axis": axis}
        c.op("QuantizeLinear", c.last, step, zero, **attributes)
        if c.rng.random() < 0.4:
            pick(c.rng, transpose, reshape, squeeze)(c) if axis is None else None
        c.op("DequantizeLinear", c.last, step, zero, **attributes)
    return None


def convolution(c: Chain) -> None:
    """Padded or not; then scaled, added to, normalized or activated."""
    kind, spatial = c.array.dtype, int(pick(c.rng, 1, 2))
    if kind != np.float32:
        return unary(c)
    channels = int(pick(c.rng, 1, 2))
    c.last = c.numbers(int(pick(c.rng, 0, 1, 2)), channels, *[int(pick(c.rng, 3, 4))] * spatial, constant=0)
    if c.rng.random() < 0.4:
        ends = [int(n) for n in c.rng.integers(0, 2, 2 * (spatial + 2))]
        ends[0:2] = ends[spatial + 2 : spatial + 4] = [0, int(c.rng.random() < 0.1)]
        c.op("Pad", c.last, c.given(np.array(ends), constant=1), c.given(np.float32(pick(c.rng, 0, 0, 1)), constant=1))
        channels = c.array.shape[1]
    out = int(pick(c.rng, 1, 2))
    operands = [c.numbers(out, channels, *[int(pick(c.rng, 1, 2))] * spatial, constant=0.8)]
    if c.rng.random() < 0.5:
        operands.append(c.numbers(out, constant=0.8))
    c.op("Conv", c.last, *operands)
    for _ in range(int(pick(c.rng, 1, 2))):
        column = (1, out, *[1] * spatial)
        after = pick(c.rng, "Add", "Mul", "norm", "activation")
        if after == "norm":
            parts = [c.numbers(out, constant=1) for _ in range(3)]
            c.op("BatchNormalization", c.last, *parts, c.given(np.ones(out, np.float32), constant=1))
        elif after == "activation":
            unary(c)
        else:
            c.op(after, c.last, c.numbers(*pick(c.rng, column, column[1:], (), c.array.shape), constant=0.8))
    return None


def gemm(c: Chain) -> None:
    if c.array.ndim != 2 or not _is_float(c):
        return matmul(c)
    flags, wide = {name: int(c.rng.random() < 0.5) for name in ("transA", "transB")}, int(pick(c.rng, 0, 1, 2))
    inner, rows = c.array.shape[:: 1 if flags["transA"] else -1]
    other = c.numbers(*((wide, inner) if flags["transB"] else (inner, wide)))
    more = [c.numbers(*pick(c.rng, (wide,), (rows, wide), (1, wide), (rows, 1), ()))] * int(c.rng.random() < 0.6)
    c.op("Gemm", c.last, other, *more, **flags, alpha=float(pick(c.rng, 1, 2, 0.5)), beta=float(pick(c.rng, 1, 0, 2)))
    return None


#: What is drawn around each of the optimizer's rewrites: steps one after the other. "*" is any step, or none.
REWRITES: dict[str, Sequence[Callable[[Chain], None]]] = {
    "MatMulTransposeFusion": (transpose, identity, matmul),
    "MatMulAddFusion": (matmul, bias),
    "MatMulScaleFusion": (scale, matmul, scale),
    "GemmActivationFusion": (gemm, unary),
    "GemmTransposeFusion": (transpose, gemm, transpose),
    "GemmSumFusion": (gemm, bias),
    "LayerNormFusion": (layer_norm,),
    "GeluFusion": (gelu,),
    "QDQPropagation": (quantize, transpose, quantize),
    "ConvFusions": (convolution,),
    "ReshapeFusion": (joined_reshape, reshape),
    "UnsqueezeElimination": (squeeze, squeeze),
    "SliceElimination": (cut, cut),
    "CastElimination": (cast, cast, cast),
    "WhereDummyDq": (where, quantize),
    "NotWhereFusion": (where, where),
    "ConcatSliceElimination": (concat, cut),
    "TransposeOptimizer": (transpose, unary, transpose),
    "TransposeAndReduce": (transpose, reduce, transpose),
    "ExpandElimination": (expand, bias),
    "NoopElimination": (neutral, neutral),
    "IdentityElimination": (identity, identity),
    "CommonSubexpressionElimination": (twice,),
    "ReluClip": (clips,),
    "SoftmaxFusion": (transpose, softmax, transpose),
}
_STEPS = tuple(dict.fromkeys(step for steps in REWRITES.values() for step in steps))


def draw(rng: Rng, rewrite: str) -> Chain:
    """A graph around a rewrite, with other nodes before, between and after."""
    chain = Chain(rng)
    dtype = pick(rng, *_DTYPES)
    start = rng.integers(-3, 4, [min(n, 5) for n in sizes(rng, int(rng.integers(0, 5)))]).astype(dtype)
    chain.last = chain.given(start, constant=0.1)
    if rng.random() < 0.3:
        pick(rng, unary, bias)(chain)  # so that what is read is computed
    for step in REWRITES[rewrite]:
        if rng.random() < 0.15:
            pick(rng, *_STEPS)(chain)
        step(chain)
        if rng.random() < 0.15:  # something else reads it, too
            last = chain.last
            pick(rng, unary, identity, reduce)(chain)
            chain.last = last
    if rng.random() < 0.4:
        pick(rng, *_STEPS)(chain)
    return chain
