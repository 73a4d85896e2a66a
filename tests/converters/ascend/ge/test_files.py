"""GE graphs: their files, inputs, outputs, weights and errors."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper
from support.ascend_graphs import random, run
from support.ge_graphs import Graph, described

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
RNG = np.random.default_rng(17)


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
    graph.op("Cast", "sum", name="out", dst_type=0)  # the order of nodes does not matter
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
        model = convert(graph.output("x", "c", "x").write(tmp_path))
        assert [value.name for value in model.graph.output] == ["output_0", "output_1", "output_2"]
        x, c, again = run(model, np.array([3, 4], F16))
        np.testing.assert_array_equal(x, again)
        np.testing.assert_array_equal(c, [1, 2])

    @pytest.mark.parametrize(
        ("content", "name", "message"),
        [
            (b"", "g.air", "there is no graph in it"),
            (b"\xff" * 50, "g.air", "is not a graph of GE"),
            (b"op { name: ", "dynamo.pbtxt", "is not a graph of GE"),
            (b"graph { name: 'g' }", "ge_proto_1.txt", "there are no nodes in it"),
            (b"\xff\xfe", "dynamo.pbtxt", "is not a graph of GE"),
            (
                b"graph { op { attr { value { " + b"list { t { desc { attr { " * 3000,
                "ge_proto_1.txt",
                "is not a graph of GE",
            ),
            (
                b'graph { node { op_type: "ge:Fill" } node { op_type: "Add" } }',
                "ge_onnx_1.pbtxt",
                "is not a ge_onnx dump",
            ),
            (b"\x08\x01", "model.om", "is compiled for an NPU"),
        ],
    )
    def test_files_that_are_not_graphs(self, tmp_path, content, name, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConversionError, match=message):
            convert(tmp_path / name)

    def test_a_truncated_air(self, tmp_path):
        path = fills().write(tmp_path)
        path.write_bytes(path.read_bytes()[:-7])
        with pytest.raises(ConversionError, match="is not a graph of GE"):
            convert(path)

    def test_a_cycle(self, refused):
        graph = Graph()
        graph.op("Relu", "b", name="a")
        graph.op("Relu", "a", name="b")
        assert "in a circle" in refused(graph.output("b"))

    def test_names(self, refused):
        graph = Graph()
        graph.op("Relu", "nowhere", name="a")
        assert "nowhere, which is not a node" in refused(graph.output("a"))
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
        assert "call (PartitionedCall): it runs another graph of the file" in message
        assert "attention (FlashAttentionScore)" in message

    def test_outputs_that_are_not_there(self, refused):
        for wrong in ("sum:3", "nowhere:0"):
            graph = fills()
            del graph.graph.op[-1]  # NetOutput
            graph.graph.output.append(wrong)
            assert "the outputs of graph_1: it reads result" in refused(graph)

    def test_a_node_named_like_another_ones_result(self, tmp_path):
        graph = Graph()
        graph.data("x", F32, (4,))
        graph.op("TopKV2", "x", graph.const("k", np.array(2, I32)), name="top")
        graph.op("Neg", "x", name="top:1")
        x = np.array([1, 4, 2, 3], F32)
        values, negated = run(convert(graph.output("top:0", "top:1:0").write(tmp_path)), x)
        np.testing.assert_array_equal(values, [4, 3])
        np.testing.assert_array_equal(negated, -x)

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
        assert "8 bytes are not a tensor" in refused(graph.output("c"))

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

    def test_control_flow(self, tmp_path):
        """Bodies of control flow are nodes of the type `subgraph`, which has no prefix."""
        body = '  node { name: "body" op_type: "subgraph" output: "body:0" }\n}\n'
        (tmp_path / "ge_onnx_1.pbtxt").write_text(self.text().rstrip().removesuffix("}") + body)
        with pytest.raises(ConversionError, match=r"body \(subgraph\): it runs another graph"):
            convert(tmp_path / "ge_onnx_1.pbtxt")

    def test_without_weights(self, tmp_path):
        (tmp_path / "ge_onnx_1.pbtxt").write_text(self.text(level=2))
        with pytest.raises(ConversionError, match="the data of 1 constants are not in the file"):
            convert(tmp_path / "ge_onnx_1.pbtxt")
