"""Reductions of torch's exporter that do not compute what torch does.

The exporter writes `any` as the largest of numbers, which of none is the least that there is, and divides whole numbers
before it casts their mean to the type that was asked for.
"""

from __future__ import annotations

from typing import Any


def correct_reductions(model: Any) -> None:
    """Change the reductions in a model of torch's exporter whose results would not be torch's."""
    import onnx_ir as ir

    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain or not node.inputs or node.inputs[0] is None:
            continue
        if node.op_type == "ReduceMax" and _is_any(node):
            node.op_type = "ReduceSum"
        if node.op_type == "ReduceMean":
            _divide_as_doubles(node)


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
