"""Operators whose result depends on how shapes broadcast or which ranks are known: all small combinations."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_models import Case, c, check, check_all, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert

ov = pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 4, 5), (2, 5, 5), (2, 5, 3, 5), (1, 3, 3, 4)], ids=str)
def test_slopes(shape: tuple[int, ...], core: Any, tmp_path: Path) -> None:
    """As many slopes as channels belong to these, others are broadcast to the last axis."""
    x = RNG.normal(size=shape).astype(F)
    shapes = {(n,) for n in (1, *shape[1:2], shape[-1])} | {shape[-k:] for k in range(2, len(shape) + 1)}
    slopes = {str(s): RNG.normal(size=s).astype(F) for s in sorted(shapes)}
    for slope in slopes.values():
        tested = Case("", lambda x, s=slope: ops(1).prelu(x, c(s, F)), x)
        (expected,) = core.compile_model(core.read_model(tested.save(tmp_path)), "CPU")([x]).values()
        for tested.dynamic in (False, True):  # with dynamic shapes, OpenVINO returns nothing for some
            (got,) = InferenceSession(convert(tested.save(tmp_path))).run(None, {"p0": x})
            np.testing.assert_allclose(got, expected, rtol=1e-6)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (1, 5, 4, 2)),
    ("...ij,...jk->...ik", (3, 4), (2, 5, 4, 2)),
    ("...ij,...jk", (1, 3, 4), (5, 4, 2)),
    ("i...,i...->...", (3, 2, 1), (3, 1, 4)),
    ("...i,...i->...", (2, 3), (2, 3)),
    ("a...b,b->a...", (2, 3, 4), (4,)),
    ("...,...->...", (2, 1), (1, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("bij,bjk->bik", (1, 2, 3), (4, 3, 2)),
    ("bhij,bhkj->bhik", (2, 3, 4, 5), (2, 3, 4, 5)),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("equation", "one", "other"), EQUATIONS, ids=str)
def test_equations(
    equation: str, one: tuple[int, ...], other: tuple[int, ...], dynamic: bool, core: Any, tmp_path: Path
) -> None:
    """Also ellipses that broadcast, on which ONNX Runtime's own Einsum ends the process."""
    inputs = [RNG.normal(size=shape).astype(F) for shape in (one, other)]
    tested = Case("", lambda a, b: ops(7).einsum([a, b], equation), *inputs, dynamic=dynamic)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize("equation", ["ii->i", "ij->ji", "iji->j", "ij->", "...ij->...ji", "i...->...", "ij"])
def test_equations_of_one_operand(equation: str, core: Any, tmp_path: Path) -> None:
    x = RNG.normal(size={"ii->i": (3, 3), "iji->j": (3, 2, 3)}.get(equation, (2, 3))).astype(F)
    tested = Case("", lambda a: ops(7).einsum([a], equation), x)
    check(tested, core, tested.save(tmp_path))


@pytest.mark.parametrize(("kept", "shape"), [(False, (3,)), (True, (3,)), (True, (2, 3))], ids=str)
def test_reductions_over_axes_that_are_an_input(shape: tuple[int, ...], kept: bool, core: Any, tmp_path: Path) -> None:
    """The file does not tell a scalar result from one of unknown rank."""
    x = RNG.normal(size=shape).astype(F)
    names = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1", "reduce_l2")
    for count in range(1, len(shape) + 1) if kept else [1]:
        axes = np.arange(len(shape), dtype=np.int64)[-count:]
        builds = {n: (lambda x, a, n=n: getattr(ops(4), n)(x, a, kept)) for n in names}
        assert check_all(builds, [x, axes], core, tmp_path / "model.xml") == {}


SCALES = list(itertools.product((1e-12, 1e-5, 1e-2), (0.003, 1, 30)))


@pytest.mark.parametrize(("eps", "spread"), SCALES)
def test_normalizations_with_a_variance_comparable_to_eps(eps: float, spread: float, core: Any, tmp_path: Path) -> None:
    x = (RNG.normal(size=(2, 4, 3, 5)) * spread).astype(F)
    four = [c(RNG.uniform(0.5, 2, 4) * (spread**2 if k == 3 else 1), F) for k in range(4)]
    builds: dict[str, Any] = {
        f"MVN-6 {mode} {axes}": lambda x, m=mode, a=axes: ops(6).mvn(x, c(a), True, eps, m)
        for mode in ("inside_sqrt", "outside_sqrt")
        for axes in ([3], [2, 3], [1, 2, 3], [1])
    }
    builds |= {
        f"NormalizeL2 {mode} {axes}": lambda x, m=mode, a=axes: ops(1).normalize_l2(x, c(a), eps, m)
        for mode in ("add", "max")
        for axes in ([1], [1, 2, 3])
    }
    builds["BatchNormInference"] = lambda x: ops(5).batch_norm_inference(x, *four, eps)
    builds["GroupNormalization"] = lambda x: ops(12).group_normalization(x, four[0], four[1], 2, eps)
    assert check_all(builds, [x], core, tmp_path / "model.xml") == {}
    for across, variance in itertools.product((True, False), (True, False)):
        check_mvn_1(x, across, variance, eps, core, tmp_path)


def check_mvn_1(x: Any, across: bool, variance: bool, eps: float, core: Any, folder: Path) -> None:
    """MVN of operator set 2, which OpenVINO's Python API cannot build: from a handwritten file."""
    net = IrBuilder()
    given = net.parameter("p0", "f32", list(x.shape))
    attributes = {"across_channels": str(across).lower(), "normalize_variance": str(variance).lower(), "eps": eps}
    net.result(net.layer("MVN", "opset2", [given], [("f32", list(x.shape))], attributes))
    path = net.save(folder)
    (want,) = core.compile_model(core.read_model(path), "CPU")([x]).values()
    (have,) = InferenceSession(convert(path)).run(None, {"p0": x})
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)
