"""Random TensorFlow graphs of standard operators, fed with tensors of any size, 0 and 1 included.

`python tests/random_graphs.py --seed 0 --count 1000` converts that many graphs, runs each in TensorFlow and in a
session of ONNX Runtime with default options, and prints every difference, failure and refusal. The work is done in
processes of their own, so that one that ends is only a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Size = int | str

#: The sizes that an unknown dimension has in turn.
SIZES = (0, 1, 2, 3, 5)

_FED = 6  # how many combinations of sizes each graph is fed with

_AT_ONCE = 500  # how many graphs a process examines, which takes seconds to begin


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
        import tensorflow as tf

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


def _tf() -> Any:
    import tensorflow as tf

    return tf


def _is_float(made: Made) -> bool:
    return bool(made.tensor.dtype.is_floating)


def _is_number(made: Made) -> bool:
    return made.tensor.dtype.name in ("float32", "int32", "int64")


def _as_float(made: Made) -> Any:
    return made.tensor if _is_float(made) else _tf().cast(made.tensor, "float32")


def _rounded(made: Made) -> Any:
    """Whole numbers, among which those of floats that differ by the last bit only are equal.

    They are integers, because TensorFlow drops a floor before an argmax, which then finds another of equal numbers.
    """
    tf = _tf()
    if not _is_float(made):
        return made.tensor
    finite = tf.where(tf.math.is_finite(made.tensor), made.tensor, 0.0)
    return tf.cast(tf.floor(tf.clip_by_value(finite, -1e6, 1e6) * 1.37 + 0.21), tf.int32)


@operator
def elementwise(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    every = {
        "relu": tf.nn.relu, "tanh": tf.tanh, "abs": tf.abs, "neg": tf.negative, "sigmoid": tf.sigmoid,
        "softplus": tf.nn.softplus, "square": tf.square, "erf": tf.math.erf, "gelu": tf.nn.gelu, "elu": tf.nn.elu,
        "floor": tf.floor, "leaky": tf.nn.leaky_relu, "sign": tf.sign, "rsqrt": lambda v: tf.math.rsqrt(tf.abs(v) + 1),
        "isnan": tf.math.is_nan, "clip": lambda v: tf.clip_by_value(v, -1.0, 1.0), "selu": tf.nn.selu,
        "swish": tf.nn.swish, "relu6": tf.nn.relu6, "softsign": tf.nn.softsign, "ceil": tf.math.ceil,
    }  # fmt: skip
    return Made(every[str(c.rng.choice(sorted(every)))](_as_float(x)), x.shape)


@operator
def cast(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf, kind = _tf(), str(c.rng.choice(["float32", "int32", "int64", "bool"]))
    return Made(tf.cast(_rounded(x), kind), x.shape)


@operator
def reduction(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    keep = bool(c.rng.integers(2))
    name = str(
        c.rng.choice(
            ["sum", "mean", "max", "min", "prod", "logsumexp", "variance", "std", "euclidean_norm", "any", "all"]
        )
    )
    if name in ("any", "all"):
        value = x.tensor if x.tensor.dtype == tf.bool else tf.cast(x.tensor, tf.bool)
    elif name in ("logsumexp", "variance", "std", "euclidean_norm", "mean") or not _is_number(x):
        value = _as_float(x)
    else:
        value = x.tensor
    how = int(c.rng.integers(3)) if x.rank else 2
    if how == 0:
        axis: Any = c.axis(x)
        axes = {axis % x.rank}
    elif how == 1:
        axes = {a for a in range(x.rank) if c.rng.integers(2)}
        axis = [a - x.rank if c.rng.integers(2) else a for a in sorted(axes)]
    else:
        axis, axes = None, {*range(x.rank)}
    function = getattr(tf, f"reduce_{name}", None) or getattr(tf.math, f"reduce_{name}")
    shape = tuple(1 if k in axes else s for k, s in enumerate(x.shape) if keep or k not in axes)
    return Made(function(value, axis=axis, keepdims=keep), shape)


@operator
def arg(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank or not _is_number(x):
        return None
    axis, tf = c.axis(x), _tf()
    function = tf.argmax if c.rng.integers(2) else tf.argmin
    kind = str(c.rng.choice(["int32", "int64"]))
    return Made(function(_rounded(x), axis, kind), tuple(s for k, s in enumerate(x.shape) if k != axis % x.rank))


@operator
def along(c: Composition, x: Made, _: list[Made]) -> Made | None:
    """Operators along one axis that keep the shape."""
    if not x.rank or not _is_number(x):
        return None
    tf, axis, last = _tf(), c.axis(x), x.rank - 1
    flags = {"exclusive": bool(c.rng.integers(2)), "reverse": bool(c.rng.integers(2))}
    every = {
        "softmax": lambda: tf.nn.softmax(_as_float(x), axis),
        "log_softmax": lambda: tf.nn.log_softmax(_as_float(x), axis),
        "cumsum": lambda: tf.cumsum(x.tensor, axis, **flags),
        "reverse": lambda: tf.reverse(x.tensor, [axis]),
        "sort": lambda: tf.sort(x.tensor, axis=last),
        "l2": lambda: tf.nn.l2_normalize(_as_float(x), axis),
        "roll": lambda: tf.roll(x.tensor, 1, axis),
        "cumprod": lambda: tf.math.cumprod(_as_float(x), axis),
    }
    return Made(every[str(c.rng.choice(sorted(every)[: 8 if c.rng.random() < 0.3 else 5]))](), x.shape)


@operator
def transpose(c: Composition, x: Made, _: list[Made]) -> Made | None:
    order = [int(k) for k in c.rng.permutation(x.rank)]
    return Made(_tf().transpose(x.tensor, order), tuple(x.shape[k] for k in order)) if x.rank > 1 else None


@operator
def merge(c: Composition, x: Made, _: list[Made]) -> Made | None:
    """Reshape: two dimensions become one, by a -1 or by sizes."""
    tf = _tf()
    if x.rank < 2 or 0 in x.shape:
        return None  # a constant -1 beside a constant 0
    at, sizes = int(c.rng.integers(x.rank - 1)), tf.shape(x.tensor)
    parts = [sizes[k] if isinstance(s, str) else s for k, s in enumerate(x.shape)]
    both = -1 if c.rng.integers(2) else sizes[at] * sizes[at + 1]
    known = [s for s in x.shape[at : at + 2] if isinstance(s, int)]
    size: Size = known[0] * known[1] if len(known) == 2 else c.fresh()
    target = [*parts[:at], both, *parts[at + 2 :]]
    return Made(tf.reshape(x.tensor, target), (*x.shape[:at], size, *x.shape[at + 2 :]))


@operator
def flatten(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if 0 in x.shape:
        return None
    if x.rank > 1 and isinstance(x.shape[-1], int) and c.rng.integers(2):
        return Made(tf.reshape(x.tensor, [-1, x.shape[-1]]), (c.fresh(), x.shape[-1]))
    return Made(tf.reshape(x.tensor, [-1]), (c.fresh(),))


@operator
def expand(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if x.rank > 4:
        return None
    axis = int(c.rng.integers(-x.rank - 1, x.rank + 1))
    at = axis % (x.rank + 1)
    return Made(_tf().expand_dims(x.tensor, axis), (*x.shape[:at], 1, *x.shape[at:]))


@operator
def squeeze(c: Composition, x: Made, _: list[Made]) -> Made | None:
    ones = [k for k, s in enumerate(x.shape) if s == 1]
    if not ones:
        return None
    at = int(c.rng.choice(ones))
    axis = at - x.rank if c.rng.integers(2) else at
    return Made(_tf().squeeze(x.tensor, [axis]), (*x.shape[:at], *x.shape[at + 1 :]))


@operator
def tile(c: Composition, x: Made, _: list[Made]) -> Made | None:
    times = [int(t) for t in c.rng.integers(0, 3, x.rank)]
    shape = tuple(
        s if t == 1 else 0 if t == 0 else s * t if isinstance(s, int) else c.fresh()
        for s, t in zip(x.shape, times, strict=True)
    )
    return Made(_tf().tile(x.tensor, times), shape) if x.rank else None


@operator
def concat(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    size = 2 * x.shape[at] if isinstance(x.shape[at], int) else c.fresh()  # type: ignore[operator]
    return Made(_tf().concat([x.tensor, x.tensor], axis), (*x.shape[:at], size, *x.shape[at + 1 :]))


@operator
def stack(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if x.rank > 4:
        return None
    axis = int(c.rng.integers(-x.rank - 1, x.rank + 1))
    at = axis % (x.rank + 1)
    return Made(_tf().stack([x.tensor, x.tensor], axis), (*x.shape[:at], 2, *x.shape[at:]))


@operator
def unstack(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    known = [k for k, s in enumerate(x.shape) if isinstance(s, int) and 0 < s < 5]
    if not known:
        return None
    at = int(c.rng.choice(known))
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    return [Made(part, shape) for part in _tf().unstack(x.tensor, axis=at - x.rank if c.rng.integers(2) else at)]


@operator
def split(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    size = x.shape[at]
    half: Size = size // 2 if isinstance(size, int) else c.fresh()
    if isinstance(size, int) and size % 2:
        return None
    shape = (*x.shape[:at], half, *x.shape[at + 1 :])
    return [Made(part, shape) for part in _tf().split(x.tensor, 2, axis)]


@operator
def slices(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    key: list[Any] = []
    shape: list[Size] = []
    for size in x.shape:
        how = int(c.rng.integers(6))
        if how == 0 and isinstance(size, int) and size:
            key.append(int(c.rng.integers(-size, size)))
            continue
        cut = [slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(None, None, 2), slice(0, 2)][
            how
        ]
        key.append(cut)
        shape.append(len(range(*cut.indices(size))) if isinstance(size, int) else size if how == 3 else c.fresh())
        if how == 0:
            shape[-1] = size
    return Made(x.tensor[tuple(key)], tuple(shape))


@operator
def gather(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    if not isinstance(x.shape[at], int) or not x.shape[at]:
        return None  # TensorFlow does not check the indices if nothing else is there to be gathered
    places = [[0, 0, 0], [], [[0], [0]]][int(c.rng.integers(3))]
    indices = np.array(places, np.int32)
    return Made(_tf().gather(x.tensor, indices, axis=axis), (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


@operator
def gather_rows(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not x.rank:
        return None
    count = tf.shape(x.tensor)[0]
    rows = tf.range(count - 1, -1, -1)
    if c.rng.integers(2):
        return Made(tf.gather(x.tensor, rows), x.shape)
    return Made(tf.gather_nd(x.tensor, rows[:, None]), x.shape)


@operator
def pad(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank or not _is_number(x):
        return None
    pads = c.rng.integers(0, 2, (x.rank, 2))
    shape = tuple(s + int(p.sum()) if isinstance(s, int) else c.fresh() for s, p in zip(x.shape, pads, strict=True))
    return Made(_tf().pad(x.tensor, pads, constant_values=1), shape)


@operator
def product_with_weights(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.rank < 2 or not isinstance(x.shape[-1], int):
        return None
    weights = c.rng.standard_normal((x.shape[-1], int(c.rng.integers(1, 4)))).astype(np.float32)
    if c.rng.integers(2):
        made = tf.tensordot(_as_float(x), weights, 1)
    elif c.rng.integers(2):
        made = tf.matmul(_as_float(x), tf.constant(weights.T), transpose_b=True)
    else:
        made = tf.matmul(_as_float(x), tf.constant(weights)) + tf.ones(weights.shape[1])
    return Made(made, (*x.shape[:-1], weights.shape[1]))


@operator
def product_with_itself(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf, value = _tf(), _as_float(x)
    if x.rank < 2:
        return None
    *batch, rows, columns = x.shape
    how = int(c.rng.integers(4))
    if how == 0:
        return Made(tf.matmul(value, value, transpose_b=True), (*batch, rows, rows))
    if how == 1:
        return Made(tf.matmul(value, value, transpose_a=True), (*batch, columns, columns))
    if how == 2:
        return Made(tf.einsum("...ij,...kj->...ik", value, value), (*batch, rows, rows))
    swapped = tf.transpose(value, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return Made(tf.matmul(swapped, value * 0.5), (*batch, columns, columns))


@operator
def product_of_two(c: Composition, x: Made, made: list[Made]) -> Made | None:
    tf = _tf()
    others = [m for m in made if m.rank > 1 and x.rank > 1 and m.shape[-1] == x.shape[-1] and m is not x]
    if not others:
        return None
    y = others[int(c.rng.integers(len(others)))]
    if x.rank == y.rank and x.shape[:-2] == y.shape[:-2]:
        return Made(tf.matmul(_as_float(x), _as_float(y), transpose_b=True), (*x.shape[:-1], y.shape[-2]))
    if y.rank == 2:
        return Made(tf.einsum("...i,ji->...j", _as_float(x), _as_float(y)), (*x.shape[:-1], y.shape[-2]))
    return None


@operator
def binary(c: Composition, x: Made, made: list[Made]) -> Made | None:
    tf = _tf()
    if not _is_number(x):
        return None
    others = [m for m in made if m.tensor.dtype == x.tensor.dtype and _fits(m.shape, x.shape)]
    y: Any = others[int(c.rng.integers(len(others)))].tensor if c.rng.integers(3) else tf.constant(2, x.tensor.dtype)
    every = {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "max": tf.maximum, "min": tf.minimum,
        "less": tf.less, "equal": tf.equal, "greater_equal": tf.greater_equal, "not_equal": tf.not_equal,
        "squared_difference": tf.math.squared_difference,
    }  # fmt: skip
    if _is_float(x):
        every |= {"div": tf.math.divide, "divide_no_nan": tf.math.divide_no_nan, "floormod": tf.math.floormod}
    name = str(c.rng.choice(sorted(every)))
    return Made(every[name](x.tensor, y), x.shape)


def _fits(small: tuple[Size, ...], large: tuple[Size, ...]) -> bool:
    """Whether a shape is broadcast to another one."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(a in (1, b) for a, b in pairs)


@operator
def where(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not _is_number(x):
        return None
    return Made(tf.where(x.tensor > tf.constant(0, x.tensor.dtype), x.tensor, tf.zeros_like(x.tensor)), x.shape)


@operator
def mask(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not x.rank or not _is_number(x):
        return None
    kept = tf.range(tf.shape(x.tensor)[0]) % 2 == 0
    return Made(tf.boolean_mask(x.tensor, kept), (c.fresh(), *x.shape[1:]))


@operator
def places(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    return Made(tf.where(tf.cast(x.tensor, tf.bool)), (c.fresh(), x.rank)) if x.rank else None


@operator
def one_hot(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.tensor.dtype not in (tf.int32, tf.int64) or x.rank > 3:
        return None
    return Made(tf.one_hot(x.tensor, 3), (*x.shape, 3))


@operator
def top(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    if not x.rank or not _is_number(x) or not isinstance(x.shape[-1], int) or not x.shape[-1]:
        return None
    count = int(c.rng.integers(1, x.shape[-1] + 1))
    return [Made(part, (*x.shape[:-1], count)) for part in _tf().math.top_k(_rounded(x), count)]


@operator
def segments(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not x.rank or not _is_number(x):
        return None
    ids = tf.range(tf.shape(x.tensor)[0]) % 2
    if c.rng.integers(2):
        return Made(tf.math.unsorted_segment_sum(x.tensor, ids, 3), (3, *x.shape[1:]))
    return Made(tf.math.segment_sum(x.tensor, tf.sort(ids)), (c.fresh(), *x.shape[1:]))


@operator
def normalization(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.rank < 2 or not isinstance(x.shape[-1], int) or not x.shape[-1]:
        return None
    value = _as_float(x)
    mean, variance = tf.nn.moments(value, [-1] if c.rng.integers(2) else [0], keepdims=True)
    return Made(tf.nn.batch_normalization(value, mean, variance, None, None, 1e-3), x.shape)


@operator
def spread(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.rank > 3:
        return None
    shape = tf.concat([[2], tf.shape(x.tensor)], 0)
    return Made(tf.broadcast_to(x.tensor, shape), (2, *x.shape))


@operator
def branch(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not _is_number(x):
        return None
    some = tf.size(x.tensor) > 2
    return Made(tf.cond(some, lambda: x.tensor * 2, lambda: tf.identity(x.tensor)), x.shape)


@operator
def mapped(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.rank < 2 or not _is_number(x) or c.rng.integers(3):
        return None
    return Made(tf.map_fn(lambda row: tf.reduce_sum(row, -1), x.tensor), x.shape[:-1])


@operator
def convolution(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if x.rank not in (3, 4):
        return None
    if not all(isinstance(size, int) and size for size in x.shape[1:]):
        return None  # ONNX Runtime refuses images without pixels
    kernel = c.rng.standard_normal((*[2] * (x.rank - 2), x.shape[-1], 2)).astype(np.float32)
    function = tf.nn.conv1d if x.rank == 3 else tf.nn.conv2d
    return Made(function(_as_float(x), kernel, 1, "SAME"), (*x.shape[:-1], 2))


@operator
def scatter(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = _tf()
    if not x.rank or not _is_number(x):
        return None
    rows = tf.range(0, tf.shape(x.tensor)[0], 2)[:, None]
    updates = x.tensor[::2] * 2
    how = int(c.rng.integers(3))
    if how == 0:
        return Made(tf.scatter_nd(rows, updates, tf.shape(x.tensor)), x.shape)
    function = tf.tensor_scatter_nd_update if how == 1 else tf.tensor_scatter_nd_add
    return Made(function(x.tensor, rows, updates), x.shape)


@dataclass(frozen=True)
class Finding:
    """What went wrong with what a seed makes: its kind, the steps, and what happened."""

    seed: int
    kind: str
    steps: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind} [{' '.join(self.steps)}] {self.what}"


def examine(seed: int) -> tuple[Finding | None, int]:
    """Compare one graph with TensorFlow; returns what went wrong, and how many feeds were compared."""
    from onnxruntime import SessionOptions

    from onnx_sparse import InferenceSession
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.tensorflow import convert

    composition = Composition(seed)
    try:
        concrete = composition.function().get_concrete_function()
    except Exception as error:
        return Finding(seed, "not built", tuple(composition.steps), f"{type(error).__name__}: {error}"[:300]), 0
    steps = tuple(composition.steps)
    try:
        model = convert(concrete)
    except ConversionError as error:
        return Finding(seed, "refused", steps, str(error).replace("\n", " ")[:300]), 0
    except Exception as error:
        return Finding(seed, "failed", steps, f"{type(error).__name__}: {error}"[:300]), 0
    options = SessionOptions()
    # Threads that spin make each session end some 50 ms later.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = InferenceSession(model, options)
    except Exception as error:
        return Finding(seed, "does not load", steps, str(error)[:300]), 0
    names = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    compared = 0
    for feeds in composition.feeds():
        shown = {name: list(value.shape) for name, value in feeds.items()}
        try:
            wanted = concrete(**{name: _tf().constant(value) for name, value in feeds.items()})
        except Exception:
            continue  # TensorFlow refuses these sizes
        try:
            results = session.run(outputs, {name: feeds[name] for name in names})
        except Exception as error:
            return Finding(seed, "does not run", steps, f"{shown}: {error}"[:400]), compared
        if difference := _differences(results, wanted, concrete, outputs):
            if not _differences(results, _without_optimizer(composition, feeds), concrete, outputs):
                continue  # TensorFlow's graph optimizer contradicts TensorFlow's operators
            again = [concrete(**{name: _tf().constant(value) for name, value in feeds.items()}) for _ in range(3)]
            if any(_differences([a[name].numpy() for name in outputs], wanted, concrete, outputs) for a in again):
                continue  # TensorFlow does not answer the same
            # What is left of large numbers that cancel has their rounding.
            magnitude = float(composition.function(magnitude=True)(*feeds.values()))
            if not _differences(results, wanted, concrete, outputs, 8 * np.finfo(np.float32).eps * magnitude):
                compared += 1
                continue
            return Finding(seed, "differs", steps, f"{shown} {difference}"), compared
        compared += 1
    return None, compared


def _without_optimizer(composition: Composition, feeds: dict[str, np.ndarray]) -> dict[str, Any]:
    """What TensorFlow answers without its graph optimizer.

    The optimizer has faults: it gives the values of a top_k for its indices if they are stacked.
    """
    tf = _tf()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        concrete = composition.function().get_concrete_function()
        result: dict[str, Any] = concrete(**{name: tf.constant(value) for name, value in feeds.items()})
        return result
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def _differences(
    results: list[Any], wanted: dict[str, Any], concrete: Any, outputs: list[str], rounding: float = 0
) -> str:
    """The first output that is not TensorFlow's, or "" if there is none."""
    for name, got in zip(outputs, results, strict=True):
        want = wanted[name].numpy()
        if not concrete.structured_outputs[name].shape.is_compatible_with(want.shape):
            continue  # TensorFlow contradicts itself
        if what := difference(np.asarray(got), want, rounding):
            return f"{name}: {what}"
    return ""


def difference(got: np.ndarray, want: np.ndarray, rounding: float = 0) -> str:
    """How an output is not TensorFlow's beyond rounding, or "" if it is."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind == "f":
        finite = want[np.isfinite(want)]
        scale = np.abs(finite).max(initial=1e-3)
        equal = np.allclose(got, want, rtol=1e-4, atol=max(1e-5 * scale, rounding), equal_nan=True)
    else:
        equal = np.array_equal(got, want)
    return "" if equal else f"{got.ravel()[:5]} for {want.ravel()[:5]}"


Examine = Callable[[int], tuple[Finding | None, int]]


def _work(examine: Examine, first: int, count: int) -> None:
    for seed in range(first, first + count):
        print(json.dumps(["at", seed]), flush=True)
        finding, compared = examine(seed)
        if finding is None:
            print(json.dumps(["equal", seed, compared]), flush=True)
        else:
            print(json.dumps(["found", seed, finding.kind, finding.steps, finding.what]), flush=True)


def main(script: str, examine: Examine, what: str, at_once: int) -> None:
    """Examine what seeds make, in processes of their own, and print what was found.

    Args:
        script: The file that calls this.
        examine: Examines what a seed makes: what went wrong, and how many runs were compared.
        what: What is made, for the help.
        at_once: How many a process examines.
    """
    parser = argparse.ArgumentParser(description=f"Compare random {what} with TensorFlow.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help=f"how many {what}")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(examine, given.seed, given.count)
        return
    outcomes: Counter[str] = Counter()
    runs, seed, end = 0, given.seed, given.seed + given.count
    while seed < end:
        command = [sys.executable, script, "--work", "--seed", str(seed), "--count", str(min(at_once, end - seed))]
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}  # with oneDNN, TensorFlow writes past its matrices
        process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        last = seed - 1
        for line in process.stdout.splitlines():
            kind, last, *rest = json.loads(line)
            if kind == "equal":
                outcomes["equal" if rest[0] else "nothing compared"] += 1
                runs += rest[0]
            elif kind == "found":
                outcomes[rest[0]] += 1
                print(Finding(last, rest[0], tuple(rest[1]), rest[2]), flush=True)
        if process.returncode and last < seed:
            sys.exit(f"the process does not start: exit status {process.returncode}")
        if process.returncode:
            outcomes["process ended"] += 1
            print(Finding(last, "process ended", (), f"exit status {process.returncode}"), flush=True)
        seed = last + 1
    print(", ".join(f"{kind}: {number}" for kind, number in outcomes.most_common()), f"({runs} equal runs)")


if __name__ == "__main__":
    main(__file__, examine, "graphs of standard operators", _AT_ONCE)
