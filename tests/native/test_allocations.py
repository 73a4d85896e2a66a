"""What the library allocates and how long it works: bounded by inputs and outputs; an error where memory runs out.

These tests need the build that watches allocations, as `onnx_sparse/native/sanitize.sh address` makes it; it also
ends the process where a task allocates, whatever test runs on it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from contract.illegal import Change, a_binding, as_arrays, changes, illegal_arguments, illegal_attributes
from hypothesis import HealthCheck, given, settings
from native.sessions import Array, one_node, run, session_for
from native.sized_inputs import Inputs, bags, cases, segment, shuffled_strings
from native.test_addresses import displaced
from native.test_regex_time import session_of
from native.test_threads import every_operator

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.keyed_tables import join_text, text_index
from onnx_sparse.schemas import OPS, Example, Op
from onnx_sparse.sessions.runtime import available_backends

#: What the library may allocate beyond twice the bytes of a call's inputs and outputs.
SLACK = 64 << 10
#: Steps (basic blocks) that the library may make for each element that the documented bound of time counts.
STEPS = 60
#: Steps that a call may make whatever its sizes.
FIXED_STEPS = 200_000


def _watched() -> ctypes.CDLL | None:
    if "native" not in available_backends():
        return None
    library = ctypes.CDLL(onnx_sparse.get_library_path())
    try:
        counters = "onnx_sparse_allocations_total", "onnx_sparse_allocations_blocks", "onnx_sparse_work"
        for function in (getattr(library, name) for name in counters):
            function.restype = ctypes.c_int64
        library.onnx_sparse_allocations_fail_after.argtypes = [ctypes.c_int64, ctypes.c_int]
    except AttributeError:
        return None
    return library


LIBRARY = _watched()
if LIBRARY is None:  # at once, because thousands of tests are long to collect
    pytest.skip("needs the build that watches allocations", allow_module_level=True)


def cost(call: Callable[[], list[Array]]) -> tuple[int, int, list[Array]]:
    """The bytes that the library allocates in a call, the steps that it makes, and the call's outputs."""
    assert LIBRARY is not None
    bytes_before, steps_before = LIBRARY.onnx_sparse_allocations_total(), LIBRARY.onnx_sparse_work()
    outputs = call()
    return (
        LIBRARY.onnx_sparse_allocations_total() - bytes_before,
        LIBRARY.onnx_sparse_work() - steps_before,
        outputs,
    )


def size_of(arrays: list[Array]) -> int:
    """The bytes of arrays in ONNX Runtime, which keeps a string in 32 bytes or more."""

    def size(array: Array) -> int:
        if array.dtype.type is np.void:
            return array.nbytes + 32 * array.size
        return array.nbytes if array.dtype != object else sum(32 + len(text.encode()) for text in array.reshape(-1))

    return sum(map(size, arrays))


def bound_of_time(op: str, modes: dict[str, str], inputs: Inputs, outputs: list[Array]) -> float:
    """The elements that the documented bound of time counts; a string counts as its bytes."""
    sizes = {name: size_of([a]) if a.dtype.type in (np.object_, np.void) else a.size for name, a in inputs.items()}
    linear = sum(sizes.values()) + sum(a.size for a in outputs)
    if op.startswith(("Embedding", "Quantized")):
        linear += sizes["indices"] * math.prod(inputs["emb_table"].shape[1:]) * (2 if modes.get("bits") == "4" else 1)
        return linear * (math.log2(sizes["indices"] + 2) if modes.get("segment_ids_order") == "any" else 1)
    if op.startswith("UnsortedSegment"):
        return linear * math.log2(sizes["segment_ids"] + 2)
    if op.endswith("FillEmptyRows"):
        return linear * math.log2(sizes["values"] + 2)
    return linear


@pytest.mark.slow
@pytest.mark.parametrize(("op", "needed", "count", "grown", "inputs"), list(cases()))
def test_cost_is_bounded_by_the_sizes_of_inputs_and_outputs(
    op: str, needed: dict[str, str], count: int, grown: int, inputs: Callable[..., Inputs]
) -> None:
    modes = {a.name: a.choices[0] for a in OPS[op].attributes} | needed
    for others in (0, 1, 30):
        sizes = [others] * count
        for exponent in (12, 15, 18) if others < 30 else (8, 11, 14):
            sizes[grown] = 1 << exponent
            given = inputs(*sizes)
            run(op, given, **modes)  # the session is made
            memory, steps, outputs = cost(lambda given=given: run(op, given, **modes))
            assert memory <= 2 * size_of([*given.values(), *outputs]) + SLACK, sizes
            assert steps <= STEPS * bound_of_time(op, modes, given, outputs) + FIXED_STEPS, sizes


def test_steps_are_counted() -> None:
    given = segment("SegmentSum", 1 << 16, 1 << 10, 4, "float16")
    _, steps, _ = cost(lambda: run("SegmentSum", given))
    assert steps > 1 << 16


@pytest.mark.parametrize("op", [op for op in OPS if "Segment" in op or "Bag" in op])
def test_rows_of_no_segment_are_not_made(op: str) -> None:
    """However wide they are: ONNX Runtime has such a tensor without taking memory for it."""
    width = 1 << 29
    plain = op.removeprefix("Quantized")
    given = bags(plain, 0, 0, 0, "float32", False) if "Bag" in op else segment(plain, 0, 0, 0, "float32")
    quantized = op.startswith("Quantized")
    rows = np.empty((0, width // 2), np.uint8) if quantized else np.empty((0, width), np.float32)
    given = {n: rows if n in ("data", "emb_table") else v for n, v in given.items()}
    if quantized:
        given = {"emb_table": rows, "scale_bias": np.empty((0, 1, 2), np.float32)} | given
    modes = {a.name: a.choices[-1] for a in OPS[op].attributes}  # one offset is then the end of no bag
    session = session_for(op, given, **modes)  # the first of a process registers the library, which takes memory once
    memory, steps, (output,) = cost(lambda: list(session.run(None, given)))
    assert output.shape == (0, width)
    assert memory <= SLACK
    assert steps <= FIXED_STEPS


def test_tables_of_keys_at_odd_addresses_are_not_copied() -> None:
    """Files of tensors align them as they like, and a table may have gigabytes."""
    content, offsets = join_text([f"key {number}" for number in range(1 << 14)])
    given = {
        "key_bytes": displaced(content),
        "key_offsets": displaced(offsets),
        "index": displaced(text_index(content, offsets)),
        "queries": np.array(["key 7", "none"], object),
    }
    session = session_for("FindStrings", given)
    memory, _, (positions,) = cost(lambda: list(session.run(None, given)))
    assert positions.tolist() == [7, -1]
    assert memory <= SLACK


@pytest.mark.slow
def test_no_task_of_any_operator_allocates() -> None:
    """The library ends the process where one does; inputs are large enough for many tasks."""
    assert sum(1 for _ in every_operator(threads=2)) > 50


def calls() -> Iterator[Any]:
    """Every operator on its examples, and on inputs that are large in one size: its name, inputs and attributes."""

    def example_inputs(op: Op, example: Example) -> Inputs:
        return as_arrays(op, example.types, example.inputs)

    for op in OPS.values():
        for example in op.examples:
            given = functools.partial(example_inputs, op, example)
            yield pytest.param(op.name, given, dict(example.attributes), id=f"{op.name} {example.name}")
    yield pytest.param("RaggedFillEmptyRows", shuffled_strings, {}, id="shuffled strings")
    long = functools.partial(segment, "UnsortedSegmentSum", 40_000, 2, 3, "float16")
    yield pytest.param("UnsortedSegmentSum", long, {}, id="long segments")
    few = functools.partial(segment, "UnsortedSegmentSum", 100, 1 << 16, 1, "int8")
    yield pytest.param("UnsortedSegmentSum", few, {}, id="few entries")
    for case in cases():
        name, needed, count, grown, inputs = case.values
        sizes = [30] * count
        sizes[grown] = 1 << (10 if name.startswith("Parse") else 13)  # a message has as many bytes as a long row
        for values in itertools.product(*(a.choices for a in OPS[name].attributes)):
            modes = {a.name: value for a, value in zip(OPS[name].attributes, values, strict=True)}
            made = functools.partial(inputs, *sizes)
            if needed.items() <= modes.items():
                yield pytest.param(name, made, modes, id=f"{case.id} large {' '.join(values)}", marks=pytest.mark.slow)


def assert_each_failure_is_an_error(
    call: Callable[[], Any], *, for_good: bool, keeps: bool = False, may_allocate_nothing: bool = False
) -> Any:
    """Let the first allocation of a call fail, then the second and so on, alone or with all after it.

    Each time the call must raise "out of memory" and leave no memory behind, unless it `keeps` what it has made for the
    next call. Returns what the call gives in the end: its result or its error.
    """
    assert LIBRARY is not None
    blocks = LIBRARY.onnx_sparse_allocations_blocks()
    for succeeding in range(10_000):
        LIBRARY.onnx_sparse_allocations_fail_after(succeeding, for_good)
        try:
            outcome = call()
        except Exception as error:
            outcome = error
        failed = LIBRARY.onnx_sparse_allocations_fail_after(-1, 0)
        if not failed:
            assert succeeding > 0 or may_allocate_nothing, "nothing is allocated"
            return outcome
        assert "out of memory" in str(outcome)
        assert keeps or LIBRARY.onnx_sparse_allocations_blocks() == blocks, "memory is lost"
    pytest.fail("the number of allocations is not bounded")


@pytest.mark.parametrize("for_good", [False, True])
def test_a_regular_expression_is_searched_slowly_where_memory_runs_out(for_good: bool) -> None:
    assert LIBRARY is not None
    session, texts = session_of("x*y|x"), {"x": np.array(["x" * 1500], object)}
    (expected,) = session.run(None, texts)
    right = 0
    for succeeding in range(10_000):
        LIBRARY.onnx_sparse_allocations_fail_after(succeeding, for_good)
        try:
            found = session.run(None, texts)[0].tolist()
        except Exception as error:
            found = str(error)
        if not LIBRARY.onnx_sparse_allocations_fail_after(-1, 0):
            break
        assert found == expected.tolist() or "out of memory" in found
        right += found == expected.tolist()
    assert right > 0


@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.name.startswith(("EmbeddingSegments", "Segment"))], ids=lambda op: op.name
)
def test_small_lookups_and_segments_allocate_nothing(op: Op) -> None:
    def allocated(example: Example) -> int:
        inputs = as_arrays(op, example.types, example.inputs)
        run(op.name, inputs, **example.attributes)  # makes the session
        return cost(lambda: run(op.name, inputs, **example.attributes))[0]

    assert min(map(allocated, op.examples)) == 0  # others have entries in any order, which are sorted


ONCE_OR_FOR_GOOD = pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])


@ONCE_OR_FOR_GOOD
@pytest.mark.parametrize(("op", "inputs", "attributes"), list(calls()))
def test_each_allocation_may_fail(
    op: str, inputs: Callable[[], Inputs], attributes: dict[str, str], for_good: bool
) -> None:
    given = inputs()
    expected = run(op, given, **attributes)
    outputs = assert_each_failure_is_an_error(
        lambda: run(op, given, **attributes), for_good=for_good, may_allocate_nothing=size_of([*given.values()]) < 1000
    )
    for got, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@ONCE_OR_FOR_GOOD
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_each_allocation_of_an_error_may_fail(op: Op, for_good: bool) -> None:
    def check_change(change: Change) -> None:
        @settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(illegal_arguments(op, a_binding(op), change))
        def check(illegal: tuple[Inputs, str]) -> None:
            inputs, message = illegal
            with pytest.raises(KernelError):
                run(op.name, inputs, **change.attributes)
            error = assert_each_failure_is_an_error(
                lambda: run(op.name, inputs, **change.attributes), for_good=for_good
            )
            assert message in str(error)

        check()

    for change in changes(op):
        check_change(change)


@ONCE_OR_FOR_GOOD
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_each_allocation_may_fail_when_a_session_is_made(op: Op, for_good: bool) -> None:
    types = tuple((i.name, op.bind(i.type, a_binding(op))) for i in op.inputs)
    legal = {a.name: a.choices[0] for a in op.attributes}
    # One attribute of another type and one of another value; the other names and values take the same way.
    kinds = ("is not a string", "is not one of")
    illegal = [next((a for a, message in illegal_attributes(op) if kind in message), None) for kind in kinds]
    for attributes in (a for a in [legal, *illegal] if a is not None):
        model = one_node(op, types, attributes).SerializeToString()

        def make(model: bytes = model) -> None:
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(onnx_sparse.get_library_path())
            ort.InferenceSession(model, options)

        error = assert_each_failure_is_an_error(make, for_good=for_good)
        assert (error is None) == (attributes == legal)


_FIRST_REGISTRATION = """
import sys
import onnxruntime as ort
import onnx_sparse
from contract.models import SEGMENT_SUM
from native.test_allocations import LIBRARY, assert_each_failure_is_an_error

def register():
    options = ort.SessionOptions()
    options.register_custom_ops_library(onnx_sparse.get_library_path())
    return options

if sys.argv[1] == "never":
    options = register()
else:
    options = assert_each_failure_is_an_error(register, for_good=sys.argv[1] == "for good", keeps=True)
ort.InferenceSession(SEGMENT_SUM.SerializeToString(), options)
print(LIBRARY.onnx_sparse_allocations_blocks())
"""


def test_each_allocation_may_fail_when_the_library_is_first_registered() -> None:
    """In the end it holds as many blocks as if none had failed."""

    def blocks(failing: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_REGISTRATION, failing],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert blocks("once") == blocks("for good") == blocks("never")
