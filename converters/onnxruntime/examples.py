"""Models of one or a few nodes, which show faults of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from onnx_sparse.converters.onnxruntime.guard import Example
from onnx_sparse.converters.tensor import Array
from onnx_sparse.schemas.declaration import element_type

_OPSET = 18


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    expected: Array,
    *,
    constants: Mapping[str, Any] | None = None,
    before: Mapping[str, Array] | None = None,
    opset: int = _OPSET,
) -> Example:
    """A model of some nodes.

    Args:
        nodes: The nodes; the last one's first output, `y`, is that of the model.
        inputs: The inputs of the model, whose sizes it does not know.
        expected: The right answer.
        constants: Its constants, by name.
        before: What to run it on before.
        opset: Its opset.
    """
    given = [helper.make_tensor_value_info(n, element_type(a.dtype), [None] * a.ndim) for n, a in inputs.items()]
    output = helper.make_tensor_value_info("y", element_type(expected.dtype), None)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    graph = helper.make_graph(copies, "fault", given, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return Example(model, dict(inputs), expected, before)


def of_nodes(*args: Any, **kwargs: Any) -> Callable[[], Example]:
    """What makes a model of some nodes; see `model_of`."""
    return staticmethod(lambda: model_of(*args, **kwargs))


def one_node(
    op_type: str,
    *inputs: Array,
    expected: Array,
    outputs: Sequence[str] = ("y",),
    axes: Sequence[int] | None = None,
    constants: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> Callable[[], Example]:
    """What makes a model of one node.

    Args:
        op_type: The operator.
        inputs: What the model is run on, the first inputs of the node.
        expected: The right answer.
        outputs: The outputs of the node.
        axes: A constant, the next input.
        constants: More constants, the following inputs; one without a name is omitted.
        attributes: The attributes of the node.
    """
    given = {f"x{k}": array for k, array in enumerate(inputs)}
    held = {} if axes is None else {"axes": np.asarray(axes, np.int64)}
    held |= constants or {}
    node = helper.make_node(op_type, [*given, *held], list(outputs), **attributes)
    return of_nodes([node], given, expected, constants={name: value for name, value in held.items() if name})
