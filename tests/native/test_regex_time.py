"""Matches that each look far ahead in vain: all of a text are found in time that grows with the text."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse import InferenceSession
from onnx_sparse.converters.tensorflow.regex_program import program_of


def session_of(pattern: str) -> InferenceSession:
    """A model that puts each match and its first group in brackets."""
    program = program_of(pattern.encode())
    constants = [numpy_helper.from_array(array, name) for name, array in program.inputs.items()]
    constants += [
        helper.make_tensor("rewrite", TensorProto.STRING, [3], [b"<", b"|", b">"]),
        numpy_helper.from_array(np.array([0, min(program.groups, 1)]), "groups"),
    ]
    names = ["x", *program.inputs, "rewrite", "groups"]
    node = helper.make_node("RegexReplace", names, ["y"], domain="onnx_sparse", matches="ALL")
    ports = [[helper.make_tensor_value_info(name, TensorProto.STRING, ["N"])] for name in "xy"]
    graph = helper.make_graph([node], "g", *ports, constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    return InferenceSession(helper.make_model(graph, opset_imports=opsets, ir_version=10), backend="native")


#: Those that Python matches as RE2 does.
PATTERNS = ["x*y|x", "(x)x*y|x", "x*?y|xx|x", "x{1,3}(?:x*z)?", "(x|é)[xé]*y|é", r"\bx*y|x$|x", "(?:x*y)?x"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_matches_are_those_of_a_search_each(pattern: str) -> None:
    random = np.random.default_rng(0)
    texts = ["x" * 5000, "é" * 2500 + "x", "".join(random.choice(["x", "é", " "], 5000, p=[0.9, 0.09, 0.01]))]
    group = 1 if program_of(pattern.encode()).groups else 0
    expected = [re.sub(pattern, lambda m: f"<{m[0]}|{m[group] or ''}>", text) for text in texts]
    assert session_of(pattern).run(None, {"x": np.array(texts, object)})[0].tolist() == expected


def test_twice_the_text_takes_about_twice_the_time() -> None:
    session = session_of("x*y|x")

    def seconds(length: int) -> float:
        texts, times = np.array(["x" * length], object), []
        for _ in range(3):
            begun = time.process_time()
            session.run(None, {"x": texts})
            times.append(time.process_time() - begun)
        return min(times)

    assert seconds(80_000) < 8 * max(seconds(20_000), 0.005)
