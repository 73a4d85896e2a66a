"""`canonicalize`: every attribute written, every optional input present, every output named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from contract.models import BRANCHES, DEFAULTED, FUNCTIONS, SEGMENT_SUM, model

import onnx_sparse
from onnx_sparse.models.domain_nodes import domain_nodes
from onnx_sparse.models.files import large_models
from onnx_sparse.models.forms.canonical import canonical_gaps

#: With an omitted input.
SUM = "g (float[k] x, int64[k] i) => (float[s] y) { y = onnx_sparse.SegmentSum (x, i) }"


def nodes_of(m: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [found.node for found in domain_nodes(m)]


@pytest.mark.parametrize(
    "m", [SEGMENT_SUM, BRANCHES, FUNCTIONS, DEFAULTED], ids=["plain", "branches", "functions", "defaulted"]
)
def test_the_result_is_canonical_and_computes_the_same(m: onnx.ModelProto) -> None:
    before = m.SerializeToString()
    canonical = onnx_sparse.canonicalize(m)
    assert m.SerializeToString() == before, "the model itself must not change"
    assert nodes_of(canonical)
    assert not any(map(canonical_gaps, nodes_of(canonical)))
    onnx.checker.check_model(canonical, full_check=True)

    feeds = {
        "c": np.array(True),
        "data": np.array([[1, 2], [3, 4], [5, 6]], np.float32),
        "x": np.array([1, 2, 3], np.float32),
        "z": np.array([1, 2, 3], np.int32),
        "ids": np.array([0, 0, 2]),
        "v": np.array([1, -2], np.float32),
        "s": np.array([2, 2]),
        "i": np.array([[1, 1], [1, 0]]),
        "d": np.array(7, np.float32),
    }
    feeds = {i.name: feeds[i.name] for i in m.graph.input}
    for expected, actual in zip(
        onnx_sparse.InferenceSession(m).run(None, feeds),
        onnx_sparse.InferenceSession(canonical).run(None, feeds),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)


def test_sentinels_have_the_type_of_their_siblings() -> None:
    m = model(
        "g (float16[v,2] t, int32[k] i, int32[k] s, int32 n) => (y) "
        "{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
    )
    canonical = onnx_sparse.canonicalize(m)
    constants = {n.output[0]: n.attribute[0].t for n in canonical.graph.node if n.op_type == "Constant"}
    default_index, weights = (constants[name] for name in nodes_of(canonical)[0].input[4:])
    assert (default_index.data_type, list(default_index.dims)) == (onnx.TensorProto.INT32, [])
    assert (weights.data_type, list(weights.dims)) == (onnx.TensorProto.FLOAT16, [0])


def test_defaults_are_written_and_omitted_outputs_named() -> None:
    m = model(
        "g (float[n] v, int64[2] s, int64[n,2] i, float d) => (oi) "
        "{ oi = onnx_sparse.SparseFillEmptyRows (v, s, i, d) }"
    )
    (node,) = nodes_of(onnx_sparse.canonicalize(m))
    assert node.attribute[0].s == b"row_major"
    assert len(node.output) == 4
    assert all(node.output)


def test_names_do_not_clash_with_those_of_subgraphs() -> None:
    loop = model(
        """
g (int64 n, float[k,2] data, int64[k] ids) => (float[a,b,2] ys) {
  go = Constant <value = bool {1}> ()
  ys = Loop (n, go) <body = b (int64 no_num_segments_int64, bool c) => (bool d, float[s,2] y) {
    d = Identity (c)
    y = onnx_sparse.SegmentSum (data, ids)
  }>
}"""
    )
    feeds = {"n": np.array(2), "data": np.array([[1, 2], [3, 4]], np.float32), "ids": np.array([0, 1])}
    (ys,) = onnx_sparse.InferenceSession(onnx_sparse.canonicalize(loop)).run(None, feeds)
    assert ys.tolist() == [[[1, 2], [3, 4]]] * 2


@pytest.mark.parametrize("rewrite", [onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.lower])
def test_a_model_too_large_for_protocol_buffers(
    rewrite: Callable[[onnx.ModelProto], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnx's tools never see its tensors. The test lowers the limit."""
    m = model(
        "g (int64[k] i, int64[k] s, int64 n) => (float[n,4] y) { y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
    )
    m.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(400, dtype=np.float32).reshape(100, 4), "t"))
    seen = []
    infer_shapes = onnx.shape_inference.infer_shapes
    monkeypatch.setattr(
        onnx.shape_inference,
        "infer_shapes",
        lambda m, **options: seen.append(m.ByteSize()) or infer_shapes(m, **options),
    )
    monkeypatch.setattr(large_models, "LEAST", 1000)
    result = rewrite(m)
    assert max(seen) < 1600
    assert [t.SerializeToString() for t in result.graph.initializer if t.name == "t"] == [
        m.graph.initializer[0].SerializeToString()
    ]
    monkeypatch.undo()
    (y,) = onnx_sparse.InferenceSession(result).run(
        None, {"i": np.array([0, 99]), "s": np.array([0, 0]), "n": np.array(1)}
    )
    assert y.tolist() == [[396, 398, 400, 402]]


def test_a_model_without_ai_onnx_imports_what_sentinels_are_written_in() -> None:
    m = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["onnx_sparse" : 1]>
        g (float[k,2] data, int64[k] ids) => (float[s,2] y) { y = onnx_sparse.SegmentSum (data, ids) }"""
    )
    onnx.checker.check_model(onnx_sparse.canonicalize(m), full_check=True)


def test_a_model_in_canonical_form_stays_as_it_is() -> None:
    once = onnx_sparse.canonicalize(SEGMENT_SUM)
    assert onnx_sparse.canonicalize(once).graph.node == once.graph.node


def test_bodies_in_the_model_are_written_again_to_fit() -> None:
    canonical = onnx_sparse.canonicalize(onnx_sparse.embed_functions(SEGMENT_SUM))
    (node,) = nodes_of(canonical)
    assert [f.name for f in canonical.functions] == [node.op_type]
    assert list(canonical.functions[0].input) == ["data", "segment_ids", "num_segments"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[k] x, int64[k] i) => (y) { y = onnx_sparse.SegmentMedian (x, i) }",
            "SegmentMedian is not an operator of",
        ),
        ("g (float[k] x) => (y) { y = onnx_sparse.SegmentSum (x) }", "input segment_ids is required"),
        (
            "g (float[k] x, int64[k] i, int64 n) => (y) { y = onnx_sparse.SegmentSum (x, i, n, n) }",
            "has 4 inputs and 1 outputs; expected at most 3 and 1",
        ),
        (
            "g (float[k] x) => (y) "
            "{ t, i, n = com.example.Lookup (x) y = onnx_sparse.EmbeddingSegmentsSum (t, i, i, n) }",
            'EmbeddingSegmentsSum node "y": the element type of default_index cannot be inferred',
        ),
    ],
)
def test_what_cannot_be_canonical_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        onnx_sparse.canonicalize(model(text))


@pytest.mark.parametrize("function", [onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.lower])
def test_a_later_opset_is_refused(function: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
    """Its operators may behave differently."""
    later = onnx.ModelProto()
    later.CopyFrom(SEGMENT_SUM)
    next(i for i in later.opset_import if i.domain == onnx_sparse.DOMAIN).version = 2
    with pytest.raises(ValueError, match="opset 2 of domain onnx_sparse; this version of onnx_sparse has 1"):
        function(later)


def test_opsets_that_contradict_each_other() -> None:
    m = model(SUM)
    m.opset_import.add(domain="", version=1)
    with pytest.raises(ValueError, match=r"^the model imports several opsets of ai.onnx: 1, 18$"):
        onnx_sparse.canonicalize(m)


@pytest.mark.parametrize("opset", [1, 7, 8, 9, 18])
def test_constants_of_old_opsets(opset: int) -> None:
    """Constant has only floats before opset 9; without omitted inputs no constant is needed."""
    m = model(SUM, opset=opset)
    if opset < 9:
        with pytest.raises(ValueError, match=f"the model's opset {opset} of ai.onnx has no constants of every type"):
            onnx_sparse.canonicalize(m)
        whole = "g (float[k] x, int64[k] i, int64 n) => (float[s] y) { y = onnx_sparse.SegmentSum (x, i, n) }"
        assert len(onnx_sparse.canonicalize(model(whole, opset=opset)).graph.node) == 1
    else:
        onnx.checker.check_model(onnx_sparse.canonicalize(m), full_check=True)


def test_an_import_of_opset_0() -> None:
    """As good as none."""
    m = model(SUM, opset=0)
    assert [i.version for i in onnx_sparse.canonicalize(m).opset_import if i.domain == ""] == [18]
