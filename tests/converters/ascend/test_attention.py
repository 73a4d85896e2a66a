"""ATB's attention and its caches against plain loops: packed sequences, caches by sequence and by page, every mask."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, close, evaluate, one_operation, random, run, wide

from onnx_sparse.converters import ConversionError

RNG = np.random.default_rng(23)
F16, F32 = np.float16, np.float32
HALVES = pytest.mark.parametrize("dtype", [F16, BFLOAT16])
#: Query heads, key heads, head size.
HEADS = pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (4, 1)])


def attend(q, k, v, *, scale=1.0, addend=None, clamp=None, last=1.0):
    """Attention of one sequence: q [n, heads, d], k and v [m, groups, d], an addend [heads, n, m], in float64."""
    result = np.zeros((*q.shape[:2], v.shape[2]))
    for head in range(q.shape[1]):
        group = head * k.shape[1] // q.shape[1]
        scores = wide(q[:, head]) @ wide(k[:, group]).T * scale
        if clamp is not None:
            scores = np.clip(scores, *clamp)
        if addend is not None:
            scores = scores + addend[head]
        scores = scores * last
        weights = np.exp(scores - scores.max(1, keepdims=True))
        result[:, head] = weights / weights.sum(1, keepdims=True) @ wide(v[:, group])
    return result


def triangle(rows: int, value: float) -> np.ndarray:
    return np.triu(np.full((rows, rows), value), 1)


class TestPackedSequences:
    LENGTHS = np.array([3, 1, 4], np.int32)

    def given(self, dtype, heads, groups, width=8):
        return [random(RNG, dtype, (8, *rest)) for rest in ((heads, 8), (groups, 8), (groups, width))]

    def check(self, tmp_path, param, given, mask, addends, **options):
        """One attention for each sequence, with its addend [heads, n, n]."""
        q, k, v = given
        arrays = [*given, *([] if mask is None else [mask]), self.LENGTHS]
        param = {"headNum": q.shape[1], "kvHeadNum": k.shape[1], "qkScale": 0.3, "calcType": 3, **param}
        (y,) = evaluate(tmp_path, "SelfAttentionOperation", param, *arrays)
        start, parts = 0, []
        for position, length in enumerate(self.LENGTHS):
            rows = slice(start, start + length)
            addend = (
                None if addends is None else np.broadcast_to(addends(position, length), (q.shape[1], length, length))
            )
            parts.append(attend(q[rows], k[rows], v[rows], scale=0.3, addend=addend, **options))
            start += length
        close(y, np.concatenate(parts), q.dtype)

    @HALVES
    @HEADS
    def test_without_a_mask(self, tmp_path, dtype, heads, groups):
        self.check(tmp_path, {}, self.given(dtype, heads, groups, 6), None, None)

    @pytest.mark.parametrize("value", [-np.inf, -10000.0])
    def test_a_mask(self, tmp_path, value):
        mask = triangle(8, value).astype(F16)
        self.check(tmp_path, {"maskType": 1}, self.given(F16, 4, 2), mask, lambda _, n: wide(mask)[:n, :n])

    def test_a_mask_of_ones(self, tmp_path):
        """Masks of bfloat16 models are 1 where a key has no weight; those that are negative are added as they are."""
        expected = triangle(8, -np.inf)
        for value in (1.0, -3e38):
            mask = triangle(8, value).astype(BFLOAT16)
            self.check(tmp_path, {"maskType": 1}, self.given(BFLOAT16, 4, 2), mask, lambda _, n: expected[:n, :n])

    def test_high_precision_adds_the_mask(self, tmp_path):
        mask = triangle(8, 1.0).astype(BFLOAT16)
        param = {"maskType": 1, "kernelType": 1}
        self.check(tmp_path, param, self.given(BFLOAT16, 4, 4), mask, lambda _, n: wide(mask)[:n, :n])

    def test_a_mask_for_each_sequence(self, tmp_path):
        mask = (RNG.integers(0, 2, (3, 4, 4)) * -3.0).astype(F16)
        self.check(tmp_path, {"maskType": 1}, self.given(F16, 4, 4), mask, lambda i, n: wide(mask)[i, :n, :n])

    @HALVES
    @pytest.mark.parametrize("axes", ["heads", "sequences and heads"])
    def test_alibi(self, tmp_path, dtype, axes):
        """The coefficient of an ALiBi mask is 1, whatever its type."""
        count = (4,) if axes == "heads" else (3, 4)
        mask = (-RNG.uniform(0, 3, (*count, 5, 5))).astype(dtype)
        by_sequence = wide(mask) if len(count) == 2 else np.broadcast_to(wide(mask), (3, 4, 5, 5))
        self.check(tmp_path, {"maskType": 2}, self.given(dtype, 4, 4), mask, lambda i, n: by_sequence[i, :, :n, :n])

    def test_compressed_alibi(self, tmp_path):
        """[heads, rows, 2]: keys 2 and 3 have the scores of keys 0 and 1 two rows further up, and so on."""
        mask = (-RNG.uniform(0, 3, (4, 8, 2))).astype(F16)

        def addend(_, n):
            whole = np.full((4, n, n), -10000.0)
            for i, j in np.ndindex(n, n):
                if i >= j // 2 * 2:
                    whole[:, i, j] = wide(mask)[:, i - j // 2 * 2, j % 2]
            return whole

        self.check(tmp_path, {"maskType": 4}, self.given(F16, 4, 4), mask, addend)

    def test_sequences_longer_than_the_mask(self, tmp_path):
        """They have the causal mask; others have theirs."""
        mask = (RNG.integers(0, 2, (3, 3)) * -3.0).astype(F16)
        self.check(
            tmp_path,
            {"maskType": 1},
            self.given(F16, 4, 4),
            mask,
            lambda _, n: wide(mask)[:n, :n] if n <= 3 else triangle(n, -10000.0),
        )

    def test_a_compressed_mask_is_the_causal_one(self, tmp_path):
        mask = np.zeros((128, 128), F16)
        self.check(tmp_path, {"maskType": 3}, self.given(F16, 4, 4), mask, lambda _, n: triangle(n, -10000.0))

    def test_a_window(self, tmp_path):
        mask = np.zeros((512, 512), F16)

        def addend(_, n):
            behind = np.arange(n)[:, None] - np.arange(n)
            return np.where((behind >= 0) & (behind < 2), 0, -10000.0)

        self.check(tmp_path, {"maskType": 8, "windowSize": 2}, self.given(F16, 4, 4), mask, addend)

    def test_a_clamp(self, tmp_path):
        param = {"clampType": 1, "clampMin": -0.2, "clampMax": 0.4}
        self.check(tmp_path, param, self.given(F16, 4, 4), None, None, clamp=(-0.2, 0.4))

    def test_hidden_sizes(self, tmp_path):
        """Queries of rank 2 have a result of rank 2."""
        q, k, v = self.given(F16, 4, 2)
        flat = [t.reshape(8, -1) for t in (q, k, v)]
        param = {"headNum": 4, "kvHeadNum": 2, "calcType": 3}
        (y,) = evaluate(tmp_path, "SelfAttentionOperation", param, *flat, np.array([8], np.int32))
        close(y, attend(q, k, v).reshape(8, -1), F16)

    def test_types_that_atb_does_not_have(self, tmp_path):
        q, k, v = self.given(F16, 4, 4)
        param = {"headNum": 4, "calcType": 3}
        for given in ([q, k.astype(F32), v, self.LENGTHS], [q, k, v, self.LENGTHS.astype(np.int64)]):
            with pytest.raises(ConversionError, match="ERROR_INVALID_TENSOR_INI_MATCH"):
                one_operation(tmp_path, "SelfAttentionOperation", param, given)

    def test_old_dumps(self, tmp_path):
        """They have isEncoder in place of calcType, and no maskType."""
        mask = triangle(8, -np.inf).astype(F16)
        q, k, v = self.given(F16, 4, 2)
        param = {"headNum": 4, "kvHeadNum": 2, "headDim": 8, "qkScale": 0.3, "isEncoder": True, "coderType": 0}
        (y,) = evaluate(tmp_path, "SelfAttentionOperation", param, q, k, v, mask, np.array([8], np.int32))
        close(y, attend(q, k, v, scale=0.3, addend=np.broadcast_to(wide(mask), (4, 8, 8))), F16)

    @pytest.mark.parametrize(
        ("param", "message"),
        [
            ({"quantType": 2}, "quantized attention"),
            ({"maskType": 5}, "compressed by slopes"),
            ({"calcType": 4}, "PREFIX_ENCODER"),
            ({"inputLayout": 1}, "BSND"),
            ({"headNum": 0}, "ERROR_INVALID_PARAM"),
            ({"kvHeadNum": 3}, "ERROR_INVALID_PARAM"),
        ],
    )
    def test_what_is_refused(self, tmp_path, param, message):
        given = [*self.given(F16, 4, 4), self.LENGTHS]
        with pytest.raises(ConversionError, match=message):
            one_operation(tmp_path, "SelfAttentionOperation", {"headNum": 4, "calcType": 3, **param}, given)


class TestCaches:
    OFFSETS, LENGTHS, LAYER = np.array([5, 2], np.int32), np.array([2, 1], np.int32), np.array([1], np.int32)

    def caches(self, dtype, groups):
        """[layers, batch, most, hidden]; what was never written is NaN."""
        caches = [random(RNG, dtype, (3, 2, 6, groups * 8)) for _ in range(2)]
        for cache in caches:
            for row, past in enumerate(self.OFFSETS - self.LENGTHS):
                cache[:, row, past:] = np.nan
        return caches

    @HALVES
    @HEADS
    @pytest.mark.parametrize("mask_axes", [None, 2, 3])
    def test_new_tokens_behind_those_of_the_cache(self, tmp_path, dtype, heads, groups, mask_axes):
        k_cache, v_cache = self.caches(dtype, groups)
        q, k, v = (random(RNG, dtype, (3, count * 8)) for count in (heads, groups, groups))
        mask = None
        if mask_axes is not None:
            mask = (-RNG.integers(0, 3, (2, 6, 6)[3 - mask_axes :])).astype(dtype)
        param = {"headNum": heads, "kvHeadNum": groups, "qScale": 0.5, "qkScale": 0.7, "maskType": 1}
        given = [q, k, v, k_cache, v_cache, *([] if mask is None else [mask]), self.OFFSETS, self.LENGTHS, self.LAYER]
        (y,) = evaluate(tmp_path, "SelfAttentionOperation", param, *given)
        start, parts = 0, []
        for row, (offset, length) in enumerate(zip(self.OFFSETS, self.LENGTHS, strict=True)):
            rows = slice(start, start + length)
            keys, values = (
                np.concatenate([cache[1, row, : offset - length], new[rows]]).reshape(offset, groups, 8)
                for cache, new in ((k_cache, k), (v_cache, v))
            )
            own = None if mask is None else wide(mask if mask_axes == 2 else mask[row])[:length, :offset]
            addend = None if own is None else np.broadcast_to(own, (heads, length, offset))
            queries = q[rows].reshape(length, heads, 8)
            parts.append(attend(queries, keys, values, scale=0.5, addend=addend, last=0.7))
            start += length
        close(y, np.concatenate(parts).reshape(3, -1), dtype)

    def test_caches_that_hold_the_new_tokens(self, tmp_path):
        """The scale is that of the head size, whatever qkScale says; the keys' lengths come before the queries'."""
        caches = [random(RNG, F16, (3, 2, 6, 16)) for _ in range(2)]
        q = random(RNG, F16, (3, 32))
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 9.0, "kvcacheCfg": 1, "maskType": 0}
        given = [q, *caches, self.OFFSETS, self.LENGTHS, self.LAYER]
        (y,) = evaluate(tmp_path, "SelfAttentionOperation", param, *given)
        parts = [
            attend(
                q[rows].reshape(-1, 4, 8), *(c[1, row, :offset].reshape(offset, 2, 8) for c in caches), scale=8**-0.5
            )
            for row, (rows, offset) in enumerate(((slice(0, 2), 5), (slice(2, 3), 2)))
        ]
        close(y, np.concatenate(parts).reshape(3, -1), F16)

    def test_kv_cache(self, tmp_path):
        """The operation has no results: it writes its third input. A row behind the last sequence is not written."""
        new, cache = random(RNG, F16, (4, 8)), random(RNG, F16, (3, 2, 6, 8))
        given = [new, self.LAYER, cache, self.OFFSETS, self.LENGTHS]
        model = one_operation(tmp_path, "KvCacheOperation", None, given, results=0)
        expected = cache.copy()
        expected[1, 0, 3:5], expected[1, 1, 1:2] = new[:2], new[2:3]
        results = run(model, *given)
        np.testing.assert_array_equal(results[-1], expected)


class TestPages:
    TABLES = np.array([[4, 1, 99], [2, -5, 7], [3, 0, 5]], np.int32)  # behind the last block they are undefined
    LENGTHS = np.array([7, 3, 0], np.int32)

    def caches(self, dtype, groups, width=8):
        """[blocks, block size, groups, size]; what is in no sequence is NaN."""
        caches = [random(RNG, dtype, (6, 4, groups, size)) for size in (8, width)]
        for cache in caches:
            cache[1, 3], cache[2, 3], cache[[0, 3, 5]] = np.nan, np.nan, np.nan
        return caches

    def rows(self, cache, row):
        return np.stack([cache[self.TABLES[row, j // 4], j % 4] for j in range(self.LENGTHS[row])])

    @HALVES
    @HEADS
    @pytest.mark.parametrize("mask", [None, "norm", "alibi"])
    def test_each_token_is_a_sequence(self, tmp_path, dtype, heads, groups, mask):
        q, caches = random(RNG, dtype, (3, heads, 8)), self.caches(dtype, groups, 6)
        given = [q, *caches, self.TABLES, self.LENGTHS]
        param = {"headNum": heads, "kvHeadNum": groups, "qkScale": 0.4}
        addends = None
        if mask is not None:
            addends = -RNG.uniform(0, 3, (3, 1 if mask == "norm" else heads, 1, 12)).astype(dtype)
            given.append(addends[:, 0] if mask == "norm" else addends)
            param["maskType"] = 1 if mask == "norm" else 2
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, *given)
        expected = np.zeros((3, heads, 6))
        for row in range(2):
            keys, values = (self.rows(cache, row) for cache in caches)
            addend = None
            if addends is not None:
                addend = np.broadcast_to(wide(addends)[row, ..., : len(keys)], (heads, 1, len(keys)))
            expected[row] = attend(q[row : row + 1], keys, values, scale=0.4, addend=addend)[0]
        close(y, expected, dtype)

    def test_several_tokens_of_a_sequence(self, tmp_path):
        """Speculative decoding: the queries are the last tokens of their sequences, each with a row of the mask."""
        q, caches = random(RNG, F16, (4, 2, 8)), self.caches(F16, 2)
        counts, mask = np.array([3, 1, 0], np.int32), (-RNG.uniform(0, 3, (4, 12))).astype(F16)
        param = {"headNum": 2, "kvHeadNum": 2, "qkScale": 1.0, "calcType": 1, "maskType": 3}
        given = [q, *caches, self.TABLES, self.LENGTHS, mask, counts]
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, *given)
        for token, row in enumerate((0, 0, 0, 1)):
            keys, values = (self.rows(cache, row) for cache in caches)
            addend = np.broadcast_to(wide(mask)[token, : len(keys)], (2, 1, len(keys)))
            close(y[token], attend(q[token : token + 1], keys, values, addend=addend)[0], F16)

    @pytest.mark.parametrize("layout", ["heads before positions", "FRACTAL_NZ"])
    def test_other_layouts_of_the_caches(self, tmp_path, layout):
        """A dump does not say them: the shape does."""
        q = random(RNG, F16, (3, 4, 16 if layout == "heads before positions" else 32))
        caches = [random(RNG, F16, (6, 4, 2, q.shape[2])) for _ in range(2)]
        if layout == "FRACTAL_NZ":
            given = [cache.reshape(6, 4, 4, 16).transpose(0, 2, 1, 3).copy() for cache in caches]
        else:
            given = [cache.transpose(0, 2, 1, 3).copy() for cache in caches]
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 0.2}
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, q, *given, self.TABLES, self.LENGTHS)
        for row in range(2):
            keys, values = (self.rows(cache, row) for cache in caches)
            close(y[row], attend(q[row : row + 1], keys, values, scale=0.2)[0], F16)

    def test_sequences_that_do_not_run(self, tmp_path):
        """The tokens are those of the sequences that run, one after the other; the rest of the result is 0."""
        q, caches, lengths = random(RNG, F16, (3, 4, 8)), self.caches(F16, 2), np.array([7, 0, 3], np.int32)
        tables = self.TABLES[[0, 2, 1]]
        mask = -RNG.uniform(0, 3, (3, 1, 12)).astype(F16)
        given = [q, *caches, tables, lengths, mask, np.array([1, 0, 1], np.int32)]
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 0.2, "maskType": 1, "batchRunStatusEnable": True}
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, *given)
        for token, row in ((0, 0), (1, 2)):
            keys, values = (self.rows(cache, 0 if row == 0 else 1) for cache in caches)
            addend = np.broadcast_to(wide(mask)[row, :, : len(keys)], (4, 1, len(keys)))
            close(y[token], attend(q[token : token + 1], keys, values, scale=0.2, addend=addend)[0], F16)
        np.testing.assert_array_equal(y[2], 0)

    def test_logarithms_of_the_lengths(self, tmp_path):
        q, caches = random(RNG, F16, (3, 4, 8)), self.caches(F16, 2)
        factors = np.array([1.5, 0.5, 1.0], F32)
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 0.2}
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, q, *caches, self.TABLES, self.LENGTHS, factors)
        for row in range(2):
            keys, values = (self.rows(cache, row) for cache in caches)
            close(y[row], attend(q[row : row + 1], keys, values, scale=0.2 * factors[row])[0], F16)

    @pytest.mark.parametrize("has_offset", [False, True])
    def test_caches_of_int8(self, tmp_path, has_offset):
        q = random(RNG, F16, (3, 4, 8))
        caches = [RNG.integers(-9, 9, (6, 4, 2, 8)).astype(np.int8) for _ in range(2)]
        scales = [RNG.uniform(0.1, 0.2, 16).astype(F32) for _ in range(2)]
        offsets = [RNG.integers(-3, 3, 16).astype(np.int32) for _ in range(2)]
        more = [scales[0], offsets[0], scales[1], offsets[1]] if has_offset else scales
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 1.0, "quantType": 1, "hasQuantOffset": has_offset}
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, q, *caches, self.TABLES, self.LENGTHS, *more)
        plain = [
            (cache + (offset.reshape(2, 8) if has_offset else 0)) * wide(scale).reshape(2, 8)
            for cache, scale, offset in zip(caches, scales, offsets, strict=True)
        ]
        for row in range(2):
            close(y[row], attend(q[row : row + 1], *(self.rows(cache, row) for cache in plain))[0], F16)

    def test_values_in_the_keys(self, tmp_path):
        """Latent attention: the values are the first columns of the keys."""
        q, (cache, _) = random(RNG, F16, (3, 4, 8)), self.caches(F16, 1)
        param = {"headNum": 4, "kvHeadNum": 1, "qkScale": 0.4, "mlaVHeadSize": 5}
        (y,) = evaluate(tmp_path, "PagedAttentionOperation", param, q, cache, self.TABLES, self.LENGTHS)
        for row in range(2):
            keys = self.rows(cache, row)
            close(y[row], attend(q[row : row + 1], keys, keys[..., :5], scale=0.4)[0], F16)

    @pytest.mark.parametrize("speculative", [False, True])
    def test_latent_attention(self, tmp_path, speculative):
        """Both parts of a query attend to both caches; the values are in the first."""
        parts = [(4, 8), (4, 4)]
        tokens = 4 if speculative else 3
        plain, rotated = (random(RNG, F16, (tokens, *shape)) for shape in parts)
        (cache, _), turned = self.caches(F16, 1), random(RNG, F16, (6, 4, 1, 4))
        mask, counts = (-RNG.uniform(0, 3, (4, 12))).astype(F16), np.array([3, 1, 0], np.int32)
        more = [mask, counts] if speculative else []
        param = {"headNum": 4, "kvHeadNum": 1, "qkScale": 0.3, "cacheMode": 1}
        param |= {"calcType": 1, "maskType": 1} if speculative else {}
        given = [plain, rotated, cache, turned, self.TABLES, self.LENGTHS, *more]
        (y,) = evaluate(tmp_path, "MultiLatentAttentionOperation", param, *given)
        assert y.shape == plain.shape
        for token, row in enumerate((0, 0, 0, 1) if speculative else (0, 1)):
            values = self.rows(cache, row)
            keys = np.concatenate([values, self.rows(turned, row)], -1)
            query = np.concatenate([plain[token : token + 1], rotated[token : token + 1]], -1)
            addend = np.broadcast_to(wide(mask)[token, : len(keys)], (4, 1, len(keys))) if speculative else None
            close(y[token], attend(query, keys, values, scale=0.3, addend=addend)[0], F16)

    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.int8])
    def test_writing(self, tmp_path, dtype):
        """Negative slots are skipped."""
        k, v = (random(RNG, dtype, (3, 2, size)) for size in (4, 6))
        caches = [random(RNG, dtype, (3, 4, 2, size)) for size in (4, 6)]
        slots = np.array([9, -1, 2], np.int32)
        results = evaluate(tmp_path, "ReshapeAndCacheOperation", {}, k, v, *caches, slots, results=2)
        for result, cache, new in zip(results, caches, (k, v), strict=True):
            expected = cache.copy()
            expected[2, 1], expected[0, 2] = new[0], new[2]
            np.testing.assert_array_equal(result, expected)

    def test_writing_keys_alone(self, tmp_path):
        k, cache, slots = random(RNG, F16, (2, 2, 4)), random(RNG, F16, (3, 4, 2, 4)), np.array([0, 11], np.int32)
        (y,) = evaluate(tmp_path, "ReshapeAndCacheOperation", {"kvCacheCfg": 1}, k, cache, slots)
        expected = cache.copy()
        expected[0, 0], expected[2, 3] = k
        np.testing.assert_array_equal(y, expected)

    def test_writing_in_the_format_of_310p(self, tmp_path):
        """[blocks, columns / 16, block size, 16]."""
        k, v = (random(RNG, F16, (2, 2, 16)) for _ in range(2))
        caches = [random(RNG, F16, (3, 2, 4, 16)) for _ in range(2)]
        slots = np.array([5, 0], np.int32)
        results = evaluate(tmp_path, "ReshapeAndCacheOperation", {"kvCacheCfg": 2}, k, v, *caches, slots, results=2)
        for result, cache, new in zip(results, caches, (k, v), strict=True):
            expected = cache.copy()
            expected[1, :, 1], expected[0, :, 0] = new[0].reshape(2, 16), new[1].reshape(2, 16)
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("layout", ["ND", "NZ"])
    @pytest.mark.parametrize("with_starts", [False, True])
    def test_loading(self, tmp_path, layout, with_starts):
        """The rows of all sequences, into tensors whose other rows stay; the caches are of FRACTAL_NZ by default."""
        caches = [random(RNG, F16, (6, 4, 32)) for _ in range(2)]
        stored = [c.reshape(6, 4, 2, 16).transpose(0, 2, 1, 3).copy() if layout == "NZ" else c.reshape(6, 4, 2, 16)
                  for c in caches]  # fmt: skip
        lengths, starts = np.array([5, 2], np.int32), np.array([0, 4], np.int32)
        tables = np.array([[4, 1, 9], [2, 5, -3]], np.int32)
        targets = [random(RNG, F16, (9, 32) if layout == "NZ" else (9, 2, 16)) for _ in range(2)]
        given = [*stored, tables, np.array([0, 5, 7], np.int32) if with_starts else lengths, *targets]
        given += [starts] if with_starts else []
        param = {"kvCacheCfg": int(layout == "ND"), "hasSeqStarts": with_starts}
        results = evaluate(tmp_path, "PagedCacheLoadOperation", param, *given, results=2)
        for result, cache, target in zip(results, caches, targets, strict=True):
            expected = target.reshape(9, 32).copy()
            row = 0
            for i, n in enumerate(lengths):
                for j in range(n):
                    expected[row] = cache[tables[i, j // 4 + (starts[i] // 4 if with_starts else 0)], j % 4]
                    row += 1
            np.testing.assert_array_equal(result.reshape(9, 32), expected)

    @pytest.mark.parametrize("results", [0, 2])
    def test_copies_of_blocks(self, tmp_path, results):
        """In place: the graph may name no results."""
        caches = [random(RNG, F16, (6, 2, 2, 2)) for _ in range(2)]
        source, target, ends = (np.array(t, np.int32) for t in ([4, 1], [0, 2, 5], [1, 3]))
        given = [*caches, source, target, ends]
        copies = run(one_operation(tmp_path, "BlockCopyOperation", {}, given, results), *given)[-2:]
        for result, cache in zip(copies, caches, strict=True):
            expected = cache.copy()
            expected[[0, 2, 5]] = cache[[4, 1, 1]]
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize(
        ("param", "message"),
        [
            ({"headNum": 0}, "ERROR_INVALID_PARAM"),
            ({"compressType": 1}, "compressed heads"),
            ({"quantType": 2}, "int8 queries"),
            ({"maskType": 4}, "masks that the kernel makes"),
            ({"headNum": 3}, "ERROR_INVALID"),
        ],
    )
    def test_what_is_refused(self, tmp_path, param, message):
        given = [random(RNG, F16, (3, 4, 8)), *self.caches(F16, 2), self.TABLES, self.LENGTHS]
        with pytest.raises(ConversionError, match=message):
            one_operation(tmp_path, "PagedAttentionOperation", {"headNum": 4, "kvHeadNum": 2, **param}, given)


def rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Each head [tokens, heads, size] rotated by halves."""
    first, second = np.split(wide(x), 2, -1)
    return wide(x) * wide(cos)[:, None] + np.concatenate([-second, first], -1) * wide(sin)[:, None]


@HALVES
def test_rope_q_concat(tmp_path, dtype):
    q, cos, sin, other = (random(RNG, dtype, shape) for shape in ((3, 16), (3, 8), (3, 8), (3, 2, 5)))
    (y,) = evaluate(tmp_path, "RopeQConcatOperation", {}, q, cos, sin, other)
    close(y, np.concatenate([rotated(q.reshape(3, 2, 8), cos, sin), wide(other)], -1), dtype)


def test_norm_rope_reshape(tmp_path):
    x, gamma, key, cos, sin = (random(RNG, F16, shape) for shape in ((2, 12), (12,), (2, 4), (2, 4), (2, 4)))
    cache, slots = random(RNG, F16, (3, 4, 1, 16)), np.array([9, -1], np.int32)
    (y,) = evaluate(tmp_path, "NormRopeReshapeOperation", {"epsilon": 1e-5}, x, gamma, key, cos, sin, slots, cache)
    normed = wide(x) / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + 1e-5) * wide(gamma)
    expected = wide(cache)
    expected[2, 1, 0] = [*normed[0], *rotated(key[:, None], cos, sin)[0, 0]]
    close(y, expected, F16)
