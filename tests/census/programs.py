"""Random programs of 3 to 10 operators: lookups, bags, segments and scatters among arithmetic, orders and reductions.

    python -m census.programs --count 2000 --seed 7     (in the folder tests)

A program is a case of the census: exported with dynamic sizes, and compared with torch on its example, with each size
0, 1 and doubled, and on values that are infinite, NaN or at the ends of their types. Exit 0: none differed or failed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from support.program import parser

from census.cases import Case
from census.expected import FAULTS
from census.walk import NOT_OURS, OUTCOMES, REFUSED, walk

#: The element types of what is computed with; ids are of the last two.
_FLOATS = ("float32", "float32", "float16", "float64", "bfloat16")
_INTEGERS = ("int64", "int32", "int16", "uint8", "int8")

#: Sizes of the example: entries, segments and rows of the table differ, so that none is taken for another.
_ENTRIES, _SEGMENTS, _TABLE, _WIDTH = 7, 4, 5, 3

Compute = Callable[[list[Any]], Any]


class Value(NamedTuple):
    """A tensor of a program.

    Attributes:
        place: Where it is among the tensors.
        sizes: What its sizes are: entries, segments, rows of the table, numbers, or known to nobody.
        dtype: Its element type.
    """

    place: int
    sizes: tuple[str | int, ...]
    dtype: Any

    @property
    def is_float(self) -> bool:
        """Whether elements are floats."""
        return bool(self.dtype.is_floating_point)

    @property
    def is_bool(self) -> bool:
        """Whether elements are bools."""
        return str(self.dtype) == "torch.bool"


#: The first values of a program, by their place: rows [entries, width], ids [entries], sums [segments, width], a table
#: [rows, width], lengths [segments], numbers [entries].
_ROWS, _IDS, _SUMS, _TABLE_ROWS, _LENGTHS, _NUMBERS = range(6)
_SIZES: tuple[tuple[str | int, ...], ...] = (("n", _WIDTH), ("n",), ("s", _WIDTH), ("v", _WIDTH), ("s",), ("n",))


@dataclass
class Program:
    """A program that is drawn step by step, and run on its example as it grows.

    Attributes:
        rng: What draws.
        tensors: The tensors of the example: inputs, then the result of each step.
        values: What is known of these.
        steps: What makes each result, of the tensors before.
        names: The names of the steps.
    """

    rng: np.random.Generator
    tensors: list[Any] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    steps: list[Compute] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def choose(self, options: Sequence[Any]) -> Any:
        """One of several, later ones of values more often, so that programs are deep.

        Raises:
            IndexError: There is none.
        """
        if options and isinstance(options[0], Value) and self.rng.random() < 1 / 2:
            return options[-1]
        return options[int(self.rng.integers(len(options)))] if options else options[0]

    def value(self, want: Callable[[Value], bool] = lambda value: True) -> Value:
        """A value of a kind."""
        return self.choose([value for value in self.values if want(value)])  # type: ignore[no-any-return]

    def rows(self, size: str, *, rank: int = 0, is_float: bool = False) -> Value:
        """A value whose first size is known."""
        return self.value(
            lambda v: v.sizes[:1] == (size,) and not v.is_bool and rank in (0, len(v.sizes)) and is_float <= v.is_float
        )

    def axis(self, value: Value) -> int:
        """An axis of a value.

        Raises:
            IndexError: It has none.
        """
        return int(self.choose(range(len(value.sizes)))) - len(value.sizes) * int(self.rng.integers(2))

    def grow(self, name: str, compute: Compute, sizes: tuple[str | int, ...]) -> None:
        """Add a step."""
        made = compute(self.tensors)
        assert made.dim() == len(sizes), (name, made.shape, sizes)
        self.values.append(Value(len(self.tensors), sizes, made.dtype))
        self.tensors.append(made)
        self.steps.append(compute)
        self.names.append(name)


Draw = Callable[[Program], tuple[str, Compute, tuple[str | int, ...]]]
DRAWS: list[Draw] = []


def draws(weight: int) -> Callable[[Draw], Draw]:
    """Register what draws a step, to be drawn more often the larger the weight."""

    def register(draw: Draw) -> Draw:
        DRAWS.extend([draw] * weight)
        return draw

    return register


@draws(3)
def _unary(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    x = p.value(lambda v: not v.is_bool)
    names = ("abs", "neg", "sign", "square") if x.dtype.is_signed else ("square",)
    if x.is_float:
        names = (*names, "relu", "sigmoid", "tanh", "exp", "log1p", "sqrt", "floor", "trunc", "frac", "erf", "isnan")
    name = p.choose(names)
    return name, lambda t: getattr(t[x.place], name)(), x.sizes


@draws(2)
def _function(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value(lambda v: v.is_float and len(v.sizes) > 0)
    name = p.choose(("softmax", "log_softmax", "gelu", "silu", "softplus", "elu", "hardtanh", "leaky_relu", "softsign"))
    function = getattr(torch.nn.functional, name)
    options = {"dim": p.axis(x)} if "max" in name else {}
    return name, lambda t: function(t[x.place], **options), x.sizes


@draws(3)
def _binary(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value()
    y = p.value(lambda v: v.sizes == x.sizes)
    names = ("add", "mul", "maximum", "minimum", "eq", "lt", "ge", "ne", "where")
    if not (x.is_bool or y.is_bool):
        names = (*names, "sub", "sub")
    if x.is_float and y.is_float:
        names = (*names, "div", "atan2", "logaddexp", "fmod", "remainder", "floor_divide", "pow", "hypot")
        names = names if x.dtype == y.dtype else names[:-4]
    name = p.choose(names)
    if name == "where":
        return name, lambda t: torch.where(t[x.place] > t[y.place], t[x.place], t[y.place]), x.sizes
    return name, lambda t: getattr(torch, name)(t[x.place], t[y.place]), x.sizes


@draws(2)
def _with_number(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    x = p.value(lambda v: not v.is_bool)
    number = p.choose((2, 3, 1, 7) if not x.is_float else (2, 0.5, 0.1, 3, 1e-3, -1.5))
    names = ["__add__", "__mul__", "__rsub__", "__gt__", "__truediv__", "__floordiv__", "__mod__", "__eq__"]
    if abs(number) <= 2 and x.is_float:
        names.append("__pow__")
    name = p.choose(names)
    return f"{name} {number}", lambda t: getattr(t[x.place], name)(number), x.sizes


@draws(1)
def _with_size(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    x, y = p.value(lambda v: not v.is_bool), p.value(lambda v: len(v.sizes) > 0)
    name = p.choose(("__add__", "__mul__", "__sub__", "__lt__"))
    return f"{name} a size", lambda t: getattr(t[x.place], name)(t[y.place].shape[0]), x.sizes


@draws(2)
def _cast(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value()
    # What a float beyond an integer's type becomes is not defined.
    name = p.choose((*_FLOATS, "bool") if x.is_float else (*_FLOATS, *_INTEGERS, "bool"))
    return f"to {name}", lambda t: t[x.place].to(getattr(torch, name)), x.sizes


@draws(3)
def _reduction(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    x = p.value(lambda v: len(v.sizes) > 0)
    names = ["sum", "any", "all"] if x.is_bool else ["sum", "sum", "amax", "amin", "argmax", "count_nonzero"]
    if x.is_float:
        names += ["mean", "prod", "logsumexp", "var", "std", "norm", "median", "nansum"]
    name, axis = p.choose(names), p.axis(x)
    place = axis % len(x.sizes)
    keeps = bool(p.rng.integers(2)) and name not in ("count_nonzero",)
    sizes = (*x.sizes[:place], *([1] if keeps else []), *x.sizes[place + 1 :])
    options = {"dim": axis, **({"keepdim": keeps} if name != "count_nonzero" else {})}

    def compute(t: list[Any]) -> Any:
        made = getattr(t[x.place], name)(**options)
        return made[0] if name == "median" else made

    return f"{name} of {axis}", compute, sizes


@draws(2)
def _scan(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    x = p.value(lambda v: len(v.sizes) > 0 and not v.is_bool)
    name, axis = (
        p.choose(("cumsum", "cumsum", "cumprod", "cummax", "flip", "sort", "argsort", "roll", "diff")),
        p.axis(x),
    )
    sizes = x.sizes if name != "diff" else tuple("?" if k == axis % len(x.sizes) else s for k, s in enumerate(x.sizes))
    arguments = {"flip": ([axis],), "roll": (1, axis), "diff": (1, axis), "argsort": ()}.get(name, (axis,))
    options = {"dim": axis, "stable": True} if name == "argsort" else {}

    def compute(t: list[Any]) -> Any:
        made = getattr(t[x.place], name)(*arguments, **options)
        return made if not isinstance(made, tuple) else made[0]

    return f"{name} of {axis}", compute, sizes


@draws(4)
def _lookup(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    table = p.rows(p.choose(("s", "v")))
    size = table.place if table.sizes[0] == "v" else _SUMS
    kind = p.choose(("index_select", "embedding", "[]", "gather", "take_along_dim"))
    if kind == "embedding" and not (table.is_float and len(table.sizes) == 2):
        kind = "[]"

    def compute(t: list[Any]) -> Any:
        x = t[table.place]
        ids = t[_IDS].long() % t[size].shape[0]
        if kind == "index_select":
            return x.index_select(0, ids)
        if kind == "embedding":
            return torch.nn.functional.embedding(ids, x)
        if kind == "[]":
            return x[ids]
        at = ids.view(-1, *[1] * (x.dim() - 1)).expand(-1, *x.shape[1:])
        return x.gather(0, at) if kind == "gather" else torch.take_along_dim(x, at, 0)

    return f"{kind} by ids", compute, ("n", *table.sizes[1:])


@draws(4)
def _segments(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.rows("n", is_float=True)
    kind = p.choose(("index_add", "amax", "amin", "mean", "prod", "sum", "index_put", "mean by counts", "softmax"))
    with_self = bool(p.rng.integers(2))

    def compute(t: list[Any]) -> Any:
        data, ids = t[x.place], t[_IDS].long()
        start = data.new_zeros((t[_SUMS].shape[0], *data.shape[1:]))
        if kind == "index_add":
            return start.index_add(0, ids, data)
        if kind == "index_put":
            return start.index_put((ids,), data, accumulate=True)
        if kind == "mean by counts":
            counts = torch.bincount(ids, minlength=t[_SUMS].shape[0]).to(data.dtype)
            return start.index_add(0, ids, data) / counts.clamp(min=1).view(-1, *[1] * (data.dim() - 1))
        at = ids.view(-1, *[1] * (data.dim() - 1)).expand_as(data)
        if kind == "softmax":
            largest = start.scatter_reduce(0, at, data, "amax", include_self=False)
            powers = (data - largest.gather(0, at)).exp()
            return start.scatter_add(0, at, powers)
        return start.scatter_reduce(0, at, data, kind, include_self=with_self)

    return f"{kind} by ids", compute, ("s", *x.sizes[1:])


@draws(3)
def _bag(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    table = p.value(lambda v: v.sizes == ("v", _WIDTH) and v.dtype in (torch.float32, torch.float64))
    mode, end = p.choose(("sum", "mean", "max")), bool(p.rng.integers(2))
    weighted = mode == "sum" and bool(p.rng.integers(2))

    def compute(t: list[Any]) -> Any:
        x = t[table.place]
        ids = (t[_IDS].long() * 3 + 1) % x.shape[0]
        # Entries that the lengths do not count belong to the last bag.
        ends = t[_LENGTHS].long().cumsum(0).clamp(max=ids.shape[0])
        offsets = torch.cat([ends.new_zeros(1), ends[:-1], ends.new_full((1,), ids.shape[0])])
        weights = t[_ROWS][:, 0].to(x.dtype) if weighted else None
        return torch.nn.functional.embedding_bag(
            ids, x, offsets if end else offsets[:-1], mode=mode, per_sample_weights=weights, include_last_offset=end
        )

    return f"bags by {mode}{', weighted' * weighted}", compute, ("s", _WIDTH)


@draws(2)
def _places(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value(lambda v: len(v.sizes) == 1 and not v.is_bool)
    kind = p.choose(("one_hot", "bucketize", "searchsorted", "isin", "unique counts", "bincount"))

    def compute(t: list[Any]) -> Any:
        given, ids = t[x.place], t[_IDS].long()
        if kind == "one_hot":
            return torch.nn.functional.one_hot(ids, _SEGMENTS + 3)
        if kind == "bucketize":
            return torch.bucketize(given, torch.tensor([-1.0, 0.0, 2.0]).to(given.dtype).abs().sort()[0])
        if kind == "searchsorted":
            return torch.searchsorted(given.sort()[0], given)
        if kind == "isin":
            return torch.isin(given, t[_NUMBERS].to(given.dtype))
        if kind == "unique counts":
            return torch.unique_consecutive(ids, return_counts=True)[1]
        return torch.bincount(ids, minlength=t[_SUMS].shape[0])

    sizes: dict[str, tuple[str | int, ...]] = {
        "one_hot": ("n", _SEGMENTS + 3),
        "unique counts": ("?",),
        "bincount": ("s",),
    }
    return kind, compute, sizes.get(kind, x.sizes)


@draws(2)
def _masked(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    mask = p.value(lambda v: v.is_bool)
    x = p.value(lambda v: v.sizes == mask.sizes and not v.is_bool)
    kind = p.choose(("masked_fill", "where", "masked sum", "masked_select"))

    def compute(t: list[Any]) -> Any:
        given, at = t[x.place], t[mask.place]
        if kind == "masked_fill":
            return given.masked_fill(at, 2)
        if kind == "where":
            return torch.where(at, given, torch.zeros_like(given))
        return (given * at).sum() if kind == "masked sum" else given.masked_select(at)

    return kind, compute, {"masked sum": (), "masked_select": ("?",)}.get(kind, x.sizes)


@draws(2)
def _joined(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value(lambda v: len(v.sizes) > 0)
    y = p.value(lambda v: v.sizes == x.sizes)
    kind, axis = p.choose(("cat", "stack", "slice", "unsqueeze", "transpose", "flatten", "pad", "repeat")), p.axis(x)
    place = axis % len(x.sizes)

    def compute(t: list[Any]) -> Any:
        one, other = t[x.place], t[y.place]
        if kind in ("cat", "stack"):
            return getattr(torch, kind)([one, other], axis)
        if kind == "slice":
            return one.narrow(axis, 0, 1) if x.sizes[place] == _WIDTH else one[1:] if not place else one[:, 1:]
        if kind == "pad":
            return torch.nn.functional.pad(one, (1, 2))
        if kind == "repeat":
            return one.repeat_interleave(t[_SUMS].shape[0], axis)
        return {"unsqueeze": one.unsqueeze, "transpose": lambda a: one.transpose(a, -1)}.get(
            kind, lambda a: one.flatten()
        )(axis)

    changed = (*x.sizes[:place], "?", *x.sizes[place + 1 :])
    new = place if axis >= 0 else place + 1
    swapped = list(x.sizes)
    swapped[place], swapped[-1] = swapped[-1], swapped[place]
    sizes: dict[str, tuple[str | int, ...]] = {
        "stack": (*x.sizes[:new], 2, *x.sizes[new:]),
        "unsqueeze": (*x.sizes[:new], 1, *x.sizes[new:]),
        "transpose": tuple(swapped),
        "flatten": ("?",),
        "pad": (*x.sizes[:-1], "?"),
    }
    return f"{kind} of {axis}", compute, sizes.get(kind, changed)


@draws(2)
def _matrices(p: Program) -> tuple[str, Compute, tuple[str | int, ...]]:
    import torch

    x = p.value(lambda v: len(v.sizes) == 2 and v.sizes[1] == _WIDTH and v.is_float)
    y = p.value(lambda v: len(v.sizes) == 2 and v.sizes[1] == _WIDTH and v.dtype == x.dtype)
    kind = p.choose(("matmul", "cosine", "attention", "cdist", "outer"))
    if kind == "cdist" and x.dtype not in (torch.float32, torch.float64):
        kind = "matmul"

    def compute(t: list[Any]) -> Any:
        one, other = t[x.place], t[y.place]
        if kind == "matmul":
            return one @ other.T
        if kind == "cdist":
            return torch.cdist(one, other)
        if kind == "outer":
            return torch.einsum("ik,jk->ij", one, other)
        if kind == "cosine":
            return torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=-1)
        return torch.nn.functional.scaled_dot_product_attention(one[None], other[None], other[None])[0]

    return kind, compute, (x.sizes[0], _WIDTH if kind == "attention" else y.sizes[0])


def program(seed: int, index: int) -> Case:
    """A program."""
    import torch
    from torch.utils import _pytree as pytree

    rng = np.random.default_rng([seed, index])
    torch.manual_seed(int(rng.integers(2**31)))
    made = Program(rng)
    floats = [getattr(torch, str(name)) for name in rng.choice(_FLOATS, 3)]
    ids = torch.randint(0, _SEGMENTS, (_ENTRIES,), dtype=getattr(torch, str(rng.choice(_INTEGERS[:2]))))
    numbers = torch.randint(0, 5, (_ENTRIES,), dtype=getattr(torch, str(rng.choice(_INTEGERS))))
    inputs = [
        torch.randn(_ENTRIES, _WIDTH).to(floats[0]),
        ids.sort()[0] if rng.integers(2) else ids,
        torch.randn(_SEGMENTS, _WIDTH).to(floats[1]),
        torch.randn(_TABLE, _WIDTH).to(floats[2]),
        torch.randint(0, 3, (_SEGMENTS,)),
        numbers,
    ]
    for place, (tensor, sizes) in enumerate(zip(inputs, _SIZES, strict=True)):
        made.tensors.append(tensor)
        made.values.append(Value(place, sizes, tensor.dtype))
    count, failures = int(rng.integers(3, 11)), 0
    while len(made.steps) < count and failures < 100:
        try:
            made.grow(*DRAWS[int(rng.integers(len(DRAWS)))](made))
        except (IndexError, RuntimeError, NotImplementedError, TypeError, ValueError):  # nothing fits, or torch refuses
            failures += 1
    steps = tuple(made.steps)
    last = {len(made.tensors) - 1, *(int(k) for k in rng.integers(len(inputs), len(made.tensors), 2))}

    def run(*given: Any) -> tuple[Any, ...]:
        tensors = list(given)
        for step in steps:
            tensors.append(step(tensors))
        return tuple(tensors[k] for k in sorted(last))

    leaves, structure = pytree.tree_flatten((tuple(inputs), {}))
    return Case(f"program {seed}/{index}", " > ".join(made.names), run, leaves, structure)


def programs(seed: int, first: int, count: int) -> list[Case]:
    """So many programs."""
    return [program(seed, index) for index in range(first, first + count)]


def main() -> int:
    parsed = parser(__doc__, "python -m census.programs", count=200, seed=0, first=0, at_once=32, show=False)
    options = parsed.parse_args()
    counts: Counter[str] = Counter()
    for first in range(options.first, options.first + options.count, options.at_once):
        for found in walk(programs(options.seed, first, options.at_once)):
            counts[found.outcome] += 1
            if found.outcome in FAULTS or (options.show and found.outcome in (REFUSED, NOT_OURS)):
                print(f"{found.outcome}: {found.case.name}: {found.reason}", flush=True)
        print(f"{first + options.at_once}: " + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES), flush=True)
    return int(any(counts[name] for name in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
