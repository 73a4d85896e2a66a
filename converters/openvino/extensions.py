"""The domain's operators for OpenVINO: what `core.add_extension` or `ov.convert_model(extension=...)` takes.

Each becomes a subgraph of OpenVINO's standard operators. Its own EmbeddingSegmentsSum is quadratic and its SegmentMax
is wrong for NaN and without rows (see known_faults); a Gather and a ScatterNDUpdate with a reduction are neither.

OpenVINO's CPU plugin computes 64-bit integers in 32 bits, and nothing here can change that. Errors in the values of
inputs, such as segment ids that are not sorted, are not reported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnx_sparse.schemas import DOMAIN

_REDUCTIONS = {"Sum": "sum", "Mean": "sum", "Prod": "prod", "Max": "max", "Min": "min"}


def extensions() -> list[Any]:
    """One extension for each operator that runs on OpenVINO: `for e in extensions(): core.add_extension(e)`.

    Raises:
        ImportError: The `openvino` package is not installed.
    """
    onnx_frontend = importlib.import_module("openvino.frontend.onnx")
    nodes = _Nodes(importlib.import_module("openvino.opset15"))
    converters: dict[str, Callable[[Any], list[Any]]] = {}
    for kind in ("Sum", "Mean", "SqrtN"):
        converters[f"EmbeddingSegments{kind}"] = partial(_embedding, nodes, kind=kind)
    for kind in _REDUCTIONS:
        converters[f"Segment{kind}"] = partial(_segment, nodes, kind=kind)
    return [onnx_frontend.ConversionExtension(name, DOMAIN, convert) for name, convert in converters.items()]


class _Nodes:
    """Writes OpenVINO's nodes."""

    def __init__(self, ops: Any) -> None:
        self.ops = ops

    def ints(self, *values: int) -> Any:
        return self.ops.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Any:
        return self.ops.constant(np.array(value, np.int64))

    def like(self, value: float, tensor: Any) -> Any:
        return self.ops.convert_like(self.ops.constant(np.array(value, np.float32)), tensor)

    def int64(self, tensor: Any) -> Any:
        return self.ops.convert(tensor, "i64")

    def size(self, tensor: Any) -> Any:
        """The first dimension, as a vector."""
        return self.ops.gather(self.ops.shape_of(tensor), self.ints(0), self.integer(0))

    def full(self, value: Any, *shape: Any) -> Any:
        """A tensor of one value; the parts of its shape are vectors."""
        return self.ops.broadcast(value, self.ops.concat(list(shape), 0))

    def tail(self, tensor: Any) -> Any:
        """The dimensions but the first."""
        shape = self.ops.shape_of(tensor)
        return self.ops.slice(shape, self.ints(1), self.ints(2**31 - 1), self.ints(1), self.ints(0))

    def column(self, vector: Any, tensor: Any) -> Any:
        """A vector in the rank of a tensor, along its first axis."""
        ones = self.ops.broadcast(self.integer(1), self.ops.shape_of(self.tail(tensor)))
        return self.ops.reshape(vector, self.ops.concat([self.size(vector), ones], 0), False)

    def scatter(self, reduction: str, start: Any, segments: Any, rows: Any, count: Any) -> Any:
        """Rows reduced by segment into [count + 1, ...]; the last one, which takes what is dropped, is left off."""
        data = self.full(start, self.ops.add(count, self.ints(1)), self.tail(rows))
        kept = self.ops.minimum(segments, count)
        made = self.ops.scatter_nd_update(data, self.ops.unsqueeze(kept, self.ints(1)), rows, reduction)
        return self.ops.slice(made, self.ints(0), count, self.ints(1), self.ints(0))

    def counts(self, segments: Any, count: Any, like: Any) -> Any:
        ones = self.full(self.like(1, like), self.size(segments))
        return self.scatter("sum", self.like(0, like), segments, ones, count)


def _given(node: Any, position: int) -> Any | None:
    """An input, or None where it is left off."""
    if position >= node.get_input_size():
        return None
    source = node.get_input(position)
    return None if source.get_node().get_type_name() == "NullNode" else source


def _given_number(node: Any, position: int) -> Any | None:
    """A scalar, or None where it is left off or the constant -1, which says the same."""
    source = _given(node, position)
    if source is not None and source.get_node().get_type_name() == "Constant":
        return None if int(source.get_node().get_data().ravel()[0]) == -1 else source
    return source


def _given_weights(node: Any, position: int) -> Any | None:
    """A vector, or None where it is left off or an empty constant, which OpenVINO's frontend makes the scalar 0."""
    source = _given(node, position)
    if source is not None and source.get_node().get_type_name() == "Constant":
        return None if list(source.get_node().get_output_shape(0)) in ([], [0]) else source
    return source


def _wide(nodes: _Nodes, tensor: Any) -> Any:
    """Half floats as float32, in which the law computes them."""
    half = tensor.get_element_type().get_type_name() in ("f16", "bf16")
    return nodes.ops.convert(tensor, "f32") if half else tensor


def _embedding(nodes: _Nodes, node: Any, kind: str) -> list[Any]:
    ops = nodes.ops
    table, segments = node.get_input(0), nodes.int64(node.get_input(2))
    count = ops.reshape(nodes.int64(node.get_input(3)), nodes.ints(1), False)
    # An index whose segment is dropped is never looked at: 0 stands for it.
    indices = ops.select(ops.less(segments, count), nodes.int64(node.get_input(1)), nodes.integer(0))
    rows = _wide(nodes, ops.gather(table, indices, nodes.integer(0)))
    zero, one = nodes.like(0, rows), nodes.like(1, rows)
    weights = _given_weights(node, 5)
    if weights is not None:
        # An empty input means ones: the first K of weights-then-ones are the weights where there are any.
        number = nodes.size(segments)
        both = ops.concat([ops.convert_like(weights, rows), nodes.full(one, number)], 0)
        weights = ops.slice(both, nodes.ints(0), number, nodes.ints(1), nodes.ints(0))
        rows = ops.multiply(rows, nodes.column(weights, rows))
    total = nodes.scatter("sum", zero, segments, rows, count)
    if kind != "Sum":
        divisor = nodes.counts(segments, count, rows)
        if weights is not None:
            terms = weights if kind == "Mean" else ops.multiply(weights, weights)
            divisor = nodes.scatter("sum", zero, segments, terms, count)
        divisor = nodes.column(divisor if kind == "Mean" else ops.sqrt(divisor), total)
        empty = ops.equal(divisor, zero)
        total = ops.select(empty, zero, ops.divide(total, ops.select(empty, one, divisor)))
    default = _given_number(node, 4)
    if default is not None:
        index = nodes.int64(default)
        row = ops.convert_like(ops.gather(table, ops.maximum(index, nodes.integer(0)), nodes.integer(0)), total)
        row = ops.select(ops.less(index, nodes.integer(0)), zero, row)
        empty = ops.equal(nodes.column(nodes.counts(segments, count, rows), total), zero)
        total = ops.select(empty, row, total)
    return [ops.convert_like(total, table).output(0)]


def _segment(nodes: _Nodes, node: Any, kind: str) -> list[Any]:
    ops = nodes.ops
    data, segments = node.get_input(0), nodes.int64(node.get_input(1))
    # The last id and one; a -1 in front of no ids makes that 0.
    last = ops.reduce_max(ops.concat([nodes.ints(-1), segments], 0), nodes.ints(0), True)
    count = ops.add(last, nodes.ints(1))
    given = _given_number(node, 2)
    if given is not None:
        wanted = ops.reshape(nodes.int64(given), nodes.ints(1), False)
        count = ops.select(ops.less(wanted, nodes.ints(0)), count, wanted)
    rows = _wide(nodes, data)
    is_float = rows.get_element_type().get_type_name() in ("f32", "f64")
    zero = nodes.like(0, rows)
    if kind in ("Max", "Min"):
        dtype = rows.get_element_type().to_dtype()
        own = data.get_element_type().get_type_name()
        limits: Any = np.finfo(np.float16 if own == "f16" else dtype) if is_float else np.iinfo(dtype)
        worst = limits.min if kind == "Max" else limits.max
        infinity = -np.inf if kind == "Max" else np.inf
        start = ops.constant(np.array(infinity if is_float else worst, dtype))
        made = nodes.scatter(_REDUCTIONS[kind], start, segments, rows, count)
        occupied = nodes.column(nodes.counts(segments, count, rows), made)
        to_zero = node.get_attribute("fill_mode") == "ZERO"
        if not is_float:  # the plugin's Select goes through float32, which does not hold the largest int32
            made = ops.multiply(made, ops.minimum(occupied, nodes.like(1, rows))) if to_zero else made
        else:
            fill = zero if to_zero else ops.constant(np.array(worst, dtype))
            made = ops.select(ops.equal(occupied, zero), fill, made)
            # The reduction of ScatterNDUpdate ignores NaN.
            nans = ops.convert(ops.not_equal(rows, rows), "f32")
            found = nodes.scatter("sum", nodes.like(0, nans), segments, nans, count)
            made = ops.select(ops.greater(found, nodes.like(0, found)), nodes.like(np.nan, made), made)
    else:
        start = nodes.like(1, rows) if kind == "Prod" else zero
        made = nodes.scatter(_REDUCTIONS[kind], start, segments, rows, count)
        if kind == "Mean":
            divisor = ops.maximum(nodes.counts(segments, count, rows), nodes.like(1, rows))
            made = ops.divide(made, nodes.column(divisor, made))
    return [ops.convert_like(made, data).output(0)]
