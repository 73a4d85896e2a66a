"""ATB's reductions, normalizations, products and attention against numpy in float64, rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, close, evaluate, one_operation, random, wide

from onnx_sparse.converters import ConversionError

F16, F32 = np.float16, np.float32
HALVES = [F16, BFLOAT16]
FLOATS = [*HALVES, F32]
RNG = np.random.default_rng(11)


class TestReductions:
    @pytest.mark.parametrize(("number", "function"), [(1, np.max), (2, np.min), (3, np.sum)])
    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.int32])
    def test_reduce(self, tmp_path, number, function, dtype):
        x = random(RNG, dtype, (2, 3, 4))
        for axes in ([1], [0, 2], [2, 1]):
            (y,) = evaluate(tmp_path, "ReduceOperation", {"reduceType": number, "axis": axes}, x)
            expected = function(wide(x), tuple(axes))
            if np.dtype(dtype).kind in "iu":
                np.testing.assert_array_equal(y, expected)
            else:
                close(y, expected, dtype)

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("axes", [[-1], [1], [1, 2], [0, 1, 2], [-2, -1]])
    def test_softmax(self, tmp_path, dtype, axes):
        x = random(RNG, dtype, (2, 3, 4))
        (y,) = evaluate(tmp_path, "SoftmaxOperation", {"axes": axes}, x)
        powers = np.exp(wide(x))
        close(y, powers / powers.sum(tuple(axes), keepdims=True), dtype)

    @pytest.mark.parametrize("exclusive", [False, True])
    @pytest.mark.parametrize("dtype", HALVES)
    def test_cumsum(self, tmp_path, dtype, exclusive):
        x = random(RNG, dtype, (3, 5))
        (y,) = evaluate(tmp_path, "CumsumOperation", {"axes": [1], "exclusive": exclusive, "reverse": False}, x)
        close(y, np.cumsum(wide(x), 1) - (wide(x) if exclusive else 0), dtype)

    @pytest.mark.parametrize("dtype", HALVES)
    def test_sort(self, tmp_path, dtype):
        x = np.array([[3, 1, 2, 3], [0, -1, 5, 4]]).astype(dtype)
        values, positions = evaluate(tmp_path, "SortOperation", {"num": [3]}, x, results=2)
        np.testing.assert_array_equal(wide(values), [[3, 3, 2], [5, 4, 0]])
        assert positions.dtype == np.int32
        np.testing.assert_array_equal(positions, [[0, 3, 2], [2, 3, 0]])

    @pytest.mark.parametrize(
        ("op_type", "param"),
        [
            ("ReduceOperation", {"reduceType": 0, "axis": [0]}),
            ("ReduceOperation", {"reduceType": 1, "axis": []}),
            ("SoftmaxOperation", {"axes": [0, 2]}),
            ("CumsumOperation", {"axes": [0, 1]}),
            ("CumsumOperation", {"axes": [0], "reverse": True}),
            ("SortOperation", {"num": [9]}),
        ],
    )
    def test_what_is_refused(self, tmp_path, op_type, param):
        with pytest.raises(ConversionError, match="ERROR_INVALID_PARAM"):
            one_operation(tmp_path, op_type, param, [np.zeros((2, 3, 4), F16)], 2 if op_type == "SortOperation" else 1)


def layer_normalized(x: np.ndarray, axis: int, epsilon: float) -> np.ndarray:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


class TestNormalization:
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_rms_norm(self, tmp_path, dtype):
        x, gamma = random(RNG, dtype, (3, 8)), random(RNG, dtype, (8,))
        root = np.sqrt(np.mean(wide(x) ** 2, -1, keepdims=True) + 1e-2)
        for extra, scale in (({}, wide(gamma)), ({"modelType": 1}, 1 + wide(gamma))):
            param = {"layerType": 1, "normParam": {"epsilon": 1e-2, **extra}, "postNormParam": None}
            (y,) = evaluate(tmp_path, "RmsNormOperation", param, x, gamma)
            close(y, wide(x) * scale / root, dtype)
        param["normParam"] = {"epsilon": 1e-2, "rstd": True}
        _, rstd = evaluate(tmp_path, "RmsNormOperation", param, x, gamma, results=2)
        close(rstd, 1 / root, F32)

    @pytest.mark.parametrize("shape", [(8,), (2, 8), (3, 2, 8)])
    def test_rms_norm_with_a_gamma_of_several_axes(self, tmp_path, shape):
        """With rstd, the mean is over as many axes as gamma has; rstd keeps them."""
        x, gamma = random(RNG, F16, (3, 2, 8)), random(RNG, F16, shape)
        axes = tuple(range(3 - len(shape), 3))
        root = np.sqrt(np.mean(wide(x) ** 2, axes, keepdims=True) + 1e-5)
        param = {"layerType": 1, "normParam": {"rstd": True}}
        y, rstd = evaluate(tmp_path, "RmsNormOperation", param, x, gamma, results=2)
        close(y, wide(x) * wide(gamma) / root, F16)
        close(rstd, 1 / root, F32)

    @pytest.mark.parametrize("has_bias", [False, True])
    def test_rms_norm_with_residual(self, tmp_path, has_bias):
        x, residual, gamma = random(RNG, F16, (3, 8)), random(RNG, F16, (3, 8)), random(RNG, F16, (1, 8))
        bias = [random(RNG, F16, (8,))] if has_bias else []
        arrays = [x, *bias, residual, gamma]
        total = wide(x) + wide(residual) + sum(map(wide, bias))
        expected = total * wide(gamma) / np.sqrt(np.mean(total**2, -1, keepdims=True) + 1e-5)
        param = {"layerType": 2, "preNormParam": {"epsilon": 1e-5, "hasBias": has_bias}}
        y, summed = evaluate(tmp_path, "RmsNormOperation", param, *arrays, results=2)
        close(y, expected, F16)
        close(summed, total, F16)
        param = {"layerType": 3, "postNormParam": {"hasBias": has_bias}}
        close(evaluate(tmp_path, "RmsNormOperation", param, *arrays)[0], expected, F16)

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("axis", [1, 2, -1])
    def test_layer_norm(self, tmp_path, dtype, axis):
        x = random(RNG, dtype, (2, 3, 8))
        gamma, beta = random(RNG, dtype, x.shape[axis:]), random(RNG, dtype, x.shape[axis:])
        param = {"layerType": 1, "normParam": {"epsilon": 1e-3, "beginNormAxis": axis, "beginParamsAxis": 0}}
        (y,) = evaluate(tmp_path, "LayerNormOperation", param, x, gamma, beta)
        close(y, layer_normalized(wide(x), axis, 1e-3) * wide(gamma) + wide(beta), dtype)

    def test_layer_norm_with_residual(self, tmp_path):
        x, residual = random(RNG, F16, (3, 8)), random(RNG, F16, (3, 8))
        gamma, beta = random(RNG, F16, (1, 8)), random(RNG, F16, (1, 8))
        total = wide(x) + 0.5 * wide(residual)
        expected = layer_normalized(total, -1, 1e-5) * wide(gamma) + wide(beta)
        param = {"layerType": 2, "preNormParam": {"zoomScaleValue": 0.5}}
        y, summed = evaluate(tmp_path, "LayerNormOperation", param, x, residual, gamma, beta, results=2)
        close(y, expected, F16)
        close(summed, total, F16)
        param = {"layerType": 3, "postNormParam": {"zoomScaleValue": 0.5}}
        close(evaluate(tmp_path, "LayerNormOperation", param, x, residual, gamma, beta)[0], expected, F16)


class TestLinear:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, True), (False, False), (True, True)])
    def test_plain(self, tmp_path, dtype, transpose_a, transpose_b):
        x, weight, bias = random(RNG, dtype, (4, 6)), random(RNG, dtype, (6, 5)), random(RNG, dtype, (1, 5))
        given = [x.T.copy() if transpose_a else x, weight.T.copy() if transpose_b else weight]
        param = {"transposeA": transpose_a, "transposeB": transpose_b, "hasBias": True, "outDataType": -1}
        (y,) = evaluate(tmp_path, "LinearOperation", param, *given, bias)
        close(y, wide(x) @ wide(weight) + wide(bias), dtype)
        (y,) = evaluate(tmp_path, "LinearOperation", {**param, "hasBias": False}, *given)
        close(y, wide(x) @ wide(weight), dtype)

    def test_more_axes(self, tmp_path):
        x, weight = random(RNG, F16, (2, 3, 6)), random(RNG, F16, (5, 6))
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": False}, x, weight)
        close(y, wide(x) @ wide(weight).T, F16)

    def test_accumulation(self, tmp_path):
        x, weight, total = random(RNG, F16, (4, 6)), random(RNG, F16, (5, 6)), random(RNG, F32, (4, 5))
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": False, "enAccum": True}, x, weight, total)
        close(y, wide(x) @ wide(weight).T + total, F32)

    def test_ein_sum(self, tmp_path):
        x, weight = random(RNG, F16, (4, 2, 6)), random(RNG, F16, (2, 6, 5))
        param = {"hasBias": False, "transposeB": False, "matmulType": 1}
        (y,) = evaluate(tmp_path, "LinearOperation", param, x, weight)
        close(y, np.einsum("mbk,bkn->mbn", wide(x), wide(weight)), F16)

    @pytest.mark.parametrize("transpose_b", [True, False])
    def test_fractal_weight(self, tmp_path, transpose_b):
        x, matrix = random(RNG, F16, (4, 32)), random(RNG, F16, (32, 32))
        blocks = matrix.reshape(32, 2, 16).transpose(1, 0, 2)[None].copy()  # [b, columns / 16, rows, 16]
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": False, "transposeB": transpose_b}, x, blocks)
        close(y, wide(x) @ (wide(matrix).T if transpose_b else wide(matrix)), F16)

    @pytest.mark.parametrize("transpose_b", [True, False])
    def test_fractal_weight_that_is_filled_up(self, tmp_path, transpose_b):
        """Blocks are 16 by 16: rows and columns behind those of x and of the result are not the weight's."""
        x, matrix = random(RNG, F16, (4, 20)), random(RNG, F16, (20, 18))
        whole = np.full((32, 32), np.nan, F16)
        own = matrix.T if transpose_b else matrix
        whole[: own.shape[0], : own.shape[1]] = own
        blocks = whole.reshape(32, 2, 16).transpose(1, 0, 2)[None].copy()
        head = "OpName|InDType|InFormat|InShape|OutDType|OutFormat|OutShape"
        row = "LinearOperation_0_out0|float16;float16|nd;fractal_nz|4,20;1,2,32,16|float16|nd|4,18"
        table = tmp_path / "table.csv"
        table.write_text(f"{head}\n{row}\n")
        param = {"hasBias": False, "transposeB": transpose_b}
        (y,) = evaluate(tmp_path, "LinearOperation", param, x, blocks, tensors=table)
        close(y, wide(x) @ wide(matrix), F16)

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_a_bias_for_each_batch(self, tmp_path, dtype):
        """Three rows of a bias and three rows of x: row i of the bias is for batch i, not for row i of each batch."""
        x, weight, bias = random(RNG, dtype, (3, 3, 4)), random(RNG, dtype, (3, 5, 4)), random(RNG, dtype, (3, 5))
        (y,) = evaluate(tmp_path, "LinearOperation", {"hasBias": True}, x, weight, bias)
        close(y, wide(x) @ wide(weight).transpose(0, 2, 1) + wide(bias)[:, None], dtype)


class TestAttention:
    @pytest.mark.parametrize("coefficient", [2, 4, 8])
    @pytest.mark.parametrize("shape", [(3, 16), (3, 2, 8)])
    def test_rope(self, tmp_path, coefficient, shape):
        """In plain loops: in each group of the head, the second half, negated, comes before the first."""
        q, k = random(RNG, F16, shape), random(RNG, F16, (3, 8))
        cos, sin = random(RNG, F16, (3, 8)), random(RNG, F16, (3, 8))
        param = {"rotaryCoeff": coefficient, "cosFormat": 0}
        results = evaluate(tmp_path, "RopeOperation", param, q, k, cos, sin, np.array([3], np.int32), results=2)
        size, half = 16 // coefficient, 8 // coefficient
        for result, x in zip(results, (q, k), strict=True):
            heads = wide(x).reshape(3, -1, 8)
            expected = np.empty_like(heads)
            for token, head, i in np.ndindex(heads.shape):
                group, place = i // size * size, i % size
                other = -heads[token, head, group + place + half] if place < half else heads[token, head, i - half]
                expected[token, head, i] = heads[token, head, i] * cos[token, i] + other * wide(sin)[token, i]
            close(result, expected.reshape(x.shape), F16)

    def test_fa_update(self, tmp_path):
        lse, parts = random(RNG, F32, (3, 5)), random(RNG, F32, (3, 5, 4))
        lse[0, 1] = -np.inf
        (y,) = evaluate(tmp_path, "FaUpdateOperation", {"faUpdateType": 0, "sp": 3}, lse, parts)
        weights = np.exp(wide(lse)) / np.exp(wide(lse)).sum(0)
        close(y, (weights[..., None] * wide(parts)).sum(0), F32)
