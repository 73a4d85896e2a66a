"""Patterns of operations around the known faults of ONNX Runtime, drawn at random, and the inputs to run them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from faults.operations import Array, Body, Specs

_WIDE = (0, 1, -1, 5, 2**31, 3 * 10**9, 2**32 - 1, 2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1)
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
_NARROW = (0, 1, -1, 2, 65537, 2**31 - 1, -(2**31), 123456789)


@dataclass(frozen=True)
class Pattern:
    """An operation with a fault, of random parameters.

    Attributes:
        fault: Its name.
        specs: The element types and ranks of its inputs.
        body: Computes its outputs with the operations of a road.
        sizes: The symbols of the sizes of each input.
        draw: Draws an input of an element type and a shape; by its position.
        most: The largest size of a symbol, and the least.
    """

    fault: str
    specs: Specs
    body: Body
    sizes: Sequence[str]
    draw: Callable[[np.random.Generator, int, str, tuple[int, ...]], Array]
    least: int = 0
    most: int = 3

    def inputs(self, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> list[Array]:
        """Inputs of random sizes, or of these in turn."""
        symbols = sorted({symbol for named in self.sizes for symbol in named})
        chosen = sizes or [int(rng.integers(self.least, self.most + 1)) for _ in symbols]
        known = dict(zip(symbols, chosen, strict=False))
        return [
            np.asarray(self.draw(rng, k, dtype, tuple(known[symbol] for symbol in named)), dtype)
            for k, ((dtype, _), named) in enumerate(zip(self.specs, self.sizes, strict=True))
        ]


def _numbers(rng: np.random.Generator, _: int, dtype: str, shape: tuple[int, ...]) -> Array:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind.kind in "iu" and kind.itemsize < 4:
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    if kind.kind == "i":
        return rng.choice(np.array(_WIDE if kind.itemsize == 8 else _NARROW, kind), shape)
    return rng.integers(0, 2, shape).astype(kind)


def _with_nan(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
    array = np.asarray(_numbers(rng, k, dtype, shape))
    for value, share in ((np.nan, 0.2), (np.inf, 0.1), (-np.inf, 0.1)):
        array = np.where(rng.random(shape) < share, np.array(value, dtype), array)
    return array


def _divisors(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
    array = _numbers(rng, k, dtype, shape)
    return np.where(array == 0, -1, array) if k == 1 else array


def _ids(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape) if dtype.startswith("int") else _numbers(rng, k, dtype, shape)


def division(rng: np.random.Generator) -> Pattern:
    dtype, rank = str(rng.choice(["int32", "int64"])), int(rng.integers(1, 3))
    return Pattern(
        "division", [(dtype, rank)] * 2, lambda r, x, y: [r.divide(x, y)], ["abc"[:rank]] * 2, _divisors, most=4
    )


def wide_comparison(rng: np.random.Generator) -> Pattern:
    low, high = 5, 3 * 10**9
    bodies: list[Body] = [
        lambda r, x, y: [r.maximum(x, y)],
        lambda r, x, y: [r.minimum(x, y)],
        lambda r, x, y: [r.sign(x), r.sign(y)],
        lambda r, x, y: [r.relu(x), r.relu(y)],
        lambda r, x, y: [r.clip(x, low, high), r.clip(y, low, high)],
        lambda r, x, y: [r.maximum(r.minimum(x, y), y)],
    ]
    return Pattern("comparison", [("int64", 1)] * 2, bodies[rng.integers(len(bodies))], ["a"] * 2, _numbers, most=20)


def _reduction(rng: np.random.Generator, kinds: Sequence[str], dtypes: Sequence[str], name: str, draw: Any) -> Pattern:
    kind, dtype, rank = str(rng.choice(kinds)), str(rng.choice(dtypes)), int(rng.integers(1, 4))
    axis, keep = int(rng.integers(-rank, rank)), bool(rng.integers(2))

    def body(r: Any, x: Any) -> Sequence[Any]:
        return [r.reduce(kind, x, axis, keep)]

    is_extreme_of_integers = kind in ("max", "min")
    return Pattern(name, [(dtype, rank)], body, ["abc"[:rank]], draw, least=int(is_extreme_of_integers), most=5)


def integer_reduction(rng: np.random.Generator) -> Pattern:
    return _reduction(rng, ["sum", "prod", "max", "min"], _INTEGERS, "reduction of integers", _numbers)


def extremes_of_nan(rng: np.random.Generator) -> Pattern:
    return _reduction(rng, ["max", "min"], ["float32", "float64"], "extremes of NaN", _with_nan)


def empty_reduction(rng: np.random.Generator) -> Pattern:
    return _reduction(rng, ["sum", "prod"], ["float32", "float64"], "reduction of nothing", _numbers)


def mean(rng: np.random.Generator) -> Pattern:
    return _reduction(rng, ["mean"], ["float32", "float64"], "mean", _numbers)


def place_of_nan(rng: np.random.Generator) -> Pattern:
    kind, rank = str(rng.choice(["max", "min"])), int(rng.integers(1, 4))
    axis = int(rng.integers(0, rank))
    return Pattern(
        "places of NaN", [("float32", rank)], lambda r, x: [r.place(kind, x, axis)], ["abc"[:rank]], _with_nan, least=1
    )


def product(rng: np.random.Generator) -> Pattern:
    rank = int(rng.integers(2, 5))
    batch = "xyz"[: rank - 2]
    left, right = batch + "ab", batch + "bc"
    order = rng.permutation(rank) if rng.integers(2) else None
    side = int(rng.integers(2))
    fed = [left, right]
    if order is not None:
        moved = fed[side]
        fed[side] = "".join(moved[k] for k in np.argsort(order))

    def body(r: Any, x: Any, y: Any) -> Sequence[Any]:
        given = [x, y]
        if order is not None:
            given[side] = r.transpose(given[side], [int(k) for k in order])
        return [r.matmul(*given)]

    return Pattern("product", [("float32", rank)] * 2, body, fed, _numbers)


_EQUATIONS = (
    ("bhd,bmd->bhmd", ("bhd", "bmd")),
    ("bij,bjk->bik", ("bij", "bjk")),
    ("ij,kj->ik", ("ij", "kj")),
    ("bid,bjd->bij", ("bid", "bjd")),
    ("bi,bi->b", ("bi", "bi")),
    ("i,j->ij", ("i", "j")),
    ("bnd,de->bne", ("bnd", "de")),
    ("ij->j", ("ij",)),
    ("bhqd,bhkd->bhqk", ("bhqd", "bhkd")),
)


def equation(rng: np.random.Generator) -> Pattern:
    text, sizes = _EQUATIONS[rng.integers(len(_EQUATIONS))]
    return Pattern(
        "einsum", [("float32", len(named)) for named in sizes], lambda r, *xs: [r.einsum(text, *xs)], sizes, _numbers
    )


def flattening(rng: np.random.Generator) -> Pattern:
    rank = int(rng.integers(2, 5))
    start = int(rng.integers(0, rank - 1))
    return Pattern("flatten", [("float32", rank)], lambda r, x: [r.flatten(x, start)], ["abcd"[:rank]], _numbers)


def parts(rng: np.random.Generator) -> Pattern:
    axis = int(rng.integers(0, 2))
    fed = ["ab", "ba"][axis]

    def draw(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
        doubled = [2 * size if place == axis else size for place, size in enumerate(shape)]
        return _numbers(rng, k, dtype, tuple(doubled))

    return Pattern("parts", [("float32", 2)], lambda r, x: [*r.split(x, 2, axis)], [fed], draw)


def reversal(rng: np.random.Generator) -> Pattern:
    rank = int(rng.integers(1, 3))
    return Pattern("range", [("float32", rank)], lambda r, x: [r.reverse(x)], ["ab"[:rank]], _numbers)


def places(rng: np.random.Generator) -> Pattern:
    rank = int(rng.integers(0, 3))
    name = "places" if rank else "places in a scalar"
    return Pattern(name, [("float32", rank)], lambda r, x: [r.places(x)], ["ab"[:rank]], _numbers)


def scatter(rng: np.random.Generator) -> Pattern:
    """Many updates of few places, so that threads meet."""

    class Scatter(Pattern):
        def inputs(self, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> list[Array]:
            rows = 5 if sizes else int(rng.choice([0, 1, 50, 20000]))
            updates = rng.integers(-4, 5, (rows, 4)).astype(np.float32)
            return [np.zeros((3, 4), np.float32), rng.integers(0, 3, rows), updates]

    specs = [("float32", 2), ("int64", 1), ("float32", 2)]
    return Scatter("scatter", specs, lambda r, x, i, u: [r.scatter_add(x, i, u)], ["ab", "c", "cb"], _numbers)


def one_hot(rng: np.random.Generator) -> Pattern:
    return Pattern(
        "one hot", [("int64", 1), ("int64", 0)], lambda r, i, d: [r.one_hot(i, d)], ["a", ""], _depth, least=0
    )


def _depth(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 4, shape)


def unique(rng: np.random.Generator) -> Pattern:
    return Pattern("unique", [("float32", 2)], lambda r, x: [r.unique(x)], ["ab"], lambda *a: np.zeros(a[3]))


def distinct(rng: np.random.Generator) -> Pattern:
    return Pattern("values and NaN", [("float32", 1)], lambda r, x: r.distinct(x), ["a"], _repeated, least=1, most=7)


def _repeated(rng: np.random.Generator, _: int, dtype: str, shape: tuple[int, ...]) -> Array:
    return rng.choice(np.array([0, 1, 2, np.nan, np.inf], dtype), shape)


_BOUNDS = (0, 1, 2, 3, 7, 2**31 - 1, 2**31 - 2, 2**63 - 1, 2**62)


def _bounds(starts: Sequence[int], rng: np.random.Generator, name: str) -> Pattern:
    start, end, step = (
        int(rng.choice(numbers)) for numbers in (starts, (*_BOUNDS, -1, -4, -9, -(2**31), -(2**63)), (-1, -2, 1))
    )
    is_fed = bool(rng.integers(2))

    def draw(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
        return np.array([[start], [end]][k - 1]) if k else _numbers(rng, k, dtype, shape)

    def body(r: Any, x: Any, first: Any, last: Any) -> Sequence[Any]:
        return [r.slice(x, *((first, last) if is_fed else (r.constant(np.array([n])) for n in (start, end))), step)]

    return Pattern(name, [("float32", 1), ("int64", 1), ("int64", 1)], body, ["a", "b", "c"], draw, most=5)


def backward_slice(rng: np.random.Generator) -> Pattern:
    return _bounds(_BOUNDS, rng, "backward slice")


def backward_slice_from_before(rng: np.random.Generator) -> Pattern:
    return _bounds((-1, -2, -5, -(2**31), -(2**63)), rng, "backward slice from before")


def _far(rng: np.random.Generator, k: int, dtype: str, shape: tuple[int, ...]) -> Array:
    if not k:
        return rng.standard_normal(shape)
    far = rng.choice([1e4, 1e8, 3e9, 1e19, 1e30, np.inf, np.nan], shape) * rng.choice([-1, 1], shape)
    return np.where(rng.random(shape) < 0.5, rng.uniform(-1.5, 1.5, shape), far)


def far_places(rng: np.random.Generator) -> Pattern:
    # Reflected, a far place has no digits left.
    mode, padding = str(rng.choice(["nearest", "bilinear", "bicubic"])), str(rng.choice(["zeros", "border"]))
    aligned = bool(rng.integers(2))

    class Places(Pattern):
        def inputs(self, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> list[Array]:
            least = 1 if sizes is None else 2  # an example of size 1 is one of that size only
            shapes = (1, 2, *rng.integers(least, 5, 2)), (1, *rng.integers(least, 4, 2), 2)
            return [np.asarray(self.draw(rng, k, "", shape), np.float32) for k, shape in enumerate(shapes)]

    def body(r: Any, x: Any, places: Any) -> Sequence[Any]:
        return [r.grid_sample(x, places, mode, padding, aligned)]

    return Places("far places", [("float32", 4)] * 2, body, ["abcd", "efgh"], _far)


def small_sigmoid(rng: np.random.Generator) -> Pattern:
    rank = int(rng.integers(1, 3))
    draw = lambda rng, k, dtype, shape: rng.uniform(-80, 20, shape)  # noqa: E731
    return Pattern("small sigmoid", [("float32", rank)], lambda r, x: [r.log_sigmoid(x)], ["ab"[:rank]], draw)


def words(rng: np.random.Generator) -> Pattern:
    class Words(Pattern):
        def inputs(self, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> list[Array]:
            rows = int(rng.integers(1, 4))
            return [rng.integers(0, 10**9, (rows, 3)), rng.integers(0, rows, int(rng.integers(0, 4)))]

    return Words("strings", [("int64", 2), ("int64", 1)], lambda r, x, i: [r.words(x, i)], ["ab", "c"], _numbers)


def recurrent(rng: np.random.Generator) -> Pattern:
    kind, both = str(rng.choice(["LSTM", "GRU", "RNN"])), bool(rng.integers(2))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = [rng.normal(size=(gates * 3, 2)).astype(np.float32), rng.normal(size=(gates * 3, 3)).astype(np.float32)]

    def body(r: Any, x: Any) -> Sequence[Any]:
        return [r.recurrent(kind, x, weights, both=both)]

    class Recurrent(Pattern):
        def inputs(self, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> list[Array]:
            rows = 2 if sizes else int(rng.integers(0, 4))
            return [rng.normal(size=(3, rows, 2)).astype(np.float32)]  # torch.export knows the number of steps

    return Recurrent("recurrent", [("float32", 3)], body, ["abc"], _numbers)


#: What draws a pattern, for each kind of fault.
PATTERNS = (
    division,
    wide_comparison,
    integer_reduction,
    extremes_of_nan,
    empty_reduction,
    mean,
    place_of_nan,
    product,
    equation,
    flattening,
    parts,
    reversal,
    places,
    scatter,
    one_hot,
    unique,
    distinct,
    backward_slice,
    backward_slice_from_before,
    far_places,
    small_sigmoid,
    words,
    recurrent,
)
