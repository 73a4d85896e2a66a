"""A small part of the walk in `operators.py`: the operators with which onnx's inference has ended a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import pytest
from onnx import ModelProto

if sys.platform == "win32":
    pytest.skip("forks", allow_module_level=True)

from torture.operators import CALLS, Call, Case, cases_of, schemas, walk

from onnx_sparse.models.tools.uninferable import FATAL, WALKED

INFERENCE = {name: call for name, call in CALLS.items() if name.startswith("infer")}


def ended(cases: list[Case], calls: Mapping[str, Call] = INFERENCE) -> dict[str, str]:
    """What ends a process, by operator, draw and call."""
    return {f"{schema.name} {number} {call}": what for (schema, number, call), what in walk(cases, calls)}


def test_operators_that_end_inference_are_not_shown_to_it() -> None:
    fatal = [schema for schema in schemas() if (schema.domain, schema.name) in FATAL]
    assert {(schema.domain, schema.name) for schema in fatal} == FATAL.keys()
    assert not ended(cases_of(fatal, range(30), INFERENCE))


def test_all_operators_that_read_untyped_values() -> None:
    """Each of the newest versions, in the main graph, in a branch and in a function."""
    newest = {(schema.domain, schema.name): schema for schema in schemas()}
    calls = {name: INFERENCE[name] for name in ("infer", "infer, strict, data")}
    assert not ended(cases_of([*newest.values()], range(3), calls), calls)


def test_the_walk_was_over_all_operators() -> None:
    """Operators of a newer onnx are hidden like those of the table until they are walked over, too."""
    assert {schema.domain for schema in schemas()} == WALKED.keys()


def test_a_planted_death_is_found() -> None:
    def call(model: ModelProto) -> None:
        if any(node.op_type == "Abs" for node in model.graph.node):
            os.abort()

    chosen = [schema for schema in schemas() if schema.name in ("Acos", "Abs", "Add") and schema.since_version > 12]
    found = ended(cases_of(chosen, [0, 3], {"planted": call}), {"planted": call})
    assert found == {"Abs 0 planted": "SIGABRT", "Abs 3 planted": "SIGABRT"}
