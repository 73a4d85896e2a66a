"""Puts stand-ins in the place of sparse matrices while a module is exported: torch.export has no sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from onnx_sparse.converters.torch.sparse_matrices import FUNCTIONS, SparseMatrix


@contextmanager
def sparse_matrices_replaced(module: torch.nn.Module) -> Iterator[None]:
    """While this lasts, stand-ins take the place of sparse matrices: those that a module holds, and those it makes."""
    replaced = []
    try:
        for part in module.modules():
            for held in (part._buffers, part._parameters, vars(part)):
                for name, value in list(held.items()):
                    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                        replaced.append((part, held, name, value))
                        held[name] = None
                        vars(part)[name] = SparseMatrix.of(value)
        with _Making():
            yield
    finally:
        for part, held, name, value in replaced:
            del vars(part)[name]
            held[name] = value


class _Making(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Lets torch's functions that make a sparse matrix make a stand-in, and puts one in the place of each sparse matrix
    that they are given: a module may hold it in a list, in any object or in none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stand_ins: dict[int, tuple[torch.Tensor, SparseMatrix]] = {}  # with the matrix, so that its id stays

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in _MAKERS:
            return _MAKERS[func](*args, **named)
        if not any(_is_sparse(value) for value in (*args, *named.values())):
            return func(*args, **named)
        function = FUNCTIONS.get(func) or vars(SparseMatrix).get(getattr(func, "__name__", ""))
        if not callable(function):  # a property, such as the shape, or a conversion, which a matrix itself answers
            return func(*args, **named)
        return function(*map(self._replaced, args), **{name: self._replaced(value) for name, value in named.items()})

    def _replaced(self, value: Any) -> Any:
        if not _is_sparse(value):
            return value
        if id(value) not in self._stand_ins:
            with torch.utils._python_dispatch._disable_current_modes():
                self._stand_ins[id(value)] = value, SparseMatrix.of(value)
        return self._stand_ins[id(value)][1]


def _is_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor of torch."""
    if not isinstance(value, torch.Tensor):
        return False
    with torch._C.DisableTorchFunction():
        return value.layout in (torch.sparse_coo, torch.sparse_csr)


def _coo(
    indices: torch.Tensor, values: Any, size: Any = None, *, is_coalesced: bool | None = None, **options: Any
) -> SparseMatrix:
    rows, columns = indices
    return _made(rows, columns, values, size, False, bool(is_coalesced), **options)


def _csr(
    crow_indices: torch.Tensor, col_indices: torch.Tensor, values: Any, size: Any = None, **options: Any
) -> SparseMatrix:
    return _made(crow_indices, col_indices, values, size, True, True, **options)


def _made(
    rows: torch.Tensor,
    columns: torch.Tensor,
    values: Any,
    size: Any,
    compressed: bool,
    coalesced: bool,
    *,
    dtype: torch.dtype | None = None,
    **_: Any,
) -> SparseMatrix:
    elements = torch.as_tensor(values, dtype=dtype)
    if size is None:
        raise NotImplementedError("a sparse matrix whose size is not given: it depends on the largest index")
    if len(size) != 2 or elements.dim() != 1:
        raise NotImplementedError(f"a sparse tensor of shape {list(size)} that is not a matrix of numbers")
    return SparseMatrix(rows, columns, elements, torch.Size(size), compressed, coalesced)


_MAKERS: dict[Any, Callable[..., Any]] = {torch.sparse_coo_tensor: _coo, torch.sparse_csr_tensor: _csr}
