"""Poolings of every small shape: they equal OpenVINO's, or are refused for a reason that is true."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import c, check_all, compiling_core, ops

ov = pytest.importorskip("openvino")

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Pool:
    """A pooling over one axis: `max`, or the average with (`counted`) or without (`average`) the paddings."""

    kind: str
    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    auto: str
    rounding: str

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    def is_known_fault(self, *, dynamic: bool) -> bool:
        """Whether OpenVINO's CPU plugin has a fault here, which known_faults names."""
        overhangs = (self.size + sum(self.pads(self.size)) - self.reach) % self.stride > 0
        if self.kind == "max" and self.auto.startswith("same") and dynamic:
            return True
        return self.kind == "counted" and self.rounding != "floor" and overhangs

    def pads(self, size: int) -> tuple[int, int]:
        """The paddings at the start and the end."""
        if not self.auto.startswith("same"):
            return self.begin, self.end
        total = max((-(-size // self.stride) - 1) * self.stride + self.reach - size, 0)
        return (total // 2, total - total // 2) if self.auto == "same_upper" else (total - total // 2, total // 2)

    def build(self, x: Any) -> Any:
        s, d, b, e, k = ([n] for n in (self.stride, self.dilation, self.begin, self.end, self.kernel))
        if self.kind == "max":
            return ops(14).max_pool(x, s, d, b, e, k, self.rounding, self.auto)
        return ops(14).avg_pool(x, s, b, e, k, self.kind == "average", self.rounding, self.auto)

    def window_begins_beyond_the_data(self, size: int) -> bool:
        begin, end = self.pads(size)
        return -(-(size + begin + end - self.reach) // self.stride) * self.stride >= size + begin

    def refusals(self, *, dynamic: bool) -> set[str]:
        """The reasons for which it may be refused."""
        found = set()
        known = not dynamic or not self.auto.startswith("same") or self.stride == 1
        # Data are padded first for a maximum, and where paddings are counted unless a window may begin beyond them.
        padded = self.kind == "max" or (
            self.kind == "counted" and self.rounding != "ceil_torch" and self.stride <= self.kernel
        )
        if known and not padded and max(self.pads(self.size)) >= self.kernel:
            found.add("paddings as large as the window, which ONNX Runtime does not take")
        sizes = range(self.reach, 50) if dynamic else [self.size]
        if known and not padded and self.rounding == "ceil" and any(map(self.window_begins_beyond_the_data, sizes)):
            found.add("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
        if not known and self.dilation > 1:
            found.add("auto_pad with dilations and strides, and sizes that are not known")
        if not known and self.stride > self.kernel:
            found.add("auto_pad with strides larger than the window, and sizes that are not known")
        return found


def pools(size: int) -> Iterator[Pool]:
    paddings = [("explicit", b, e) for b in range(3) for e in range(3)]
    paddings += [(auto, 0, 0) for auto in ("valid", "same_upper", "same_lower")]
    for kind, kernel, stride in itertools.product(("max", "average", "counted"), range(1, 4), range(1, 5)):
        for dilation, rounding in itertools.product((1, 2), ("floor", "ceil", "ceil_torch")):
            for auto, begin, end in paddings:
                if kind == "max" or dilation == 1:
                    yield Pool(kind, size, kernel, stride, dilation, begin, end, auto, rounding)


def check_pools(chosen: list[Pool], size: int, folder: Path, *, dynamic: bool) -> None:
    x = RNG.normal(size=(1, 2, size)).astype(np.float32)
    probe = ops(14).parameter([1, 2, size], np.float32)
    tested = {}
    for pool in chosen:
        try:
            pool.build(probe)
        except RuntimeError:  # OpenVINO does not take it
            continue
        if not pool.is_known_fault(dynamic=dynamic):
            tested[str(pool)] = pool
    builds = {name: pool.build for name, pool in tested.items()}
    refused = check_all(builds, [x], compiling_core(), folder / "model.xml", dynamic=dynamic)
    for name, pool in tested.items():
        reasons = pool.refusals(dynamic=dynamic)
        assert (refused[name] in reasons) if name in refused else not reasons, name


@pytest.mark.parametrize("dynamic", [False, True])
def test_adaptive_poolings(dynamic: bool, tmp_path: Path) -> None:
    """Windows that divide the axes, overlap, differ in length, or hold one number."""
    x = RNG.normal(size=(2, 3, 6, 5)).astype(np.float32)

    def maximum(sizes: Any, output: int) -> Any:
        return lambda x: ops(1).convert(ops(8).adaptive_max_pool(x, sizes, "i32").output(output), "f32")

    def grown(x: Any, by: tuple[int, int]) -> Any:
        """The sizes of the axes and some more, which is not a constant where they are not known."""
        return ops(1).add(ops(8).slice(ops(3).shape_of(x), c([2]), c([4]), c([1])), c([size - 2 for size in by]))

    builds: dict[str, Any] = {}
    for height, width in itertools.product((1, 2, 4, 6, 7), (1, 3, 5, 8)):
        sizes = ops(16).constant(np.int64([height, width]))
        builds[f"average {height} {width}"] = lambda x, sizes=sizes: ops(8).adaptive_avg_pool(x, sizes)
        builds[f"computed {height} {width}"] = lambda x, by=(height, width): ops(8).adaptive_avg_pool(x, grown(x, by))
        builds[f"maximum {height} {width}"] = maximum(sizes, 0)
        builds[f"position {height} {width}"] = maximum(sizes, 1)
    assert check_all(builds, [x], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [3, 5])
def test_small_poolings(size: int, dynamic: bool, tmp_path: Path) -> None:
    """A random part of all combinations of kernel, stride, dilation, paddings, auto_pad and rounding."""
    chosen = list(pools(size))
    check_pools([chosen[k] for k in RNG.permutation(len(chosen))[:100]], size, tmp_path, dynamic=dynamic)


@pytest.mark.parametrize("known", [2, 3])
def test_poolings_of_which_one_size_is_known(known: int, tmp_path: Path) -> None:
    """ONNX's shape inference counts windows that torch and ONNX Runtime omit, where it knows the size."""
    x = RNG.normal(size=(1, 2, 5, 6)).astype(np.float32)
    builds = {
        f"{kind} of {kernel} by {stride}, {begin} before and {end} after": (
            lambda x, kind=kind, kernel=kernel, stride=stride, begin=begin, end=end: pooled(
                x, kind, kernel, stride, begin, end
            )
        )
        for kind in ("max", "average")
        for kernel, stride in itertools.product((2, 3), (1, 2, 3))
        for begin, end in itertools.product(range(kernel), range(kernel))
    }
    static = [(0, axis) for axis in (0, 1, known)]
    refused = check_all(builds, [x], compiling_core(), tmp_path / "model.xml", dynamic=True, static=static)
    size = x.shape[known]
    assert {*refused.values()} <= {f"rounding_type = 'ceil_torch' with windows that end before {size}, a known size"}
    assert all(" of 2 by 3" in name for name in refused)  # a step is left out between windows


def pooled(x: Any, kind: str, kernel: int, stride: int, begin: int, end: int) -> Any:
    sizes = [[stride] * 2, [begin] * 2, [end] * 2, [kernel] * 2]
    if kind == "max":
        strides, before, after, window = sizes
        return ops(14).max_pool(x, strides, [1, 1], before, after, window, "ceil_torch", "explicit")
    return ops(14).avg_pool(x, *sizes, True, "ceil_torch", "explicit")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_windows_in_the_paddings(dtype: Any, dynamic: bool, tmp_path: Path) -> None:
    """Whose maximum is the lowest number and at the first position of the channel; whose counted mean is 0."""
    x = RNG.normal(size=(2, 3, 5, 4)).astype(dtype)
    builds: dict[str, Any] = {}

    def positions(x: Any, version: int, *given: Any) -> Any:
        return ops(1).convert(ops(version).max_pool(x, *given).output(1), "f32")

    rounding = ("floor", "ceil", "ceil_torch")
    for kernel, stride, begin, end in itertools.product((1, 2, 3), (1, 2, 3), (0, 2, 3), (0, 1, 2)):
        sizes = [[stride] * 2, [begin, 0], [end, 2], [kernel] * 2]
        name = f"{kernel} by {stride}, {begin} and {end}"
        axis, mode = (begin + end + kernel) % 4, rounding[(kernel + stride + begin + end) % 3]
        builds[f"max, {name}"] = lambda x, sizes=sizes: ops(1).max_pool(x, *sizes, "ceil")
        builds[f"average, {name}"] = lambda x, sizes=sizes: ops(1).avg_pool(x, *sizes, False, "floor")
        both = [sizes[0], [1, 2], *sizes[1:], mode, "explicit", "i64", axis]
        version = 14 if mode == "ceil_torch" else 8
        builds[f"values, {name}, {mode}"] = lambda x, v=version, both=both: ops(v).max_pool(x, *both)
        builds[f"positions, {name}, {mode}"] = lambda x, v=version, both=both: positions(x, v, *both)
    refused = check_all(builds, [x], compiling_core(), tmp_path / "model.xml", dynamic=dynamic)
    assert set(refused.values()) <= {"paddings as large as the window, which ONNX Runtime does not take"}
    assert all(re.match(r"average, (1 by 2|[12] by 3)", name) for name in refused)
