"""Illegal inputs: every backend that can report errors names the operator, the input, the position and the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from contract.arguments import Arguments
from contract.backends import BACKENDS, REPORTING, Call, reporting
from contract.illegal import HUGE, Change, a_binding, as_arrays, changes, illegal_arguments, illegal_attributes
from hypothesis import HealthCheck, given, settings
from onnx import TensorProto

from onnx_sparse import KernelError
from onnx_sparse.schemas import OPS, Op

each_backend = pytest.mark.parametrize("backend", REPORTING)


def assert_refused(
    op: Op, backend: str, binding: dict[str, int], attributes: dict[str, Any], inputs: Arguments, message: str
) -> None:
    with pytest.raises(KernelError, match=re.escape(message)) as raised:
        BACKENDS[backend](Call.of(op, binding, attributes, inputs), inputs)
    assert str(raised.value).startswith(f"{op.name}: "), backend


def each_change() -> Iterator[Any]:
    """All on the reference and the native kernels; one for each operator where the reference's checks are called.

    The backends get the same inputs, which take longer to draw than to refuse.
    """
    for op in OPS.values():
        for number, change in enumerate(changes(op)):
            backends = [name for name in reporting(op) if number == 0 or name in ("reference", "ORT native")]
            yield pytest.param(op, change, backends, id=f"{op.name}: {change.name}")


@pytest.mark.parametrize(("op", "change", "backends"), list(each_change()))
def test_what_the_declaration_makes_illegal_is_refused(op: Op, change: Change, backends: list[str]) -> None:
    binding = a_binding(op)

    # What can be made illegal is rare among some legal inputs.
    rare = (*settings().suppress_health_check, HealthCheck.filter_too_much)

    @settings(max_examples=min(settings().max_examples, 3), suppress_health_check=rare)
    @given(illegal_arguments(op, binding, change))
    def check(illegal: tuple[Arguments, str]) -> None:
        inputs, message = illegal
        for backend in backends:
            assert_refused(op, backend, binding, dict(change.attributes), inputs, message)

    check()


@pytest.mark.parametrize(
    ("op", "backend"),
    [pytest.param(op, backend, id=f"{op.name}-{backend}") for op in OPS.values() for backend in reporting(op)],
)
def test_illegal_attributes_are_refused(op: Op, backend: str) -> None:
    example = op.examples[0]
    binding = dict(example.types)
    inputs = as_arrays(op, binding, example.inputs)
    for attributes, message in illegal_attributes(op):
        if "required" in message and backend != "reference":
            continue  # onnx and ONNX Runtime refuse such a node by themselves
        assert_refused(op, backend, binding, attributes, inputs, message)


@dataclass
class Illegal:
    """Inputs that only the semantics make illegal: legal ones with one change, and the resulting message."""

    op: str
    wrong: dict[str, Any]
    message: str
    attributes: dict[str, str] = field(default_factory=dict)


LEGAL: dict[str, dict[str, Any]] = {
    "SparseFillEmptyRows": {
        "values": [1, 2, 3, 4],
        "dense_shape": [5, 6],
        "indices": [[0, 1], [0, 3], [2, 0], [3, 1]],
        "default_value": 0,
    },
    "SparseReshape": {"input_indices": [[0, 1]], "input_shape": [2, 3], "new_shape": [3, 2]},
    "EmbeddingBagOffsets": {
        "emb_table": [[1, 2], [3, 4], [5, 6]],
        "indices": [0, 2, 1],
        "offsets": [0, 2, 2],
        "default_index": -1,
        "padding_index": -1,
    },
    "EmbeddingSegments": {
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
    "StringToHashBucketStrong": {"input": ["a", ""], "num_buckets": 10, "key_0": 1, "key_1": -2},
    "ReplaceCharacters": {"input": ["a", ""], "ranges": [[97, 98]], "rewrite": ["c"]},
    "StringNGrams": {
        "data": ["a", "b"],
        "data_splits": [0, 2],
        "ngram_widths": [2],
        "separator": " ",
        "left_pad": "<",
        "right_pad": ">",
        "pad_width": -1,
        "preserve_short_sequences": False,
    },
    "Substr": {"input": ["日本", ""], "pos": [0, 0], "len": [1, 1]},
}


def of_family(prefix: str) -> list[str]:
    return [name for name in OPS if name.startswith(prefix)]


ILLEGAL = [
    Illegal("SparseFillEmptyRows", {"dense_shape": [0, 6]}, "indices[0,0] = 0 is out of range [0, 0)"),
    Illegal(
        "SparseFillEmptyRows",
        {"indices": [[0, 1], [0, 3], [5, 0], [3, 1]]},
        "indices[2,0] = 5 is out of range [0, 5)",
        {"order": "row_stable"},
    ),
    Illegal(
        "SparseFillEmptyRows",
        {"dense_shape": [], "indices": np.zeros((4, 0))},
        "dense_shape has 0 elements; at least 1 expected",
    ),
    Illegal("SparseReshape", {"new_shape": [-1, -1]}, "new_shape[0] and new_shape[1] are both -1; only one may be"),
    Illegal(
        "SparseReshape",
        {"new_shape": [-1, 4]},
        "new_shape = [-1, 4] does not divide the 6 elements of input_shape = [2, 3]",
    ),
    Illegal("SparseReshape", {"new_shape": [-1, 0]}, "new_shape = [-1, 0] has a -1 next to a zero"),
    Illegal(
        "SparseReshape",
        {"input_shape": [0, 6], "new_shape": [6, 0]},
        "input_indices has 1 entries but input_shape [0, 6] is empty",
    ),
    Illegal("SparseReshape", {"input_shape": [HUGE, HUGE]}, "has more than 2^63 - 1 elements"),
    Illegal("SparseReshape", {"input_shape": [HUGE, 2]}, "has more than 2^63 - 1 elements"),
    *(
        Illegal(op, wrong, message)
        for op in of_family("Embedding")
        for wrong, message in (
            ({"indices": [0, -1, 3]}, "indices[1] = -1 is out of range [0, 3)"),
            ({"indices": [0, 3, 1], "default_index": 3}, "default_index = 3 is out of range [-1, 3)"),
        )
    ),
    *(
        Illegal(op, wrong, message)
        for op in of_family("EmbeddingBagOffsets")
        for wrong, message in (
            ({"offsets": [1, 2, 2]}, "offsets[0] = 1 must be 0"),
            ({"offsets": [0, 2, 4]}, "offsets[2] = 4 is out of range [0, 4)"),
            ({"offsets": [0, 2, 1]}, "offsets[2] = 1 is less than offsets[1] = 2; offsets must be sorted"),
            ({"offsets": [0, HUGE, HUGE]}, f"offsets[1] = {HUGE} is out of range [0, 4)"),
            ({"indices": [0, -1, 1], "padding_index": 1}, "indices[1] = -1 is out of range [0, 3)"),
            ({"indices": [1, 0, 3], "padding_index": 1}, "indices[2] = 3 is out of range [0, 3)"),
            ({"padding_index": 3}, "padding_index = 3 is out of range [-1, 3)"),
            ({"padding_index": -2}, "padding_index = -2 is out of range [-1, 3)"),
            ({"emb_table": np.zeros((3, 0)), "indices": [0, 3, 0]}, "indices[1] = 3 is out of range [0, 3)"),
            ({"emb_table": np.zeros((0, 2)), "indices": [0]}, "offsets[1] = 2 is out of range [0, 2)"),
            ({"emb_table": np.zeros((0, 2))}, "indices[0] = 0 is out of range [0, 0)"),
        )
    ),
    *(
        Illegal(op, wrong, message, {"include_last_offset": "true"})
        for op in of_family("EmbeddingBagOffsets")
        for wrong, message in (
            ({"offsets": []}, "offsets has 0 elements; at least 1 expected"),
            ({"offsets": [1]}, "offsets[0] = 1 must be 0"),
            ({"offsets": [0, 2, 4]}, "offsets[2] = 4 is out of range [0, 4)"),
            ({"indices": [0, 3, -1], "offsets": [0, 2]}, "indices[1] = 3 is out of range [0, 3)"),
        )
    ),
    *(
        Illegal(op, wrong, message)
        for op in of_family("EmbeddingSegments")
        for wrong, message in (
            ({"per_sample_weights": np.zeros((0, 2))}, "input per_sample_weights has rank 2; expected rank 1 [K]"),
        )
    ),
    *(
        Illegal(op, wrong, message, {"segment_ids_order": "any"})
        for op in of_family("EmbeddingSegments")
        for wrong, message in (
            ({"segment_ids": [0, 1, 3]}, "segment_ids[2] = 3 is out of range [0, 3)"),
            ({"segment_ids": [0, 3, 1]}, "segment_ids[1] = 3 is out of range [0, 3)"),
            ({"segment_ids": [2, 0, -1]}, "segment_ids[2] = -1 is out of range [0, 3)"),
            ({"segment_ids": [0, 0, 0], "num_segments": 0}, "segment_ids[0] = 0 is out of range [0, 0)"),
            ({"segment_ids": [2, 1, 0], "indices": [0, -1, 3]}, "indices[1] = -1 is out of range [0, 3)"),
            ({"segment_ids": [2, 1, 0], "default_index": 3}, "default_index = 3 is out of range [-1, 3)"),
            ({"emb_table": np.zeros((3, 0)), "segment_ids": [2, 1, 0], "indices": [0, 3, 0]}, "indices[1] = 3 is"),
        )
    ),
    *(
        Illegal(op, wrong, message, {"negative_indices": "drop", "segment_ids_order": order})
        for op in of_family("EmbeddingSegments")
        for order, wrong, message in (
            ("sorted", {"indices": [-1, 0, 3]}, "indices[2] = 3 is out of range [0, 3)"),
            ("any", {"indices": [-1, 0, 3], "segment_ids": [9, 2, 1]}, "indices[2] = 3 is out of range [0, 3)"),
            ("sorted", {"indices": [-1, 0, 1], "segment_ids": [7, -5, 0]}, "segment_ids[1] = -5 must be >= 0"),
            ("any", {"indices": [-1, 0, 1], "segment_ids": [7, -5, 0]}, "segment_ids[1] = -5 is out of range [0, 3)"),
            (
                "sorted",
                {"indices": [0, -1, 1], "segment_ids": [1, 9, 0]},
                "segment_ids[2] = 0 is less than segment_ids[0] = 1; ids must be sorted",
            ),
            ("any", {"indices": [-1, 0, -2], "segment_ids": [7, 3, -1]}, "segment_ids[1] = 3 is out of range [0, 3)"),
        )
    ),
    *(
        Illegal(op, wrong, message, {"fill_mode": "ZERO"} if OPS[op].attributes else {})
        for op in of_family("Segment")
        for wrong, message in (
            ({"segment_ids": [-3, 2, 3]}, "segment_ids[0] = -3 must be >= 0"),
            (
                {"num_segments": -1, "segment_ids": [0, 1, HUGE]},
                "segment_ids[2] = 4611686018427387904: an output of shape",
            ),
            (
                {"num_segments": -1, "segment_ids": [0, 1, 2**63 - 1]},
                "segment_ids[2] = 9223372036854775807: an output of more than 2^63 - 1 segments cannot be allocated",
            ),
        )
    ),
    *(
        Illegal(op, wrong, message)
        for op in of_family("UnsortedSegment")
        for wrong, message in (
            ({"segment_ids": [2, 3, 0], "data": np.zeros((3, 0))}, "segment_ids[1] = 3 is out of range"),
            ({"segment_ids": [2, 1]}, "data has dimensions [3] where segment_ids has [2]"),
            ({"segment_ids": np.zeros((3, 2, 1))}, "input data has rank 2, less than the rank 3 of segment_ids"),
        )
    ),
    Illegal("MaskedFill", {"mask": [0, 1, 1]}, "mask of shape [3] does not broadcast to [2, 2], the shape of x"),
    Illegal("MaskedFill", {"mask": [[[0, 1]]]}, "mask of shape [1, 1, 2] does not broadcast to [2, 2], the shape of x"),
    Illegal(
        "Fill", {"dims": [2**40, 2**40, 0]}, "an output of shape [1099511627776, 1099511627776, 0] cannot be allocated"
    ),
    *(
        Illegal(name, {"num_buckets": -HUGE, "input": []}, "num_buckets = -4611686018427387904 must")
        for name in of_family("StringToHashBucket")
    ),
    Illegal(
        "ReplaceCharacters",
        {"ranges": [[97, 98, 99]]},
        "dimension 1 of ranges is 3; expected 2",
        {"matches": "run"},
    ),
    Illegal("StringNGrams", {"ngram_widths": [HUGE]}, "cannot be allocated"),
    Illegal("StringNGrams", {"ngram_widths": [HUGE, HUGE, HUGE]}, "cannot be allocated"),
    Illegal(
        "StringNGrams",
        {"ngram_widths": [2 * HUGE - 1], "pad_width": HUGE, "preserve_short_sequences": True},
        "cannot be allocated",
    ),
    Illegal("Substr", {"pos": [3, 0]}, "pos[0] = 3 is out of range [-2, 3)", {"unit": "UTF8_CHAR"}),
    Illegal("Substr", {"pos": [-2, -1]}, "pos[1] = -1 is out of range [0, 1)", {"unit": "UTF8_CHAR"}),
]


@each_backend
@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: f"{case.op}: {case.message}")
def test_what_the_semantics_make_illegal_is_refused(case: Illegal, backend: str) -> None:
    op = OPS[case.op]
    legal = next(LEGAL[name] for name in sorted(LEGAL, key=len, reverse=True) if case.op.startswith(name))
    binding = a_binding(op, T=TensorProto.FLOAT)
    assert_refused(op, backend, binding, case.attributes, as_arrays(op, binding, legal | case.wrong), case.message)


@each_backend
def test_positions_beyond_int32_are_refused(backend: str) -> None:
    """Before any row is written: the output would take 16 GB."""
    op = OPS["SparseFillEmptyRows"]
    rows = 2**31 - 1
    inputs = {
        "values": np.zeros(2, np.int8),
        "dense_shape": np.array([rows], np.int32),
        "indices": np.array([[7], [7]], np.int32),
        "default_value": np.array(0, np.int8),
    }
    message = f"dense_shape[0] = {rows}: the positions of more than {rows} output entries do not fit into int32"
    binding = {"T": TensorProto.INT8, "I": TensorProto.INT32}
    assert_refused(op, backend, binding, {"order": "row_stable"}, inputs, message)
