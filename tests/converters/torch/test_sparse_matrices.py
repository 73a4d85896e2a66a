"""Products of sparse and dense matrices, against torch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

DYNAMIC = torch.export.Dim.DYNAMIC
ROWS = [{0: DYNAMIC}]

#: With a place of which there are two elements, and a row without any.
REPEATED = torch.sparse_coo_tensor([[3, 0, 1, 0, 1], [0, 1, 2, 1, 0]], [4.0, 2, 3, -1, 1], (4, 3))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """torch calls its CSR tensors a beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        yield


def tables() -> dict[str, Any]:
    whole = REPEATED.coalesce()
    none = torch.sparse_coo_tensor(torch.zeros((2, 0), dtype=torch.int64), [], (4, 3))
    return {
        "repeated": REPEATED,
        "coo": whole,
        "csr": whole.to_sparse_csr(),
        "csc": whole.to_sparse_csc(),
        "none": none,
    }


PRODUCTS = {
    "torch.sparse.mm": lambda a, x, y, z: torch.sparse.mm(a, x),
    "torch.mm": lambda a, x, y, z: torch.mm(a, x),
    "torch.matmul": lambda a, x, y, z: torch.matmul(a, x),
    "@": lambda a, x, y, z: a @ x,
    "by a vector": lambda a, x, y, z: a @ x[:, 0],
    "transposed": lambda a, x, y, z: torch.sparse.mm(a.t(), y),
    "of two": lambda a, x, y, z: a @ (a.t() @ y),
    "dense by sparse": lambda a, x, y, z: z @ a,
    "torch.sparse.addmm": lambda a, x, y, z: torch.sparse.addmm(y, a, x),
    "torch.addmm with factors": lambda a, x, y, z: torch.addmm(y, a, x, beta=-1, alpha=0.5),
    "torch.addmm without input": lambda a, x, y, z: torch.addmm(y, a, x, beta=0),
    "to_dense": lambda a, x, y, z: a.to_dense() * x[0, 0],
}


def test_matrices_that_a_module_holds(agree) -> None:
    calls = {
        f"{product} {name}": lambda module, *given, name=name, product=product: PRODUCTS[product](
            getattr(module, name), *given
        )
        for name in tables()
        for product in (PRODUCTS if name in ("repeated", "csr") else ("@", "transposed"))
    }
    infinite = torch.full((3, 2), math.inf)
    batches = [
        (torch.randn(3, 2), torch.randn(4, 2), torch.randn(5, 4)),
        (infinite, torch.ones(4, 2), torch.ones(1, 4)),
    ]
    model = agree(calls, batches, tables=tables(), dynamic=[{}, {}, {0: DYNAMIC}])
    kinds = [node.op_type for node in model.graph.node]
    assert "EmbeddingBagOffsetsSum" in kinds


def test_a_module_has_its_matrices_afterwards() -> None:
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("first", REPEATED)
            self.other = REPEATED.to_sparse_csr()

        def forward(self, x: Any) -> Any:
            return self.first @ x + torch.sparse.mm(self.other, x)

    module = Product()
    model = export(module, (torch.ones(3, 2),), verify=True)
    assert module.first is REPEATED
    assert vars(module)["other"].layout == torch.sparse_csr
    assert list(module.state_dict()) == ["first"]
    assert "first" not in vars(module)
    assert not any(node.op_type in ("Gather", "Cast") for node in model.graph.node)


def coo(rows: Any, columns: Any, values: Any, x: Any) -> Any:
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (4, x.shape[0]))


def csr(starts: Any, columns: Any, values: Any, x: Any) -> Any:
    return torch.sparse_csr_tensor(starts, columns, values, (starts.shape[0] - 1, x.shape[0]))


def elements(dtype: Any = torch.float32, index: Any = torch.int64) -> Iterator[tuple[Any, ...]]:
    """Rows and columns of elements, the elements, and a matrix to multiply."""
    for rows, columns in (([1, 0, 1, 3, 1], [2, 0, 2, 1, 0]), ([], []), ([2], [0])):
        values = torch.arange(1, len(rows) + 1).to(dtype)
        yield torch.tensor(rows, dtype=index), torch.tensor(columns, dtype=index), values, torch.randn(3, 2).to(dtype)


def sorted_by_row(given: tuple[Any, ...]) -> tuple[Any, ...]:
    rows, columns, values, x = given
    matrix = coo(rows, columns, values, x).coalesce().to_sparse_csr()
    parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values())
    return *(part.clone() for part in parts), x  # torch.export takes no views of a sparse tensor


MADE = {
    "product": lambda make: lambda _, a, b, v, x: torch.sparse.mm(make(a, b, v, x), x),
    "weighted by a vector": lambda make: lambda _, a, b, v, x: make(a, b, v * 2, x) @ x[:, 0],
    "transposed": lambda make: lambda _, a, b, v, x: x.t() @ make(a, b, v, x).t(),
    "added": lambda make: lambda _, a, b, v, x: torch.addmm(x[:1], make(a, b, v, x), x),
    "coalesced": lambda make: lambda _, a, b, v, x: make(a, b, v, x).to_dense(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_matrices_made_of_inputs(agree, dtype: Any) -> None:
    count = torch.export.Dim("count")
    agree({k: form(coo) for k, form in MADE.items()}, list(elements(dtype)), dynamic=[{0: count}] * 3 + [{}])
    batches = [sorted_by_row(given) for given in elements(dtype)]
    agree({k: form(csr) for k, form in MADE.items()}, batches, dynamic=[{0: DYNAMIC}, *[{0: count}] * 2, {}])


def test_what_is_no_product_is_refused() -> None:
    class Sum(torch.nn.Module):
        def __init__(self, call: Any) -> None:
            super().__init__()
            self.call = call

        def forward(self, x: Any) -> Any:
            return self.call(torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), x, (2, 2)))

    for call, words in (
        (torch.relu, "relu of a sparse matrix"),
        (lambda a: a @ a, "a sparse or nested tensor as an output"),
        (lambda a: (a @ a).sum(), "sum of a product of two sparse matrices"),
        (lambda a: a.values(), "may have several elements in one place"),
    ):
        with pytest.raises(ConversionError, match=words):
            export(Sum(call), (torch.ones(2),))


def test_columns_out_of_range_are_refused() -> None:
    class Product(torch.nn.Module):
        def forward(self, a: Any, b: Any, v: Any, x: Any) -> Any:
            return csr(a, b, v, x) @ x

    given = sorted_by_row(next(elements()))
    session = onnx_sparse.InferenceSession(export(Product(), given))
    feeds = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), given, strict=True)}
    for wrong in (-1, 3):
        with pytest.raises(onnx_sparse.KernelError, match=f"= {wrong} is out of range"):
            session.run(None, feeds | {"b": np.array([0, 1, 2, wrong])})
