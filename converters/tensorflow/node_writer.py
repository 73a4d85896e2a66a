"""Writing nodes to the end of a list, for what writes a graph anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto, helper


class NodeWriter:
    """What writes a graph anew, node by node; a subclass knows the nodes so far and the names that are taken."""

    _nodes: list[NodeProto]
    _names: set[str]

    def _emit(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        name = self._fresh(f"{inputs[0]}/{op_type}")
        self._nodes.append(helper.make_node(op_type, list(inputs), [output or name], name=name, **attributes))
        return output or name

    def _fresh(self, stem: str) -> str:
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name
