"""Every anchor of every guard and rule has what draws graphs around it; a few of each are run and compared.

`python -m drawing` in the folder `tests` draws as many as you like.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from drawing.declaration import GENERATORS, missing, pinned, unknown
from drawing.engine import cases, every_rule, examine, outcome
from drawing.reads import attributes_read, inputs_read, said
from onnx_sparse.converters.onnxruntime import integers
from onnx_sparse.converters.onnxruntime.guards import GUARDS
from onnx_sparse.converters.onnxruntime.pooling import ShortInput
from onnx_sparse.converters.rewriting.rule import Rule
from onnx_sparse.converters.rewriting.rules.dropped_ids import DropNegative


def test_every_anchor_is_drawn():
    assert cases()
    assert missing(every_rule()) == []
    assert unknown(every_rule()) == []
    names = {rule.__name__ for rule in every_rule()}
    drawn_here = {rule.__name__ for rule, _ in GENERATORS}
    assert names >= pinned()
    assert not drawn_here & pinned()


#: Rules most of whose graphs are refused or without a judge, as most of what ONNX allows has no kernel or evaluator.
SELDOM_EQUAL = ("OneHotTypes", "ResizedAxes", "ScanOfNoSteps")


@pytest.mark.parametrize("name", sorted({rule.__name__ for rule, _, _ in cases()}))
def test_a_few_graphs_of_a_rule(name):
    """Most are of values and shapes, whose proofs depend on where an operand comes from."""
    chosen = name if name == "MissingKernel" else "!MissingKernel"
    every = cases(chosen)
    own = [place for place, (rule, _, _) in enumerate(every) if rule.__name__ == name]
    rounds = 1 if name == "MissingKernel" else max(4, 12 // len(own))
    report = examine(every, [turn * len(every) + place for turn in range(rounds) for place in own])
    assert report.found == []
    assert report.outcomes["equal"] > (0 if name in SELDOM_EQUAL else 0.5 * sum(report.outcomes.values()))


#: What generators leave out of what their guards read, and why.
NOT_DRAWN = {
    **dict.fromkeys(
        [("IntegerSum", "ReduceL1", "noop_with_empty_axes"), ("IntegerSum", "ReduceSumSquare", "noop_with_empty_axes")],
        "ONNX does not say whether the elements stay what they are",
    ),
    **dict.fromkeys(
        [
            ("ResizedAxes", "Resize", "antialias"),
            ("ResizedAxes", "Resize", "keep_aspect_ratio_policy"),
            ("NearestOfOtherTypes", "Resize", "keep_aspect_ratio_policy"),
        ],
        "the evaluator has another answer for them with axes",
    ),
}


def test_generators_draw_what_their_guards_read():
    """Each attribute with a value that is not its default, and each input; else a guard is never tested with it."""
    guards = [case for case in cases("!MissingKernel") if case[0] in GUARDS]
    left_out = set()
    for (rule, anchor), group in itertools.groupby(guards, key=lambda case: case[:2]):
        attributes, inputs, opset = set(), set(), 1
        for _, _, generator in group:
            for seed in range(100):
                drawn = generator(np.random.default_rng(seed), anchor)
                opset = max(opset, drawn.opset)
                for node in (node for node in drawn.nodes() if node.op_type == anchor):
                    attributes |= said(node, drawn.opset)
                    inputs |= {place for place, name in enumerate(node.input) if name}
        left_out |= {(rule.__name__, anchor, name) for name in attributes_read(rule, anchor, opset) - attributes}
        left_out |= {(rule.__name__, anchor, place) for place in inputs_read(rule, anchor, opset) - inputs}
    assert left_out == NOT_DRAWN.keys()


def test_what_is_read_is_found():
    """In a method, in a function that it calls, and in one of another module."""
    assert attributes_read(ShortInput, "MaxPool", 18) >= {"auto_pad", "ceil_mode", "strides", "pads", "dilations"}
    assert "storage_order" not in attributes_read(ShortInput, "MaxPool", 18)
    assert inputs_read(integers.IntegerSum, "ReduceSum", 18) >= {0, 1}


def test_a_fault_of_a_guard_is_found(monkeypatch):
    """A guard of sums that forgets int32 is found by a few graphs of it."""
    rule = integers.IntegerSum
    monkeypatch.setattr(rule, "may_fail", lambda *_: False)
    wrong = 0
    for seed, (kind, anchor, generator) in enumerate(25 * cases("IntegerSum of ReduceSum")):
        rng = np.random.default_rng(seed)
        said, _, _ = outcome(generator(rng, anchor), kind, rng)
        wrong += said != "equal"
    assert wrong


def _mismatches(rules: Iterable[type[Rule[Any]]]) -> list[str]:
    """The rules whose `check` or `rewrite` does not take what their `pattern` binds."""
    found = []
    for rule in rules:
        tree = ast.parse(textwrap.dedent(inspect.getsource(rule.pattern)))
        bound = [node for way in ast.walk(tree) if isinstance(way, ast.Return) for node in ast.walk(way)]
        matches = [{ast.literal_eval(key) for key in node.keys if key} for node in bound if isinstance(node, ast.Dict)]
        assert matches, f"{rule.__name__} binds nothing that can be read"
        for match, function in itertools.product(matches, (rule.check, rule.rewrite)):
            try:
                inspect.signature(function).bind(rule, None, None, **dict.fromkeys(match))
            except TypeError as error:
                found.append(f"{rule.__name__}.{function.__name__}: {error}")
    return found


def test_rules_take_what_their_patterns_bind(monkeypatch):
    assert _mismatches(every_rule()) == []
    monkeypatch.setattr(DropNegative, "rewrite", lambda self, graph, node, misspelt: None)
    (found,) = _mismatches([DropNegative])
    assert found.startswith("DropNegative.")


def test_an_anchor_without_a_generator_is_found(monkeypatch):
    assert cases()
    monkeypatch.setattr(integers.IntegerProduct, "anchors", ("ReduceProd", "ReduceLogSum"))
    assert missing(every_rule()) == ["IntegerProduct of ReduceLogSum"]


def test_an_error_of_a_generator_is_told(monkeypatch):
    """An internal error of a guard is found, and not taken for a malformed model."""

    def broken(*_: object) -> bool:
        raise IndexError("an error of ours")

    monkeypatch.setattr(integers.IntegerSum, "may_fail", broken)
    (kind, anchor, generator), *_ = cases("IntegerSum of ReduceSum")
    rng = np.random.default_rng(0)
    with pytest.raises(IndexError, match="an error of ours"):
        outcome(generator(rng, anchor), kind, rng)
