"""Forces and other gradients that a module computes in forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


class Molecules(torch.nn.Module):
    """Energies of molecules by continuous filters, as in SchNet, and the forces on their atoms."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.kinds = nn.Embedding(10, 8)
        self.filters = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 8))
        self.energies = nn.Sequential(nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, kinds: Any, places: Any, pairs: Any, molecules: Any) -> tuple[Any, Any]:
        places = places.requires_grad_(True)
        one, other = pairs[0], pairs[1]
        distances = (places[one] - places[other]).pow(2).sum(-1).add(1e-6).sqrt()
        filters = self.filters(torch.exp(-((distances[:, None] - torch.arange(4.0)) ** 2)))
        atoms = self.kinds(kinds)
        atoms = atoms + torch.zeros_like(atoms).index_add(0, one, atoms[other] * filters)
        energies = torch.zeros(2, 1).index_add(0, molecules, self.energies(atoms))
        return energies, -torch.autograd.grad(energies.sum(), places)[0]


def molecules(atoms: int, pairs: int) -> tuple[Any, ...]:
    draw = torch.Generator().manual_seed(atoms)
    return (
        torch.randint(0, 10, (atoms,), generator=draw),
        torch.randn(atoms, 3, generator=draw),
        torch.randint(0, max(atoms, 1), (2, pairs), generator=draw),
        torch.randint(0, 2, (atoms,), generator=draw),
    )


def test_forces() -> None:
    module = Molecules().eval()
    model = export(module, molecules(5, 8), dynamic_shapes=({0: MANY}, {0: MANY}, {1: MANY}, {0: MANY}))
    assert [value.name for value in model.graph.input] == ["kinds", "places", "pairs", "molecules"]
    session = onnx_sparse.InferenceSession(model)
    for sizes in ((5, 8), (3, 0), (9, 30), (1, 1)):
        batch = molecules(*sizes)
        feeds = dict(zip(("kinds", "places", "pairs", "molecules"), map(torch.Tensor.numpy, batch), strict=True))
        for want, got in zip(module(*batch), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-5)


class Branching(Molecules):
    """Forces that depend on how many pairs there are."""

    def forward(self, kinds: Any, places: Any, pairs: Any, molecules: Any) -> tuple[Any, Any]:
        energies, forces = super().forward(kinds, places, pairs, molecules)
        return energies, forces if pairs.shape[1] < 100 else 2 * forces


def test_a_branch_by_a_dynamic_size_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"sizes with pairs\.shape\[1\] < 100"):
        export(Branching().eval(), molecules(5, 8), dynamic_shapes=({0: MANY}, {0: MANY}, {1: MANY}, {0: MANY}))


def test_sensitivities_by_functional_gradients() -> None:
    layer = torch.nn.Linear(3, 1)

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.func.grad(lambda rows: layer(rows).tanh().sum())(x)

    model = export(Module(), (torch.randn(4, 3),), dynamic_shapes=({0: MANY},))
    x = torch.randn(7, 3)
    (got,) = onnx_sparse.InferenceSession(model).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(got, Module()(x).detach().numpy(), rtol=1e-5, atol=1e-6)
