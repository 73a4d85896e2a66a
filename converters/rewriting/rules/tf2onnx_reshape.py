"""The rule for the reshape of a sparse tensor that tf2onnx writes.

It computes each entry's position in the dense tensor as a product with a vector of strides, and from that its new
coordinates. Where a dimension is 0, it divides by 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.tf2onnx_segments import axes_of
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas.declaration import dtype_name


@dataclass(frozen=True)
class _Reshape:
    """The parts of a reshape.

    Attributes:
        coordinates: Those of the entries.
        shape: The shape of the dense tensor.
        requested: The new shape, in which a dimension may be -1.
        made: The same with the dimension that is meant.
    """

    coordinates: str
    shape: str
    requested: str
    made: str

    @classmethod
    def of(cls, graph: Graph, quotient: NodeProto) -> _Reshape | None:
        """The reshape whose coordinates are a quotient: positions, without whole turns of the dimensions before."""
        rest = graph.producer(quotient.input[0], "Mod")
        column = graph.producer(rest.input[0], "Unsqueeze") if rest is not None else None
        positions = graph.producer(column.input[0], "MatMul") if column is not None else None
        made = _strides(graph, quotient.input[1])
        if rest is None or column is None or positions is None or made is None:
            return None
        shape = _strides(graph, positions.input[1])
        turns = _all_but_last(graph, rest.input[1])
        if shape is None or axes_of(graph, column) != [1] or turns is None or turns[1] != quotient.input[1]:
            return None
        requested = _inferred(graph, made, size=turns[0])
        if requested is None or _product(graph, turns[0]) != shape or attribute(rest, "fmod", 0) != 0:
            return None
        return cls(positions.input[0], shape, requested, made)


class ReshapedCoordinates(Rule[Graph]):
    """The arithmetic that reshapes a sparse tensor's coordinates becomes a SparseReshape.

    Equal where the shapes have the same number of elements; others are an error. A dimension may be 0.
    """

    name = "reshaped-coordinates"
    anchors = ("Div",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A quotient of positions and strides."""
        found = _Reshape.of(graph, node)
        return None if found is None else {"found": found}

    def check(self, graph: Graph, node: NodeProto, found: _Reshape) -> str | None:
        """All must be of int64 and of the ranks that SparseReshape takes."""
        for name, rank in ((found.coordinates, 2), (found.shape, 1), (found.requested, 1)):
            if graph.dtype(name) != TensorProto.INT64:
                return f"{name} is {dtype_name(graph.dtype(name))}"
            if graph.rank(name) not in (None, rank):
                return f"{name} has rank {graph.rank(name)}"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, found: _Reshape) -> None:
        """Take both the coordinates and the shape from a SparseReshape."""
        inputs = {
            "input_indices": graph.tensor(found.coordinates),
            "input_shape": graph.tensor(found.shape),
            "new_shape": graph.tensor(found.requested),
        }
        coordinates, made = graph.emitter(node).domain_op("SparseReshape", inputs)
        shaped = graph.producer(found.made)
        assert shaped is not None
        graph.bypass(node, coordinates.name)
        graph.bypass(shaped, made.name)
        graph.reorder()  # the shape's users may come before the coordinates


def _strides(graph: Graph, name: str) -> str | None:
    """The shape whose strides a vector is: the products of what follows each dimension."""
    product = graph.producer(name, "ReduceProd")
    chosen = graph.producer(product.input[0], "Where") if product is not None else None
    if product is None or chosen is None:
        return None
    is_vector = axes_of(graph, product) == [1] and attribute(product, "keepdims", 1) == 0
    ones = graph.integers(chosen.input[1]) == [1]
    return (
        chosen.input[2] if is_vector and ones and _is_lower_triangle(graph, chosen.input[0], chosen.input[2]) else None
    )


def _is_lower_triangle(graph: Graph, name: str, vector: str) -> bool:
    """Whether a matrix is true up to its diagonal; where the vector's size is not known, it is a sum of ones."""
    value = graph.constant(name)
    if value is not None:
        return value.ndim == 2 and np.array_equal(value, np.tri(*value.shape, dtype=bool))
    cast = graph.producer(name, "Cast")
    total = graph.producer(cast.input[0], "CumSum") if cast is not None else None
    ones = graph.producer(total.input[0], "EyeLike") if total is not None else None
    zeros = graph.producer(ones.input[0], "ConstantOfShape") if ones is not None else None
    square = graph.producer(zeros.input[0], "Concat") if zeros is not None else None
    if cast is None or total is None or ones is None or square is None or len(set(square.input)) != 1:
        return False
    sides = graph.producer(square.input[0], "Shape")
    is_plain = (
        not attribute(total, "exclusive", 0) and not attribute(total, "reverse", 0) and not attribute(ones, "k", 0)
    )
    is_down = graph.integers(total.input[1]) == [0] and attribute(cast, "to") == TensorProto.BOOL
    return is_plain and is_down and len(square.input) == 2 and sides is not None and sides.input[0] == vector


def _all_but_last(graph: Graph, name: str) -> tuple[str, str] | None:
    """The two vectors of which a vector is the concatenation without its last element."""
    cut = graph.producer(name, "Pad")
    joined = graph.producer(cut.input[0], "Concat") if cut is not None else None
    if cut is None or joined is None or len(joined.input) != 2 or len(cut.input) != 2:
        return None
    first, second = joined.input
    return (first, second) if graph.integers(cut.input[1]) == [0, -1] else None


def _product(graph: Graph, name: str) -> str | None:
    """The vector whose product a vector of one element is."""
    node = graph.producer(name, "ReduceProd")
    is_whole = node is not None and axes_of(graph, node) in ([0], None) and attribute(node, "keepdims", 1) == 1
    return node.input[0] if node is not None and is_whole else None


def _inferred(graph: Graph, made: str, size: str) -> str | None:
    """The requested shape whose -1 is replaced so that it has so many elements."""
    chosen = graph.producer(made, "Where")
    is_missing = graph.producer(chosen.input[0], "Less") if chosen is not None else None
    missing = graph.producer(chosen.input[1], "Neg") if chosen is not None else None
    quotient = graph.producer(missing.input[0], "Div") if missing is not None else None
    if chosen is None or is_missing is None or quotient is None:
        return None
    requested = chosen.input[2]
    is_of_requested = is_missing.input[0] == requested and graph.integers(is_missing.input[1]) == [0]
    is_quotient = quotient.input[0] == size and _product(graph, quotient.input[1]) == requested
    return requested if is_of_requested and is_quotient else None
