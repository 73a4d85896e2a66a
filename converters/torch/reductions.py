"""Reductions of torch's exporter, written so that ONNX Runtime gives torch's results.

Of no elements, ONNX Runtime reduces along negative axes to a wrong shape, and its mean is 0 instead of NaN. The
exporter writes `any` as the largest of numbers, which of none is the least that there is, and divides whole numbers
before it casts their mean to the type that was asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def correct_reductions(model: Any) -> None:
    """Change the reductions in a model of torch's exporter where ONNX Runtime's results would be others."""
    import onnx_ir as ir

    graph = model.graph
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        shape = node.inputs[0].shape if not node.domain and node.inputs and node.inputs[0] is not None else None
        if shape is None:
            continue
        if node.op_type in ("ArgMax", "ArgMin"):
            node.attributes.add(ir.AttrInt64("axis", node.attributes.get_int("axis", 0) % len(shape)))
        elif node.op_type.startswith("Reduce") and len(node.inputs) > 1 and node.inputs[1] is not None:
            _count_axes_from_the_front(graph, node)
        if node.op_type == "ReduceMax" and _is_any(node):
            node.op_type = "ReduceSum"
        if node.op_type == "ReduceMean":
            _divide_as_doubles(node)
            if _may_reduce_nothing(node):
                _add_nan_of_nothing(node)


def _count_axes_from_the_front(graph: Any, node: Any) -> None:
    import onnx_ir as ir

    given = ir.convenience.get_const_tensor(node.inputs[1])
    if given is None or (given.numpy() >= 0).all():
        return
    axes = given.numpy() % len(node.inputs[0].shape)
    name = "axes_" + "_".join(map(str, axes))
    if name not in graph.initializers:
        graph.register_initializer(ir.Value(name=name, const_value=ir.tensor(axes, name=name)))
    node.replace_input_with(1, graph.initializers[name])


def _is_any(node: Any) -> bool:
    """Whether a node reduces bools, as numbers, to what is a bool again."""
    import onnx_ir as ir

    before, users = node.inputs[0].producer(), node.outputs[0].consumers()
    if before is None or before.op_type != "Cast" or before.inputs[0].dtype != ir.DataType.BOOL:
        return False
    to_bools = (user.op_type == "Cast" and user.attributes.get_int("to") == ir.DataType.BOOL.value for user in users)
    return bool(users) and all(to_bools) and not node.outputs[0].is_graph_output()


def _divide_as_doubles(node: Any) -> None:
    """Cast whole numbers before their mean is made, which is cast to what was asked for afterwards."""
    import onnx_ir as ir

    data, mean = node.inputs[0], node.outputs[0]
    if data.dtype is None or not data.dtype.is_integer():
        return
    tape = ir.tape.Tape()
    wide = tape.op("Cast", [data], {"to": ir.DataType.DOUBLE.value})
    wide.dtype, wide.shape, mean.dtype = ir.DataType.DOUBLE, data.shape, ir.DataType.DOUBLE
    node.graph.insert_before(node, tape.nodes)
    node.replace_input_with(0, wide)


def _may_reduce_nothing(node: Any) -> bool:
    """Whether a dimension that a node reduces has an unknown size, or none."""
    import onnx_ir as ir

    shape = node.inputs[0].shape
    axes = None if len(node.inputs) < 2 else node.inputs[1]
    known = None if axes is None else ir.convenience.get_const_tensor(axes)
    reduced = range(len(shape)) if known is None else known.numpy().ravel()
    return not all(isinstance(shape[axis], int) and shape[axis] > 0 for axis in reduced)


def _add_nan_of_nothing(node: Any) -> None:
    """Add 0 / size to a mean: 0, or NaN if there are no elements."""
    import onnx_ir as ir

    mean, dtype = node.outputs[0], node.inputs[0].dtype
    tape = ir.tape.Tape()
    zero = tape.op("Constant", [], {"value": ir.tensor(np.zeros((), dtype.numpy()))})
    size = tape.op("Cast", [tape.op("Size", [node.inputs[0]])], {"to": dtype.value})
    nothing = tape.op("Div", [zero, size])
    corrected = tape.op("Add", [nothing, nothing])
    corrected.name, mean.name = mean.name, f"{mean.name}_of_some"
    corrected.dtype, corrected.shape = dtype, mean.shape
    ir.convenience.replace_all_uses_with(mean, corrected, replace_graph_outputs=True)
    tape.nodes[-1].replace_input_with(0, mean)
    node.graph.insert_after(node, tape.nodes)
