"""Modules and functions of torch alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from zoo.ir_sources import BuiltIr, Generator, Inputs, floats, from_torch, ids, together
from zoo.registry import IRS, model

_SEQUENCE = floats(6, 8)
_IMAGE = floats(3, 12, 12)
_MATRIX = floats(6)


def _bags(rng: Generator, rows: int) -> dict[str, Any]:
    sizes = rng.integers(0, 4, rows)
    sizes[0] = 2
    return {"indices": rng.integers(0, 20, sizes.sum()), "offsets": np.concatenate([[0], np.cumsum(sizes)[:-1]])}


def _groups(rng: Generator, rows: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((4 * rows, 3)).astype(np.float32), "groups": rng.integers(0, 5, 4 * rows)}


def _network(name: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    """A module of torch.nn."""

    def make() -> Any:
        import torch

        return getattr(torch.nn, name)(*arguments, **options)

    return make


def _function(write: Callable[..., Any]) -> Callable[[], Any]:
    """A module that calls a function with torch and its inputs."""

    def make() -> Any:
        import torch

        class Function(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
            def forward(self, *given: Any) -> Any:
                return write(torch, *given)

        return Function()

    return make


def _scattered(reduce: str) -> Callable[..., Any]:
    def write(torch: Any, x: Any, groups: Any) -> Any:
        zeros = torch.zeros(5, x.shape[1])
        return zeros.scatter_reduce(0, groups[:, None].expand(-1, x.shape[1]), x, reduce, include_self=False)

    return write


def _stft(torch: Any, x: Any) -> Any:
    made = torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True)
    return torch.view_as_real(made)


def _windows(torch: Any, x: Any) -> Any:
    columns = torch.nn.functional.unfold(x, 3, stride=2)
    return torch.nn.functional.fold(columns * 2, 12, 3, stride=2)


def _sampled(torch: Any, x: Any) -> Any:
    steps = torch.linspace(-1.1, 1.1, 5)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)
    return torch.nn.functional.grid_sample(x, grid.expand(x.shape[0], -1, -1, -1), align_corners=False)


def _resized(mode: str) -> Callable[..., Any]:
    options = {} if mode in ("nearest", "area") else {"align_corners": False}
    return lambda torch, x: torch.nn.functional.interpolate(x, scale_factor=1.5, mode=mode, **options)


MODULES: dict[str, tuple[Callable[[], Any], Inputs]] = {
    "AdaptiveAvgPool2d": (_network("AdaptiveAvgPool2d", 5), _IMAGE),
    "AdaptiveMaxPool2d": (_network("AdaptiveMaxPool2d", 4), _IMAGE),
    "AvgPool2d": (_network("AvgPool2d", 3, 2, 1, ceil_mode=True, count_include_pad=False), _IMAGE),
    "ConvTranspose2d": (_network("ConvTranspose2d", 3, 4, 3, 2, 1, output_padding=1), _IMAGE),
    "EmbeddingBag": (_network("EmbeddingBag", 20, 4, mode="sum"), _bags),
    "EmbeddingBag mean": (_network("EmbeddingBag", 20, 4, mode="mean"), _bags),
    "GRU": (_network("GRU", 8, 5, 2, batch_first=True, bidirectional=True), _SEQUENCE),
    "GroupNorm": (_network("GroupNorm", 3, 3), _IMAGE),
    "InstanceNorm2d": (_network("InstanceNorm2d", 3, affine=True), _IMAGE),
    "LSTM": (_network("LSTM", 8, 5, 2, batch_first=True, bidirectional=True), _SEQUENCE),
    "LocalResponseNorm": (_network("LocalResponseNorm", 3), _IMAGE),
    "MaxPool2d": (_network("MaxPool2d", 3, 2, 1, ceil_mode=True, return_indices=True), _IMAGE),
    "PReLU": (_network("PReLU", 3), _IMAGE),
    "RNN": (_network("RNN", 8, 5, batch_first=True), _SEQUENCE),
    "Transformer": (
        _network("Transformer", 8, 2, 1, 1, 16, batch_first=True),
        together(_SEQUENCE, floats(6, 8, name="y")),
    ),
    "argsort": (_function(lambda torch, x: torch.argsort(x, dim=-1, descending=True)), _MATRIX),
    "bucketize": (_function(lambda torch, x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5]))), _MATRIX),
    "cdist": (_function(lambda torch, x, y: torch.cdist(x, y)), together(_SEQUENCE, floats(4, 8, name="y"))),
    "cumsum": (_function(lambda torch, x: x.cumsum(1)), _SEQUENCE),
    "einsum": (
        _function(lambda torch, x, y: torch.einsum("bij,bkj->bik", x, y)),
        together(_SEQUENCE, floats(4, 8, name="y")),
    ),
    "fft": (_function(lambda torch, x: torch.view_as_real(torch.fft.rfftn(x, dim=(1, 2)))), _SEQUENCE),
    "fold": (_function(_windows), _IMAGE),
    "gather": (_function(lambda torch, x, at: x.gather(1, at)), together(floats(8), ids(8, "at"))),
    "grid_sample": (_function(_sampled), _IMAGE),
    "interpolate area": (_function(_resized("area")), _IMAGE),
    "interpolate bicubic": (_function(_resized("bicubic")), _IMAGE),
    "interpolate bilinear": (_function(_resized("bilinear")), _IMAGE),
    "interpolate nearest": (_function(_resized("nearest")), _IMAGE),
    "inverse": (_function(lambda torch, x: torch.linalg.inv(x + 8 * torch.eye(6))), floats(6, 6)),
    "masked_fill": (_function(lambda torch, x: x.masked_fill(x > 0.5, -1.0).softmax(-1)), _MATRIX),
    "nonzero": (_function(lambda torch, x: torch.nonzero(x > 0)), _MATRIX),
    "one_hot": (_function(lambda torch, at: torch.nn.functional.one_hot(at, 9) * 2.5), ids(9, "at")),
    "pad reflect": (_function(lambda torch, x: torch.nn.functional.pad(x, (2, 1, 1, 2), "reflect")), _IMAGE),
    "pixel_shuffle": (_function(lambda torch, x: torch.nn.functional.pixel_shuffle(x, 2)), floats(8, 3, 3)),
    "repeat_interleave": (_function(lambda torch, x: x.repeat_interleave(3, 1)), _MATRIX),
    "roll": (_function(lambda torch, x: x.roll((1, -2), (1, 2))), _SEQUENCE),
    "scatter amax": (_function(_scattered("amax")), _groups),
    "scatter mean": (_function(_scattered("mean")), _groups),
    "scatter sum": (_function(_scattered("sum")), _groups),
    "stft": (_function(_stft), floats(128)),
    "topk": (_function(lambda torch, x: torch.topk(x, 3)), _MATRIX),
    "tril": (_function(lambda torch, x: x.tril() + x.triu(1) * 2), floats(6, 6)),
    "unique": (_function(lambda torch, at: torch.unique(at, return_inverse=True)), ids(5, "at")),
    "var": (_function(lambda torch, x: torch.var_mean(x, dim=(1, 2))), _SEQUENCE),
}


#: Modules that are made for one size of image only, which nothing in their IR says.
_OF_ONE_SIZE = ("fold",)


def _build(name: str) -> BuiltIr:
    make, inputs = MODULES[name]
    return from_torch(make(), inputs, **({"input": [[-1, 3, 12, 12]]} if name in _OF_ONE_SIZE else {}))


for _name in MODULES:
    model(f"torch/{_name}", "torch", among=IRS)(partial(_build, _name))
