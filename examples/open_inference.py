"""Requests and responses of the Open Inference Protocol (v2) over HTTP, with tensors as JSON or in binary form.

It is the protocol of KServe and Triton (https://github.com/kserve/open-inference-protocol), with Triton's extension for
binary tensors. The servers beside this file use it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper
from tritonclient.utils import deserialize_bytes_tensor, np_to_triton_dtype, serialize_byte_tensor

import onnx_sparse
from onnx_sparse.rows.model_features import Features, InputType

#: The header with the number of bytes of JSON, behind which binary tensors follow.
HEADER_LENGTH = "Inference-Header-Content-Length"

#: The protocol's names of ONNX Runtime's types; the others are called alike.
_DATATYPES = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "BFLOAT16": "BF16", "STRING": "BYTES"}


def metadata(name: str, session: Any) -> dict[str, Any]:
    """What a model takes and returns."""

    def described(values: Sequence[Any]) -> Iterator[dict[str, Any]]:
        for value in values:
            dtype = value.type.removeprefix("tensor(").removesuffix(")").upper()
            shape = [size if isinstance(size, int) else -1 for size in value.shape]
            yield {"name": value.name, "datatype": _DATATYPES.get(dtype, dtype), "shape": shape}

    inputs, outputs = list(described(session.get_inputs())), list(described(session.get_outputs()))
    return {"name": name, "versions": ["1"], "platform": "onnx_sparse", "inputs": inputs, "outputs": outputs}


@dataclass
class InferenceRequest:
    """A request.

    Attributes:
        feeds: The inputs of the model.
        outputs: The outputs that it asks for, and whether as binary tensors; empty for all.
        is_binary: Whether all are binary.
        id: What it calls itself.
    """

    feeds: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, bool] = field(default_factory=dict)
    is_binary: bool = False
    id: str | None = None


def read_request(body: bytes, header_length: str | None, features: Features) -> InferenceRequest:
    """The request in the body of a POST.

    Raises:
        ValueError: It is not of the protocol, or not of the model's names, types and shapes.
    """
    messages = {feature.inputs.get("serialized") for feature in features.values()}
    try:
        at = len(body) if header_length is None else int(header_length)
        header = json.loads(body[:at])
        is_binary = bool(header.get("parameters", {}).get("binary_data_output"))
        request = InferenceRequest(is_binary=is_binary, id=header.get("id"))
        for output in header.get("outputs", []):
            request.outputs[output["name"]] = bool(output.get("parameters", {}).get("binary_data", is_binary))
        for tensor in header["inputs"]:
            name = tensor["name"]
            if name not in features.inputs:
                raise ValueError(f"the model has no input {name!r}; it has {', '.join(features.inputs)}")
            size = tensor.get("parameters", {}).get("binary_data_size")
            content = tensor["data"] if size is None else body[at : at + size]
            at += size or 0
            request.feeds[name] = _array(tensor, content, features.inputs[name], is_messages=name in messages)
    except (LookupError, TypeError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        raise ValueError(f"not a request of the Open Inference Protocol: {type(error).__name__}: {error}") from error
    if at != len(body):
        raise ValueError(f"the request has {len(body)} bytes, and its JSON and tensors {at}")
    if missing := [name for name in features.inputs if name not in request.feeds]:
        raise ValueError(f"the input {missing[0]!r} is missing")
    return request


def _array(tensor: Mapping[str, Any], content: Any, expected: InputType, *, is_messages: bool) -> Any:
    name, dtype = tensor["name"], helper.tensor_dtype_to_np_dtype(expected.dtype)
    if tensor["datatype"] != np_to_triton_dtype(dtype):
        raise ValueError(f"input {name!r} is {tensor['datatype']}; the model takes {np_to_triton_dtype(dtype)}")
    if not isinstance(content, bytes):
        array = np.array(content, dtype)
    elif dtype.kind == "O":
        array = deserialize_bytes_tensor(content)
    else:
        array = np.frombuffer(content, dtype)
    array = array.reshape(tensor["shape"])
    sizes = array.shape if expected.shape is None else expected.shape
    if len(sizes) != array.ndim or any(s not in (None, size) for s, size in zip(sizes, array.shape, strict=True)):
        takes = ["?" if size is None else size for size in sizes]
        raise ValueError(f"input {name!r} has the shape {list(array.shape)}; the model takes {takes}")
    if is_messages:
        return onnx_sparse.example_array([_bytes(message) for message in array.tolist()])
    if dtype.kind == "O":
        array.flat = [text if isinstance(text, str) else text.decode() for text in array.flat]
    return array


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def write_response(name: str, request: InferenceRequest, outputs: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a response.

    Args:
        name: The model's name.
        request: What it answers.
        outputs: All outputs of the model.

    Raises:
        ValueError: The request asks for another one.
    """
    described, contents = [], []
    for output, is_binary in (request.outputs or dict.fromkeys(outputs, request.is_binary)).items():
        if output not in outputs:
            raise ValueError(f"the model has no output {output!r}; it has {', '.join(outputs)}")
        array = outputs[output]
        tensor = {"name": output, "datatype": np_to_triton_dtype(array.dtype), "shape": list(array.shape)}
        if is_binary:
            contents.append(b"".join(serialize_byte_tensor(array).flat) if array.dtype.kind == "O" else array.tobytes())
            tensor["parameters"] = {"binary_data_size": len(contents[-1])}
        else:
            tensor["data"] = array.reshape(-1).tolist()
        described.append(tensor)
    answer = {"model_name": name, "model_version": "1", "outputs": described}
    head = json.dumps(answer if request.id is None else {**answer, "id": request.id}).encode()
    return b"".join([head, *contents]), {HEADER_LENGTH: str(len(head))}
