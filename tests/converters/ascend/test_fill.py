"""FillOperation by ATB's rules: values, element types, shapes, and errors with ATB's own names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, evaluate, layer, one_operation, operation, run, spec, write

import onnx_sparse
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

X = np.arange(6, dtype=np.float16).reshape(2, 3)
MASK = np.array([[1, 0, 1], [0, 1, 0]], np.int8)
BIG = 1e6


def with_mask(value: object, **others: object) -> dict[str, object]:
    return {"withMask": True, "value": value, "outDim": [], **others}


def without_mask(value: object, dims: object) -> dict[str, object]:
    return {"withMask": False, "value": value, "outDim": dims}


def golden(x: np.ndarray, mask: np.ndarray, value: object) -> np.ndarray:
    """x.masked_fill(mask.bool(), value), one element at a time."""
    result = x.copy()
    full = np.broadcast_to(mask.astype(bool), x.shape)
    for index in np.ndindex(*x.shape):
        if full[index]:
            result[index] = value
    return result


@pytest.fixture
def refused(tmp_path):
    """The reason why a FillOperation is refused."""

    def refused(param, *arrays, csv="", results=1):
        names = [f"in{i}" for i in range(len(arrays))]
        graph = layer(names, ["out0"], [operation("FillOperation", names, ["out0"], param, "FillOperation_0_0")])
        tensors = write(tmp_path, csv, "operation_tensors_0.csv") if csv else None
        with pytest.raises(ConversionError) as caught:
            convert(write(tmp_path, graph), inputs={f"in{i}": spec(a) for i, a in enumerate(arrays)}, tensors=tensors)
        (node,) = caught.value.unsupported
        assert (node.node, node.op_type) == ("FillOperation_0_0", "FillOperation")
        return node.reason

    return refused


class TestValues:
    @pytest.mark.parametrize(
        ("value", "saturated", "ieee"),
        [
            (65504.0, 65504, 65504),
            (65519.0, 65504, 65504),
            (65520.0, 65504, np.inf),
            (BIG, 65504, np.inf),
            (-BIG, -65504, -np.inf),
            (1e300, 65504, np.inf),
            (2049.0, 2048, 2048),  # half to even
            (2051.0, 2052, 2052),
            (-0.0, -0.0, -0.0),
        ],
    )
    def test_float16(self, tmp_path, value, saturated, ieee):
        for overflow, expected in (("saturate", saturated), ("ieee", ieee)):
            (y,) = evaluate(tmp_path, "FillOperation", with_mask([value]), X, MASK, fp16_overflow=overflow)
            np.testing.assert_array_equal(y, golden(X, MASK, np.float16(expected)))
            assert np.signbit(y[0, 0]) == np.signbit(expected)

    @pytest.mark.parametrize(("lost", "saturated"), [(np.inf, 65504), (-np.inf, -65504), (np.nan, 65504)])
    def test_a_lost_infinity_is_given(self, tmp_path, lost, saturated):
        param = with_mask([None])
        (y,) = evaluate(tmp_path, "FillOperation", param, X, MASK, fill_value=lost)
        np.testing.assert_array_equal(y, golden(X, MASK, saturated))
        (y,) = evaluate(tmp_path, "FillOperation", param, X, MASK, fill_value=lost, fp16_overflow="ieee")
        np.testing.assert_array_equal(y, golden(X, MASK, lost))

    def test_nan_saturates_by_its_sign(self, tmp_path):
        (y,) = evaluate(tmp_path, "FillOperation", with_mask([None]), X, MASK, fill_value=np.copysign(np.nan, -1.0))
        assert y[0, 0] == -65504

    @pytest.mark.parametrize(
        ("value", "expected"), [(np.inf, np.inf), (3.4028235e38, np.inf), (1.00390625, 1.0), (np.nan, np.nan)]
    )
    def test_bfloat16_rounds_and_keeps_infinities(self, tmp_path, value, expected):
        x = X.astype(BFLOAT16)
        (y,) = evaluate(tmp_path, "FillOperation", with_mask([None]), x, MASK, fill_value=value)
        np.testing.assert_array_equal(y.astype(np.float32), golden(x, MASK, expected).astype(np.float32))

    @pytest.mark.parametrize(
        ("value", "expected"), [(2.9, 2), (-2.9, -2), (16777217.0, 16777216), (-(2.0**31), -(2**31)), (0.5, 0)]
    )
    def test_int32_truncates(self, tmp_path, value, expected):
        x = X.astype(np.int32)
        (y,) = evaluate(tmp_path, "FillOperation", with_mask([value]), x, MASK)
        np.testing.assert_array_equal(y, golden(x, MASK, expected))

    @pytest.mark.parametrize("value", [2.0**31, -3e9, 1e300])
    def test_int32_out_of_range_is_undefined(self, refused, value):
        assert "outside of int32" in refused(with_mask([value]), X.astype(np.int32), MASK)

    def test_without_mask_the_output_is_float16(self, tmp_path):
        (y,) = run(one_operation(tmp_path, "FillOperation", without_mask([-BIG], [2, 3]), []))
        assert y.dtype == np.float16
        np.testing.assert_array_equal(y, np.full((2, 3), -65504))

    def test_null_needs_fill_value(self, refused):
        assert "--fill-value" in refused(with_mask([None]), X, MASK)


class TestSpellings:
    @pytest.mark.parametrize(
        ("op_type", "param"),
        [
            ("FillOperation", {"value": [7.0]}),  # ATB's default is withMask = true
            ("FillOperation", {"value": 7.0, "withMask": 1, "outDim": [3, 3]}),  # outDim is ignored
            ("FillOperation", {"value": [7.0], "with_mask": True, "out_dim": []}),
            ("FillOperation", {"value": [7.0], "withMask": True, "rsv": [0] * 8}),
            ("Fill", {"value": [7.0], "withMask": True}),
        ],
    )
    def test_with_mask(self, tmp_path, op_type, param):
        (y,) = evaluate(tmp_path, op_type, param, X, MASK)
        np.testing.assert_array_equal(y, golden(X, MASK, 7))

    @pytest.mark.parametrize(
        ("op_type", "param"),
        [
            ("Fill", {"value": [7.0], "outDim": [2, 3]}),  # MindIE's default is withMask = false
            ("FillOperation", {"value": 7, "with_mask": False, "out_dim": [2.0, 3.0]}),
        ],
    )
    def test_without_mask(self, tmp_path, op_type, param):
        (y,) = run(one_operation(tmp_path, op_type, param, []))
        np.testing.assert_array_equal(y, np.full((2, 3), 7, np.float16))


class TestErrors:
    """Each rule of ATB, and ATB's name for the error of breaking it."""

    @pytest.mark.parametrize(
        "param",
        [
            with_mask([]),
            with_mask([1.0, 2.0]),
            {"withMask": True},
            "",
            None,
            with_mask([1.0], rsv=[0, 0, 1]),
            without_mask([1.0], []),
            without_mask([1.0], [1] * 9),
            without_mask([], [2]),
        ],
    )
    def test_parameters(self, refused, param):
        arrays = (X, MASK) if not isinstance(param, dict) or param.get("withMask") else ()
        assert refused(param, *arrays).startswith("ERROR_INVALID_PARAM:")

    @pytest.mark.parametrize(
        ("param", "count"), [(with_mask([1.0]), 1), (with_mask([1.0]), 3), (without_mask([1.0], [2]), 1)]
    )
    def test_number_of_inputs(self, refused, param, count):
        assert refused(param, *[X, MASK, MASK][:count]).startswith("ERROR_INVALID_IN_TENSOR_NUM:")

    @pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "int64", "bool", "uint8"])
    def test_element_types_of_x(self, refused, dtype):
        assert refused(with_mask([1.0]), X.astype(dtype), MASK).startswith("ERROR_INVALID_TENSOR_INI_MATCH:")

    @pytest.mark.parametrize("dtype", ["float16", "int32", "uint8"])
    def test_element_types_of_the_mask(self, refused, dtype):
        assert refused(with_mask([1.0]), X, MASK.astype(dtype)).startswith("ERROR_INVALID_TENSOR_INI_MATCH:")

    @pytest.mark.parametrize(
        ("x", "mask"),
        [
            ((3,), (1, 3)),  # a mask of higher rank
            ((2, 3), (2,)),
            ((1, 3), (2, 3)),  # x is never broadcast
            ((2, 1), (2, 3)),
            ((), ()),
            ((2, 3), ()),
            ((1,) * 9, (1,)),
        ],
    )
    def test_shapes(self, refused, x, mask):
        reason = refused(with_mask([1.0]), np.zeros(x, np.float16), np.zeros(mask, np.int8))
        assert reason.startswith("ERROR_INVALID_TENSOR_DIM:")

    @pytest.mark.parametrize(("x", "mask"), [((0, 3), (3,)), ((2, 3), (0,))])
    def test_empty_tensors(self, refused, x, mask):
        reason = refused(with_mask([1.0]), np.zeros(x, np.float16), np.zeros(mask, np.int8))
        assert reason.startswith("ERROR_INVALID_TENSOR_SIZE:")

    @pytest.mark.parametrize(
        ("dims", "error"),
        [
            ([2, 0], "ERROR_INVALID_TENSOR_SIZE"),
            ([2, -1], "ERROR_INVALID_TENSOR_DIM"),
            ([2**20, 2**20], "ERROR_INVALID_TENSOR_SIZE"),
            ([2**62, 2**62], "ERROR_INVALID_TENSOR_SIZE"),
        ],
    )
    def test_sizes_without_mask(self, refused, dims, error):
        assert refused(without_mask([1.0], dims)).startswith(f"{error}:")

    def test_more_than_256_gib(self, tmp_path):
        """The limit is in bytes: this many int32 exceed it, as many float16 do not."""
        path = write(
            tmp_path, layer(["x", "m"], ["y"], [operation("FillOperation", ["x", "m"], ["y"], with_mask([1.0]))])
        )
        assert convert(path, inputs=["x:float16:1048576,131072", "m:int8:1"]).graph.node
        with pytest.raises(ConversionError, match="ERROR_INVALID_TENSOR_SIZE: x "):
            convert(path, inputs=["x:int32:1048576,131072", "m:int8:1"])

    @pytest.mark.parametrize("dims", [[2, None], [2.5], ["2"], [2**64], 10**400, {}])
    def test_illegal_dims(self, refused, dims):
        assert "outDim" in refused(without_mask([1.0], dims))

    def test_a_value_without_bounds(self, refused):
        assert "value is too large" in refused(with_mask([10**400]), X, MASK)

    def test_the_order_of_checks(self, refused):
        """Parameters, then the number of inputs, then sizes, then element types, then shapes."""
        empty, wrong = np.zeros((0,), np.float32), np.zeros((5, 5), np.float32)
        assert refused(with_mask([]), wrong).startswith("ERROR_INVALID_PARAM")
        assert refused(with_mask([1.0]), empty).startswith("ERROR_INVALID_IN_TENSOR_NUM")
        assert refused(with_mask([1.0]), empty, wrong).startswith("ERROR_INVALID_TENSOR_SIZE")
        assert refused(with_mask([1.0]), wrong, np.zeros((3,), np.int8)).startswith("ERROR_INVALID_TENSOR_INI_MATCH")


HEAD = "OpName|InDType|InFormat|InShape|OutDType|OutFormat|OutShape|SocVersion"


class TestDeclarationsOfACsv:
    @pytest.mark.parametrize(
        ("row", "error"),
        [
            ("float16;int8|nd;nd|2,3;2,3|float|nd|2,3|Ascend910B", "ERROR_INVALID_TENSOR_INI_MATCH"),
            ("float16;int8|nd;nd|2,3;2,3|float16|nd|3,2|Ascend910B", "ERROR_INVALID_TENSOR_DIM"),
            ("float16;int8|nd;nd|2,3;2,3|float16|fractal_nz|2,3|Ascend910B", "ERROR_INVALID_TENSOR_INI_MATCH"),
            ("float16;int8|nchw;nd|2,3;2,3|float16|nd|2,3|Ascend910B", "ERROR_INVALID_TENSOR_INI_MATCH"),
        ],
    )
    def test_output_and_format(self, refused, row, error):
        assert refused(with_mask([1.0]), X, MASK, csv=f"{HEAD}\nFillOperation_0_0|{row}\n").startswith(error)

    @pytest.mark.parametrize(
        ("soc", "has_it"),
        [
            ("Ascend910B", True),
            ("Ascend910_93", True),
            ("", True),
            ("Ascend310P", False),
            ("Ascend910A", False),
            ("Ascend910", False),
            ("Ascend910ProA", False),
            ("Ascend310B", False),
        ],
    )
    def test_bfloat16_by_chip(self, refused, tmp_path, soc, has_it):
        csv = f"{HEAD}\nFillOperation_0_0|bf16;int8|nd;nd|2,3;2,3|bf16|nd|2,3|{soc}\n"
        if has_it:
            nodes = [operation("FillOperation", ["x", "m"], ["y"], with_mask([1.0]), "FillOperation_0_0")]
            table = write(tmp_path, csv, "t.csv")
            assert convert(write(tmp_path, layer(["x", "m"], ["y"], nodes)), tensors=table).graph.node
        else:
            reason = refused(with_mask([1.0]), X.astype(BFLOAT16), MASK, csv=csv)
            assert reason.startswith("ERROR_INVALID_TENSOR_DTYPE")

    @pytest.mark.parametrize(
        ("output", "error"),
        [
            ("bf16|nd|2,3", "INI_MATCH"),
            ("float16|nchw|2,3", "INI_MATCH"),
            ("float16|nd|3,2", "DIM"),
            ("float16|nd|6", "DIM"),
        ],
    )
    def test_the_output_without_mask(self, refused, output, error):
        csv = f"{HEAD}\nFillOperation_0_0||||{output}|Ascend910B\n"
        assert refused(without_mask([1.0], [2, 3]), csv=csv).startswith(f"ERROR_INVALID_TENSOR_{error}:")


SHAPES = [(4,), (2, 3), (2, 1, 3), (3, 2, 2), (1, 2, 1, 2, 1, 2, 1, 3)]


def masks(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every shape that broadcasts to this one: of each rank up to its own, each dimension full or 1."""
    suffixes = (shape[-rank:] for rank in range(1, len(shape) + 1))
    return sorted({dims for suffix in suffixes for dims in itertools.product(*({1, size} for size in suffix))})


@pytest.mark.parametrize("backend", ["native", "python"])
def test_every_element_type_and_broadcast_against_numpy(tmp_path, backend):
    """One layer with a Fill for each element type of x and mask and each pair of shapes, and some without a mask."""
    if backend == "native":
        try:
            onnx_sparse.get_library_path()
        except FileNotFoundError:
            pytest.skip("this installation has no native library")
    rng = np.random.default_rng(5)
    pairs = [(shape, mask) for shape in SHAPES for mask in masks(shape)]
    feeds: dict[str, np.ndarray] = {}
    expected: dict[str, np.ndarray] = {}
    nodes = []
    for dtype, mask_dtype, (shape, mask_shape) in itertools.product(
        [np.float16, np.int32, BFLOAT16], [np.int8, bool], pairs
    ):
        number = len(nodes)
        x, mask = (rng.standard_normal(shape) * 100).astype(dtype), rng.integers(0, 2, mask_shape).astype(mask_dtype)
        value = float(np.float32(rng.standard_normal() * 1000))
        feeds |= {f"x{number}": x, f"m{number}": mask}
        expected[f"y{number}"] = golden(x, mask, int(value) if dtype is np.int32 else value)
        nodes.append(operation("FillOperation", [f"x{number}", f"m{number}"], [f"y{number}"], with_mask([value])))
    for shape in SHAPES:
        number, value = len(nodes), float(np.float32(rng.standard_normal() * 1000))
        expected[f"y{number}"] = np.full(shape, value, np.float16)
        nodes.append(operation("FillOperation", [], [f"y{number}"], without_mask([value], list(shape))))
    path = write(tmp_path, layer(list(feeds), list(expected), nodes))
    model = convert(path, inputs={name: spec(array) for name, array in feeds.items()})
    for (name, wanted), actual in zip(expected.items(), run(model, *feeds.values(), backend=backend), strict=True):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), name
        np.testing.assert_array_equal(actual.astype(np.float64), wanted.astype(np.float64), err_msg=name)


@pytest.mark.parametrize("wrong", [2, -1])
def test_masks_hold_0_and_1_only(tmp_path, wrong):
    """The specification's constraint on an int8 mask."""
    mask = MASK.copy()
    mask[1, 2] = wrong
    with pytest.raises(onnx_sparse.KernelError, match=rf"mask\[1,2\] = {wrong}"):
        evaluate(tmp_path, "FillOperation", with_mask([1.0]), X, mask)
