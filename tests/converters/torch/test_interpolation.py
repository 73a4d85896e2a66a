"""Interpolation: of infinite pixels and missing ones, of sizes that are not known, and of no rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

F = torch.nn.functional
DYNAMIC = torch.export.Dim.DYNAMIC
INFINITY, NAN = float("inf"), float("nan")

ROWS: dict[str, Callable[..., Any]] = {
    "twice": lambda _, x: F.interpolate(x, scale_factor=2, mode="linear"),
    "half": lambda _, x: F.interpolate(x, scale_factor=0.5, mode="linear"),
    "by a factor": lambda _, x: F.interpolate(x, scale_factor=1.3, mode="linear"),
    "by a factor that sizes are recomputed from": lambda _, x: F.interpolate(
        x, scale_factor=1.3, mode="linear", recompute_scale_factor=True
    ),
    "to a size": lambda _, x: F.interpolate(x, size=3, mode="linear"),
    "to one": lambda _, x: F.interpolate(x, size=1, mode="linear", align_corners=True),
    "of corners": lambda _, x: F.interpolate(x, size=7, mode="linear", align_corners=True),
}
IMAGES: dict[str, Callable[..., Any]] = {
    "linear, to a size": lambda _, x: F.interpolate(x.unflatten(2, (5, 5)), size=(3, 3), mode="bilinear"),
    "cubic, to a size": lambda _, x: F.interpolate(x.unflatten(2, (5, 5)), size=(3, 3), mode="bicubic"),
    "linear, of corners": lambda _, x: F.interpolate(
        x.unflatten(2, (5, 5)), size=(7, 9), mode="bilinear", align_corners=True
    ),
}


def of_pixels(rows: int, width: int, *special: float) -> tuple[torch.Tensor]:
    """Rows of two channels, the first of which begins with finite numbers, and goes on with special ones."""
    x = torch.randn(rows, 2, width, generator=torch.Generator().manual_seed(rows))
    x.view(-1)[2 : 2 + len(special)] = torch.tensor(special)
    return (x,)


def test_rows_of_any_width(agree) -> None:
    batches = [of_pixels(2, 5), of_pixels(3, 6, INFINITY), of_pixels(0, 4), of_pixels(1, 9, NAN, 1, -INFINITY)]
    agree(ROWS, batches, dynamic=[{0: DYNAMIC, 2: DYNAMIC}])


def test_rows_of_a_width(agree) -> None:
    same = {"to its own size": lambda _, x: F.interpolate(x, size=5, mode="linear")}
    batches = [of_pixels(2, 5), of_pixels(3, 5, INFINITY), of_pixels(0, 5), of_pixels(1, 5, NAN)]
    agree(ROWS | same, batches, dynamic=[{0: DYNAMIC}])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_of_other_types(agree, dtype) -> None:
    batches = [tuple(x.to(dtype) for x in of_pixels(rows, 5, *(INFINITY,) * (rows > 2))) for rows in (2, 3, 0)]
    agree(ROWS, batches, dynamic=[{0: DYNAMIC}])


def test_images_of_any_number(agree) -> None:
    """Only the axes that change are interpolated, in one node: along others, zero times an infinity would be NaN."""
    inner = (0.0,) * 5 + (INFINITY,)
    model = agree(IMAGES, [of_pixels(2, 25), of_pixels(3, 25, *inner), of_pixels(1, 25)], dynamic=[{0: DYNAMIC}])
    assert [node.op_type for node in model.graph.node].count("Resize") == len(IMAGES)
