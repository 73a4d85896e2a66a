"""ATB graphs in every form: ids and names, nested graphs, writes in place, parameters and models."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from support.ascend_graphs import ADD, MUL, NEG, X, Y, converted, fill, layer, operation, run, write

from onnx_sparse.converters.ascend import convert


def ids(op_type, inputs, outputs, param="", **others):
    return {
        "opType": op_type,
        "opName": f"{op_type}_0_{len(str(param))}",
        "inTensorNum": len(inputs),
        "outTensorNum": len(outputs),
        "inTensorIds": inputs,
        "outTensorIds": outputs,
        "param": param,
        **others,
    }


def raw(nodes, ins=2, outs=1, internals=0, **others):
    return {
        "opName": "Layer_0",
        "opType": "Layer",
        "inTensorNum": ins,
        "outTensorNum": outs,
        "internalTensorNum": internals,
        "param": "",
        "nodes": nodes,
        **others,
    }


class TestIds:
    def test_names_and_order(self, tmp_path):
        graph = raw([ids("ElewiseOperation", [0, 1], [3], ADD), ids("ElewiseOperation", [3], [2], NEG)], internals=1)
        model = converted(tmp_path, graph, Layer_0_input_0=X, Layer_0_input_1=Y)
        assert [value.name for value in model.graph.input] == ["Layer_0_input_0", "Layer_0_input_1"]
        assert [value.name for value in model.graph.output] == ["Layer_0_output_0"]
        np.testing.assert_array_equal(run(model, X, Y)[0], -(X + Y))

    def test_a_graph_in_a_graph_in_a_graph(self, tmp_path):
        inner = ids(
            "InnerGraph",
            [0, 1],
            [2],
            nodes=[ids("ElewiseOperation", [0, 1], [3], MUL), ids("ElewiseOperation", [3, 0], [2], ADD)],
            internalTensorNum=1,
        )
        outer = ids("OuterGraph", [1, 0], [3], nodes=[inner], internalTensorNum=0)
        graph = raw([outer, ids("ElewiseOperation", [3], [2], NEG)], internals=1)
        model = converted(tmp_path, graph, Layer_0_input_0=X, Layer_0_input_1=Y)
        np.testing.assert_array_equal(run(model, X, Y)[0], -(Y * X + Y))

    def test_a_single_operation(self, tmp_path):
        node = {"opType": "ElewiseOperation", "opName": "E_0", "inTensorNum": 2, "outTensorNum": 1, "param": ADD}
        model = converted(tmp_path, node, E_0_input_0=X, E_0_input_1=Y)
        np.testing.assert_array_equal(run(model, X, Y)[0], X + Y)

    @pytest.mark.parametrize("wrong", [7, -1, 4])
    def test_an_id_out_of_range(self, refused, wrong):
        message = refused(raw([ids("ElewiseOperation", [0, wrong], [2], ADD)], internals=1))
        assert f"tensor id {wrong} is out of range [0, 4)" in message

    @pytest.mark.parametrize("wrong", ["0", 1.5, None, True])
    def test_an_id_that_is_not_an_integer(self, refused, wrong):
        assert "not a list of numbers" in refused(raw([ids("ElewiseOperation", [wrong], [2], NEG)]))

    def test_numbers_that_contradict(self, refused):
        node = ids("ElewiseOperation", [0, 1], [2], ADD) | {"inTensorNum": 3}
        assert "declares 3 inTensorIds and has 2" in refused(raw([node]))
        assert "not a number of tensors" in refused(raw([], internals=10**12))


class TestWrites:
    def test_in_place_onto_an_output(self, tmp_path):
        nodes = [
            operation("FillOperation", ["x", "m"], ["y"], fill(7)),
            operation("FillOperation", ["y", "n"], ["y"], fill(9)),
            operation("ElewiseOperation", ["y"], ["z"], NEG),
        ]
        m, n = np.array([1, 0, 0], np.int8), np.array([0, 1, 0], np.int8)
        model = converted(tmp_path, layer(["x", "m", "n"], ["y", "z"], nodes), x=X, m=m, n=n)
        y, z = run(model, X, m, n)
        np.testing.assert_array_equal(y, [7, 9, 3])
        np.testing.assert_array_equal(z, [-7, -9, -3])

    def test_onto_an_input(self, tmp_path):
        """Reads before the write get the old value, reads after it the new one."""
        nodes = [
            operation("ElewiseOperation", ["x"], ["before"], NEG),
            operation("FillOperation", ["x", "m"], ["x"], fill(7)),
            operation("ElewiseOperation", ["x"], ["after"], NEG),
        ]
        m = np.array([1, 0, 0], np.int8)
        model = converted(tmp_path, layer(["x", "m"], ["before", "after"], nodes), x=X, m=m)
        assert [value.name for value in model.graph.output] == ["before", "after"]
        before, after = run(model, X, m)
        np.testing.assert_array_equal(before, [-1, -2, -3])
        np.testing.assert_array_equal(after, [-7, -2, -3])

    def test_onto_an_input_that_is_not_read_afterwards(self, tmp_path):
        """The write is all that the graph does, so the written tensor becomes an output."""
        nodes = [operation("FillOperation", ["x", "m"], ["x"], fill(7))]
        m = np.array([1, 0, 0], np.int8)
        (y,) = run(converted(tmp_path, layer(["x", "m"], [], nodes), x=X, m=m), X, m)
        np.testing.assert_array_equal(y, [7, 2, 3])

    def test_an_input_that_is_an_output(self, tmp_path):
        nodes = [operation("ElewiseOperation", ["x"], ["y"], NEG)]
        x, y = run(converted(tmp_path, layer(["x"], ["x", "y"], nodes), x=X), X)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, -X)

    def test_a_tensor_named_as_the_output_of_an_input_would_be(self, tmp_path):
        nodes = [operation("ElewiseOperation", ["x"], ["x_output"], NEG)]
        model = converted(tmp_path, layer(["x"], ["x", "x_output"], nodes), x=X)
        assert [value.name for value in model.graph.output] == ["x_output_1", "x_output"]
        x, y = run(model, X)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, -X)

    def test_a_tensor_is_used_again(self, tmp_path):
        nodes = [
            operation("ElewiseOperation", ["x"], ["t"], NEG),
            operation("ElewiseOperation", ["t"], ["a"], NEG),
            operation("ElewiseOperation", ["x", "x"], ["t"], ADD),
            operation("ElewiseOperation", ["t", "a"], ["b"], ADD),
        ]
        (b,) = run(converted(tmp_path, layer(["x"], ["b"], nodes), x=X), X)
        np.testing.assert_array_equal(b, 3 * X)


class TestNames:
    def test_ports_of_a_graph_in_a_graph(self, tmp_path):
        """Its operations use the outer graph's names, or its own."""
        inner = operation("Inner", ["x", "y"], ["t"], "", "Inner_0_0")
        inner["nodes"] = [
            operation("ElewiseOperation", ["Inner_0_0_input_0", "y"], ["Inner_0_0_internal_0"], MUL),
            operation("ElewiseOperation", ["Inner_0_0_internal_0"], ["Inner_0_0_output_0"], NEG),
        ]
        graph = layer(["x", "y"], ["z"], [inner, operation("ElewiseOperation", ["t", "x"], ["z"], ADD)])
        (z,) = run(converted(tmp_path, graph, x=X, y=Y), X, Y)
        np.testing.assert_array_equal(z, -(X * Y) + X)

    def test_a_model(self, tmp_path):
        graph = {
            "modelName": "Model",
            "inTensors": ["Model_input_0"],
            "weightTensors": ["Model_weight_0"],
            "outTensors": ["Model_output_0"],
            "nodes": [operation("ElewiseOperation", ["Model_input_0", "Model_weight_0"], ["Model_output_0"], ADD)],
        }
        (z,) = run(converted(tmp_path, graph, Model_input_0=X, Model_weight_0=Y), X, Y)
        np.testing.assert_array_equal(z, X + Y)

    def test_a_model_without_lists(self, tmp_path):
        nodes = [
            operation("ElewiseOperation", ["a", "b"], ["t"], MUL),
            operation("ElewiseOperation", ["t"], ["z"], NEG),
        ]
        model = converted(tmp_path, {"modelName": "Model", "nodes": nodes}, a=X, b=Y)
        assert [value.name for value in model.graph.output] == ["z"]
        np.testing.assert_array_equal(run(model, X, Y)[0], -(X * Y))

    def test_enums_by_name_and_snake_case(self, tmp_path):
        nodes = [
            operation("Elewise", ["x"], ["t"], {"elewise_type": "ELEWISE_MULS", "muls_param": {"var_attr": 3.0}}),
            operation(
                "Elewise", ["t"], ["y"], {"elewiseType": "ElewiseType.ELEWISE_CAST", "outTensorType": "ACL_FLOAT"}
            ),
        ]
        (y,) = run(converted(tmp_path, layer(["x"], ["y"], nodes), x=X), X)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, [3, 6, 9])


def test_the_onnx_file_of_msit(tmp_path):
    """Scalars are lists of floats, empty for 0 and false; names of sub-attributes are written twice."""
    nodes = [
        helper.make_node("FillOperation", [], ["t"], name="FillOperation_0_0", outDim=[1.0, 3.0], value=[2.0]),
        helper.make_node("ElewiseOperation", ["t", "L_0_input_0"], ["L_0_output_0"], name="E_0_1", elewiseType=[8.0]),
    ]
    nodes[0].attribute.append(onnx.AttributeProto(name="withMask", type=onnx.AttributeProto.FLOATS))
    for _ in range(2):
        nodes[1].attribute.append(helper.make_attribute("quantParam.inputScale", [1.0]))
    graph = onnx.GraphProto(node=nodes, input=[onnx.ValueInfoProto(name="L_0_input_0")])
    graph.output.append(onnx.ValueInfoProto(name="L_0_output_0"))
    (tmp_path / "L_0.onnx").write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    model = convert(tmp_path / "L_0.onnx", inputs=["L_0_input_0:float16:1,3"])
    np.testing.assert_array_equal(run(model, X[None])[0], X[None] + 2)


def test_unknown_dimensions(tmp_path):
    nodes = [operation("FillOperation", ["x", "m"], ["y"], fill(7))]
    model = convert(write(tmp_path, layer(["x", "m"], ["y"], nodes)), inputs=["x:float16:?,3", "m:int8"])
    (y,) = run(model, np.stack([X, Y]), np.array([1, 0, 0], np.int8))
    np.testing.assert_array_equal(y, [[7, 2, 3], [7, 5, 6]])


def test_five_thousand_operations(tmp_path):
    nodes = [operation("ElewiseOperation", [f"t{i}", "x"], [f"t{i + 1}"], ADD) for i in range(4999)]
    nodes.insert(0, operation("FillOperation", ["x", "m"], ["t0"], fill(0)))
    path = write(tmp_path, layer(["x", "m"], ["t4999"], nodes))
    model = convert(path, inputs=["x:float16:3", "m:int8:3"])
    assert sum(node.op_type == "Add" for node in model.graph.node) == 4999
