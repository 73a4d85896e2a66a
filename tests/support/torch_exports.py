"""torch's exporter prepares its tables anew at each export, which is two thirds of the time: once is enough."""

from __future__ import annotations

import functools
import sys
from typing import Any


def read_torchlib_once() -> None:
    """Let torch's exporter keep what it reads, in this process, if it has been imported."""
    exporter: Any = sys.modules.get("torch.onnx._internal.exporter._registration")
    registry = getattr(exporter, "ONNXRegistry", None)
    if registry is None or hasattr(registry, "kept"):
        return
    import torch._export.utils as operators
    from torch.export import decomp_utils

    registry.kept = functools.cache(registry.from_torchlib)

    def from_torchlib(cls: Any, **options: Any) -> Any:
        """A registry of its own: an export adds its functions to it."""
        made, kept = cls(), registry.kept(**options)
        made._opset_version, made.functions = kept.opset_version, {name: [*f] for name, f in kept.functions.items()}
        return made

    registry.from_torchlib = classmethod(from_torchlib)
    decomp_utils._get_decomp_for_cia = functools.cache(decomp_utils._get_decomp_for_cia)
    materialize, registered = operators._materialize_cpp_cia_ops, operators.torch._C
    known: list[Any] = [None]

    def materialize_new() -> None:
        """The operators that C++ knows, in all namespaces; it is asked for each of these."""
        now = registered._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if now != known[0]:
            materialize()
            known[0] = now

    operators._materialize_cpp_cia_ops = materialize_new
