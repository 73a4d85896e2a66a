"""onnx's tools, without what ends the process in them: `tests/torture/operators.py` walks over all operators."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time

import onnx
import pytest
from onnx import ModelProto, TensorProto, defs, helper

import onnx_sparse
from onnx_sparse.models.tools import apart, uninferable
from onnx_sparse.models.tools.apart import EndedProcessError, made_apart
from onnx_sparse.models.tools.onnx_tools import convert_version, infer_outputs, infer_shapes, inline_functions

HEADER = '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 2, "other" : 1, "mine" : 1, "onnx_sparse" : 1]>'
FIND = "ai.onnx.ml.LabelEncoder <keys_strings = [{key}], values_{kind}s = [{value}]>"
TEXTS = FIND.format(key='"A"', kind="string", value='"B"')
IDS = FIND.format(key='"B"', kind="int64", value="1")

#: The label of a value that an operator of another domain makes: onnx's own inference ends the process.
UNTYPED = (
    f"g (string[n] x, float[k] v) => (y, s) {{ u = other.Upper (x) y = {IDS} (u) s = onnx_sparse.SegmentSum (v, y) }}"
)


def model(text: str) -> ModelProto:
    return onnx.parser.parse_model(f"{HEADER}\n{text}")


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_MOST_SECONDS", 5)


def inferred(m: ModelProto, *, data_prop: bool = False) -> ModelProto:
    """In a child process, so that a death or a loop fails a test alone."""
    return made_apart(functools.partial(infer_shapes, data_prop=data_prop), m)


def types(m: ModelProto) -> dict[str, int]:
    values = (*m.graph.value_info, *m.graph.output)
    return {v.name: v.type.tensor_type.elem_type for v in values if v.type.WhichOneof("value")}


def domains(m: ModelProto) -> set[str]:
    nodes = [*m.graph.node, *(node for function in m.functions for node in function.node)]
    imports = [*m.opset_import, *(i for function in m.functions for i in function.opset_import)]
    return {node.domain for node in nodes} | {i.domain for i in imports}


CALLS = """
canonicalize(m)
embed_functions(m)
lower(m)
lower(m, opset=21)
fuse(m)
quantize_tables(m, "int8")
to_ragged(m)
features(m)
check(m)
inspect(m)
InferenceSession(m, backend="python")
InferenceSession(m, backend="native")
InferenceSession(m.SerializeToString())
"""


def test_no_function_ends_its_caller() -> None:
    """Whether each takes the model is another question: the labels have no type, so some do not."""
    program = f"""
import onnx, sys
from onnx_sparse import *
m = onnx.ModelProto.FromString(sys.stdin.buffer.read())
for call in {CALLS.split(chr(10))[1:-1]}:
    print(call, flush=True)
    try:
        eval(call)
    except Exception as error:
        known = isinstance(error, (ValueError, FileNotFoundError)) or "onnxruntime" in type(error).__module__
        assert known, (call, error)
"""
    content = model(UNTYPED).SerializeToString()
    done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=False)
    assert (done.stdout.decode(), done.returncode) == (CALLS[1:], 0), done.stderr.decode()[-500:]


def test_labels_of_known_values_are_inferred() -> None:
    """Also one after the other, in branches, and next to those that cannot be."""
    m = model(f"""
g (string[n] x, bool c) => (y, z, other) {{
  a = Identity (x)
  b = {TEXTS} (a)
  y = {IDS} (b)
  z = If (c) <then_branch = t () => (p) {{ p = {IDS} (b) }}, else_branch = o () => (q) {{ q = {IDS} (a) }}>
  u = other.Upper (x)
  other = {IDS} (u)
}}""")
    made = inferred(m)
    assert types(made) == {"a": 8, "b": 8, "y": 7, "z": 7}
    assert [node.SerializeToString() for node in made.graph.node if not node.attribute] == [
        node.SerializeToString() for node in m.graph.node if not node.attribute
    ]
    assert domains(made) == domains(m)


def test_labels_in_a_function_have_no_types() -> None:
    """They depend on the caller."""
    m = model(f"""
g (string[n] x) => (y, z) {{ y = mine.Find (x) z = Identity (x) }}
<domain: "mine", opset_import: ["ai.onnx.ml" : 2]> Find (t) => (found) {{ found = {IDS} (t) }}""")
    made = inferred(m)
    assert types(made) == {"z": 8}
    assert domains(made) == domains(m)


def test_initializers_have_no_types_in_old_models() -> None:
    m = model(f'g () => (y) <string[1] x = {{"A"}}> {{ y = {IDS} (x) }}')
    assert types(inferred(m)) == {"y": 7}
    m.ir_version = 3
    assert types(inferred(m)) == {}


@pytest.mark.parametrize("equation", ["i_j->i", "i-j", "ij....->i", "i\nj", "ij->i->j", "\xff."])
def test_an_equation_without_end(equation: str) -> None:
    m = model('g (float[2,3] x) => (y) { y = Einsum <equation = "ij->j"> (x) }')
    assert types(inferred(m)) == {"y": 1}
    m.graph.node[0].attribute[0].s = equation.encode("latin-1")
    inferred(m)


def test_the_values_of_a_long_vector_are_not_followed() -> None:
    """onnx takes a vector for a shape with as many dimensions."""
    m = model(
        "g (int64[2000000000] x, int64[2] d) => (y, z, r) "
        "{ y = Size (x) z = Cast <to = 6> (x) r = ConstantOfShape (d) }"
    )
    assert types(inferred(m, data_prop=True)) == {"y": 7, "z": 6, "r": 1}


def test_operators_of_a_newer_onnx_count_as_dangerous(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are inferred where the types of what they read are known."""
    monkeypatch.setattr(uninferable, "WALKED", dict.fromkeys(uninferable.WALKED, 12))
    uninferable._fatal.cache_clear()
    try:
        m = model("g (float[n] x) => (y, z) { u = other.Make (x) y = Add (x, x) z = Add (x, u) }")
        assert types(inferred(m)) == {"y": 1}
    finally:
        uninferable._fatal.cache_clear()


def test_outputs_of_a_node_that_reads_what_has_no_type() -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["A"], values_int64s=[1])
    known = {"x": helper.make_tensor_type_proto(TensorProto.STRING, ["N"])}
    assert infer_outputs(node, {}, {}, {"ai.onnx.ml": 2}) == {}
    for version in (2**63 - 1, -(2**63)):  # for no C++ integer
        assert infer_outputs(node, known, {}, {"ai.onnx.ml": 2, "npu": version}) == {}
    assert infer_outputs(node, known, {}, {"ai.onnx.ml": 2})["y"].tensor_type.elem_type == TensorProto.INT64


# --- In a child process -----------------------------------------------------------------------------------------------


def died(_: ModelProto) -> ModelProto:
    os.abort()


@pytest.mark.parametrize("can_fork", [True, False])
def test_a_call_apart(can_fork: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if can_fork and not apart.CAN_FORK:
        pytest.skip("cannot fork")
    monkeypatch.setattr(apart, "CAN_FORK", can_fork)
    m = model("g (float[n] x) => (float[n] y) { y = Relu (x) }")
    raised = functools.partial(onnx.version_converter.convert_version, target_version=22)
    assert made_apart(raised, m).opset_import[0].version == 22
    bad = model("g (float[n] x) => (float[n] y) { y = Concat (x) }")
    with pytest.raises(onnx.shape_inference.InferenceError, match="Concat"):
        made_apart(functools.partial(onnx.shape_inference.infer_shapes, strict_mode=True), bad)
    with pytest.raises(TypeError, match="target_version"):
        made_apart(onnx.version_converter.convert_version, m)
    if can_fork:  # a new process cannot import this module
        with pytest.raises(EndedProcessError, match="the process ends by SIGABRT"):
            made_apart(died, m)


def test_a_conversion_that_ends_its_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.version_converter, "convert_version", lambda m, target_version: died(m))
    m = model("g (float[k] v, int64[k] i) => (s) { s = onnx_sparse.SegmentSum (v, i) }")
    with pytest.raises(ValueError, match="opset 20 cannot be converted to 21: the process ends by SIGABRT"):
        onnx_sparse.lower(m, opset=21)


def test_labels_are_carried_through_a_conversion() -> None:
    m = model(f"g (string[n] x) => (y, z) {{ u = other.Upper (x) y = {IDS} (u) z = {IDS} (x) }}")
    made = convert_version(m, 22)
    assert [node.op_type for node in made.graph.node] == ["Upper", "LabelEncoder", "LabelEncoder"]
    assert domains(made) == {"", "other", "ai.onnx.ml", "mine", "onnx_sparse"}


def test_a_node_that_changes_and_cannot_be_inferred_is_not_converted() -> None:
    m = model("g (string[n] x) => (y) { u = other.Make (x) y = EyeLike (u) }")
    with pytest.raises(ValueError, match="EyeLike reads a value of unknown type"):
        convert_version(m, defs.onnx_opset_version())


def test_functions_of_another_opset_are_inlined() -> None:
    m = model("""g (float[n] x) => (float[n] y) { y = mine.Twice (x) }
<domain: "mine", opset_import: ["" : 13]> Twice (a) => (b) { b = Add (a, a) }""")
    assert [node.op_type for node in inline_functions(m).graph.node] == ["Add"]


@pytest.mark.slow
@pytest.mark.skipif(not apart.CAN_FORK, reason="no child is forked")
def test_a_child_that_waits_forever_is_replaced(monkeypatch):
    """A thread of the parent may have held a lock when the child was forked."""
    model = helper.make_model(helper.make_graph([], "empty", [], []))
    monkeypatch.setattr(apart, "_started", lambda call, content: (0, b"+" + content))
    assert apart.made_apart(lambda given: time.sleep(1000) or given, model) == model


@pytest.mark.skipif(not apart.CAN_FORK, reason="no child is forked")
def test_a_process_of_many_open_files():
    """Such as a server: descriptors from 1024 on are waited for, too."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        model = helper.make_model(helper.make_graph([], "empty", [], []))
        assert made_apart(onnx.shape_inference.infer_shapes, model) == model
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
