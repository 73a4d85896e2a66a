"""Results never depend on the number of threads, however the work is distributed over segments and rows."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from contract.example_messages import legal_inputs, legal_sequence_inputs
from native.sessions import Array, forget_sessions, run

from onnx_sparse import KernelError
from onnx_sparse.reference import FUNCTIONS, evaluate
from onnx_sparse.schemas import OPS

pytestmark = pytest.mark.slow


def skews(random: Any, count: int) -> Iterator[tuple[str, Array]]:
    """Sorted ids with their entries distributed in ways that are hard to split."""
    yield "even", np.sort(random.integers(0, count // 5, count))
    yield "one segment", np.zeros(count, np.int64)
    yield "one long among short", np.sort(np.r_[np.full(count // 2, 9), random.integers(0, count // 5, count // 2)])
    yield "long at both ends", np.repeat([0, 1, 500], [count // 2, 1, count // 2 - 1])
    yield "far apart", np.sort(random.integers(0, 40_000, count // 50))
    yield "all beyond the end", np.full(count, 10**6)


def every_operator(threads: int) -> Iterator[tuple[str, list[Array]]]:
    """Each operator on inputs large enough to be split: a name and the outputs."""
    random = np.random.default_rng(5)
    count = 12_000
    for skew, ids in skews(random, count):
        for width, dtype in ((1, np.float32), (3, np.float32), (64, np.float16), (40, np.float32), (20, np.int8)):
            data = (random.standard_normal((len(ids), width)) * 20).astype(dtype)
            segments = np.array(min(int(ids[-1]) + 5, 50_000))
            for op in OPS:
                mode = {"fill_mode": "ZERO"} if op in ("SegmentMax", "SegmentMin") else {}
                if op.startswith("Segment"):
                    inputs = {"data": data, "segment_ids": ids, "num_segments": segments}
                elif op.startswith("UnsortedSegment") and skew != "all beyond the end":
                    inputs = {"data": data, "segment_ids": random.permutation(ids), "num_segments": segments}
                elif op.startswith("EmbeddingSegments") and (op.endswith("Sum") or dtype != np.int8):
                    inputs = {
                        "emb_table": data,
                        "indices": random.integers(0, len(data), len(ids)),
                        "segment_ids": ids,
                        "num_segments": segments,
                        "per_sample_weights": data[:, 0].copy(),
                    }
                elif op.startswith("EmbeddingBagOffsets") and (op.endswith(("Sum", "Max")) or dtype != np.int8):
                    inputs = {
                        "emb_table": data,
                        "indices": random.integers(0, len(data), len(ids)),
                        "offsets": np.searchsorted(ids, np.arange(int(segments))),
                        "default_index": np.array(-1),
                        **({} if op.endswith("Max") else {"per_sample_weights": data[:, 0].copy()}),
                    }
                    padded = inputs | {"padding_index": np.array(inputs["indices"][0])}
                    yield f"{op} {skew} {width} padded", run(op, padded, threads=threads)
                else:
                    continue
                yield f"{op} {skew} {width}", run(op, inputs, threads=threads, **mode)
                if op.startswith("EmbeddingSegments") and skew != "all beyond the end":
                    inputs["segment_ids"] = random.permutation(ids)
                    shuffled = run(op, inputs, threads=threads, segment_ids_order="any")
                    yield f"{op} {skew} {width} shuffled", shuffled
                    inputs["indices"][random.random(len(ids)) < 0.2] = -1
                    dropped = run(op, inputs, threads=threads, segment_ids_order="any", negative_indices="drop")
                    yield f"{op} {skew} {width} shuffled, some dropped", dropped
    yield from _other_operators(random, threads)


def _other_operators(random: Any, threads: int) -> Iterator[tuple[str, list[Array]]]:
    rows, count = 50_000, 100_000
    indices = np.stack([random.integers(0, rows // 2, count), random.integers(0, 9, count)], axis=1)
    in_order = indices[np.lexsort(indices.T[::-1])]
    for name, given in (("shuffled", indices), ("sorted", in_order), ("one row", in_order * [0, 1])):
        for order in ("row_major", "row_stable"):
            inputs = {
                "values": random.standard_normal(count).astype(np.float32),
                "dense_shape": np.array([rows, 9]),
                "indices": given,
                "default_value": np.array(-1, np.float32),
            }
            outputs = run("SparseFillEmptyRows", inputs, threads=threads, order=order)
            yield f"SparseFillEmptyRows {name} {order}", outputs
        ragged = {
            "value_rowids": np.ascontiguousarray(given[:, 0]),
            "values": inputs["values"],
            "nrows": np.array(rows),
            "default_value": inputs["default_value"],
        }
        yield f"RaggedFillEmptyRows {name}", run("RaggedFillEmptyRows", ragged, threads=threads)
    for name, inputs in lookups_in_large_tables(random):
        for op in ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN"):
            yield f"{op} {name}", run(op, inputs, threads=threads)
    reshaped = {"input_indices": indices, "input_shape": np.array([rows, 9]), "new_shape": np.array([9, 10, -1])}
    yield "SparseReshape", run("SparseReshape", reshaped, threads=threads)
    x = random.standard_normal((50, 400, 30)).astype(np.float32)
    for shape in ((50, 400, 30), (30,), (400, 1), (50, 1, 30), (1, 400, 30), (50, 1, 1), ()):
        filled = {"x": x, "mask": random.random(shape) < 0.5, "value": np.array(7, np.float32)}
        filled["mask"] = np.asarray(filled["mask"])
        yield f"MaskedFill {shape}", run("MaskedFill", filled, threads=threads)
        if threads == 1:
            np.testing.assert_array_equal(
                run("MaskedFill", filled, threads=1)[0], np.where(filled["mask"], filled["value"], x)
            )
    words = np.array(["x" * int(n) for n in random.integers(0, 100, 20_000)], object)
    hashed = {"input": words, "num_buckets": np.array(1000)}
    yield "StringToHashBucketFast", run("StringToHashBucketFast", hashed, threads=threads)
    hashed |= {"key_0": np.array(1), "key_1": np.array(2)}
    yield "StringToHashBucketStrong", run("StringToHashBucketStrong", hashed, threads=threads)
    for name, inputs in strings_of(random):
        outputs = run(name, inputs, threads=threads, **{a.name: a.choices[-1] for a in OPS[name].attributes})
        yield name, [o.astype(str) if o.dtype == object else o for o in outputs]
    outputs = run("ParseExample", legal_inputs(np.random.default_rng(8), 4, 3_000), threads=threads)
    yield "ParseExample", [o.astype(str) if o.dtype == object else o for o in outputs]
    outputs = run("ParseSequenceExample", legal_sequence_inputs(np.random.default_rng(11), 4, 3_000), threads=threads)
    yield "ParseSequenceExample", [o.astype(str) if o.dtype == object else o for o in outputs]
    yield "Fill", run("Fill", {"dims": np.array([700, 1001]), "value": np.array(3, np.int16)}, threads=threads)


def lookups_in_large_tables(random: Any) -> Iterator[tuple[str, dict[str, Array]]]:
    """Lookups of rows that are prefetched, because their table is larger than the second-level cache."""
    for width, dtype in itertools.product((1, 2, 3, 4, 5, 8, 16, 40), (np.float32, np.float64)):
        table = random.standard_normal(((3 << 19) // (width * np.dtype(dtype).itemsize), width)).astype(dtype)
        inputs = {
            "emb_table": table,
            "indices": random.integers(0, len(table), 12_000),
            "segment_ids": np.sort(random.integers(0, 3_000, 12_000)),
            "num_segments": np.array(3_100),
            "default_index": np.array(len(table) - 1),
        }
        yield f"{width} {np.dtype(dtype).name}", inputs
        weights = random.standard_normal(12_000).astype(dtype)
        yield f"{width} {np.dtype(dtype).name} weighted", inputs | {"per_sample_weights": weights}


def strings_of(random: Any) -> Iterator[tuple[str, dict[str, Array]]]:
    """The operators on text, on some thousand strings."""
    words = np.array(["a ßb, 日" * int(n) for n in random.integers(0, 20, 9_000)], object)
    splits, by, zeros = np.arange(0, 9_001, 3), np.array(", "), np.zeros(9_000, np.int64)
    yield "RaggedStringSplit", {"input": words, "separator": by, "max_splits": np.array(-1)}
    yield "RaggedReduceJoin", {"values": words, "row_splits": splits, "separator": by}
    ranges = np.array([[32, 32], [200, 2**40]])
    yield "ReplaceCharacters", {"input": words, "ranges": ranges, "rewrite": np.array(["<", ">"], object)}
    program = np.array([[2, 1, 4], [1, 0, 0], [2, 1, 3], [0, 0, 0], [1, 1, 0], [0, 0, 0]])
    expression = {"program": program, "ranges": ranges, "class_splits": np.array([0, 1, 2])}
    around = {"rewrite": np.array(["<", ">"], object), "groups": np.array([0])}
    yield "RegexReplace", {"input": words} | expression | around
    yield "RegexSplit", {"input": words} | expression | {f"kept_{name}": value for name, value in expression.items()}
    ngrams = {"data": words, "data_splits": splits, "ngram_widths": np.array([1, 2]), "separator": by, "left_pad": by}
    more = {"right_pad": by, "pad_width": np.array(1), "preserve_short_sequences": np.array(True)}
    yield "StringNGrams", ngrams | more
    yield "StringLength", {"input": words}
    yield "Substr", {"input": words, "pos": zeros, "len": zeros + 4}
    yield "StringStrip", {"input": words}
    yield "StringCase", {"input": words}
    yield "AsString", {"input": random.standard_normal(9_000), "precision": np.array(9), "width": np.array(12)}
    yield "UnicodeDecode", {"input": words, "replacement_char": np.array(63, np.int32)}
    numbers = random.integers(-5, 2**17, 9_000).astype(np.int32)
    stand_in = np.array(63, np.int32)
    yield "UnicodeEncode", {"input_values": numbers, "input_splits": splits, "replacement_char": stand_in}


def test_many_strings_taken_apart_and_put_together_give_what_the_reference_gives() -> None:
    for name, inputs in strings_of(np.random.default_rng(3)):
        attributes = {a.name: a.choices[-1] for a in OPS[name].attributes}
        expected = evaluate(OPS[name], list(inputs.values()), attributes)
        for got, wanted in zip(run(name, inputs, **attributes), expected, strict=True):
            np.testing.assert_array_equal(got, wanted, name)


def digests(threads: int) -> dict[str, list[bytes]]:
    """The SHA-256 of each output: all together take gigabytes."""
    found = {
        name: [hashlib.sha256(output.tobytes()).digest() for output in outputs]
        for name, outputs in every_operator(threads)
    }
    forget_sessions()
    return found


@pytest.fixture(scope="module")
def on_one_thread() -> dict[str, list[bytes]]:
    return digests(threads=1)


@pytest.mark.parametrize("threads", [2, 8])
def test_results_do_not_depend_on_the_number_of_threads(threads: int, on_one_thread: dict[str, list[bytes]]) -> None:
    found = digests(threads)
    assert [name for name in on_one_thread if found[name] != on_one_thread[name]] == []


def test_large_inputs_give_what_the_reference_gives() -> None:
    """The contract suite's inputs are small; these are large enough for every way of splitting the work."""
    random = np.random.default_rng(6)
    for skew, ids in skews(random, 20_000):
        data = random.integers(-100, 100, (len(ids), 5)).astype(np.int32)
        segments = np.array(min(int(ids[-1]) + 5, 50_000))
        for op in ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"):
            mode = {"fill_mode": "ZERO"} if op in ("SegmentMax", "SegmentMin") else {}
            expected = FUNCTIONS[op](data, ids, segments, **mode)
            np.testing.assert_array_equal(
                run(op, {"data": data, "segment_ids": ids, "num_segments": segments}, **mode)[0],
                expected,
                f"{op} {skew}",
            )
        if skew == "all beyond the end":
            continue
        mixed = random.permutation(ids)
        for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
            expected = FUNCTIONS[op](data, mixed, segments)
            (got,) = run(op, {"data": data, "segment_ids": mixed, "num_segments": segments})
            np.testing.assert_array_equal(got, expected, f"{op} {skew}")
        looked_up = {
            "emb_table": data,
            "indices": random.integers(0, len(data), len(ids)),
            "segment_ids": mixed,
            "num_segments": segments,
            "default_index": np.array(-1),
            "per_sample_weights": random.integers(-100, 100, len(ids)).astype(np.int32),
        }
        bags = {name: looked_up[name] for name in ("emb_table", "indices", "default_index", "per_sample_weights")}
        bags["offsets"] = np.searchsorted(ids, np.arange(int(segments)))
        for padding in (-1, int(bags["indices"][0])):
            for op in ("EmbeddingBagOffsetsSum", "EmbeddingBagOffsetsMax"):
                given = bags | {"padding_index": np.array(padding)}
                given = {i.name: given[i.name] for i in OPS[op].inputs}
                expected = FUNCTIONS[op](*given.values(), include_last_offset="true")
                (got,) = run(op, given, include_last_offset="true")
                np.testing.assert_array_equal(got, expected, f"{op} {skew}")
        expected = FUNCTIONS["EmbeddingSegmentsSum"](*looked_up.values(), segment_ids_order="any")
        (got,) = run("EmbeddingSegmentsSum", looked_up, segment_ids_order="any")
        np.testing.assert_array_equal(got, expected, f"EmbeddingSegmentsSum {skew}")


@pytest.mark.parametrize("count", [1, 4_097, 20_000])
def test_many_strings_give_what_the_reference_gives(count: int) -> None:
    random = np.random.default_rng(8)
    words = np.array([f"{k:x}" * int(n) for k, n in enumerate(random.integers(0, 40, count))], object)
    inputs = {"input": words, "num_buckets": np.array(2**63 - 1)}
    expected = FUNCTIONS["StringToHashBucketFast"](*inputs.values())
    np.testing.assert_array_equal(run("StringToHashBucketFast", inputs)[0], expected)
    inputs |= {"key_0": np.array(2**62), "key_1": np.array(-1)}
    expected = FUNCTIONS["StringToHashBucketStrong"](*inputs.values())
    np.testing.assert_array_equal(run("StringToHashBucketStrong", inputs)[0], expected)


@pytest.mark.parametrize("order", ["row_major", "row_stable"])
def test_large_sparse_tensors_give_what_the_reference_gives(order: str) -> None:
    random = np.random.default_rng(7)
    # Many rows and few, buckets of many rows, and columns beside which an entry's number does not fit into 64 bits.
    for rows, count, columns in (
        (50_000, 100_000, 9),
        (10, 50_000, 1000),
        (100_000, 300, 2),
        (100_000, 300, 2**62),
        (3, 40_000, 2**40),
        (1, 20_000, 2**62),
    ):
        indices = np.stack([random.integers(0, rows, count), random.integers(0, columns, count)], axis=1)
        for given in (indices, indices[np.lexsort(indices.T[::-1])], indices[np.argsort(indices[:, 0], kind="stable")]):
            inputs = {
                "values": np.arange(count),
                "dense_shape": np.array([rows, columns]),
                "indices": np.ascontiguousarray(given),
                "default_value": np.array(-1),
            }
            expected = FUNCTIONS["SparseFillEmptyRows"](*inputs.values(), order=order)
            for got, wanted in zip(run("SparseFillEmptyRows", inputs, order=order), expected, strict=True):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [70, 5_000, 3_000_000])
def test_columns_that_are_not_checked_keep_their_bits(dtype: type[np.integer[Any]], rows: int) -> None:
    """Stable order checks only the rows."""
    random = np.random.default_rng(9)
    limits = np.iinfo(dtype)
    for columns in (random.integers(0, 100, 30_000), random.integers(limits.min, limits.max, 30_000)):
        inputs = {
            "values": np.arange(len(columns)).astype(np.float16),
            "dense_shape": np.array([rows, 1], dtype),
            "indices": np.stack([random.integers(0, rows, len(columns)), columns], axis=1).astype(dtype),
            "default_value": np.array(-1, np.float16),
        }
        expected = FUNCTIONS["SparseFillEmptyRows"](*inputs.values(), order="row_stable")
        for got, wanted in zip(run("SparseFillEmptyRows", inputs, order="row_stable"), expected, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("order", ["row_major", "row_stable"])
@pytest.mark.parametrize("sort", [False, True])
def test_large_sparse_tensors_of_rank_3_give_what_the_reference_gives(order: str, sort: bool) -> None:
    random = np.random.default_rng(8)
    dense_shape = np.array([9_000, 4, 7])
    indices = random.integers(0, dense_shape, (60_000, 3))
    inputs = {
        "values": np.arange(len(indices)),
        "dense_shape": dense_shape,
        "indices": indices[np.lexsort(indices.T[::-1])] if sort else indices,
        "default_value": np.array(-1),
    }
    expected = FUNCTIONS["SparseFillEmptyRows"](*inputs.values(), order=order)
    for got, wanted in zip(run("SparseFillEmptyRows", inputs, order=order), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_unsorted_ids_between_two_parts_are_found(dtype: type[np.integer[Any]]) -> None:
    """Parts are checked in parallel; the number of entries is a multiple of their length."""
    count = 1 << 17
    for fall in range(count // 16, count, count // 16):
        ids = (np.arange(count) < fall).astype(dtype)
        with pytest.raises(KernelError, match=rf"segment_ids\[{fall}\] = 0 is less than"):
            run("SegmentSum", {"data": np.zeros(count, np.int8), "segment_ids": ids})


def test_unsorted_rows_between_two_parts_are_sorted() -> None:
    count = 1 << 16
    for fall in range(count // 16, count, count // 16):
        indices = np.stack([np.arange(count) < fall, np.zeros(count)], axis=1).astype(np.int64)
        sparse = {"values": np.arange(count), "dense_shape": np.array([2, 1]), "indices": indices}
        _, values, *_ = run("SparseFillEmptyRows", sparse | {"default_value": np.array(0)})
        np.testing.assert_array_equal(values, np.roll(np.arange(count), -fall))


@pytest.mark.parametrize(
    ("op", "draw"), [("ParseExample", legal_inputs), ("ParseSequenceExample", legal_sequence_inputs)]
)
def test_many_messages_give_what_the_reference_gives(op: str, draw: Callable[..., dict[str, Array]]) -> None:
    inputs = draw(np.random.default_rng(9), 6, 2_000)
    for got, expected in zip(run(op, inputs), FUNCTIONS[op](*inputs.values()), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_message_that_is_refused_is_named(threads: int) -> None:
    """Whatever task finds another one first."""
    inputs = legal_inputs(np.random.default_rng(10), 4, 4_000)
    for position in (3_990, 2_345, 777):
        inputs["serialized"][position] += "\n"
        with pytest.raises(KernelError, match=rf"serialized\[{position}\] is not a tf.Example"):
            run("ParseExample", inputs, threads=threads)
