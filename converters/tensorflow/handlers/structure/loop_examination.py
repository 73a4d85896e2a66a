"""What a round of a loop does with its variables, found without converting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.structure.lists import (
    WRITES,
    written,
)
from onnx_sparse.converters.tensorflow.handlers.structure.loop_sources import (
    Source,
    Variable,
    readers_of,
)
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.values import ListOfRows, ListOfTensors, Value
from onnx_sparse.converters.tensorflow.reading.scopes import Origin
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of


@dataclass(frozen=True)
class Scan:
    """A list of which each round writes one element.

    Attributes:
        place: The position that each round writes; None where it is the number of the round.
        grows: Whether more rounds than it has elements make it longer.
    """

    place: Value | None
    grows: bool


@dataclass
class Body:
    """What a round of a loop does with its variables, found without converting it.

    Attributes:
        variables: What stands for each variable.
        results: The origins of the variables after a round.
        constants: The variables that no round changes.
        scanned: The lists of which each round writes one element, by variable.
        appended: The lists of ragged tensors to which each round appends one.
    """

    variables: list[Variable]
    results: list[Any]
    constants: frozenset[int] = frozenset()
    scanned: Mapping[int, Scan] = field(default_factory=dict)
    appended: Sequence[int] = ()


def examine(context: Context, source: Source, initial: Sequence[Value]) -> Body:
    """What a round does with the variables."""
    variables = [Variable() for _ in initial]
    results = source.body(context, variables, "", source.scope.frame.body())
    if len(results) != len(variables):
        raise Unsupported(f"its body returns {len(results)} of {len(variables)} variables")
    test = source.condition(context, variables, "", source.scope.frame.body())
    found = Body(variables, results)
    found.constants = frozenset(k for k, result in enumerate(results) if result is variables[k])
    readers = readers_of(context, [*results, test])
    scanned: dict[int, Scan] = {}
    for k, result in enumerate(results):
        if isinstance(result, Origin) and _is_written_once(found, k, initial, readers):
            _, index, _, grows = written(result)
            if _counts(found, index, initial):
                scanned[k] = Scan(None, grows)
            elif not grows and (place := _constant(found, index, initial, context)) is not None:
                scanned[k] = Scan(place, grows)
    found.scanned = {k: scan for k, scan in scanned.items() if not isinstance(initial[k], ListOfRows)}
    found.appended = [k for k, scan in scanned.items() if isinstance(initial[k], ListOfRows) and scan.place is None]
    return found


def _is_written_once(body: Body, k: int, initial: Sequence[Value], readers: Mapping[int, list[Any]]) -> bool:
    """Whether a variable is a list of which each round writes one element, and reads none."""
    value, result = initial[k], body.results[k]
    write = result.scope.nodes[result.node]
    if not isinstance(value, ListOfTensors | ListOfRows) or value.rows is not None or write.op not in WRITES:
        return False
    given = written(result)[0]
    if given is not body.variables[k] or len(readers.get(id(given), [])) != 1:
        return False
    return body.results.count(result) == 1 and not readers.get(id(write))


def _constant(body: Body, index: Any, initial: Sequence[Value], context: Context) -> Value | None:
    """A number that is the same in each round; None if it may change."""
    place = next((j for j, variable in enumerate(body.variables) if variable is index), None)
    if place is not None:
        return initial[place] if place in body.constants else None
    if isinstance(index, Origin) and index.scope.nodes[index.node].op == "Const":
        proto = index.scope.nodes[index.node].attr["value"].tensor
        return context.frame.emit.constant(np.array(array_of(proto)))
    return None


def _counts(body: Body, index: Any, initial: Sequence[Value]) -> bool:
    """Whether a number is that of the round: 0 in the first, and one more in each."""
    place = next((j for j, variable in enumerate(body.variables) if variable is index), None)
    start = initial[place] if place is not None else None
    if (
        place is None
        or not isinstance(start, Tensor)
        or start.value is None
        or start.value.size != 1
        or start.value.any()
    ):
        return False
    after = body.results[place]
    if not isinstance(after, Origin) or after.scope.nodes[after.node].op not in ("Add", "AddV2"):
        return False
    operands = after.scope.origins(after.scope.nodes[after.node])
    others = [operand for operand in operands if operand is not index]
    return len(operands) == 2 and len(others) == 1 and _is_one(others[0])


def _is_one(origin: Any) -> bool:
    if not isinstance(origin, Origin):
        return False
    node = origin.scope.nodes[origin.node]
    if node.op != "Const":
        return False
    array = array_of(node.attr["value"].tensor)
    return array.dtype.kind in "iu" and array.size == 1 and int(array.reshape(())) == 1
