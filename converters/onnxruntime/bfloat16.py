"""bfloat16 models: standard operators without a bfloat16 kernel in ONNX Runtime are computed in float32.

Each result is rounded to bfloat16 at once, as in TensorFlow's CPU kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.models.graphs import element_types, put_nodes, subgraphs
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import numpy_dtype

#: Operators that only move data or call graphs; ONNX Runtime's CPU kernels for these take bfloat16.
_TAKE_BFLOAT16 = frozenset(
    (
        "Cast",
        "CastLike",
        "Concat",
        "Constant",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "If",
        "Loop",
        "Reshape",
        "Scan",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    )
)


def compute_in_float(model: ModelProto) -> None:
    """Put casts to float32 and back around every node that has no bfloat16 kernel. Types must have been inferred."""
    _compute_in_float(model.graph, {})


def _compute_in_float(graph: GraphProto, outer: Mapping[str, int]) -> None:
    types = {**outer, **element_types(graph)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        for body in subgraphs(node):
            _compute_in_float(body, types)
        if node.domain == DOMAIN or (node.domain == "" and node.op_type in _TAKE_BFLOAT16):
            nodes.append(node)
            continue
        wide = [name for name in dict.fromkeys(node.input) if types.get(name) == TensorProto.BFLOAT16]
        results = [name for name in node.output if types.get(name) == TensorProto.BFLOAT16]
        names = {name: f"{name}/float/{node.name}" for name in (*wide, *results)}
        nodes += [_cast(name, names[name], TensorProto.FLOAT) for name in wide]
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        _widen_attributes(node)
        nodes.append(node)
        nodes += [_cast(names[name], name, TensorProto.BFLOAT16) for name in results]
    put_nodes(graph, nodes)


def _cast(source: str, target: str, dtype: int) -> NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"{target}/Cast", to=dtype)


def _widen_attributes(node: NodeProto) -> None:
    """Change a result type that is an attribute (ConstantOfShape's value, RandomNormal's dtype) to float32."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR and attribute.t.data_type == TensorProto.BFLOAT16:
            array = numpy_helper.to_array(attribute.t).astype(numpy_dtype(TensorProto.FLOAT))
            attribute.t.CopyFrom(numpy_helper.from_array(array))
        elif attribute.name == "dtype" and attribute.i == TensorProto.BFLOAT16:
            attribute.i = TensorProto.FLOAT
