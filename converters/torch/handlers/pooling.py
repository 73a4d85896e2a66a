"""avg_pool2d and avg_pool3d, of which torch's exporter ignores the divisor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.avg_pool2d.default", to="AveragePool")
def average_pool_2d(node: Node, emit: TorchEmitter) -> Tensor:
    """The means of windows of [N, C, H, W] or [C, H, W]."""
    return _average_pool(node, emit, 2)


@handles("aten.avg_pool3d.default", to="AveragePool")
def average_pool_3d(node: Node, emit: TorchEmitter) -> Tensor:
    """The means of windows of [N, C, D, H, W] or [C, D, H, W]."""
    return _average_pool(node, emit, 3)


def _average_pool(node: Node, emit: TorchEmitter, dims: int) -> Tensor:
    """The means of windows along the last dimensions; their sums by `divisor_override` where that is given.

    Raises:
        Unsupported: A window that ends beyond the padding is divided by a given number, or elements are integers.
    """
    given, divisor = node.tensor("self"), node.optional_integer("divisor_override")
    kernel, strides, pads = (_of_each(node, name, dims) for name in ("kernel_size", "stride", "padding"))
    ceil = node.flag("ceil_mode")
    if given.dtype not in FLOATS:
        raise Unsupported("integers, whose means torch rounds; floats expected")
    if divisor is not None and ceil:
        raise Unsupported("divisor_override with ceil_mode: AveragePool divides the last windows by their own sizes")
    includes = node.flag("count_include_pad") or divisor is not None
    is_one = given.rank == dims + 1
    x = emit.wide(given)
    if is_one:
        x = emit.op("Unsqueeze", x, emit.constant([0]))
    made = emit.op(
        "AveragePool",
        x,
        kernel_shape=kernel,
        strides=strides or kernel,
        pads=pads * 2,
        ceil_mode=int(ceil),
        count_include_pad=int(includes),
        shape=(*x.shape[:2], *[None] * dims) if x.shape else None,
    )
    if divisor is not None:
        made = emit.op("Mul", made, emit.like(math.prod(kernel) / divisor, made))
    return emit.cast(emit.op("Squeeze", made, emit.constant([0])) if is_one else made, given.dtype)


def _of_each(node: Node, name: str, dims: int) -> list[int]:
    """A number for each dimension; none where none is given.

    Raises:
        Unsupported: One is known only when the model runs.
    """
    numbers = [number for number in node.numbers(name) if isinstance(number, int)]
    if len(numbers) != len(node.numbers(name)):
        raise Unsupported(f"{name} depends on a size; constant integers expected")
    return numbers * dims if len(numbers) == 1 else numbers
