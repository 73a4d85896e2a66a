"""Division that rounds down, of every road: at the ends of all integer types, and of floats."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_sparse import InferenceSession
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.lowering.division import floor_div, floor_mod
from onnx_sparse.schemas.declaration import element_type

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
VERBS = {floor_div: np.floor_divide, floor_mod: np.mod}


def computed(verb, x, y):
    """What ONNX Runtime computes of a verb."""
    emit = AscendEmitter(["x", "y"])
    dtype = element_type(x.dtype)
    given = [Tensor(name, dtype, (None,)) for name in ("x", "y")]
    (made,) = emit.name_outputs((verb(emit, *given),), ["made"])
    model = emit.model("division", list(map(value_info, given)), [value_info(made)])
    return InferenceSession(model).run(None, {"x": x, "y": y})[0]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_near_the_ends_of_their_type_and_near_zero(verb, dtype):
    """All pairs; without a divisor of 0, and the least integer by -1, which no type holds."""
    ends = np.iinfo(dtype)
    near = {*range(-9, 10), *(ends.min + k for k in range(9)), *(ends.max - k for k in range(9)), ends.max // 2}
    values = np.array(sorted(value for value in near if ends.min <= value <= ends.max), dtype)
    x, y = (part.ravel() for part in np.meshgrid(values, values[values != 0]))
    fits = (x != ends.min) | (y != x.dtype.type(-1)) if ends.min else np.ones(len(x), bool)
    made = computed(verb, x[fits], y[fits])
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, VERBS[verb](x[fits], y[fits]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_have_the_remainder_of_the_divisors_sign(dtype):
    values = np.array([-7.5, -4, -2, -0.75, 0.0, 0.75, 2, 4, 7.5, 1e30, -1e30], dtype)
    x, y = (part.ravel() for part in np.meshgrid(values, values[values != 0]))
    np.testing.assert_array_equal(computed(floor_mod, x, y), np.mod(x, y))
    small = (np.abs(x) < 10) & (np.abs(y) < 10)
    np.testing.assert_array_equal(computed(floor_div, x[small], y[small]), np.floor(x[small] / y[small]))
