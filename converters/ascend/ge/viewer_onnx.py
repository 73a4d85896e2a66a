"""Reads `ge_onnx_*.pbtxt`: GE's graph as the text of an ONNX model, which GE writes for viewers.

Node types are GE's with the prefix `ge:`, descriptions of tensors are attributes by position, edges are `node:0`. With
DUMP_GE_GRAPH=1 constants have their data; with 2 and 3 they do not, and their values are lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto

from onnx_sparse.converters.ascend.dtypes import dtype_of_name
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
from onnx_sparse.converters.ascend.ge.schema import parse_text_into
from onnx_sparse.converters.ascend.source import MOST_TEXT_BYTES, read_bytes
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.schemas.declaration import numpy_dtype

_PREFIX = "ge:"
#: The type of a node that holds the body of an If or While.
_BODY = "subgraph"
_MOST_RESULTS = 10_000
#: What the descriptions of tensors begin with, which stand among the attributes.
_DESCRIPTIONS = ("input_desc_", "output_desc_")


def read_ge_onnx(path: Path) -> GeGraph:
    """The graph in a `ge_onnx_*.pbtxt`.

    Raises:
        ConversionError: It is not such a file, or contradicts itself.
    """
    try:
        model = parse_text_into(ModelProto(), read_bytes(path, MOST_TEXT_BYTES).decode("utf-8"))
    except ValueError as error:
        raise ConversionError(f"{path} is not a ge_onnx dump: {error}") from error
    if not model.graph.node or not all(node.op_type.startswith((_PREFIX, _BODY)) for node in model.graph.node):
        raise ConversionError(f"{path} is not a ge_onnx dump: its nodes are not of types ge:...")
    return in_order(model.graph.name or path.stem, [_node(node) for node in model.graph.node])


def _node(node: NodeProto) -> GeNode:
    attributes = {attribute.name: _value(attribute) for attribute in node.attribute}
    op_type = node.op_type.removeprefix(_PREFIX)
    without_data = False
    if op_type in CONSTANTS:
        data = next((a.s for a in node.attribute if a.name == "value_data"), None)
        described = dtype_of_name(str(attributes.get("value_desc_dtype", "")))
        without_data = data is None or described is None
        if data is not None and described is not None:
            shape = shape_of(attributes.get("value_desc_shape") or [])
            attributes["value"] = array_of(numpy_dtype(described), shape, data, node.name)
    return GeNode(
        node.name,
        op_type,
        tuple(source_of(text) for text in node.input if not is_control(text)),
        {name: value for name, value in attributes.items() if not name.startswith(_DESCRIPTIONS)},
        tuple(_description(attributes, position) for position in range(_count(attributes))),
        without_data,
    )


def _count(attributes: dict[str, Any]) -> int:
    count = attributes.get("output_desc_nums", 0)
    return count if isinstance(count, int) and 0 <= count <= _MOST_RESULTS else 0


def _description(attributes: dict[str, Any], position: int) -> Description:
    """A description from attributes by position; if there are many tensors, from a JSON text for each."""
    text = attributes.get(f"output_desc_{position}")
    if isinstance(text, str):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = {}
        fields = fields if isinstance(fields, dict) else {}
        dims = fields.get("shape") or fields.get("dims") or []
    else:
        fields = {key: attributes.get(f"output_desc_{key}:{position}") for key in ("dtype", "layout")}
        dims = attributes.get(f"output_desc_shape:{position}") or []
    known = isinstance(dims, list) and all(isinstance(dim, int) for dim in dims)
    return Description(
        dtype_of_name(str(fields.get("dtype", ""))), shape_of(dims) if known else None, str(fields.get("layout") or "")
    )


def _value(attribute: AttributeProto) -> Any:
    kinds: dict[int, Callable[[AttributeProto], Any]] = {
        AttributeProto.INT: lambda a: a.i,
        AttributeProto.FLOAT: lambda a: a.f,
        AttributeProto.STRING: lambda a: a.s.decode("utf-8", "replace"),
        AttributeProto.INTS: lambda a: list(a.ints),
        AttributeProto.FLOATS: lambda a: list(a.floats),
        AttributeProto.STRINGS: lambda a: [text.decode("utf-8", "replace") for text in a.strings],
    }
    read = kinds.get(attribute.type)
    return read(attribute) if read else None
