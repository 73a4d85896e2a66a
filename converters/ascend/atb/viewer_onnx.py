"""Reads the `.onnx` that `msit llm dump --type onnx` writes, a third form of the same graph.

It is made for viewers: ATB's operation types in the default domain, no opset, parameters as lists of floats. The same
handlers as for the JSON make a model from it that runs.
"""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, ModelProto

from onnx_sparse.converters.ascend.atb.graph import AtbGraph, AtbNode
from onnx_sparse.converters.errors import ConversionError


def is_viewer_onnx(model: ModelProto) -> bool:
    """Whether an ONNX file is an ATB graph for viewers: no opset, and ATB's operation types."""
    return not model.opset_import and any(node.op_type.endswith("Operation") for node in model.graph.node)


def read_viewer_onnx(model: ModelProto) -> AtbGraph:
    """The ATB graph in the file."""
    inputs = tuple(value.name for value in model.graph.input)
    outputs = tuple(value.name for value in model.graph.output)
    name = model.graph.name or _common_prefix(inputs + outputs)
    nodes = tuple(
        AtbNode(
            node.name or f"node {position}",
            node.op_type,
            {attribute.name: _value(attribute, node.name) for attribute in node.attribute},
            tuple(node.input),
            tuple(node.output),
            ((position, node.op_type),),
        )
        for position, node in enumerate(model.graph.node)
    )
    return AtbGraph(name, name.rpartition("_")[0], inputs, outputs, nodes)


def _value(attribute: AttributeProto, node: str) -> Any:
    if attribute.type == AttributeProto.FLOATS:
        return list(attribute.floats)
    if attribute.type == AttributeProto.STRINGS:
        texts = [text.decode("utf-8", "replace") for text in attribute.strings]
        return texts[0] if len(texts) == 1 else texts
    raise ConversionError(f"{node}: attribute {attribute.name} is of a type that msit does not write")


def _common_prefix(names: tuple[str, ...]) -> str:
    """`ExpertFilter_0` of `ExpertFilter_0_input_0`: the layer's name is nowhere else in the file."""
    for name in names:
        for mark in ("_input_", "_output_"):
            if mark in name:
                return name.rpartition(mark)[0]
    return "graph"
