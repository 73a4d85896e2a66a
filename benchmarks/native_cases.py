"""The cases at which the native kernels are timed, and how other libraries compute the same results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sessions import one_node_model

Array = np.ndarray[Any, Any]
Run = Callable[[], Any]


@dataclass
class Case:
    """One line of the table.

    Attributes:
        name: The name of the case.
        op: The operator.
        inputs: Its inputs by name.
        bytes_moved: How many bytes must be read or written at least; 0 for cases that measure latency.
        peers: Other libraries' computations of the same result, by library.
        attributes: The operator's attributes.
    """

    name: str
    op: str
    inputs: dict[str, Array]
    bytes_moved: int
    peers: dict[str, Run] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)

    def model(self) -> Any:
        """A model of the operator."""
        return one_node_model(self.op, self.inputs, self.attributes)


def aligned(array: Array) -> Array:
    """A copy that begins a cache line, as all memory of ONNX Runtime does; numpy's large arrays begin 16 bytes behind
    one, and rows of 64 bytes would be in two lines each."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    first = -memory.ctypes.data % 64
    copy = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow
    except ImportError:
        return None
    return tensorflow


def cases(threads: int) -> Iterator[Case]:
    """Every case. Also sets the peers' number of threads, which TensorFlow allows only once in a process."""
    torch, tf = _torch(), _tensorflow()
    if torch is not None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
    if tf is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    random = np.random.default_rng(0)
    yield from _fill_empty_rows(random, tf)
    yield from _embedding(random, torch, tf)
    yield from _quantized(random, torch)
    yield from _segments(random, torch, tf)
    yield from _masks(random, torch, tf)
    yield from _strings(random, tf)
    yield from _small(random, torch, tf)


def _fill_empty_rows(random: Array, tf: Any) -> Iterator[Case]:
    count, rows = 1_000_000, 200_000
    present = np.flatnonzero(random.random(rows) > 0.3)
    at = np.sort(random.choice(present, count))
    indices = np.stack([at, random.integers(0, 1000, count)], axis=1)
    indices = indices[np.lexsort((indices[:, 1], indices[:, 0]))]
    values = random.standard_normal(count).astype(np.float32)
    empty = rows - len(np.unique(at))
    moved = indices.nbytes + values.nbytes + (count + empty) * 20 + rows + count * 8
    shuffled = random.permutation(count)
    for name, order in (("sorted", np.arange(count)), ("shuffled", shuffled)):
        inputs = {
            "values": values[order],
            "dense_shape": np.array([rows, 1000]),
            "indices": indices[order],
            "default_value": np.array(0, np.float32),
        }
        for attribute in ("row_major", "row_stable"):
            peers: dict[str, Run] = {"numpy": _numpy_fill_empty_rows(inputs)}
            if tf is not None and (name, attribute) != ("shuffled", "row_major"):  # it does not sort within rows
                given = [tf.constant(inputs[n]) for n in ("indices", "values", "dense_shape", "default_value")]
                peers["tensorflow"] = lambda given=given: tf.raw_ops.SparseFillEmptyRows(
                    indices=given[0], values=given[1], dense_shape=given[2], default_value=given[3]
                )
            yield Case(
                f"SparseFillEmptyRows 1M of 200k rows, {name}, {attribute}",
                "SparseFillEmptyRows",
                inputs,
                moved,
                peers,
                {"order": attribute},
            )


def _numpy_fill_empty_rows(inputs: dict[str, Array]) -> Run:
    def run() -> Any:
        rows = inputs["indices"][:, 0]
        empty = np.ones(inputs["dense_shape"][0], bool)
        empty[rows] = False
        missing = np.flatnonzero(empty)
        filled = np.zeros((len(rows) + len(missing), 2), np.int64)
        filled[: len(rows)] = inputs["indices"]
        filled[len(rows) :, 0] = missing
        order = np.argsort(filled[:, 0] * 1000 + filled[:, 1], kind="stable")
        values = np.concatenate([inputs["values"], np.zeros(len(missing), np.float32)])[order]
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return filled[order], values, empty, inverse[: len(rows)]

    return run


def _embedding(random: Any, torch: Any, tf: Any) -> Iterator[Case]:
    entries, segments, width = 500_000, 100_000, 64
    table = aligned(random.standard_normal((1_000_000, width)).astype(np.float32))
    indices = random.integers(0, len(table), entries)
    ids = np.sort(random.integers(0, segments, entries))
    weights = random.random(entries).astype(np.float32)
    skewed = np.sort(np.concatenate([np.full(100_000, 7), random.integers(0, segments, entries - 100_000)]))
    for name, dtype in (("float32", np.float32), ("float16", np.float16), ("int8", np.int8)):
        for weighted in (False, True):
            if weighted and dtype == np.int8:
                continue
            data = aligned((table * 20).astype(np.int8) if dtype == np.int8 else table.astype(dtype))
            yield _embedding_case(
                f"EmbeddingSegmentsSum {name}{', weighted' if weighted else ''}",
                data, indices, ids, weights.astype(dtype) if weighted else None, segments, torch, tf,
            )  # fmt: skip
    yield _embedding_case(
        "EmbeddingSegmentsSum float32, one segment of 100k", table, indices, skewed, None, segments, torch, tf
    )
    yield from _embedding_in_any_order(random, table, indices, ids, segments)
    narrow = aligned(table[:, :3])
    yield _embedding_case(
        "EmbeddingSegmentsSum float32, width 3, one segment of 100k",
        narrow, indices, skewed, None, segments, torch, tf,
    )  # fmt: skip


def _embedding_in_any_order(random: Any, table: Array, indices: Array, ids: Array, segments: int) -> Iterator[Case]:
    for name, given in (("sorted", ids), ("shuffled", random.permutation(ids))):
        case = _embedding_case(
            f"EmbeddingSegmentsSum float32, any order, {name}", table, indices, given, None, segments, None, None
        )
        case.peers = {}  # they take sorted ids only
        case.attributes["segment_ids_order"] = "any"
        yield case


def _embedding_case(
    name: str,
    table: Array,
    indices: Array,
    ids: Array,
    weights: Array | None,
    segments: int,
    torch: Any,
    tf: Any,
) -> Case:
    inputs = {"emb_table": table, "indices": indices, "segment_ids": ids, "num_segments": np.array(segments)}
    if weights is not None:
        inputs["per_sample_weights"] = weights
    row = table.nbytes // len(table)
    peers: dict[str, Run] = {}
    starts = np.searchsorted(ids, np.arange(segments))

    def with_numpy() -> Any:
        rows = table[indices] if weights is None else table[indices] * weights[:, None]
        summed = np.add.reduceat(rows, np.minimum(starts, len(ids) - 1), axis=0)
        summed[np.diff(starts, append=len(ids)) == 0] = 0
        return summed

    peers["numpy"] = with_numpy
    if torch is not None and table.dtype != np.int8:
        given = [torch.from_numpy(a) for a in (indices, table, starts)]
        samples = None if weights is None else torch.from_numpy(weights)
        peers["torch"] = lambda: torch.nn.functional.embedding_bag(
            given[0], given[1], given[2], mode="sum", per_sample_weights=samples
        )
    if tf is not None and weights is None and table.dtype != np.int8:
        known = [tf.constant(a) for a in (table, indices, ids, np.array(segments))]
        peers["tensorflow"] = lambda: tf.raw_ops.SparseSegmentSumWithNumSegments(
            data=known[0], indices=known[1], segment_ids=known[2], num_segments=known[3]
        )
    return Case(name, "EmbeddingSegmentsSum", inputs, len(indices) * (row + 16) + segments * row, peers)


def _quantized(random: Any, torch: Any) -> Iterator[Case]:
    """Rows of 8 and 4 bits beside torch's, and beside torch's sum of the same rows in float32."""
    for rows, width, entries, bags in (
        (1_000_000, 64, 500_000, 100_000),
        (2_000_000, 64, 200_000, 20_000),
        (200_000, 32, 40_960, 2_048),
    ):
        table = aligned(random.standard_normal((rows, width)).astype(np.float32))
        lookup = {
            "indices": random.integers(0, rows, entries),
            "offsets": np.sort(np.append(0, random.integers(0, entries, bags - 1))),
        }
        name = f"{rows // 1000}k x {width}, {entries} in {bags}"
        peers: dict[str, Run] = {}
        if torch is not None:
            given = [torch.from_numpy(a) for a in (lookup["indices"], table, lookup["offsets"])]
            peers["torch"] = lambda given=given: torch.nn.functional.embedding_bag(*given, mode="sum")
        moved = entries * (4 * width + 8) + bags * 4 * width
        yield Case(
            f"EmbeddingBagOffsetsSum float32 {name}",
            "EmbeddingBagOffsetsSum",
            {"emb_table": table} | lookup,
            moved,
            peers,
        )
        for bits in ("8", "4"):
            low, high = table.min(axis=1, keepdims=True), table.max(axis=1, keepdims=True)
            scale = (high - low) / (2 ** int(bits) - 1)
            integers = np.rint((table - low) / scale).astype(np.uint8)
            integers = aligned(integers if bits == "8" else integers[:, ::2] | integers[:, 1::2] << 4)
            numbers = aligned(np.stack([scale, low], axis=2))
            row = integers.shape[1] + 8
            yield Case(
                f"QuantizedEmbeddingBagOffsetsSum {bits} bits {name}",
                "QuantizedEmbeddingBagOffsetsSum",
                {"emb_table": integers, "scale_bias": numbers} | lookup,
                entries * (row + 8) + bags * 4 * width,
                _torch_quantized(torch, table, lookup, bits) | peers,
                {"bits": bits},
            )


def _torch_quantized(torch: Any, table: Array, lookup: dict[str, Array], bits: str) -> dict[str, Run]:
    if torch is None:
        return {}
    kind = "byte" if bits == "8" else "4bit"
    packed = getattr(torch.ops.quantized, f"embedding_bag_{kind}_prepack")(torch.from_numpy(table))
    run = getattr(torch.ops.quantized, f"embedding_bag_{kind}_rowwise_offsets")
    indices, offsets = torch.from_numpy(lookup["indices"]), torch.from_numpy(lookup["offsets"])
    return {"torch quantized": lambda: run(packed, indices, offsets, mode=0)}


def _segments(random: Any, torch: Any, tf: Any) -> Iterator[Case]:
    entries, segments, width = 500_000, 100_000, 64
    data = aligned(random.standard_normal((entries, width)).astype(np.float32))
    ids = np.sort(random.integers(0, segments, entries))
    shuffled = random.permutation(ids)
    moved = data.nbytes + ids.nbytes + segments * width * 4
    starts = np.searchsorted(ids, np.arange(segments))
    lengths = np.diff(starts, append=entries)
    for op, reduce, torch_name in (("SegmentMax", np.maximum, "max"), ("SegmentSum", np.add, "sum")):
        peers: dict[str, Run] = {
            "numpy": lambda reduce=reduce: reduce.reduceat(data, np.minimum(starts, entries - 1), axis=0)
        }
        if torch is not None:
            given = [torch.from_numpy(a) for a in (data, lengths)]
            peers["torch"] = lambda given=given, name=torch_name: torch.segment_reduce(
                given[0], name, lengths=given[1], axis=0, unsafe=True
            )
        if tf is not None:
            known = [tf.constant(data), tf.constant(ids)]
            peers["tensorflow"] = lambda known=known, op=op: getattr(tf.raw_ops, op)(
                data=known[0], segment_ids=known[1]
            )
        attributes = {"fill_mode": "ZERO"} if op == "SegmentMax" else {}
        inputs = {"data": data, "segment_ids": ids, "num_segments": np.array(segments)}
        yield Case(f"{op} 500k x 64", op, inputs, moved, peers, attributes)
    flat = np.ascontiguousarray(data[:, 0])
    yield Case(
        "SegmentSum 500k x 1",
        "SegmentSum",
        {"data": flat, "segment_ids": ids, "num_segments": np.array(segments)},
        flat.nbytes + ids.nbytes + segments * 4,
        {"numpy": lambda: np.add.reduceat(flat, np.minimum(starts, entries - 1))},
    )

    def with_numpy() -> Any:
        output = np.zeros((segments, width), np.float32)
        np.add.at(output, shuffled, data)
        return output

    peers = {"numpy": with_numpy}
    if torch is not None:
        given = [torch.from_numpy(a) for a in (data, shuffled)]
        wide = given[1][:, None].expand(-1, width)
        peers["torch"] = lambda: torch.zeros(segments, width).scatter_reduce_(0, wide, given[0], "sum")
        peers["torch index_add"] = lambda: torch.zeros(segments, width).index_add_(0, given[1], given[0])
    if tf is not None:
        known = [tf.constant(data), tf.constant(shuffled), tf.constant(segments)]
        peers["tensorflow"] = lambda: tf.raw_ops.UnsortedSegmentSum(
            data=known[0], segment_ids=known[1], num_segments=known[2]
        )
    inputs = {"data": data, "segment_ids": shuffled, "num_segments": np.array(segments)}
    yield Case("UnsortedSegmentSum 500k x 64", "UnsortedSegmentSum", inputs, moved, peers)


def _masks(random: Any, torch: Any, tf: Any) -> Iterator[Case]:
    size = 1 << 24
    for name, dtype in (("float32", np.float32), ("float16", np.float16)):
        x = aligned(random.standard_normal(size, np.float32).astype(dtype).reshape(-1, 4096))
        value = np.array(7, dtype)
        for mask_name, mask in (
            ("full", random.random(x.shape, np.float32) < 0.5),
            ("broadcast over rows", random.random(4096) < 0.5),
            ("broadcast over columns", random.random((len(x), 1)) < 0.5),
        ):
            peers: dict[str, Run] = {"numpy": lambda x=x, mask=mask, value=value: np.where(mask, value, x)}
            if torch is not None:
                given = [torch.from_numpy(a) for a in (x, mask)]
                peers["torch"] = lambda given=given: given[0].masked_fill(given[1], 7.0)
            if tf is not None:
                known = [tf.constant(a) for a in (mask, value, x)]
                peers["tensorflow"] = lambda known=known: tf.where(*known)
            yield Case(
                f"MaskedFill 16M {name}, mask {mask_name}",
                "MaskedFill",
                {"x": x, "mask": mask, "value": value},
                2 * x.nbytes + mask.nbytes,
                peers,
            )
        peers = {"numpy": lambda dtype=dtype: np.full((4096, 4096), 7, dtype)}
        if torch is not None:
            kind = getattr(torch, name)
            peers["torch"] = lambda kind=kind: torch.full((4096, 4096), 7.0, dtype=kind)
        if tf is not None:
            filled = [tf.constant([4096, 4096]), tf.constant(value)]
            peers["tensorflow"] = lambda filled=filled: tf.fill(*filled)
        inputs = {"dims": np.array([4096, 4096]), "value": value}
        yield Case(f"Fill 16M {name}", "Fill", inputs, size * value.nbytes, peers)


def _strings(random: Any, tf: Any) -> Iterator[Case]:
    count, buckets = 1_000_000, 100_000
    for name, pattern in (("12", "user_{:07}"), ("100", "https://example.com/" + "path/" * 14 + "{:010}")):
        words = np.array([pattern.format(k) for k in random.integers(0, 10**7, count)], object)
        peers: dict[str, Run] = {}
        if tf is not None:
            known = tf.constant(words)
            peers["tensorflow"] = lambda known=known: tf.strings.to_hash_bucket_fast(known, buckets)
        yield Case(
            f"StringToHashBucketFast 1M strings of {name} bytes",
            "StringToHashBucketFast",
            {"input": words, "num_buckets": np.array(buckets)},
            sum(map(len, words)) + count * 8,
            peers,
        )
        strong: dict[str, Run] = {}
        if tf is not None:
            strong["tensorflow"] = lambda known=known: tf.strings.to_hash_bucket_strong(known, buckets, [1, 2])
        yield Case(
            f"StringToHashBucketStrong 1M strings of {name} bytes",
            "StringToHashBucketStrong",
            {"input": words, "num_buckets": np.array(buckets), "key_0": np.array(1), "key_1": np.array(2)},
            sum(map(len, words)) + count * 8,
            strong,
        )


def _small(random: Any, torch: Any, tf: Any) -> Iterator[Case]:
    table = random.standard_normal((100, 16)).astype(np.float32)
    indices, ids = random.integers(0, 100, 10), np.sort(random.integers(0, 5, 10))
    case = _embedding_case("EmbeddingSegmentsSum of 10 rows (latency)", table, indices, ids, None, 5, torch, tf)
    case.bytes_moved = 0
    yield case
