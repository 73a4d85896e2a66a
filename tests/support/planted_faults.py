"""Planted faults: one node of a right model is changed, and verification must find it.

`python -m support.planted_faults --answers` plants faults in what right models answer, by kind (`planted_answers`).

`python -m support.planted_faults` converts models of TensorFlow, OpenVINO and torch, verifies each, plants faults in it
(an operator, an axis, a constant, a permutation, an end of a slice, an id that is off by one) and verifies the wrong
models as they are: their inputs are made from the wrong operators. It prints the faults that were not found.

A fault that changes no answer is no fault. Whether it does is not left to verification: the right and the wrong model
run in ONNX Runtime on batches that were written by hand for the right one, on those with their values moved, scaled and
exchanged, and on generated ones of other seeds. On hundreds of these they must agree for a fault to be left out.
Batches that TensorFlow refuses, or on which it answers otherwise than the right model, do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

_EXCHANGED = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Greater": "GreaterOrEqual",
    "GreaterOrEqual": "Greater",
    "Less": "LessOrEqual",
    "LessOrEqual": "Less",
    "Equal": "GreaterOrEqual",
    "Max": "Min",
    "Min": "Max",
    "ReduceMax": "ReduceMin",
    "ReduceMin": "ReduceMax",
    "ReduceMean": "ReduceSum",
    "ReduceSum": "ReduceMean",
    "ArgMax": "ArgMin",
    "And": "Or",
    "Or": "And",
    "Relu": "Identity",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Floor": "Ceil",
    "EmbeddingSegmentsMean": "EmbeddingSegmentsSum",
    "EmbeddingSegmentsSum": "EmbeddingSegmentsMean",
    "EmbeddingBagOffsetsMean": "EmbeddingBagOffsetsSum",
    "EmbeddingBagOffsetsSum": "EmbeddingBagOffsetsMean",
    "SegmentMax": "SegmentMin",
    "SegmentMean": "SegmentSum",
    "UnsortedSegmentMax": "UnsortedSegmentMin",
}

_WITH_AXIS = ("Concat", "Softmax", "LogSoftmax", "CumSum", "Gather", "ArgMax", "TopK")

#: The operators a constant of which is changed, with the input that is changed; -1 for any.
_WITH_CONSTANTS = {
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Where"], -1),
    **dict.fromkeys(["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"], -1),
    "Pad": 1,
    "TopK": 1,
}

_KINDS = ("operator", "axis", "constant", "order", "slice", "id")

#: Larger constants are weights.
_MOST_ELEMENTS = 16

#: How often each batch is varied, and how many generated batches of other seeds there are.
_VARIATIONS, _OTHER_SEEDS = 12, range(1000, 1040)


def faults(model: ModelProto, rng: np.random.Generator, count: int) -> Iterator[tuple[str, ModelProto]]:
    """Models with one fault each, and what it is."""
    sites = [(kind, k) for k, node in enumerate(model.graph.node) for kind in _KINDS if _applies(model, node, kind)]
    for place in rng.permutation(len(sites))[:count]:
        kind, k = sites[place]
        wrong = ModelProto()
        wrong.CopyFrom(model)
        node = wrong.graph.node[k]
        what = f"{kind} of {node.op_type} {node.name or node.output[0]}"
        _plant(wrong, k, kind, rng)
        yield what, wrong


def _applies(model: ModelProto, node: NodeProto, kind: str) -> bool:
    names = {attribute.name for attribute in node.attribute}
    if kind == "operator":
        return node.op_type in _EXCHANGED
    if kind == "axis":
        return node.op_type in _WITH_AXIS and "axis" in names
    if kind == "order":
        return node.op_type == "Transpose" and "perm" in names
    if kind == "slice":
        return node.op_type == "Slice" and _changeable(model, node, [1, 2]) is not None
    if kind == "id":
        return node.op_type in ("Gather", "EmbeddingSegmentsSum", "EmbeddingSegmentsMean")
    place = _WITH_CONSTANTS.get(node.op_type)
    return place is not None and _changeable(model, node, range(len(node.input)) if place < 0 else [place]) is not None


def _changeable(model: ModelProto, node: NodeProto, places: Iterable[int]) -> int | None:
    """The place of a constant of a few numbers."""
    small = {t.name for t in model.graph.initializer if 0 < np.prod(t.dims) <= _MOST_ELEMENTS and t.data_type != 8}
    return next((k for k in places if k < len(node.input) and node.input[k] in small), None)


def _plant(model: ModelProto, position: int, kind: str, rng: np.random.Generator) -> None:
    node = model.graph.node[position]
    if kind == "operator":
        node.op_type = _EXCHANGED[node.op_type]
    elif kind == "axis":
        axis = next(a for a in node.attribute if a.name == "axis")
        axis.i = 0 if axis.i else 1
    elif kind == "order":
        order = next(a for a in node.attribute if a.name == "perm")
        one, other = rng.choice(len(order.ints), 2, replace=False)
        order.ints[one], order.ints[other] = order.ints[other], order.ints[one]
    elif kind == "id":
        indices, dtype = node.input[1], _integer_type(model, node.input[1])
        model.graph.initializer.append(numpy_helper.from_array(np.array(1, dtype), "planted_one"))
        node.input[1] = "planted"
        model.graph.node.insert(position, helper.make_node("Sub", [indices, "planted_one"], ["planted"]))
    else:
        places = [1, 2] if kind == "slice" else range(len(node.input))
        place = _WITH_CONSTANTS.get(node.op_type, -1)
        place = _changeable(model, node, places) if place < 0 else place
        assert place is not None
        tensor = next(t for t in model.graph.initializer if t.name == node.input[place])
        value = numpy_helper.to_array(tensor).copy()
        at = rng.integers(value.size)
        changed = not value.ravel()[at] if value.dtype == bool else value.ravel()[at] + 1
        value.reshape(-1)[at] = changed
        model.graph.initializer.append(numpy_helper.from_array(value, "planted"))
        node.input[place] = "planted"


def _integer_type(model: ModelProto, name: str) -> Any:
    known = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.value_info, *model.graph.input)}
    known |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return np.int32 if known.get(name) == 6 else np.int64


class Answers:
    """What a right model answers to many batches, and whether another one answers the same."""

    def __init__(self, right: Any) -> None:
        self._right = right
        self._run = _runner(right.model)
        self._known: list[tuple[Mapping[str, Array], list[Array]]] | None = None

    def differ(self, wrong: ModelProto) -> bool:
        """Whether a model answers a batch otherwise, or refuses it."""
        run = _runner(wrong)
        for batch, expected in self._all():
            try:
                got = run(batch)
            except Exception:  # whatever ONNX Runtime raises
                got = None
            if (got is None or not _equal(expected, got)) and self._is_legal(batch, expected):
                return True
        return False

    def _is_legal(self, batch: Mapping[str, Array], expected: list[Array]) -> bool:
        """Whether the source takes a batch that the right model takes, with the same answer."""
        if self._right.source is None:
            return True
        try:
            return _equal(self._right.source(batch), expected)
        except Exception:  # whatever the source raises
            return False

    def _all(self) -> list[tuple[Mapping[str, Array], list[Array]]]:
        if self._known is None:
            self._known = []
            for batch in self._batches():
                try:
                    self._known.append((batch, self._run(batch)))
                except Exception:  # the right model refuses it: not a legal batch
                    continue
        return self._known

    def _batches(self) -> Iterator[Mapping[str, Array]]:
        from onnx_sparse.converters.verification.verify import example_inputs

        rng = np.random.default_rng(7)
        for batch in self._right.batches:
            yield batch
            yield from (_varied(batch, rng) for _ in range(_VARIATIONS))
        for seed in _OTHER_SEEDS if not self._right.batches else _OTHER_SEEDS[:6]:
            batch = example_inputs(self._right.model, seed=seed)
            yield batch
            yield _varied(batch, rng)


def _equal(expected: Sequence[Array], got: Sequence[Array]) -> bool:
    from onnx_sparse.converters.verification.comparison import compare

    return all(compare("", want, have, "").ok for want, have in zip(expected, got, strict=True))


def _varied(batch: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """A batch with its values moved, scaled, made whole, or exchanged; shapes stay."""
    return {name: _other_values(value, rng) for name, value in batch.items()}


def _other_values(value: Array, rng: np.random.Generator) -> Array:
    way = int(rng.integers(4))
    if not value.size or way == 0:
        return value
    if way == 1 or value.dtype.kind not in "fiu":
        return rng.permutation(value.ravel()).reshape(value.shape)
    if value.dtype.kind == "f":
        moved = value * rng.choice([0.1, 3, 10]) + rng.integers(-2, 3)
        return (np.rint(moved) if way == 2 else moved).astype(value.dtype)
    return rng.integers(value.min(), value.max() + 1, value.shape).astype(value.dtype)


def _runner(model: ModelProto) -> Any:
    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.verification.verify import as_text

    session: Any = None

    def run(batch: Mapping[str, Array]) -> list[Array]:
        nonlocal session
        session = session or InferenceSession(model)
        taken = {value.name for value in session.get_inputs()}
        given = {name: value for name, value in batch.items() if name in taken}
        return [as_text(np.asarray(value)) for value in session.run(None, given)]

    return run


def examine(right: Any, rng: np.random.Generator, count: int) -> Iterator[tuple[str, str]]:
    """Plant faults in a model: what became of each ("found", "missed", "no fault"), and what it is.

    A right model that is not called equal is a "false alarm", and gets no faults.
    """
    alarm = [record for record in right.verify(right.model) if not record.ok]
    if alarm:
        yield "false alarm", f"{alarm[0].verdict}: {alarm[0].note[:200]}"
        return
    answers = Answers(right)
    for what, wrong in faults(right.model, rng, count):
        if any(not record.ok for record in right.verify(wrong)):
            yield "found", what
        else:
            yield ("missed" if answers.differ(wrong) else "no fault"), what


def main() -> None:
    """Plant faults and count those that are found."""
    from support import planted_fault_sources as sources
    from support.planted_answers import examine as examine_answers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20, help="how many specifications of messages (default: 20)")
    parser.add_argument("--faults", type=int, default=8, help="how many faults for each model (default: 8)")
    parser.add_argument("--model", default="", help="only models whose name has this in it")
    parser.add_argument("--source", choices=["messages", "tensorflow", "openvino", "torch"], help="only this source")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--answers", action="store_true", help="plant faults in the answers, instead of the models")
    arguments = parser.parse_args()

    def chosen(name: str) -> bool:
        return arguments.model in name

    every: dict[str, Any] = {
        "messages": lambda: sources.from_messages(range(arguments.messages)),
        "tensorflow": lambda: sources.from_tensorflow(chosen),
        "openvino": lambda: sources.from_openvino(chosen),
        "torch": lambda: sources.from_torch(chosen),
    }
    totals: dict[str, Counter[str]] = {}
    kinds: dict[str, Counter[str]] = {}
    for source, make in every.items():
        if arguments.source not in (None, source):
            continue
        totals[source] = Counter()
        for right in make():
            rng = np.random.default_rng(arguments.seed)
            totals[source]["models"] += 1
            examined = examine_answers(right, _runner(right.model)) if arguments.answers else None
            for outcome, what in examined or examine(right, rng, arguments.faults):
                totals[source][outcome] += 1
                if arguments.answers and outcome != "false alarm":
                    kinds.setdefault(what.partition(" (")[0], Counter())[outcome] += 1
                if outcome in ("missed", "false alarm"):
                    sys.stdout.write(f"{right.name}: {outcome}: {what}\n")
                    sys.stdout.flush()
    for kind, counts in kinds.items():
        share = counts["found"] / max(counts["found"] + counts["missed"], 1)
        sys.stdout.write(f"{kind}: {share:.1%} of {counts['found'] + counts['missed']} found\n")
    for source, counts in totals.items():
        sys.stdout.write(f"{source}: {', '.join(f'{count} {what}' for what, count in counts.items())}\n")


if __name__ == "__main__":
    main()
