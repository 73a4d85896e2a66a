"""The attributes that OpenVINO writes into an IR for each operator, which its Python API may call otherwise.

`python -m support.openvino_attributes` in the folder tests writes the recorded list anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "data" / "openvino_attributes.txt"
#: OpenVINO's factory knows these by other names than IRs.
_IN_FACTORY = {"Const": "Constant", "ReLU": "Relu", "PReLU": "PRelu", "SoftMax": "Softmax"}


def recorded() -> dict[str, frozenset[str]]:
    """The attributes by operator, as they were found in the newest OpenVINO."""
    lines = (line.split() for line in RECORDED.read_text("utf-8").splitlines())
    return {op: frozenset(names) for op, *names in lines}


def found(operators: Any) -> dict[str, frozenset[str]]:
    """The attributes that the installed OpenVINO writes, of operators `Gather-8` that it has."""
    from openvino.utils.node_factory import NodeFactory

    made = {}
    for operator in sorted(operators):
        name, _, version = operator.rpartition("-")
        try:
            node = NodeFactory(f"opset{version}").create(_IN_FACTORY.get(name, name))
        except RuntimeError:  # an operator of another set, or newer than this OpenVINO
            continue
        made[operator] = frozenset(node.get_attributes())
    return made


if __name__ == "__main__":
    from onnx_sparse.converters.openvino.handlers import HANDLERS

    RECORDED.write_text(
        "".join(f"{op} {' '.join(sorted(names))}".rstrip() + "\n" for op, names in found(HANDLERS).items())
    )
