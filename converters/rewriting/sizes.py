"""Symbolic sizes of tensors: equal symbols are equal numbers in every run.

A size is the product of a number and elements of tensors: `(2, (("s", 0), ("s", 1)))` is 2 * s[0] * s[1].
"""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce

from onnx import NodeProto, numpy_helper

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import shape_items

Size = tuple[int, tuple[tuple[str, int], ...]]

#: What precedes the name of a tensor in the symbols of its sizes.
_SHAPE_OF = "the shape of "

#: Operators that pass their first input on.
_CHECKS = ("ValidateRowSplits", "ValidateSparseIndices")

#: Operators whose result has the shape of their first input.
_SCATTERS = ("Scatter", "ScatterElements", "ScatterND")

_TRANSPARENT = ("Cast", "Identity", "Squeeze", "Unsqueeze")


def size_of(number: int) -> Size:
    """A known number as a size."""
    return (number, ())


def sizes(graph: Graph, name: str) -> list[Size] | None:
    """The elements of an integer vector (or scalar, as a list of one); None if their number is not known.

    Casts are ignored: where TensorFlow casts sizes, it keeps them in int32 itself.
    """
    values = graph.integers(name)
    if values is not None:
        return [size_of(value) for value in values]
    node = graph.producer(name)
    known = _computed(graph, node) if node is not None else None
    if known is not None:
        return known
    shape = graph.shape(name)
    if shape == ():
        return [(1, ((name, 0),))]
    if shape is None or len(shape) != 1 or shape[0] is None:
        return None
    return [(1, ((name, k),)) for k in range(shape[0])]


def shape_sizes(graph: Graph, name: str) -> list[Size] | None:
    """The dimensions of a tensor."""
    shape = graph.shape(name)
    if shape is None and (scatter := graph.producer(name, *_SCATTERS)) is not None:
        return shape_sizes(graph, scatter.input[0])
    return None if shape is None else [_dimension(graph, name, axis, size) for axis, size in enumerate(shape)]


def measured(symbol: tuple[str, int]) -> tuple[str, int] | None:
    """The tensor and the axis whose size a symbol is; None if it is an element of a tensor."""
    of, axis = symbol
    return (of.removeprefix(_SHAPE_OF), axis) if of.startswith(_SHAPE_OF) else None


def _dimension(graph: Graph, name: str, axis: int, size: int | None) -> Size:
    if size is not None:
        return size_of(size)
    node = graph.producer(name) if axis == 0 else None
    if node is not None and node.op_type in _CHECKS:
        return _dimension(graph, node.input[0], axis, size)
    if node is not None:
        count = None if node.op_type not in OPS else _declared_size(graph, node, list(node.output).index(name))
        if count is not None:
            return count
    return (1, ((f"{_SHAPE_OF}{name}", axis),))


def _declared_size(graph: Graph, node: NodeProto, output: int) -> Size | None:
    """The number of rows that an operator of the domain makes, if its declaration says that an input is that number."""
    op = OPS[node.op_type]
    rows = shape_items(op.outputs[output].shape)[0]
    place = next((k for k, i in enumerate(op.inputs) if i.name == rows and not i.optional and not i.shape), None)
    count = None if place is None else sizes(graph, node.input[place])
    return None if count is None else count[0]


def _computed(graph: Graph, node: NodeProto) -> list[Size] | None:
    if node.op_type in _TRANSPARENT:
        return sizes(graph, node.input[0])
    if node.op_type == "Shape":
        taken = shape_sizes(graph, node.input[0])
        # ONNX bounds `start` and `end` as Python does.
        return None if taken is None else taken[slice(attribute(node, "start", 0), attribute(node, "end", None))]
    if node.op_type == "Size" and graph.producer(node.input[0], "Shape") is not None:
        taken = sizes(graph, node.input[0])
        return None if taken is None else [size_of(len(taken))]
    if node.op_type == "Size":
        taken = shape_sizes(graph, node.input[0])
        return None if taken is None else [product_of(taken)]
    if node.op_type == "Concat":
        parts = [sizes(graph, name) for name in node.input]
        return None if any(p is None for p in parts) else [size for part in parts if part for size in part]
    if node.op_type == "Reshape":
        target, taken = graph.integers(node.input[1]), sizes(graph, node.input[0])
        return taken if target is not None and len(target) <= 1 else None
    if node.op_type == "ReduceProd":
        taken = sizes(graph, node.input[0])
        return None if taken is None else [product_of(taken)]
    if node.op_type == "Gather" and attribute(node, "axis", 0) == 0:
        taken, at = sizes(graph, node.input[0]), graph.integers(node.input[1])
        return None if taken is None or at is None else [taken[k] for k in at if -len(taken) <= k < len(taken)]
    if node.op_type == "Slice":
        return _sliced(graph, node)
    if node.op_type == "Sub":
        return _difference(graph, node)
    if node.op_type == "ConstantOfShape":
        return _repeated(graph, node)
    if node.op_type == "Where":
        return _kept(graph, node)
    if node.op_type == "Mul":
        return _products(graph, node)
    return None


def _difference(graph: Graph, node: NodeProto) -> list[Size] | None:
    """The difference of two known numbers, such as ranks."""
    sides = [sizes(graph, name) for name in node.input]
    numbers = [side[0][0] for side in sides if side is not None and len(side) == 1 and not side[0][1]]
    return [size_of(numbers[0] - numbers[1])] if len(numbers) == 2 else None


def _products(graph: Graph, node: NodeProto) -> list[Size] | None:
    """The products of sizes and numbers."""
    sides = [sizes(graph, name) for name in node.input]
    if any(side is None for side in sides):
        return None
    one, other = (side or [] for side in sides)
    if len(one) != len(other) and 1 not in (len(one), len(other)):
        return None
    length = max(len(one), len(other)) if one and other else 0
    return [product_of([side[k % len(side)] for side in (one, other)]) for k in range(length)]


def _kept(graph: Graph, node: NodeProto) -> list[Size] | None:
    """Sizes that stay where they are not -1: how torch's exporter writes the sizes of an expansion."""
    test = graph.producer(node.input[0], "Equal")
    if test is None or node.input[2] not in test.input:
        return None
    marks = next((name for name in test.input if name != node.input[2]), node.input[2])
    taken, without, marked = sizes(graph, node.input[2]), sizes(graph, node.input[1]), sizes(graph, marks)
    if taken is None or without is None or not len(taken) == len(without) == len(marked or ()):
        return None
    if marked != [size_of(-1)] * len(taken):
        return None
    is_size = [not symbols or all(measured(symbol) for symbol in symbols) for _, symbols in taken]
    if not all(is_size):
        return None  # an element of a tensor may be -1
    return [other if size == size_of(-1) else size for size, other in zip(taken, without, strict=True)]


def _repeated(graph: Graph, node: NodeProto) -> list[Size] | None:
    length, value = sizes(graph, node.input[0]), attribute(node, "value")
    if length is None or len(length) != 1 or length[0][1] or value is None:
        return None
    return [size_of(int(numpy_helper.to_array(value).item()))] * length[0][0]


def _sliced(graph: Graph, node: NodeProto) -> list[Size] | None:
    taken = sizes(graph, node.input[0])
    bounds = [graph.integers(name) for name in node.input[1:]]
    if taken is None or bounds[3:] not in ([], [[1]]) or any(bound is None or len(bound) != 1 for bound in bounds):
        return None  # unknown bounds, or steps
    start, end = ((bound or [0])[0] for bound in bounds[:2])
    return taken[start:end]


def product_of(factors: list[Size]) -> Size:
    """The product of sizes."""
    return math.prod(number for number, _ in factors), tuple(sorted(f for _, symbols in factors for f in symbols))


def quotient(size: Size, divisor: Size) -> Size | None:
    """What is left of a size without a divisor that is known to divide it; None if it is not."""
    (number, symbols), (by, without) = size, divisor
    left, others = Counter(symbols), Counter(without)
    if by == 0 or number % by or not others <= left:
        return None
    return number // by, tuple(sorted((left - others).elements()))


def written_size(graph: Graph, emit: Emitter, size: Size) -> Tensor:
    """A size whose symbols are sizes of tensors, as a vector of one element."""
    number, symbols = size
    factors = [emit.constant([number])] if number != 1 or not symbols else []
    for name, axis in filter(None, map(measured, symbols)):
        shape = emit.shape_of(graph.tensor(name))
        factors.append(emit.op("Gather", shape, emit.constant([axis]), shape=(1,), axis=0))
    return reduce(lambda one, other: emit.op("Mul", one, other, shape=(1,)), factors)
