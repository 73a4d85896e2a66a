"""What is known of TensorFlow's operators without TensorFlow: their inputs, outputs and the defaults of attributes.

`operators.txt` has a line for each operator that is read or converted; `python -m tests.tensorflow_operators` writes it
from an installed TensorFlow. `addon_operators.txt` has those of packages that bring their own. A line names the inputs,
the outputs with their types, and the attributes:

    Split(split_dim, value) -> output:T*num_split
    Unique(x) -> y:T, idx:out_idx | out_idx:int32

A type is that of an attribute or one of TensorFlow's. `*` comes before the attribute with the length of a list of
outputs of one type, `**` before that with the list of their types; an input of several tensors ends in `*`. Attributes
have their defaults as JSON, or as `:type`; types without a default are not listed. Of the others without a default, `~`
comes before the field of the message that holds the value; `list.i` is one of a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS

_LINE = re.compile(r"([\w>]+)\((.*?)\) ->(?: ([^|]+?))?(?: \| (.*))?")
_OUTPUT = re.compile(r"(\w+):(\w*)(\*{0,2})(\w*)")
#: The most outputs of a node; a damaged file may claim any number.
_MOST_OUTPUTS = 1 << 16


@dataclass(frozen=True)
class Output:
    """An output argument: one tensor, or a list of them.

    Attributes:
        name: Its name.
        dtype: The name of its element type, or of the attribute that has it.
        count: The attribute with the number of tensors.
        types: The attribute with the list of their types.
    """

    name: str
    dtype: str
    count: str = ""
    types: str = ""


@dataclass(frozen=True)
class Operator:
    """An operator.

    Attributes:
        name: Its name.
        inputs: The names of its inputs; one that ends in `*` is a list.
        outputs: Its outputs.
        defaults: The attributes: their defaults, in JSON; None where there is none.
        types: The numbers of the types that attributes have by default.
        fields: The fields of the message that hold the attributes that have no default.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    defaults: Mapping[str, Any]
    types: Mapping[str, int]
    fields: Mapping[str, str] = field(default_factory=dict)

    def takes(self, count: int) -> bool:
        """Whether a node can have as many inputs."""
        lists = sum(name.endswith("*") for name in self.inputs)
        return count >= len(self.inputs) - lists if lists else count == len(self.inputs)

    def type_of(self, attributes: Mapping[str, Any], name: str) -> int:
        """The number of the type that an attribute of a node has."""
        if name in attributes:
            return int(attributes[name].type)
        if name not in self.types:
            raise Unsupported(f"it has no attribute {name}")
        return self.types[name]

    def outputs_of(self, attributes: Mapping[str, Any]) -> dict[str, list[int]]:
        """The numbers of the types of a node's outputs, by output argument.

        Raises:
            Unsupported: An attribute is missing.
        """
        found = {}
        for output in self.outputs:
            if output.types:
                found[output.name] = list(attributes[output.types].list.type) if output.types in attributes else []
                continue
            dtype = NUMBERS.get(output.dtype) or self.type_of(attributes, output.dtype)
            count = 1
            if output.count:
                count = int(attributes[output.count].i) if output.count in attributes else 0
                if not 0 <= count <= _MOST_OUTPUTS:
                    raise Unsupported(f"it has {output.count} = {count}")
            found[output.name] = [dtype] * count
        return found


@cache
def operators() -> dict[str, Operator]:
    """The operators by name."""
    lists = (files(__package__).joinpath(name).read_text("utf-8") for name in ("operators.txt", "addon_operators.txt"))
    return {operator.name: operator for text in lists for operator in map(_parsed, text.splitlines())}


def declare(line: str) -> None:
    """Make an operator known that TensorFlow itself does not have, so that a handler can convert it.

        declare("MyScale(x) -> y:T | factor=1.0")

    Args:
        line: A line as in `operators.txt`.

    Raises:
        ValueError: It is no such line, or there is another operator of that name.
    """
    try:
        operator = _parsed(line)
    except (AssertionError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{line!r} does not declare an operator: Name(inputs) -> output:type | attribute=value"
        ) from error
    if operators().setdefault(operator.name, operator) != operator:
        raise ValueError(f"the operator {operator.name} is declared already, otherwise")


def _parsed(line: str) -> Operator:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    name, inputs, outputs, attributes = match.groups()
    defaults, types, fields = {}, {}, {}
    for text in (attributes or "").split():
        key, is_value, value = text.partition("=")
        if is_value:
            defaults[key] = json.loads(value)
            continue
        key, is_type, value = text.partition(":")
        if is_type:
            types[key] = NUMBERS.get(value, 0)
        else:
            key, _, fields[key] = text.partition("~")
            defaults[key] = None
    made = []
    for text in outputs.split(", ") if outputs else ():
        output = _OUTPUT.fullmatch(text)
        assert output is not None, line
        made.append(
            Output(
                output[1],
                output[2],
                count=output[4] if output[3] == "*" else "",
                types=output[4] if output[3] == "**" else "",
            )
        )
    return Operator(name, tuple(filter(None, inputs.split(", "))), tuple(made), defaults, types, fields)
