"""What is known of a node's results before it runs: their shapes, and the values of arithmetic with sizes.

In an IR, the port of a scalar looks like one of unknown rank, and frontends compute axes and sizes by layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.folding import folded
from onnx_sparse.models.tools.onnx_tools import infer_outputs

#: The most elements of a constant that may be a shape, axes or the like.
MOST_OF_SIZES = 64

#: The operators by which sizes and axes are computed.
_ON_SIZES = frozenset(
    {"Abs", "Add", "And", "Cast", "Concat", "Div", "Equal", "Expand", "Gather", "Greater", "GreaterOrEqual", "Identity",
     "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Range", "ReduceMax", "ReduceMin",
     "ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Where", "Xor"}
)  # fmt: skip


def is_small(tensor: Tensor) -> bool:
    """Whether a tensor is a constant of a few integers or booleans."""
    return tensor.value is not None and tensor.value.size <= MOST_OF_SIZES and tensor.value.dtype.kind in "iub"


def computed_value(
    op_type: str, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], opsets: Mapping[str, int]
) -> Array | None:
    """The result of a node whose inputs are small constants; None if it is not one, or computes something else."""
    if op_type not in _ON_SIZES:
        return None
    given = {
        f"x{k}": tensor.value for k, tensor in enumerate(inputs) if tensor is not None and tensor.value is not None
    }
    names = [f"x{k}" if tensor is not None else "" for k, tensor in enumerate(inputs)]
    node = helper.make_node(op_type, names, ["y"], **{k: v for k, v in attributes.items() if v is not None})
    return folded(node, given, opsets, MOST_OF_SIZES)


def inferred_shapes(
    node: NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int]
) -> dict[str, Shape | None]:
    """The shapes of a node's outputs, by name, as far as ONNX's shape inference knows them; see `inferred`."""
    return {name: tensor.shape for name, tensor in inferred(node, inputs, opsets).items()}


def inferred(node: NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int]) -> dict[str, Tensor]:
    """A node's outputs, by name, as far as ONNX's shape inference knows their types.

    Args:
        node: The node; of one with graphs as attributes nothing is known.
        inputs: The tensors that it reads.
        opsets: The versions of the operator sets, by domain.
    """
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        return {}
    given = {tensor.name: tensor for tensor in inputs if tensor is not None}
    types = {name: helper.make_tensor_type_proto(t.dtype, t.shape) for name, t in given.items()}
    data = {name: _proto(t) for name, t in given.items() if is_small(t)}
    found = infer_outputs(node, types, data, opsets)
    if not found and not node.domain and any(t.dtype == TensorProto.STRING for t in given.values()):
        # ONNX Runtime's Equal takes strings in older operator sets than onnx's.
        found = infer_outputs(node, types, data, {**opsets, "": onnx.defs.onnx_opset_version()})
    return {name: Tensor(name, made.tensor_type.elem_type, _shape(made)) for name, made in found.items()}


def _proto(tensor: Tensor) -> TensorProto:
    assert tensor.value is not None
    return numpy_helper.from_array(tensor.value, tensor.name)


def _shape(made: onnx.TypeProto) -> Shape | None:
    if not made.tensor_type.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in made.tensor_type.shape.dim)
