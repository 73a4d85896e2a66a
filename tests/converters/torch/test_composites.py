"""Functions whose sizes torch.export takes for constants stay dynamic, and masks of transformers need no values."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from torch import nn  # noqa: E402

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


class Call(nn.Module):
    def __init__(self, call: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.call = call
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *given: Any) -> Any:
        return self.call(self, *given)


def holds(module: nn.Module, *batches: tuple[Any, ...]) -> None:
    """Export with all sizes dynamic, and compare all batches with the module."""
    shapes = tuple(dict.fromkeys(range(t.dim()), MANY) for t in batches[0])
    session = InferenceSession(export(module.eval(), batches[0], dynamic_shapes=(shapes,)))
    names = [each.name for each in session.get_inputs()]
    for batch in batches:
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(module(*batch))
        got = session.run(None, dict(zip(names, [t.numpy() for t in batch], strict=True)))
        for want, answer in zip(wanted, got, strict=True):
            assert (want.shape, want.numpy().dtype) == (answer.shape, answer.dtype)
            np.testing.assert_allclose(answer, want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize(
    "options",
    [(2,), (3, 2, 1, 1, True), ([3], [1], [1]), (2, 1, 0, 2)],
    ids=["window", "ceil", "lists", "dilated"],
)
def test_a_pool_of_any_length(options: tuple[Any, ...], rank: int, dtype: str) -> None:
    rng = np.random.default_rng(rank)
    lengths = (8, 5, 17, 3)
    inputs = [torch.from_numpy(rng.normal(size=(2, 3, n)[-rank:]).astype(dtype)) for n in lengths]
    inputs[1].view(-1)[2] = torch.nan
    holds(Call(lambda m, x: nn.functional.max_pool1d(x, *options)), *((x,) for x in inputs))


@pytest.mark.slow
@pytest.mark.one_of(4)
@pytest.mark.parametrize("kind", ["additive", "bool", "other"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_with_a_mask_that_it_is_given(kind: str, norm_first: bool) -> None:
    """torch compares a mask with a causal one, and torch.export knows no values."""

    def mask(steps: int) -> Any:
        late = torch.ones(steps, steps).triu(1).bool()
        if kind == "other":
            return late.T
        return late if kind == "bool" else torch.zeros(steps, steps).masked_fill(late, -torch.inf)

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    module = Call(lambda m, x: m.layers(x.flatten(2), mask=mask(x.shape[1])), layers=nn.TransformerEncoder(layer, 2))
    shapes = ({0: MANY, 1: MANY},)
    session = InferenceSession(export(module.eval(), (torch.randn(2, 5, 8),), dynamic_shapes=(shapes,)))
    for rows, steps in ((2, 5), (1, 1), (3, 9), (0, 4)):
        x = torch.randn(rows, steps, 8)
        with torch.no_grad():
            want = module(x).numpy()
        np.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0], want, atol=1e-5)


@pytest.mark.slow
def test_a_transformer_with_a_causal_target() -> None:
    torch.manual_seed(0)
    whole = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def call(m: Any, x: Any, y: Any) -> Any:
        return m.whole(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1]))

    module = Call(call, whole=whole).eval()
    axes = {0: MANY, 1: MANY}
    example = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    session = InferenceSession(export(module, example, dynamic_shapes=((axes, axes),)))
    for rows, steps, length in ((2, 5, 3), (1, 1, 1), (3, 2, 7)):
        x, y = torch.randn(rows, steps, 8), torch.randn(rows, length, 8)
        with torch.no_grad():
            want = module(x, y).numpy()
        feeds = dict(zip([each.name for each in session.get_inputs()], (x.numpy(), y.numpy()), strict=True))
        np.testing.assert_allclose(session.run(None, feeds)[0], want, atol=1e-5)


def test_torch_is_as_before_afterwards() -> None:
    pool, transformer = torch.ops.aten.max_pool1d.default, nn.modules.transformer
    before = dict(pool.py_kernels), transformer._detect_is_causal_mask
    holds(Call(lambda m, x: nn.functional.max_pool1d(x, 2)), (torch.randn(2, 6),))
    assert (dict(pool.py_kernels), transformer._detect_is_causal_mask) == before


_REFUSED = """
import torch
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.torch import export

class Squares(torch.nn.Module):
    def forward(self, x):
        return x.reshape(5, 4)

try:
    export(Squares(), (torch.randn(5, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
except ConversionError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_refusal_writes_nothing() -> None:
    """torch logs what it raises as an error, with its own stack."""
    ended = subprocess.run([sys.executable, "-c", _REFUSED], capture_output=True, text=True, check=True)
    assert (ended.stdout.count("\n"), ended.stderr) == (1, "")
    assert "always 5" in ended.stdout
