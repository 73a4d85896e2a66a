"""Reads a source file and determines its kind."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto

from onnx_sparse.converters.ascend.wire import check_fields
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.files.guarded_files import open_file, read_file

#: A graph of 5,000 operations is 2 MB of JSON. Parsing takes about ten times the size of the file in memory.
MOST_JSON_BYTES = 128 * 2**20
#: protobuf's text parser takes about a second for 2 MB.
MOST_TEXT_BYTES = 64 * 2**20
MOST_BINARY_BYTES = 2**31 - 1


#: How much of a file is read to determine its kind.
_SNIFFED_BYTES = 64 * 1024
_GE_TYPE = b'"ge:'


def is_ascend(path: Path) -> bool:
    """Whether an .onnx, .pbtxt or .txt file is from msit or GE, or has operators of torch_npu."""
    suffix = path.suffix.lower()
    try:
        with open_file(path) as stream:
            head = stream.read(_SNIFFED_BYTES)
    except OSError:
        return False
    if suffix == ".onnx":
        # An ONNX file with ATB's or torch_npu's operators; it is read as a whole only if it contains their names.
        if (b"Operation" not in head and b"NPU" not in head) or path.stat().st_size > MOST_BINARY_BYTES:
            return False
        try:
            model = read_onnx(path)
        except ConversionError:
            return False
        return not model.opset_import or any(node.domain == "npu" for node in model.graph.node)
    return _GE_TYPE in head or re.search(rb"^\s*op \{\s+name:", head, re.MULTILINE) is not None


def is_ge_onnx(path: Path) -> bool:
    """Whether a text file is GE's graph as the text of an ONNX model."""
    return path.suffix.lower() == ".pbtxt" and _GE_TYPE in read_bytes(path, MOST_TEXT_BYTES)[:_SNIFFED_BYTES]


def inside(path: Path, root: Path | None) -> bool:
    """Whether a path is in a folder, symbolic links followed; every path is if the folder is None."""
    return root is None or path.resolve().is_relative_to(root.resolve())


def is_file_inside(path: Path, root: Path | None) -> bool:
    """Whether there is a file of that name in a folder; a name that stands in a file may be one that none can have."""
    return os.path.isfile(path) and inside(path, root)  # Path.is_file raises where a name is too long


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file that is not too large."""
    try:
        return read_file(path, most=most)
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The document in a JSON file; NaN and infinities are accepted, as nlohmann and Python may write them."""
    try:
        document = json.loads(read_bytes(path, MOST_JSON_BYTES))
        json.dumps(document, ensure_ascii=False).encode()  # fails on half a surrogate pair, which no name can have
        return document
    except RecursionError as error:
        raise ConversionError(f"{path} is JSON nested too deeply for an ATB graph") from error
    except ValueError as error:
        raise ConversionError(f"{path} is not JSON: {error}") from error


def read_onnx(path: Path) -> ModelProto:
    """The model in an ONNX file, without its external data."""
    model = ModelProto()
    data = read_bytes(path, MOST_BINARY_BYTES)
    try:
        check_fields(data, ModelProto.DESCRIPTOR)
        model.ParseFromString(data)
        _check_names(model.graph)
        return model
    except (DecodeError, ValueError) as error:
        raise ConversionError(f"{path} is not an ONNX file: {error}") from error


def _check_names(graph: GraphProto) -> None:
    """Refuse names that are not UTF-8: protobuf returns them as bytes, which equal no other name."""
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    texts = [graph.name, *(value.name for value in values)]
    for node in graph.node:
        texts += [node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _check_names(attribute.g)
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise ValueError(f"the name {wrong[:40]!r} is not UTF-8")
