"""A small part of the torture in `models.py`, and what it found."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from contract.models import SEGMENT_SUM, model
from onnx import ModelProto
from torture.models import REWRITES, faults

import onnx_sparse

pytestmark = pytest.mark.slow

REWRITE = pytest.mark.parametrize("rewrite", list(REWRITES.values()), ids=list(REWRITES))
Rewrite = Callable[[ModelProto], ModelProto]


def test_mutated_models_are_rewritten_or_refused() -> None:
    done, found = faults(seed=1_000_000, count=400)
    assert not found
    assert {what.partition(": ")[2] for what in done} == {"model", "KernelError", "ValueError"}


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(text)


@REWRITE
@pytest.mark.parametrize(
    ("m", "message"),
    [
        (
            parsed(
                """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1, "mine" : 1]>
                g (float[k] x, int64[k] ids) => (float[s] y) { y = mine.Pool (x, ids) }
                <domain: "mine", opset_import: ["" : 18, "mine" : 1, "onnx_sparse" : 1]>
                Pool (data, ids) => (pooled) { a = onnx_sparse.SegmentSum (data, ids) pooled = mine.Pool (a, ids) }"""
            ),
            "Cycle detected in model-local function references: mine::Pool -> mine::Pool",
        ),
        (
            parsed(
                """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1, "mine" : 1]>
                g (float[k] x, int64[k] ids) => (float[s] y) { y = mine.Pool (x, ids) }
                <domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1]>
                Pool (data, ids) => (pooled) { a = onnx_sparse.SegmentSum (data, ids) }"""
            ),
            "the model's functions cannot be inlined: mine::Pool does not compute 'pooled'",
        ),
        (
            parsed(
                """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1, "mine" : 1]>
                g (float[k] x, int64[k] ids) => (float[s] y) { y = mine.Pool (x) }
                <domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1]>
                Pool (data) => (pooled) { pooled = onnx_sparse.SegmentSum (data, ids) }"""
            ),
            "the model's functions cannot be inlined: mine::Pool does not compute 'ids'",
        ),
        (
            model("g (seq(float) x, int64[k] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }"),
            r'SegmentSum: input data must be a tensor \(node "y"\)',
        ),
        (
            model(
                "g (float[k] x, int64[k,2] i) => (y) "
                "{ z = onnx_sparse.SegmentSum (x, i) y = onnx_sparse.SegmentSum (x, i) }"
            ),
            r'SegmentSum: input segment_ids has rank 2; expected rank 1 .* \(one of the nodes "z", "y"\)',
        ),
    ],
    ids=["recursion", "output", "captured", "sequence", "rank"],
)
def test_what_onnx_refuses_is_a_value_error_of_one_line(rewrite: Rewrite, m: ModelProto, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        rewrite(m)
    assert type(raised.value) in (ValueError, onnx_sparse.KernelError)
    assert "\n" not in str(raised.value)


@REWRITE
@pytest.mark.parametrize("element", [-1, 0, 99])
def test_an_initializer_of_an_element_type_that_does_not_exist(rewrite: Rewrite, element: int) -> None:
    m = onnx_sparse.canonicalize(SEGMENT_SUM)
    m.graph.initializer.add(name="odd", data_type=element, raw_data=b"0")
    with pytest.raises(ValueError, match=f"tensor 'odd' has element type {element}, which ONNX lacks"):
        rewrite(m)


@REWRITE
@pytest.mark.parametrize("version", [-1, 0, -(2**40)])
def test_functions_are_not_inlined_into_an_opset_that_does_not_exist(rewrite: Rewrite, version: int) -> None:
    m = parsed(
        """<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>
        g (float[k] x, int64[k] ids) => (float[s] y) { y = mine.Pool (x, ids) }
        <domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1]>
        Pool (data, ids) => (pooled) { a = Abs (data) pooled = onnx_sparse.SegmentSum (a, ids) }"""
    )
    m.opset_import[0].version = version
    with pytest.raises(ValueError, match=f"the model imports version {version} of 'ai.onnx'; versions begin at 1"):
        rewrite(m)


@REWRITE
def test_a_node_without_outputs(rewrite: Rewrite) -> None:
    """An operator of another domain may have none."""
    m = onnx_sparse.canonicalize(SEGMENT_SUM)
    m.opset_import.add(domain="mine", version=1)
    m.graph.node.add(op_type="Print", input=[m.graph.input[0].name], domain="mine")
    assert [node.op_type for node in rewrite(m).graph.node if not node.output] == ["Print"]
