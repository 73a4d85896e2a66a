"""Sparse matrices of a module, as tensors that torch.export knows.

torch.export has no sparse tensors. While a module is exported, a stand-in takes the place of each sparse matrix that
the module holds or that its forward makes. Where its elements are sorted by row, the product with a dense matrix is one
bag of rows of the dense matrix for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """The parts of a sparse matrix, with the methods of a tensor that have to do with products.

    Attributes:
        rows: The row of each element [elements]; or, if `compressed`, where each row begins among the elements and the
            last one ends [shape[0] + 1].
        columns: The column of each element [elements].
        elements: The elements [elements].
        shape: The shape of the matrix.
        compressed: Whether the elements are sorted by row (CSR) or in any order (COO).
        coalesced: Whether no two elements have the same place.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    elements: torch.Tensor
    shape: torch.Size
    compressed: bool
    coalesced: bool

    @classmethod
    def of(cls, matrix: torch.Tensor) -> SparseMatrix:
        """The parts of a matrix whose elements are known.

        Raises:
            NotImplementedError: It is no matrix of numbers.
        """
        if matrix.dim() != 2 or (matrix.layout == torch.sparse_coo and matrix.dense_dim()):
            raise NotImplementedError(f"a sparse tensor of shape {list(matrix.shape)} that is no matrix of numbers")
        whole = matrix.detach()
        coo = whole if matrix.layout == torch.sparse_coo else whole.to_sparse_coo()
        rows, columns = coo._indices()
        # Elements of one place stay apart: added up first, infinities of both signs are NaN before they are multiplied.
        order = rows.argsort(stable=True)
        ends = rows.bincount(minlength=coo.shape[0]).cumsum(0)
        starts = torch.nn.functional.pad(ends, (1, 0))
        return cls(starts, columns[order], coo._values()[order], coo.shape, True, coo.is_coalesced())

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What torch calls for one of its functions with such a matrix."""
        function = _FUNCTIONS.get(func)
        if function is None:
            name = getattr(func, "__name__", str(func))
            raise NotImplementedError(f"{name} of a sparse matrix is not converted; its products with dense ones are")
        return function(*args, **kwargs or {})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of a sparse matrix is not converted; its products with dense ones are")

    def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
        return _product(self, other)

    def __rmatmul__(self, other: torch.Tensor) -> torch.Tensor:
        return _product(other, self)

    mm = matmul = mv = __matmul__

    @property
    def dtype(self) -> torch.dtype:
        """The type of the elements."""
        return self.elements.dtype

    @property
    def device(self) -> torch.device:
        """Where the elements are."""
        return self.elements.device

    @property
    def layout(self) -> torch.layout:
        """The layout."""
        return torch.sparse_csr if self.compressed else torch.sparse_coo

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is COO."""
        return not self.compressed

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is CSR."""
        return self.compressed

    @property
    def T(self) -> SparseMatrix:  # noqa: N802 - torch's name
        """The transposed matrix."""
        return self.t()

    def t(self) -> SparseMatrix:
        """The transposed matrix."""
        rows, columns = self.places()
        return SparseMatrix(columns, rows, self.elements, self.shape[::-1], False, self.coalesced)

    def dim(self) -> int:
        """The rank."""
        return 2

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        return self.shape if dim is None else self.shape[dim]

    def coalesce(self) -> SparseMatrix:
        """The matrix: in a product, elements of one place count as their sum."""
        return self

    def is_coalesced(self) -> bool:
        """Whether no two elements have the same place."""
        return self.coalesced

    def indices(self) -> torch.Tensor:
        """The places of the elements [2, elements].

        Raises:
            NotImplementedError: Elements of one place are not added up.
        """
        self._require_coalesced()
        return torch.stack(self.places())

    def values(self) -> torch.Tensor:
        """The elements.

        Raises:
            NotImplementedError: Elements of one place are not added up.
        """
        self._require_coalesced()
        return self.elements

    def to_dense(self) -> torch.Tensor:
        """The matrix as a dense one."""
        return self.elements.new_zeros(self.shape).index_put(self.places(), self.elements, accumulate=True)

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The row and the column of each element."""
        if not self.compressed:
            return self.rows, self.columns
        count = self.elements.shape[0]
        numbers = torch.arange(self.shape[0], dtype=self.columns.dtype)
        return torch.repeat_interleave(numbers, self.rows.diff(), output_size=count), self.columns

    def _require_coalesced(self) -> None:
        if not self.coalesced:
            raise NotImplementedError("elements of a sparse matrix that may have several in one place")


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
    """Lets torch's functions that make a sparse matrix make a stand-in."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _MAKERS.get(func, func)(*args, **kwargs or {})


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
        raise NotImplementedError(f"a sparse tensor of shape {list(size)} that is no matrix of numbers")
    return SparseMatrix(rows, columns, elements, torch.Size(size), compressed, coalesced)


def _product(a: Any, b: Any) -> torch.Tensor:
    """The matrix product of a sparse and a dense matrix, or the other way round."""
    if not isinstance(a, SparseMatrix):
        return _product(b.t(), a.t()).t()
    if isinstance(b, SparseMatrix):
        raise NotImplementedError("a product of two sparse matrices")
    if b.dim() == 1:
        return _product(a, b.unsqueeze(1)).squeeze(1)
    torch._check(a.shape[1] == b.shape[0])
    if a.compressed and b.is_floating_point():
        return torch.nn.functional.embedding_bag(
            a.columns, b, a.rows, mode="sum", per_sample_weights=a.elements, include_last_offset=True
        )
    rows, columns = a.places()
    scaled = b.index_select(0, columns) * a.elements.unsqueeze(1)
    return b.new_zeros(a.shape[0], b.shape[1]).index_add(0, rows, scaled)


def _add_product(input: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> torch.Tensor:
    """`beta * input + alpha * (a @ b)`; without beta, not even NaN of the input remains."""
    product = _product(a, b)
    product = product if alpha == 1 else alpha * product
    if beta == 0:
        return product
    return product + (input if beta == 1 else beta * input)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(
        (
            torch.mm,
            torch.mv,
            torch.matmul,
            torch.spmm,
            torch.sparse.mm,
            torch.Tensor.mm,
            torch.Tensor.mv,
            torch.Tensor.matmul,
            torch.Tensor.__matmul__,
        ),
        _product,
    ),
    **dict.fromkeys((torch.addmm, torch.sparse.addmm, torch.Tensor.addmm), _add_product),
    torch.t: SparseMatrix.t,
}

_MAKERS: dict[Any, Callable[..., Any]] = {torch.sparse_coo_tensor: _coo, torch.sparse_csr_tensor: _csr}
