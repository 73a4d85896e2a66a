"""The examples of the specifications (and those on our documentation pages), by name, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from contract.backends import BACKENDS, Call, gap_marks
from contract.expected import Expected, assert_equals, elements
from onnx import TensorProto

from onnx_sparse.schemas import OPS, Example, Op
from onnx_sparse.schemas.declaration import numpy_dtype

EXAMPLES = [
    pytest.param(
        op,
        example,
        backend,
        id=f"{op.name}: {example.name} {dict(example.attributes) or ''} - {backend}",
        marks=gap_marks(backend, op, example.types),
    )
    for op in OPS.values()
    for example in op.examples
    for backend in BACKENDS
]


@pytest.mark.parametrize(("op", "example", "backend"), EXAMPLES)
def test_example(op: Op, example: Example, backend: str) -> None:
    inputs = {
        i.name: np.array(example.inputs[i.name], numpy_dtype(op.bind(i.type, example.types)))
        for i in op.inputs
        if i.name in example.inputs
    }
    outputs = BACKENDS[backend](Call.of(op, example.types, example.attributes, inputs), inputs)
    for declared, actual in zip(op.outputs, outputs, strict=True):
        dtype = numpy_dtype(op.bind(declared.type, example.types))
        wanted = np.array(example.outputs[declared.name], dtype)
        tolerance = (
            [1e-6 * abs(v) if dtype.kind == "f" and np.isfinite(v) else 0.0 for v in wanted.reshape(-1)]
            if (dtype.kind == "f")
            else None
        )
        assert_equals(actual, Expected(dtype, wanted.shape, elements(wanted), tolerance), declared.name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op_name", ["EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN"])
def test_entries_of_dropped_segments_are_not_checked(op_name: str, backend: str) -> None:
    """An index out of range is not an error if its segment is at or beyond num_segments."""
    inputs = {
        "emb_table": np.array([[1, 2], [3, 4]], np.float32),
        "indices": np.array([1, -7, 2**40]),
        "segment_ids": np.array([0, 1, 2**50]),
        "num_segments": np.array(1),
    }
    call = Call.of(OPS[op_name], {"T": TensorProto.FLOAT, "I": TensorProto.INT64}, {}, inputs)
    (output,) = BACKENDS[backend](call, inputs)
    assert output.tolist() == [[3, 4]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_int32_coordinates_sort_beyond_2_to_the_31(backend: str) -> None:
    """The position in the dense tensor needs more bits than a coordinate has."""
    inputs = {
        "values": np.array([0.5, 1.5, 2.5], np.float32),
        "dense_shape": np.array([4, 2**31 - 1], np.int32),
        "indices": np.array([[2, 1752032165], [3, 1440696407], [2, 595598245]], np.int32),
        "default_value": np.array(-1, np.float32),
    }
    op = OPS["SparseFillEmptyRows"]
    call = Call.of(op, {"T": TensorProto.FLOAT, "I": TensorProto.INT32}, {"order": "row_major"}, inputs)
    indices, values, empty, reverse = BACKENDS[backend](call, inputs)
    assert indices.tolist() == [[0, 0], [1, 0], [2, 595598245], [2, 1752032165], [3, 1440696407]]
    assert values.tolist() == [-1, -1, 2.5, 0.5, 1.5]
    assert empty.tolist() == [True, True, False, False]
    assert reverse.tolist() == [3, 4, 2]


@pytest.mark.parametrize(
    "name",
    [
        "SparseFillEmptyRows-16 example 1",
        "SparseFillEmptyRows-16 XML example",
        "EmbeddingSegmentsSum-3 XML example",
        "SegmentMax-16 example 1",
        "SegmentMax-16 example 2",
        "SegmentMax-16 example 3",
        "ATB FillOperation example 1",
        "ATB FillOperation example 2",
        "ATB FillOperation example 3",
    ],
)
def test_the_specifications_examples_are_among_them(name: str) -> None:
    assert any(example.name.startswith(name) for op in OPS.values() for example in op.examples)
