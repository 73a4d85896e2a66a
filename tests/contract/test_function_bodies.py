"""Function bodies in a model: plain ONNX Runtime runs them, kernels take precedence, `lower` leaves standard ONNX."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contract.models import BRANCHES, DEFAULTED, FUNCTIONS, SEGMENT_SUM, model
from onnx.reference import ReferenceEvaluator

import onnx_sparse
from onnx_sparse.models.graphs import all_nodes
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.sessions.runtime import available_backends

Portable = Callable[[onnx.ModelProto], onnx.ModelProto]

FEEDS = {"data": np.array([[1, 2], [3, 4], [5, 6]], np.float32), "ids": np.array([0, 0, 2])}
SUMS = np.array([[4, 6], [0, 0], [5, 6]], np.float32)


def test_an_embedded_model_runs_in_plain_onnx_runtime() -> None:
    session = ort.InferenceSession(onnx_sparse.embed_functions(SEGMENT_SUM).SerializeToString())
    np.testing.assert_array_equal(session.run(None, FEEDS)[0], SUMS)


@pytest.mark.skipif(os.name == "nt", reason="links packages into a bare environment")
def test_an_embedded_model_runs_where_onnx_sparse_is_not_installed(tmp_path: Path) -> None:
    """The virtual environment has only ONNX Runtime and numpy."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    for package in (ort, np):
        home = Path(str(package.__file__)).parent
        for folder in (home, *home.parent.glob(f"{home.name}.libs")):
            (site / folder.name).symlink_to(folder)
    onnx.save(onnx_sparse.embed_functions(BRANCHES), tmp_path / "model.onnx")
    program = """
import importlib.util, numpy, onnxruntime
assert importlib.util.find_spec("onnx_sparse") is None and importlib.util.find_spec("onnx") is None
data = numpy.array([[1, 2], [3, 4]], numpy.float32)
for c, want in (True, [[6, 8]]), (False, [[8, 12]]):
    feeds = {"c": numpy.array(c), "data": data, "ids": numpy.zeros(2, numpy.int64)}
    y, = onnxruntime.InferenceSession("model.onnx").run(None, feeds)
    assert y.tolist() == want, y
"""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-I", "-c", program], cwd=tmp_path, check=True, timeout=120)


def test_a_registered_kernel_is_used_instead_of_the_body() -> None:
    """The body is changed to give a wrong result, which shows which of the two ran."""
    embedded = onnx_sparse.embed_functions(onnx_sparse.canonicalize(SEGMENT_SUM))
    wrong = onnx.helper.make_node("Identity", ["data"], ["output"])
    del embedded.functions[0].node[:]
    embedded.functions[0].node.append(wrong)
    plain = ort.InferenceSession(embedded.SerializeToString()).run(None, FEEDS)[0]
    np.testing.assert_array_equal(plain, FEEDS["data"])
    with_kernel = ort.InferenceSession(embedded.SerializeToString(), onnx_sparse.session_options()).run(None, FEEDS)[0]
    np.testing.assert_array_equal(with_kernel, SUMS)


def test_one_operator_with_two_types_gets_two_bodies() -> None:
    embedded = onnx_sparse.embed_functions(FUNCTIONS)
    assert len(embedded.functions) == 2
    assert not any(f.overload for f in embedded.functions)  # which some tools lose, and then take one for the other
    assert len({f.name for f in embedded.functions}) == 2
    session = ort.InferenceSession(embedded.SerializeToString())
    feeds = {"x": np.array([1, 2], np.float32), "z": np.array([3, 4], np.int32), "ids": np.array([1, 1])}
    y, w = session.run(None, feeds)
    assert (y.tolist(), w.tolist()) == ([0, 3], [0, 7])


def several_bodies() -> onnx.ModelProto:
    """One operator with two attributes' values, three element types, and an input given or not."""
    return model(
        """
g (float[k] x, int32[k] z, double[k] d, int64[k] ids, int64 n) => (a, b, c, e, f) {
  a = onnx_sparse.SegmentMax <fill_mode = "ZERO"> (x, ids)
  b = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (x, ids, n)
  c = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (z, ids, n)
  e = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (z, ids, n)
  f = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (d, ids)
}"""
    )


SEVERAL_FEEDS = {
    "x": np.array([1, -2, 3], np.float32),
    "z": np.array([1, -2, 3], np.int32),
    "d": np.array([1, -2, 3], np.float64),
    "ids": np.array([0, 0, 2]),
    "n": np.array(3),
}


class TestSeveralBodiesOfOneOperator:
    """The body that most nodes call has the operator's name, the others have names of their own."""

    def expected(self) -> list[list[float]]:
        low = [np.finfo(np.float32).min, np.iinfo(np.int32).min, np.iinfo(np.int32).min, np.finfo(np.float64).min]
        return [[1, 0, 3], *([1, float(worst), 3] for worst in low)]

    def outputs(self, session: Any) -> list[list[float]]:
        return [y.tolist() for y in session.run(None, SEVERAL_FEEDS)]

    def test_names(self) -> None:
        embedded = onnx_sparse.embed_functions(several_bodies())
        names = [f.name for f in embedded.functions]
        assert len(set(names)) == 4
        assert [n.op_type for n in embedded.graph.node].count("SegmentMax") == 2
        assert all(name.startswith("SegmentMax_") for name in set(names) - {"SegmentMax"})
        onnx.checker.check_model(embedded, full_check=True)

    def test_in_plain_onnx_runtime(self) -> None:
        embedded = onnx_sparse.embed_functions(several_bodies()).SerializeToString()
        assert self.outputs(ort.InferenceSession(embedded)) == self.expected()
        assert self.outputs(ort.InferenceSession(embedded, onnx_sparse.session_options())) == self.expected()

    @pytest.mark.parametrize("backend", available_backends())
    @pytest.mark.parametrize("form", ["proto", "bytes", "path"])
    def test_our_session_uses_kernels_for_all(self, backend: str, form: str, tmp_path: Path) -> None:
        """All bodies are changed to give a wrong result, which shows that none of them ran."""
        embedded = onnx_sparse.embed_functions(several_bodies())
        for function in embedded.functions:
            del function.node[:]
            function.node.append(onnx.helper.make_node("Identity", ["data"], ["output"]))
        onnx.save(embedded, tmp_path / "model.onnx")
        forms = {"proto": embedded, "bytes": embedded.SerializeToString(), "path": tmp_path / "model.onnx"}
        assert self.outputs(onnx_sparse.InferenceSession(forms[form], backend=backend)) == self.expected()

    def test_they_are_nodes_of_the_operator_again(self) -> None:
        embedded = onnx_sparse.embed_functions(several_bodies())
        assert [n.op_type for n in onnx_sparse.canonicalize(embedded).graph.node if n.domain == DOMAIN].count(
            "SegmentMax"
        ) == 2
        lowered = onnx_sparse.lower(embedded)
        assert not [n for n in lowered.graph.node if n.domain]
        assert self.outputs(ort.InferenceSession(lowered.SerializeToString())) == self.expected()
        assert onnx_sparse.embed_functions(embedded) == embedded


def test_inputs_that_a_body_does_not_read_are_in_neither() -> None:
    """Tools that remove unread inputs of functions leave them in calls."""
    embedded = onnx_sparse.embed_functions(SEGMENT_SUM)
    assert len(embedded.functions[0].input) == len(embedded.graph.node[0].input) == 2


@pytest.mark.parametrize("form", [onnx_sparse.embed_functions, onnx_sparse.lower])
def test_float16_comes_first(form: Portable) -> None:
    """Converters do not change the types in bodies, so a model is converted before it gets any."""
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    m = model(
        """
g (float[k,2] data, int64[k] ids, float[2] w) => (float[s,2] y) {
  highest = onnx_sparse.SegmentMax <fill_mode = "ZERO"> (data, ids)
  mean = onnx_sparse.SegmentMean (data, ids)
  sum = Add (highest, mean)
  y = Mul (sum, w)
}"""
    )
    feeds = {**FEEDS, "w": np.array([0.5, 2], np.float32)}
    (expected,) = onnx_sparse.InferenceSession(m).run(None, feeds)
    half = float16.convert_float_to_float16(m, keep_io_types=True)
    session = ort.InferenceSession(form(half).SerializeToString())
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-3)
    types = [t.elem_type for v in half.graph.value_info if (t := v.type.tensor_type)]
    assert onnx.TensorProto.FLOAT16 in types


@pytest.mark.parametrize(
    "opset", range(18, (min(onnx.defs.onnx_opset_version(), 26) if ort.__version__ >= "1.27" else 22) + 1)
)
@pytest.mark.parametrize("m", [SEGMENT_SUM, BRANCHES, FUNCTIONS], ids=["plain", "branches", "functions"])
def test_lower_to_an_opset(m: onnx.ModelProto, opset: int) -> None:
    lowered = onnx_sparse.lower(m, opset=opset)
    assert [i.version for i in lowered.opset_import if not i.domain] == [opset]
    onnx.checker.check_model(lowered, full_check=True)
    feeds = {
        **FEEDS,
        "c": np.array(True),
        "x": np.array([1, 2, 3], np.float32),
        "z": np.array([1, 2, 3], np.int32),
    }
    feeds = {i.name: feeds[i.name] for i in m.graph.input}
    expected = onnx_sparse.InferenceSession(m).run(None, feeds)
    for got, want in zip(ort.InferenceSession(lowered.SerializeToString()).run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("opset", [0, 17, onnx.defs.onnx_opset_version() + 1])
def test_an_opset_without_bodies(opset: int) -> None:
    with pytest.raises(ValueError, match=f"opset {opset}; function bodies are in opsets 18 to "):
        onnx_sparse.lower(SEGMENT_SUM, opset=opset)


def test_lower_changes_the_opset_of_a_model_without_our_nodes() -> None:
    m = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    assert [i.version for i in onnx_sparse.lower(m, opset=21).opset_import if not i.domain] == [21]


@pytest.mark.parametrize("m", [BRANCHES, FUNCTIONS], ids=["branches", "functions"])
def test_embedding_twice_changes_nothing(m: onnx.ModelProto) -> None:
    once = onnx_sparse.embed_functions(m)
    assert onnx_sparse.embed_functions(once) == once


@pytest.mark.parametrize("m", [SEGMENT_SUM, BRANCHES, FUNCTIONS], ids=["plain", "branches", "functions"])
def test_lower_leaves_standard_onnx_only(m: onnx.ModelProto) -> None:
    lowered = onnx_sparse.lower(m)
    assert {n.domain for n in all_nodes(lowered.graph.node)} == {""}
    assert DOMAIN not in {i.domain for i in lowered.opset_import}
    assert not [f for f in lowered.functions if f.domain == DOMAIN]
    onnx.checker.check_model(lowered, full_check=True)


@pytest.mark.parametrize("portable", [onnx_sparse.embed_functions, onnx_sparse.lower])
@pytest.mark.parametrize("opset", [11, 13, 17, 18, 22])
def test_an_old_opset_is_raised_to_that_of_the_bodies(opset: int, portable: Portable) -> None:
    """Functions, metadata and sparse initializers, which onnx's version converter drops, are kept."""
    m = model(
        f"""
g (float[k,2] data, int64[k] ids) => (float[s,2] y) {{
  d = com.example.Twice (data)
  y = onnx_sparse.SegmentSum (d, ids)
  z = Identity (y)
}}
<domain: "com.example", opset_import: ["" : {opset}]>
Twice (x) => (z) {{ z = Add (x, x) }}""",
        opset=opset,
    )
    m.graph.metadata_props.add(key="of", value="graph")
    m.graph.node[2].metadata_props.add(key="of", value="node")
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    indices = onnx.numpy_helper.from_array(np.array([1]), "indices")
    m.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [4]))

    result = portable(m)
    assert next(i.version for i in result.opset_import if i.domain == "") == max(opset, 18)
    np.testing.assert_array_equal(ort.InferenceSession(result.SerializeToString()).run(None, FEEDS)[0], 2 * SUMS)
    assert [p.value for p in result.graph.metadata_props] == ["graph"]
    assert [[p.value for p in n.metadata_props] for n in result.graph.node if n.op_type == "Identity"] == [["node"]]
    assert [t.values.name for t in result.graph.sparse_initializer] == ["sparse"]


def test_an_opset_that_cannot_be_raised_says_so() -> None:
    m = model("g (float[k] x, int64[k] i) => (y) { u = Upsample (x) y = onnx_sparse.SegmentSum (u, i) }", opset=7)
    with pytest.raises(ValueError, match="opset 7 cannot be raised to 18, which function bodies need"):
        onnx_sparse.lower(m)


@pytest.mark.parametrize("portable", [onnx_sparse.embed_functions, onnx_sparse.lower])
def test_functions_are_inlined_with_their_defaults(portable: Portable) -> None:
    feeds = {
        "v": np.array([1, -2], np.float32),
        "s": np.array([2, 2]),
        "i": np.array([[0, 1], [0, 0]]),
        "d": np.array(7, np.float32),
    }
    indices, values = ort.InferenceSession(portable(DEFAULTED).SerializeToString()).run(None, feeds)
    assert indices.tolist() == [[0, 1], [0, 0], [1, 0]]
    assert values.tolist() == [1, 2, 7]


@pytest.mark.parametrize("run", [ort.InferenceSession, ReferenceEvaluator])
def test_omitted_inputs_and_outputs(run: Callable[[bytes], Any]) -> None:
    """Neither runtime accepts a call with fewer outputs than the function has, the evaluator none with fewer inputs."""
    m = model(
        "g (float[n] v, int64[2] s, int64[n,2] i, float d, int64[n] ids) => (oi, ov, e, y) { "
        "oi, ov, e = onnx_sparse.SparseFillEmptyRows (v, s, i, d) y = onnx_sparse.SegmentSum (v, ids) }"
    )
    feeds = {
        "v": np.array([1], np.float32),
        "s": np.array([2, 2]),
        "i": np.array([[1, 1]]),
        "d": np.array(7, np.float32),
        "ids": np.array([1]),
    }
    outputs = run(onnx_sparse.embed_functions(m).SerializeToString()).run(None, feeds)
    assert [o.tolist() for o in outputs] == [[[0, 0], [1, 1]], [7, 1], [True, False], [0, 1]]


def test_a_lowered_model_runs_in_the_plain_reference_evaluator() -> None:
    np.testing.assert_array_equal(ReferenceEvaluator(onnx_sparse.lower(SEGMENT_SUM)).run(None, FEEDS)[0], SUMS)


def test_a_model_without_our_nodes_stays() -> None:
    m = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    assert not onnx_sparse.embed_functions(m).functions
    assert [n.op_type for n in onnx_sparse.lower(m).graph.node] == ["Relu"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[k] x) => (y) { y = onnx_sparse.SegmentMedian (x) }", "SegmentMedian is not an operator of"),
        ("g (x, int64[k] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }", "element type T cannot be inferred"),
        (
            "g (string[k] x, int64[k] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }",
            "SegmentSum: input data is string; expected one of",
        ),
        (
            'g (float[k] x, int64[k] i) => (y) { y = onnx_sparse.SegmentMax <fill_mode = "UP"> (x, i) }',
            "attribute fill_mode = 'UP' is not one of",
        ),
        (
            "g (float[k] x, int64[k] i) => (y, z) { y, z = onnx_sparse.SegmentSum (x, i) }",
            'SegmentSum node "y" has 2 inputs and 2 outputs; expected at most 3 and 1',
        ),
        (
            "g (string[k] x, int64 n) => (y) { y = onnx_sparse.StringToHashBucketFast (x, n) }",
            'StringToHashBucketFast node "y": the operator has no function body: standard ONNX cannot express it',
        ),
    ],
)
def test_what_has_no_body_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        onnx_sparse.embed_functions(model(text))


def test_a_function_without_a_name_is_refused() -> None:
    """No model with one is valid, so neither would the result be."""
    nameless = model("g (float[k] x, int64[k] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }")
    nameless.functions.add(domain="mine")
    for change in (onnx_sparse.embed_functions, onnx_sparse.lower):
        with pytest.raises(ValueError, match="function 0 of the model has no name"):
            change(nameless)


def test_the_bodies_work_is_linear_in_the_data() -> None:
    """No tensor in a body is larger than the data, however long one segment is (a padded grid would be)."""
    rows = 5000
    ids = (np.arange(rows) > 10).astype(np.int64)
    evaluator = ReferenceEvaluator(onnx_sparse.lower(SEGMENT_SUM))
    values = evaluator.run(None, {"data": np.ones((rows, 2), np.float32), "ids": ids}, intermediate=True)
    assert max(np.size(v) for v in values.values()) <= 2 * rows + 2
