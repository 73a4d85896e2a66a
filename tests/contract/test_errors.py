"""Illegal inputs: every backend that can report errors names the operator, the input, the position and the value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from contract.backends import BACKENDS, REPORTING, Call
from onnx import TensorProto

from onnx_sparse import KernelError
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import numpy_dtype

F, I32, I64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
HUGE = 2**62


@dataclass
class Illegal:
    """Legal inputs of an operator with one change that makes them illegal, and the resulting message."""

    op: str
    wrong: dict[str, Any]
    message: str
    attributes: dict[str, str] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)


LEGAL: dict[str, dict[str, Any]] = {
    "SparseFillEmptyRows": {
        "values": [1, 2, 3, 4],
        "dense_shape": [5, 6],
        "indices": [[0, 1], [0, 3], [2, 0], [3, 1]],
        "default_value": 0,
    },
    "RaggedFillEmptyRows": {"value_rowids": [0, 2], "values": [1, 2], "nrows": 4, "default_value": 0},
    "SparseReshape": {"input_indices": [[0, 1]], "input_shape": [2, 3], "new_shape": [3, 2]},
    "Embedding": {
        "emb_table": [[1, 2], [3, 4], [5, 6]],
        "indices": [0, 2, 1],
        "segment_ids": [0, 0, 2],
        "num_segments": 3,
        "default_index": -1,
        "per_sample_weights": [1, 1, 1],
    },
    "Segment": {"data": [[1, 2], [3, 4], [5, 6]], "segment_ids": [0, 0, 2], "num_segments": 3},
    "UnsortedSegment": {"data": [[1, 2], [3, 4], [5, 6]], "segment_ids": [2, -1, 0], "num_segments": 3},
    "MaskedFill": {"x": [[1, 2], [3, 4]], "mask": [0, 1], "value": 9},
    "Fill": {"dims": [2, 3], "value": 1},
    "StringToHashBucketFast": {"input": ["a", ""], "num_buckets": 10},
}

ILLEGAL = [
    Illegal(
        "SparseFillEmptyRows", {"indices": [[0, 1], [0, 3], [2, 0], [7, 1]]}, "indices[3,0] = 7 is out of range [0, 5)"
    ),
    Illegal(
        "SparseFillEmptyRows",
        {"indices": [[0, 1], [-1, 3], [2, 0], [3, 1]]},
        "indices[1,0] = -1 is out of range [0, 5)",
    ),
    Illegal(
        "SparseFillEmptyRows", {"indices": [[0, 1], [0, 3], [2, 6], [3, 1]]}, "indices[2,1] = 6 is out of range [0, 6)"
    ),
    Illegal(
        "SparseFillEmptyRows",
        {"dense_shape": [5, 6, 4], "indices": [[0, 1, 0], [0, 3, 3], [2, 0, 4], [3, 1, 0]]},
        "indices[2,2] = 4 is out of range [0, 4)",
    ),
    Illegal("SparseFillEmptyRows", {"dense_shape": [0, 6]}, "indices[0,0] = 0 is out of range [0, 0)"),
    Illegal("SparseFillEmptyRows", {"dense_shape": [5, -6]}, "dense_shape[1] = -6 must be >= 0"),
    Illegal(
        "SparseFillEmptyRows",
        {"dense_shape": [], "indices": np.zeros((4, 0))},
        "dense_shape has 0 elements; at least 1 expected",
    ),
    Illegal(
        "SparseFillEmptyRows",
        {"dense_shape": [5, 6, 7]},
        "dimension 1 of indices is 2 but dense_shape has 3 for the same dimension R",
    ),
    Illegal(
        "SparseFillEmptyRows",
        {"values": [1, 2]},
        "dimension 0 of indices is 4 but values has 2 for the same dimension N",
    ),
    Illegal("SparseFillEmptyRows", {"values": [[1, 2, 3, 4]]}, "input values has rank 2; expected rank 1 [N]"),
    Illegal("SparseFillEmptyRows", {"default_value": [1]}, "input default_value has rank 1; expected a scalar []"),
    Illegal(
        "SparseFillEmptyRows", {"dense_shape": [HUGE, 6]}, "dense_shape[0] = 4611686018427387904: an output of shape"
    ),
    Illegal("RaggedFillEmptyRows", {"value_rowids": [0, 4]}, "value_rowids[1] = 4 is out of range [0, 4)"),
    Illegal("RaggedFillEmptyRows", {"nrows": -1}, "nrows = -1 must be >= 0"),
    Illegal("RaggedFillEmptyRows", {"nrows": HUGE}, "nrows = 4611686018427387904: an output of shape"),
    Illegal("SparseReshape", {"new_shape": [-1, -1]}, "new_shape[0] and new_shape[1] are both -1; only one may be"),
    Illegal("SparseReshape", {"new_shape": [-2, 3]}, "new_shape[0] = -2 must be >= -1"),
    Illegal(
        "SparseReshape", {"new_shape": [5, 2]}, "new_shape = [5, 2] has 10 elements but input_shape = [2, 3] has 6"
    ),
    Illegal(
        "SparseReshape",
        {"new_shape": [-1, 4]},
        "new_shape = [-1, 4] does not divide the 6 elements of input_shape = [2, 3]",
    ),
    Illegal("SparseReshape", {"new_shape": [-1, 0]}, "new_shape = [-1, 0] has a -1 beside a zero"),
    Illegal(
        "SparseReshape",
        {"input_shape": [0, 6], "new_shape": [6, 0]},
        "input_indices has 1 entries but input_shape [0, 6] is empty",
    ),
    Illegal("SparseReshape", {"input_shape": [HUGE, HUGE]}, "has more than 2^63 - 1 elements"),
    Illegal("SparseReshape", {"input_shape": [HUGE, 2]}, "has more than 2^63 - 1 elements"),
    Illegal(
        "SparseReshape",
        {"input_shape": [6]},
        "dimension 0 of input_shape is 1 but input_indices has 2 for the same dimension R",
    ),
    *(
        Illegal(op, wrong, message)
        for op in ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN")
        for wrong, message in (
            ({"indices": [0, 3, 1]}, "indices[1] = 3 is out of range [0, 3)"),
            ({"indices": [0, 2, -1]}, "indices[2] = -1 is out of range [0, 3)"),
            ({"indices": [0, -1, 3]}, "indices[1] = -1 is out of range [0, 3)"),
            ({"indices": [0, 3, 1], "default_index": 3}, "default_index = 3 is out of range [-1, 3)"),
            ({"default_index": 3}, "default_index = 3 is out of range [-1, 3)"),
            ({"default_index": -2}, "default_index = -2 is out of range [-1, 3)"),
            ({"segment_ids": [0, 2, 1]}, "segment_ids[2] = 1 is less than segment_ids[1] = 2; ids must be sorted"),
            ({"segment_ids": [-1, 0, 1]}, "segment_ids[0] = -1 must be >= 0"),
            ({"num_segments": -1}, "num_segments = -1 must be >= 0"),
            ({"num_segments": HUGE}, "num_segments = 4611686018427387904: an output of shape"),
            ({"num_segments": [3]}, "input num_segments has rank 1; expected a scalar []"),
            (
                {"per_sample_weights": [1, 1]},
                "dimension 0 of per_sample_weights is 2 but indices has 3 for the same dimension K",
            ),
            ({"per_sample_weights": np.zeros((0, 2))}, "input per_sample_weights has rank 2; expected rank 1 [K]"),
            ({"segment_ids": [0, 0]}, "dimension 0 of segment_ids is 2 but indices has 3 for the same dimension K"),
            ({"emb_table": 1}, "input emb_table has rank 0; expected rank >= 1"),
        )
    ),
    *(
        Illegal(op, wrong, message, {"fill_mode": "ZERO"} if op in ("SegmentMax", "SegmentMin") else {})
        for op in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
        for wrong, message in (
            ({"segment_ids": [0, 2, 1]}, "segment_ids[2] = 1 is less than segment_ids[1] = 2; ids must be sorted"),
            ({"segment_ids": [2, 1, 0]}, "segment_ids[1] = 1 is less than segment_ids[0] = 2; ids must be sorted"),
            ({"segment_ids": [-3, 2, 3]}, "segment_ids[0] = -3 must be >= 0"),
            ({"num_segments": -2}, "num_segments = -2 must be >= -1"),
            ({"num_segments": HUGE}, "num_segments = 4611686018427387904: an output of shape"),
            (
                {"num_segments": -1, "segment_ids": [0, 1, HUGE]},
                "segment_ids[2] = 4611686018427387904: an output of shape",
            ),
            (
                {"num_segments": -1, "segment_ids": [0, 1, 2**63 - 1]},
                "segment_ids[2] = 9223372036854775807: an output of more than 2^63 - 1 segments cannot be allocated",
            ),
            ({"segment_ids": [0, 1]}, "dimension 0 of segment_ids is 2 but data has 3 for the same dimension K"),
            ({"segment_ids": [[0, 0, 2]]}, "input segment_ids has rank 2; expected rank 1 [K]"),
            ({"data": 1}, "input data has rank 0; expected rank >= 1"),
        )
    ),
    *(
        Illegal(op, wrong, message)
        for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
        for wrong, message in (
            ({"segment_ids": [2, 3, 0]}, "segment_ids[1] = 3 is out of range"),
            ({"segment_ids": [2, 3, 0], "data": np.zeros((3, 0))}, "segment_ids[1] = 3 is out of range"),
            ({"num_segments": -1}, "num_segments = -1 must be >= 0"),
            ({"num_segments": HUGE}, "num_segments = 4611686018427387904: an output of shape"),
            ({"segment_ids": [2, 1]}, "data has dimensions [3] where segment_ids has [2]"),
            ({"segment_ids": np.zeros((3, 2, 1))}, "input data has rank 2, less than the rank 3 of segment_ids"),
        )
    ),
    Illegal(
        "SegmentMax", {}, "attribute fill_mode = 'HIGHEST' is not one of ('ZERO', 'LOWEST')", {"fill_mode": "HIGHEST"}
    ),
    Illegal("SegmentMax", {}, "attribute fill_mode is required", {}),
    Illegal("SparseFillEmptyRows", {}, "attribute order = 'column_major' is not one of", {"order": "column_major"}),
    Illegal("MaskedFill", {"mask": [0, 2]}, "mask[1] = 2 is out of range [0, 2)", types={"M": TensorProto.INT8}),
    Illegal("MaskedFill", {"mask": [0, -1]}, "mask[1] = -1 is out of range [0, 2)", types={"M": TensorProto.INT8}),
    Illegal("MaskedFill", {"mask": [0, 1, 1]}, "mask of shape [3] does not broadcast to [2, 2], the shape of x"),
    Illegal("MaskedFill", {"mask": [[[0, 1]]]}, "mask of shape [1, 1, 2] does not broadcast to [2, 2], the shape of x"),
    Illegal("MaskedFill", {"value": [1]}, "input value has rank 1; expected a scalar []"),
    Illegal("Fill", {"dims": [2, -1]}, "dims[1] = -1 must be >= 0"),
    Illegal("Fill", {"dims": [HUGE, 8]}, "dims = [4611686018427387904, 8]: an output of shape"),
    Illegal(
        "Fill", {"dims": [2**40, 2**40, 0]}, "an output of shape [1099511627776, 1099511627776, 0] cannot be allocated"
    ),
    Illegal("Fill", {"dims": [[2]]}, "input dims has rank 2; expected rank 1 [R]"),
    Illegal("StringToHashBucketFast", {"num_buckets": 0}, "num_buckets = 0 must be >= 1"),
    Illegal("StringToHashBucketFast", {"num_buckets": -HUGE, "input": []}, "num_buckets = -4611686018427387904 must"),
    Illegal("StringToHashBucketFast", {"num_buckets": [10]}, "input num_buckets has rank 1; expected a scalar []"),
]


def legal_inputs(op: Op) -> dict[str, Any]:
    return next(
        LEGAL[name]
        for name in (op.name, "Embedding", "UnsortedSegment", "Segment")
        if (name in LEGAL and op.name.startswith(name))
    )


@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: f"{case.op}: {case.message}")
def test_error_names_operator_input_position_and_value(case: Illegal, backend: str) -> None:
    if "required" in case.message and backend != "reference":
        pytest.skip("onnx and ONNX Runtime refuse a node without a required attribute by themselves")
    op = OPS[case.op]
    defaults = {"T": F, "I": I64, "N": I64, "M": TensorProto.BOOL}
    types = {variable: case.types.get(variable, defaults[variable]) for variable in op.types}
    inputs = {
        name: np.array(value, numpy_dtype(op.bind(next(i.type for i in op.inputs if i.name == name), types)))
        for name, value in (legal_inputs(op) | case.wrong).items()
    }
    with pytest.raises(KernelError, match=re.escape(case.message)) as raised:
        BACKENDS[backend](Call.of(op, types, case.attributes, inputs), inputs)
    assert str(raised.value).startswith(f"{op.name}: ")


@pytest.mark.parametrize("backend", REPORTING)
def test_legal_inputs_are_legal(backend: str) -> None:
    """The illegal cases start from these inputs, so each is refused for its one change."""
    for op in OPS.values():
        types = {v: {"T": F, "I": I64, "N": I64, "M": TensorProto.BOOL}[v] for v in op.types}
        inputs = {i.name: np.array(legal_inputs(op)[i.name], numpy_dtype(op.bind(i.type, types))) for i in op.inputs}
        BACKENDS[backend](Call.of(op, types, {a.name: a.choices[0] for a in op.attributes}, inputs), inputs)
