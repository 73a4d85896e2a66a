"""Nested tensors and sparse matrices: as inputs, made in forward, and with functions other than products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


class Call(torch.nn.Module):
    """A function as a module, which may hold a matrix."""

    def __init__(self, call: Callable[..., Any], matrix: Any = None) -> None:
        super().__init__()
        self.call = call
        if matrix is not None:
            self.register_buffer("matrix", matrix)

    def forward(self, *given: Any) -> Any:
        return self.call(self.matrix, *given) if "matrix" in self._buffers else self.call(*given)


class OfNested(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, rows: Any) -> Any:
        return self.call(rows)


def ran(model: Any, *given: Any) -> Any:
    session = InferenceSession(model)
    names = [value.name for value in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (one.numpy() for one in given), strict=True)))[0])


def nested(values: Any, offsets: Any) -> Any:
    return torch.nested.nested_tensor_from_jagged(values, offsets)


NESTED: dict[str, Callable[[Any], Any]] = {
    "padded": lambda rows: rows.to_padded_tensor(0.5),
    "linear, sum": lambda rows: torch.nn.functional.linear(rows, torch.ones(3, 2)).relu().sum(dim=1),
    "mean": lambda rows: (rows * 2 + 1).mean(dim=1),
    "largest": lambda rows: torch.amax(rows, dim=1),
    "softmax": lambda rows: torch.softmax(rows, dim=1).values(),
    "of the last dimension": lambda rows: rows.sum(dim=-1).values(),
    "attention": lambda rows: (torch.softmax(rows.sum(dim=-1, keepdim=True), dim=1) * rows).sum(dim=1),
    "layer_norm": lambda rows: torch.nn.functional.layer_norm(rows, (2,)).values(),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_input", [False, True])
@pytest.mark.parametrize("name", NESTED)
def test_nested(name: str, is_input: bool):
    call = NESTED[name]
    batches = [(torch.randn(n, 2), torch.tensor(offsets)) for n, offsets in ((9, [0, 3, 4, 9]), (3, [0, 3]))]
    if is_input:
        model = export(OfNested(call), (nested(*batches[0]),))
    else:
        made = Call(lambda values, offsets: call(nested(values, offsets)))
        model = export(made, batches[0], dynamic_shapes=(({0: MANY}, {0: MANY}),))
    for batch in batches:
        torch.testing.assert_close(ran(model, *batch), call(nested(*batch)))


def test_what_is_not_converted_of_nested_tensors():
    with pytest.raises(ConversionError, match=r"unbind of a nested tensor is not converted; pass values\(\)"):
        export(OfNested(lambda rows: rows.unbind()[0]), (nested(torch.randn(3, 2), torch.tensor([0, 3])),))


sparse = torch.sparse
MATRIX = torch.sparse_coo_tensor(
    torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, -2.0, 3.0, 0.5]), (3, 3)
)

HELD: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda a, x: (sparse.mm(a * 2.0, x), (2.0 * a) @ x, (a / 4) @ x, sparse.mm(-a, x), (a * x.sum()) @ x),
    "sums": lambda a, x: (sparse.sum(a, 1).to_dense(), sparse.sum(a, dim=[0]).to_dense(), sparse.sum(a), a.sum()),
    "softmax": lambda a, x: (sparse.mm(sparse.softmax(a, 1), x), sparse.log_softmax(a, 0).to_dense()),
    "added": lambda a, x: (sparse.mm(a + a, x), (a + a.t()) @ x, torch.add(torch.ones(3, 3), a) @ x),
    "mapped": lambda a, x: (torch.relu(a) @ x, a.abs() @ x, torch.pow(a, 2) @ x, a.double() @ x.double()),
    "products": lambda a, x: (sparse.mm(a, a) @ x, sparse.mm(a, a).to_dense() @ x, sparse.addmm(x, a, x, beta=2.0)),
    "by a dense one": lambda a, x: ((a * torch.arange(9.0).reshape(3, 3)) @ x,),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_held_matrices(name: str):
    x = torch.randn(3, 2)
    module = Call(HELD[name], MATRIX.coalesce())
    session = InferenceSession(export(module, (x,)))
    (given,) = session.get_inputs()
    for got, want in zip(session.run(None, {given.name: x.numpy()}), module(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want)


def matrix(rows: int, elements: int) -> Any:
    places = torch.stack([torch.randint(0, rows, (elements,)), torch.randint(0, 5, (elements,))])
    return torch.sparse_coo_tensor(places, torch.randn(elements), (rows, 5)).coalesce()


class Multiplied(torch.nn.Module):
    def forward(self, a: Any, x: Any) -> Any:
        return torch.sparse.mm(torch.sparse.softmax(a, 1) * 2.0, x)


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_matrices_as_inputs(compressed: bool):
    """Their parts are the inputs of the file; in CSR form the number of rows is dynamic as well."""
    a, x = matrix(4, 7), torch.randn(5, 3)
    model = export(Multiplied(), (a.to_sparse_csr() if compressed else a, x), dynamic_shapes=(None, {1: MANY}))
    assert [value.name for value in model.graph.input] == ["a_rows", "a_columns", "a_elements", "x"]
    for rows, elements in [(4, 9), (4, 0), *([(6, 8)] if compressed else [])]:
        a = matrix(rows, elements)
        first = a.to_sparse_csr().crow_indices() if compressed else a.indices()[0]
        torch.testing.assert_close(ran(model, first, a.indices()[1], a.values(), x), Multiplied()(a, x))
