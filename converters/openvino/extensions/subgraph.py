"""Writes OpenVINO's nodes for one node of the domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_sparse.schemas import Op

#: A node or an output of OpenVINO's graph; its Python API takes either.
Value = Any
#: Integer types that are computed in int32 and cut to their width at the end.
_NARROW = ("i8", "u8", "i16", "u16")


class Subgraph:
    """The subgraph that replaces one node.

    Attributes:
        op: The operator's declaration.
        ops: OpenVINO's operator set, a function for each operator.
        node: The node as OpenVINO's frontend sees it.
    """

    def __init__(self, op: Op, node: Any, ops: Any) -> None:
        self.op = op
        self.node = node
        self.ops = ops

    def input(self, name: str) -> Value:
        """A required input.

        Raises:
            ValueError: It holds strings, for which OpenVINO has no kernels.
        """
        source = self.node.get_input([i.name for i in self.op.inputs].index(name))
        if element_type(source) == "string":
            raise ValueError(f"{self.op.name}: {name} holds strings, which OpenVINO does not compute")
        return source

    def given(self, name: str) -> Value | None:
        """An optional input; None if it is omitted or is a constant equal to its sentinel."""
        position = [i.name for i in self.op.inputs].index(name)
        if position >= self.node.get_input_size():
            return None
        source = self.node.get_input(position)
        kind = source.get_node().get_type_name()
        if kind == "NullNode":
            return None
        if kind == "Constant":
            if self.op.inputs[position].sentinel == ():  # the frontend turns an empty constant into the scalar 0
                return None if list(source.get_node().get_output_shape(0)) in ([], [0]) else source
            return None if int(source.get_node().get_data().ravel()[0]) == self.op.inputs[position].sentinel else source
        return source

    def name(self, name: str) -> str:
        """What the model calls the tensor of a required input."""
        names: set[str] = self.input(name).get_names()
        return min(names, default=self.input(name).get_node().get_friendly_name())

    def rank(self, name: str) -> int:
        """The rank of a required input.

        Raises:
            ValueError: It is not known in the model.
        """
        rank = self.input(name).get_partial_shape().rank
        if rank.is_dynamic:
            raise ValueError(
                f"{self.op.name}: the rank of {name}, the tensor {self.name(name)!r}, is not known, and OpenVINO does "
                "not compute with unknown ranks: give the model's inputs shapes, in which dimensions may be unknown"
            )
        return int(rank.get_length())

    def attribute(self, name: str) -> str:
        """An attribute, or its default."""
        default = next(a.default for a in self.op.attributes if a.name == name)
        return str(self.node.get_attribute(name) if default is None else self.node.get_attribute(name, default))

    # Constants and types

    def ints(self, *values: int) -> Value:
        """An int64 vector, for shapes and axes."""
        return self.ops.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Value:
        """An int64 scalar."""
        return self.ops.constant(np.array(value, np.int64))

    def like(self, value: float, tensor: Value) -> Value:
        """A scalar of a tensor's type."""
        return self.ops.convert_like(self.ops.constant(np.array(value, np.float32)), tensor)

    def int64(self, tensor: Value) -> Value:
        """A tensor as int64."""
        return self.ops.convert(tensor, "i64")

    def wide(self, tensor: Value) -> Value:
        """A tensor in the type in which the semantics compute: float32 for half floats, int32 for small integers."""
        kind = element_type(tensor)
        if kind in ("f16", "bf16"):
            return self.ops.convert(tensor, "f32")
        return self.ops.convert(tensor, "i32") if kind in _NARROW else tensor

    def wrapped(self, tensor: Value, like: Value) -> Value:
        """A result computed in the `wide` type of `like`, cut to the width of `like`.

        The plugin keeps 16-bit integers as int32, so a Convert alone does not cut them.
        """
        kind = element_type(like)
        if kind not in _NARROW:
            return tensor
        mask, half = (1 << int(kind[1:])) - 1, 1 << (int(kind[1:]) - 1)
        mask, half = (self.ops.constant(np.array(value, np.int32)) for value in (mask, half))
        if kind[0] == "u":
            return self.ops.bitwise_and(tensor, mask)
        return self.ops.subtract(self.ops.bitwise_and(self.ops.add(tensor, half), mask), half)

    # Shapes

    def size(self, tensor: Value) -> Value:
        """The first dimension, as a vector."""
        return self.ops.gather(self.ops.shape_of(tensor), self.ints(0), self.integer(0))

    def slice(self, tensor: Value, start: Value, stop: Value, axis: int = 0) -> Value:
        """A part along one axis; the bounds are vectors of one element."""
        return self.ops.slice(tensor, start, stop, self.ints(1), self.ints(axis))

    def known_size(self, tensor: Value, axis: int) -> int | None:
        """A dimension, if the model says it."""
        shape = tensor.get_partial_shape()
        if shape.rank.is_dynamic or shape.rank.get_length() <= axis or shape[axis].is_dynamic:
            return None
        return int(shape[axis].get_length())

    def rest(self, tensor: Value, start: int = 1) -> Value:
        """All elements but the first."""
        return self.slice(tensor, self.ints(start), self.ints(2**31 - 1))

    def full(self, value: Value, *shape: Value) -> Value:
        """A tensor of one value; the parts of its shape are vectors."""
        return self.ops.broadcast(value, self.ops.concat(list(shape), 0))

    def vector(self, scalar: Value) -> Value:
        """A scalar as a vector."""
        return self.ops.reshape(scalar, self.ints(1), False)

    def column(self, vector: Value, tensor: Value) -> Value:
        """A vector reshaped to the rank of a tensor, along its first axis."""
        ones = self.ops.broadcast(self.integer(1), self.ops.shape_of(self.rest(self.ops.shape_of(tensor))))
        return self.ops.reshape(vector, self.ops.concat([self.size(vector), ones], 0), False)

    def concat(self, parts: Sequence[Value], axis: int = 0) -> Value:
        """Tensors one after the other."""
        return self.ops.concat(list(parts), axis)

    def gather(self, tensor: Value, positions: Value, axis: int = 0) -> Value:
        """Slices by position."""
        return self.ops.gather(tensor, positions, self.integer(axis))

    def positions(self, vector: Value, kind: str = "i64") -> Value:
        """0, 1, 2, ... for each element of a vector."""
        count = self.ops.squeeze(self.ops.shape_of(vector), self.ints(0))
        return self.ops.range(self.integer(0), count, self.integer(1), kind)

    # Reductions and arithmetic

    def scatter(self, reduction: str, start: Value, segments: Value, rows: Value, count: Value) -> Value:
        """Rows reduced by segment into [count + 1, ...], without the last one, which takes the dropped rows."""
        data = self.full(start, self.ops.add(count, self.ints(1)), self.rest(self.ops.shape_of(rows)))
        kept = self.ops.minimum(segments, count)
        made = self.ops.scatter_nd_update(data, self.ops.unsqueeze(kept, self.ints(1)), rows, reduction)
        return self.slice(made, self.ints(0), count)

    def counts(self, segments: Value, count: Value, like: Value) -> Value:
        """The number of rows in each segment."""
        ones = self.full(self.like(1, like), self.size(segments))
        return self.scatter("sum", self.like(0, like), segments, ones, count)

    def where(self, condition: Value, yes: Value, no: Value) -> Value:
        """Select elements of one tensor or the other.

        The plugin's Select may go through float32, which cannot hold all integers. Integers are selected by sums and
        products instead, which wrap and so are exact.
        """
        if is_float(no) or element_type(no) == "boolean":
            return self.ops.select(condition, yes, no)
        yes, wide = self.wide(yes), self.wide(no)
        chosen = self.ops.convert_like(condition, wide)
        made = self.ops.add(wide, self.ops.multiply(chosen, self.ops.subtract(yes, wide)))
        return self.ops.convert_like(made, no)

    def quotient(self, dividend: Value, divisor: Value) -> Value:
        """The quotient of integers that are not negative.

        The plugin divides in float32, which is wrong by hundreds in the worst case; the exact remainder gives the
        correction. The conversion to float32 is explicit, because the plugin's own one fails on empty tensors.
        """
        ops = self.ops

        def divided(rest: Value) -> Value:
            exact_to_24_bits = ops.divide(ops.convert(rest, "f32"), ops.convert(divisor, "f32"))
            return ops.convert_like(exact_to_24_bits, dividend)

        def remainder(quotient: Value) -> Value:
            return ops.subtract(dividend, ops.multiply(quotient, divisor))

        quotient = divided(dividend)
        quotient = ops.add(quotient, divided(remainder(quotient)))
        rest = remainder(quotient)
        below = ops.convert_like(ops.less(rest, self.like(0, rest)), quotient)
        above = ops.convert_like(ops.greater_equal(rest, divisor), quotient)
        return ops.subtract(ops.add(quotient, above), below)


Write = Callable[[Subgraph], list[Value]]


def element_type(tensor: Value) -> str:
    """OpenVINO's name of a tensor's element type."""
    return str(tensor.get_element_type().get_type_name())


def is_float(tensor: Value) -> bool:
    """Whether a tensor holds floats."""
    return element_type(tensor) in ("f16", "bf16", "f32", "f64")
