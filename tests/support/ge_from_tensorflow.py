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
}
#: Attributes that the adapter does not hand on.
_DROPPED = {"sparse_gradient", "index_type", "Tsegmentids", "Truncate", "grad_a", "grad_b", "validate_indices"}
_ACL = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "string": 13, "bfloat16": 27,
}  # fmt: skip


def graph_of(function: Any) -> tuple[Graph, list[str]]:
    """The graph of a tf.function with an input signature, and the names of its inputs in their order.

    Variables are constants of it. Every size that TensorFlow does not know is -1.
    """
    frozen = convert_variables_to_constants_v2(function.get_concrete_function(), lower_control_flow=False)
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
    graph.output(*(_source(tensor) for tensor in frozen.outputs))
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
    return (object if tensor.dtype == tf.string else tensor.dtype.as_numpy_dtype), dims


def _attributes(op: Any) -> dict[str, Any]:
    renamed = _ATTRIBUTES.get(op.type, {})
    return {
        renamed.get(name, name): _value(op.get_attr(name))
        for name in op.node_def.attr
        if name not in _DROPPED and not name.startswith("_")
    }


def _value(value: Any) -> Any:
    if isinstance(value, tf.DType):
        return _ACL[value.name]
    return value.decode() if isinstance(value, bytes) else value
