"""The attributes that OpenVINO's operators have.

OpenVINO ignores all others of a layer. Older Model Optimizers write some: `output_padding` of a Convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

#: A line for each operator; `python tests/support/openvino_attributes.py` writes it.
PATH = Path(__file__).with_name("attributes.txt")


def is_read(op_type: str, name: str) -> bool:
    """Whether OpenVINO reads an attribute of an operator: `Convolution-1`, `strides`."""
    return op_type not in _attributes() or name in _attributes()[op_type]


@cache
def _attributes() -> Mapping[str, frozenset[str]]:
    lines = map(str.split, PATH.read_text("utf-8").splitlines())
    return {op_type: frozenset(names) for op_type, *names in lines}
