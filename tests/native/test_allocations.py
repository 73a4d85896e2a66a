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
from contract.example_messages import INT64, STRING, entry, feature, field, message
from contract.illegal import Change, a_binding, as_arrays, changes, illegal_arguments, illegal_attributes
from hypothesis import HealthCheck, given, settings
from native.sessions import Array, one_node, run, session_for
from native.test_threads import every_operator

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.runtime import available_backends
from onnx_sparse.schemas import OPS, Example, Op
from onnx_sparse.schemas.strings import FAMILY as TEXT

Inputs = dict[str, Array]

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
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs the build that watches allocations")


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


def segment(op: str, entries: int, segments: int, width: int, dtype: str) -> Inputs:
    random = np.random.default_rng(0)
    ids = random.integers(0, max(segments, 1), entries)
    data = np.ones((entries, width), dtype)
    sizes = {"num_segments": np.array(segments)}
    if op.startswith("Unsorted"):
        return {"data": data, "segment_ids": ids if segments else ids - 1, **sizes}
    if op.startswith("Segment"):
        return {"data": data, "segment_ids": np.sort(ids), **sizes}
    indices = np.zeros(entries, np.int64)
    return {"emb_table": np.ones((1, width), dtype), "indices": indices, "segment_ids": np.sort(ids), **sizes}


def bags(op: str, entries: int, offsets: int, width: int, dtype: str, padded: bool) -> Inputs:
    """Entries of two rows, half of them perhaps padding; there are as many offsets as asked for, or one.

    Where there are several, the last is the number of entries, as it must be where it begins no bag.
    """
    starts = np.arange(offsets) * entries // max(offsets - 1, 1)
    given = {
        "emb_table": np.ones((2, width), dtype),
        "indices": np.arange(entries, dtype=np.int32) % 2,
        "offsets": starts.astype(np.int32) if offsets else np.zeros(1, np.int32),
        "default_index": np.array(-1, np.int32),
        "per_sample_weights": np.ones(entries, dtype),
        "padding_index": np.array(padded - 1, np.int32),
    }
    return {i.name: given[i.name] for i in OPS[op].inputs}


def quantized(op: str, entries: int, groups: int, width: int, dtype: str) -> Inputs:
    plain = op.removeprefix("Quantized")
    sizes = (entries, groups, width, dtype)
    given = bags(plain, *sizes, True) if "Bag" in op else segment(plain, *sizes)
    rows = len(given["emb_table"])
    return given | {"emb_table": np.ones((rows, width), np.uint8), "scale_bias": np.ones((rows, 1, 2), dtype)}


def shuffled_entries(
    entries: int, segments: int, width: int, dtype: str, every_second_is_dropped: bool = False
) -> Inputs:
    given = segment("EmbeddingSegmentsSum", entries, max(segments, 1), width, dtype)
    given["indices"][::2] -= every_second_is_dropped
    given = {n: a.astype(np.int32) if n != "emb_table" else a for n, a in given.items()}
    given["segment_ids"] = np.random.default_rng(1).permutation(given["segment_ids"])
    return given | {"default_index": np.array(-1, np.int32), "per_sample_weights": np.ones(entries, dtype)}


def sparse(op: str, entries: int, rows: int, rank: int, sort: bool) -> Inputs:
    rows = max(rows, 1)
    at = np.random.default_rng(0).integers(0, rows, entries)
    at = np.sort(at) if sort else at
    values = {"values": np.ones(entries, np.int8), "default_value": np.array(0, np.int8)}
    if op.startswith("Ragged"):
        return {"value_rowids": at, "nrows": np.array(rows), **values}
    rank = max(rank, 1)
    indices = np.zeros((entries, rank), np.int32)
    indices[:, 0] = at
    return {"dense_shape": np.full(rank, rows, np.int32), "indices": indices, **values}


def reshape(entries: int, before: int, after: int) -> Inputs:
    return {
        "input_indices": np.zeros((entries, before), np.int64),
        "input_shape": np.ones(before, np.int64),
        "new_shape": np.ones(after, np.int64),
    }


def masked(rows: int, columns: int, narrow: bool) -> Inputs:
    mask = np.ones(columns if narrow else (rows, columns), np.int8)
    return {"x": np.ones((rows, columns), np.int8), "mask": mask, "value": np.array(2, np.int8)}


def strings(op: str, count: int, length: int) -> Inputs:
    keys = {"key_0": np.array(1), "key_1": np.array(2)} if op.endswith("Strong") else {}
    return {"input": np.array(["x" * length] * count, object), "num_buckets": np.array(7), **keys}


def text(op: str, count: int, length: int) -> Inputs:
    words, by, none = (np.array(t, object) for t in (["x, y" * (length // 4)] * count, ", ", ""))
    splits, numbers = np.array([0, count // 2, count]), np.zeros(count, np.int64)
    ngrams = {"data": words, "data_splits": splits, "ngram_widths": np.array([1, 2]), "separator": by}
    pads = {"left_pad": none, "right_pad": none, "pad_width": np.array(0), "preserve_short_sequences": np.array(True)}
    replaced = {"input": words, "ranges": np.array([[44, 44]]), "rewrite": np.array(["; "], object)}
    encoded = {"input_values": numbers.astype(np.int32), "input_splits": splits}
    stand_in = {"replacement_char": np.array(63, np.int32)}
    inputs: dict[str, Inputs] = {
        "RaggedStringSplit": {"input": words, "separator": by, "max_splits": np.array(-1)},
        "RaggedReduceJoin": {"values": words, "row_splits": splits, "separator": by},
        "ReplaceCharacters": replaced,
        "StringNGrams": ngrams | pads,
        "StringLength": {"input": words},
        "Substr": {"input": words, "pos": numbers, "len": numbers + 3},
        "StringStrip": {"input": words},
        "StringCase": {"input": words},
        "UnicodeDecode": {"input": words} | stand_in,
        "UnicodeEncode": encoded | stand_in,
        "AsString": {"input": numbers, "precision": np.array(-1), "width": np.array(min(length, 4096))},
    }
    return inputs[op]


def parsed(features: int, messages: int, length: int) -> Inputs:
    """Features of one value, some of them missing, and a list."""
    entries = [entry(b"%d" % f, feature(INT64, [b"\1"])) for f in range(features) if f % 3]
    content = message(*entries, entry(b"list", feature(STRING, [b"x" * 9] * length)))
    keys = [*map(str, range(features)), "list"]
    return {
        "serialized": onnx_sparse.example_array([content] * messages),
        "keys": np.array(keys, object),
        "types": np.array([INT64] * features + [STRING]),
        "sizes": np.array([1] * features + [-1]),
        "required": np.zeros(features + 1, bool),
        "unset_is_empty": np.zeros(features + 1, bool),
        "sparse": np.ones(features + 1, bool),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.arange(features),
        "string_defaults": np.zeros(0, object),
    }


def sequences(messages: int, steps: int, length: int) -> Inputs:
    """A string in the context, a number that is missing, and a feature list."""
    step = field(0x0A, feature(INT64, [b"\1"] * length))
    content = message(entry(b"name", feature(STRING, [b"x" * 9]))) + field(0x12, entry(b"list", step * steps))
    return {
        "serialized": onnx_sparse.example_array([content] * messages),
        "keys": np.array(["name", "other", "list"], object),
        "types": np.array([STRING, INT64, INT64]),
        "sizes": np.array([1, 1, -1]),
        "required": np.zeros(3, bool),
        "in_lists": np.array([False, False, True]),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.arange(1),
        "string_defaults": np.array([""], object),
    }


def filled(rows: int, columns: int) -> Inputs:
    return {"dims": np.array([rows, columns]), "value": np.array(2, np.int8)}


def cases() -> Iterator[Any]:
    """An operator, the attributes that its inputs need, and a function from its sizes to inputs, for every size that an
    input or an output has."""
    for op in OPS:
        made: list[tuple[str, int, Callable[..., Inputs]]] = []
        if op.startswith("EmbeddingBagOffsets"):
            for dtype in ("int8", "float16", "float64"):
                if dtype != "int8" or op.endswith(("Sum", "Max")):
                    for padded in (False, True):
                        name = f"{dtype}{' padded' * padded}"
                        made.append(
                            (name, 3, lambda *s, op=op, dtype=dtype, padded=padded: bags(op, *s, dtype, padded))
                        )
        elif op.startswith("Quantized"):
            for dtype in ("float16", "float32"):
                made.append((dtype, 3, lambda *s, op=op, dtype=dtype: quantized(op, *s, dtype)))
        elif "Segment" in op:
            for dtype in ("int8", "float16", "float64"):
                if dtype != "int8" or not op.startswith("EmbeddingSegments") or op.endswith("Sum"):
                    made.append((dtype, 3, lambda *s, op=op, dtype=dtype: segment(op, *s, dtype)))
        elif op.endswith("FillEmptyRows"):
            for sort in (False, True):
                made.append(("sorted" if sort else "shuffled", 3, lambda *s, op=op, sort=sort: sparse(op, *s, sort)))
        elif op == "SparseReshape":
            made.append(("", 3, reshape))
        elif op == "MaskedFill":
            made.extend(("narrow" if n else "whole", 2, lambda *s, n=n: masked(*s, n)) for n in (False, True))
        elif op.startswith("StringToHashBucket"):
            made.append(("", 2, functools.partial(strings, op)))
        elif any(op == declared.name for declared in TEXT.ops):
            made.append(("", 2, functools.partial(text, op)))
        elif op == "ParseExample":
            made.append(("", 3, parsed))
        elif op == "ParseSequenceExample":
            made.append(("", 3, sequences))
        else:
            made.append(("", 2, filled))
        for name, count, inputs in made:
            for grown in range(count):
                yield pytest.param(op, {}, count, grown, inputs, id=f"{op} {name} size {grown}")
    for dtype in ("int8", "float32"):
        for grown in range(3):
            shuffled = functools.partial(shuffled_entries, dtype=dtype)
            case = f"EmbeddingSegmentsSum {dtype} shuffled size {grown}"
            order = {"segment_ids_order": "any"}
            yield pytest.param("EmbeddingSegmentsSum", order, 3, grown, shuffled, id=case)
            half = functools.partial(shuffled_entries, dtype=dtype, every_second_is_dropped=True)
            yield pytest.param(
                "EmbeddingSegmentsSum", order | {"negative_indices": "drop"}, 3, grown, half, id=f"{case} dropped"
            )


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


def shuffled_strings() -> Inputs:
    words = np.array(["a" * 50, "b" * 60, "c"], object)
    default = np.array("d" * 40, object)
    return {"value_rowids": np.array([2, 0, 2]), "values": words, "nrows": np.array(9), "default_value": default}


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
