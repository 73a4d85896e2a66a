"""What the tests of the converter from torch share: many calls in one module, because an export takes a second.

torch is imported where it is used: without it, each module of tests is skipped, and this one is still read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from support.comparison import difference
from support.torch_exports import read_torchlib_once

import onnx_sparse

Calls = Mapping[str, Callable[..., Any]]

#: How far apart half floats may be: frameworks round at every step.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture(scope="session", autouse=True)
def torchlib() -> None:
    """The first export, too, keeps what it reads."""
    import torch.onnx._internal.exporter._registration  # noqa: F401

    read_torchlib_once()


@pytest.fixture(scope="session")
def agree() -> Callable[..., Any]:
    """`agree(calls, batches)` exports all calls at once, compares each with torch on each batch, returns the model.

    Each call gets the module, whose buffers are the `tables`, and the inputs of a batch. The first batch is the example
    for the export. All dimensions of the inputs are dynamic, or those that `dynamic` names.
    """
    import torch

    from onnx_sparse.converters.torch import export
    from onnx_sparse.converters.torch.source import to_numpy

    class Module(torch.nn.Module):
        def __init__(self, calls: Calls, tables: Mapping[str, Any]) -> None:
            super().__init__()
            self.calls = calls
            for name, table in tables.items():
                self.register_buffer(name, table)

        def forward(self, *args: Any) -> tuple[Any, ...]:
            return tuple(call(self, *args) for call in self.calls.values())

    def agree(
        calls: Calls,
        batches: Sequence[tuple[Any, ...]],
        *,
        tables: Mapping[str, Any] | None = None,
        dynamic: Sequence[Mapping[int, Any]] | None = None,
        tolerances: Mapping[str, float] = TOLERANCES,
        **options: Any,
    ) -> Any:
        module = Module(calls, tables or {}).eval()
        if dynamic is None:
            dynamic = [dict.fromkeys(range(argument.dim()), torch.export.Dim.DYNAMIC) for argument in batches[0]]
        model = export(module, batches[0], dynamic_shapes=(tuple(dynamic),), **options)
        session = onnx_sparse.InferenceSession(model)
        names = [value.name for value in session.get_inputs()]
        wrong = []
        for place, batch in enumerate(batches):
            results = session.run(None, dict(zip(names, map(to_numpy, batch), strict=True)))
            for name, want, got in zip(calls, module(*batch), results, strict=True):
                wanted = to_numpy(want)
                if found := difference(wanted, got, tolerances.get(wanted.dtype.name, 1e-5)):
                    wrong.append(f"{name} on batch {place}: {found}")
        assert not wrong, "\n".join(wrong)
        return model

    return agree
