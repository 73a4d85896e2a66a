"""GE's graphs of TensorFlow functions, as TensorFlow's adapter hands them on: one node for each, sizes unknown.

The adapter keeps most operators and attributes as they are; this has the others that the tests need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.ge_graphs import Graph, described

tf = pytest.importorskip("tensorflow")

from tensorflow.python.framework.convert_to_constants import (  # noqa: E402
    convert_variables_to_constants_v2,
)

#: GE's names of TensorFlow's operators, where they differ.
_NAMES = {
    **{name: f"Reduce{name}" for name in ("Max", "Min", "Prod", "All", "Any", "Mean")},
    "Sum": "ReduceSum",
    "Softmax": "SoftmaxV2",
    "LogSoftmax": "LogSoftmaxV2",
    "ArgMax": "ArgMaxV2",
    "Roll": "RollV2",
}
#: GE's names of attributes, by operator.
_ATTRIBUTES = {
    "Cast": {"DstT": "dst_type"},
    "Shape": {"out_type": "dtype"},
    "Size": {"out_type": "dtype"},
    "Squeeze": {"squeeze_dims": "axis"},
    "MatMul": {"transpose_a": "transpose_x1", "transpose_b": "transpose_x2"},
    "BatchMatMulV2": {"adj_x": "adj_x1", "adj_y": "adj_x2"},
    "ArgMax": {"output_type": "dtype"},
    "ArgMin": {"output_type": "dtype"},
    "LeakyRelu": {"alpha": "negative_slope"},
}
_ACL = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "string": 13, "bfloat16": 27,
}  # fmt: skip


def graph_of(function: Any) -> tuple[Graph, list[str]]:
    """The graph of a tf.function with an input signature, and the names of its inputs in their order.

    Variables are constants of it. Every size that TensorFlow does not know is -1. Results that the function returns in
    a dictionary have their names in it.

    Raises:
        ValueError: A tensor is of a type that GE does not have, such as a list, or an operator calls functions.
    """
    concrete = function.get_concrete_function()
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    graph = Graph()
    wanted = _wanted(frozen.outputs)
    names = [tensor.op.name for tensor in frozen.inputs]
    for name, tensor in zip(names, frozen.inputs, strict=True):
        graph.data(name, *_type(tensor))
    for op in frozen.graph.get_operations():
        if op.name not in wanted or op.type == "Placeholder":
            continue
        if op.type == "Const":
            graph.const(op.name, np.asarray(tf.make_ndarray(op.get_attr("value"))))
            continue
        node = graph.node(
            op.name, _NAMES.get(op.type, op.type), [_source(each) for each in op.inputs], **_attributes(op)
        )
        for output in op.outputs:
            described(node.output_desc.add(), *_type(output))
    sources = [_source(tensor) for tensor in frozen.outputs]
    if isinstance(concrete.structured_outputs, dict):
        named = zip(sorted(concrete.structured_outputs), sources, strict=True)
        sources = [graph.op("Identity", source, name=name) for name, source in named]
    graph.output(*sources)
    return graph, names


def _wanted(tensors: Any) -> set[str]:
    """The operators that results depend on."""
    found: set[str] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found.add(op.name)
            waiting += [tensor.op for tensor in op.inputs]
    return found


def _source(tensor: Any) -> str:
    return f"{tensor.op.name}:{tensor.value_index}"


def _type(tensor: Any) -> tuple[Any, tuple[int, ...]]:
    shape = tensor.shape
    dims = (-2,) if shape.rank is None else tuple(-1 if dim is None else dim for dim in shape.as_list())
    if tensor.dtype.name not in _ACL:
        raise ValueError(f"{tensor.name} is of type {tensor.dtype.name}")
    return (object if tensor.dtype == tf.string else tensor.dtype.as_numpy_dtype), dims


def _attributes(op: Any) -> dict[str, Any]:
    renamed = _ATTRIBUTES.get(op.type, {})
    return {renamed.get(name, name): _value(op.get_attr(name)) for name in op.node_def.attr if not name.startswith("_")}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, tf.DType):
        return _ACL.get(value.name, 0)
    if hasattr(value, "unknown_rank"):
        return [-2] if value.unknown_rank else [dim.size for dim in value.dim]
    value = value.decode() if isinstance(value, bytes) else value
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{value} is a function")
    return value
