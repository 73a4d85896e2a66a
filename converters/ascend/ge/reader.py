"""Reads GE's graph files: `.air`, `ge_proto_*.txt`, torchair's `dynamo.pbtxt`; binary or text, a model or a graph."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.dtypes import GE_PROTO
from onnx_sparse.converters.ascend.ge.graph import (
    CONSTANTS,
    Description,
    GeGraph,
    GeNode,
    array_of,
    in_order,
    is_control,
    shape_of,
    source_of,
)
from onnx_sparse.converters.ascend.ge.schema import parse_binary, parse_text
from onnx_sparse.converters.ascend.source import MOST_BINARY_BYTES, MOST_TEXT_BYTES, read_bytes
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.schemas.declaration import numpy_dtype


def read_ge_graph(path: Path) -> GeGraph:
    """The graph in a file of GE.

    Raises:
        ConversionError: It is not such a file, or contradicts itself.
    """
    try:
        if path.suffix.lower() == ".air":
            message = parse_binary("ModelDef", read_bytes(path, MOST_BINARY_BYTES))
            return _of_model(message, path)
        text = read_bytes(path, MOST_TEXT_BYTES).decode("utf-8")
        if re.search(r"^\s*graph\s*(<|\{)", text, re.MULTILINE):
            return _of_model(parse_text("ModelDef", text), path)
        return _of_graph(parse_text("GraphDef", text), path)
    except ValueError as error:
        raise ConversionError(f"{path} is not a graph of GE: {error}") from error


def _of_model(model: Any, path: Path) -> GeGraph:
    if not model.graph:
        raise ConversionError(f"{path} is not a graph of GE: there is no graph in it")
    return _of_graph(model.graph[0], path)  # the others are bodies of control flow, which is not supported


def _of_graph(graph: Any, path: Path) -> GeGraph:
    if not graph.op:
        raise ConversionError(f"{path} is not a graph of GE: there are no nodes in it")
    nodes = [_node(op) for op in graph.op]
    outputs = tuple(source for text in graph.output if (source := source_of(text)) is not None)
    return in_order(graph.name or path.stem, nodes, outputs)


def _node(op: Any) -> GeNode:
    attributes = {entry.key: _attribute(entry.value, f"{op.name}: {entry.key}") for entry in op.attr}
    return GeNode(
        op.name,
        op.type,
        tuple(source_of(text) for text in op.input if not is_control(text)),
        attributes,
        tuple(_description(desc) for desc in op.output_desc),
        op.type in CONSTANTS and attributes.get("value") is None,
    )


def _description(desc: Any) -> Description:
    return Description(GE_PROTO.get(desc.dtype), shape_of(list(desc.shape.dim)), desc.layout)


def _attribute(value: Any, where: str) -> Any:
    """An attribute as a number, text, list or array; None for a tensor without data and for kinds not needed."""
    kind = value.WhichOneof("value")
    if kind is None or kind == "td":
        return None
    content = getattr(value, kind)
    if kind == "s":
        return content.decode("utf-8", "replace")
    if kind == "list":
        for field in ("i", "f", "b", "dt"):
            if getattr(content, field):
                return list(getattr(content, field))
        return [text.decode("utf-8", "replace") for text in content.s]
    return _tensor(content, where) if kind == "t" else content


def _tensor(tensor: Any, where: str) -> np.ndarray[Any, Any] | None:
    dtype, shape = GE_PROTO.get(tensor.desc.dtype), shape_of(list(tensor.desc.shape.dim))
    if dtype is None:
        return None
    if dtype == TensorProto.STRING:
        raise ConversionError(f"{where}: constants of strings are not read")
    if not tensor.data and 0 not in (shape or ()):
        return None
    return array_of(numpy_dtype(dtype), shape, tensor.data, where)
