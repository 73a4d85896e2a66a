"""The attributes of OpenVINO's operators.

`PYTHONPATH=tests python tests/support/openvino_attributes.py` writes them for the converter.
"""

from __future__ import annotations

from contextlib import suppress

from openvino.utils.node_factory import NodeFactory

from onnx_sparse.converters.openvino.handlers.attributes import PATH
from onnx_sparse.converters.openvino.handlers.registry import HANDLERS, NEWEST_OPSET

#: Operators under the names that the factory knows.
_NAMES = {"PReLU": "PRelu", "ReLU": "Relu", "SoftMax": "Softmax"}


def listed() -> str:
    """A line for each operator that has a handler: its name with its version, and its attributes."""
    factories = {opset: NodeFactory(f"opset{opset}") for opset in range(1, NEWEST_OPSET + 1)}
    lines = []
    for op_type in sorted(HANDLERS):
        kind, _, version = op_type.rpartition("-")
        for opset in range(int(version), NEWEST_OPSET + 1):
            with suppress(RuntimeError):  # some came after the first operator set that names them
                node = factories[opset].create(_NAMES.get(kind, kind))
                lines.append(" ".join([op_type, *sorted(node.get_attributes())]))
                break
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(listed(), "utf-8")
