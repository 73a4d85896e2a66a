"""Strings and their bytes: against OpenVINO, which packs and unpacks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, compiling_core, ops

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert, verify

pytest.importorskip("openvino")


def packed(begins: Any, ends: Any, symbols: Any, folder: Path, *, dynamic: bool) -> tuple[Any, Any]:
    """What OpenVINO makes of bytes, and the converted model."""
    tested = Case("", lambda *given: ops(15).string_tensor_pack(*given), begins, ends, symbols, dynamic=dynamic)
    path, core = tested.save(folder), compiling_core()
    (want,) = core.compile_model(core.read_model(path), "CPU")(tested.inputs).values()
    (have,) = InferenceSession(convert(path)).run(None, {f"p{k}": x for k, x in enumerate(tested.inputs)})
    return want, have


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 1, 2)], ids=str)
def test_pack(shape: tuple[int, ...], dtype: Any, dynamic: bool, tmp_path: Path) -> None:
    """Of characters of one to four bytes."""
    texts = np.array(["ab", "", "\u65e5\u672c", "caf\u00e9", "x\U0001f600y", "a longer one, with blanks"], object)
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(text) for text in encoded])
    ends = lengths.cumsum()
    symbols = np.frombuffer(b"".join(encoded), np.uint8)
    given = [(t).astype(dtype).reshape(shape) for t in (ends - lengths, ends)]
    want, have = packed(*given, symbols, tmp_path, dynamic=dynamic)
    assert have.dtype == object
    assert have.tolist() == want.tolist() == texts.reshape(shape).tolist()


@pytest.mark.parametrize(("begins", "ends", "wanted"), [
    ([3, 0, 1], [5, 5, 1], ["lo", "hello", ""]),
    ([0, 5], [0, 5], ["", ""]),
    ([], [], []),
    (2, 4, "ll"),
], ids=str)  # fmt: skip
def test_parts_that_are_not_in_order(begins: Any, ends: Any, wanted: Any, tmp_path: Path) -> None:
    symbols = np.frombuffer(b"hello", np.uint8)
    given = [np.array(t, np.int32) for t in (begins, ends)]
    want, have = packed(*given, symbols, tmp_path, dynamic=False)
    assert have.tolist() == want.tolist() == wanted


def test_no_bytes(tmp_path: Path) -> None:
    zeros = np.zeros(2, np.int64)
    want, have = packed(zeros, zeros, np.zeros(0, np.uint8), tmp_path, dynamic=True)
    assert have.tolist() == want.tolist() == ["", ""]


def unpacking(shape: list[int], folder: Path) -> Path:
    import openvino as ov

    source = ops(16).parameter(shape, ov.Type.string, name="p0")
    ov.save_model(ov.Model(ops(15).string_tensor_unpack(source).outputs(), [source], "model"), folder / "model.xml")
    return folder / "model.xml"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("texts", [
    ["ab", "", "\u65e5\u672c caf\u00e9"], [["x\U0001f600y"], ["\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"]], "one",
    [""],
], ids=str)  # fmt: skip
def test_unpack(texts: Any, dynamic: bool, tmp_path: Path) -> None:
    """Characters of every length, and the first and last of each."""
    given, core = np.array(texts), compiling_core()
    path = unpacking([-1 if dynamic else size for size in given.shape], tmp_path)
    wanted = core.compile_model(core.read_model(path), "CPU")([given]).values()
    made = InferenceSession(convert(path)).run(None, {"p0": given.astype(object)})
    for want, have in zip(wanted, made, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


def test_unpack_of_no_strings(tmp_path: Path) -> None:
    made = InferenceSession(convert(unpacking([-1, 2], tmp_path))).run(None, {"p0": np.zeros((0, 2), object)})
    assert [(value.shape, str(value.dtype)) for value in made] == [
        ((0, 2), "int32"),
        ((0, 2), "int32"),
        ((0,), "uint8"),
    ]


@pytest.mark.parametrize("broken", [b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80"], ids=bytes.hex)
def test_unpack_of_bytes_that_are_not_utf_8_is_an_error(broken: bytes, tmp_path: Path) -> None:
    """Also where a replacement character would have as many bytes."""
    import openvino as ov

    places = [ops(16).parameter([-1], ov.Type.i32, name=name) for name in ("begins", "ends")]
    symbols = ops(16).parameter([-1], ov.Type.u8, name="symbols")
    packed = ops(15).string_tensor_pack(*places, symbols)
    unpacked = ops(15).string_tensor_unpack(packed).outputs()
    ov.save_model(ov.Model(unpacked, [*places, symbols], "model"), tmp_path / "model.xml")
    session = InferenceSession(convert(tmp_path / "model.xml"))
    names = [value.name for value in session.get_inputs()]
    for text, is_legal in ((b"ab", True), (b"a" + broken + b"b", False)):
        given = [np.int32([0]), np.int32([len(text)]), np.frombuffer(text, np.uint8)]
        feeds = dict(zip(names, given, strict=True))
        if is_legal:
            assert session.run(None, feeds)[2].tobytes() == text
        else:
            with pytest.raises(Exception, match=r"cannot be reshaped|Reshape"):
                session.run(None, feeds)


@pytest.mark.parametrize("texts", [["a", "bcd"], []])
def test_verify_of_strings(texts: list[str], tmp_path: Path) -> None:
    """As inputs and outputs, also when there are none."""
    import openvino as ov

    source = ops(16).parameter([-1], ov.Type.string, name="p0")
    model = ov.Model(ops(16).reshape(source, np.array([-1, 1]), special_zero=False).outputs(), [source], "model")
    path = tmp_path / "model.xml"
    ov.save_model(model, path)
    (record,) = verify(path, convert(path), feeds={"p0": np.array(texts, object)})
    assert record.note == ("" if texts else "the output is empty in every batch")
    (record,) = verify(path, convert(path))
    assert record.ok
