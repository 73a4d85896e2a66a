"""Drawn calls of operators are equal to TensorFlow's kernels or refused; a longer walk is `support.random_kernels`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

pytest.importorskip("tensorflow")

from onnx import TensorProto
from support.random_kernels import results
from support.tensorflow_kernels import Input, Row, Trial, drawn, has_ids, outcome, trials, with_ids_beyond
from tensorflow_kernel_rows import ELEMENTWISE, ROWS

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers import HANDLERS
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter

Made = Tensor | tuple[Tensor, ...]
Fault = Callable[[Callable[..., Made], Node, TensorFlowEmitter], Made]


def test_drawn_calls_are_equal_or_refused() -> None:
    found = list(results(7_000_000, 200))
    wrong = [f"{operator}: {outcome}" for operator, outcome in found if outcome.startswith(("wrong", "death"))]
    assert not wrong, "\n".join(wrong)
    counts = Counter(outcome.partition(":")[0] for _, outcome in found)
    assert counts["equal"] > 100, counts


def _calls(op: str, count: int) -> list[Trial]:
    rows = [row for row in ROWS if row.op == op]
    return [drawn(rows[seed % len(rows)], seed) for seed in range(count)]


#: What the errors of malformed input say; of TensorFlow's operators, some do not look.
_MALFORMED = re.compile(
    r"out of range|out of data bounds|row-major order|Split node|is repeated|the last row split|must be between"
)
#: TensorFlow's RaggedGather ends its process.
OF_IDS = [row for row in ROWS if has_ids(row) and row.op != "RaggedGather"]


@pytest.mark.parametrize("row", OF_IDS, ids=[f"{row.op}-{k}" for k, row in enumerate(OF_IDS)])
def test_ids_of_nothing_are_refused_or_make_no_difference(row: Row) -> None:
    """A model may refuse ids that TensorFlow does not look at, as those of empty rows; it gives no other answer."""
    for seed in range(3):
        try:
            outcome(with_ids_beyond(drawn(row, seed)))
        except AssertionError as error:
            if not _MALFORMED.search(str(error)):
                raise


def test_the_draw_reaches_what_it_claims() -> None:
    """Ranks 0 to 5, sizes of 0, operands that are broadcast, constants, ends of types, known and unknown sizes."""
    (addition,) = (each for each in ELEMENTWISE if each.op == "AddV2")
    calls = [drawn(addition, seed) for seed in range(300)]
    inputs = [call.inputs["x"] for call in calls]
    assert {len(each.sizes) for each in inputs} == {0, 1, 2, 3, 4, 5}
    assert any("1" in each.sizes for each in inputs)
    assert any(0 in call.dims.values() for call in calls)
    assert {each.is_constant for each in inputs} == {each.has_ends for each in inputs} == {True, False}
    assert {call.are_sizes_known for call in calls} == {each.is_rank_known for each in inputs} == {True, False}
    assert len({call.types["T"] for call in calls}) > 8


@pytest.mark.parametrize("operator", ["RaggedTensorToSparse", "ReduceJoin", "Roll", "Cumprod", "Conv2D"])
def test_inputs_of_unknown_rank(operator: str) -> None:
    """No rank is taken for the only one because it is the only one that is converted."""

    def fed(given: Input | Sequence[Input]) -> Input | list[Input]:
        return (
            replace(given, is_rank_known=False, is_constant=False) if isinstance(given, Input) else [*map(fed, given)]
        )

    found = Counter(
        outcome(replace(trial, inputs={name: fed(given) for name, given in trial.inputs.items()})).partition(":")[0]
        for row in ROWS
        if row.op == operator
        for trial in trials(row)
        if trial.name in ("plain", "sizes known") or "choice" in trial.name
    )
    assert found["equal"], found


def _lower_bound_first(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    return emit.extreme("Min", emit.extreme("Max", node["t"], node["clip_value_min"]), node["clip_value_max"])


def _through_float(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    x, y = (emit.cast(node[name], TensorProto.FLOAT) for name in "xy")
    return emit.cast(emit.op("Max", x, y), node["x"].dtype)


def _last_of_equal_ones(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    axis = node["input"].axis(node["dimension"].integer("dimension"))
    found = emit.op("ArgMax", node["input"], axis=axis, keepdims=0, select_last_index=1)
    return emit.cast(found, node.dtypes[0])


def _without_separator(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    first, *rest = node.all("inputs")
    _ = node.attributes["separator"]
    for each in rest:
        first = emit.node("StringConcat", [first, each], [TensorProto.STRING])[0]
    return first


def _nothing_is_negative(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    return emit.op("Mod", node["x"], node["y"], fmod=1)


def _second_axis(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    return emit.op("Softmax", node["logits"], axis=min(1, node["logits"].rank - 1))


def _entries_only_added(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    reduced = made(node, emit)
    assert isinstance(reduced, Tensor)
    return emit.op("Abs", reduced)


def _smallest(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    x, k = node["input"], emit.op("Reshape", emit.cast(node["k"], TensorProto.INT64), emit.constant([1]))
    _ = node.attributes.get("sorted")
    values, places = emit.ops("TopK", [x, k], [x.dtype, TensorProto.INT64], largest=0)
    return values, emit.cast(places, node.dtypes[1])


def _places_of_others(made: Callable[..., Made], node: Node, emit: TensorFlowEmitter) -> Made:
    values, places = made(node, emit)
    return values, emit.op("Sub", places, emit.op("Sign", places))


@pytest.mark.parametrize(
    ("operator", "fault"),
    [
        ("ClipByValue", _lower_bound_first),
        ("Maximum", _through_float),
        ("ArgMax", _last_of_equal_ones),
        ("StringJoin", _without_separator),
        ("FloorMod", _nothing_is_negative),
        ("Softmax", _second_axis),
        ("SparseReduceMax", _entries_only_added),
        ("TopKV2", _smallest),
        ("TopKV2", _places_of_others),
    ],
)
def test_planted_faults_are_found(operator: str, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is found, also where `TopKV2` may return its results in any order."""
    handler = HANDLERS[operator]
    wrong = replace(handler, function=lambda node, emit: fault(handler.function, node, emit))
    monkeypatch.setitem(HANDLERS, operator, wrong)
    calls = [each for each in _calls(operator, 200) if not each.attributes.get("sorted")]
    with pytest.raises(AssertionError, match=operator):
        Counter(map(outcome, calls))
