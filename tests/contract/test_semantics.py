"""Every operator, with every element type, equals the oracle's plain loops on every backend.

Native kernels and function bodies are made anew for every combination of element types, so they run all of them. The
other backends run one and the same numpy functions: each element type once, with the index types in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from contract.arguments import Arguments, calls
from contract.backends import BACKENDS, SHARE_NUMPY, Call, gap_marks
from contract.expected import assert_equals, is_utf8
from contract.oracle import ORACLES
from hypothesis import Phase, given, settings

from onnx_sparse import KernelError
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import dtype_name

pytestmark = pytest.mark.slow


def each_type_once(op: Op) -> Iterator[dict[str, int]]:
    """Every element type of the first type variable once, with the combinations of the others in turn."""
    bindings = list(op.type_bindings())
    elements = len(next(iter(op.types.values()), [None]))
    others = len(bindings) // elements  # the last type variables change first
    for k in range(max(elements, others)):
        yield bindings[k % elements * others + k % others]


def combinations() -> Iterator[Any]:
    """Each combination of types once, with all backends that run it on the same inputs; expected gaps by themselves.

    By day these are the combinations with each type, and one of four of the others.
    """
    for op in OPS.values():
        once = list(each_type_once(op))
        for binding in op.type_bindings():
            backends = [name for name in BACKENDS if name not in SHARE_NUMPY or binding in once]
            gaps = {name: marks for name in backends if (marks := gap_marks(name, op, binding))}
            types = "-".join(dtype_name(t) for t in binding.values())
            together = [name for name in backends if name not in gaps]
            rare = () if binding in once else (pytest.mark.one_of(4),)
            yield pytest.param(op, binding, together, id=f"{op.name}-{types}-{', '.join(together)}", marks=rare)
            for name, marks in gaps.items():
                yield pytest.param(op, binding, [name], id=f"{op.name}-{types}-{name}", marks=marks)


@pytest.mark.parametrize(("op", "binding", "backends"), list(combinations()))
def test_equals_the_oracle(op: Op, binding: dict[str, int], backends: list[str]) -> None:
    # A failure that is expected is not shrunk, which takes longer than all other tests of the operator.
    is_gap = any(gap_marks(name, op, binding) for name in backends)

    @settings(phases=[Phase.generate] if is_gap else tuple(Phase))
    @given(calls(op, binding))
    def check(call: tuple[Arguments, dict[str, str]]) -> None:
        inputs, attributes = call
        expected = ORACLES[op.name](inputs, attributes)
        for backend in backends:
            if backend == "ORT Python" and not all(is_utf8(output) for output in expected.values()):
                with pytest.raises(KernelError, match="bytes that are not UTF-8; onnxruntime-extensions cannot"):
                    BACKENDS[backend](Call.of(op, binding, attributes, inputs), inputs)
                continue
            outputs = BACKENDS[backend](Call.of(op, binding, attributes, inputs), inputs)
            assert len(outputs) == len(op.outputs), backend
            for declared, actual in zip(op.outputs, outputs, strict=True):
                assert_equals(actual, expected[declared.name], f"{declared.name} of {backend}")

    check()
