"""Functions of torch that its C++ composes of others, with sizes as numbers: torch.export makes constants of these.

Each is composed in Python here, of calls that keep sizes as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onnx_sparse.converters.torch.lazy_imports import require


@contextmanager
def composed(functions: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Let torch compose overloads of its operators by these functions, while it traces and decomposes."""
    torch = require("torch")
    keys = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)
    tables = [torch._decomp.decomposition_table, *(overload.py_kernels for overload in functions)]
    before = [dict(table) for table in tables]
    try:
        for overload, function in functions.items():
            torch._decomp.decomposition_table[overload] = function
            overload.py_kernels.update(dict.fromkeys(keys, function))
            overload._dispatch_cache.clear()  # of an earlier export
        yield
    finally:
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)
        for overload in functions:
            overload._dispatch_cache.clear()


def sizes_kept() -> Any:
    """A context in which the functions of this module keep the sizes of their arguments."""
    aten = require("torch").ops.aten
    return composed(
        {
            aten.max_pool1d.default: _max_pool1d,
            aten.kron.default: _kron,
            aten.fake_quantize_per_tensor_affine.default: _fake_quantize,
            aten.fake_quantize_per_tensor_affine.tensor_qparams: _fake_quantize,
            aten.fake_quantize_per_channel_affine.default: _fake_quantize_channels,
        }
    )


def _max_pool1d(
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """That of images of height 1."""
    steps = [1, *stride] if stride else []
    image = x.unsqueeze(-2)
    pooled = require("torch").ops.aten.max_pool2d(
        image, [1, *kernel_size], steps, [0, *padding], [1, *dilation], ceil_mode
    )
    return pooled.squeeze(-2)


def _kron(x: Any, y: Any) -> Any:
    """All products of an element of each, in blocks."""
    rank = max(x.dim(), y.dim())
    x, y = (t.reshape([1] * (rank - t.dim()) + list(t.shape)) for t in (x, y))
    blocks = x.reshape([each for size in x.shape for each in (size, 1)])
    blocks = blocks * y.reshape([each for size in y.shape for each in (1, size)])
    return blocks.reshape([one * other for one, other in zip(x.shape, y.shape, strict=True)])


def _fake_quantize(x: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    """The nearest of the steps, which NaN takes for the lowest; torch.export knows no shapes of torch's own."""
    torch = require("torch")
    scale = scale if isinstance(scale, torch.Tensor) else torch.full((), scale)
    wide = x if x.dtype == torch.float64 else x.float()
    step = (wide * scale.float().reciprocal()).round() + zero_point
    step = torch.where(step.isnan(), low, step).clamp(low, high)
    return ((step - zero_point) * scale).to(x.dtype)


def _fake_quantize_channels(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> Any:
    """As of tensors, with a scale and a zero point for each place along an axis."""
    if zero_point.is_floating_point():
        raise NotImplementedError("fake_quantize_per_channel_affine with zero points that are floats")
    form = [1] * x.dim()
    form[axis] = -1
    return _fake_quantize(x, scale.reshape(form), zero_point.reshape(form), low, high)
