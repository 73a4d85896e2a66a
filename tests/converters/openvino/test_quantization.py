"""FakeConvert against OpenVINO, and against ml_dtypes, on every float16 and on numbers between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.openvino_irs import IrBuilder, type_name
from support.openvino_models import Case, check_all, compiling_core, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

F = np.float32
#: The types, and the largest number of each.
TYPES = {"f8e4m3": (ml_dtypes.float8_e4m3fn, 448), "f8e5m2": (ml_dtypes.float8_e5m2, 57344)}
HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)


def converted(x: Any, kind: str, folder: Path) -> Any:
    """The results of a converted handwritten file with scale 1."""
    net = IrBuilder()
    name, shape = type_name(x.dtype), list(x.shape)
    read = [net.parameter("x", name, shape), net.constant(np.array(1, x.dtype))]
    net.result(net.layer("FakeConvert", "opset13", read, [(name, shape)], {"destination_type": kind}))
    (made,) = InferenceSession(convert(net.save(folder))).run(None, {"x": x})
    return made


@pytest.mark.parametrize("kind", TYPES)
def test_every_half(kind: str, tmp_path: Path) -> None:
    """What is larger than the largest number becomes that one; NaN, of which OpenVINO makes a number, stays."""
    made = converted(HALVES, kind, tmp_path)
    dtype, most = TYPES[kind]
    with np.errstate(invalid="ignore"):
        wanted = np.clip(HALVES, -most, most).astype(dtype).astype(np.float16)
    np.testing.assert_array_equal(made, wanted)
    is_number = ~np.isnan(HALVES)
    np.testing.assert_array_equal(np.signbit(made)[is_number], np.signbit(HALVES)[is_number])


@pytest.mark.parametrize("kind", TYPES)
def test_floats_are_rounded_twice(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dtype, most = TYPES[kind]
    steps = np.unique(np.arange(256, dtype=np.uint8).view(dtype).astype(F))
    steps = steps[np.isfinite(steps)]
    ties = (steps[1:] + steps[:-1]) / 2
    x = np.concatenate([ties, ties * F(1 + 1e-4), ties * F(1 - 1e-4), np.exp2(rng.uniform(-30, 30, 9999)).astype(F),
                        F([0, -0.0, np.inf, -np.inf, 3e38])])  # fmt: skip
    with np.errstate(over="ignore"):
        wanted = np.clip(x.astype(np.float16), -most, most).astype(dtype).astype(F)
    np.testing.assert_array_equal(converted(x, kind, tmp_path), wanted)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [F, np.float16])
def test_openvino(dtype: Any, dynamic: bool, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    rng = np.random.default_rng(1)
    # Not so small that OpenVINO's floats of e5m2 are wrong.
    x = (rng.normal(size=(2, 3, 500)) * np.exp2(rng.uniform(-5, 12, (2, 3, 500)))).astype(dtype)
    builds = {}
    for kind in TYPES:
        for shape in ((), (1,), (3, 1), (1, 3, 1), (2, 1, 1)):
            scale, shift = (rng.uniform(0.3, 3, shape).astype(dtype) for _ in range(2))
            builds[f"{kind} {shape}"] = lambda x, s=scale, k=kind: ops(13).fake_convert(x, s, destination_type=k)
            builds[f"{kind} {shape} moved"] = lambda x, s=scale, m=shift, k=kind: ops(13).fake_convert(x, s, m, k)
    assert check_all(builds, [x], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    made = converted(np.full(shape, 3.3, F), "f8e4m3", tmp_path)
    np.testing.assert_array_equal(made, np.full(shape, 3.25, F))


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="destination_type = 'f8e8m0' is not supported; f8e4m3, f8e5m2 are"):
        converted(np.zeros(2, F), "f8e8m0", tmp_path)
    with pytest.raises(ConversionError, match="x has the type double; float, float16 and bfloat16 are supported"):
        converted(np.zeros(2), "f8e4m3", tmp_path)


def test_scale_and_shift_of_the_model(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    x, scale, shift = F([[1, 2.2, 300]]), F([[0.5], [3]]), F([[0.25], [1]])
    tested = Case("", lambda x, *given: ops(13).fake_convert(x, *given), np.repeat(x, 2, 0), scale, shift)
    core = compiling_core()
    path = tested.save(tmp_path)
    (want,) = core.compile_model(core.read_model(path), "CPU")(tested.inputs).values()
    (have,) = InferenceSession(convert(path)).run(None, {f"p{k}": x for k, x in enumerate(tested.inputs)})
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("seed", range(16))
def test_constants_are_rounded_at_conversion(seed: int, core: Any, tmp_path: Path) -> None:
    """Of any levels, limits by tensor and channel, also in half floats that a Convert widens."""
    rng = np.random.default_rng(seed)
    levels = int(rng.choice([2, 15, 16, 255, 256, 257, 1000]))
    per_channel, half = rng.random(2) < 0.5
    shape = (64, 1, 1, 1) if per_channel else ()
    dtype = np.float16 if half else F
    ends = np.sort(rng.normal(size=(2, *shape)), axis=0).astype(dtype)
    out = rng.normal(size=(2, *shape)).astype(dtype)
    net = IrBuilder()
    x = net.parameter("x", "f32", [1, 16, 9, 9])

    def widened(array: Any) -> tuple[int, int]:
        made = net.constant(array)
        port = ("f32", list(array.shape))
        return net.layer("Convert", "opset1", [made], [port], {"destination_type": "f32"}) if half else made

    weight = rng.normal(size=(64, 16, 3, 3)).astype(dtype)
    given = [widened(array) for array in (weight, *ends, *out)]
    rounded = net.layer("FakeQuantize", "opset1", given, [("f32", [64, 16, 3, 3])], {"levels": levels})
    data = {"strides": "1,1", "dilations": "1,1", "pads_begin": "1,1", "pads_end": "1,1"}
    net.result(net.layer("Convolution", "opset1", [x, rounded], [("f32", [1, 64, 9, 9])], data))
    path, feed = net.save(tmp_path), rng.normal(size=(1, 16, 9, 9)).astype(F)
    config = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}
    (wanted,) = core.compile_model(core.read_model(path), "CPU", config)([feed]).values()
    model = convert(path)
    (made,) = InferenceSession(model).run(None, {"x": feed})
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max() + 1e-30)
    assert not {"Round", "Where"} & {node.op_type for node in model.graph.node}
    assert model.ByteSize() < (1 if levels <= 256 else 4) * weight.size + 4000
