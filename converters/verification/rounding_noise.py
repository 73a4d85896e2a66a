"""The rounding noise of outputs, measured: what is left of numbers that cancel is as large as their last digits.

A source and its model, and the model with other weights, run on inputs whose floats are moved by one unit in the last
place. How far an output moves is its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from onnx_sparse.comparison import TOLERANCES, is_float, relative_tolerance
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.files.large_models import whole_size
from onnx_sparse.models.graphs import array_of, graphs
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Sequence[Array]]

#: How often inputs, and weights, are moved, and how many times as far as an output then moves it may differ. Of two
#: moves of weights, one element in seven shows less than half of what it moves by in the mean.
_MOVES, _WEIGHT_MOVES, _TIMES = 4, 8, 4

#: No more of an output's magnitude is noise: a step, as of a comparison, is none.
_MOST = 1e-2

#: The steps of a model that quantizes are, up to this part: a number near the middle between two of them may become
#: either. An element may differ by the largest step that was seen in its output if, in the root of the mean square,
#: all elements differ by at most so many times as much as they were seen to move: such steps are rare, faults are not.
_MOST_OF_STEPS, _TIMES_OF_STEPS = 5e-2, 2

#: Two programs' sums of many products differ by more than the last digit: if moves by it do not show the steps, inputs
#: are moved by so many times as much.
_FAR = 4

#: Operators that quantize, and those between a Round and the products with a scale before and after it.
_QUANTIZING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})
_BETWEEN = frozenset({"Add", "Cast", "Clip", "Max", "Min", "Sub", "Where"})
_SCALING = frozenset({"Div", "Mul"})

#: The units in the last place of numbers in [1, 2), by the least exact type that a model computes with.
_UNITS = {"float64": 2.0**-23, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}

#: The weights of larger models are not moved. All copies of a model together have at most twice as many bytes, but of
#: one that quantizes.
_MOST_BYTES = 1 << 28


class RoundingNoise:
    """Measures the noise of outputs.

    Args:
        source: Runs the source.
        model: Runs the model.
        with_other_weights: Returns what runs the model with moved weights; called when it is first needed.
        kept: Numbers at which answers change: inputs that are equal to one are not moved.
        computed: The half-float types that the model computes with.
        has_steps: Whether the model quantizes.
    """

    def __init__(
        self,
        source: Run,
        model: Run,
        with_other_weights: Callable[[], Sequence[Run]] = list,
        *,
        kept: Collection[float] = (),
        computed: Collection[str] = (),
        has_steps: bool = False,
    ) -> None:
        self.source, self.model, self._with_other_weights = source, model, with_other_weights
        self.computed = computed
        self.has_steps = has_steps
        self.kept = np.array(sorted({*kept}), np.float64)

    def of(
        self, feeds: Mapping[str, Array], want: Sequence[Array], got: Sequence[Array], magnitudes: Sequence[Array]
    ) -> list[Array]:
        """What the elements of each output may differ by on a batch; 0 for what is not a float.

        Args:
            feeds: The batch.
            want: What the source makes of it.
            got: What the model makes of it.
            magnitudes: The magnitudes of the outputs over all batches.
        """
        of_source, of_model, is_measured = self._spreads(self._moved_runs(feeds, want, got, self.others), want)
        largest = max(map(_largest, feeds.values()), default=0.0)
        if not is_measured:  # nothing can be moved
            return [self._tenth(value, _largest(value)) for value in want]
        floors = []
        for k, (value, magnitude, source, model) in enumerate(zip(want, magnitudes, of_source, of_model, strict=True)):
            absolute = self._tenth(value, max(1.0, largest, float(np.max(magnitude, initial=0))))
            part = np.broadcast_to(_MOST * magnitude if is_float(value) else 0.0, value.shape)
            # A wrong model may move as it likes, its source may not. Where most elements are small, as in a
            # distribution with a peak, the magnitude is theirs, and the peak's noise is a part of itself.
            own = _MOST * _finite(value) if is_float(value) else part
            limits = (
                (source, np.maximum(np.maximum(part, own), absolute)),
                (model, np.where(part > 0, part, absolute)),
            )
            floor = np.maximum(*(_limited(spread, most) for spread, most in limits))
            if self.has_steps and is_float(value):
                apart, most = _apart(value, got[k]), _MOST_OF_STEPS * magnitude
                steps = np.minimum(np.maximum(source, model), most)
                if apart.max(initial=0) > _step(apart, steps):
                    far = self._moved_runs(feeds, want, got, (), _FAR)
                    far_source, far_model, _ = self._spreads(far, want)
                    steps = np.maximum(steps, np.minimum(np.maximum(far_source[k], far_model[k]), most))
                floor = np.maximum(floor, _step(apart, steps))
            floors.append(floor)
        return floors

    def _tenth(self, want: Array, of: float) -> Array:
        return np.full(want.shape, 0.1 * relative_tolerance(want, self.computed) * of if is_float(want) else 0.0)

    @staticmethod
    def _spreads(
        runs: Iterable[tuple[bool, Sequence[Array], Sequence[Array]]], want: Sequence[Array]
    ) -> tuple[list[Array], list[Array], bool]:
        """How far moves move the elements of the source's outputs, and of the model's; and whether there is a move."""
        of_source, of_model = ([np.zeros(value.shape) for value in want] for _ in range(2))
        is_measured = False
        for is_source, base, moved in runs:
            is_measured = True
            for spread, before, after in zip(of_source if is_source else of_model, base, moved, strict=True):
                if is_float(before) and before.shape == after.shape == spread.shape:
                    np.maximum(spread, _apart(before, after), out=spread)
        return of_source, of_model, is_measured

    def _moved_runs(
        self,
        feeds: Mapping[str, Array],
        want: Sequence[Array],
        got: Sequence[Array],
        others: Sequence[Run],
        far: int = 1,
    ) -> Iterator[tuple[bool, Sequence[Array], Sequence[Array]]]:
        """Whether the source ran, what outputs are, and what they are after a move; one that a program refuses says
        nothing. Inputs are moved by `far` units."""
        rng = np.random.default_rng(0)
        drawn = [
            {name: self._moved(value, far * self._unit, rng) for name, value in feeds.items()} for _ in range(_MOVES)
        ]
        batches = [b for b in drawn if any(not np.array_equal(b[n], feeds[n], equal_nan=is_float(b[n])) for n in b)]
        runs = [(want, self.source, batch) for batch in batches] + [(got, self.model, batch) for batch in batches]
        for base, run, batch in [*runs, *((got, other, feeds) for other in others)]:
            try:
                yield base is want, base, run(batch)
            except Exception:  # whatever programs raise
                continue

    def _moved(self, value: Array, unit: float, rng: np.random.Generator) -> Array:
        return moved(value, unit, rng, self.kept) if is_float(value) else value

    @cached_property
    def others(self) -> Sequence[Run]:
        """What runs the model with moved weights."""
        return self._with_other_weights()

    @cached_property
    def _unit(self) -> float:
        return max(_UNITS[name] for name in ("float32", *self.computed))


def _limited(spread: Array, most: Array) -> Array:
    spread = np.minimum(spread, most)
    return np.asarray(np.minimum(_TIMES * np.maximum(spread, _typical(spread)), most))


def _apart(one: Array, other: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(np.abs(one.astype(np.float64) - other.astype(np.float64)), posinf=0))


def _step(apart: Array, seen: Array) -> float:
    """The largest step that was seen; 0 if the elements of an output differ by more than rare steps explain."""
    is_rare = apart.shape == seen.shape and _typical(apart) <= _TIMES_OF_STEPS * _typical(seen)
    return float(seen.max(initial=0)) if is_rare else 0.0


def _typical(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _largest(value: Array) -> float:
    return float(_finite(value).max(initial=0)) if is_float(value) else 0.0


def _finite(value: Array) -> Array:
    """The sizes of floats; 0 for those that are not finite."""
    return np.asarray(np.nan_to_num(np.abs(value.astype(np.float64)), nan=0, posinf=0))


def moved(value: Array, unit: float, rng: np.random.Generator, kept: Array | None = None) -> Array:
    """Floats, each moved up or down by a unit in the last place, or as it is; so are whole numbers, and others that are
    kept."""
    wide = value.astype(np.float64)
    whole = wide == np.rint(wide)
    if kept is not None:
        whole |= np.isin(wide, kept) | np.isin(wide, kept.astype(value.dtype).astype(np.float64))
    factor = np.where(whole | ~np.isfinite(wide), 1, 1 + unit * rng.integers(-1, 2, wide.shape))
    return np.asarray((wide * factor).astype(value.dtype))


def quantizes(model: ModelProto) -> bool:
    """Whether a model rounds numbers to those of fewer bits: by an operator, or between products with a scale."""
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    makers = {name: node for node in nodes for name in node.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def scaled(node: NodeProto, following: Callable[[NodeProto], Iterable[NodeProto]]) -> bool:
        found, seen = [*following(node)], set[str]()
        while found:
            near = found.pop()
            if near.op_type in _SCALING:
                return True
            if near.op_type in _BETWEEN and near.output[0] not in seen:
                seen.add(near.output[0])
                found += following(near)
        return False

    def before(node: NodeProto) -> Iterable[NodeProto]:
        return (makers[name] for name in node.input if name in makers)

    def after(node: NodeProto) -> Iterable[NodeProto]:
        return (reader for name in node.output for reader in readers.get(name, ()))

    return any(
        node.op_type in _QUANTIZING or (node.op_type == "Round" and scaled(node, before) and scaled(node, after))
        for node in nodes
    )


def with_moved_weights(model: ModelProto, computed: Collection[str] = ()) -> list[ModelProto]:
    """The model with its weights moved by a unit in the last place; none if it has no weights, or too large ones.

    Weights that are stored in fewer bits and cast are moved as floats.
    """
    unit = max(_UNITS[name] for name in ("float32", *computed))
    found = []
    widened = _widened(model)
    size = whole_size(model)
    moves = _WEIGHT_MOVES if quantizes(model) else min(_WEIGHT_MOVES, 2 * _MOST_BYTES // max(size, 1))
    for seed in range(moves if size < _MOST_BYTES else 0):
        other = ModelProto()
        other.CopyFrom(model)
        rng = np.random.default_rng(seed)
        tensors = [tensor for graph in graphs(other.graph) for tensor in graph.initializer if _has_floats(tensor)]
        for tensor in tensors:
            value = array_of(tensor)
            if tensor.name in widened:
                value = value.astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(moved(value, unit, rng), tensor.name))
        found += [other] if tensors else []
    return found


def _widened(model: ModelProto) -> set[str]:
    """The values that are read by nothing but casts to float32; of names that subgraphs have, too, none is certain."""
    casts, others = set[str](), {value.name for value in model.graph.output}
    for graph in graphs(model.graph):
        for node in graph.node:
            to = next((a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to"), None)
            (casts if to == TensorProto.FLOAT and not node.domain else others).update(node.input)
    return casts - others


def _has_floats(tensor: TensorProto) -> bool:
    try:
        return is_known(tensor) and numpy_dtype(tensor.data_type).name in TOLERANCES
    except ValueError:  # ONNX has no such type
        return False
