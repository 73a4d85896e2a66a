"""tf.raw_ops.Prod of doubles, Cumprod and CumulativeLogsumexp, as a Scan: ONNX has no kernel for them."""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.math.reductions import reduce
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import HALF_FLOATS

Step = Callable[[Tensor, Tensor, InferringEmitter], Tensor]


@handles("Cumprod", inputs=("x", "axis"), to="Scan", dtypes=("all numbers",))
def cumulative_product(node: Node, emit: InferringEmitter) -> Tensor:
    """For each position, the product of the elements up to it."""
    return _cumulated(node, 1, _times, emit)


@handles("CumulativeLogsumexp", inputs=("x", "axis"), to="Scan", dtypes=("float16", "bfloat16", "float", "double"))
def cumulative_log_sum_exp(node: Node, emit: InferringEmitter) -> Tensor:
    """For each position, the logarithm of the sum of the exponentials up to it."""
    return _cumulated(node, float("-inf"), _log_add_exp, emit)


@handles("Prod", inputs=("input", "reduction_indices"), to="ReduceProd", dtypes=("all numbers",),
         differs="integers beyond 2^53 are rounded")  # fmt: skip
def product(node: Node, emit: InferringEmitter) -> Tensor:
    """The product along axes; that of doubles is not rounded to float."""
    x = node["input"]
    if x.dtype != TensorProto.DOUBLE:
        return reduce(node, emit)
    axes = sorted({x.axis(axis) for axis in node["reduction_indices"].integers("the axes")})
    for axis in axes:
        made, _ = _scanned(x, _beside(x, axis, 1, emit), axis, False, False, _times, emit)
        x = emit.op("Unsqueeze", made, emit.constant([axis]))
    if not axes or node.attributes["keep_dims"]:
        return x
    return emit.op("Squeeze", x, emit.constant(axes))


def _cumulated(node: Node, start: float, step: Step, emit: InferringEmitter) -> Tensor:
    x = node["x"]
    axis = x.axis(node["axis"].integer("axis"))
    wide = emit.cast(x, TensorProto.FLOAT) if x.dtype in HALF_FLOATS else x
    flags = (bool(node.attributes["reverse"]), bool(node.attributes["exclusive"]))
    _, made = _scanned(wide, _beside(wide, axis, start, emit), axis, *flags, step, emit)
    return emit.cast(made, x.dtype)


def _beside(x: Tensor, axis: int, start: float, emit: InferringEmitter) -> Tensor:
    """A number for each place of the other axes."""
    others = emit.constant([k for k in range(x.rank) if k != axis])
    return emit.op("Expand", emit.like(start, x), emit.op("Gather", emit.shape_of(x), others))


def _times(a: Tensor, b: Tensor, emit: InferringEmitter) -> Tensor:
    return emit.op("Mul", a, b)


def _scanned(
    x: Tensor, start: Tensor, axis: int, from_end: bool, is_exclusive: bool, step: Step, emit: InferringEmitter
) -> tuple[Tensor, Tensor]:
    """What the last step makes, and what each step makes along the axis, or what was before each."""
    shape = None if x.shape is None else tuple(size for k, size in enumerate(x.shape) if k != axis)
    body = emit.body()
    before, here = (Tensor(emit.names.fresh(name), x.dtype, shape) for name in ("before", "here"))
    after = step(before, here, body)
    (shown,) = body.node("Identity", [before if is_exclusive else after], [x.dtype], [shape])
    graph = body.graph("step", [value_info(before), value_info(here)], [value_info(after), value_info(shown)])
    way = [int(from_end)]
    last, each = emit.node(
        "Scan", [start, x], [x.dtype, x.dtype], [start.shape, x.shape], body=graph, num_scan_inputs=1,
        scan_input_axes=[axis], scan_output_axes=[axis], scan_input_directions=way, scan_output_directions=way,
    )  # fmt: skip
    return last, each


def _log_add_exp(a: Tensor, b: Tensor, emit: InferringEmitter) -> Tensor:
    high, low = emit.op("Max", a, b), emit.op("Min", a, b)
    lowest = emit.like(float("-inf"), a)
    less = emit.op("Where", emit.op("Equal", low, lowest), lowest, emit.op("Sub", low, high))
    more = emit.op("Log", emit.op("Add", emit.like(1, a), emit.op("Exp", less)))
    return emit.op("Add", high, more)
