"""Compressed weights: what NNCF writes becomes DequantizeLinear before a MatMul, and float32 that is folded else."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from support.openvino_models import Case, c, ops
from support.openvino_weights import CompressedWeight, constant

from onnx_sparse.converters.openvino import convert, verify

ov = pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 64)).astype(F)
TYPES = ["u8", "i8", "u4", "i4"]


def shapes(transposed: bool) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """The shapes of the integers and of their scale, for a matrix of 64 to 32."""
    matrix = (32, 64) if transposed else (64, 32)
    rows, columns = matrix
    return {
        "scalar": (matrix, ()),
        "ones": (matrix, (1, 1)),
        "rows": (matrix, (rows, 1)),
        "columns": (matrix, (1, columns)),
        "blocks of columns": ((rows, columns // 16, 16), (rows, columns // 16, 1)),
        "blocks of rows": ((rows // 16, 16, columns), (rows // 16, 1, columns)),
        "blocks of all rows": ((rows, columns // 16, 16), (1, columns // 16, 1)),
    }


def agrees(build: Any, *inputs: Any, folder: Path, tolerance: float = 1e-5, compress: bool = True) -> onnx.ModelProto:
    """Assert that `verify` finds OpenVINO and the converted model equal; returns the model."""
    tested = Case("", build, *inputs)
    path = tested.save(folder, compress=compress)
    model = convert(path)
    feeds = {f"p{k}": x for k, x in enumerate(tested.inputs)}
    for record in verify(path, model, feeds=feeds):
        assert record.ok, record
    return model


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Cast"]


#: With other scales along the axis that is summed over, OpenVINO computes wrongly or not at all.
RIGHT = {True: {"scalar", "ones", "rows", "blocks of columns"}, False: {"scalar", "ones", "columns"}}


@pytest.mark.pairwise
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("layout", list(shapes(True)))
@pytest.mark.parametrize("element_type", TYPES)
def test_matrices(element_type: str, layout: str, transposed: bool, tmp_path: Path) -> None:
    stored, scaled = shapes(transposed)[layout]
    matrix = (32, 64) if transposed else (64, 32)
    turn = TYPES.index(element_type) + list(shapes(True)).index(layout) + transposed
    zero_point, arithmetic = ("", element_type, "whole")[turn % 3], (np.float16, F)[turn % 2]
    weight = CompressedWeight(element_type, stored, scaled, zero_point, arithmetic)

    def build(x: Any) -> Any:
        made = weight.node()
        if stored != matrix:
            made = ops(16).reshape(made, c(matrix), False)
        return ops(16).matmul(x, made, False, transposed)

    if layout in RIGHT[transposed]:
        model = agrees(build, X, folder=tmp_path, compress=arithmetic == np.float16)
    else:
        model = convert(Case("", build, X).save(tmp_path))
    assert kinds(model) == ["DequantizeLinear", "MatMul"]
    floats = weight.floats.reshape(matrix)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    (got,) = ort.InferenceSession(model.SerializeToString(), options).run(None, {"p0": X})
    np.testing.assert_allclose(got, X @ (floats.T if transposed else floats), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("element_type", TYPES)
def test_long_columns(element_type: str, tmp_path: Path) -> None:
    """The scale of a column is repeated for blocks of it; zero points of 4 bits cannot be."""
    for zero_point in ("", element_type):
        weight = CompressedWeight(element_type, (32, 384), (32, 1), zero_point)
        x = RNG.normal(size=(2, 384)).astype(F)
        model = agrees(lambda x, w=weight: ops(16).matmul(x, w.node(), False, True), x, folder=tmp_path)
        is_repeated = not zero_point or element_type in ("u8", "i8")
        assert ("Expand" in kinds(model)) == is_repeated


def test_a_zero_point_between_integers(tmp_path: Path) -> None:
    model = agrees(
        lambda x: ops(16).matmul(x, CompressedWeight("u4", (32, 64), (32, 1), "half").node(), False, True),
        X,
        folder=tmp_path,
    )
    assert "DequantizeLinear" not in kinds(model)


IMAGE = RNG.normal(size=(1, 4, 6, 6)).astype(F)


@pytest.mark.parametrize("rows", [64, 63])
@pytest.mark.parametrize("element_type", ["nf4", "f4e2m1", "f8e4m3", "f8e5m2"])
def test_small_floats(element_type: str, rows: int, tmp_path: Path) -> None:
    """They stay as small, and ONNX Runtime computes the floats when it loads the model. OpenVINO does not round the
    products with their scales to float16, in which the IR writes them."""
    numbers = RNG.uniform(-1, 1, rows * 3 * 64).tolist()
    scale = RNG.uniform(0.5, 2, (rows, 3, 1)).astype(np.float16)

    def build(x: Any) -> Any:
        small = ov.op.Constant(getattr(ov.Type, element_type), ov.Shape([rows, 3, 64]), numbers)
        scaled = ops(16).multiply(ops(16).convert(small, "f16"), c(scale, np.float16))
        weight = ops(16).convert(ops(16).reshape(scaled, c([rows, 192]), False), "f32")
        return ops(16).matmul(x, weight, False, True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = agrees(build, RNG.normal(size=(3, 192)).astype(F), folder=tmp_path)
    assert model.ByteSize() < (tmp_path / "model.bin").stat().st_size + 3000
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(model.SerializeToString(), options)
    assert kinds(onnx.load(tmp_path / "optimized.onnx")) == ["MatMul"]


@pytest.mark.parametrize("element_type", ["u4", "i4"])
@pytest.mark.parametrize("count", [*range(1, 8), 5001])
def test_odd_numbers_of_4_bits(element_type: str, count: int, tmp_path: Path) -> None:
    """OpenVINO itself reads weights of odd columns wrongly where it multiplies matrices by them."""
    numbers = RNG.integers(*((0, 16) if element_type == "u4" else (-8, 8)), (3, count))

    def build(x: Any) -> Any:
        return ops(16).add(x, ops(16).multiply(ops(16).convert(constant(element_type, numbers), "f32"), c(F(0.5), F)))

    model = convert(Case("", build, np.zeros((3, count), F)).save(tmp_path))
    (made,) = ort.InferenceSession(model.SerializeToString()).run(None, {"p0": np.zeros((3, count), F)})
    np.testing.assert_array_equal(made, 0.5 * numbers)


@pytest.mark.parametrize("element_type", ["u2", "nf4"])
def test_what_grows_is_said(element_type: str, tmp_path: Path) -> None:
    """Without a scale nothing is known of how the numbers are used."""
    numbers = ov.op.Constant(getattr(ov.Type, element_type), ov.Shape([512, 64]), [1.0] * 512 * 64)
    path = Case("", lambda x: ops(16).gather(ops(16).convert(numbers, "f32"), x, c(0)), np.int64([3])).save(tmp_path)
    with pytest.warns(UserWarning, match=rf"constants of {element_type}: .* KB in the model, .* KB in the IR"):
        convert(path)


@pytest.mark.parametrize("element_type", TYPES)
def test_other_readers(element_type: str, tmp_path: Path) -> None:
    """Convolutions, lookups and sums read floats; one weight may have several readers."""

    def kernel(x: Any) -> Any:
        made = CompressedWeight(element_type, (8, 4, 3, 3), (8, 1, 1, 1), element_type).node()
        return ops(1).convolution(x, made, [1, 1], [0, 0], [0, 0], [1, 1])

    def shared(x: Any) -> Any:
        table = CompressedWeight(element_type, (32, 64), (32, 1), element_type).node()
        rows = ops(8).gather(table, c([3, 0, 7]), c(0))
        return ops(16).matmul(ops(16).add(x, rows), table, False, True)

    agrees(kernel, IMAGE, folder=tmp_path)
    agrees(shared, X, folder=tmp_path)
    agrees(lambda x: ops(16).add(x, CompressedWeight(element_type, (3, 64), (3, 1)).node()), X, folder=tmp_path)
    agrees(
        lambda x: ops(16).matmul(CompressedWeight(element_type, (5, 3), (5, 1)).node(), x, False, False),
        X,
        folder=tmp_path,
    )


def test_integers_that_are_no_weight(tmp_path: Path) -> None:
    """Without a scale, or with one that is an input, the layers stay what they are."""

    def build(x: Any, scale: Any) -> Any:
        whole = ops(16).convert(constant("u8", RNG.integers(0, 9, (64, 32))), "f32")
        return ops(16).add(ops(16).matmul(x, whole, False, False), ops(16).matmul(x, ops(16).multiply(whole, scale),
                                                                                  False, False))  # fmt: skip

    model = agrees(build, X, F([0.5]), folder=tmp_path)
    assert "DequantizeLinear" not in kinds(model)


@pytest.mark.parametrize("element_type", TYPES)
def test_the_file_is_as_small_as_the_ir(element_type: str, tmp_path: Path) -> None:
    rows, columns, size = 512, 1024, 128

    def build(x: Any) -> Any:
        stored = (rows, columns // size, size)
        made = CompressedWeight(element_type, stored, (rows, columns // size, 1), element_type).node()
        return ops(16).matmul(x, ops(16).reshape(made, c([rows, columns]), False), False, True)

    model = agrees(build, RNG.normal(size=(1, columns)).astype(F), folder=tmp_path)
    files = [tmp_path / f"model.{suffix}" for suffix in ("xml", "bin")]
    assert model.ByteSize() < sum(file.stat().st_size for file in files)


#: The shapes of tables of 100 rows of 64, as they are stored, and those of their scales.
TABLES = {
    "rows": ((100, 64), (100, 1)),
    "one": ((100, 64), ()),
    "columns": ((100, 64), (1, 64)),
    "blocks": ((100, 4, 16), (100, 4, 1)),
    "blocks of all rows": ((100, 4, 16), (1, 4, 1)),
    "no rank": ((100, 4, 16), (4, 1)),
}


@pytest.mark.parametrize("layout", TABLES)
@pytest.mark.parametrize("element_type", [*TYPES, "nf4", "f4e2m1"])
def test_rows_of_a_table_are_gathered_before_they_are_floats(element_type: str, layout: str, tmp_path: Path) -> None:
    """Negative numbers of rows count from the end; no session holds the floats of the table."""
    stored, scaled = TABLES[layout]
    turn = list(TABLES).index(layout) + len(element_type)
    zero_point = ("", element_type, "half")[turn % 3] if element_type in TYPES else ""
    weight = CompressedWeight(element_type, stored, scaled, zero_point, (F, np.float16)[turn % 2])
    dynamic, shape = bool(turn % 2), [(5,), (2, 3), (0,), ()][turn % 4]

    def build(ids: Any) -> Any:
        made = weight.node() if stored == (100, 64) else ops(16).reshape(weight.node(), c([100, 64]), False)
        return ops(8).gather(made, ids, c(0 if turn % 2 else -2))

    ids = RNG.integers(-100, 100, shape)
    tested = Case("", build, ids, dynamic=dynamic)
    path = tested.save(tmp_path)
    model = convert(path)
    if layout in ("rows", "blocks") and ids.size:  # OpenVINO misreads other scales, or ends the process
        (record,) = verify(path, model, feeds={"p0": ids})
        assert record.ok, record
    (rows,) = ort.InferenceSession(model.SerializeToString()).run(None, {"p0": ids})
    np.testing.assert_allclose(rows, weight.floats.reshape(100, 64)[ids], rtol=1e-5, atol=1e-6)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(model.SerializeToString(), options)
    held = onnx.load(tmp_path / "optimized.onnx").graph.initializer
    assert max(len(tensor.raw_data) for tensor in held) <= 100 * 64 * (1 if element_type in ("i8", "u8") else 0.5)


def test_rows_of_a_table_of_mxfp4(tmp_path: Path) -> None:
    """Whose scales, one for 32 numbers, are powers of 2 of their own type."""
    numbers = RNG.choice([-6, -3, -1.5, 0.5, 0, 2, 4], (100, 2, 32))
    scales = 2.0 ** RNG.integers(-8, 4, (100, 2, 1))

    def build(ids: Any) -> Any:
        stored, factor = (
            ops(16).convert(ov.op.Constant(kind, ov.Shape(array.shape), array.ravel().tolist()), "f16")
            for kind, array in ((ov.Type.f4e2m1, numbers), (ov.Type.f8e8m0, scales))
        )
        table = ops(16).reshape(ops(16).multiply(stored, factor), c([100, 64]), False)
        return ops(8).gather(ops(16).convert(table, "f32"), ids, c(0))

    model = agrees(build, np.int64([0, 5, 99]), folder=tmp_path)
    assert model.ByteSize() < 6000


def test_a_row_out_of_range_of_a_gathered_table_is_an_error(tmp_path: Path) -> None:
    table = CompressedWeight("u4", (100, 64), (100, 1), "u4")
    path = Case("", lambda ids: ops(8).gather(table.node(), ids, c(0)), np.int64([0])).save(tmp_path)
    session = ort.InferenceSession(convert(path).SerializeToString())
    for wrong in (100, -101):
        with pytest.raises(Exception, match="out of data bounds"):
            session.run(None, {"p0": np.int64([wrong])})


@pytest.mark.parametrize(("axis", "columns"), [(1, 64), (0, 63)])
def test_other_lookups_of_a_table_read_floats(axis: int, columns: int, tmp_path: Path) -> None:
    """Along another axis, and of rows whose numbers of 4 bits do not fill bytes."""
    table = CompressedWeight("u4", (100, columns), (100, 1), "u4")
    agrees(lambda ids: ops(8).gather(table.node(), ids, c(axis)), np.int64([3, 0]), folder=tmp_path)
