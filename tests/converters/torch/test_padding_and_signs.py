"""Pads, adaptive pools, batches in training, and functions of signs and NaN, which torch's exporter writes wrongly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import convert  # noqa: E402

MANY = torch.export.Dim.DYNAMIC

NUMBERS = [0.0, -0.0, 1.0, -1.5, torch.nan, torch.inf, -torch.inf, 1e30, -1e30]

OF_NUMBERS = {
    "angle": lambda _, x, y: torch.angle(x),
    "of a sum": lambda _, x, y: torch.atan2(y * 0, (x[:, None] * torch.tensor([0.0, 0.0])).sum(1)),
    "digamma": lambda _, x, y: torch.digamma(x.clamp(min=-50)),
    "digamma of integers": lambda _, x, y: torch.digamma(x.nan_to_num(1).clamp(1, 9).long()),
    "digamma of doubles": lambda _, x, y: torch.digamma(x.clamp(min=-50).double()),
    "erfinv": lambda _, x, y: torch.erfinv(x / 12),
    "erfinv of halves": lambda _, x, y: torch.erfinv((x / 13).half()),
    "erfinv of integers": lambda _, x, y: torch.erfinv(x.nan_to_num(1).clamp(-2, 2).long()),
    "ndtri": lambda _, x, y: torch.special.ndtri(x / 24 + 0.5),
    "copysign": lambda _, x, y: torch.where(y.isnan(), y, torch.copysign(x, y)),
    "erfcx": lambda _, x, y: torch.special.erfcx(x),
    "fmax": lambda _, x, y: torch.fmax(x, y),
    "fmin": lambda _, x, y: torch.fmin(x, y),
    "fmax of halves": lambda _, x, y: torch.fmax(x.half(), y),
    "fmin of integers": lambda _, x, y: torch.fmin(
        x.nan_to_num(1).clamp(-9, 9).long() + 2**53, y.nan_to_num(1).clamp(-9, 9).long()
    ),
    "fmin of bool": lambda _, x, y: torch.fmin(x > 0, y > 0),
    "fmax of several ranks": lambda _, x, y: torch.fmax(x[:, None], y[:3]),
    "isclose": lambda _, x, y: torch.isclose(x, y),
    "of bool": lambda _, x, y: torch.isclose(x > 0, y > 0),
    "isfinite of bool": lambda _, x, y: torch.isfinite(x > 0),
    "log_ndtr": lambda _, x, y: torch.special.log_ndtr(x),
    "prelu": lambda _, x, y: torch.nn.functional.prelu(x, torch.tensor([torch.inf])),
    "signbit": lambda _, x, y: torch.signbit(x) & ~x.isnan(),
    "square of bool": lambda _, x, y: torch.square(x > 0),
}


def test_functions_of_signs_and_nan(agree) -> None:
    x, y = torch.tensor(list(itertools.product(NUMBERS, NUMBERS))).T.contiguous()
    few = torch.linspace(-12, 12, 30)
    agree(OF_NUMBERS, [(x, y), (few, few.flip(0)), (x[:0], y[:0])], dynamic=[{0: MANY}] * 2)


def test_pads_that_crop_wrap_and_come_from_sizes(agree) -> None:
    pad = torch.nn.functional.pad
    calls = {
        f"{mode} {before} {after}": lambda _, x, y, m=mode, b=before, a=after: pad(x, (b, a, a, b), m)
        for mode in ("reflect", "replicate", "circular")
        for before, after in ((2, 1), (-2, 2), (-1, -2))
    }
    calls["by a size"] = lambda _, x, y: pad(x, (y.shape[0] - 4, 1), "replicate")
    x = torch.arange(48.0).reshape(2, 4, 6)
    agree(calls, [(x, torch.ones(3)), (x.repeat(1, 2, 1), torch.ones(5))], dynamic=[{1: MANY}, {0: MANY}])


@pytest.mark.parametrize("mode", ["reflect", "circular"])
@pytest.mark.parametrize("is_first", [True, False])
def test_pads_that_turn_more_than_once_are_refused(mode, is_first) -> None:
    """As torch refuses them, also where a pad is a size of the batch: they are not elements from elsewhere."""

    class Padded(torch.nn.Module):
        def forward(self, x, y):
            pads = (y.shape[0] - 4, 1) if is_first else (1, y.shape[0] - 4)
            return torch.nn.functional.pad(x, pads, mode)

    program = torch.export.export(Padded(), (torch.ones(2, 6), torch.ones(6)), dynamic_shapes=({1: MANY}, {0: MANY}))
    session = onnx_sparse.InferenceSession(convert(program))
    outcomes = set()
    for size, pad in itertools.product((2, 3, 6), range(8)):
        x, y = torch.arange(2.0 * size).reshape(2, size), torch.ones(pad + 4)
        feeds = {given.name: each.numpy() for given, each in zip(session.get_inputs(), (x, y), strict=True)}
        try:
            want = Padded()(x, y).numpy()
        except RuntimeError:
            with pytest.raises(Exception, match="out of data bounds"):
                session.run(None, feeds)
            outcomes.add("refused")
        else:
            np.testing.assert_array_equal(session.run(None, feeds)[0], want)
            outcomes.add("equal")
    assert outcomes == {"refused", "equal"}


def test_adaptive_pools_of_any_size(agree) -> None:
    functional = torch.nn.functional
    calls = {
        "means": lambda _, x: functional.adaptive_avg_pool2d(x, (3, 2)),
        "maxima": lambda _, x: functional.adaptive_max_pool2d(x, (3, 2), return_indices=True)[0],
        "places": lambda _, x: functional.adaptive_max_pool2d(x, (3, 2), return_indices=True)[1],
        "of rows": lambda _, x: functional.adaptive_avg_pool1d(x[0], 5),
    }
    torch.manual_seed(0)
    sizes = [(4, 7), (1, 1), (6, 4), (9, 2)]
    batches = [(torch.randn(2, 3, *size),) for size in sizes]
    with_nan = torch.randn(2, 3, 5, 5)
    with_nan[0, 0, 2, 2:4] = torch.nan
    agree(calls, [*batches, (with_nan,)], dynamic=[{2: MANY, 3: MANY}])


def test_adaptive_pools_of_more_dimensions_and_equal_numbers(agree) -> None:
    """Of equal maxima the first, of NaN the last; windows of one number; no batch."""
    functional = torch.nn.functional
    calls = {
        f"{kind} of {dims}-D, {windows}": lambda _, x, call=call, dims=dims, windows=windows, k=k: call(
            x if dims == 3 else x[:, 0], windows, **({} if k is None else {"return_indices": True})
        )[slice(None) if k is None else k]
        for dims, windows in ((2, (4, 3)), (3, (2, 3, 4)), (3, (1, 7, 5)))
        for kind, call, k in (
            ("means", getattr(functional, f"adaptive_avg_pool{dims}d"), None),
            ("maxima", getattr(functional, f"adaptive_max_pool{dims}d"), 0),
            ("places", getattr(functional, f"adaptive_max_pool{dims}d"), 1),
        )
    }
    torch.manual_seed(0)
    batches = [
        torch.randint(0, 3, (2, *size)).float() for size in ((3, 5, 6, 7), (1, 2, 2, 2), (2, 9, 7, 5), (4, 1, 1, 1))
    ]
    batches[0][0, 1, 2, 3:5] = torch.nan
    batches[2][1, 0, 3] = -torch.inf
    agree(calls, [(batch,) for batch in batches], dynamic=[{1: MANY, 2: MANY, 3: MANY, 4: MANY}])


def test_the_memory_of_adaptive_pools(agree) -> None:
    """All pairs of 2,500 windows and 50,000 places of 16 channels would be 16 GB."""
    resource = pytest.importorskip("resource", reason="Windows does not count memory so")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls = {"places": lambda _, x: torch.nn.functional.adaptive_max_pool2d(x, (50, 50), return_indices=True)[1]}
    agree(calls, [(torch.rand(1, 16, 60, 60),), (torch.rand(1, 16, 224, 224),)], dynamic=[{2: MANY, 3: MANY}])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000


def test_batches_in_training(agree) -> None:
    def normalized(_, x, mean, variance):
        made = torch.ops.aten._native_batch_norm_legit_functional(x, mean, variance, mean, variance, True, 0.3, 1e-5)
        return torch.cat([each.flatten() for each in made])

    torch.manual_seed(0)
    batches = [(torch.randn(n, 3, 4), torch.randn(3), torch.rand(3)) for n in (2, 1, 5)]
    large = batches[0][0] * 1e30
    agree({"all": normalized}, [*batches, (large, *batches[0][1:])], dynamic=[{0: MANY}, None, None])
