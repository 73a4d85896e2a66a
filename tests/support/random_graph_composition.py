"""Random graphs: tensors whose sizes are known or have names, and the function that operators make of them in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Size = int | str

#: The sizes that an unknown dimension has in turn.
SIZES = (0, 1, 2, 3, 5)

#: How many combinations of sizes each graph is fed with.
_FED = 6


def tensorflow() -> Any:
    """TensorFlow, imported only in the processes that do the work."""
    import tensorflow as tf

    return tf


@dataclass
class Made:
    """A tensor of the graph: its shape has a number, or a name for each unknown size; equal names are equal sizes.

    A size that only TensorFlow knows, say of a flattened tensor, is taken from it: it checks its operators by it.
    """

    tensor: Any
    shape: tuple[Size, ...]

    def __post_init__(self) -> None:
        known = self.tensor.shape.as_list()
        self.shape = tuple(
            size if isinstance(size, int) or static is None else static
            for size, static in zip(self.shape, known, strict=True)
        )

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats."""
        return bool(self.tensor.dtype.is_floating)

    @property
    def is_number(self) -> bool:
        """Whether its elements are numbers, not booleans."""
        return self.tensor.dtype.name in ("float32", "int32", "int64")

    def as_float(self) -> Any:
        """The tensor, of floats."""
        return self.tensor if self.is_float else tensorflow().cast(self.tensor, "float32")

    def rounded(self) -> Any:
        """Whole numbers, among which those of floats that differ by the last bit only are equal.

        They are integers, because TensorFlow drops a floor before an argmax, which then finds another of equal numbers.
        """
        tf = tensorflow()
        if not self.is_float:
            return self.tensor
        finite = tf.where(tf.math.is_finite(self.tensor), self.tensor, 0.0)
        return tf.cast(tf.floor(tf.clip_by_value(finite, -1e6, 1e6) * 1.37 + 0.21), tf.int32)


class Composition:
    """A random function: its input_signature, and the operators that it applies in turn."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.symbols: list[str] = []
        self.inputs = [self._input() for _ in range(self.rng.integers(1, 3))]
        self.steps: list[str] = []
        self._seed = int(self.rng.integers(2**31))
        self._count = int(self.rng.integers(2, 7))

    def _input(self) -> tuple[Any, tuple[Size, ...]]:
        shape = tuple(self._size() for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4])))
        return str(self.rng.choice(["float32", "float32", "float32", "int32", "int64"])), shape

    def _size(self) -> Size:
        if self.rng.random() < 0.35:
            return int(self.rng.choice([1, 2, 3, 4]))
        if self.symbols and self.rng.random() < 0.4:
            return str(self.rng.choice(self.symbols))
        self.symbols.append(f"n{len(self.symbols)}")
        return self.symbols[-1]

    def function(self, *, magnitude: bool = False) -> Any:
        """The traced function, or the one that gives the largest magnitude of any finite number in it."""
        tf = tensorflow()
        specs = [
            tf.TensorSpec([s if isinstance(s, int) else None for s in shape], dtype, f"x{k}")
            for k, (dtype, shape) in enumerate(self.inputs)
        ]

        def compose(*tensors: Any) -> Any:
            self.steps.clear()
            self.rng = np.random.default_rng(self._seed)
            made = [Made(t, shape) for t, (_, shape) in zip(tensors, self.inputs, strict=True)]
            names = sorted(OPERATORS)
            while len(self.steps) < self._count:
                name = str(self.rng.choice(names))
                # Mostly the newest tensor, so that graphs become deep.
                at = len(made) - 1 - min(int(self.rng.geometric(0.6)) - 1, len(made) - 1)
                result = OPERATORS[name](self, made[at], made)
                if result is not None:
                    self.steps.append(name)
                    made += result if isinstance(result, list) else [result]
            if magnitude:
                every = [t for op in tf.compat.v1.get_default_graph().get_operations() for t in op.outputs]
                finite = [tf.where(tf.math.is_finite(t), t, 0.0) for t in every if t.dtype == tf.float32]
                return tf.reduce_max(tf.concat([[0.0], *(tf.reshape(tf.abs(t), [-1]) for t in finite)], 0))
            ends = [m.tensor for m in made[len(tensors) :] if not m.tensor.consumers()]
            return {f"y{k}": tf.identity(end) for k, end in enumerate(ends)}

        return tf.function(compose, input_signature=specs, autograph=False)

    def feeds(self) -> Iterator[dict[str, np.ndarray]]:
        """Inputs of various sizes: first all unknown sizes 2 and 3, then all 0, then random ones."""
        rng = np.random.default_rng(self._seed + 1)
        for turn in range(_FED):
            sizes = {name: int(rng.choice(SIZES)) for name in self.symbols}
            if turn == 0:
                sizes = {name: 2 + k % 2 for k, name in enumerate(self.symbols)}
            elif turn == 1:
                sizes = dict.fromkeys(self.symbols, 0)
            elif turn == 2:
                sizes = dict.fromkeys(self.symbols, 1)
            yield {
                f"x{k}": self._values(rng, dtype, [s if isinstance(s, int) else sizes[s] for s in shape])
                for k, (dtype, shape) in enumerate(self.inputs)
            }

    @staticmethod
    def _values(rng: np.random.Generator, dtype: str, shape: list[int]) -> np.ndarray:
        values = rng.standard_normal(shape) if dtype == "float32" else rng.integers(-3, 4, shape)
        return values.astype(dtype)

    def axis(self, made: Made, extra: int = 0) -> int:
        """A random axis, counted from either end."""
        return int(self.rng.integers(-made.rank - extra, made.rank + extra))

    def fresh(self) -> str:
        """A name for a size that nothing is known about."""
        return f"?{self.rng.integers(2**40)}"


Operator = Callable[[Composition, Made, list[Made]], Made | list[Made] | None]
OPERATORS: dict[str, Operator] = {}


def operator(function: Operator) -> Operator:
    """Register an operator; it returns None where it does not apply."""
    OPERATORS[function.__name__] = function
    return function
