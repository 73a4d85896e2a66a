"""Layers of any operator with inputs and attributes that it may not take, as an IR of unknown origin may have them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onnx_sparse.converters.openvino.ir import Layer, Network, Port

#: The bytes of all constants; the whole file of weights.
WEIGHTS = bytes([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]) * 32
_SIZES = {"f32": 4, "f16": 2, "f64": 8, "i32": 4, "i64": 8, "u8": 1, "boolean": 1}
_TYPES = ("f32", "f32", "f32", "i64", "i32", "i64", "u8", "boolean", "f16", "f64", "string")
#: Shapes as an attribute says them; `...` is an unknown rank.
_SHAPES = ("...", "...", "", "1", "3", "0", "4", "2,3", "4,4", "2,0", "1,3,4", "?,?,?", "1,4,5,5", "?,?,?,?",
           "2,2,3,3,1", "0,4,5,5", "?,4", "1,1,1,1")  # fmt: skip
_VALUES = ("1", "1", "1,1", "2", "0", "-1", "1,1,1,1", "0.5", "true", "false", "", "7", "-5", "99999999999999", "nan",
           "ij,jk->ik", "...i->i", "f32", "i64")  # fmt: skip


class Attributes(dict[str, str]):
    """Attributes that note which others a handler asks for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


@dataclass(frozen=True)
class Input:
    """What feeds an input: a Parameter, or a constant whose elements are 1 and 2."""

    element_type: str
    shape: str
    is_constant: bool


def random_input(draw: random.Random) -> Input:
    """An input of any type and shape."""
    element_type, shape = draw.choice(_TYPES), draw.choice(_SHAPES)
    is_constant = element_type in _SIZES and not {"?", "."} & set(shape) and draw.random() < 0.6
    return Input(element_type, shape, is_constant)


def random_inputs(draw: random.Random, count: int) -> list[Input]:
    """Inputs of any types and shapes; of half of the layers most are floats of one shape."""
    made = [random_input(draw) for _ in range(count)]
    if draw.random() < 0.5:
        same = Input("f32", draw.choice(_SHAPES), is_constant=False)
        made = [same if draw.random() < 0.7 else given for given in made]
    return made


class Search:
    """Layers of one operator, each a change of one that a new reason was found for, or that was converted.

    Args:
        op: The operator, `Gather-8`, which also seeds the numbers that are drawn.
    """

    def __init__(self, op: str) -> None:
        self._draw = random.Random(op)
        self._asked: dict[str, tuple[str, ...]] = {}
        self._found: list[tuple[list[Input], dict[str, str]]] = []
        self._reasons: set[str] = set()

    def next(self) -> tuple[list[Input], Attributes]:
        """The inputs and attributes of the next layer."""
        draw = self._draw
        if not self._found or draw.random() < 0.1:
            inputs = random_inputs(draw, draw.randrange(9))
            return inputs, Attributes({key: self._value(key) for key in sorted(self._asked)})
        inputs, given = draw.choice(self._found)
        inputs, given = list(inputs), dict(given)
        for _ in range(draw.randrange(1, 4)):
            kind = draw.random()
            if kind < 0.15:
                inputs = inputs[: draw.randrange(len(inputs) + 1)]
            elif kind < 0.3:
                inputs.append(random_input(draw))
            elif kind < 0.65 and inputs:
                inputs[draw.randrange(len(inputs))] = random_input(draw)
            elif self._asked:
                key = draw.choice(sorted(self._asked))
                given.pop(key, None)
                if draw.random() < 0.9:
                    given[key] = self._value(key)
        return inputs, Attributes(given)

    def learn(self, inputs: list[Input], attributes: Attributes, reason: str) -> None:
        """Note what became of a layer; the reason is empty if it was converted."""
        is_new = not attributes.asked <= self._asked.keys()
        for key in attributes.asked:
            self._asked.setdefault(key, ())
        if (choices := choices_of(reason)) is not None:
            self._asked[choices[0]] = choices[1]
        kind = re.sub(r"\w+ \w+\[[^]]*\]|'[^']*'|\w*[0-9]+\b(?! inputs)", "", reason)
        if is_new or kind not in self._reasons:
            self._reasons.add(kind)
            self._found.append((inputs, dict(attributes)))

    def _value(self, key: str) -> str:
        choices = self._asked[key]
        return self._draw.choice(choices if choices and self._draw.random() < 0.8 else _VALUES)


def choices_of(reason: str) -> tuple[str, tuple[str, ...]] | None:
    """The attribute that a refusal names, and the values it says are supported."""
    found = re.search(r"(\w+) = '[^']*' is not supported; (.*) are$", reason)
    return None if found is None else (found[1], tuple(found[2].split(", ")))


def network_of(op: str, inputs: list[Input], attributes: Mapping[str, str], outputs: int) -> Network:
    """A graph of one layer, `Gather-8`, of what feeds it and of its results, whose ports say neither type nor shape."""
    name, _, version = op.rpartition("-")
    feeding = [_feeding(k, given) for k, given in enumerate(inputs)]
    number = len(feeding)
    reads, makes = (tuple(Port(k, "", None) for k in ids) for ids in (range(number), range(number, number + outputs)))
    results = [Layer(number + 1 + k, f"r{k}", "Result", "opset1", {}, (Port(0, "", None),), ()) for k in range(outputs)]
    tested = Layer(number, "tested", name, f"opset{version}", attributes, reads, makes)
    sources = {(number, k): (k, 0) for k in range(number)}
    sources |= {(result.id, 0): (number, number + k) for k, result in enumerate(results)}
    return Network("model", {layer.id: layer for layer in (*feeding, tested, *results)}, sources)


def _feeding(number: int, given: Input) -> Layer:
    dims = [int(part) for part in given.shape.split(",") if part.isdecimal()]
    data = {"element_type": given.element_type, "shape": given.shape}
    port = Port(0, given.element_type, tuple(dims) if given.is_constant and dims else None)
    if given.is_constant:
        count = 1
        for size in dims:
            count *= size
        data |= {"offset": "0", "size": str(max(count * _SIZES[given.element_type], 1))}
    kind = "Const" if given.is_constant else "Parameter"
    return Layer(number, f"p{number}", kind, "opset1", data, (), (port,))


def without_inputs(network: Network, layer: int, count: int) -> Network:
    """The network with only the first inputs of a layer."""
    tested = network.layers[layer]
    gone = {(layer, port.id) for port in tested.inputs[count:]}
    sources = {reader: source for reader, source in network.sources.items() if reader not in gone}
    return replace(
        network, layers={**network.layers, layer: replace(tested, inputs=tested.inputs[:count])}, sources=sources
    )
