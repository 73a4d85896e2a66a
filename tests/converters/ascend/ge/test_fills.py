"""GE's fills against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.ascend_graphs import random, run, wide
from support.ge_graphs import BFLOAT16, GE_NUMBERS, Graph, evaluate

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
RNG = np.random.default_rng(17)


@pytest.fixture
def one(tmp_path):
    """The first result of one operator."""

    def one(op_type, *inputs, **options):
        return evaluate(tmp_path, run, op_type, list(inputs), **options)[0]

    return one


@pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, np.int8, I32, I64, bool])
def test_fill(one, dtype):
    value = np.array(1, dtype)
    for dims_type in (I32, I64):
        dims = np.array([2, 3], dims_type)
        for constants in ((0, 1), (0,), ()):
            y = one("Fill", dims, value, constants=constants, result=(dtype, (2, 3)))
            assert y.dtype == value.dtype
            np.testing.assert_array_equal(wide(y), np.full((2, 3), 1.0))
    np.testing.assert_array_equal(wide(one("FillD", value.reshape(1), dims=[3])), [1, 1, 1])


def test_fill_v2(one):
    for dtype, expected in ((F32, 2.5), (I32, 2)):
        y = one("FillV2", np.array([4]), constants=(0,), result=(dtype, (4,)), value=2.5)
        np.testing.assert_array_equal(y, np.full(4, expected, dtype))
    np.testing.assert_array_equal(one("FillV2D", dims=[2], value=1.0, result=(F16, (2,))), [1, 1])


@pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, I32, I64])
def test_likes(one, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    for op_type, attributes, expected in (
        ("ZerosLike", {}, 0),
        ("OnesLike", {}, 1),
        ("Fills", {"value": -3.0}, -3),
    ):
        y = one(op_type, x, **attributes)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(wide(y), np.full((2, 3), expected))


def test_empty(one):
    np.testing.assert_array_equal(one("Empty", np.array([2, 2]), constants=(0,), dtype=3), np.zeros((2, 2), I32))


@pytest.mark.parametrize(
    ("x", "mask"), [((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((3,), (4, 2, 3)), ((2, 1), (3,))]
)
@pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, I32, I64, np.int8])
def test_masked_fill(one, dtype, x, mask):
    """Unlike in ATB, x is also broadcast; the value is cast to x's type."""
    data, flags = random(RNG, dtype, x), RNG.integers(0, 2, mask).astype(bool)
    for value in (np.array(-7, dtype), np.array([-7], F32)):
        y = one("MaskedFill", data, flags, value)
        assert y.dtype == data.dtype
        np.testing.assert_array_equal(wide(y), np.where(flags, -7, wide(data)))


def test_masked_fill_with_a_tensor(one):
    data, flags, value = random(RNG, F16, (2, 3)), RNG.integers(0, 2, (3,)).astype(bool), random(RNG, F16, (2, 1))
    np.testing.assert_array_equal(one("MaskedFill", data, flags, value), np.where(flags, value, data))


@pytest.mark.parametrize(("shape", "axis"), [((4, 5), 1), ((4, 2, 5), -1), ((4, 5, 2), 1), ((5,), 0), ((5, 2), 0)])
def test_masked_fill_range(one, shape, axis):
    """In plain loops: for i, for each row j, the range [start, end) along the axis; the last i wins."""
    x, value = random(RNG, F32, shape), np.array([10.0, 20.0], F32)
    rows = 1 if axis == 0 else 3  # the fourth row has no range
    start = RNG.integers(0, 3, (2, rows)).astype(I32)
    end = start + RNG.integers(0, 3, (2, rows)).astype(I32)
    y = one("MaskedFillRange", x, start, end, value, axis=axis)
    expected = x.copy()
    for i in range(2):
        for j in range(rows):
            row = expected if axis == 0 else expected[j]
            place = [slice(None)] * row.ndim
            place[axis % x.ndim - (axis != 0)] = slice(start[i, j], end[i, j])
            row[tuple(place)] = value[i]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [
        ("Fill", [np.array([-1]), np.array(1, F32)], {"constants": (0,)}),
        ("Fill", [np.array([1], F32), np.array(1, F32)], {}),
        ("Fill", [np.array([1])], {}),
        ("Fill", [np.array([1]), None], {}),
        ("FillV2", [np.array([1])], {}),
        ("FillV2", [np.array([1], F32), np.array(1, F32)], {"result": (F32, (1,))}),
        ("Fills", [np.array([1], F32)], {}),
        ("Empty", [np.array([1])], {"dtype": 99}),
        ("MaskedFill", [np.zeros(2, F16), np.zeros(3, bool), np.array(1, F16)], {}),
        ("MaskedFillRange", [np.zeros((2, 2), F16), np.zeros((1, 3), I32), np.zeros((1, 3), I32), np.zeros(1, F16)],
         {"axis": 1}),
        ("Cast", [np.array([1], F32)], {"dst_type": 16}),
        ("Cast", [np.array([1], F32)], {}),
    ],
)  # fmt: skip
def test_what_is_refused(one, op_type, inputs, options):
    with pytest.raises(ConversionError, match="1 node cannot be converted"):
        one(op_type, *inputs, **options)


SHAPES = [(), (1,), (3,), (2, 1), (1, 3), (2, 3), (2, 2, 1), (4, 1, 2, 3)]


def broadcasts(x: tuple[int, ...], mask: tuple[int, ...]) -> bool:
    return all(1 in pair or pair[0] == pair[1] for pair in zip(reversed(x), reversed(mask), strict=False))


@pytest.mark.parametrize("dtype", [BFLOAT16 if name == "bfloat16" else np.dtype(name) for name in GE_NUMBERS], ids=str)
def test_every_element_type_and_broadcast_against_numpy(tmp_path, dtype):
    """One graph: a MaskedFill of each pair of shapes that broadcast, and a Fill of each shape."""
    rng = np.random.default_rng(29)
    graph = Graph()
    feeds, expected, names = [], [], []
    for number, (x_shape, mask_shape) in enumerate(itertools.product(SHAPES, SHAPES)):
        if not broadcasts(x_shape, mask_shape):
            continue
        x, mask, value = (
            random(rng, dtype, x_shape),
            rng.integers(0, 2, mask_shape).astype(bool),
            random(rng, dtype, ()),
        )
        feeds += [x, mask, value]
        inputs = [graph.data(f"{kind}{number}", a.dtype, a.shape) for kind, a in zip("xmv", feeds[-3:], strict=True)]
        names.append(graph.op("MaskedFill", *inputs, name=f"y{number}"))
        expected.append(np.where(mask, value, x))
    for number, shape in enumerate(SHAPES):
        value = random(rng, dtype, ())
        dims = graph.const(f"dims{number}", np.array(shape, I64))
        names.append(graph.op("Fill", dims, graph.const(f"value{number}", value), name=f"z{number}"))
        expected.append(np.full(shape, value))
    model = convert(graph.output(*names).write(tmp_path))
    for name, actual, wanted in zip(names, run(model, *feeds), expected, strict=True):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), name
        np.testing.assert_array_equal(wide(actual), wide(wanted), err_msg=name)
