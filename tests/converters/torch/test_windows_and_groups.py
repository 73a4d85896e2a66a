"""Normalization of groups, means of windows, and sums to a size: of other batches, of no rows, and of large numbers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

F = torch.nn.functional
DYNAMIC = torch.export.Dim.DYNAMIC

GROUPS = {
    "group_norm": lambda m, x: F.group_norm(x, 2),
    "group_norm, scaled": lambda m, x: F.group_norm(x, 3, m.weight, m.bias, 0.1),
    "group_norm of two dimensions": lambda m, x: F.group_norm(x[..., 0], 2, m.weight),
    "mean": lambda m, x: torch.native_group_norm(x, None, None, x.shape[0], 6, x.shape[2], 3, 0.1)[1],
    "inverse": lambda m, x: torch.native_group_norm(x, None, None, x.shape[0], 6, x.shape[2], 3, 0.1)[2],
    "in half floats": lambda m, x: F.group_norm(x.half(), 2, m.weight.half(), m.bias.half()),
}

WINDOWS = {
    "avg_pool2d": lambda _, x: F.avg_pool2d(x, 2),
    "avg_pool2d without a batch": lambda _, x: F.avg_pool2d(x.sum(0), (2, 3), 1, (1, 0)),
    "avg_pool2d of ends": lambda _, x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool2d by a divisor": lambda _, x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
    "avg_pool2d by a divisor, without padding": lambda _, x: F.avg_pool2d(x, 2, 1, 1, False, False, 3),
    "avg_pool3d": lambda _, x: F.avg_pool3d(x[:, None], (1, 2, 2), (2, 2, 1)),
    "avg_pool3d by a divisor": lambda _, x: F.avg_pool3d(x[:, None], (1, 3, 3), 1, (0, 1, 1), divisor_override=2),
    "avg_pool3d of ends": lambda _, x: F.avg_pool3d(x[:, None], 2, 2, 0, True),
}

SUMS = {
    "sum_to_size": lambda _, x: x.sum_to_size(1, 6, 1),
    "gradient of softmax": lambda _, x: torch.ops.aten._softmax_backward_data(x, x, -1, torch.float32),
}


def of_channels(rows: int, width: int = 5, *special: float) -> tuple[torch.Tensor]:
    x = torch.randn(rows, 6, width, generator=torch.Generator().manual_seed(rows))
    x.view(-1)[: len(special)] = torch.tensor(special)
    return (x,)


def test_groups(agree) -> None:
    tables = {"weight": torch.linspace(-1, 2, 6), "bias": torch.linspace(1, 3, 6)}
    batches = [
        of_channels(4),
        of_channels(1, 7),
        of_channels(3, 1),
        of_channels(0),
        of_channels(2, 5, float("inf"), 1, float("nan")),
    ]
    agree(GROUPS, batches, tables=tables, dynamic=[{0: DYNAMIC, 2: DYNAMIC}])


def test_a_mean_does_not_overflow(agree) -> None:
    functions = {name: GROUPS[name] for name in ("mean", "group_norm")}
    agree(functions, [of_channels(4), (torch.full((2, 6, 5), 1e38),)], dynamic=[{0: DYNAMIC, 2: DYNAMIC}])


def test_windows(agree) -> None:
    images = [torch.randn(rows, 2, size, 6) for rows, size in ((3, 5), (1, 8), (0, 4))]
    agree(WINDOWS, [(x,) for x in images], dynamic=[{0: DYNAMIC, 2: DYNAMIC}])


def test_sums(agree) -> None:
    batches = [of_channels(4), of_channels(1, 7), of_channels(0), of_channels(2, 4, 3e38, -3e38, 1e30, 3e38)]
    agree(SUMS, batches, dynamic=[{0: DYNAMIC, 2: DYNAMIC}])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda x: (x > 0).sum_to_size(1, 3, 6, 6), "cast the input to int64 before"),
        (lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3), "divisor_override with ceil_mode"),
        (lambda x: F.avg_pool2d(x.long(), 2), "integers, whose means torch rounds"),
    ],
    ids=["a type that depends on sizes", "ends by a divisor", "integers"],
)
def test_what_has_no_right_answer_is_refused(call: Any, reason: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return call(x)

    with pytest.raises(ConversionError, match=reason):
        export(Module(), (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: DYNAMIC},))
