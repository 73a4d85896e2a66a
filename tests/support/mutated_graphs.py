"""Graphs that TensorFlow's library would not write, made from calls of all operators that the machine draws.

    python -m support.mutated_graphs --seed 0 --count 1000    # in the folder tests

A graph is converted, or refused by one clear error. Attributes are dropped, taken from other nodes and given other
kinds; inputs are rewired; operators, types, ranks and the values of constants are changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.random_findings import Finding, main
from support.tensorflow_kernels import built, drawn
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow_kernel_rows import ROWS

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.handlers import HANDLERS, STRUCTURE
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

#: How many graphs a process examines.
_AT_ONCE = 250
_INTEGERS = (-1, 0, 1, 2, 3, 7, 100, 2**31, 2**62, -(2**63))
#: What Python says of its own values, which is no explanation of a graph.
_OF_PYTHON = (
    *("index out of range", "not subscriptable", "object has no attribute", "to unpack", "not iterable"),
    *("NoneType", "KeyError", "unhashable", "unexpected keyword", "positional argument", "broadcast together"),
)


def _of_nodes(graph: Any, source: random.Random) -> Any:
    return source.choice(list(graph.node))


def _drop_attribute(graph: Any, source: random.Random) -> None:
    attributes = _of_nodes(graph, source).attr
    if attributes:
        del attributes[source.choice(sorted(attributes))]


def _take_attribute(graph: Any, source: random.Random) -> None:
    """An attribute gets the value of one of any node, of which it may have the kind or not."""
    taker, giver = _of_nodes(graph, source), _of_nodes(graph, source)
    if taker.attr and giver.attr:
        value = AttrValue()
        value.CopyFrom(giver.attr[source.choice(sorted(giver.attr))])
        taker.attr[source.choice(sorted(taker.attr))].CopyFrom(value)


def _change_attribute(graph: Any, source: random.Random) -> None:
    """An attribute gets another value of its kind."""
    attributes = _of_nodes(graph, source).attr
    if not attributes:
        return
    value = attributes[source.choice(sorted(attributes))]
    match value.WhichOneof("value"):
        case "type":
            value.type = source.choice([*DataType.values()[:25], 101])
        case "i":
            value.i = source.choice(_INTEGERS)
        case "f":
            value.f = source.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case "b":
            value.b = not value.b
        case "s":
            value.s = source.choice((b"", b"VALID", b"x", b"\xff", b"NCHW", value.s + b"x"))
        case "shape":
            _change_shape(value.shape, source)
        case "tensor":
            _change_tensor(value.tensor, source)
        case "list":
            _change_list(value.list, source)


def _change_shape(shape: Any, source: random.Random) -> None:
    match source.choice(("unknown", "more", "less", "size", "scalar")):
        case "unknown":
            shape.Clear()
            shape.unknown_rank = True
        case "more":
            shape.dim.add(size=source.choice((-1, 0, 1, 3)))
        case "less" if len(shape.dim):
            del shape.dim[-1]
        case "size" if len(shape.dim):
            source.choice(list(shape.dim)).size = source.choice((-1, -2, 0, 1, 3, 2**40))
        case _:
            shape.Clear()


def _change_tensor(tensor: Any, source: random.Random) -> None:
    match source.choice(("type", "shape", "content", "values")):
        case "type":
            tensor.dtype = source.choice(DataType.values()[:25])
        case "shape":
            _change_shape(tensor.tensor_shape, source)
        case "content":
            tensor.tensor_content = source.choice((b"", tensor.tensor_content[:-1], tensor.tensor_content + b"\0"))
        case "values":
            size = int(np.prod([dim.size for dim in tensor.tensor_shape.dim]))
            tensor.tensor_content = np.array([source.choice(_INTEGERS)] * min(max(size, 0), 64), np.int64).tobytes()


def _change_list(values: Any, source: random.Random) -> None:
    present = [field for field, _ in values.ListFields()]
    field = present[0].name if present else source.choice(("i", "s", "f", "type"))
    items = getattr(values, field)
    if len(items) and source.random() < 0.5:
        del items[source.randrange(len(items))]
    elif field == "shape":
        items.add()
    else:
        items.append({"i": source.choice(_INTEGERS), "s": b"x", "f": -1.5, "b": True}.get(field, source.choice((1, 3))))


def _rewire(graph: Any, source: random.Random) -> None:
    node, other = _of_nodes(graph, source), _of_nodes(graph, source)
    match source.choice(("drop", "repeat", "swap", "other", "other", "output", "control", "ghost", "text")):
        case "drop" if len(node.input):
            del node.input[source.randrange(len(node.input))]
        case "repeat" if len(node.input):
            node.input.append(node.input[0])
        case "swap" if len(node.input):
            kept = list(node.input)
            source.shuffle(kept)
            del node.input[:]
            node.input.extend(kept)
        case "other" if len(node.input):
            node.input[source.randrange(len(node.input))] = other.name
        case "output" if len(node.input):
            node.input[0] = f"{other.name}:{source.choice((1, 2, 9))}"
        case "control":
            node.input.insert(0, f"^{other.name}")
        case "ghost":
            node.input.append("ghost")
        case _:
            node.input.append(source.choice(("", ":", "x:y", "^", "a:0:0")))


def _change_operator(graph: Any, source: random.Random) -> None:
    _of_nodes(graph, source).op = source.choice(_OPERATORS)


def _change_rank(graph: Any, source: random.Random) -> None:
    holders = [node for node in graph.node if node.op == "Placeholder"]
    if holders:
        _change_shape(source.choice(holders).attr["shape"].shape, source)


_OPERATORS = sorted({*HANDLERS, *STRUCTURE})
MUTATIONS: Sequence[Callable[[Any, random.Random], None]] = (
    *(_drop_attribute, _take_attribute, _change_attribute, _change_attribute, _rewire, _change_operator, _change_rank),
)


def mutated(seed: int) -> tuple[Any, list[str], list[str], list[str]]:
    """A graph, its inputs and outputs, and what was done to it."""
    source = random.Random(f"mutated {seed}")
    while True:
        trial = drawn(source.choice(ROWS), source.randrange(10**9))
        try:
            made = built(trial)
        except (ValueError, TypeError):  # of TensorFlow's library
            continue
        break
    graph = made.graph.as_graph_def()
    steps = [trial.op]
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        mutation = source.choice(MUTATIONS)
        mutation(graph, source)
        steps.append(mutation.__name__.lstrip("_"))
    return graph, list(made.inputs), made.outputs, steps


def examine(seed: int) -> tuple[Finding | None, int]:
    """Convert a graph; returns what went wrong, and 1."""
    graph, inputs, outputs, steps = mutated(seed)
    try:
        definition = GraphDef.FromString(graph.SerializePartialToString())
        convert(from_graph(definition, name="mutated", inputs=inputs, outputs=outputs))
    except ConversionError as error:
        said = [each for each in _OF_PYTHON if each in str(error)]
        return (Finding(seed, "unclear", tuple(steps), " ".join(str(error).split())[-300:]) if said else None), 1
    except Exception as error:
        return Finding(seed, "failed", tuple(steps), f"{type(error).__name__}: {error}"[:300]), 1
    return None, 1


if __name__ == "__main__":
    main(__file__, examine, "mutated graphs", _AT_ONCE)
