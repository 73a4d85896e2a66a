"""What a source says of a node and its handler does not read is refused by name and value, on every road."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.ascend_graphs import one_operation
from support.attribute_reads import may_read, names_in
from support.ge_graphs import Graph
from support.openvino_irs import IrBuilder

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert as convert_ascend
from onnx_sparse.converters.ascend import npu_handlers
from onnx_sparse.converters.ascend.atb import handlers as atb_handlers
from onnx_sparse.converters.ascend.ge import handlers as ge_handlers
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino import convert as convert_openvino
from onnx_sparse.converters.openvino import handlers as openvino_handlers
from onnx_sparse.converters.openvino.handlers import attributes as openvino_attributes
from onnx_sparse.converters.openvino.handlers import registry as openvino_registry
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow import convert as convert_tensorflow
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.handlers import STRUCTURE
from onnx_sparse.converters.tensorflow.handlers import registry as tensorflow_registry
from onnx_sparse.converters.tensorflow.importing import attributes as tensorflow_attributes
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef
from onnx_sparse.converters.tensorflow.reading.operators import declare, operators
from onnx_sparse.converters.torch import handlers as torch_handlers
from onnx_sparse.converters.torch.handlers.registry import Arguments
from onnx_sparse.converters.torch.handlers.registry import Node as TorchNode
from onnx_sparse.converters.writing.reads import Attributes, Inputs
from onnx_sparse.converters.writing.reads import Node as SourceNode
from onnx_sparse.converters.writing.registry import Handler

DATA = Path(__file__).parents[1] / "data"
X = np.zeros((2, 3), np.float32)


# --- the mechanism ---------------------------------------------------------------------------------------------------


class Node(SourceNode):
    """A node of two inputs and two attributes."""

    def __init__(self) -> None:
        self.inputs = Inputs(["first", None, "third"])
        self.attributes = Attributes({"axis": 1, "mode": b"up"})


@pytest.mark.parametrize(
    ("read", "left"),
    [
        (lambda node: None, "its input 0 = 'first' and its input 2 = 'third' and its attribute axis = 1 and its "
                            "attribute mode = 'up' are not supported"),
        (lambda node: [*node.inputs, *node.attributes.values()], ""),
        (lambda node: (node.inputs[:2], node.attributes.get("axis")), "its input 2 = 'third' and its attribute mode"),
        (lambda node: (len(node.inputs), list(node.attributes), "axis" in node.attributes, node.disregard("0", "2")),
         "its attribute axis = 1 and its attribute mode = 'up' are not supported"),
        (lambda node: [(a, c) for a, _, c in [node.inputs]], "its attribute axis = 1"),
    ],
)  # fmt: skip
def test_what_counts_as_read(read: Callable[[Node], Any], left: str) -> None:
    def function(node: Node, emit: None) -> tuple[()]:
        read(node)
        return ()

    if not left:
        Handler("Op", function, "").convert(Node(), None)
        return
    with pytest.raises(Unsupported) as refused:
        Handler("Op", function, "").convert(Node(), None)
    assert str(refused.value).startswith(left)
    everything = Handler("Op", function, "", ignored=("0", "2", "mode"), defaults={"axis": 1})
    assert everything.convert(Node(), None) == ()


# --- every road ------------------------------------------------------------------------------------------------------


def tensorflow(folder: Path, given: dict[str, Any]) -> None:
    if "UnreadScale" not in operators():
        declare("UnreadScale(x) -> y:T | T factor=1.5")
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = graph.node.add(name="y", op="UnreadScale", input=["x"])
    node.attr["T"].type = 1
    for name, value in given.items():
        setattr(node.attr[name], "s" if isinstance(value, bytes) else "f", value)
    convert_tensorflow(from_graph(graph, name="graph", inputs=["x[2,3]"]))


def openvino(folder: Path, given: dict[str, Any]) -> None:
    ir = IrBuilder()
    x = ir.parameter("x", "f32", [2, 3])
    others = [ir.constant(X) for _ in range(given.pop("inputs", 0))]
    ir.result(ir.layer("Relu", "opset1", [x, *others], [("f32", [2, 3])], given))
    convert_openvino(ir.save(folder))


def of_ge(folder: Path, given: dict[str, Any]) -> None:
    graph = Graph()
    x = graph.data("x", np.float32, X.shape)
    convert_ascend(graph.output(graph.op("Relu", x, **given)).write(folder))


def of_atb(folder: Path, given: dict[str, Any]) -> None:
    one_operation(folder, "WhereOperation", given, [X.astype(np.int8), X.astype(np.float16), X.astype(np.float16)])


def of_npu(folder: Path, given: dict[str, Any]) -> None:
    node = helper.make_node("NPUFastGelu", ["x"], ["y"], name="y", domain="npu", **given)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("npu", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "npu.onnx")
    convert_ascend(folder / "npu.onnx")


def of_torch(folder: Path, given: dict[str, Any]) -> None:
    handler = torch_handlers.TorchHandler("aten.relu.default", lambda node, emit: node.tensor("self"), "Relu")
    arguments = Arguments({"self": Tensor("x", TensorProto.FLOAT, (2, 3)), **given}, {"dim": 0, "dtype": None})
    try:
        handler.convert(TorchNode(arguments), None)
    except Unsupported as error:
        raise ConversionError(str(error)) from error


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of TensorFlow that reads its input only: those of the package read all attributes."""
    handler = tensorflow_registry.Handler("UnreadScale", lambda node, emit: emit.op("Relu", node["x"]), "Relu",
                                          inputs=("x",), dtypes=("float",))  # fmt: skip
    monkeypatch.setitem(tensorflow_registry.HANDLERS, "UnreadScale", handler)


@pytest.fixture
def alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute of OpenVINO's ReLU, all of whose own attributes are read."""
    known = {**openvino_attributes._attributes(), "ReLU-1": frozenset({"alpha"})}
    monkeypatch.setattr(openvino_attributes, "_attributes", lambda: known)


@pytest.mark.usefixtures("scale", "alpha")
@pytest.mark.parametrize(
    ("road", "silent", "given", "message"),
    [
        (tensorflow, {"factor": 1.5, "_class": b"loc:@x"}, {"factor": 2.0},
         r"y \(UnreadScale\): its attribute factor = 2.0"),
        (tensorflow, {}, {"mode": b"up"}, r"y \(UnreadScale\): its attribute mode = 'up'"),
        (openvino, {"output_padding": "0,0"}, {"alpha": "0.5"},
         r"Relu_\d \(ReLU, opset1\): its attribute alpha = '0.5'"),
        (openvino, {}, {"inputs": 1}, r"Relu_\d \(ReLU, opset1\): its input 1 = "),
        (of_ge, {"_op_name": "relu", "T": 0}, {"alpha": 0.5}, r"\(Relu\): its attribute alpha = 0.5"),
        (of_atb, {"axis": 0, "group": {"flag": False}, "rsv": [0, 0]}, {"axis": 2}, "its parameter axis = 2"),
        (of_atb, {}, {"some_group": {"scale_value": 2.5}}, "its parameter someGroup.scaleValue = 2.5"),
        (of_npu, {}, {"approximate": 1}, r"y \(npu::NPUFastGelu\): its attribute approximate = 1"),
        (of_torch, {"dim": 0, "dtype": None}, {"dim": 1}, "its argument dim = 1"),
    ],
)  # fmt: skip
def test_every_road_refuses_what_nobody_reads(
    tmp_path: Path, road: Callable[..., None], silent: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    """By name and value; what is silent says nothing that could change a result."""
    road(tmp_path, dict(silent))
    with pytest.raises(ConversionError, match=f"{message}.* not supported"):
        road(tmp_path, {**silent, **given})


REGISTRIES = {
    "tensorflow": tensorflow_registry.HANDLERS,
    "openvino": openvino_handlers.HANDLERS,
    "ge": ge_handlers.HANDLERS,
    "atb": atb_handlers.HANDLERS,
    "npu": npu_handlers.HANDLERS,
    "torch": torch_handlers.HANDLERS,
}


@pytest.mark.parametrize("road", REGISTRIES)
def test_no_handler_goes_its_own_way(road: str) -> None:
    assert {type(handler).convert for handler in REGISTRIES[road].values()} == {Handler.convert}
    assert {"ignored", "defaults"} <= {field.name for handler in REGISTRIES[road].values() for field in fields(handler)}


# --- what the sources' own specifications list -----------------------------------------------------------------------


def unread(handler: Any, names: Any, *silent: Any) -> list[str]:
    """The names that a handler neither reads nor declares."""
    function = getattr(handler, "function", None) or handler.convert
    strings = names_in(function, openvino_registry.Node)
    declared = {*handler.ignored, *getattr(handler, "defaults", ())}.union(*silent)
    return [name for name in names if name not in declared and not may_read(name.rpartition(".")[2], strings)]


def listed(file: str) -> dict[str, dict[str, Any]]:
    """The attributes of operators with their defaults; None for one that has none."""
    found = {}
    for line in (DATA / file).read_text("utf-8").splitlines():
        op_type, *rest = line.split()
        pairs = (text.partition("=") for text in rest)
        found[op_type] = {name: json.loads(value) if value else None for name, _, value in pairs}
    return found


def test_attributes_of_tensorflow() -> None:
    handlers = {**tensorflow_registry.HANDLERS, **STRUCTURE}
    types = {"Tcontext_dense"}  # types are those of the tensors
    silent = tensorflow_attributes._NAMES, tensorflow_attributes._COUNTS, types
    declared = {op_type: operators()[op_type].defaults for op_type in handlers}
    left = {op_type: unread(handlers[op_type], declared[op_type], *silent) for op_type in handlers}
    assert {op_type: names for op_type, names in left.items() if names} == {}


def test_attributes_of_openvino() -> None:
    types = openvino_registry._Data._TYPES
    left = {
        op_type: unread(openvino_handlers.HANDLERS[op_type], names, types)
        for op_type, names in openvino_attributes._attributes().items()
    }
    assert {op_type: names for op_type, names in left.items() if names} == {}


@pytest.mark.parametrize(("road", "file"), [("ge", "ge_attributes.txt"), ("atb", "atb_parameters.txt")])
def test_attributes_of_ascend(road: str, file: str) -> None:
    silent = ge_handlers.NodeAttributes._SAID_ELSEWHERE if road == "ge" else ()
    handlers, declared = REGISTRIES[road], listed(file)
    left = {op_type: unread(handlers[op_type], names, silent) for op_type, names in declared.items()}
    assert {op_type: names for op_type, names in left.items() if names} == ASCEND_REFUSED[road]


#: Parameters of ATB of which only 0 is converted.
ASCEND_REFUSED: dict[str, dict[str, list[str]]] = {
    "ge": {},
    "atb": {
        "LayerNorm": ["preNormParam.opMode", "postNormParam.opMode"],
        "Rope": ["cosFormat"],
        "SwigluQuant": ["quantType"],
        "LinearParallel": ["type"],
    },
}


def test_arguments_of_torch() -> None:
    pytest.importorskip("torch")
    from onnx_sparse.converters.torch.translation import overload_of

    left = {}
    for name, handler in torch_handlers.HANDLERS.items():
        overload = overload_of(name)
        if overload is not None and (names := unread(handler, [a.name for a in overload._schema.arguments])):
            left[name] = names
    assert left == {}


@pytest.mark.parametrize("kind", ["i", "f", "b", "s", "list", "shape", "tensor"])
def test_an_attribute_of_another_kind_is_refused(kind: str) -> None:
    """Of every operator: the attributes with a default have a kind, and a damaged graph may give them another one."""
    fields = {bool: "b", int: "if", float: "fi", str: "s", list: ["list"]}
    refused = 0
    for operator in operators().values():
        for name, default in operator.defaults.items():
            if default is None:
                continue
            value = GraphDef().node.add().attr[name]
            if kind in ("list", "shape", "tensor"):
                getattr(value, kind).SetInParent()
            else:
                setattr(value, kind, {"i": 1, "f": 0.5, "b": True, "s": b"a"}[kind])
            attributes = tensorflow_attributes.Attributes(operator, {name: value})
            if kind in fields[type(default)]:
                attributes[name]
                continue
            with pytest.raises(Unsupported, match=f"its attribute {name} is a field {kind}; "):
                attributes[name]
            refused += 1
    assert refused > 100
