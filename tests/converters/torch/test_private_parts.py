"""Parts of torch's exporter that are exchanged: a torch without one is refused, saying what to install."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from torch.onnx._internal.exporter import _building, _registration  # noqa: E402

from onnx_sparse.converters.errors import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.sum(0)


@pytest.mark.parametrize(
    ("home", "name"),
    [
        (_building, "_process_python_constants"),
        (_registration.ONNXRegistry, "from_torchlib"),
        (_registration, "ONNXRegistry"),
    ],
)
def test_a_torch_without_a_part(monkeypatch, home, name):
    monkeypatch.delattr(home, name)
    with pytest.raises(
        ConversionError, match=rf"^torch {torch.__version__.split('+')[0]}\S* has another.*{name}.*; install"
    ):
        export(Sum(), (torch.ones(2, 3),))
