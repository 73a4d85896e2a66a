"""GE's graphs: their files, their fills, and their operators against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from ascend_graphs import random, run
from ge_graphs import BFLOAT16, Graph, described, evaluate
from onnx import ModelProto, helper

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
RNG = np.random.default_rng(17)


def close(actual: np.ndarray, expected: np.ndarray, dtype: object) -> None:
    dtype = np.dtype(dtype)
    assert (actual.dtype, actual.shape) == (dtype, expected.shape)
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype.name, 2e-6)
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


@pytest.fixture
def one(tmp_path):
    """The first result of one operator."""

    def one(op_type, *inputs, **options):
        return evaluate(tmp_path, run, op_type, list(inputs), **options)[0]

    return one


@pytest.fixture
def refused(tmp_path):
    """The message of a refusal."""

    def refused(graph: Graph, name: str = "graph.air", **options):
        with pytest.raises(ConversionError) as caught:
            convert(graph.write(tmp_path, name), **options)
        return str(caught.value)

    return refused


def fills() -> Graph:
    """masked_fill(x, mask, -8) + 0.5 as float32."""
    graph = Graph()
    graph.op("Cast", "sum", name="out", dst_type=0)  # nodes are in no order
    x, mask = graph.data("x", F16, (2, 3)), graph.data("mask", bool, (3,))
    filled = graph.op("MaskedFill", x, mask, graph.const("neg", np.array(-8, F16)), "x:-1")
    half = graph.op("Fill", graph.const("dims", np.array([2, 3])), graph.const("half", np.array(0.5, F16)))
    graph.op("Add", filled, half, name="sum")
    return graph.output("out")


class TestFiles:
    @pytest.mark.parametrize("name", ["graph.air", "ge_proto_00000000_graph_1_PreRunBegin.txt", "dynamo.pbtxt"])
    def test_binary_and_text(self, tmp_path, name):
        model = convert(fills().write(tmp_path, name))
        assert [value.name for value in model.graph.input] == ["x", "mask"]
        x, mask = random(RNG, F16, (2, 3)), np.array([True, False, True])
        (y,) = run(model, x, mask)
        np.testing.assert_array_equal(y, (np.where(mask, F16(-8), x) + F16(0.5)).astype(F32))

    def test_inputs_in_the_order_of_their_indices(self, tmp_path):
        graph = fills()
        for op in graph.graph.op:
            if op.type == "Data":
                op.attr[0].value.i = 1 - op.attr[0].value.i
        model = convert(graph.write(tmp_path))
        assert [value.name for value in model.graph.input] == ["mask", "x"]

    def test_dimensions_that_are_not_known(self, tmp_path):
        graph = Graph()
        graph.data("x", F16, (-1, 3))
        graph.output(graph.op("Fills", "x", value=2.5))
        path = graph.write(tmp_path)
        for options in ({}, {"inputs": ["x:float16:4,3"]}):
            (y,) = run(convert(path, **options), np.zeros((4, 3), F16))
            np.testing.assert_array_equal(y, np.full((4, 3), 2.5))
        with pytest.raises(ConversionError, match="x is float16 in the graph, not float"):
            convert(path, inputs=["x:float32:4,3"])
        with pytest.raises(ConversionError, match="has no input q"):
            convert(path, inputs=["q:float32:4,3"])

    def test_an_input_and_a_constant_as_outputs(self, tmp_path):
        graph = Graph()
        graph.data("x", F16, (2,))
        graph.const("c", np.array([1, 2]))
        x, c, again = run(convert(graph.output("x", "c", "x").write(tmp_path)), np.array([3, 4], F16))
        np.testing.assert_array_equal(x, again)
        np.testing.assert_array_equal(c, [1, 2])

    @pytest.mark.parametrize(
        ("content", "name", "message"),
        [
            (b"", "g.air", "there is no graph in it"),
            (b"\xff" * 50, "g.air", "is no graph of GE"),
            (b"op { name: ", "dynamo.pbtxt", "is no graph of GE"),
            (b"graph { name: 'g' }", "ge_proto_1.txt", "there are no nodes in it"),
            (b"\xff\xfe", "dynamo.pbtxt", "is no graph of GE"),
            (
                b"graph { op { attr { value { " + b"list { t { desc { attr { " * 3000,
                "ge_proto_1.txt",
                "is no graph of GE",
            ),
            (b'graph { node { op_type: "ge:Fill" } node { op_type: "Add" } }', "ge_onnx_1.pbtxt", "is no ge_onnx dump"),
            (b"\x08\x01", "model.om", "is compiled for an NPU"),
        ],
    )
    def test_what_is_no_graph(self, tmp_path, content, name, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConversionError, match=message):
            convert(tmp_path / name)

    def test_a_truncated_air(self, tmp_path):
        path = fills().write(tmp_path)
        path.write_bytes(path.read_bytes()[:-7])
        with pytest.raises(ConversionError, match="is no graph of GE"):
            convert(path)

    def test_a_cycle(self, refused):
        graph = Graph()
        graph.op("Relu", "b", name="a")
        graph.op("Relu", "a", name="b")
        assert "in a circle" in refused(graph.output("b"))

    def test_names(self, refused):
        graph = Graph()
        graph.op("Relu", "nowhere", name="a")
        assert "nowhere, which is no node" in refused(graph.output("a"))
        graph = Graph()
        graph.data("x", F16, (2,))
        graph.data("x", F16, (2,))
        assert "two nodes have the name x" in refused(graph.output("x"))
        graph = fills()
        graph.graph.op[0].input[0] = "no colon"
        assert "is not of the form node:0" in refused(graph)
        graph.graph.op[0].input[0] = "sum:3"
        assert "reads result 3 of sum, which has 1" in refused(graph)

    @pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z"])
    def test_formats_of_the_npu(self, refused, layout):
        graph = fills()
        described(graph.graph.op[0].output_desc.add(), F32, (2, 3), layout)
        message = refused(graph)
        assert layout in message
        assert "PreRunBegin" in message

    def test_all_that_is_not_converted(self, refused):
        graph = fills()
        graph.op("PartitionedCall", "sum", name="call")
        graph.op("Relu", "call", name="behind")
        graph.op("FlashAttentionScore", "x", "x", name="attention")
        message = refused(graph)
        assert message.startswith("2 nodes cannot be converted")
        assert "call (PartitionedCall)" in message
        assert "attention (FlashAttentionScore)" in message

    def test_kept_unconverted(self, tmp_path):
        graph = Graph()
        graph.data("x", F16, (2,))
        graph.output(graph.op("Mystery", "x", name="m", result=(F16, (2,))))
        model = convert(graph.write(tmp_path), keep_unknown=True)
        assert [(node.domain, node.op_type) for node in model.graph.node] == [("ascend.ge", "Mystery")]

    def test_a_description_that_contradicts(self, refused):
        graph = fills()
        described(graph.graph.op[0].output_desc.add(), F32, (3, 2))
        assert "it makes [2, 3], the graph says [3, 2]" in refused(graph)


class TestWeights:
    def test_without_their_data(self, refused):
        graph = fills()
        graph.graph.op[5].attr[0].value.t.data = b""
        message = refused(graph)
        assert "DUMP_GE_GRAPH=1" in message
        assert ".air" in message

    @pytest.mark.parametrize("dims", [(3,), (10**9, 10**9), (-5,)])
    def test_data_of_another_size(self, refused, dims):
        graph = Graph()
        graph.const("c", np.array([1, 2], F32))
        del graph.graph.op[0].attr[0].value.t.desc.shape.dim[:]
        graph.graph.op[0].attr[0].value.t.desc.shape.dim.extend(dims)
        assert "8 bytes are no tensor" in refused(graph.output("c"))

    def file_constant(self, path: str, shape=(2, 3), **attributes) -> Graph:
        graph = Graph()
        graph.op("FileConstant", name="w", result=(F32, shape), file_path=path, **attributes)
        return graph.output("w")

    @pytest.mark.parametrize("path", ["weight_0", "sub/weight_0", "/where/it/was/written/weight_0"])
    def test_files(self, tmp_path, path):
        array = random(RNG, F32, (2, 3))
        (tmp_path / "sub").mkdir()
        for folder in (tmp_path, tmp_path / "sub"):
            (folder / "weight_0").write_bytes(b"12345678" + array.tobytes())
        (w,) = run(convert(self.file_constant(path, offset=8).write(tmp_path)))
        np.testing.assert_array_equal(w, array)

    @pytest.mark.parametrize("path", ["../secret", "link", "out/secret", ""])
    def test_nothing_outside_is_read(self, tmp_path, path):
        (tmp_path / "secret").write_bytes(bytes(24))
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "link").symlink_to(tmp_path / "secret")
        (folder / "out").symlink_to(tmp_path)
        with pytest.raises(ConversionError, match=r"nothing else is read|names no file"):
            convert(self.file_constant(path).write(folder))

    @pytest.mark.parametrize("options", [{"shape": (10**9, 10**9)}, {"offset": 4}, {"offset": -4}, {"length": 7}])
    def test_files_that_are_too_short(self, tmp_path, options):
        (tmp_path / "weight_0").write_bytes(bytes(24))
        with pytest.raises(ConversionError, match=r"weight_0 has \d+ bytes from"):
            convert(self.file_constant("weight_0", **options).write(tmp_path))


class TestGeOnnx:
    def text(self, *, level: int = 1, many: bool = False) -> str:
        """GE's text of an ONNX model: Fills of x, plus a constant."""

        def node(op_type, name, inputs, dtype, shape, **attributes):
            made = helper.make_node(f"ge:{op_type}", inputs, [f"{name}:0"], name=name)
            for key, value in attributes.items():
                made.attribute.append(helper.make_attribute(key, value))
            made.attribute.append(helper.make_attribute("output_desc_nums", 1))
            if many:
                text = f'{{"dtype": "{dtype}", "layout": "ND", "shape": {list(shape)}}}'
                made.attribute.append(helper.make_attribute("output_desc_0", text))
            else:
                made.attribute.append(helper.make_attribute("output_desc_dtype:0", dtype))
                made.attribute.append(helper.make_attribute("output_desc_shape:0", list(shape) or [0][:0], attr_type=7))
            return made

        data = {"value_data": np.array([1, 2, 3], F32).tobytes()} if level == 1 else {}
        model = ModelProto(ir_version=6)
        model.graph.node.extend(
            [
                node("Data", "x", [""], "DT_FLOAT", (2, 3), index=0),
                node("Const", "c", [], "DT_FLOAT", (3,), value_desc_dtype="DT_FLOAT", value_desc_shape=[3], **data),
                node("Fills", "f", ["x:0", "c:-1"], "DT_FLOAT", (2, 3), value=0.5),
                node("Add", "a", ["f:0", "c:0"], "DT_FLOAT", (2, 3)),
                node("NetOutput", "NetOutput", ["a:0"], "DT_FLOAT", (2, 3)),
            ]
        )
        return str(model)

    @pytest.mark.parametrize("many", [False, True])
    def test_it_converts(self, tmp_path, many):
        (tmp_path / "ge_onnx_1.pbtxt").write_text(self.text(many=many))
        (y,) = run(convert(tmp_path / "ge_onnx_1.pbtxt"), np.zeros((2, 3), F32))
        np.testing.assert_array_equal(y, [[1.5, 2.5, 3.5]] * 2)

    def test_without_weights(self, tmp_path):
        (tmp_path / "ge_onnx_1.pbtxt").write_text(self.text(level=2))
        with pytest.raises(ConversionError, match="the data of 1 constants are not in the file"):
            convert(tmp_path / "ge_onnx_1.pbtxt")


class TestFills:
    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, np.int8, I32, I64, bool])
    def test_fill(self, one, dtype):
        value = np.array(1, dtype)
        for dims_type in (I32, I64):
            dims = np.array([2, 3], dims_type)
            for constants in ((0, 1), (0,), ()):
                y = one("Fill", dims, value, constants=constants, result=(dtype, (2, 3)))
                assert y.dtype == value.dtype
                np.testing.assert_array_equal(wide(y), np.full((2, 3), 1.0))
        np.testing.assert_array_equal(wide(one("FillD", value.reshape(1), dims=[3])), [1, 1, 1])

    def test_fill_v2(self, one):
        for dtype, expected in ((F32, 2.5), (I32, 2)):
            y = one("FillV2", np.array([4]), constants=(0,), result=(dtype, (4,)), value=2.5)
            np.testing.assert_array_equal(y, np.full(4, expected, dtype))
        np.testing.assert_array_equal(one("FillV2D", dims=[2], value=1.0, result=(F16, (2,))), [1, 1])

    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, I32, I64])
    def test_likes(self, one, dtype):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        for op_type, attributes, expected in (
            ("ZerosLike", {}, 0),
            ("OnesLike", {}, 1),
            ("Fills", {"value": -3.0}, -3),
        ):
            y = one(op_type, x, **attributes)
            assert y.dtype == x.dtype
            np.testing.assert_array_equal(wide(y), np.full((2, 3), expected))

    def test_empty(self, one):
        np.testing.assert_array_equal(one("Empty", np.array([2, 2]), constants=(0,), dtype=3), np.zeros((2, 2), I32))

    @pytest.mark.parametrize(
        ("x", "mask"), [((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((3,), (4, 2, 3)), ((2, 1), (3,))]
    )
    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, F32, I32, I64, np.int8])
    def test_masked_fill(self, one, dtype, x, mask):
        """Unlike ATB's, x is broadcast, too; the value becomes x's type."""
        data, flags = random(RNG, dtype, x), RNG.integers(0, 2, mask).astype(bool)
        for value in (np.array(-7, dtype), np.array([-7], F32)):
            y = one("MaskedFill", data, flags, value)
            assert y.dtype == data.dtype
            np.testing.assert_array_equal(wide(y), np.where(flags, -7, wide(data)))

    def test_masked_fill_with_a_tensor(self, one):
        data, flags, value = random(RNG, F16, (2, 3)), RNG.integers(0, 2, (3,)).astype(bool), random(RNG, F16, (2, 1))
        np.testing.assert_array_equal(one("MaskedFill", data, flags, value), np.where(flags, value, data))

    @pytest.mark.parametrize(("shape", "axis"), [((4, 5), 1), ((4, 2, 5), -1), ((4, 5, 2), 1), ((5,), 0), ((5, 2), 0)])
    def test_masked_fill_range(self, one, shape, axis):
        """Plain loops: for i, for each row j, the range [start, end) along the axis; the last i wins."""
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
    def test_what_is_refused(self, one, op_type, inputs, options):
        with pytest.raises(ConversionError, match="1 node cannot be converted"):
            one(op_type, *inputs, **options)
