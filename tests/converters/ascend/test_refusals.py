"""Files that hold no graph, a broken one, or far more than a graph needs give one clear error."""

from __future__ import annotations

import contextlib
import json
import random as randomness
from pathlib import Path

import pytest
from onnx import helper
from support.ascend_graphs import ADD, NEG, X, converted, fill, layer, operation, write

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert, wire

SAMPLES = Path(__file__).parents[2] / "data" / "ascend"


def test_all_of_them_at_once(tmp_path):
    nodes = [
        operation("SelfAttentionOperation", ["x"], ["a"], {}, "Attention_0_0"),
        operation("ElewiseOperation", ["a"], ["b"], NEG),  # refused only because of the operation before it
        operation("FillOperation", ["x", "x"], ["c"], fill(0), "Fill_0_2"),
        operation("MlaOperation", ["b"], ["d"], {}, "Mla_0_3"),
        {"name": "PluginNode", "inTensors": ["x"], "outTensors": ["e"]},
    ]
    with pytest.raises(ConversionError) as caught:
        converted(tmp_path, layer(["x"], ["c", "d", "e"], nodes), x=X)
    assert [node.node for node in caught.value.unsupported] == [
        "Attention_0_0",
        "Fill_0_2",
        "Mla_0_3",
        "PluginNode",
    ]
    assert "plugin" in caught.value.unsupported[3].reason


def test_kept_as_a_foreign_node(tmp_path):
    nodes = [operation("MlaOperation", ["x"], ["y"], {"headNum": 4})]
    model = convert(write(tmp_path, layer(["x"], ["y"], nodes)), inputs=["x:float16:3"], keep_unknown=True)
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("ascend.atb", "MlaOperation")
    assert json.loads(helper.get_attribute_value(node.attribute[0])) == {"headNum": 4}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ('{"opName": "\\udc80", "nodes": []}', "is not JSON: 'utf-8' codec can't encode character"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not an ATB graph"),
        ("{}", "not an ATB graph"),
        ('{"nodes": []}', "not an ATB graph"),
        ('{"openapi": "3.0", "paths": {}}', "not an ATB graph"),
        ('{"opName": "L", "nodes": [1]}', "a node is not an object"),
        ('{"opName": 3, "nodes": []}', "opName is not text"),
        ('{"opName": "L", "nodes": [{"opType": "X", "inTensors": "x"}]}', "expected a list of names"),
        ('{"opName": "L", "inTensors": [1], "nodes": []}', "expected a list of names"),
    ],
)
def test_files_that_are_not_graphs(refused, document, message):
    assert message in refused(document)


def test_undefined_name(refused):
    nodes = [operation("ElewiseOperation", ["x", "nowhere"], ["y"], ADD)]
    assert "reads nowhere, which is not an input" in refused(layer(["x"], ["y"], nodes))


def test_a_cycle(refused):
    nodes = [
        operation("ElewiseOperation", ["x", "b"], ["a"], ADD),
        operation("ElewiseOperation", ["a"], ["b"], NEG),
    ]
    assert "a cycle" in refused(layer(["x"], ["b"], nodes))


def test_an_output_that_is_never_written(refused):
    nodes = [operation("ElewiseOperation", ["x"], ["y"], NEG)]
    assert "no operation writes the graph's output z" in refused(layer(["x"], ["y", "z"], nodes))


def test_no_outputs_at_all(refused):
    nodes = [operation("ElewiseOperation", ["x"], ["y"], NEG)]
    assert "Layer_0 lists no outputs" in refused(layer(["x"], [], nodes))


def test_duplicate_outputs(refused):
    split = operation("SplitOperation", ["x"], ["y", "y"], {"splitDim": 0, "splitNum": 2})
    assert "writes one tensor twice" in refused(layer(["x"], ["y"], [split]))
    twice = [
        operation("ElewiseOperation", ["x"], ["y"], NEG),
        operation("ElewiseOperation", ["x", "x"], ["y"], ADD),
    ]
    assert "both write y" in refused(layer(["x"], ["y"], twice))
    assert "listed twice" in refused(layer(["x"], ["y", "y"], twice[:1]))


def test_inputs_without_types(refused):
    nodes = [operation("ElewiseOperation", ["x", "y"], ["z"], ADD)]
    message = refused(layer(["x", "y"], ["z"], nodes), inputs=["x:fp16:3"])
    assert "--input-spec y:float16:2,3" in message
    assert "inputs y are" in message


@pytest.mark.parametrize("text", ["x", "x:fp17:3", "x:fp16:3,a b", "x:fp16:-1", ":fp16:3", "x:fp16:1e3"])
def test_inputs_that_are_malformed(refused, text):
    assert repr(text) in refused(layer(["x"], ["x"], []), inputs=[text])


def test_an_input_that_is_not_there(refused):
    assert "has no input q" in refused(layer(["x"], ["x"], []), inputs=["q:fp16:3"])


def test_operations_that_do_not_fit(refused):
    nodes = [operation("ElewiseOperation", ["x", "y"], ["z"], ADD)]
    assert "do not broadcast" in refused(layer(["x", "y"], ["z"], nodes), inputs=["x:fp16:3", "y:fp16:4"])
    assert "different element types" in refused(layer(["x", "y"], ["z"], nodes), inputs=["x:fp16:3", "y:int64:3"])
    nodes = [operation("LinearOperation", ["x", "y"], ["z"], {"hasBias": False})]
    message = refused(layer(["x", "y"], ["z"], nodes), inputs=["x:fp16:3,4", "y:fp16:4,5"])
    assert "x float16[3, 4] and y float16[4, 5] do not multiply with transposeA = False, transposeB = True" in message


def test_a_huge_file(tmp_path, monkeypatch):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(500 * 2**20)
    with pytest.raises(ConversionError, match="524,288,000 bytes; a file of this kind is read up to"):
        convert(path)


def test_graphs_nested_too_deeply(refused):
    node = operation("ElewiseOperation", ["x"], ["y"], NEG)
    for _ in range(100):
        node = operation("Graph", ["x"], ["y"]) | {"nodes": [node]}
    assert "nested more than" in refused(layer(["x"], ["y"], [node]))


def test_the_file_is_named(tmp_path):
    for document in ('{"openapi": "3.0"}', '{"opName": "L", "nodes": [1]}', "{"):
        with pytest.raises(ConversionError, match=r"some_graph\.json"):
            convert(write(tmp_path, document, "some_graph.json"))
    with pytest.raises(ConversionError, match="is a folder"):
        convert(tmp_path)


class TestSmallFilesOfLargeGraphs:
    def test_tensors(self, refused):
        """Declared numbers of tensors cost nothing until an operation uses them."""
        graph = {"opName": "G", "opType": "G", "nodes": []}
        for _ in range(30):
            graph = {"opName": "G", "opType": "G", "nodes": [graph], "internalTensorNum": 1_000_000}
        assert "lists no outputs" in refused(graph)
        assert "not a number of tensors" in refused({"opName": "G", "inTensorNum": 10**9, "nodes": []})

    def test_operations(self, refused):
        assert "up to 200000 are read" in refused('{"opName": "L", "nodes": [' + "{}," * 200_000 + "{}]}")

    def test_constants(self, tmp_path):
        """One tensor of indices of this size is made, four are not."""
        param = {"size": [4096, 2048], "stride": [0, 0], "offset": [0]}
        nodes = [operation("AsStridedOperation", ["x"], [f"y{i}"], param) for i in range(6)]
        with pytest.raises(ConversionError, match="computed constants") as caught:
            convert(write(tmp_path, layer(["x"], ["y0"], nodes)), inputs=["x:float16:4"])
        assert len(caught.value.unsupported) == 2

    @pytest.mark.parametrize(("name", "empty"), [("graph.air", b"\x32\x00"), ("graph.onnx", b"\x0a\x00")])
    def test_protobufs_of_empty_messages(self, tmp_path, monkeypatch, name, empty):
        """Each has two bytes in the file and a hundred in memory, so they are counted before parsing."""
        monkeypatch.setattr(wire, "_HARMLESS_BYTES", 1000)
        monkeypatch.setattr(wire, "_MOST_FIELDS", 5000)
        for count, message in ((4000, "not a graph|no opset|nor one of|two nodes"), (8000, "more than 5000 fields")):
            size = 2 * count
            (tmp_path / name).write_bytes(b"\x3a" + bytes([size & 127 | 128, size >> 7]) + empty * count)
            with pytest.raises(ConversionError, match=message):
                convert(tmp_path / name)


WEIRD = [None, "", "x", -1, 2**40, 10**400, 1.5, float("nan"), True, [], {}, [None], [[1]], {"a": 1}, [2**62] * 3]


def test_mutated_json(tmp_path):
    """Whatever a file contains, the result is a model or a ConversionError."""
    rng = randomness.Random(3)
    for source in sorted(SAMPLES.glob("*.json")):
        text = source.read_text()
        for _ in range(60):
            document = json.loads(text)
            places = [(document, key) for key in document]
            for container, key in places:  # grows while it is walked
                inner = container[key]
                places += (
                    [(inner, k) for k in (inner if isinstance(inner, dict) else range(len(inner)))]
                    if isinstance(inner, dict | list)
                    else []
                )
            container, key = rng.choice(places)
            container[key] = rng.choice(WEIRD)
            _accept_or_refuse(write(tmp_path, document))


def test_mutated_protobufs(tmp_path):
    rng = randomness.Random(4)
    for source in sorted(path for path in SAMPLES.iterdir() if path.suffix != ".json"):
        content = source.read_bytes()
        for _ in range(60):
            changed = bytearray(content)
            for _ in range(rng.choice([1, 3, 10])):
                place = rng.randrange(len(changed))
                changed[place : place + rng.choice([0, 1, 1, 20])] = bytes([rng.randrange(256)])
            path = tmp_path / source.name
            path.write_bytes(changed)
            _accept_or_refuse(path)


def _accept_or_refuse(path: Path) -> None:
    with contextlib.suppress(ConversionError):
        convert(path, fill_value=0.0, keep_unknown=True)
