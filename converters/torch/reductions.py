"""Reductions of torch's exporter that do not compute what torch does.

The exporter writes `any` as the largest of numbers, which of none is the least that there is, and divides whole numbers
before it casts their mean to the type that was asked for. `int(ids.max()) + 1 if ids.numel() else 0` is traced for ids,
and becomes the least number where there are none.
"""

from __future__ import annotations

from typing import Any


def correct_reductions(model: Any) -> None:
    """Change the reductions in a model of torch's exporter whose results would not be torch's."""
    import onnx_ir as ir

    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain or not node.inputs or node.inputs[0] is None:
            continue
        if node.op_type.startswith("Reduce") and node.inputs[0].shape is not None and not len(node.inputs[0].shape):
            _reduce_scalar(node)
        if node.op_type == "ReduceMax" and _is_any(node):
            node.op_type = "ReduceSum"
        if node.op_type == "ReduceMean":
            _divide_as_doubles(node)
        if node.op_type == "ReduceMax" and _is_last_id(node):
            _count_none(node)


def _reduce_scalar(node: Any) -> None:
    """Omit the axes, of which a scalar has none; torch takes 0 and -1."""
    node.attributes.pop("axes", None)
    if len(node.inputs) > 1:
        node.resize_inputs(1)


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


def _is_last_id(node: Any) -> bool:
    """Whether a node makes the largest of all ids, which is used for nothing but a size: it is read, and 1 is added."""
    largest = node.outputs[0]
    if largest.dtype is None or not largest.dtype.is_integer() or len(node.inputs) > 1 or largest.is_graph_output():
        return False
    users = [user for reshape in largest.consumers() if _is(reshape, "Reshape") for user in _users_of_number(reshape)]
    return bool(users) and all(map(_adds_one, users)) and all(_is(node, "Reshape") for node in largest.consumers())


def _users_of_number(reshape: Any) -> list[Any]:
    """The nodes that use the number which is read of a tensor of one element; None stands for an output."""
    found, values = [], [gather.outputs[0] for gather in reshape.outputs[0].consumers() if _is(gather, "Gather")]
    while values:
        value = values.pop()
        found += [None] * value.is_graph_output()
        for user in value.consumers():
            if _is(user, "Cast"):
                values.append(user.outputs[0])
            else:
                found.append(user)
    return found


def _is(node: Any, op_type: str) -> bool:
    return node.op_type == op_type and not node.domain


def _adds_one(node: Any) -> bool:
    import onnx_ir as ir

    if node is None or not _is(node, "Add"):
        return False
    constants = [ir.convenience.get_const_tensor(value) for value in node.inputs if value is not None]
    return any(c is not None and c.size == 1 and c.numpy().item() == 1 for c in constants)


def _count_none(node: Any) -> None:
    """Put -1 in place of the largest of no ids, which ONNX defines as the least number of the type."""
    import numpy as np
    import onnx_ir as ir

    largest = node.outputs[0]
    numbers = largest.dtype.numpy()
    users = largest.consumers()
    tape = ir.tape.Tape()
    least, none = (
        tape.op("Constant", [], {"value": ir.tensor(np.array(n, numbers))}) for n in (np.iinfo(numbers).min, -1)
    )
    is_none = tape.op("Equal", [largest, least])
    counted = tape.op("Where", [is_none, none, largest])
    counted.dtype, counted.shape = largest.dtype, largest.shape
    node.graph.insert_after(node, tape.nodes)
    for user in users:
        user.replace_input_with(user.inputs.index(largest), counted)
