"""Dumps: tables, headers, parameters and data of tensors; and files that point outside the dump."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import numpy_helper
from support.ascend_graphs import bin_bytes, layer, operation, run, write, write_tensors
from support.ge_graphs import Graph

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert, notes
from onnx_sparse.converters.ascend.atb.tables import read_table
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor

ADD = {"elewiseType": 8}
HEAD = "CaseNum|OpName|InNum|InDType|InFormat|InShape|OutNum|OutDType|OutFormat|OutShape|SocVersion"
STATISTIC = "Device and PID,Execution Count,Op Name,Op Type,Op Id,Input/Output,Index,Dtype,Format,Shape,Tensor Path"
#: Names that no file has, which a file may name.
IMPOSSIBLE = pytest.mark.parametrize("name", ["x" * 300, "d/" * 3000 + "x", "a\0b", "loop/x"])
X = np.arange(6, dtype=np.float16).reshape(2, 3)


@pytest.fixture
def add_layer(tmp_path):
    """x + y, with the graph in the folder layout of msit."""
    nodes = [operation("ElewiseOperation", ["x", "y"], ["z"], ADD, "ElewiseOperation_0_0")]
    return write(tmp_path, layer(["x", "y"], ["z"], nodes), "layer/77/Layer_0.json")


class TestTables:
    ROW = "1|ElewiseOperation_0_0|2|float16;float16|nd;nd|2,3;1,3|1|float16|nd|2,3|Ascend910B"

    def test_beside_the_graph(self, tmp_path, add_layer):
        write(tmp_path, f"{HEAD}\n{self.ROW}\n", "operation_io_tensors/77/operation_tensors_0.csv")
        other = self.ROW.replace("float16", "int64")
        write(tmp_path, f"{HEAD}\n{other}\n", "operation_io_tensors/11/operation_tensors_0.csv")  # another process
        (z,) = run(convert(add_layer), X, X[:1])
        np.testing.assert_array_equal(z, X + X[:1])

    def test_given(self, tmp_path, add_layer):
        table = write(tmp_path, f"{HEAD}\n{self.ROW}\n", "elsewhere/table.csv")
        for tensors in (table, table.parent):
            if tensors.is_dir():
                table.rename(tensors / "operation_tensors_0.csv")
            (z,) = run(convert(add_layer, tensors=tensors), X, X[:1])
            np.testing.assert_array_equal(z, X + X[:1])

    def test_statistic(self, tmp_path, add_layer):
        rows = [
            "0_77,0,ElewiseOperation_0_0,ElewiseOperation,0_0,input,0,float16,ND,2x3,",
            "0_77,0,ElewiseOperation_0_0,ElewiseOperation,0_0,input,1,float16,ND,1x3,",
            "0_77,0,ElewiseOperation_0_0,ElewiseOperation,0_0,output,0,float16,ND,2x3,",
            "0_77,1,ElewiseOperation_0_0,ElewiseOperation,0_0,input,0,float16,ND,9x9,",  # a later execution
        ]
        write(tmp_path, "\n".join([STATISTIC, *rows]), "statistic.csv")
        (z,) = run(convert(add_layer), X, X[:1])
        np.testing.assert_array_equal(z, X + X[:1])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is neither"),
            ("a,b\n1,2\n", "is neither"),
            (f"{HEAD}\n1|Other_0|1|float16|nd|2|1|float16|nd|2|\n", "holds no tensors of Layer_0"),
            (f"{HEAD}\n{ROW.replace('2,3;', '2,three;')}\n", "invalid literal"),
            (f"{HEAD}\n{ROW.replace('2,3;', '2,-3;')}\n", "2,-3 is not a shape"),
            (f"{HEAD}\n{ROW.replace('2,3;', '2,9223372036854775808;')}\n", "is not a shape"),
        ],
    )
    def test_tables_that_do_not_belong_to_the_graph(self, tmp_path, add_layer, text, message):
        with pytest.raises(ConversionError, match=message):
            convert(add_layer, tensors=write(tmp_path, text, "t.csv"))

    def test_a_contradiction(self, tmp_path, add_layer):
        table = write(tmp_path, f"{HEAD}\n{self.ROW}\n", "t.csv")
        with pytest.raises(ConversionError, match="x is float16 in the dump, not bfloat16"):
            convert(add_layer, tensors=table, inputs=["x:bf16:2,3"])


def test_hidden_reshapes(tmp_path):
    """The dump says that t was written as [2, 3] and read as [6]: the graph's code reshaped it in between."""
    nodes = [
        operation("ElewiseOperation", ["x", "x"], ["t"], ADD, "E_0_0"),
        operation("ElewiseOperation", ["t", "y"], ["z"], ADD, "E_0_1"),
    ]
    rows = [
        "1|E_0_0|2|float16;float16|nd;nd|2,3;2,3|1|float16|nd|2,3|",
        "1|E_0_1|2|float16;float16|nd;nd|6;6|1|float16|nd|6|",
    ]
    table = write(tmp_path, "\n".join([HEAD, *rows]), "t.csv")
    model = convert(write(tmp_path, layer(["x", "y"], ["z"], nodes)), tensors=table)
    y = np.ones(6, np.float16)
    np.testing.assert_array_equal(run(model, X, y)[0], 2 * X.ravel() + 1)
    (note,) = notes(model)
    assert "E_0_1: input 0 (t) is reshaped from [2, 3] to [6]" in note
    rows[1] = rows[1].replace("6;6", "7;7")
    with pytest.raises(ConversionError, match=r"reads t float16\[2, 3\], which is \[7\] in the dump"):
        convert(tmp_path / "layer.json", tensors=write(tmp_path, "\n".join([HEAD, *rows]), "t.csv"))


class TestFolders:
    def test_weights_become_initializers(self, tmp_path):
        """A layer's file does not name weights: an input that is only read as one and is in the dump is a weight."""
        weight, bias = np.eye(3, dtype=np.float16) * 2, np.ones((1, 3), np.float16)
        nodes = [operation("LinearOperation", ["x", "w", "b"], ["y"], {"hasBias": True}, "LinearOperation_0_0")]
        path = write(tmp_path, layer(["x", "w", "b"], ["y"], nodes), "layer/77/Layer_0.json")
        write_tensors(tmp_path / "tensors/0_77/0/0_Layer", [X, weight, bias], [X])
        write_tensors(tmp_path / "tensors/0_77/1/0_Layer", [X, weight * 9, bias], [X])  # a later round
        model = convert(path)
        assert [value.name for value in model.graph.input] == ["x"]
        stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        np.testing.assert_array_equal(stored["w"], weight)
        np.testing.assert_array_equal(run(model, X)[0], 2 * X + 1)

    def test_a_model_with_layers_and_weights(self, tmp_path):
        inner = operation("Layer", ["M_input_0", "M_weight_0"], ["M_output_0"], "", "Layer_0") | {
            "nodes": [operation("ElewiseOperation", ["M_input_0", "M_weight_0"], ["M_output_0"], ADD, "E_0_0")]
        }
        graph = {
            "modelName": "M",
            "inTensors": ["M_input_0"],
            "weightTensors": ["M_weight_0"],
            "outTensors": ["M_output_0"],
            "nodes": [inner],
        }
        path = write(tmp_path, graph, "info/model/0_77/M.json")
        write_tensors(tmp_path / "data/0_77/0/0_Layer/0_ElewiseOperation", [X, X[1:]], [X + X[1:]])
        model = convert(path)
        assert [value.name for value in model.graph.input] == ["M_input_0"]
        np.testing.assert_array_equal(run(model, X)[0], X + X[1:])

    def test_weights_of_a_model_without_lists(self, tmp_path):
        """Some models' files list no inputs; the names that the tools give tell which are weights."""
        nodes = [operation("ElewiseOperation", ["M_input_0", "M_weight_0"], ["M_output_0"], ADD, "E_0")]
        path = write(tmp_path, {"modelName": "M", "nodes": nodes}, "info/model/0_77/M.json")
        write_tensors(tmp_path / "data/0_77/0/0_ElewiseOperation", [X, X[1:]], [X])
        model = convert(path)
        assert [value.name for value in model.graph.input] == ["M_input_0"]
        np.testing.assert_array_equal(run(model, X)[0], X + X[1:])

    def test_parameters_from_op_param(self, tmp_path):
        nodes = [operation("ElewiseOperation", ["x", "y"], ["z"], None, "ElewiseOperation_0_0")]
        path = write(tmp_path, layer(["x", "y"], ["z"], nodes))
        folder = tmp_path / "tensors/0_77/0/0_Layer/0_ElewiseOperation"
        write_tensors(folder, [X, X], [X])
        write(folder, {"elewiseType": 9}, "op_param.json")
        np.testing.assert_array_equal(run(convert(path), X, X)[0], X * X)
        write(folder, "{", "op_param.json")
        with pytest.raises(ConversionError, match="is not JSON"):
            convert(path)

    def test_the_folder_of_the_layer_given(self, tmp_path, add_layer):
        write_tensors(tmp_path / "somewhere", [X, X[:1]], [X])
        np.testing.assert_array_equal(run(convert(add_layer, tensors=tmp_path / "somewhere"), X, X[:1])[0], X + X[:1])
        with pytest.raises(ConversionError, match="no such file"):
            convert(add_layer, tensors=tmp_path / "nowhere")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ConversionError, match="holds no tensors of Layer_0"):
            convert(add_layer, tensors=tmp_path / "empty")

    def test_a_graph_without_a_dump_reads_no_other_folders(self, tmp_path):
        """If a graph is not where the tools put it, a `data` folder somewhere above does not belong to it."""
        write_tensors(tmp_path / "data/0_77/0/0_Layer", [X, X], [X])
        nodes = [operation("ElewiseOperation", ["x", "y"], ["z"], ADD)]
        with pytest.raises(ConversionError, match="--input-spec"):
            convert(write(tmp_path, layer(["x", "y"], ["z"], nodes), "mine/deep/graph.json"))


class TestTensorFiles:
    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "uint8", "uint32", "int64", "bool"])
    def test_round_trip(self, tmp_path, dtype):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        (tmp_path / "t.bin").write_bytes(bin_bytes(array))
        result = read_tensor(tmp_path / "t.bin", tmp_path)
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)

    def test_data_in_another_file(self, tmp_path):
        """msprobe writes equal tensors once."""
        (tmp_path / "a").mkdir()
        (tmp_path / "a/first.bin").write_bytes(bin_bytes(X))
        head = bin_bytes(X, fields={"$Object.data": None, "data": "../a/first.bin"})[: -X.nbytes]
        (tmp_path / "b").mkdir()
        (tmp_path / "b/second.bin").write_bytes(head)
        np.testing.assert_array_equal(read_tensor(tmp_path / "b/second.bin", tmp_path), X)
        head = head.replace(b"../a/first.bin", b"a/first.bin")  # relative to the dump's folder
        (tmp_path / "b/second.bin").write_bytes(head)
        np.testing.assert_array_equal(read_tensor(tmp_path / "b/second.bin", tmp_path), X)

    @pytest.mark.parametrize("way", ["relative", "absolute", "link", "linked folder", "missing"])
    def test_nothing_outside_is_read(self, tmp_path, way):
        secret = tmp_path / "secret.bin"
        secret.write_bytes(bin_bytes(X))
        dump = tmp_path / "dump"
        dump.mkdir()
        target = {
            "relative": "../secret.bin",
            "absolute": str(secret),
            "link": "link.bin",
            "linked folder": "out/secret.bin",
            "missing": "../../nowhere.bin",
        }[way]
        (dump / "link.bin").symlink_to(secret)
        (dump / "out").symlink_to(tmp_path)
        fields = {"$Object.data": None, "data": target}
        (dump / "t.bin").write_bytes(bin_bytes(X, fields=fields)[: -X.nbytes])
        with pytest.raises(ConversionError, match="nothing else is read"):
            read_tensor(dump / "t.bin", dump)
        if way == "link":
            with pytest.raises(ConversionError, match="nothing else is read"):
                read_tensor(dump / "link.bin", dump)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"dims": "2,4"}, "is 16 bytes; the header says 12"),
            ({"dims": "1000000000,1000000000"}, "is 2000000000000000000 bytes"),
            ({"dims": "-2,3"}, "malformed"),
            ({"dims": "9223372036854775808"}, "malformed"),
            ({"dims": "a"}, "malformed"),
            ({"dims": ",".join("1" * 100)}, "malformed"),
            ({"dtype": "999"}, "dtype=999 is not an element type of ACL"),
            ({"dtype": "x"}, "malformed"),
            ({"$Object.data": "0,12,3"}, "malformed"),
            ({"$Object.data": "1,12"}, "at 1, and there are 12"),
            ({"$Object.data": "-1,12"}, "at -1"),
            ({"$Object.data": None}, "is missing"),
        ],
    )
    def test_headers_that_lie(self, tmp_path, fields, message):
        (tmp_path / "t.bin").write_bytes(bin_bytes(X, fields=fields))
        with pytest.raises(ConversionError, match=message):
            read_tensor(tmp_path / "t.bin", tmp_path)

    @pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 100_000, b"$Version=1.0\n" * 10_000])
    def test_files_that_are_not_tensors(self, tmp_path, content):
        (tmp_path / "t.bin").write_bytes(content)
        with pytest.raises(ConversionError, match="not a tensor of an ATB dump"):
            read_tensor(tmp_path / "t.bin", tmp_path)

    def test_truncated_data(self, tmp_path):
        (tmp_path / "t.bin").write_bytes(bin_bytes(X)[:-1])
        with pytest.raises(ConversionError, match="there are 11"):
            read_tensor(tmp_path / "t.bin", tmp_path)


def test_json_as_python_writes_it(tmp_path):
    """NaN and Infinity are not legal JSON, but many tools write them."""
    nodes = [operation("FillOperation", ["x", "m"], ["y"], {"value": [float("-inf")], "withMask": True})]
    text = json.dumps(layer(["x", "m"], ["y"], nodes))
    assert "-Infinity" in text
    (y,) = run(convert(write(tmp_path, text), inputs=["x:fp16:2,3", "m:int8:3"]), X, np.array([1, 0, 0], np.int8))
    assert (y[:, 0] == -65504).all()


@IMPOSSIBLE
class TestNamesThatNoFileHas:
    @pytest.fixture(autouse=True)
    def loop(self, tmp_path):
        (tmp_path / "loop").symlink_to("loop")

    def test_of_a_tensor(self, tmp_path, name):
        header = f"dtype=1\nformat=2\ndims=2,3\ndata={name}\n$End=1\n"
        (tmp_path / "tensor.bin").write_text(header)
        with pytest.raises(ConversionError, match="nothing else is read"):
            read_tensor(tmp_path / "tensor.bin", tmp_path)

    def test_in_a_table(self, tmp_path, name):
        row = f"0_77,0,Fill_0,Fill,0,input,0,float16,ND,2x3,{name}"
        (tmp_path / "statistic.csv").write_text(f"{STATISTIC}\n{row}\n")
        (tensor,) = read_table(tmp_path / "statistic.csv", tmp_path)["Fill_0"].inputs
        assert tensor.shape == (2, 3)
        assert tensor.file is None

    def test_of_a_constant(self, tmp_path, name):
        graph = Graph()
        graph.op("FileConstant", name="w", result=(np.float32, (2, 3)), file_path=name)
        with pytest.raises(ConversionError, match="nothing else is read"):
            convert(graph.output("w").write(tmp_path))
