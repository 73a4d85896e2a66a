"""Unweighted float sums equal TensorFlow's SparseSegment kernels on CPU to the bit, except in function bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract.backends import BACKENDS, REPORTING, Call
from onnx import TensorProto

from onnx_sparse.schemas import OPS

Array = np.ndarray[Any, Any]

MODES = {"EmbeddingSegmentsSum": "Sum", "EmbeddingSegmentsMean": "Mean", "EmbeddingSegmentsSqrtN": "SqrtN"}
DTYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}

#: Every remainder modulo eight, below and above ten rows, and a few long segments.
LENGTHS = [*range(40), 100, 257, 1000]


def cancelling_inputs(dtype: type[np.floating[Any]], width: int) -> dict[str, Array]:
    """Values whose sum depends on the order of the additions."""
    random = np.random.default_rng(width)
    table = (random.standard_normal((50, width)) * 10.0 ** random.integers(-3, 4, (50, 1))).astype(dtype)
    segment_ids = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    return {
        "emb_table": table,
        "indices": random.integers(0, 50, len(segment_ids)),
        "segment_ids": segment_ids,
        "num_segments": np.array(len(LENGTHS)),
    }


def in_tensorflows_order(rows: list[Any], mode: str, dtype: type[np.floating[Any]]) -> Any:
    """Reduce one column of one segment, scalar by scalar."""
    count = len(rows)
    if count == 0:
        return dtype(0)
    head = min({0: 8, 1: 9}.get(count % 8, count % 8), count)
    total = rows[0]
    for value in rows[1:head]:
        total = dtype(total + value)
    divisor = {"Sum": dtype(1), "Mean": dtype(count), "SqrtN": dtype(np.sqrt(np.float64(count)))}[mode]
    if count < 10:
        total = dtype(total * dtype(dtype(1) / divisor))
    for start in range(head, count, 8):
        block = rows[start]
        for value in rows[start + 1 : start + 8]:
            block = dtype(block + value)
        total = dtype(total + block)
    return dtype(total / divisor) if count >= 10 else total


@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("op_name", MODES)
def test_the_order_of_additions(op_name: str, dtype: type[np.floating[Any]], backend: str) -> None:
    inputs = cancelling_inputs(dtype, width=3)
    call = Call.of(OPS[op_name], {"T": DTYPES[dtype], "I": TensorProto.INT64}, {}, inputs)
    (output,) = BACKENDS[backend](call, inputs)
    expected = [
        [
            in_tensorflows_order(
                list(inputs["emb_table"][inputs["indices"][inputs["segment_ids"] == s], d]), mode, dtype
            )
            for d in range(3)
        ]
        for mode in [MODES[op_name]]
        for s in range(len(LENGTHS))
    ]
    assert output.tobytes() == np.array(expected, dtype).tobytes()


@pytest.mark.pairwise
@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("op_name", MODES)
def test_entries_in_any_order_are_added_as_if_sorted_stably(op_name: str, weighted: bool, backend: str) -> None:
    inputs = cancelling_inputs(np.float32, width=3)
    random = np.random.default_rng(4)
    if weighted:
        inputs["per_sample_weights"] = random.uniform(0.5, 2, len(inputs["indices"])).astype(np.float32)
    shuffled = inputs | {"segment_ids": random.permutation(inputs["segment_ids"])}
    order = np.argsort(shuffled["segment_ids"], kind="stable")
    in_order = {name: array[order] if array.shape == order.shape else array for name, array in shuffled.items()}
    types = {"T": TensorProto.FLOAT, "I": TensorProto.INT64}
    outputs = [
        BACKENDS[backend](Call.of(OPS[op_name], types, {"segment_ids_order": mode}, given), given)[0]
        for mode, given in (("any", shuffled), ("any", in_order), ("sorted", in_order))
    ]
    assert outputs[0].tobytes() == outputs[1].tobytes() == outputs[2].tobytes()


@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("op_name", MODES)
def test_bags_are_added_as_segments_are(op_name: str, weighted: bool, padded: bool, backend: str) -> None:
    """Without the entries of the padding index, which are as if they were not there."""
    inputs = cancelling_inputs(np.float32, width=3)
    kept = inputs["indices"] != 7 if padded else np.ones(len(inputs["indices"]), bool)
    if weighted:
        weights = np.random.default_rng(4).uniform(0.5, 2, len(kept)).astype(np.float32)
        inputs["per_sample_weights"] = weights
    bags = {name: inputs[name] for name in inputs if name not in ("segment_ids", "num_segments")}
    bags["offsets"] = np.searchsorted(inputs["segment_ids"], np.arange(len(LENGTHS)))
    if padded:
        bags["padding_index"] = np.array(7)
    segments = {name: array[kept] if array.shape == kept.shape else array for name, array in inputs.items()}
    types = {"T": TensorProto.FLOAT, "I": TensorProto.INT64}
    bags_op = OPS[op_name.replace("Segments", "BagOffsets")]
    outputs = [
        BACKENDS[backend](Call.of(op, types, {}, given), given)[0]
        for op, given in ((bags_op, bags), (OPS[op_name], segments))
    ]
    assert outputs[0].tobytes() == outputs[1].tobytes()


@pytest.mark.pairwise
@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("width", [1, 3, 8, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("op_name", MODES)
def test_the_bits_are_tensorflows(op_name: str, dtype: type[np.floating[Any]], width: int, backend: str) -> None:
    tf = pytest.importorskip("tensorflow")
    inputs = cancelling_inputs(dtype, width)
    call = Call.of(OPS[op_name], {"T": DTYPES[dtype], "I": TensorProto.INT64}, {}, inputs)
    (output,) = BACKENDS[backend](call, inputs)
    sparse_segment = getattr(tf.raw_ops, f"SparseSegment{MODES[op_name]}WithNumSegments")
    expected = sparse_segment(
        data=inputs["emb_table"],
        indices=inputs["indices"],
        segment_ids=inputs["segment_ids"],
        num_segments=inputs["num_segments"],
    )
    assert output.tobytes() == expected.numpy().tobytes()
