"""Requests and responses of the Open Inference Protocol (v2) over HTTP, with tensors as JSON or in binary form.

It is the protocol of KServe and Triton (https://github.com/kserve/open-inference-protocol), with Triton's extension for
binary tensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.json_text import parsed
from onnx_sparse.schemas.features import listed
from onnx_sparse.serving.endpoints import VERSION
from onnx_sparse.serving.errors import RequestError, refuse_extensions, shown
from onnx_sparse.serving.long_lists import MOST_LISTS, cut, put_back, too_many_lists
from onnx_sparse.serving.tensors import Tensors, datatype_of, to_bytes
from onnx_sparse.serving.written_json import write

#: The header with the number of bytes of JSON; binary tensors follow them.
HEADER_LENGTH = "inference-header-content-length"


@dataclass(frozen=True)
class InferenceRequest:
    """A request.

    Attributes:
        feeds: The inputs of the model.
        outputs: The outputs that it asks for, and whether as binary tensors; empty for all.
        is_binary: Whether all outputs are binary.
        id: What it calls itself.
    """

    feeds: dict[str, Array]
    outputs: dict[str, bool]
    is_binary: bool
    id: str | None


def read_request(
    body: bytes | bytearray, header_length: str | None, tensors: Tensors, outputs: Sequence[str]
) -> InferenceRequest:
    """The request in the body of a POST.

    Args:
        body: The body.
        header_length: The header `HEADER_LENGTH`, if it is there.
        tensors: The inputs of the model.
        outputs: The names of its outputs.

    Raises:
        RequestError: It is not of the protocol, or not of the model's names, types and shapes.
    """
    at = _length(header_length, len(body))
    text, lists = cut(body if at == len(body) else body[:at], ["data"])
    header = parsed_json(text)
    contents = memoryview(body)
    _refuse_extensions(header, "the request")
    is_binary = _parameter(header, "binary_data_output", bool) or False
    feeds: dict[str, Array] = {}
    for tensor in _listed(header, "inputs"):
        name = tensor.get("name")
        if not isinstance(name, str):
            raise RequestError(f"an input has the name {shown(name)}; a string is expected")
        _refuse_extensions(tensor, f"input {shown(name)}")
        shape, count = tensors.check(name, tensor.get("datatype"), tensor.get("shape"))
        if name in feeds:
            raise RequestError(f"input {name!r} is there twice")
        size = _parameter(tensor, "binary_data_size", int)
        if size is None:
            if "data" not in tensor:
                raise RequestError(f"input {name!r} has neither data nor the parameter binary_data_size")
            feeds[name] = tensors.from_values(name, put_back(tensor["data"], lists), shape, count)
            continue
        if not 0 <= size <= len(body) - at:
            raise RequestError(f"input {name!r} has binary_data_size {size}; {len(body) - at} bytes are left")
        feeds[name] = tensors.from_bytes(name, contents[at : at + size], shape, count)
        at += size
    if at != len(body):
        raise RequestError(f"the request has {len(body)} bytes, and its JSON and tensors {at}")
    asked: dict[str, bool] = {}
    for output in _listed(header, "outputs", []):
        name, binary = output.get("name"), _parameter(output, "binary_data", bool)
        _refuse_extensions(output, f"output {shown(name)}")
        asked[known_output(name, outputs)] = is_binary if binary is None else binary
    identifier = header.get("id")
    if identifier is not None and not isinstance(identifier, str):
        raise RequestError(f"the id {shown(identifier)} is not a string")
    return InferenceRequest(feeds, asked, is_binary, identifier)


def _length(header_length: str | None, most: int) -> int:
    if header_length is None:
        return most
    if not (header_length.isascii() and header_length.isdigit()) or int(header_length) > most:
        raise RequestError(f"the header {HEADER_LENGTH} is {header_length!r}; the body has {most} bytes")
    return int(header_length)


def parsed_json(text: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        RequestError: It is none.
    """
    if text.count(b"[") + text.count(b"{") > MOST_LISTS:
        raise too_many_lists()
    try:
        value = parsed(text)
    except ValueError as error:  # also of text that is not UTF-8
        raise RequestError(f"the request is not valid JSON: {error}") from error
    except RecursionError as error:
        raise RequestError("the JSON of the request is nested too deeply") from error
    if not isinstance(value, dict):
        raise RequestError(f"the request is a JSON {type(value).__name__}; an object is expected")
    return value


def _parameter(holder: Mapping[str, Any], name: str, kind: type) -> Any:
    parameters = holder.get("parameters")
    value = parameters.get(name) if isinstance(parameters, dict) else None
    if value is not None and type(value) is not kind:
        raise RequestError(f"the parameter {name} is {shown(value)}; {kind.__name__} is expected")
    return value


def _refuse_extensions(holder: Mapping[str, Any], where: str) -> None:
    parameters = holder.get("parameters")
    if isinstance(parameters, dict):
        refuse_extensions(parameters, where)


def _listed(header: Mapping[str, Any], name: str, default: Any = None) -> list[dict[str, Any]]:
    listed = header.get(name, default)
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise RequestError(f"the request has no list of objects {name!r}")
    return listed


def known_output(name: object, outputs: Sequence[str]) -> str:
    """The name of an output.

    Raises:
        RequestError: The model has no such output.
    """
    if not isinstance(name, str) or name not in outputs:
        raise RequestError(f"the model has no output {shown(name)}; it has {listed(outputs)}")
    return name


def chosen(asked: Mapping[str, bool], outputs: Sequence[str], is_binary: bool) -> Mapping[str, bool]:
    """The outputs of a response, and whether as binary tensors: those that were asked for, or all."""
    return asked or dict.fromkeys(outputs, is_binary)


def write_response(model: str, request: InferenceRequest, results: Mapping[str, Array]) -> tuple[bytearray, int | None]:
    """The body of a response, and the length of its JSON if binary tensors follow it.

    Args:
        model: The model's name.
        request: What it answers.
        results: All outputs of the model by name.
    """
    content = bytearray(json.dumps({"model_name": model, "model_version": VERSION}).encode()[:-1])
    binary: list[bytes] = []
    between = b', "outputs": ['
    for name, is_binary in chosen(request.outputs, [*results], request.is_binary).items():
        array = results[name]
        tensor: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if is_binary:
            binary.append(to_bytes(array))
            tensor["parameters"] = {"binary_data_size": len(binary[-1])}
        content += between + json.dumps(tensor).encode()[:-1]
        if not is_binary:
            content += b', "data": '
            write(content, array.reshape(-1))
        content += b"}"
        between = b", "
    content += b"]" if request.id is None else b'], "id": ' + json.dumps(request.id).encode()
    content += b"}"
    length = len(content)
    for part in binary:
        content += part
    return content, length if binary else None
