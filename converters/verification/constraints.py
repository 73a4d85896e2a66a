"""What a model's operators demand of the values of its inputs, and the values at which their answers change.

Constraints are found by walking back from the operators that state them: a comparison with a constant, the keys of a
table, the rows of a lookup, a pattern that text must have, the window of a convolution.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from onnx_sparse.converters.verification.dataflow import Dataflow, Origin
from onnx_sparse.converters.verification.encoded_texts import encoded_texts
from onnx_sparse.converters.windows import least_sizes
from onnx_sparse.models.graphs import attributes
from onnx_sparse.models.key_lookups import LOOKUPS, some_keys
from onnx_sparse.schemas import DOMAIN, OPS, embedding, embedding_bag, quantized_embedding, segment, unsorted_segment

_COMPARISONS = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod"])

#: Operators that look up rows of a table.
_LOOKUPS = embedding.FAMILY.names | embedding_bag.FAMILY.names | quantized_embedding.FAMILY.names

#: Operators of windows, and how long an input may be that the windows of a whole model need.
_WINDOWED = ("Conv", "ConvInteger", "QLinearConv", "AveragePool", "MaxPool", "LpPool")
_LONGEST_CHAIN = 64

#: Some keys of each table are enough.
_MOST_KEYS = 20

#: Larger numbers are not taken for the size of a row.
_LARGEST_UNIT = 64

#: Operators whose text is read as a number.
_NUMERIC = frozenset(["StringToNumber"])


@dataclass
class Constraints:
    """What is known about the values of inputs and of the features of messages.

    Attributes:
        words: Texts that make a difference: constants that are compared with, and what patterns match.
        numbers: Numbers that make a difference: constants that are compared with, and their neighbors.
        keys: Some of the texts or numbers that tables know.
        bounds: The least and the largest legal number: the rows of a lookup.
        ascending: Integers that must not fall: segment ids, perhaps with a number added.
        numeric: Text that must be a number, perhaps only in some of its places, with the tensors that tell whether it
            is.
        separators: What text is split at.
        least_sizes: Sizes that windows need, the largest last.
        units: Numbers of values that form a row: by which row splits are divided, or to which values are reshaped.
        step_sizes: How many values of a feature form one step of a sequence, if its rows are reshaped to such steps.
        stated: What some features are of which the operators tell: what is summed up as it is, lengths; what is summed
            up by the largest in each row and one more, ids of rows.
        encoded: The texts for inputs that are decoded; others are refused.
        partitions: Features that may say how the values of others form rows, with the tensors that are row splits or
            true if they do.
        square: Dense shapes of which all sizes must be the same: coordinates are checked against one size of it, taken
            several times, as of the matrix of a graph's edges.
        outputs: The outputs that these reach.
    """

    words: dict[Origin, list[str]] = field(default_factory=lambda: defaultdict(list))
    numbers: dict[Origin, list[float]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[Origin, list[Any]] = field(default_factory=dict)
    bounds: dict[Origin, tuple[int, int]] = field(default_factory=dict)
    ascending: set[Origin] = field(default_factory=set)
    numeric: dict[Origin, list[str]] = field(default_factory=lambda: defaultdict(list))
    separators: dict[Origin, list[str]] = field(default_factory=lambda: defaultdict(list))
    least_sizes: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    step_sizes: dict[Origin, int] = field(default_factory=dict)
    stated: dict[Origin, str] = field(default_factory=dict)
    encoded: dict[Origin, list[str]] = field(default_factory=dict)
    partitions: dict[Origin, list[str]] = field(default_factory=dict)
    square: set[str] = field(default_factory=set)
    outputs: dict[Origin, list[str]] = field(default_factory=lambda: defaultdict(list))


def find_constraints(model: ModelProto) -> Constraints:
    """What the operators of a model demand of its inputs."""
    flow = Dataflow(model)
    found = Constraints(encoded=encoded_texts(flow))
    for node in flow.nodes:
        if node.domain == DOMAIN and node.op_type in OPS:
            _ascending(flow, found, node)
        if node.op_type == "ValidateSparseIndices" and len(parts := _joined(flow, node.input[1])) > 1:
            found.square |= {origin.input for origin in flow.origins(parts[0])} if len({*parts}) == 1 else set()
        if node.op_type in _COMPARISONS and len(node.input) == 2:
            _compared(flow, found, node)
        elif node.op_type in LOOKUPS:
            _looked_up(flow, found, node)
        elif node.op_type in ("Gather", "GatherElements"):
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            _bound(flow, found, node.input[1], _size(flow, node.input[0], axis))
        elif node.op_type in _LOOKUPS:
            # The indices are behind the table and, of a quantized one, its scales and offsets.
            place = next(k for k, name in enumerate(_names_of_inputs(node)) if name == "indices")
            _bound(flow, found, node.input[place], _size(flow, node.input[0], 0))
        elif node.op_type == "RegexFullMatch":
            _matched(flow, found, node)
        elif node.op_type in _NUMERIC:
            for origin in flow.origins(node.input[0]):
                found.numeric[origin].append("")
        elif node.op_type == "RaggedStringSplit":
            separator = flow.constant(node.input[1])
            if separator is not None:
                for origin in flow.origins(node.input[0]):
                    found.separators[origin].append(_text(separator.item()))
        elif node.op_type in _WINDOWED:
            found.least_sizes += _windows(flow, node)
        elif node.op_type == "Div":
            divisor = flow.constant(node.input[1])
            if (
                divisor is not None
                and divisor.size == 1
                and divisor.dtype.kind == "i"
                and 1 < divisor.item() <= _LARGEST_UNIT
            ):
                found.units.append(int(divisor.item()))
        elif node.op_type == "Reshape":
            found.units += _row_sizes(flow, node)
            _sequence(flow, found, node)
    found.least_sizes += _chained_windows(flow)
    found.least_sizes = sorted({size for size in found.least_sizes if size > 1})
    found.units = sorted(set(found.units))
    _find_partitions(flow, found)
    if found.partitions:
        for value in model.graph.output:
            for origin in flow.reaching(value.name, by_size=True) & found.partitions.keys():
                found.outputs[origin].append(value.name)
    return found


def _ascending(flow: Dataflow, found: Constraints, node: NodeProto) -> None:
    for declared, name in zip(OPS[node.op_type].inputs, node.input, strict=False):
        if declared.values.kind == "sorted_segment":
            for origin, raised in flow.origins(name).items():
                low, high = found.bounds.get(origin, (-(2**62), 2**62))
                if raised:
                    found.bounds[origin] = max(low, *(-by for by in raised)), high
                    found.ascending.add(origin)


def _joined(flow: Dataflow, name: str) -> list[str]:
    """The tensors that are joined to make a tensor; none if it is made otherwise."""
    node = flow.producer(name)
    return [*node.input] if node is not None and node.op_type == "Concat" else []


def _names_of_inputs(node: NodeProto) -> list[str]:
    return [declared.name for declared in OPS[node.op_type].inputs]


def _refuses_negative_ids(flow: Dataflow, node: NodeProto) -> bool:
    """Whether a comparison only puts an id that is out of range in place of negative ones (`checked-ids`)."""
    chosen = flow.readers(node.output[0])
    lowest = [flow.constant(where.input[1]) for where in chosen if where.op_type == "Where"]
    return (
        node.op_type == "Less"
        and len(lowest) == len(chosen) > 0
        and all(value is not None and value.size == 1 and value.item() < -(2**30) for value in lowest)
    )


def _compared(flow: Dataflow, found: Constraints, node: NodeProto) -> None:
    if _refuses_negative_ids(flow, node):
        return
    for name, other in (node.input, reversed(node.input)):
        constant = flow.choices(other)
        if constant is None:
            continue
        for origin, raised in flow.origins(name).items():
            for value in constant.ravel().tolist():
                if isinstance(value, str | bytes):
                    _add(found.words[origin], [_text(value)])
                elif not isinstance(value, bool) and math.isfinite(value):
                    near = [value] if node.op_type == "Equal" else [value, value - 1, value + 1]
                    _add(found.numbers[origin], [each - by for each in near for by in sorted(raised)[:4]])


def _looked_up(flow: Dataflow, found: Constraints, node: NodeProto) -> None:
    keys = some_keys(node, flow.tensors, _MOST_KEYS)
    for origin in flow.origins(node.input[LOOKUPS[node.op_type]]) if keys else ():
        _add(found.keys.setdefault(origin, []), keys)


def _bound(flow: Dataflow, found: Constraints, ids: str, rows: int | None) -> None:
    for origin, raised in flow.origins(ids).items() if rows else ():
        if not raised:
            continue
        assert rows is not None
        starts, ends = [-by for by in raised], [rows - 1 - by for by in raised]
        low, high = max(starts), min(ends)
        if high - low + 1 < rows / 2:  # negative ids count from the end: some are raised, and others are not
            low, high = min(starts), max(ends)
        known = found.bounds.get(origin, (-(2**62), 2**62))
        both = max(known[0], low), min(known[1], high)
        found.bounds[origin] = both if both[0] <= both[1] else known


def _size(flow: Dataflow, name: str, axis: int) -> int | None:
    shape = flow.shapes.get(name, [])
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _matched(flow: Dataflow, found: Constraints, node: NodeProto) -> None:
    """Text that a pattern is held against: a number that is read later, where what does not match is replaced."""
    chosen = [reader for reader in flow.readers(node.output[0]) if reader.op_type == "Where"]
    read = any(cast.op_type == "Cast" for where in chosen for cast in flow.readers(where.output[0]))
    for origin in flow.origins(node.input[0]):
        if read:
            found.numeric[origin].append(node.output[0])
        else:
            pattern = next((_text(a.s) for a in node.attribute if a.name == "pattern"), "")
            _add(found.words[origin], _matching(pattern))


def _matching(pattern: str) -> list[str]:
    """Texts that match a pattern, if it is one of Python's, too."""
    import re
    import re._parser as parser  # type: ignore[import-not-found]

    try:
        re.compile(pattern)
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return []
    return list(
        dict.fromkeys(text for text in (_sampled(parsed, most) for most in (0, 1)) if re.fullmatch(pattern, text))
    )


def _sampled(parsed: Any, most: int) -> str:
    """One text of a parsed pattern, with its repetitions as short as can be, or as often as `most` beyond that."""
    text = ""
    for operator, argument in parsed:
        name = str(operator)
        if name == "LITERAL":
            text += chr(argument)
        elif name == "ANY":
            text += "x"
        elif name == "IN":
            text += _member(argument)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, body = argument
            text += _sampled(body, most) * min(int(high), int(low) + most)
        elif name == "BRANCH":
            text += _sampled(argument[1][most % len(argument[1])], most)
        elif name == "SUBPATTERN":
            text += _sampled(argument[-1], most)
    return text


def _member(members: Any) -> str:
    """One character of a set."""
    classes = {"CATEGORY_DIGIT": "7", "CATEGORY_WORD": "w", "CATEGORY_SPACE": " "}
    if str(members[0][0]) == "NEGATE":
        excluded = {chr(value) for operator, value in members[1:] if str(operator) == "LITERAL"}
        return next(c for c in "x7 -_ßq" if c not in excluded)
    operator, value = members[0]
    if str(operator) == "RANGE":
        return chr(value[0])
    return classes.get(str(value), "x") if str(operator) == "CATEGORY" else chr(value)


def _windows(flow: Dataflow, node: NodeProto) -> list[int]:
    """The sizes from which on a window fits into its padded axis."""
    given = attributes(node)
    kernel = given.get("kernel_shape")
    if kernel is None:
        place = 3 if node.op_type == "QLinearConv" else 1
        weight = flow.shapes.get(node.input[place], []) if len(node.input) > 1 else []
        kernel = [size or 1 for size in weight[2:]]
    return least_sizes(given, kernel)


def _chained_windows(flow: Dataflow) -> list[int]:
    """What all windows need if each has the results of those before it; nothing where that is much."""
    needed, stride = 1, 1
    for node in flow.nodes:
        if node.op_type in _WINDOWED:
            needed += stride * (max(_windows(flow, node), default=1) - 1)
            stride *= max(attributes(node).get("strides", ()), default=1)
    return [needed] if needed <= _LONGEST_CHAIN else []


def _is_largest_of_rows(node: NodeProto) -> bool:
    """Whether a node takes the maximum of each segment's rows."""
    is_segment = node.op_type in segment.FAMILY.names | unsorted_segment.FAMILY.names
    return node.domain == DOMAIN and is_segment and OPS[node.op_type].reduction == "max"


def _row_sizes(flow: Dataflow, node: NodeProto) -> list[int]:
    """The size of the rows to which any number of values of a feature is reshaped."""
    name = node.input[1]
    while (chosen := flow.producer(name)) is not None and chosen.op_type == "Where":
        name = chosen.input[2]  # the dimension of -1, or all, may be computed where there are no values
    shape = flow.constant(name)
    if shape is None or (shape < 0).sum() != 1 or not any(o in flow.uncounted for o in flow.origins(node.input[0])):
        return []
    size = int(-np.prod(shape))
    return [size] if 1 < size <= _LARGEST_UNIT else []


def _sequence(flow: Dataflow, found: Constraints, node: NodeProto) -> None:
    """The size of the steps to which rows of values of a feature are reshaped: the shape is [rows, -1, size]."""
    name = node.input[1]
    while (maker := flow.producer(name)) is not None and maker.op_type in ("Cast", "Where"):
        name = maker.input[0 if maker.op_type == "Cast" else 2]
    if maker is None or maker.op_type != "Concat":
        return
    parts = [flow.constant(part) for part in maker.input]
    open_at = next((k for k, part in enumerate(parts) if part is not None and part.tolist() == [-1]), None)
    inner = [part for part in parts[open_at + 1 :] if part is not None] if open_at else []
    if open_at and len(inner) == len(parts) - open_at - 1:
        size = math.prod(int(dim) for part in inner for dim in part.ravel())
        if 1 < size <= _LARGEST_UNIT:
            found.step_sizes |= dict.fromkeys(flow.uncounted.intersection(flow.origins(node.input[0])), size)


def _find_partitions(flow: Dataflow, found: Constraints) -> None:
    """The integer features from which row splits are made: by a running sum, or checked or counted as such."""
    checks: dict[Origin, list[str]] = {}
    for node in flow.nodes:
        if node.op_type == "ValidateRowSplits":
            for origin in flow.reaching(node.input[0]):
                checks.setdefault(origin, []).append(node.output[0])
        elif node.op_type == "CumSum":
            counts = flow.producer(node.input[0])
            if counts is not None and counts.op_type == "ScatterElements":  # which row each value is in
                for origin in flow.reaching(counts.input[1]):
                    checks.setdefault(origin, []).append(counts.input[1])
            for origin in flow.origins(node.input[0]):
                checks.setdefault(origin, [])
                found.stated[origin] = "lengths"
        elif _is_largest_of_rows(node) and flow.is_summed_up(node.output[0]):
            for origin, raised in flow.origins(node.input[0]).items():
                if 1 in raised:
                    checks.setdefault(origin, [])
                    found.stated[origin] = "rowids"
    for node in flow.nodes:  # of nested rows, the outer ones must end with the number of the inner ones
        if node.op_type == "ValidateRowSplits":
            for origin in flow.reaching(node.input[1], by_size=True):
                if origin in checks:
                    checks[origin].append(node.output[0])
    found.partitions = {
        origin: list(dict.fromkeys(names))
        for origin, names in checks.items()
        if origin.key is not None and origin not in found.bounds
    }


def _add(known: list[Any], more: Iterable[Any]) -> None:
    known += [value for value in dict.fromkeys(more) if value not in known]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
