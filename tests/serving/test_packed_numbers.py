"""Repeated numbers read from the bytes of a message are those that protobuf reads."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("grpc")

from onnx_sparse.models.data.message_classes import declare_messages
from onnx_sparse.rows.model_features import InputType
from onnx_sparse.schemas.declaration import element_type
from onnx_sparse.serving import grpc_service, packed_numbers
from onnx_sparse.serving.tensors import Tensors

CONTENTS = """
Numbers bool_contents=1:bool* int_contents=2:int32* int64_contents=3:int64* uint_contents=4:uint32*
  uint64_contents=5:uint64* fp32_contents=6:float* fp64_contents=7:double*
"""
BYTES = CONTENTS.replace("Numbers", "Bytes")
for kind in ("bool", "int32", "int64", "uint32", "uint64", "float", "double"):
    BYTES = BYTES.replace(f":{kind}*", ":bytes*")
message = declare_messages("packed_numbers_of_tests", CONTENTS.rstrip("\n") + BYTES)

#: Numbers of each field: the ends of their types, and where another byte begins.
VALUES = {
    "bool_contents": [True, False],
    "int_contents": [0, 1, -1, 127, 128, 2**31 - 1, -(2**31)],
    "int64_contents": [0, 1, -1, 127, 128, 2**40, 2**63 - 1, -(2**63)],
    "uint_contents": [0, 127, 128, 16383, 16384, 2**32 - 1],
    "uint64_contents": [0, 127, 128, 2**53 + 1, 2**64 - 1],
    "fp32_contents": [0.0, -0.0, 1.5, float("inf"), float("nan"), 1e-40],
    "fp64_contents": [0.0, -0.0, 0.1, float("-inf"), float("nan"), 5e-324],
}


@pytest.mark.parametrize("field", packed_numbers.FIELDS)
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_numbers_are_written_as_by_protobuf(field: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_numbers, "_PIECE", 64)
    values = random.Random(count).choices(VALUES[field], k=count)
    dtype = packed_numbers._FIXED.get(field) or packed_numbers._VARIABLE[field]
    packed = packed_numbers.packed(field, np.array(values, dtype))
    sent = message("Numbers")(**{field: values}).SerializeToString()
    assert message("Bytes")(**{field: [packed]}).SerializeToString() == sent


@pytest.mark.parametrize("field", packed_numbers.FIELDS)
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_numbers_are_those_of_protobuf(field: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_numbers, "_PIECE", 64)
    values = random.Random(count).choices(VALUES[field], k=count)
    sent = message("Numbers")(**{field: values}).SerializeToString()
    twice = message("Bytes").FromString(sent + sent)  # a message may come in parts, which are joined
    found = packed_numbers.numbers(field, list(getattr(twice, field)))
    assert found is not None
    want = np.array(getattr(message("Numbers").FromString(sent + sent), field), found.dtype)
    np.testing.assert_array_equal(found, want)
    assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("field", packed_numbers.FIELDS)
def test_bytes_that_are_no_numbers(field: str) -> None:
    """Whatever they are: what protobuf refuses is None, and else they are its numbers."""
    draw = random.Random(field)
    for _ in range(300):
        content = bytes(draw.choice((0, 1, 127, 128, 255)) for _ in range(draw.randrange(25)))
        found = packed_numbers.numbers(field, [content])
        number = list(packed_numbers._VARIABLE).index(field) + 1 if field in packed_numbers._VARIABLE else 0
        number = number or {"fp32_contents": 6, "fp64_contents": 7}[field]
        try:
            want = getattr(message("Numbers").FromString(bytes([number << 3 | 2, len(content)]) + content), field)
        except Exception:  # protobuf's
            assert found is None, content
            continue
        assert found is not None, content
        np.testing.assert_array_equal(found, np.array(want, found.dtype))


@pytest.mark.parametrize("form", ["packed", "each by itself", "both"])
def test_a_request_reads_numbers_in_every_form(form: str) -> None:
    """protobuf also allows a number by itself in each field."""
    values = np.array([0.5, -1.25, 3.0], np.float32)
    request = grpc_service._message("InferRequest")(model_name="m")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[3])
    alone = b"".join(b"\x35" + value.tobytes() for value in values)  # field 6 with the length of a float
    if form == "packed":
        tensor.contents.fp32_contents.extend(values)
        content = request.SerializeToString()
    else:
        first = 0 if form == "each by itself" else 1
        tensor.contents.fp32_contents.extend(values[:first])
        tensor.contents.SetInParent()
        contents = tensor.contents.SerializeToString() + alone[5 * first :]
        tensor.ClearField("contents")
        whole = tensor.SerializeToString() + b"\x2a" + bytes([len(contents)]) + contents
        request.ClearField("inputs")
        content = request.SerializeToString() + b"\x2a" + bytes([len(whole)]) + whole
    read = grpc_service._message("PackedRequest").FromString(content)
    tensors = Tensors({"x": InputType(element_type(np.dtype("float32")), (None,))}, [])
    found = grpc_service._feeds(read, content, tensors)
    np.testing.assert_array_equal(found["x"], values)
