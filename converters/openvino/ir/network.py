"""The graph of an IR: layers, their ports and the edges between them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_sparse.converters.errors import ConversionError


@dataclass(frozen=True)
class Port:
    """An input or output of a layer.

    Attributes:
        id: Its number; a layer's inputs and outputs are numbered in one sequence.
        precision: OpenVINO's name of the element type in lower case, `f32`; empty if the file does not say.
        dims: Its dimensions, -1 for an unknown one. None if the file has none: a scalar and a tensor of unknown rank
            look the same.
        names: The names of the tensor.
    """

    id: int
    precision: str
    dims: tuple[int, ...] | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edge:
    """From an output of a layer to an input of another."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int


@dataclass(frozen=True)
class BodyMap:
    """How a port of If, Loop or TensorIterator is tied to a layer of a body.

    Attributes:
        kind: `input`, `output` or `edge` (a back edge).
        attributes: Its attributes in the file: `external_port_id`, `internal_layer_id`, `axis`, `purpose`, ...
    """

    kind: str
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class Layer:
    """A layer.

    Attributes:
        id: Its number.
        name: Its name.
        type: The operator, `MatMul`.
        version: The operator set, `opset1`.
        data: Its attributes, as text.
        inputs: Its input ports.
        outputs: Its output ports.
        bodies: The graphs of If, Loop and TensorIterator: `body`, `then_body`, `else_body`.
        maps: How the bodies are tied to the ports: `port_map`, `back_edges`, `then_port_map`, `else_port_map`.
    """

    id: int
    name: str
    type: str
    version: str
    data: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    bodies: Mapping[str, Network] = field(default_factory=dict)
    maps: Mapping[str, tuple[BodyMap, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"layer {self.id} {self.name!r} ({self.type})"


@dataclass(frozen=True)
class Network:
    """The layers of a graph in the order of the file, and the edges by the input that they lead to.

    Attributes:
        name: Its name.
        layers: The layers by number.
        sources: For each input, as (layer, port), the output that feeds it, as (layer, port).
    """

    name: str
    layers: Mapping[int, Layer]
    sources: Mapping[tuple[int, int], tuple[int, int]]

    def ordered(self) -> list[Layer]:
        """The layers, each after its sources, otherwise in the order of the file.

        Raises:
            ConversionError: The layers form a cycle.
        """
        waiting = dict.fromkeys(self.layers, 0)
        readers: dict[int, list[int]] = {number: [] for number in self.layers}
        for (reader, _), (producer, _) in self.sources.items():
            waiting[reader] += 1
            readers[producer].append(reader)
        position = {number: place for place, number in enumerate(self.layers)}
        numbers = list(self.layers)
        order: list[Layer] = []
        ready = [position[number] for number, count in waiting.items() if count == 0]  # sorted, and therefore a heap
        while ready:
            number = numbers[heapq.heappop(ready)]
            order.append(self.layers[number])
            for reader in readers[number]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heapq.heappush(ready, position[reader])
        if len(order) < len(self.layers):
            stuck = next(self.layers[number] for number, count in waiting.items() if count)
            raise ConversionError(f"the layers of {self.name!r} form a cycle, at or before {stuck}")
        return order

    def port(self, layer: int, port: int) -> Port:
        """An output port."""
        return next(p for p in self.layers[layer].outputs if p.id == port)
