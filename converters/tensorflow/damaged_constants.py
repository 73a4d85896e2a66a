"""Constants that end the process in TensorFlow, which takes the type that a node says for that of its tensor."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.attributes import every_node
from onnx_sparse.converters.tensorflow.lazy_imports import require


def refuse_damaged_constants(graph_def: Any, where: str) -> None:
    """Refuse a constant whose tensor has another type than the node says.

    Raises:
        ConversionError: There is one; the message begins with `where`.
    """
    for node in every_node(graph_def):
        if node.op == "Const":
            said, held = node.attr["dtype"].type, node.attr["value"].tensor.dtype
            if said != held:
                types = f"{_type_name(held)}, not the {_type_name(said)} that it says"
                raise ConversionError(f"{where}: the constant {node.name} holds {types}")


def _type_name(number: int) -> str:
    """TensorFlow's name of an element type, or its number if it has none."""
    types = require("tensorflow.core.framework.types_pb2").DataType
    return types.Name(number).removeprefix("DT_").lower() if number in types.values() else str(number)
