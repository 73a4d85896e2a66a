"""ATB's operations of mixtures of experts and on sequences of different lengths, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, close, evaluate, one_operation, random, run, wide

from onnx_sparse.converters import ConversionError

RNG = np.random.default_rng(17)
F16, F32 = np.float16, np.float32


class TestGating:
    EXPERTS = np.array([3, 0, 3, 1, 0, 2, 3, 1], np.int32)
    INDEX = np.arange(8, dtype=np.int32) * 2

    def test_all_experts(self, tmp_path):
        param = {"topkExpertNum": 2, "cumSumNum": 4, "deviceExpert": []}
        token, sums, index = evaluate(tmp_path, "GatingOperation", param, self.EXPERTS, self.INDEX, results=3)
        order = np.argsort(self.EXPERTS, kind="stable")
        np.testing.assert_array_equal(index, self.INDEX[order])
        np.testing.assert_array_equal(token, self.INDEX[order] // 2)
        np.testing.assert_array_equal(sums, np.cumsum(np.bincount(self.EXPERTS, minlength=4)))
        assert [t.dtype for t in (token, sums, index)] == [np.int32] * 3

    def test_the_experts_of_a_device(self, tmp_path):
        """Their tokens come first, in the order of the experts' numbers; what is behind them is 0."""
        param = {"topkExpertNum": 2, "cumSumNum": 4, "deviceExpert": [3, 1]}
        results = evaluate(tmp_path, "GatingOperation", param, self.EXPERTS, self.INDEX, results=4)
        token, sums, index, valid = results
        np.testing.assert_array_equal(index, [6, 14, 0, 4, 12, 0, 0, 0])
        np.testing.assert_array_equal(token, [3, 7, 0, 2, 6, 0, 0, 0])
        np.testing.assert_array_equal(sums, [2, 5])
        np.testing.assert_array_equal(valid, [5])

    def test_without_sums(self, tmp_path):
        param = {"topkExpertNum": 2, "cumSumNum": 0}
        token, sums, index = evaluate(tmp_path, "GatingOperation", param, self.EXPERTS, self.INDEX, results=3)
        np.testing.assert_array_equal(token, np.zeros(8))
        np.testing.assert_array_equal(sums, [0])
        np.testing.assert_array_equal(index, self.INDEX[np.argsort(self.EXPERTS, kind="stable")])


def kept_groups(scores: np.ndarray, groups: int, kept: int, terms: int) -> np.ndarray:
    """Whether each expert's group is kept, in plain loops."""
    mask = np.zeros(scores.shape, bool)
    for token in range(len(scores)):
        parts = scores[token].reshape(groups, -1)
        totals = [sum(sorted(part, reverse=True)[:terms]) for part in parts]
        for group in sorted(range(groups), key=lambda g: (-totals[g], g))[:kept]:
            mask[token].reshape(groups, -1)[group] = True
    return mask


@pytest.mark.parametrize(("flag", "terms"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("dtype", [F16, BFLOAT16])
def test_group_topk(tmp_path, dtype, flag, terms):
    """In place: the operation has no result of its own. Equal groups are taken in their order."""
    x = RNG.integers(0, 4, (6, 12)).astype(dtype)
    param = {"groupNum": 4, "k": 2, "groupMultiFlag": flag, "n": 2}
    (y,) = evaluate(tmp_path, "GroupTopkOperation", param, x, np.arange(16, dtype=np.int32), results=0)
    np.testing.assert_array_equal(wide(y), np.where(kept_groups(wide(x), 4, 2, terms), wide(x), 0))


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("is_norm", [False, True])
def test_fused_add_topk_div(tmp_path, is_norm, mapped):
    x, bias = random(RNG, F32, (5, 12)), random(RNG, F32, (12,))
    param = {"groupNum": 4, "groupTopk": 2, "n": 2, "k": 3, "activationType": 8, "isNorm": is_norm, "scale": 2.5}
    param["enableExpertMapping"] = mapped
    counts = RNG.integers(1, 3, 12).astype(np.int32)
    table = RNG.integers(0, 20, (12, 2)).astype(np.int32)
    given = [x, bias, *([counts, table] if mapped else [])]
    y, experts = evaluate(tmp_path, "FusedAddTopkDivOperation", param, *given, results=2)
    scores = 1 / (1 + np.exp(-wide(x)))
    candidates = np.where(kept_groups(scores + wide(bias), 4, 2, 2), scores + wide(bias), 0)
    best = np.argsort(-candidates, 1, kind="stable")[:, :3]
    weights = np.take_along_axis(scores, best, 1)
    close(y, weights / weights.sum(1, keepdims=True) * 2.5 if is_norm else weights, F32)
    if mapped:
        best = np.array([[table[e, t % counts[e]] for e in row] for t, row in enumerate(best)])
    np.testing.assert_array_equal(experts, best)
    assert experts.dtype == np.int32


def test_index_add_valid(tmp_path):
    """Only the first updates count; what is behind them may be anything."""
    var, updates = random(RNG, F16, (4, 3)), random(RNG, F16, (5, 3))
    updates[3:] = np.nan
    indices, valid = np.array([1, 3, 1, 77, -9], np.int32), np.array([3], np.int32)
    (y,) = evaluate(tmp_path, "IndexAddOperation", {"indexType": 2, "axis": 0}, var, indices, updates, valid, results=0)
    expected = wide(var)
    for place, row in zip(indices[:3], updates[:3], strict=True):
        expected[place] += wide(row)
    close(y, expected, F16)


@pytest.mark.parametrize("reduction", [0, 1])
def test_scatter_elements(tmp_path, reduction):
    x, updates = random(RNG, F16, (3, 4)), random(RNG, F16, (3, 2))
    places = np.array([[0, 3], [2, 1], [1, 0]], np.int32)
    param = {"axis": -1, "reduction": reduction}
    (y,) = evaluate(tmp_path, "ScatterElementsV2Operation", param, x, places, updates, results=0)
    expected = wide(x)
    for row, place in np.ndindex(3, 2):
        old = expected[row, places[row, place]] if reduction else 0
        expected[row, places[row, place]] = old + wide(updates)[row, place]
    close(y, expected, F16)


class TestSequences:
    LENGTHS = np.array([2, 3, 1], np.int32)

    def test_unpad(self, tmp_path):
        ids = RNG.integers(1, 99, (3, 4))
        offsets = np.cumsum(4 - self.LENGTHS).astype(np.int32).reshape(3, 1)
        total = np.array([[6]], np.int64)
        given = [ids, offsets, total, self.LENGTHS.reshape(3, 1)]
        tokens, before, padding = evaluate(tmp_path, "UnpadOperation", None, *given, results=3)
        flat = np.concatenate([row[:n] for row, n in zip(ids, self.LENGTHS, strict=True)])
        np.testing.assert_array_equal(tokens, [[*flat, *[0] * 6]])
        np.testing.assert_array_equal(before, [[0], [2], [3]])
        np.testing.assert_array_equal(padding, [[0, 0, 2, 2, 2, 3, *[0] * 6]])

    def test_pad(self, tmp_path):
        x = random(RNG, F16, (6, 5))
        given = [x, np.zeros((1, 6), np.int32), self.LENGTHS.reshape(3, 1), np.zeros((3, 4), np.int64)]
        (y,) = evaluate(tmp_path, "PadOperation", None, *given)
        np.testing.assert_array_equal(y, x[[1, 4, 5]])

    @pytest.mark.parametrize(("number", "dtype"), [(1, F16), (27, BFLOAT16)])
    def test_dynamic_ntk(self, tmp_path, number, dtype):
        """The sine comes before the cosine; the frequencies are those of the token's sequence."""
        places, frequencies = np.array([0, 1, 5, 6, 7, 0], np.int32), RNG.uniform(0, 1, (3, 4)).astype(F32)
        given = [places, frequencies, self.LENGTHS]
        sine, cosine = evaluate(tmp_path, "DynamicNTKOperation", {"outputType": number}, *given, results=2)
        owner = np.repeat(np.arange(3), self.LENGTHS)
        angles = np.tile(places[:, None] * wide(frequencies)[owner], 2)
        close(sine, np.sin(angles), dtype)
        close(cosine, np.cos(angles), dtype)


@pytest.mark.parametrize("shape", [(8, 32), (5, 7), (2, 17, 20)])
@pytest.mark.parametrize("dtype", [F16, np.int8])
def test_transdata(tmp_path, shape, dtype):
    """To FRACTAL_NZ and back; element [b, i, j] is at [b, j // 16, i, j % 16] (32 of int8)."""
    x = RNG.integers(-9, 9, shape).astype(dtype)
    (blocks,) = evaluate(tmp_path, "TransdataOperation", {"transdataType": 2, "outCrops": [0, 0]}, x)
    size = 32 if dtype == np.int8 else 16
    batch, rows, columns = (1, *shape)[-3:]
    assert blocks.shape == (batch, -(-columns // size), -(-rows // 16) * 16, size)
    for b, i, j in np.ndindex(batch, rows, columns):
        assert blocks[b, j // size, i, j % size] == x.reshape(batch, rows, columns)[b, i, j]
    (back,) = evaluate(tmp_path, "TransdataOperation", {"transdataType": 1, "outCrops": [rows, columns]}, blocks)
    np.testing.assert_array_equal(back, x.reshape(batch, rows, columns))


class TestRanks:
    @pytest.mark.parametrize("op_type", ["AllReduce", "Broadcast", "ReduceScatter", "AllToAll"])
    def test_one_rank(self, tmp_path, op_type):
        x = random(RNG, F16, (2, 3))
        (y,) = evaluate(tmp_path, f"{op_type}Operation", {"rank": 0, "rankSize": 1}, x)
        np.testing.assert_array_equal(y, x)

    def test_several_ranks_are_refused(self, tmp_path):
        with pytest.raises(ConversionError, match="between 2 ranks, and a model is of one"):
            one_operation(tmp_path, "AllReduceOperation", {"rankSize": 2}, [np.zeros((2, 3), F16)])

    @pytest.mark.parametrize("trans_weight", [False, True])
    def test_linear_parallel(self, tmp_path, trans_weight):
        x, weight, residual = random(RNG, F16, (4, 6)), random(RNG, F16, (6, 5)), random(RNG, F16, (4, 5))
        param = {"rankSize": 1, "hasResidual": True, "transWeight": trans_weight}
        given = [x, weight.T.copy() if trans_weight else weight, residual]
        model = one_operation(tmp_path, "LinearParallelOperation", param, given)
        close(run(model, *given)[0], wide(x) @ wide(weight) + wide(residual), F16)
