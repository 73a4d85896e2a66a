"""Reshapes of torch's exporter that leave a size to be inferred, which cannot be if there are no elements."""

from __future__ import annotations

from typing import Any


def state_inferred_sizes(model: Any) -> None:
    """Write the size that torch knows in place of each -1 among sizes that may be 0.

    In torch, `TransformerEncoder` takes no rows: its fast path is another one than that which is exported.
    """
    import onnx_ir as ir

    nodes: list[Any] = list(ir.traversal.RecursiveGraphIterator(model.graph))
    for node in nodes:
        if node.op_type != "Reshape" or node.domain or node.inputs[1] is None:
            continue
        sizes, shape = node.inputs[1].producer(), node.outputs[0].shape
        if shape is not None and 0 in tuple(shape):
            node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)  # a 0 is no size of the input
        if sizes is None or sizes.op_type != "Concat" or shape is None or len(sizes.inputs) != len(shape):
            continue
        tape, stated = ir.tape.Tape(), list(sizes.inputs)
        for place, size in enumerate(shape):
            constant = ir.convenience.get_const_tensor(stated[place])
            if isinstance(size, int) and constant is not None and constant.numpy().tolist() == [-1]:
                stated[place] = tape.op("Constant", [], {"value": ir.tensor([size])})
        known = [ir.convenience.get_const_tensor(value) for value in stated]
        if not any(constant is not None and (constant.numpy() < 1).any() for constant in known):
            node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)  # sizes of other tensors may be 0
        if tape.nodes:  # other reshapes may share the sizes, and infer another one
            node.replace_input_with(1, tape.op("Concat", stated, {"axis": 0}))
            node.graph.insert_before(node, tape.nodes)
            if not sizes.outputs[0].uses():
                sizes.graph.remove(sizes, safe=True)
