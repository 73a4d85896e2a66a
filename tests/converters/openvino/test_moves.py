"""Operators that only move elements or bits, in all ranks, modes and types, against OpenVINO."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check, check_all, ops

pytest.importorskip("openvino")

RNG = np.random.default_rng(0)
o = ops(15)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_blocks_and_channels(block: int, rank: int, dynamic: bool, core: Any, tmp_path: Path) -> None:
    deep = RNG.normal(size=(2, 2 * block ** (rank - 2), *(3, 4, 2)[: rank - 2])).astype(np.float32)
    wide = RNG.normal(size=(2, 3, *(block * size for size in (2, 3, 1)[: rank - 2]))).astype(np.float32)
    for mode in ("blocks_first", "depth_first"):
        for x, build in (
            (deep, lambda x, m=mode: o.depth_to_space(x, m, block)),
            (wide, lambda x, m=mode: o.space_to_depth(x, m, block)),
        ):
            tested = Case("", build, x, dynamic=dynamic)
            check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("axis", "groups"), [(0, 1), (1, 2), (1, 4), (-1, 3), (2, 6)])
def test_shuffled_channels(axis: int, groups: int, dynamic: bool, core: Any, tmp_path: Path) -> None:
    x = RNG.normal(size=(2, 4, 6)).astype(np.float32)
    tested = Case("", lambda x: o.shuffle_channels(x, axis, groups), x, dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(("shift", "axes"), [([1], [0]), ([-7, 2], [1, -1]), ([5, -1, 3], [0, 1, 1]), ([0], [2])])
def test_rolls(shift: list[int], axes: list[int], fed: bool, dynamic: bool, core: Any, tmp_path: Path) -> None:
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    shifts = np.int64(shift)
    if fed:
        tested = Case("", lambda x, s: o.roll(x, s, c(axes)), x, shifts, dynamic=dynamic)
    else:
        tested = Case("", lambda x: o.roll(x, c(shifts), c(axes)), x, dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16], ids=str)
def test_shifted_bits(dtype: Any, core: Any, tmp_path: Path) -> None:
    """A negative number keeps its sign. OpenVINO takes uint32 for int32, and results beyond 8 bits for the limits."""
    limits = np.iinfo(dtype)
    numbers = [0, 1, 5, limits.max, limits.min, limits.min + 1, limits.max // 3]
    for by in (0, 1, 3, limits.bits - 1):
        right = Case("", o.bitwise_right_shift, np.array(numbers, dtype), np.array([by], dtype))
        check(right, core, right.save(tmp_path))
    for by in (0, 1, 2):
        left = Case("", o.bitwise_left_shift, np.array([0, 1, 5, 9], dtype), np.array([by], dtype))
        check(left, core, left.save(tmp_path))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 2, 3, 4)], ids=str)
def test_empty_axes(shape: tuple[int, ...], core: Any, tmp_path: Path) -> None:
    """Nothing is summed by NormalizeL2: all but 0 becomes 1. Squeeze takes all axes of size 1."""
    x = RNG.normal(size=shape).astype(np.float32)
    x[..., 0] = 0
    none = c(np.zeros(0))
    builds = {f"{mode} {eps}": lambda x, m=mode, e=eps: o.normalize_l2(x, none, e, m)
              for mode, eps in itertools.product(("add", "max"), (1e-9, 0.5))}  # fmt: skip
    builds["squeeze"] = lambda x: o.squeeze(x, none)
    assert check_all(builds, [x], core, tmp_path / "model.xml") == {}


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("shape", [(1, 3, 1, 4), (1, 1), (1, 0), ()], ids=str)
def test_squeeze_of_every_form(shape: tuple[int, ...], skips: bool, core: Any, tmp_path: Path) -> None:
    """OpenVINO writes `allow_axis_skip` on each Squeeze-15, also if it has no axes, or empty ones."""
    x = RNG.normal(size=shape).astype(np.float32)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    builds = {str(axes): lambda x, a=axes: ops(15).squeeze(x, None if a is None else c(a), skips)
              for axes in (None, np.zeros(0), ones[:1], ones)}  # fmt: skip
    if skips and shape:
        builds["skipped"] = lambda x: ops(15).squeeze(x, c([*range(len(shape))]), True)
    for name, build in builds.items():
        tested = Case(name, build, x)
        check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize(("target", "axes"), [([2, 3, 4], [1, 2]), ([4, 3, 2, 4], [1, 3]), ([3, 4, 5], [0, 1])])
def test_explicit_broadcasts_of_the_first_operator_set(
    target: list[int], axes: list[int], core: Any, tmp_path: Path
) -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    for dynamic in (False, True):
        tested = Case("", lambda x: ops(1).broadcast(x, c(target), c(axes), "EXPLICIT"), x, dynamic=dynamic)
        check(tested, core, tested.save(tmp_path))
