"""Modules that compute gradients in forward, as forces of molecules are: traced with the operations of the gradients.

torch.export does not trace torch.autograd.grad. make_fx does: what it makes is exported.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.torch.lazy_imports import require

#: What torch's messages say where a gradient was the reason.
_SIGNS = ("autograd", "requires_grad", "fake tensor in the exported program", "functorch")


def are_computed(errors: Sequence[Exception]) -> bool:
    """Whether torch.export refuses a module because it computes gradients."""
    return any(sign in str(error) for error in errors for sign in _SIGNS)


#: Sizes at which a condition is evaluated, each dynamic one at another place of these.
_SIZES = (2, 3, 4, 5, 8, 17, 64, 1000, 10**6)


def with_gradients(model: Any, args: tuple[Any, ...], named: Mapping[str, Any], dynamic_shapes: Any = None) -> Any:
    """A module of the same inputs whose operations are those of the module and of its gradients.

    Args:
        model: A `torch.nn.Module`.
        args, named: Examples of its arguments, which are tensors.
        dynamic_shapes: As for `torch.export.export`.

    Raises:
        ConversionError: What was traced holds for some of the dynamic sizes only.
        Exception: Whatever torch raises for what it does not trace.
    """
    torch = require("torch")
    decompositions = {
        overload: decompose
        for overload, decompose in torch._decomp.core_aten_decompositions().items()
        if "backward" in str(overload)
    }
    bound = inspect.signature(model.forward).bind(*args, **named)
    names = [*bound.arguments]

    def call(*given: Any) -> Any:
        return model(**dict(zip(names, given, strict=True)))

    make_fx = torch.fx.experimental.proxy_tensor.make_fx
    # Equal sizes of the example need not be equal.
    with torch.enable_grad(), torch.fx.experimental._config.patch(use_duck_shape=False):
        example = [tensor.detach().clone() for tensor in bound.arguments.values()]
        traced = make_fx(call, decompositions, "symbolic", _allow_non_fake_inputs=True)(*example)
    for node, name in zip(traced.graph.find_nodes(op="placeholder"), names, strict=True):
        node.target = node.name = name
    traced.recompile()
    _require_all_sizes(traced, dynamic_shapes)
    return traced


def _require_all_sizes(traced: Any, dynamic_shapes: Any) -> None:
    """Require that the conditions on sizes under which a module was traced hold for all of them; 0 and 1 are run later.

    Raises:
        ConversionError: With the first that does not.
    """
    known: dict[Any, int] = {}
    places: dict[Any, str] = {}
    guards: list[Any] = []
    for k, node in enumerate(traced.graph.find_nodes(op="placeholder")):
        given = dynamic_shapes
        if given is not None:
            given = given.get(node.name) if isinstance(given, Mapping) else given[k]
        for axis, size in enumerate(node.meta["val"].shape):
            if isinstance(size, int):
                continue
            symbol, guards = size.node.expr, size.node.shape_env.guards
            asked = given.get(axis) if isinstance(given, Mapping) else given[axis] if given else None
            if asked is None:
                known[symbol] = size.node.hint
            else:
                places[symbol] = f"{node.name}.shape[{axis}]"
    conditions = [guard.expr.subs(known) for guard in guards]
    same: dict[Any, Any] = {}  # sizes that must be equal
    for condition in conditions:
        if condition.is_Equality and condition.lhs in places and condition.rhs in places:
            same[condition.lhs.subs(same)] = condition.rhs.subs(same)
    for condition in conditions:
        merged = condition.subs(same).subs(same)
        free = sorted(merged.free_symbols, key=str)
        if not places.keys() >= set(free):
            continue  # of numbers that depend on values
        for first in range(len(_SIZES)):
            drawn = {symbol: _SIZES[(first + 3 * k) % len(_SIZES)] for k, symbol in enumerate(free)}
            if not merged.subs(drawn):
                told = str(condition)
                for symbol, place in places.items():
                    told = told.replace(str(symbol), place)
                raise ConversionError(f"it is traced for sizes with {told}; declare these static")
