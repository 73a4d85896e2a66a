"""The picture of an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.pictures import Picture, PictureNode
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import dtype_name

#: Values of attributes are cut to this length.
_LONGEST_VALUE = 120


def model_picture(model: ModelProto, title: str, times: Mapping[str, str] | None = None) -> Picture:
    """The picture of a model: its nodes, also those of branches and loops, its inputs and outputs.

    Args:
        model: The model; with inferred shapes, it says those of results.
        title: What it is a picture of.
        times: What a run says of the time of nodes, by name.
    """
    picture = Picture(title)
    shapes = {value.name: _type_text(value) for value in (*model.graph.value_info, *model.graph.output)}
    _Drawing(picture, shapes, times or {}).graph(model.graph, (), {})
    return picture


class _Drawing:
    """A picture in the making."""

    def __init__(self, picture: Picture, shapes: Mapping[str, str], times: Mapping[str, str]) -> None:
        self._picture, self._shapes, self._times = picture, shapes, times

    def graph(self, graph: GraphProto, scope: tuple[str, ...], outer: Mapping[str, int]) -> list[int]:
        """Draw a graph; returns the nodes that make its outputs. Those of a body are not drawn themselves."""
        made = dict(outer)
        constants = {tensor.name: _tensor_text(tensor) for tensor in graph.initializer}
        for value in graph.input:
            made.pop(value.name, None)
            if value.name not in constants:
                node = PictureNode(value.name, value.name, "input", scope, (("type", _type_text(value)),))
                made[value.name] = self._picture.add(node)
        for position, node in enumerate(graph.node):
            self._node(node, position, scope, made, constants)
        results = [made[value.name] for value in graph.output if value.name in made]
        if not scope:
            for value in graph.output:
                node = PictureNode(value.name, value.name, "output", (), (("type", _type_text(value)),))
                self._picture.add(node, [made[value.name]] if value.name in made else ())
        return results

    def _node(
        self,
        node: NodeProto,
        position: int,
        scope: tuple[str, ...],
        made: dict[str, int],
        constants: Mapping[str, str],
    ) -> None:
        reads = [made[name] for name in node.input if name in made]
        name = node.name or f"{node.op_type}_{position}"
        own = scope or tuple(filter(None, name.split("/")[:-1]))
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for body in bodies:
                reads += self.graph(body, (*own, name.rpartition("/")[2], attribute.name), made)
        details = [("operator", f"{node.domain}.{node.op_type}" if node.domain else node.op_type)]
        details += [("time", self._times[node.name])] if node.name in self._times else []
        details += [("reads", f"{held}: {constants[held]}") for held in node.input if held in constants]
        details += [(f"attribute {a.name}", _value_text(a)) for a in node.attribute]
        details += [
            ("makes", " ".join(filter(None, (held, self._shapes.get(held, ""))))) for held in node.output if held
        ]
        kind = "ours" if node.domain == DOMAIN else "constant" if node.op_type == "Constant" else "other"
        drawn = self._picture.add(PictureNode(node.op_type, name, kind, own, tuple(details)), reads)
        made.update(dict.fromkeys(filter(None, node.output), drawn))


def _type_text(value: ValueInfoProto) -> str:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind or "unknown").removesuffix("_type")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return f"{dtype_name(tensor.elem_type)}[...]"
    dims = [
        str(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or "?"
        for dim in tensor.shape.dim
    ]
    return f"{dtype_name(tensor.elem_type)}[{', '.join(dims)}]"


def _tensor_text(tensor: TensorProto) -> str:
    return f"{dtype_name(tensor.data_type)}[{', '.join(map(str, tensor.dims))}]"


def _value_text(attribute: AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if attribute.type == AttributeProto.TENSOR:
        return _tensor_text(attribute.t)
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return "a graph"
    value: Any = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value[:_LONGEST_VALUE]]
    return str(value)[:_LONGEST_VALUE]
