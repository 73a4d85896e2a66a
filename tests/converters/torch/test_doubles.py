"""Numbers beside doubles, none of which float32 holds: in each function of torch that takes some, by its schema."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

Call = Callable[[Any, torch.Tensor], Any]

F = torch.nn.functional

_NUMBERS = ("number", "float", "Optional[number]", "Optional[float]")

#: Random ones, those that are not converted, and those with which no program of torch.export calls.
_OTHERS = (
    *("bernoulli", "copysign", "cross_entropy_loss", "histc", "linalg_", "nanquantile", "pdist", "pinverse"),
    *("quantile", "rrelu", "scaled_dot_product", "special_zeta"),
)
_BY_NUMBER_AND_FACTOR = ("add.Scalar", "sub.Scalar", "subtract.Scalar")

#: What has its numbers inside, or beside integers.
OWN: dict[str, Call] = {
    "addmm": lambda _, x: torch.addmm(x @ x.T, x, x.T, alpha=0.1, beta=0.3),
    "addmv": lambda _, x: torch.addmv(x[:, 0], x, x[0], alpha=0.1),
    "arange": lambda _, x: torch.arange(0.1, 2, 0.3, dtype=x.dtype),
    "arange beyond float32": lambda _, x: torch.arange(2**24 - 1, 2**24 + x.shape[0], dtype=x.dtype),
    "arange of whole numbers": lambda _, x: torch.arange(0.5, 4.6, dtype=torch.int32),
    "arange down": lambda _, x: torch.arange(2 * x.shape[0], 0.5, -2.5, dtype=torch.bfloat16),
    "attention": lambda _, x: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=0.1),
    "deg2rad": lambda _, x: torch.deg2rad(x),
    "exp2": lambda _, x: torch.exp2(x),
    "full": lambda _, x: torch.full((x.shape[0], 2), 0.1, dtype=x.dtype),
    "full of bools, whole numbers and one": lambda _, x: (
        x * torch.full((1,), True) + torch.full((), 3) + x.new_full([1], 0.1)
    ),
    "hardsigmoid": lambda _, x: F.hardsigmoid(x),
    "hardswish": lambda _, x: F.hardswish(x),
    "index_add": lambda _, x: x.index_add(0, torch.tensor([1]), x[:1], alpha=0.1),
    "layer_norm": lambda _, x: F.layer_norm(x, (3,), eps=0.1),
    "linspace": lambda _, x: torch.linspace(0.1, 2, 7, dtype=x.dtype),
    "log10": lambda _, x: x.abs().log10(),
    "log2": lambda _, x: x.abs().log2(),
    "logspace": lambda _, x: torch.logspace(0.1, 2, 7, dtype=x.dtype),
    "of no rows": lambda _, x: torch.full_like(x[:0], 0.1).sum(0),
    "pad": lambda _, x: F.pad(x, (1, 1), value=0.1),
    "power of a number": lambda _, x: 0.1**x,
    "powers of ten": lambda _, x: (10 ** (torch.arange(16) + x[0, 0].round())).log10().floor(),
    "powers of two": lambda _, x: torch.exp2((torch.arange(60) - 9 + x[0, 0].round()).float()).log2().floor(),
    "quotient of a number": lambda _, x: 0.1 / x,
    "rad2deg": lambda _, x: torch.rad2deg(x),
    "rms_norm": lambda _, x: F.rms_norm(x, (3,), eps=0.1),
    "scatter": lambda _, x: x.scatter(0, torch.tensor([[0]]), 0.1),
    "selu": lambda _, x: F.selu(x),
    "sinc": lambda _, x: torch.sinc(x),
    "softplus": lambda _, x: F.softplus(x),
}


def with_numbers(x: torch.Tensor) -> Iterator[tuple[str, Call]]:
    """A call of each function that takes tensors and at least one number, and is the same at every call."""
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if schema.is_mutable or name.startswith(("_", *_OTHERS)) or "backward" in name or "polynomial" in name:
            continue
        call = _call(name, schema)
        label = f"{name}.{schema.overload_name}"
        if call is not None and label not in _BY_NUMBER_AND_FACTOR and _is_function(call, x):
            yield label, call


def _call(name: str, schema: Any) -> Call | None:
    kinds = [str(argument.type) for argument in schema.arguments]
    required = [not argument.has_default_value() for argument in schema.arguments]
    if "Tensor" not in kinds[:1] or not any(kind in _NUMBERS for kind in kinds) or len(schema.returns) != 1:
        return None
    if any(needed and kind not in ("Tensor", *_NUMBERS) for kind, needed in zip(kinds, required, strict=True)):
        return None
    numbers, given = itertools.cycle((0.1, 0.3, 0.7)), {}
    for argument, kind in zip(schema.arguments, kinds, strict=True):
        if kind == "Tensor" or kind in _NUMBERS:
            given[argument.name] = argument.name in ("mask", "condition") if kind == "Tensor" else next(numbers)
    function = getattr(getattr(torch.ops.aten, name, None), schema.overload_name or "default", None)

    def call(_: Any, x: torch.Tensor) -> Any:
        tensors = {False: x, True: x > 0.2}
        return function(**{name: tensors[value] if isinstance(value, bool) else value for name, value in given.items()})

    return call if function is not None else None


def _is_function(call: Call, x: torch.Tensor) -> bool:
    """Whether torch makes the call, and a tensor of it."""
    try:
        made = [call(None, x) for _ in range(2)]
        return isinstance(made[0], torch.Tensor) and torch.equal(*(each.nan_to_num() for each in made))
    except (IndexError, RuntimeError, NotImplementedError, TypeError, ValueError):  # for what it refuses
        return False


def test_numbers_beside_doubles_are_doubles(agree) -> None:
    """0.1 is another number in float32 from the ninth digit on."""
    batches = [(torch.linspace(-1.3, 1.7, 3 * rows, dtype=torch.float64).reshape(rows, 3),) for rows in (4, 2)]
    calls = {**dict(with_numbers(*batches[0])), **OWN}
    assert len(calls) > 90
    agree(calls, batches, tolerances={"float64": 1e-13}, dynamic=[{0: torch.export.Dim.DYNAMIC}])
