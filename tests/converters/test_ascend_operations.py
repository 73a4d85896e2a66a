"""The operations around FillOperation against numpy: definitions in float64, one rounding to the element type."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ascend_graphs import BFLOAT16, evaluate, layer, one_operation, operation, random, run, spec, write

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32 = np.float16, np.float32
HALVES = [F16, BFLOAT16]
FLOATS = [*HALVES, F32]
RNG = np.random.default_rng(11)


def close(actual: np.ndarray, expected: np.ndarray, dtype: object = None) -> None:
    """Equal up to two units in the last place of the element type, for results that are rounded once from float32."""
    dtype = np.dtype(dtype if dtype is not None else actual.dtype)
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6}[dtype.name]
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


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
        """The result is that of float32, rounded once; shapes broadcast as numpy's."""
        for dtype in dtypes:
            x, y = random(RNG, dtype, (2, 1, 4)), random(RNG, dtype, (3, 1)) + np.dtype(dtype).type(1)
            (z,) = evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, x, y)
            compute = F32 if np.dtype(dtype).kind not in "iu" else np.int64
            expected = function(x.astype(compute), y.astype(compute)).astype(dtype)
            assert z.dtype == expected.dtype
            np.testing.assert_array_equal(z.astype(np.float64), expected.astype(np.float64))

    @pytest.mark.parametrize("dtype", HALVES)
    def test_each_operation_rounds(self, tmp_path, dtype):
        """Left to itself, ONNX Runtime would round float16 after the last of several operators only."""
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

    @pytest.mark.parametrize("number", [0, 6, 99])
    def test_what_is_refused(self, tmp_path, number):
        with pytest.raises(ConversionError, match="elewiseType"):
            evaluate(tmp_path, "ElewiseOperation", {"elewiseType": number}, np.zeros((1,), F16))

    def test_where(self, tmp_path):
        condition = np.array([[1], [0]], np.int8)
        for dtype in HALVES:
            x, y = random(RNG, dtype, (2, 3)), random(RNG, dtype, (1, 3))
            (z,) = evaluate(tmp_path, "WhereOperation", None, condition, x, y)
            np.testing.assert_array_equal(wide(z), np.where(condition != 0, wide(x), wide(y)))


class TestShaping:
    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.int8, np.int64])
    def test_transpose_concat_split_slice(self, tmp_path, dtype):
        x = random(RNG, dtype, (2, 3, 4))
        cases = [
            ("TransposeOperation", {"perm": [2, 0, 1]}, [x], [x.transpose(2, 0, 1)]),
            ("TransposeOperation", {"perm": [0, 1, 2]}, [x], [x]),
            ("ConcatOperation", {"concatDim": -2}, [x, x[:, :1]], [np.concatenate([x, x[:, :1]], 1)]),
            ("SplitOperation", {"splitDim": -1, "splitNum": 2}, [x], np.split(x, 2, 2)),
            ("SplitOperation", {"splitDim": 1, "splitNum": 3, "splitSizes": []}, [x], np.split(x, 3, 1)),
            ("SplitOperation", {"splitDim": 2, "splitNum": 2, "splitSizes": [1, 3]}, [x], np.split(x, [1], 2)),
            ("SliceOperation", {"offsets": [0, 1, -1], "size": [-1, 2, 1]}, [x], [x[:, 1:3, -1:]]),
            ("SliceOperation", {"offsets": [0, 0, 0], "size": [-1, 3, 4]}, [x], [x]),
            ("SliceOperation", {"offsets": [1, -2, 0], "size": [1, -1, 2]}, [x], [x[1:, -2:, :2]]),
            ("RepeatOperation", {"multiples": [2, 1, 3]}, [x], [np.tile(x, (2, 1, 3))]),
            ("RepeatOperation", {"multiples": [2, 1, 1, 2]}, [x], [np.tile(x, (2, 1, 1, 2))]),
        ]
        for op_type, param, arrays, expected in cases:
            results = evaluate(tmp_path, op_type, param, *arrays, results=len(expected))
            for result, wanted in zip(results, expected, strict=True):
                assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape), (op_type, param)
                np.testing.assert_array_equal(wide(result), wide(wanted), err_msg=op_type)

    def test_as_strided(self, tmp_path):
        x = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
        for size, stride, offset in (([3, 2], [4, 1], [2]), ([2, 2, 2], [1, 1, 1], []), ([4], [0], [5])):
            (y,) = evaluate(tmp_path, "AsStridedOperation", {"size": size, "stride": stride, "offset": offset}, x)
            view = x.ravel()[offset[0] if offset else 0 :]
            expected = np.lib.stride_tricks.as_strided(view, size, [s * 8 for s in stride])
            np.testing.assert_array_equal(y, expected)

    @pytest.mark.parametrize(
        ("starts", "ends"),
        [([0, 1, 1], [2, 3, 3]), ([1], [2]), ([0, 0], [2, 3]), ([0, 2, 0], [1, 3, 4]), ([1, 0, 3], [2, 2, 4])],
    )
    def test_set_value(self, tmp_path, starts, ends):
        """It has no output: what is read after it is the input, changed."""
        for dtype in (F16, BFLOAT16, np.int64):
            dst = random(RNG, dtype, (2, 3, 4))
            box = tuple(slice(s, e) for s, e in zip(starts, ends, strict=True))
            src = random(RNG, dtype, dst[box].shape)
            param = {"starts": starts, "ends": ends, "strides": [1] * len(starts)}
            nodes = [
                operation("SetValueOperation", ["dst", "src"], [], param),
                operation("TransposeOperation", ["dst"], ["y"], {"perm": [0, 1, 2]}),
            ]
            path = write(tmp_path, layer(["dst", "src"], ["y"], nodes))
            (y,) = run(convert(path, inputs={"dst": spec(dst), "src": spec(src)}), dst, src)
            expected = dst.copy()
            expected[box] = src
            np.testing.assert_array_equal(wide(y), wide(expected))

    @pytest.mark.parametrize(
        ("op_type", "param"),
        [
            ("TransposeOperation", {"perm": [0, 0, 1]}),
            ("ConcatOperation", {"concatDim": 3}),
            ("SplitOperation", {"splitDim": 0, "splitNum": 3}),
            ("SplitOperation", {"splitDim": 0, "splitNum": 4}),
            ("SplitOperation", {"splitDim": 2, "splitNum": 2, "splitSizes": [1, 1]}),
            ("SliceOperation", {"offsets": [0, 0, 3], "size": [1, 1, 2]}),
            ("SliceOperation", {"offsets": [0], "size": [1]}),
            ("AsStridedOperation", {"size": [30], "stride": [1], "offset": [0]}),
            ("AsStridedOperation", {"size": [2], "stride": [-1], "offset": [0]}),
            ("AsStridedOperation", {"size": [2**13, 2**13], "stride": [0, 0], "offset": [0]}),
            ("RepeatOperation", {"multiples": [2]}),
            ("RepeatOperation", {"multiples": [2, 0, 1]}),
        ],
    )
    def test_what_does_not_fit(self, tmp_path, op_type, param):
        x = np.zeros((2, 3, 4), F16)
        arrays = [x, x] if op_type == "ConcatOperation" else [x]
        with pytest.raises(ConversionError, match="1 node cannot be converted"):
            one_operation(tmp_path, op_type, param, arrays, param.get("splitNum", 1))


class TestIndexing:
    @pytest.mark.parametrize("index_type", [np.int32, np.int64, np.uint32])
    def test_gather(self, tmp_path, index_type):
        x, indices = random(RNG, F16, (3, 4, 2)), np.array([[2, 0], [1, 1], [0, 2]]).astype(index_type)
        for axis in (0, 1, -2):
            (y,) = evaluate(tmp_path, "GatherOperation", {"axis": axis}, x, indices)
            np.testing.assert_array_equal(y, np.take(x, indices, axis))

    @pytest.mark.parametrize(("axis", "batch"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 1)])
    def test_gather_by_batch(self, tmp_path, axis, batch):
        x = random(RNG, F16, (2, 3, 4, 5))
        indices = RNG.integers(0, 3, (*x.shape[:batch], 2, 3)).astype(np.int32)
        (y,) = evaluate(tmp_path, "GatherOperation", {"axis": axis, "batchDims": batch}, x, indices)
        expected = np.stack(
            [
                np.take(part, index, axis - batch)
                for part, index in zip(
                    x.reshape(-1, *x.shape[batch:]), indices.reshape(-1, *indices.shape[batch:]), strict=True
                )
            ]
        )
        np.testing.assert_array_equal(y, expected.reshape(*x.shape[:batch], *expected.shape[1:]))

    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_onehot(self, tmp_path, dtype):
        x, one, zero = np.array([[1, 0, 3]]).astype(dtype), np.array([5]).astype(dtype), np.array([2]).astype(dtype)
        for axis in (-1, 0, 1):
            (y,) = evaluate(tmp_path, "OnehotOperation", {"axis": axis, "depth": 4}, x, one, zero)
            assert y.dtype == dtype
            np.testing.assert_array_equal(y, np.moveaxis(np.where(np.eye(4)[x] > 0, 5, 2), -1, axis))

    def test_nonzero(self, tmp_path):
        x = np.array([[0, 3, 0], [1, 0, 2]], np.int64)
        indices, count = evaluate(tmp_path, "NonzeroOperation", None, x, results=2)
        np.testing.assert_array_equal(indices, [[0, 1, 1, 0, 0, 0], [1, 0, 2, 0, 0, 0]])
        np.testing.assert_array_equal(count, [3])

    @pytest.mark.parametrize("axis", [0, 1])
    def test_index_add(self, tmp_path, axis):
        var, alpha = random(RNG, F16, (4, 4)), np.array([2.0], F16)
        indices = np.array([3, 1, 3], np.int32)
        updates = random(RNG, F16, (3, 4) if axis == 0 else (4, 3))
        param = {"indexType": 1, "axis": axis}
        (y,) = evaluate(tmp_path, "IndexAddOperation", param, var, indices, updates, alpha, results=0)
        expected = wide(var)
        for position, index in enumerate(indices):
            at = (index,) if axis == 0 else (slice(None), index)
            expected[at] += 2 * wide(updates.take(position, axis))
        close(y, expected, F16)


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


def fast_gelu(x: np.ndarray) -> np.ndarray:
    return x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def erf_gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


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


def layer_normalized(x: np.ndarray, axis: int, epsilon: float) -> np.ndarray:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


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

    def test_quantised_is_refused(self, tmp_path):
        with pytest.raises(ConversionError, match="quantised"):
            one_operation(
                tmp_path, "LinearOperation", {"hasBias": False, "outDataType": 1}, [np.zeros((2, 2), F16)] * 2
            )


class TestAttention:
    @pytest.mark.parametrize("coefficient", [2, 4, 8])
    @pytest.mark.parametrize("shape", [(3, 16), (3, 2, 8)])
    def test_rope(self, tmp_path, coefficient, shape):
        """Plain loops: in each group of the head, the second half comes before the first, negated."""
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


@pytest.mark.parametrize(
    "param", [[1], "text", {"elewiseType": "ELEWISE_NONE"}, {"elewiseType": [1, 2]}, {"elewiseType": 1.5},
              {"elewiseType": 2, "mulsParam": {"varAttr": None}}, {"elewiseType": 2, "mulsParam": 3}]
)  # fmt: skip
def test_malformed_parameters(tmp_path, param):
    with pytest.raises(ConversionError, match="1 node cannot be converted"):
        one_operation(tmp_path, "ElewiseOperation", param, [np.zeros((2,), F16)])
