"""The limits of the installed ONNX Runtime: the highest IR version and the highest opset of ai.onnx that it takes.

Its Python API reports neither, so both are found by trying: a model of one node loads in a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The highest versions that load."""

    ir_version: int
    opset: int


def find_limits() -> Limits:
    """The limits of the installed ONNX Runtime, or those of the installed onnx where these are lower."""
    import onnx

    opset = onnx.defs.onnx_opset_version()
    while opset > 1 and not _loads(ir_version=4, opset=opset):
        opset -= 1
    ir_version = int(onnx.IR_VERSION)
    while ir_version > 3 and not _loads(ir_version=ir_version, opset=opset):
        ir_version -= 1
    return Limits(ir_version, opset)


def _loads(*, ir_version: int, opset: int) -> bool:
    import onnxruntime
    from onnx import TensorProto, helper

    from onnx_sparse.sessions.quiet import quiet_options

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one_node", [value], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    try:  # a refusal is an answer here and need not be logged
        onnxruntime.InferenceSession(model.SerializeToString(), quiet_options(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True
