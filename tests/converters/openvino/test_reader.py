"""The files of an IR: constants of every element type, and errors of malformed files."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper
from support.openvino_irs import IrBuilder

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert
from onnx_sparse.converters.openvino.ir import reader, safe_xml
from onnx_sparse.converters.openvino.ir.weights import Weights


def add_net() -> IrBuilder:
    """The smallest net with a constant: x + 1."""
    net = IrBuilder()
    x = net.parameter("x", "f32", [-1])
    net.result(net.layer("Add", "opset1", [x, net.constant(np.float32([1]))], [("f32", [-1])]))
    return net


def constant_net(element_type: str, shape: list[int], data: bytes) -> IrBuilder:
    net = IrBuilder()
    net.result(net.raw_constant(element_type, shape, data))
    return net


def test_a_port_of_another_shape_than_its_layer_gives(tmp_path: Path) -> None:
    net = IrBuilder()
    net.result(net.layer("ReLU", "opset1", [net.parameter("x", "f32", [2, 4])], [("f32", [2, 3])]))
    with pytest.raises(ConversionError, match=r"the converted model is not valid: .*\(4\) vs \(3\)"):
        convert(net.save(tmp_path))


@pytest.mark.parametrize("version", ["10", "11"])
def test_both_versions_are_read(tmp_path: Path, version: str) -> None:
    model = convert(add_net().save(tmp_path, version))
    (y,) = InferenceSession(model).run(None, {"x": np.float32([1, 2])})
    assert y.tolist() == [2, 3]
    assert model.ir_version == 10


@pytest.mark.parametrize(
    ("element_type", "data", "expected"),
    [
        ("f32", np.float32([1, -2, 3]).tobytes(), np.float32([1, -2, 3])),
        ("f16", np.float16([1, -2, 3]).tobytes(), np.float16([1, -2, 3])),
        ("f64", np.float64([1, -2, 3]).tobytes(), np.float64([1, -2, 3])),
        ("bf16", np.array([1, -2, 3], ml_dtypes.bfloat16).tobytes(), np.array([1, -2, 3], ml_dtypes.bfloat16)),
        ("i64", np.int64([1, -2, 2**40]).tobytes(), np.int64([1, -2, 2**40])),
        ("u16", np.uint16([1, 2, 65535]).tobytes(), np.uint16([1, 2, 65535])),
        ("boolean", b"\1\0\7", np.array([True, False, True])),
        ("u4", b"\x21\x03", np.uint8([1, 2, 3])),
        ("i4", b"\xf8\x07", np.int8([-8, -1, 7])),
        ("u1", b"\xa0", np.uint8([1, 0, 1])),
        ("nf4", b"\xf0\x07", np.float32([-1, 1, 0])),
        ("f8e4m3", b"\x38\xb8\x7e", np.float16([1, -1, 448])),
        ("f8e5m2", b"\x3c\xbc\x7b", np.float16([1, -1, 57344])),
        ("f8e8m0", b"\x7f\x80\x00", np.float32([1, 2, 2.0**-127])),
        ("f4e2m1", b"\x72\x0b", np.float16([1, 6, -1.5])),
        ("string", bytes.fromhex("03000000 00000000 02000000 02000000 05000000") + b"abxyz", ["ab", "", "xyz"]),
    ],
)
def test_constants(tmp_path: Path, element_type: str, data: bytes, expected: np.ndarray) -> None:
    # An odd offset, as constants are not aligned.
    path = tmp_path / "w.bin"
    path.write_bytes(b"\xff" + data)
    got = Weights(path).constant(element_type, [3], 1, len(data))
    if element_type == "string":
        assert [s.decode() for s in got] == expected
    else:
        assert got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()


def test_empty_and_scalar_constants(tmp_path: Path) -> None:
    model = convert(constant_net("f32", [0, 4], b"").save(tmp_path))
    assert numpy_helper.to_array(model.graph.initializer[0]).shape == (0, 4)
    model = convert(constant_net("i64", [], np.int64(5).tobytes()).save(tmp_path))
    assert numpy_helper.to_array(model.graph.initializer[0]) == 5


def test_layers_may_be_in_any_order(tmp_path: Path) -> None:
    net = add_net()
    net.layers.reverse()
    model = convert(net.save(tmp_path))
    assert [value.name for value in model.graph.input] == ["x"]


def message(path: Path) -> str:
    with pytest.raises(ConversionError) as caught:
        convert(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 + len(caught.value.unsupported)
    return text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('version="11"', 'version="9"', "versions 10 and 11"),
        ('version="11"', "", "versions 10 and 11"),
        ("<net ", "<not ", "not well-formed"),
        ("</layers>", "", "not well-formed"),
        ("<net ", "<!-- ", "not well-formed"),
        ('from-layer="0"', 'from-layer="77"', "layer 77, which is not there"),
        ('from-layer="0" from-port="0"', 'from-layer="0" from-port="9"', "output 9 of layer 0 'x'"),
        ('to-port="1"', 'to-port="0"', "two edges lead to input 0"),
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="6"', "input 6"),
        ('<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>', "", "no edge leads to input 0"),
        ('<layer id="1"', '<layer id="0"', "two layers have the id 0"),
        ('<layer id="1"', '<layer id="one"', "not an integer"),
        ("<dim>-1</dim>", "<dim>1e3</dim>", "'1e3', not an integer"),
        ('type="Add" version="opset1"', 'type="Add" version="opset99"', "'opset99' is not known"),
        ('type="Add" version="opset1"', 'type="Add" version="extension"', "'extension' is not one of OpenVINO's"),
        ('type="Add"', 'type="Frobnicate"', "Frobnicate, opset1.: no converter"),
        ('offset="0"', 'offset="3"', "bytes 3 to 7 of model.bin, which has only 4"),
        ('offset="0"', 'offset="-1"', "bytes -1 to 3"),
        ('size="4"', 'size="8"', "it has 8 bytes"),
        ('element_type="f32" shape="1"', 'element_type="f33" shape="1"', "'f33' is not known"),
        ('shape="1"', 'shape="99999999999999999"', "shape"),
        ('shape="1"', 'shape="-1"', "not a valid shape of a constant"),
    ],
)
def test_defects(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = add_net().save(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConversionError, match=words):
        convert(path)
    message(path)


def test_a_missing_or_truncated_bin(tmp_path: Path) -> None:
    path = add_net().save(tmp_path)
    binary = path.with_suffix(".bin")
    binary.write_bytes(b"\0\0")
    assert "which has only 2" in message(path)
    binary.write_bytes(b"")
    assert "which has only 0" in message(path)
    binary.unlink()
    assert "model.bin, the constants of the IR, cannot be read: No such file" in message(path)


def test_a_bin_of_another_ir(tmp_path: Path) -> None:
    """OpenVINO writes no more bytes than the constants have, so that a longer file is another IR's."""
    path, other = add_net().save(tmp_path), tmp_path / "other.bin"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(path)
    other.write_bytes(path.with_suffix(".bin").read_bytes() + b"\0\0")
    said = f"{other} has 6 bytes, and the constants of {path} end at byte 4: it may belong to another IR"
    with pytest.warns(UserWarning, match=re.escape(said)):
        convert(path, weights=other)


def test_a_bin_with_constants_of_bodies(tmp_path: Path) -> None:
    """Those in a body may be the last ones of the file."""
    ov = pytest.importorskip("openvino", exc_type=ImportError)
    ops = ov.opset13
    x, condition = ops.parameter([2], np.float32), ops.parameter([], bool)
    bodies = []
    for number in (3.0, 5.0):
        inner = ops.parameter([2], np.float32)
        bodies.append((ov.Model([ops.multiply(inner, ops.constant(np.float32([number, 1])))], [inner]), inner))
    chosen = ops.if_op(condition)
    for (body, _), give in zip(bodies, (chosen.set_then_body, chosen.set_else_body), strict=True):
        give(body)
    chosen.set_input(x.output(0), bodies[0][1], bodies[1][1])
    result = chosen.set_output(bodies[0][0].results[0], bodies[1][0].results[0])
    ov.serialize(ov.Model([result], [x, condition]), tmp_path / "if.xml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(tmp_path / "if.xml")
    with (tmp_path / "if.bin").open("ab") as file:
        file.write(b"\0")
    ov.Core().read_model(tmp_path / "if.xml")  # which OpenVINO takes without a word
    with pytest.warns(UserWarning, match="has 17 bytes, and the constants of .* end at byte 16"):
        convert(tmp_path / "if.xml")


def test_a_missing_xml(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in message(tmp_path / "none.xml")
    assert "cannot be read" in message(tmp_path)


def test_a_cycle(tmp_path: Path) -> None:
    net = IrBuilder()
    first = net.layer("ReLU", "opset1", [(1, 1)], [("f32", [2])])
    net.layer("ReLU", "opset1", [first], [("f32", [2])])
    assert "form a cycle" in message(net.save(tmp_path))


BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><net version="11">&b;</net>'
OUTSIDE = '<!DOCTYPE x SYSTEM "file:///etc/passwd"><net version="11"/>'
ENTITY = '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><net name="&f;" version="11"/>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, ENTITY])
def test_document_types_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bomb.xml"
    path.write_text(text)
    assert "document type" in message(path)


def test_a_huge_xml_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.xml"
    with path.open("wb") as file:
        file.truncate(500 * 10**6)  # a sparse file, which takes no space on disk
    assert "500,000,000 bytes" in message(path)


def test_too_many_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_xml, "_MOST_ELEMENTS", 10)
    path = tmp_path / "many.xml"
    path.write_text("<net>" + "<a/>" * 10 + "</net>")
    assert "too many elements" in message(path)
    path.write_text("<a>" * 300 + "</a>" * 300)
    assert "too many elements" in message(path)


def test_names_with_commas() -> None:
    assert reader.split_names(r"a\,b,c") == ("a,b", "c")


def test_a_rank_that_is_not_known(tmp_path: Path) -> None:
    """ONNX requires known ranks of inputs and outputs; OpenVINO itself does not run such a model on a CPU."""
    attributes = {"mode": "blocks_first", "block_size": "2"}
    for read_by in ("ReLU", "DepthToSpace"):  # the second cannot be converted without a rank
        net = IrBuilder()
        x = net.layer("Parameter", "opset1", [], [("f32", None)], {"shape": "...", "element_type": "f32"}, "x", "x")
        net.result(net.layer(read_by, "opset1", [x], [("f32", None)], attributes if read_by != "ReLU" else {}))
        with pytest.raises(ConversionError) as refused:
            convert(net.save(tmp_path))
        assert "1 node cannot be converted" in str(refused.value)
        assert "its rank is not known, which ONNX demands" in str(refused.value)
        assert "model.reshape({'x': [-1, -1]})" in str(refused.value)


def test_an_input_without_a_type_names_the_call_that_gives_it_one(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "dynamic", [2])
    net.result(net.layer("ReLU", "opset1", [x], [("dynamic", [2])]))
    with pytest.raises(ConversionError, match=r"model\.input\('x'\)\.get_node\(\)\.set_element_type\(ov\.Type\.f32\)"):
        convert(net.save(tmp_path))


def test_a_result_whose_rank_an_input_decides_names_that_input(tmp_path: Path) -> None:
    net = IrBuilder()
    x, shape = net.parameter("x", "f32", [6]), net.parameter("shape", "i64", [-1])
    net.result(net.layer("Reshape", "opset1", [x, shape], [("f32", None)], {"special_zero": "false"}))
    with pytest.raises(ConversionError, match=r"model\.reshape\({'shape': \[2\]}\)"):
        convert(net.save(tmp_path))


def test_random_numbers_say_why_they_stay(tmp_path: Path) -> None:
    net = IrBuilder()
    shape, low, high = net.constant(np.int64([1])), net.constant(np.float32(0)), net.constant(np.float32(1))
    net.result(net.layer("RandomUniform", "opset8", [shape, low, high], [("f32", [1])]))
    with pytest.raises(ConversionError, match="other random numbers"):
        convert(net.save(tmp_path))


def test_a_state_in_the_body_of_a_loop_says_how_to_unroll_it(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [3, 2])
    body = IrBuilder()
    row = body.parameter("row", "f32", [1, 2])
    state = body.layer("ReadValue", "opset6", [row], [("f32", [1, 2])], {"variable_id": "v"})
    body.layer("Assign", "opset6", [state], [("f32", [1, 2])], {"variable_id": "v"})
    body.result(state)
    loop = net.layer("TensorIterator", "opset1", [x], [("f32", [3, 2])])
    net.result(loop)
    maps = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        '<output axis="0" external_port_id="1" internal_layer_id="3"/></port_map>'
    )
    inner = f"<body><layers>{''.join(body.layers)}</layers><edges>{''.join(body.edges)}</edges></body>"
    net.layers[loop[0]] = net.layers[loop[0]].replace("</layer>", f"{maps}{inner}</layer>")
    with pytest.raises(ConversionError, match=r"a state in the body of a loop; .*LowLatency2"):
        convert(net.save(tmp_path))


@pytest.mark.parametrize(
    ("op", "data"),
    [
        ("MaxPool", {"kernel": "2,2", "strides": "1", "rounding_type": "ceil"}),
        ("MaxPool", {"kernel": "2,2", "strides": "1,0", "rounding_type": "ceil"}),
        ("MaxPool", {"kernel": "2,2", "strides": "1,1", "pads_begin": "1"}),
        ("Convolution", {"strides": "1,1", "dilations": "2,2,2", "auto_pad": "same_upper"}),
        ("ConvolutionBackpropData", {"strides": "1,1", "output_padding": "1,1,1"}),
        ("GroupConvolution", {"strides": "1,1"}),
    ],
)
def test_windows_that_contradict_themselves(tmp_path: Path, op: str, data: dict[str, str]) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [1, 1, 4, 4])
    inputs = [x] if op == "MaxPool" else [x, net.constant(np.ones((1, 1) if op[:5] == "Group" else (1, 1, 2, 2), "f4"))]
    net.result(net.layer(op, "opset1", inputs, [("f32", [1, 1, 3, 3])], data))
    with pytest.raises(ConversionError, match=r"does not fit windows over 2 axes|has no axis of groups"):
        convert(net.save(tmp_path))


def _ends(result_inputs: int) -> IrBuilder:
    """A graph whose Result has so many inputs."""
    net = IrBuilder()
    x = net.parameter("x", "f32", [2])
    net.layer("Result", "opset1", [x] * result_inputs, [])
    return net


def _constant_of_another_shape(shape: list[int]) -> IrBuilder:
    net = IrBuilder()
    constant = net.raw_constant("f32", shape, bytes(4 * math.prod(shape)))
    net.layers[-1] = net.layers[-1].replace("<dim>", "<dim>1</dim><dim>", 1)
    net.result(net.layer("Relu", "opset1", [constant], [("f32", shape)]))
    return net


def _pooling(shape: list[int], kernel: int) -> IrBuilder:
    net = IrBuilder()
    zeros = ",".join("0" * kernel)
    data = {"kernel": ",".join("2" * kernel), "strides": ",".join("1" * kernel), "rounding_type": "ceil"}
    data |= {"pads_begin": zeros, "pads_end": zeros}
    net.result(net.layer("MaxPool", "opset1", [net.parameter("x", "f32", shape)], [("f32", None)], data))
    return net


def _gather(layer: str, version: str, batch_dims: int) -> IrBuilder:
    net = IrBuilder()
    inputs = [net.parameter("x", "f32", [2, 3, 4]), net.constant(np.array([[1], [0]]))]
    if layer == "Gather":
        inputs.append(net.constant(np.array(1)))
    net.result(net.layer(layer, version, inputs, [("f32", None)], {"batch_dims": batch_dims}))
    return net


def _select(chosen: str, other: str) -> IrBuilder:
    net = IrBuilder()
    inputs = [net.parameter(f"p{k}", kind, [2]) for k, kind in enumerate(("boolean", chosen, other))]
    net.result(net.layer("Select", "opset1", inputs, [(chosen, [2])]))
    return net


_EXTREMES = (-(2**63), -(2**31), -9, 9, 2**31, 2**63 - 1)


@pytest.mark.parametrize(
    ("net", "words"),
    [
        *((_ends(count), f"it has {count} inputs; a Result has one") for count in (0, 2)),
        *((_constant_of_another_shape(shape), "its value has the shape") for shape in ([2], [2, 3], [3, 1, 2])),
        *((_pooling([2] * rank, 2), "windows over 2 axes, on data of rank") for rank in (1, 2, 3, 5)),
        *((_gather("Gather", "opset8", batch), "batch_dims = ") for batch in _EXTREMES),
        *((_gather("GatherND", "opset8", batch), "batch_dims = ") for batch in _EXTREMES),
        *((_select(*pair), "is not valid") for pair in (("f32", "i32"), ("boolean", "f32"), ("u8", "i8"))),
    ],
)
def test_layers_that_do_not_fit_together(tmp_path: Path, net: IrBuilder, words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        convert(net.save(tmp_path))
