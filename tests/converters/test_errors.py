"""What converters say of the errors of other programs."""

from __future__ import annotations

import itertools

import pytest

from onnx_sparse.converters.errors import causes


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("circle", [False, True])
def test_causes_come_once(length, circle):
    chain = [ValueError(str(k)) for k in range(length)]
    for error, cause in itertools.pairwise(chain):
        error.__cause__ = cause
    if circle:
        chain[-1].__cause__ = chain[0]
    assert causes(chain[0]) == chain


def test_errors_of_torch_that_are_raised_from_each_other():
    conversion = pytest.importorskip("onnx_sparse.converters.torch.conversion")
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert conversion._first_cause(first) == "second"
    assert conversion._failed_node(first, "reason") is None
