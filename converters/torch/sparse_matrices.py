"""Sparse matrices of a module, as tensors that torch.export knows.

torch.export has no sparse tensors; `sparse_stand_ins` puts these in their place. Where the elements of a matrix are
sorted by row, its product with a dense matrix is one bag of rows of the dense matrix for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
    shape: tuple[int, ...]
    compressed: bool
    coalesced: bool

    @classmethod
    def of(cls, matrix: torch.Tensor) -> SparseMatrix:
        """The parts of a matrix whose elements are known.

        Raises:
            NotImplementedError: It is no matrix of numbers.
        """
        if matrix.dim() != 2 or (matrix.layout == torch.sparse_coo and matrix.dense_dim()):
            raise NotImplementedError(f"a sparse tensor of shape {list(matrix.shape)} that is not a matrix of numbers")
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
        function = FUNCTIONS.get(func)
        if function is None:
            name = getattr(func, "__name__", str(func))
            raise NotImplementedError(
                f"{name} of a sparse matrix is not converted; pass its indices and values as tensors"
            )
        return function(*args, **kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in _MAPPED:
            return lambda: self.mapped(name, getattr(torch, name))
        raise AttributeError(f"{name} of a sparse matrix is not converted; pass its indices and values as tensors")

    def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
        return _product(self, other)

    def __rmatmul__(self, other: torch.Tensor) -> torch.Tensor:
        return _product(other, self)

    mm = matmul = mv = __matmul__

    def __mul__(self, other: Any) -> SparseMatrix:
        return scaled(self, other)

    __rmul__ = mul = multiply = __mul__

    def __truediv__(self, other: Any) -> SparseMatrix:
        return scaled(self, other, torch.div)

    div = __truediv__

    def __neg__(self) -> SparseMatrix:
        return replace(self, elements=-self.elements)

    neg = __neg__

    def __add__(self, other: Any) -> Any:
        return added(self, other)

    __radd__ = add = __add__

    def __sub__(self, other: Any) -> Any:
        return added(self, -other)

    sub = __sub__

    def __rsub__(self, other: Any) -> Any:
        return added(-self, other)

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

    def transpose(self, one: int, other: int) -> SparseMatrix:
        """The matrix with two dimensions exchanged."""
        return self if one % 2 == other % 2 else self.t()

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """The sum of all elements, or along a dimension."""
        return summed(self, dim, dtype=dtype, keepdim=keepdim)

    def to(self, *args: Any, **kwargs: Any) -> SparseMatrix:
        """The matrix with elements of another type."""
        return replace(self, elements=self.elements.to(*args, **kwargs))

    def float(self) -> SparseMatrix:
        """The matrix with elements of float32."""
        return self.to(torch.float32)

    def double(self) -> SparseMatrix:
        """The matrix with elements of float64."""
        return self.to(torch.float64)

    def __pow__(self, exponent: Any) -> SparseMatrix:
        return _power(self, exponent)

    pow = __pow__

    def detach(self) -> SparseMatrix:
        """The matrix."""
        return self

    clone = contiguous = to_sparse = to_sparse_coo = detach

    def to_sparse_csr(self) -> SparseMatrix:
        """The matrix, whose elements must be sorted by row.

        Raises:
            NotImplementedError: They may be in any order.
        """
        if not self.compressed:
            raise NotImplementedError("to_sparse_csr of elements in any order; pass a matrix in CSR form")
        return self

    def _nnz(self) -> int:
        count: int = self.elements.shape[0]
        return count

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

    _indices, _values = indices, values

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

    def crow_indices(self) -> torch.Tensor:
        """Where each row begins among the elements, and the last one ends."""
        return self.to_sparse_csr().rows

    def col_indices(self) -> torch.Tensor:
        """The column of each element, which are sorted by row."""
        return self.to_sparse_csr().columns

    def mapped(self, name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> SparseMatrix:
        """The matrix with a function of its elements, which makes 0 of 0."""
        self._require_coalesced(f"{name} of a sparse matrix")
        return replace(self, elements=function(self.elements))

    def _require_coalesced(self, what: str = "the elements of a sparse matrix") -> None:
        if not self.coalesced:
            raise NotImplementedError(
                f"{what} that may have several elements in one place; coalesce() it before the export"
            )


def _product(a: Any, b: Any) -> torch.Tensor:
    """The matrix product of a sparse and a dense matrix, or the other way round."""
    if not isinstance(a, SparseMatrix):
        return _product(b.t(), a.t()).t()
    if isinstance(b, SparseMatrix):
        return SparseProduct(a, b)
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


@dataclass(frozen=True, eq=False)
class SparseProduct:
    """The product of two sparse matrices, which is multiplied further or made dense."""

    left: SparseMatrix
    right: SparseMatrix

    def to_dense(self) -> torch.Tensor:
        """The product as a dense matrix."""
        return _product(self.left, self.right.to_dense())

    def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
        return _product(self.left, _product(self.right, other))

    mm = matmul = mv = __matmul__

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What torch calls for one of its functions with such a product."""
        if FUNCTIONS.get(func) is _product and isinstance(args[0], SparseProduct):
            return args[0] @ args[1]
        raise NotImplementedError(f"{getattr(func, '__name__', func)} of a product of two sparse matrices")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of a product of two sparse matrices is not converted; make it dense")


@dataclass(frozen=True, eq=False)
class SparseVector:
    """The sum of a sparse matrix along a dimension, of which all elements are there."""

    elements: torch.Tensor

    def to_dense(self) -> torch.Tensor:
        """The elements."""
        return self.elements

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of a sum of a sparse matrix is not converted; to_dense() is")


def scaled(matrix: Any, other: Any, function: Callable[..., Any] = torch.mul) -> SparseMatrix:
    """A sparse matrix times, or over, a number or a dense matrix of its shape."""
    if not isinstance(matrix, SparseMatrix):
        matrix, other = other, matrix
    if isinstance(other, SparseMatrix):
        raise NotImplementedError("the elementwise product of two sparse matrices")
    if not isinstance(other, torch.Tensor) or other.dim() == 0:
        made: SparseMatrix = replace(matrix, elements=function(matrix.elements, other))
        return made
    if other.dim() != 2:
        raise NotImplementedError("a sparse matrix times a tensor that is broadcast")
    made = replace(matrix, elements=function(matrix.elements, other.expand(matrix.shape)[matrix.places()]))
    return made


def added(one: Any, other: Any, *, alpha: float = 1) -> Any:
    """The sum of two sparse matrices, or of a sparse and a dense one."""
    if alpha != 1:
        other = other * alpha
    if not isinstance(one, SparseMatrix):
        one, other = other, one
    if not isinstance(other, SparseMatrix):
        if not isinstance(other, torch.Tensor):
            raise NotImplementedError("a sparse matrix plus a number")
        return one.to_dense() + other
    torch._check(one.shape[0] == other.shape[0])
    parts = zip((*one.places(), one.elements), (*other.places(), other.elements), strict=True)
    rows, columns, elements = (torch.cat(pair) for pair in parts)
    return SparseMatrix(rows, columns, elements, one.shape, False, False)


def summed(matrix: SparseMatrix, dim: Any = None, *, dtype: Any = None, keepdim: bool = False) -> Any:
    """The sum of all elements, or along one dimension."""
    if dtype is not None:
        matrix = matrix.to(dtype)
    dims = [dim] if isinstance(dim, int) else [] if dim is None else list(dim)
    if len({one % 2 for one in dims}) != 1:
        return matrix.elements.sum()
    if keepdim:
        raise NotImplementedError("sums of a sparse matrix with keepdim")
    kept = 1 - dims[0] % 2
    zeros = matrix.elements.new_zeros(matrix.shape[kept])
    return SparseVector(zeros.index_add(0, matrix.places()[kept], matrix.elements))


def _softmax(matrix: SparseMatrix, dim: int, dtype: Any = None) -> SparseMatrix:
    """The softmax over the elements that are there, of each row or column."""
    logs = _log_softmax(matrix, dim, dtype)
    return replace(logs, elements=logs.elements.exp())


def _log_softmax(matrix: SparseMatrix, dim: int, dtype: Any = None) -> SparseMatrix:
    kept = 1 - dim % 2
    elements = matrix.mapped("softmax", lambda values: values if dtype is None else values.to(dtype)).elements
    at = matrix.places()[kept]
    zeros = elements.new_zeros(matrix.shape[kept])
    largest = zeros.scatter_reduce(0, at, elements, "amax", include_self=False)
    shifted = elements - largest.index_select(0, at)
    sums = zeros.index_add(0, at, shifted.exp())
    return replace(matrix, elements=shifted - sums.log().index_select(0, at))


def _sampled(matrix: SparseMatrix, one: Any, other: Any, *, beta: float = 1, alpha: float = 1) -> SparseMatrix:
    """`beta * matrix + alpha * (one @ other)` at the elements of the matrix."""
    rows, columns = matrix.places()
    products = (one.index_select(0, rows) * other.t().index_select(0, columns)).sum(1)
    return replace(matrix, elements=beta * matrix.elements + alpha * products)


#: Functions of elements that make 0 of 0.
_MAPPED = (
    *("abs", "relu", "sin", "sinh", "tan", "tanh", "asin", "atan", "erf", "sqrt", "sign", "ceil", "floor", "round"),
    *("expm1", "log1p", "square", "positive"),
)


def _power(matrix: SparseMatrix, exponent: float) -> SparseMatrix:
    if not isinstance(exponent, (int, float)) or exponent <= 0:
        raise NotImplementedError(f"a sparse matrix to the power {exponent}, which makes no 0 of 0")
    return matrix.mapped("pow", lambda values: values**exponent)


def _mapping(name: str) -> Callable[[SparseMatrix], SparseMatrix]:
    return lambda matrix: matrix.mapped(name, getattr(torch, name))


#: What computes each of torch's functions with a sparse matrix.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(torch, name): _mapping(name) for name in _MAPPED},
    torch.nn.functional.relu: _mapping("relu"),
    **dict.fromkeys((torch.mul, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__), scaled),
    **dict.fromkeys(
        (torch.div, torch.Tensor.div, torch.Tensor.__truediv__), lambda one, other: scaled(one, other, torch.div)
    ),
    **dict.fromkeys((torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__), added),
    **dict.fromkeys((torch.sub, torch.Tensor.sub, torch.Tensor.__sub__), lambda one, other: added(one, -other)),
    **dict.fromkeys((torch.sum, torch.sparse.sum, torch._sparse_sum), summed),
    **dict.fromkeys((torch.sparse.softmax,), _softmax),
    **dict.fromkeys((torch.sparse.log_softmax,), _log_softmax),
    torch.sparse.sampled_addmm: _sampled,
    torch.transpose: SparseMatrix.transpose,
    torch.neg: SparseMatrix.__neg__,
    **dict.fromkeys((torch.pow, torch.Tensor.pow, torch.Tensor.__pow__), _power),
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
