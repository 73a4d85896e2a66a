"""nn.GRU, nn.LSTM and nn.RNN stay whole, for any number of steps and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC
KINDS = {"GRU": torch.nn.GRU, "LSTM": torch.nn.LSTM, "RNN": torch.nn.RNN}

FORMS: dict[str, dict[str, Any]] = {
    "batch first": {"batch_first": True},
    "two layers both ways": {"num_layers": 2, "bidirectional": True},
    "without biases": {"bias": False},
    "of relu": {"nonlinearity": "relu", "batch_first": True},
}


class Layer(torch.nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = KINDS[kind](6, 4, **options)

    def forward(self, x: Any) -> Any:
        made, states = self.layer(x)
        return made, *(states if isinstance(states, tuple) else (states,))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_steps_and_rows(kind: str, form: str, dtype: str) -> None:
    if form == "of relu" and kind != "RNN":
        kind = "RNN"
    module = Layer(kind, **FORMS[form]).eval().to(getattr(torch, dtype))
    x = torch.randn(3, 5, 6).to(getattr(torch, dtype))
    model = export(module, (x,), dynamic_shapes=({0: MANY, 1: MANY},))
    assert kind in {node.op_type for node in model.graph.node}
    session = InferenceSession(model)
    rows = 0 if FORMS[form].get("batch_first") else 1
    for shape in ((3, 5, 6), (1, 1, 6), (2, 9, 6), (0, 4, 6) if rows == 0 else (4, 0, 6)):
        given = torch.randn(*shape).to(x.dtype)
        got = session.run(None, {session.get_inputs()[0].name: given.numpy()})
        for want, answer in zip(module(given), got, strict=True):
            assert want.shape == answer.shape
            np.testing.assert_allclose(answer, want.detach().numpy(), atol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_after_another_export(kind: str) -> None:
    """torch keeps how it takes a layer apart, and takes it apart again after the export."""
    x, shapes = torch.randn(3, 5, 6), ({0: MANY, 1: MANY},)
    for _ in range(2):
        with pytest.raises(Exception, match="constant"):
            torch.export.export(Layer(kind), (x,), dynamic_shapes=shapes)
        assert kind in {node.op_type for node in export(Layer(kind), (x,), dynamic_shapes=shapes).graph.node}


@pytest.mark.parametrize("kind", KINDS)
def test_doubles_are_taken_apart(kind: str) -> None:
    """ONNX Runtime computes them as floats."""
    module, x = Layer(kind).double().eval(), torch.randn(3, 5, 6).double()
    session = InferenceSession(export(module, (x,)))
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], module(x)[0].detach(), rtol=1e-12)
    with pytest.raises(ConversionError, match=rf"number of steps of layer \({kind}\) must be static"):
        export(module, (x,), dynamic_shapes=({0: MANY},))


def test_projections_are_taken_apart() -> None:
    module, x = Layer("LSTM", proj_size=2).eval(), torch.randn(3, 5, 6)
    session = InferenceSession(export(module, (x,), dynamic_shapes=({1: MANY},)))
    given = torch.randn(3, 2, 6)
    np.testing.assert_allclose(session.run(None, {"x": given.numpy()})[0], module(given)[0].detach(), atol=1e-6)
    with pytest.raises(ConversionError, match=r"number of steps of layer \(LSTM\) must be static"):
        export(module, (x,), dynamic_shapes=({0: MANY},))


def test_dropout_in_training_is_refused() -> None:
    with pytest.raises(ConversionError, match="export in evaluation mode"):
        export(Layer("RNN", num_layers=2, dropout=0.5).train(), (torch.randn(3, 5, 6),))


class Nearest(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cdist(x, x).topk(2, 1, largest=False)[1]


def test_torchs_own_advice_is_kept() -> None:
    rows = torch.export.Dim("n", min=2)
    with pytest.raises(
        ConversionError, match=r"Constraints violated \(n\): .* Suggested fixes: n = Dim\('n', max=25\)$"
    ):
        export(Nearest(), (torch.randn(5, 3),), dynamic_shapes=({0: rows},))
