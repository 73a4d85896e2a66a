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
    return composed({aten.max_pool1d.default: _max_pool1d})


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
