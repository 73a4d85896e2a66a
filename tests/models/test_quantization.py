"""`onnx_sparse.quantize_tables`: lookups in smaller tables."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.models.tables.quantization import FORMATS, TableChange, quantize_tables
from onnx_sparse.schemas import OPS

Array = np.ndarray[Any, Any]

ROWS, WIDTH = 600, 32
LOOKUPS = [name for name in OPS if f"Quantized{name}" in OPS]
FEEDS = {
    "indices": np.random.default_rng(1).integers(0, ROWS, 90),
    "segment_ids": np.sort(np.random.default_rng(2).integers(0, 20, 90)),
    "num_segments": np.array(20),
    "offsets": np.array([0, 0, 5, 40, 89]),
    "default_index": np.array(7),
    "per_sample_weights": np.random.default_rng(3).random(90).astype(np.float32),
}


def table(rows: int = ROWS, width: int = WIDTH) -> Array:
    random = np.random.default_rng(0)
    values = random.standard_normal((rows, width)) * 10.0 ** random.integers(-3, 3, (rows, 1))
    values[:1] = 3.25  # a row of one number has no range
    return values.astype(np.float32)


def model(name: str, values: Array, *extra: Any) -> ModelProto:
    """A model of one lookup in a table that is an initializer; `extra` are nodes that also read it."""
    op = OPS[name]
    given = [i for i in op.inputs if i.name in FEEDS]
    node = helper.make_node(
        name, [i.name if i.name in {"emb_table", *FEEDS} else "" for i in op.inputs], ["output"], domain="onnx_sparse"
    )
    while not node.input[-1]:
        del node.input[-1]
    types = {np.dtype(np.int64): TensorProto.INT64, np.dtype(np.float32): TensorProto.FLOAT}
    graph = helper.make_graph(
        [node, *extra],
        "lookup",
        [helper.make_tensor_value_info(i.name, types[FEEDS[i.name].dtype], None) for i in given],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, "emb_table")],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def answer(m: ModelProto) -> Array:
    names = [value.name for value in m.graph.input]
    (output,) = onnx_sparse.InferenceSession(m).run(None, {name: FEEDS[name] for name in names})
    return np.asarray(output)


def rows_in(m: ModelProto) -> Array:
    """The rows that a quantized model's table stands for."""
    tensors = {t.name: numpy_helper.to_array(t) for t in m.graph.initializer}
    integers = tensors.get("emb_table_int8")
    if integers is None:
        packed = tensors["emb_table_int4"]
        integers = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1)
    scale_bias = next(value for name, value in tensors.items() if name.endswith("scale_bias"))
    return integers * scale_bias[:, 0, :1] + scale_bias[:, 0, 1:]


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("format", FORMATS)
def test_answers_are_those_of_the_rounded_rows(name: str, format: str) -> None:
    before = model(name, table())
    untouched = before.SerializeToString()
    after = onnx_sparse.quantize_tables(before, format)
    assert before.SerializeToString() == untouched
    onnx_sparse.canonicalize(after)
    if format.startswith("int"):
        rows = rows_in(after)
    else:
        rows = table().astype(np.float16 if format == "float16" else ml_dtypes.bfloat16).astype(np.float32)
    expected = answer(model(name, rows.astype(np.float32)))
    got = answer(after)
    assert got.dtype == np.float32
    scale = np.abs(rows).max() * 20
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(format, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5 + tolerance, atol=scale * tolerance / 10)


@pytest.mark.parametrize(("format", "steps"), [("int8", 255), ("int4", 15)])
def test_rows_are_rounded_to_the_nearest(format: str, steps: int) -> None:
    rows = rows_in(quantize_tables(model("EmbeddingSegmentsSum", table()), format))
    half = (table().max(axis=1) - table().min(axis=1)) / steps / 2
    assert (np.abs(rows - table()).max(axis=1) <= half * 1.001 + 1e-6 * np.abs(table()).max(axis=1)).all()
    assert (rows[0] == 3.25).all()


@pytest.mark.parametrize(("format", "size"), [("float16", 64), ("int8", 40), ("int4", 24)])
def test_what_is_done_is_told(format: str, size: int) -> None:
    changes: list[TableChange] = []
    quantize_tables(model("EmbeddingBagOffsetsSum", table()), format, explain=changes.append)
    assert changes == [TableChange("emb_table", (ROWS, WIDTH), format, ROWS * WIDTH * 4, ROWS * size)]


class TestTablesThatStay:
    @pytest.mark.parametrize(
        ("m", "format", "reason"),
        [
            (model("EmbeddingBagOffsetsMax", table()), "int8", "no lookup reads it"),
            (model("EmbeddingSegmentsSum", table().astype(np.float64)), "int8", "it is not float32"),
            (model("EmbeddingSegmentsSum", table(ROWS, 33)), "int4", "its rows have 33 elements, and a byte holds two"),
            (model("EmbeddingSegmentsSum", table(20_000, 1)), "int8", "rows of 1 would not become smaller"),
            (model("EmbeddingSegmentsSum", table(20_000, 2)), "int4", "rows of 2 would not become smaller"),
            (model("EmbeddingSegmentsSum", table().reshape(ROWS, 4, 8)), "int8", "it has 3 dimensions; 2 expected"),
            (
                model("EmbeddingSegmentsSum", table(), helper.make_node("Shape", ["emb_table"], ["shape"])),
                "int8",
                "other nodes than lookups read it",
            ),
        ],
    )
    def test_the_reason(self, m: ModelProto, format: str, reason: str) -> None:
        assert quantize_tables(m, format) == m
        with pytest.raises(ValueError, match=f"table 'emb_table' cannot be {format}: {reason}"):
            quantize_tables(m, format, names=["emb_table"])

    def test_an_overridable_table(self) -> None:
        m = model("EmbeddingSegmentsSum", table())
        m.graph.input.append(helper.make_tensor_value_info("emb_table", TensorProto.FLOAT, [ROWS, WIDTH]))
        assert quantize_tables(m, "int8") == m

    def test_small_ones_unless_named(self) -> None:
        m = model("EmbeddingSegmentsSum", table(500))
        assert quantize_tables(m, "int8") == m
        assert quantize_tables(m, "int8", names=["emb_table"]) != m


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    values = table()
    values[580, 3] = value
    with pytest.raises(ValueError, match=rf"table 'emb_table' cannot be quantized: \[580,3\] = {value} is not finite"):
        quantize_tables(model("EmbeddingSegmentsSum", values), "int8")


def test_unknown_names() -> None:
    m = model("EmbeddingSegmentsSum", table())
    with pytest.raises(ValueError, match="format 'int3' is not one of"):
        quantize_tables(m, "int3")
    with pytest.raises(ValueError, match="the model has no initializer 'nothing'"):
        quantize_tables(m, "int8", names=["nothing"])
    with pytest.raises(TypeError, match="names is a list of names, not the name 'emb_table'"):
        quantize_tables(m, "int8", names="emb_table")


@pytest.mark.parametrize("format", FORMATS)
def test_data_that_is_not_in_the_model(format: str) -> None:
    whole = model("EmbeddingSegmentsSum", table())
    apart = model("EmbeddingSegmentsSum", table())
    tensor = apart.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    arrays = {"emb_table": table()}
    quantized = quantize_tables(apart, format, arrays=arrays)
    assert "emb_table" not in arrays
    for name, array in arrays.items():
        expected = next(t for t in quantize_tables(whole, format).graph.initializer if t.name == name)
        assert numpy_helper.to_array(expected).tobytes() == array.tobytes()
        assert [t.data_location for t in quantized.graph.initializer if t.name == name] == [TensorProto.EXTERNAL]
    with pytest.raises(ValueError, match="the data of table 'emb_table' is in another file; load the model with it"):
        quantize_tables(apart, format)
