"""Modules that compute gradients in forward, as forces of molecules are: traced with the operations of the gradients.

torch.export does not trace torch.autograd.grad. make_fx does: what it makes is exported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_sparse.converters.torch.lazy_imports import require

#: What torch's messages say where a gradient was the reason.
_SIGNS = ("autograd", "requires_grad", "fake tensor in the exported program", "functorch")


def are_computed(errors: Sequence[Exception]) -> bool:
    """Whether torch.export refuses a module because it computes gradients."""
    return any(sign in str(error) for error in errors for sign in _SIGNS)


def with_gradients(model: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """A module of the same inputs whose operations are those of the module and of its gradients.

    Args:
        model: A `torch.nn.Module`.
        args, named: Examples of its arguments, which are tensors.

    Raises:
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
    with torch.enable_grad():
        example = [tensor.detach().clone() for tensor in bound.arguments.values()]
        traced = make_fx(call, decompositions, "symbolic", _allow_non_fake_inputs=True)(*example)
    for node, name in zip(traced.graph.find_nodes(op="placeholder"), names, strict=True):
        node.target = node.name = name
    traced.recompile()
    return traced


def recording_gradients(model: Any) -> Callable[..., Any]:
    """The module, called with gradients where the caller has none."""

    def call(*args: Any, **named: Any) -> Any:
        with require("torch").enable_grad():
            return model(*args, **named)

    return call
