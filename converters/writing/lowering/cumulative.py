"""Products and sums up to each position, as a Scan: ONNX has no kernel for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

Step = Callable[[Tensor, Tensor, InferringEmitter], Tensor]


def cumulative_product(
    emit: InferringEmitter, x: Tensor, axis: int, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """For each position along an axis (>= 0), the product of the elements up to it, or before it if exclusive.

    Half floats are multiplied as float32, and each product is rounded once. Integers wrap.
    """
    return _cumulated(emit, x, axis, 1, _times, reverse, exclusive)


def cumulative_log_sum_exp(
    emit: InferringEmitter, x: Tensor, axis: int, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """For each position along an axis (>= 0), the logarithm of the sum of the exponentials; of nothing it is -inf."""
    return _cumulated(emit, x, axis, float("-inf"), _log_add_exp, reverse, exclusive)


def product(emit: InferringEmitter, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The product along axes (>= 0), which keep the size 1, in the type of the elements."""
    for axis in axes:
        made, _ = _scanned(emit, x, _beside(emit, x, axis, 1), axis, False, False, _times)
        x = emit.op("Unsqueeze", made, emit.constant([axis]))
    return x


def _cumulated(
    emit: InferringEmitter, x: Tensor, axis: int, start: float, step: Step, reverse: bool, exclusive: bool
) -> Tensor:
    def compute(wide: Tensor) -> Tensor:
        return _scanned(emit, wide, _beside(emit, wide, axis, start), axis, reverse, exclusive, step)[1]

    return emit.in_float32(compute, x)


def _beside(emit: InferringEmitter, x: Tensor, axis: int, start: float) -> Tensor:
    """A number for each place of the other axes."""
    others = emit.constant([k for k in range(x.rank) if k != axis])
    return emit.op("Expand", emit.like(start, x), emit.op("Gather", emit.shape_of(x), others))


def _times(a: Tensor, b: Tensor, emit: InferringEmitter) -> Tensor:
    return emit.op("Mul", a, b)


def _scanned(
    emit: InferringEmitter, x: Tensor, start: Tensor, axis: int, from_end: bool, is_exclusive: bool, step: Step
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
