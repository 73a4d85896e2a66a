"""Clips of one bound, which torch's exporter writes for `clamp`: ONNX's other bound is the largest number."""

from __future__ import annotations

from typing import Any


def clip_to_infinity(model: Any) -> None:
    """Give each Clip of floats the bound that it lacks, so that infinity stays."""
    import onnx_ir as ir

    nodes: list[Any] = list(ir.traversal.RecursiveGraphIterator(model.graph))
    for node in nodes:
        dtype = node.inputs[0].dtype if node.op_type == "Clip" and not node.domain and node.inputs[0] else None
        if dtype is None or not dtype.is_floating_point():
            continue
        node.resize_inputs(3)
        for place, bound in ((1, float("-inf")), (2, float("inf"))):
            if node.inputs[place] is None:
                tape = ir.tape.Tape()
                constant = tape.op("Constant", [], {"value": ir.tensor(bound, dtype=dtype)})
                constant.dtype, constant.shape = dtype, ir.Shape([])
                node.graph.insert_before(node, tape.nodes)
                node.replace_input_with(place, constant)
