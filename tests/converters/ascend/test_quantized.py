"""ATB's quantized operations against plain numpy: scales, offsets, int32 sums."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, close, evaluate, one_operation, random, wide

from onnx_sparse.converters import ConversionError

RNG = np.random.default_rng(11)
F16, F32 = np.float16, np.float32


def int8s(shape: tuple[int, ...], low: int = -128) -> np.ndarray:
    return RNG.integers(low, 128, shape).astype(np.int8)


def rounded(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -128, 127).astype(np.int8)


def one_apart(actual: np.ndarray, expected: np.ndarray) -> None:
    """Quantized results may be one step apart: the NPU rounds before that step in its own ways."""
    assert actual.dtype == expected.dtype == np.int8
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= 1


class TestLinear:
    @pytest.mark.parametrize("has_bias", [False, True])
    @pytest.mark.parametrize(("number", "dtype"), [(1, F16), (27, BFLOAT16)])
    def test_per_channel(self, tmp_path, has_bias, number, dtype):
        """float16 results have the bits of their float32 scales in int64, bfloat16 ones the scales."""
        x, weight, bias = int8s((4, 6)), int8s((5, 6)), RNG.integers(-99, 99, 5).astype(np.int32)
        scale = RNG.uniform(-0.01, 0.01, 5).astype(F32)
        stored = scale.view(np.uint32).astype(np.int64) if dtype == F16 else scale
        given = [x, weight, *([bias] if has_bias else []), stored]
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": has_bias, "outDataType": number}, *given)
        total = x.astype(np.int64) @ weight.T.astype(np.int64) + (bias if has_bias else 0)
        close(y, total * wide(scale), dtype)

    @pytest.mark.parametrize("batched", [False, True])
    def test_per_token(self, tmp_path, batched):
        batch = (2,) if batched else ()
        x, weight = int8s((*batch, 4, 6)), int8s((*batch, 6, 5))
        scale, own = RNG.uniform(0.01, 0.02, 5).astype(F32), RNG.uniform(0.5, 1, (*batch, 4)).astype(F32)
        param = {"hasBias": False, "transposeB": False, "outDataType": 27, "quantMode": 2}
        (y,) = evaluate(tmp_path, "LinearOperation", param, x, weight, scale, own)
        close(y, x.astype(int) @ weight.astype(int) * wide(scale) * wide(own)[..., None], BFLOAT16)

    def test_a_scale_and_a_bias_for_each_batch(self, tmp_path):
        x, weight = int8s((2, 2, 6)), int8s((2, 5, 6))
        scale, bias = RNG.uniform(0.01, 0.02, (2, 5)).astype(F32), RNG.integers(-99, 99, (2, 5)).astype(np.int32)
        (y,) = evaluate(tmp_path, "LinearOperation", {"outDataType": 27}, x, weight, bias, scale)
        total = x.astype(int) @ weight.transpose(0, 2, 1).astype(int) + bias[:, None]
        close(y, total * wide(scale)[:, None], BFLOAT16)

    def test_sums_are_exact(self, tmp_path):
        """3,000 products of 127 and 127 are beyond the whole numbers of a float32."""
        x, weight = np.full((1, 3000), 127, np.int8), np.full((2, 3000), 127, np.int8)
        weight[1, 0] = 126
        param = {"hasBias": True, "outDataType": 27}
        bias, scale = np.array([-(3000 * 127**2)] * 2, np.int32), np.ones(2, F32)
        (y,) = evaluate(tmp_path, "LinearOperation", param, x, weight, bias, scale)
        np.testing.assert_array_equal(wide(y), [[0, -127]])

    @pytest.mark.parametrize("value", [1.5, -3e-5, 0.0, 1e-41, 7e4])
    @pytest.mark.parametrize("dtype", [np.int64, np.uint64])
    def test_bits_of_a_scale(self, tmp_path, value, dtype):
        """They are the lower half of an integer; the upper half means something else."""
        scale = np.array([value], F32)
        stored = (scale.view(np.uint32).astype(np.int64) | (5 << 32)).astype(dtype)
        one = np.array([[1]], np.int8)
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": False, "outDataType": 1}, one, one, stored)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y, scale.astype(F16)[None])

    @pytest.mark.parametrize(
        ("number", "mode", "scale", "bias"),
        [
            (27, 1, np.zeros(2, np.int64), None),  # the bits, which only float16 results have
            (1, 1, np.zeros(2, BFLOAT16), None),
            (1, 1, np.zeros(2, np.int64), np.zeros(2, F16)),  # cut off to integers, it would be another bias
        ],
    )
    def test_types_of_scales_and_biases(self, tmp_path, number, mode, scale, bias):
        param = {"hasBias": bias is not None, "outDataType": number, "quantMode": mode}
        given = [int8s((2, 3)), int8s((2, 3)), *([] if bias is None else [bias]), scale]
        with pytest.raises(ConversionError, match="ERROR_INVALID_TENSOR_INI_MATCH"):
            one_operation(tmp_path, "LinearOperation", param, given)

    def test_what_is_refused(self, tmp_path):
        given = [np.zeros((2, 2), F16), np.zeros((2, 2), F16), np.zeros(2, F32)]
        with pytest.raises(ConversionError, match="int8 expected"):
            one_operation(tmp_path, "LinearOperation", {"hasBias": False, "outDataType": 1}, given)


class TestNorms:
    X, RESIDUAL = random(RNG, F16, (3, 8)), random(RNG, F16, (3, 8))
    GAMMA, BETA = random(RNG, F16, (8,)), random(RNG, F16, (8,))
    SCALE, OFFSET = np.array([0.05], F16), np.array([3], np.int8)

    def normed(self, x: np.ndarray) -> np.ndarray:
        return x * wide(self.GAMMA) / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)

    def quantized(self, y: np.ndarray) -> np.ndarray:
        return rounded(y / wide(self.SCALE) + self.OFFSET)

    def test_rms_norm(self, tmp_path):
        param = {"layerType": 1, "normParam": {"quantType": 2}}
        given = [self.X, self.GAMMA, self.BETA, self.SCALE, self.OFFSET]
        (y,) = evaluate(tmp_path, "RmsNormOperation", param, *given)
        one_apart(y, self.quantized(self.normed(wide(self.X)) + wide(self.BETA)))

    def test_rms_norm_with_a_residual_before(self, tmp_path):
        param = {"layerType": 2, "preNormParam": {"quantType": 2}}
        given = [self.X, self.RESIDUAL, self.GAMMA, self.BETA, self.SCALE, self.OFFSET]
        y, total = evaluate(tmp_path, "RmsNormOperation", param, *given, results=2)
        both = wide(self.X) + wide(self.RESIDUAL)
        one_apart(y, self.quantized(self.normed(both) + wide(self.BETA)))
        close(total, both, F16)

    def test_rms_norm_with_a_residual_after(self, tmp_path):
        """The second result is the normalized tensor, not the sum; there is no beta."""
        param = {"layerType": 3, "postNormParam": {"quantType": 2}}
        given = [self.X, self.RESIDUAL, self.GAMMA, self.SCALE, self.OFFSET]
        y, normed = evaluate(tmp_path, "RmsNormOperation", param, *given, results=2)
        expected = self.normed(wide(self.X) + wide(self.RESIDUAL))
        one_apart(y, self.quantized(expected))
        close(normed, expected, F16)

    @pytest.mark.parametrize("kind", [1, 2])
    def test_rms_norm_with_scales_of_its_own(self, tmp_path, kind):
        param = {"layerType": 1, "normParam": {"quantType": 2, "dynamicQuantType": kind}}
        given = [self.X, self.GAMMA, self.BETA]
        y, scale, *offset = evaluate(tmp_path, "RmsNormOperation", param, *given, results=kind + 1)
        self.check_dynamic(self.normed(wide(self.X)) + wide(self.BETA), y, scale, offset)

    def check_dynamic(self, expected, y, scale, offset):
        if not offset:
            own = np.abs(expected).max(-1) / 127
            one_apart(y, rounded(expected / own[:, None]))
        else:
            own = (expected.max(-1) - expected.min(-1)) / 255
            shift = -(expected.max(-1) + expected.min(-1)) / (2 * own)
            one_apart(y, rounded(expected / own[:, None] + shift[:, None]))
            np.testing.assert_allclose(offset[0], shift, rtol=1e-2, atol=1e-2)
        np.testing.assert_allclose(scale, own, rtol=2e-3)

    def test_high_performance(self, tmp_path):
        """The normalized tensor is rounded to float16 before it is scaled."""
        param = {"layerType": 1, "normParam": {"precisionMode": 1}}
        (y,) = evaluate(tmp_path, "RmsNormOperation", param, self.X, self.GAMMA)
        x = wide(self.X)
        plain = (x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)).astype(F16)
        np.testing.assert_array_equal(y, (wide(plain) * wide(self.GAMMA)).astype(F16))

    def layer_normed(self, x: np.ndarray) -> np.ndarray:
        deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return ((x - x.mean(-1, keepdims=True)) / deviation * wide(self.GAMMA) + wide(self.BETA)).astype(F16)

    def test_layer_norm(self, tmp_path):
        """The scale multiplies; that of RmsNorm divides."""
        scale = np.array([20], F16)
        param = {"layerType": 1, "normParam": {"quantType": 2}}
        given = [self.X, self.GAMMA, self.BETA, scale, self.OFFSET]
        (y,) = evaluate(tmp_path, "LayerNormOperation", param, *given)
        one_apart(y, rounded(wide(self.layer_normed(wide(self.X))) * 20 + 3))

    def test_layer_norm_with_a_residual(self, tmp_path):
        param = {"layerType": 3, "postNormParam": {"quantType": 2}}
        given = [self.X, self.RESIDUAL, self.GAMMA, self.BETA, np.array([20], F16), self.OFFSET]
        normed, y = evaluate(tmp_path, "LayerNormOperation", param, *given, results=2)
        expected = self.layer_normed(wide(self.X) + wide(self.RESIDUAL))
        close(normed, wide(expected), F16)
        one_apart(y, rounded(wide(expected) * 20 + 3))

    @pytest.mark.parametrize("results", [2, 3])
    def test_layer_norm_with_scales_of_its_own(self, tmp_path, results):
        """The graph does not say whether it is symmetric: the number of its results does."""
        param = {"layerType": 1, "normParam": {"quantType": 2}}
        given = [self.X, self.GAMMA, self.BETA]
        y, scale, *offset = evaluate(tmp_path, "LayerNormOperation", param, *given, results=results)
        self.check_dynamic(wide(self.layer_normed(wide(self.X))), y, scale, offset)

    def test_cohere_layer_norm(self, tmp_path):
        x, gamma = random(RNG, F16, (3, 2, 8)), random(RNG, F16, (2, 8))
        (y,) = evaluate(tmp_path, "CohereLayerNormOperation", {"epsilon": 1e-5}, x, gamma)
        centered = wide(x) - wide(x).mean(-1, keepdims=True)
        close(y, wide(gamma) * centered / np.sqrt(wide(x).var(-1, keepdims=True) + 1e-5), F16)

    def test_gather_pre_rms_norm(self, tmp_path):
        residual, places = random(RNG, F16, (5, 8)), np.array([4, 0, 4], np.int32)
        given = [self.X, residual, places, self.GAMMA]
        y, total = evaluate(tmp_path, "GatherPreRmsNormOperation", {"epsilon": 1e-5}, *given, results=2)
        both = wide(self.X) + wide(residual)[places]
        close(y, self.normed(both), F32)
        close(total, both, F16)


def test_swiglu_quant(tmp_path):
    x = random(RNG, F16, (3, 8))
    y, scale = evaluate(tmp_path, "SwigluQuantOperation", {"quantType": 0}, x, results=2)
    gate, value = wide(x[:, :4]), wide(x[:, 4:])
    product = gate / (1 + np.exp(-gate)) * value
    own = np.abs(product).max(-1) / 127
    one_apart(y, rounded(product / own[:, None]))
    np.testing.assert_allclose(scale, own, rtol=1e-5)


def test_swiglu_backward(tmp_path):
    """The gradient of swish(a) * b, by differences."""
    x, grad = random(RNG, F32, (3, 8)), random(RNG, F32, (3, 4))
    (y,) = evaluate(tmp_path, "ActivationOperation", {"activationType": 7, "dim": -1}, grad, x)

    def loss(values: np.ndarray) -> float:
        gate, value = values[:, :4], values[:, 4:]
        return float((gate / (1 + np.exp(-gate)) * value * wide(grad)).sum())

    step = 1e-6
    for place in np.ndindex(x.shape):
        moved = [wide(x).copy(), wide(x).copy()]
        moved[0][place] -= step
        moved[1][place] += step
        slope = (loss(moved[1]) - loss(moved[0])) / (2 * step)
        np.testing.assert_allclose(y[place], slope, rtol=1e-3, atol=1e-4)
