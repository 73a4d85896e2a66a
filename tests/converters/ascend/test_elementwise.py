"""ATB's elementwise operations and activations against numpy in float64, rounded once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.ascend_graphs import (
    BFLOAT16,
    close,
    evaluate,
    layer,
    one_operation,
    operation,
    random,
    run,
    spec,
    wide,
    write,
)

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32 = np.float16, np.float32
HALVES = [F16, BFLOAT16]
FLOATS = [*HALVES, F32]
RNG = np.random.default_rng(11)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def fast_gelu(x: np.ndarray) -> np.ndarray:
    return x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def erf_gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class TestElewise:
    @pytest.mark.parametrize(
        ("number", "function"),
        [(3, np.cos), (4, np.sin), (5, np.negative), (20, np.tanh), (2, lambda x: x * np.float32(0.3))],
        ids=["COS", "SIN", "NEG", "TANH", "MULS"],
    )
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_unary(self, tmp_path, number, function, dtype):
        x = random(RNG, dtype, (2, 5))
        param = {"elewiseType": number, "mulsParam": {"varAttr": 0.30000001192092896}}
        close(evaluate(tmp_path, "ElewiseOperation", param, x)[0], function(wide(x)), dtype)

    @pytest.mark.parametrize(
        ("number", "function", "dtypes"),
        [
            (8, np.add, [F16, BFLOAT16, F32, np.int32, np.int64]),
            (9, np.multiply, [F16, BFLOAT16]),
            (10, np.divide, [F16, BFLOAT16, F32]),
            (15, np.subtract, [F16, BFLOAT16, np.int64]),
        ],
        ids=["ADD", "MUL", "REALDIV", "SUB"],
    )
    def test_binary(self, tmp_path, number, function, dtypes):
        """The result is computed in float32 and rounded once; shapes broadcast as in numpy."""
        for dtype in dtypes:
            x, y = random(RNG, dtype, (2, 1, 4)), random(RNG, dtype, (3, 1)) + np.dtype(dtype).type(1)
            (z,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, x, y)
            compute = F32 if np.dtype(dtype).kind not in "iu" else np.int64
            expected = function(x.astype(compute), y.astype(compute)).astype(dtype)
            assert z.dtype == expected.dtype
            np.testing.assert_array_equal(z.astype(np.float64), expected.astype(np.float64))

    @pytest.mark.parametrize("dtype", HALVES)
    def test_each_operation_rounds(self, tmp_path, dtype):
        """ONNX Runtime alone would round float16 only after the last of several operators."""
        x, y, z = (random(RNG, dtype, (200,)) for _ in range(3))
        nodes = [
            operation("ElewiseOperation", ["x", "y"], ["t"], {"elewiseType": 8}),
            operation("ElewiseOperation", ["t", "z"], ["r"], {"elewiseType": 8}),
        ]
        path = write(tmp_path, layer(["x", "y", "z"], ["r"], nodes))
        (r,) = run(convert(path, inputs={"x": spec(x), "y": spec(y), "z": spec(z)}), x, y, z)
        np.testing.assert_array_equal(wide(r), wide((x + y) + z))

    @pytest.mark.parametrize(("number", "function"), [(13, np.less), (14, np.greater), (16, np.equal)])
    @pytest.mark.parametrize("dtype", [*FLOATS, np.int64])
    def test_comparison(self, tmp_path, number, function, dtype):
        x = np.array([[1, 2, 3]]).astype(dtype)
        y = np.array([[2], [1]]).astype(dtype)
        (z,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, x, y)
        assert z.dtype == np.int8
        np.testing.assert_array_equal(z, function(wide(x), wide(y)))

    def test_logical(self, tmp_path):
        x, y = np.array([0, 0, 1, 1], np.int8), np.array([0, 1, 0, 1], np.int8)
        for number, arrays, expected in (
            (7, [x], [1, 1, 0, 0]),
            (11, [x, y], [0, 0, 0, 1]),
            (12, [x, y], [0, 1, 1, 1]),
        ):
            (z,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, *arrays)
            assert z.dtype == np.int8
            np.testing.assert_array_equal(z, expected)

    @pytest.mark.parametrize(
        ("source", "number", "target"),
        [(F16, 0, F32), (F32, 27, BFLOAT16), (np.int64, 3, np.int32), (np.int32, 9, np.int64), (F32, -1, F16),
         (F16, -1, F32), (BFLOAT16, -1, F32)],
    )  # fmt: skip
    def test_cast(self, tmp_path, source, number, target):
        x = np.array([0, 1, -3, 7]).astype(source)
        (y,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 1, "outTensorType": number}, x)
        assert y.dtype == target
        np.testing.assert_array_equal(wide(y), wide(x))

    def test_quant_per_channel(self, tmp_path):
        x = np.array([[1.0, 2.5, -300.0], [-1.5, 0.25, 100.0]], F16)
        scale, offset = np.array([0.5, 1, 1], F16), np.array([1, 0, -7], np.int8)
        for arrays, shift in (([x, scale, offset], offset), ([x, scale], 0)):
            (y,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 17}, *arrays)
            expected = np.clip(np.rint(wide(x) / scale + shift), -128, 127)
            assert y.dtype == np.int8
            np.testing.assert_array_equal(y, expected)

    def test_dequant_per_channel(self, tmp_path):
        y, scale, offset = (
            np.array([[100, -100, 3]], np.int8),
            np.array([1e3, 1, 0.5], F16),
            np.array([0, 1, 2], np.int8),
        )
        (x,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 18}, y, scale, offset)
        close(x, np.array([[65504, -101, 0.5]]), F16)

    def test_dynamic_quant(self, tmp_path):
        x = np.array([[1, -2, 0.5, 0.004], [0, 0, 0, 0]], F16)
        q, scale = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 19}, x, results=2)
        np.testing.assert_array_equal(q, [[64, -127, 32, 0], [0, 0, 0, 0]])
        close(scale, np.array([2 / 127, 0]), F32)

    def test_dynamic_quant_asymmetric(self, tmp_path):
        """The range of a row fills the int8s; a row of equal values has a range of nothing."""
        x = np.array([[1, -2, 0.5, 3], [0, 0, 0, 0]], F16)
        param = {"elewiseType": 19, "quantParam": {"asymmetric": True}}
        q, scale, offset = evaluate(tmp_path, "ElewiseOperation", param, x, results=3)
        np.testing.assert_array_equal(q[0], [26, -128, 0, 127])
        np.testing.assert_array_equal(q[1], 0)
        close(scale, np.array([5 / 255, 0]), F32)
        close(offset, np.array([-25.5, 0]), F32)

    def test_quant(self, tmp_path):
        x = np.array([1.0, -2.5, 300.0], F16)
        param = {"elewiseType": 6, "quantParam": {"inputScale": 2.0, "inputOffset": 1}}
        (q,) = evaluate(tmp_path, "ElewiseOperation", param, x)
        np.testing.assert_array_equal(q, np.array([3, -4, 127], np.int8))

    def test_an_offset_of_no_elements(self, tmp_path):
        x, scale, offset = np.array([1.0, -2.5], F16), np.array([0.5], F16), np.zeros(0, np.int8)
        (q,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 17}, x, scale, offset)
        np.testing.assert_array_equal(q, np.array([2, -5], np.int8))

    def test_quant_per_channel_rounds_to_its_type_after_each_step(self, tmp_path):
        """100.6 / 0.2001 + 1 as the NPU's own steps give it: in float32 it would be one more or less."""
        rng = np.random.default_rng(5)
        x, scale = random(rng, F16, (512,), 30.0), np.array([0.3], F16)
        offset = np.array([7], np.int8)
        (q,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": 17}, x, scale, offset)
        stepwise = (x / scale).astype(F16) + offset.astype(F16)
        np.testing.assert_array_equal(q, np.clip(np.rint(stepwise), -128, 127).astype(np.int8))

    @pytest.mark.parametrize("option", ["saturate", "ieee", None])
    def test_overflow(self, tmp_path, option):
        """On 310P and 910A every result beyond float16 is 65504; on others it is an infinity."""
        x = np.array([60000, -60000, 1], F16)
        options = {} if option is None else {"fp16_overflow": option}
        for param in ({"elewiseType": 8}, {"elewiseType": 9}):
            (y,) = evaluate(tmp_path, "ElewiseOperation", param, x, np.abs(x) * np.sign(x), **options)
            extreme = 65504 if option == "saturate" else np.inf
            np.testing.assert_array_equal(y[:2], [extreme, -extreme] if param["elewiseType"] == 8 else [extreme] * 2)
            assert np.isfinite(y[2])

    @pytest.mark.parametrize("number", [0, 99])
    def test_what_is_refused(self, tmp_path, number):
        with pytest.raises(ConversionError, match="elewiseType"):
            evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, np.zeros((1,), F16))

    def test_where(self, tmp_path):
        condition = np.array([[1], [0]], np.int8)
        for dtype in HALVES:
            x, y = random(RNG, dtype, (2, 3)), random(RNG, dtype, (1, 3))
            (z,) = evaluate(tmp_path, "WhereOperation", None, condition, x, y)
            np.testing.assert_array_equal(wide(z), np.where(condition != 0, wide(x), wide(y)))


class TestActivation:
    @pytest.mark.parametrize(
        ("param", "function"),
        [
            ({"activationType": 1}, lambda x: np.maximum(x, 0)),
            ({"activationType": 2}, tanh_gelu),
            ({"activationType": 2, "geluMode": 1}, erf_gelu),
            ({"activationType": 3}, fast_gelu),
            ({"activationType": 4, "scale": 1.0}, lambda x: x * sigmoid(x)),
            ({"activationType": 4, "scale": 1.5}, lambda x: x * sigmoid(1.5 * x)),
            ({"activationType": 8}, sigmoid),
            ({"activationType": 9}, fast_gelu),
            ({"activationType": "ACTIVATION_FASTER_GELU_FORWARD"}, fast_gelu),
        ],
    )
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_one_input(self, tmp_path, param, function, dtype):
        x = random(RNG, dtype, (3, 6))
        close(evaluate(tmp_path, "ActivationOperation", param, x)[0], function(wide(x)), dtype)

    def test_log(self, tmp_path):
        x = np.array([0.5, 1, 7], F16)
        close(evaluate(tmp_path, "ActivationOperation", {"activationType": 5}, x)[0], np.log(wide(x)), F16)

    @pytest.mark.parametrize("dim", [-1, 0])
    def test_swiglu(self, tmp_path, dim):
        x = random(RNG, BFLOAT16, (4, 6))
        a, b = np.split(wide(x), 2, dim)
        (y,) = evaluate(tmp_path, "ActivationOperation", {"activationType": 6, "dim": dim}, x)
        close(y, a * sigmoid(a) * b, BFLOAT16)


@pytest.mark.parametrize(
    "param", [[1], "text", {"elewiseType": "ELEWISE_NONE"}, {"elewiseType": [1, 2]}, {"elewiseType": 1.5},
              {"elewiseType": 2, "mulsParam": {"varAttr": None}}, {"elewiseType": 2, "mulsParam": 3}]
)  # fmt: skip
def test_malformed_parameters(tmp_path, param):
    with pytest.raises(ConversionError, match="1 node cannot be converted"):
        one_operation(tmp_path, "ElewiseOperation", param, [np.zeros((2,), F16)])
