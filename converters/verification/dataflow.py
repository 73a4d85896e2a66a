"""Where the elements of a tensor come from: the inputs of the graph, and the features of messages, that reach it."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from onnx_sparse.models.graphs import array_of, graphs
from onnx_sparse.schemas import DOMAIN

Array = np.ndarray[Any, Any]


class Origin(NamedTuple):
    """An input of the graph, or a feature of the messages that an input holds.

    Attributes:
        input: The name of the input.
        key: The key of the feature; None for the elements of the input themselves.
    """

    input: str
    key: bytes | None = None


#: The inputs whose elements an operator hands on as they are, in other places or another type.
_HANDED_ON: dict[str, tuple[int, ...] | None] = (
    dict.fromkeys(
        [
            *(
                "Cast",
                "Compress",
                "Expand",
                "Flatten",
                "Floor",
                "Gather",
                "GatherElements",
                "GatherND",
                "Identity",
                "Pad",
            ),
            *("Reshape", "Round", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unique", "Unsqueeze"),
        ],
        (0,),
    )
    | dict.fromkeys(["ScatterElements", "ScatterND"], (0, 2))
    | {"Where": (1, 2), "Concat": None, "SparseFillEmptyRows": (0, 2), "RaggedFillEmptyRows": (1,)}
)

#: Operators whose text is taken from their input's.
_OF_TEXT = frozenset(
    [
        *("RaggedStringSplit", "ReplaceCharacters", "RegexReplace", "StringCase", "StringNormalizer", "StringSplit"),
        *("StringStrip", "Substr"),
    ]
)

_PARSERS = ("ParseExample", "ParseSequenceExample")

#: The element types of their outputs with values.
_TYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING)

#: Operators that may replace some elements of numbers, which are numbers of rows nevertheless.
_REPLACING = frozenset(["Cast", "Clip", "Identity", "Max", "Where"])

#: Operators all elements of whose result are elements of their first input.
_CHOOSING = frozenset(
    [
        "Expand",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)

#: Longer lists of constants are not looked at.
_MOST_CONSTANTS = 64


class Dataflow:
    """The ways of elements through a graph.

    Attributes:
        nodes: All nodes, also those of bodies.
    """

    def __init__(self, model: ModelProto) -> None:
        self.nodes = [node for graph in graphs(model.graph) for node in graph.node]
        self.inputs = {value.name for value in model.graph.input}
        self._producers: dict[str, tuple[NodeProto, int]] = {}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in self.nodes:
            self._producers |= {name: (node, place) for place, name in enumerate(node.output) if name}
            for name in {*node.input}:
                self._readers[name].append(node)
        self.tensors = {tensor.name: tensor for graph in graphs(model.graph) for tensor in graph.initializer}
        self._origins: dict[str, dict[Origin, set[int]]] = {}
        self.shapes = {
            value.name: [
                dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim
            ]
            for graph in graphs(model.graph)
            for value in (*graph.input, *graph.value_info)
        } | {name: list(tensor.dims) for name, tensor in self.tensors.items()}

    def producer(self, name: str) -> NodeProto | None:
        """The node that makes a tensor."""
        return self._producers.get(name, (None, 0))[0]

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes that take a tensor."""
        return self._readers.get(name, [])

    def constant(self, name: str) -> Array | None:
        """A constant of a few elements; None if the tensor is none."""
        tensor = self.tensors.get(name)
        node = self.producer(name)
        if node is not None and node.op_type == "Constant":
            tensor = next((a.t for a in node.attribute if a.name == "value"), None)
        if tensor is None or np.prod(tensor.dims, dtype=np.int64) > _MOST_CONSTANTS:
            return None
        try:
            return array_of(tensor)
        except ValueError:  # its data is elsewhere
            return None

    def choices(self, name: str) -> Array | None:
        """The few constants of which all elements of a tensor are; None if others may be among them."""
        while (value := self.constant(name)) is None:
            node = self.producer(name)
            if node is None or node.op_type not in _CHOOSING:
                return None
            name = node.input[0]
        return value

    @cached_property
    def uncounted(self) -> set[Origin]:
        """The features of messages that may have any number of values."""
        found = set()
        for node in self.nodes:
            if node.domain == DOMAIN and node.op_type in _PARSERS:
                keys, sizes = self.constant(node.input[1]), self.constant(node.input[3])
                if keys is not None and sizes is not None:
                    pairs = zip(keys.tolist(), sizes.tolist(), strict=True)
                    found |= {Origin(node.input[0], _key(key)) for key, size in pairs if size < 0}
        return found

    def is_summed_up(self, name: str) -> bool:
        """Whether a tensor reaches a running sum, perhaps with its negative elements replaced."""
        waiting, seen = [name], set()
        while waiting:
            current = waiting.pop()
            for node in self.readers(current):
                if node.op_type == "CumSum":
                    return True
                if node.op_type in _REPLACING and node.output[0] not in seen:
                    seen.add(node.output[0])
                    waiting.append(node.output[0])
        return False

    def origins(self, name: str) -> dict[Origin, set[int]]:
        """What the elements of a tensor are taken from, and by how much they may have been raised on the way."""
        if name not in self._origins:
            self._origins[name] = {}  # so that a circle of bodies ends
            self._origins[name] = self._found(name)
        return self._origins[name]

    def _found(self, name: str) -> dict[Origin, set[int]]:
        if name in self.inputs:
            return {Origin(name): {0}}
        node, place = self._producers.get(name, (None, 0))
        if node is None:
            return {}
        if node.domain == DOMAIN and node.op_type in _PARSERS:
            return {origin: {0} for origin in self._parsed(node, place)}
        if node.op_type == "Split" and (features := self._split(node, place)) is not None:
            return features
        if node.op_type in _OF_TEXT:
            return self.origins(node.input[0])
        if node.op_type in ("Add", "Sub"):
            return self._raised(node)
        if node.op_type not in _HANDED_ON:
            return {}
        places = _HANDED_ON[node.op_type]
        found: dict[Origin, set[int]] = {}
        for taken in node.input if places is None else [node.input[k] for k in places if k < len(node.input)]:
            for origin, raised in self.origins(taken).items():
                found.setdefault(origin, set()).update(raised)
        return found

    def _raised(self, node: NodeProto) -> dict[Origin, set[int]]:
        """What a sum with a constant integer is taken from."""
        values = [self.constant(name) for name in node.input]
        pairs = [(node.input[0], values[1])]
        if node.op_type == "Add":
            pairs.append((node.input[1], values[0]))
        for name, value in pairs:
            if value is not None and value.size == 1 and value.dtype.kind in "iuf" and float(value.item()).is_integer():
                by = int(value.item()) * (1 if node.op_type == "Add" else -1)
                return {o: {r + by for r in raised} for o, raised in self.origins(name).items() if len(raised) < 8}
        return {}

    def _split(self, node: NodeProto, place: int) -> dict[Origin, set[int]] | None:
        """The one feature of several that a part of a parser's output has; None for parts of other tensors."""
        parser, at = self._producers.get(node.input[0], (None, 0))
        if parser is None or parser.domain != DOMAIN or parser.op_type not in _PARSERS:
            return None
        features = self._parsed(parser, at)
        return {features[place]: {0}} if place < len(features) else {}

    def _parsed(self, parser: NodeProto, place: int) -> list[Origin]:
        """The features whose values an output of a parser has: those of one element type, one after the other."""
        keys, types = self.constant(parser.input[1]), self.constant(parser.input[2])
        if keys is None or types is None or parser.input[0] not in self.inputs or place >= len(_TYPES):
            return []
        chosen = [key for key, dtype in zip(keys.tolist(), types.tolist(), strict=True) if dtype == _TYPES[place]]
        return [Origin(parser.input[0], _key(key)) for key in chosen]

    def reaching(self, name: str, *, by_size: bool = False) -> set[Origin]:
        """The origins whose values, or also whose sizes, a tensor depends on in any way."""
        found: set[Origin] = set()
        seen = {name}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            found |= self.origins(current).keys()
            node = self.producer(current)
            if node is None or node.op_type in _PARSERS or (node.op_type in ("Shape", "Size") and not by_size):
                continue
            if node.op_type == "Split" and self._split(node, 0) is not None:  # other features are in what is split
                continue
            for taken in node.input:
                if taken not in seen:
                    seen.add(taken)
                    waiting.append(taken)
        return found


def _key(key: bytes | str) -> bytes:
    return key if isinstance(key, bytes) else key.encode()
