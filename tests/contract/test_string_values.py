"""Strings of any bytes go through sessions as they are, or are refused: on native and on Python kernels."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_sparse
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.sessions.runtime import available_backends

NATIVE = pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")
PASSED_ON = "onnxruntime-extensions cannot pass it on, but the native kernels can"


def model(op_type: str = "StringStrip", constant: bytes | None = None) -> ModelProto:
    """A model of one operator that keeps the bytes of strings, fed or constant."""
    node = helper.make_node(op_type, ["x"], ["y"], domain=DOMAIN if op_type == "StringStrip" else "")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [], [value("y", TensorProto.STRING, None)])
    if constant is None:
        graph.input.append(value("x", TensorProto.STRING, ["n"]))
    else:
        graph.initializer.append(helper.make_tensor("x", TensorProto.STRING, [1], [constant]))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def objects(*items: Any) -> np.ndarray[Any, Any]:
    return np.array([*items, None], object)[:-1]


FEEDS = {
    "text": (objects("ab", "日本"), ["ab", "日本"]),
    "text of a fixed width": (np.array(["ab", "é"]), ["ab", "é"]),
    "bytes": (objects(b"ab", "日本".encode()), ["ab", "日本"]),
    "text and bytes": (objects("a", b"b"), ["a", "b"]),
    "bytes of a fixed width": (np.array([b"abc", b"d", b""]), ["abc", "d", ""]),
    "void": (np.frombuffer(b"abcd", "V2"), ["ab", "cd"]),
    "a list": (["a", "b"], ["a", "b"]),
    "nothing": (objects(), []),
}
NOT_TEXT = {
    "bytes that are not UTF-8": (objects(b"a\xff\0b", b"longer \x80"), [b"a\xff\0b", b"longer \x80"]),
    "bytes and text": (objects("é", b"\xff"), ["é".encode(), b"\xff"]),
    "text with a surrogate": (objects("a\udcff"), [b"a\xff"]),
    "bytes of a fixed width with others": (np.array([b"\xfe\xff", b"\xc3"]), [b"\xfe\xff", b"\xc3"]),
    "void with others": (np.frombuffer(b"a\xff\0b", "V2"), [b"a\xff", b"\0b"]),
}
ZERO = {"text with a zero byte": (objects("a\0b"), ["a\0b"]), "bytes with one": (objects(b"a\0b"), ["a\0b"])}


@pytest.mark.parametrize("name", FEEDS)
@pytest.mark.parametrize("backend", available_backends())
def test_text(name: str, backend: str) -> None:
    fed, wanted = FEEDS[name]
    assert onnx_sparse.InferenceSession(model(), backend=backend).run(None, {"x": fed})[0].tolist() == wanted


@NATIVE
@pytest.mark.parametrize("name", [*NOT_TEXT, *ZERO])
def test_native_kernels_get_and_return_any_bytes(name: str) -> None:
    """An output with a string that is not UTF-8 is an array of bytes."""
    fed, wanted = {**NOT_TEXT, **ZERO}[name]
    assert onnx_sparse.InferenceSession(model(), backend="native").run(["y"], {"x": fed})[0].tolist() == wanted


@pytest.mark.parametrize("name", [*NOT_TEXT, *ZERO])
def test_python_kernels_refuse_what_would_be_cut_or_end_the_process(name: str) -> None:
    fed, _ = {**NOT_TEXT, **ZERO}[name]
    session = onnx_sparse.InferenceSession(model(), backend="python")
    with pytest.raises(onnx_sparse.KernelError, match=f"^x: string . has .*; {PASSED_ON}"):
        session.run(None, {"x": fed})


@pytest.mark.parametrize("constant", [b"a\xff", b"a\0b"])
def test_constants(constant: bytes) -> None:
    with pytest.raises(onnx_sparse.KernelError, match=f"string 0 has .*; {PASSED_ON}"):
        onnx_sparse.InferenceSession(model(constant=constant), backend="python")
    if "native" in available_backends():
        (got,) = onnx_sparse.InferenceSession(model(constant=constant), backend="native").run(None, {})
        assert [item if isinstance(item, bytes) else item.encode() for item in got] == [constant]


@NATIVE
def test_standard_operators_alone() -> None:
    fed = objects(b"\xff", b"a")
    assert onnx_sparse.InferenceSession(model("Identity"), backend="native").run(None, {"x": fed})[0].tolist() == [*fed]


def test_asynchronous_runs_take_text_and_its_bytes() -> None:
    session = onnx_sparse.InferenceSession(model())
    done, results = threading.Event(), []

    def finish(outputs: Any, data: Any, error: str) -> None:
        results.append((outputs, error))
        done.set()

    session.run_async(None, {"x": objects(b"ab", "c")}, finish, None)
    assert done.wait(60)
    ((outputs, error),) = results
    assert not error
    assert outputs[0].tolist() == ["ab", "c"]
    if "native" in available_backends():
        session = onnx_sparse.InferenceSession(model(), backend="native")
        with pytest.raises(ValueError, match=r"input x has strings that are not UTF-8: run\(\) takes them, run_async"):
            session.run_async(None, {"x": objects(b"\xff")}, finish, None)


def test_onnxruntime_alone_takes_bytes_for_their_text() -> None:
    """Why all this is needed; when it fails, some of it is not any more."""
    session = ort.InferenceSession(model("Identity").SerializeToString())
    assert session.run(None, {"x": objects(b"ab")})[0].tolist() == ["b'ab'"]
