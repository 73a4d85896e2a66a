"""ATB's operations that move elements, and those on indices, against numpy."""

from __future__ import annotations

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
        """It has no output: operations after it read the changed input."""
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
