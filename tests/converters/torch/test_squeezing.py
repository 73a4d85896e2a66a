"""squeeze of dimensions that are 1, and of some that are not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

MANY = torch.export.Dim.DYNAMIC
DIMS = (0, 1, 2, 3, -1, -2, -4, (1, 2), (0, 1, -1), (-3, 3), ())


def batch(rows: int, columns: int = 3) -> tuple[torch.Tensor]:
    return (torch.arange(rows * columns, dtype=torch.float32).reshape(rows, 1, columns, 1),)


def test_only_dimensions_of_1_are_removed(agree) -> None:
    calls = {f"squeeze({dims})": lambda _, x, d=dims: x.squeeze(d) * 2 for dims in DIMS}
    calls["of a number"] = lambda _, x: x.sum().squeeze(0)
    calls["of a constant size"] = lambda _, x: x[:, :, :2].squeeze(2) + x.squeeze(1)[:, :2]
    calls["in place"] = lambda _, x: x.clone().squeeze_(2).squeeze_(1)
    agree(calls, [batch(4), batch(2), batch(0)], dynamic=[{0: MANY}])


def test_dynamic_sizes(agree) -> None:
    """A dynamic size is no 1 for torch.export: the batches are of the sizes that are not squeezed."""
    calls = {f"squeeze({dims})": lambda _, x, d=dims: x.squeeze(d) for dims in DIMS}
    agree(calls, [batch(4, 5), batch(2, 3), batch(3, 2)], dynamic=[{0: MANY, 2: MANY}])
