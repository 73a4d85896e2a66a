"""Loops over lists of tensors, as tf.while_loop, tf.map_fn and recurrent layers write them.

tf2onnx makes a list that a loop writes a scan output, whatever the loop's variables are and wherever it writes. That is
right only if the loop has a counter, and writes the elements one after the other, and all of them. Here that is proven;
where it is not, the elements are put into a tensor of zeros, at the positions at which the loop writes them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.tf2onnx_nodes import GraphEmitter
from onnx_sparse.converters.writing.tensor import Tensor
from onnx_sparse.schemas.declaration import numpy_dtype

#: The operators that make the condition or a position, as TensorFlow or ONNX calls them.
_COPIES = ("Identity", "Cast")
_ADDITIONS = ("Add", "AddV2")


@dataclass(frozen=True)
class _List:
    """A list that a loop writes.

    Attributes:
        size: The tensor that says how many elements it has.
        before: The positions and elements that are written before the loop, in this order.
        position: The tensor in the body that says where an element is written.
        repeats: Whether every round writes the same element, which is that of the last round.
        grows: Whether positions beyond the end make it longer.
        element_shape: The shape of each element, if it is known.
        is_whole: Whether the loop writes every element, from the first to the last.
    """

    size: str
    before: tuple[tuple[str, str], ...]
    position: str
    repeats: bool
    grows: bool
    element_shape: list[int] | None
    is_whole: bool


def convert_loop(function: Callable[..., Any], graph: Any, node: Any, **kwargs: Any) -> None:
    """Convert a While in tf2onnx's graph with tf2onnx's function, and complete the lists that it writes.

    Raises:
        Unsupported: The loop has no counter, or some elements may be written twice.
    """
    loader = require("tf2onnx.tf_loader")
    names = [node.get_attr_str(attribute) for attribute in ("body", "cond")]
    originals = [loader.find_function(name) for name in names]
    body, condition = copies = copy.deepcopy(originals)  # tf2onnx changes them, and another loop may have the same
    _keep_types(graph, node, copies)
    lists = list(_Loop(graph, node, body, condition).lists())
    _count_ahead(graph, node, condition)
    for name, function_copy in zip(names, copies, strict=True):
        loader.set_function(name, function_copy)
    try:
        function(graph, node, **kwargs)
    finally:
        for name, original in zip(names, originals, strict=True):
            loader.set_function(name, original)
    _complete(graph, graph.get_node_by_name(f"{node.name}_loop"), lists)


def _keep_types(graph: Any, node: Any, functions: Sequence[Any]) -> None:
    """Let ONNX count, and limit, the rounds in int64, but compute what depends on these in TensorFlow's types."""
    limit = node.inputs[1]
    if limit.is_const():
        own = graph.make_const(require("tf2onnx.utils").make_name(limit.name), limit.get_tensor_value(as_list=False))
        graph.replace_input(node, node.input[1], own.output[0], 1)
    for function in functions:
        for number in function.input_names[:2]:
            dtype, users = function.get_dtype(number), function.find_output_consumers(number)
            cast = function.make_node("Cast", [number], attr={"to": dtype}, dtypes=[dtype], shapes=[[]])
            function.replace_all_inputs(number, cast.output[0], ops=users)
        function.topological_sort(function.get_nodes())  # in which order tf2onnx copies them


def _count_ahead(graph: Any, node: Any, condition: Any) -> None:
    """Let the condition after a round have the number of the next one; tf2onnx gives it that of the round before."""
    make_name = require("tf2onnx.utils").make_name
    counter = condition.input_names[0]
    (cast,) = condition.find_output_consumers(counter)
    (users, dtype) = condition.find_output_consumers(cast.output[0]), condition.get_dtype(cast.output[0])
    one, before = (np.array(number, numpy_dtype(dtype)) for number in (1, -1))
    given = [cast.output[0], condition.make_const(make_name("one"), one).output[0]]
    following = condition.make_node("Add", given, dtypes=[dtype], shapes=[[]])
    condition.replace_all_inputs(cast.output[0], following.output[0], ops=users)
    condition.topological_sort(condition.get_nodes())
    graph.replace_input(node, node.input[0], graph.make_const(make_name("before"), before).output[0], 0)


class _Loop:
    """What is known about a loop before it is converted."""

    def __init__(self, graph: Any, node: Any, body: Any, condition: Any) -> None:
        self._graph, self._node, self._body, self._condition = graph, node, body, condition
        self._changes: dict[str, int | None] = {}
        is_counter = self._starts_at_zero(0) and self._change(body.input_names[0]) == 1
        used = any(graph.find_output_consumers(output) or output in graph.outputs for output in node.output[:2])
        if not is_counter or used or self._change(body.input_names[1]) != 0:
            raise Unsupported("the first variables of the loop are not its counter and the number of its rounds")

    def lists(self) -> Iterator[_List]:
        """The lists that the loop writes, in the order of the loop's variables."""
        for k, maker in enumerate(self._node.inputs):
            writes = []
            while maker.type == "TensorListSetItem":
                writes.append(maker)
                maker = maker.inputs[0]
            if maker.type == "TensorListResize":
                raise Unsupported("a TensorArray is resized before the loop")
            if k < 2 or maker.type != "TensorListReserve":
                continue
            self._graph.replace_input(self._node, self._node.input[k], maker.output[0], k)
            before = tuple((write.input[1], write.input[2]) for write in reversed(writes))
            for write in writes:
                if self._graph.find_output_consumers(write.output[0]):
                    raise Unsupported("a TensorArray that a loop writes is used before the loop")
                self._graph.remove_node(write.name)
            write = self._write(k)
            position = write.input[1]
            change = self._change(position)
            if change is None:
                raise Unsupported("the loop writes elements of a TensorArray at positions that may not be different")
            is_whole = not before and self._counts(position) and self._has_rounds(maker.input[1])
            if write.inputs[2].type == "RaggedTensorToVariant" and not is_whole:
                raise Unsupported("the loop does not write all ragged elements of a TensorArray, in their order")
            shape = self._element_shape(maker, self._node.output[k])
            if shape is not None:
                self._body.set_shape(write.input[2], shape)  # which ONNX Runtime does not infer without a round
            yield _List(
                size=maker.input[1],
                before=before,
                position=position,
                repeats=change == 0,
                grows=bool(write.get_attr_value("resize_if_index_out_of_bounds", False)),
                element_shape=shape,
                is_whole=is_whole,
            )

    def _write(self, k: int) -> Any:
        """The node that writes an element of the list that is the k-th variable."""
        body, given = self._body, self._body.input_names[k]
        write = _maker(body, body.outputs[k])
        is_write = write is not None and write.type == "TensorListSetItem" and _origin(body, write.input[0]) == given
        if not is_write or any(user is not write for user in _users(body, given)):
            raise Unsupported("a loop may write one element of a TensorArray in each round, but not read what it wrote")
        return write

    def _element_shape(self, reserve: Any, result: str) -> list[int] | None:
        """The shape of each element of a list, if it is known where the list is made, or stacked after the loop."""
        stacks = [user for user in _users(self._graph, result) if user.type == "TensorListStack"]
        givers = [reserve.inputs[0], *(stack.inputs[1] for stack in stacks)]
        for giver in givers:
            shape = giver.get_tensor_value(as_list=False) if giver.is_const() else None
            if shape is not None and shape.ndim == 1 and (shape >= 0).all():
                return [int(size) for size in shape]
        return None

    def _change(self, name: str) -> int | None:
        """By how much a number in the body grows in each round; None if that is not known."""
        name = _origin(self._body, name)
        if name not in self._changes:
            self._changes[name] = self._found_change(name)
        return self._changes[name]

    def _found_change(self, name: str) -> int | None:
        body = self._body
        if name in body.input_names:
            k = body.input_names.index(name)
            after = _origin(body, body.outputs[k])
            if after == name:
                return 0
            maker = body.get_node_by_output(after, search_in_parent_graphs=False)
            operands = [_origin(body, given) for given in maker.input] if maker is not None else []
            if name not in operands or len(operands) != 2:
                return None
            other = self._value(operands[1 - operands.index(name)])
            if maker.type in _ADDITIONS:
                return other
            return -other if maker.type == "Sub" and operands[0] == name and other is not None else None
        maker = body.get_node_by_output(name, search_in_parent_graphs=False)
        if maker is None or maker.is_const():
            return 0
        if maker.get_body_graphs() or maker.type.startswith("Random"):
            return None
        changes = [self._change(given) for given in maker.input]
        if not any(change != 0 for change in changes):
            return 0
        if None in changes:
            return None
        first, *rest = (change for change in changes if change is not None)
        if maker.type in _ADDITIONS:
            return first + sum(rest)
        if maker.type == "Sub":
            return first - sum(rest)
        factors = [self._value(given) for given in maker.input]
        if maker.type == "Mul" and factors[0] != factors[1] and None in factors:
            return next(c * f for c, f in zip(changes, factors[::-1], strict=True) if f is not None and c is not None)
        return None

    def _value(self, name: str) -> int | None:
        """The value of a number in the body that is constant."""
        name = _origin(self._body, name)
        if name in self._body.input_names and self._change(name) == 0:
            return _number(self._graph, self._node.input[self._body.input_names.index(name)])
        return _number(self._body, name)

    def _counts(self, name: str, function: Any = None) -> bool:
        """Whether a number in the body, or in the condition, is 0 in the first round and grows by 1."""
        function = function or self._body
        name = _origin(function, name)
        if name not in function.input_names:
            return False
        k = function.input_names.index(name)
        return self._starts_at_zero(k) and self._change(self._body.input_names[k]) == 1

    def _starts_at_zero(self, k: int) -> bool:
        return _number(self._graph, self._node.input[k]) == 0

    def _has_rounds(self, size: str) -> bool:
        """Whether the loop has as many rounds as a tensor outside of it says."""
        condition = self._condition
        waiting, bounds = [condition.outputs[0]], [self._node.input[1]]
        if _number(self._graph, bounds[0]) == -1:
            bounds = []
        while waiting:
            maker = _maker(condition, waiting.pop())
            if maker is not None and maker.type in ("And", "LogicalAnd"):
                waiting += maker.input
                continue
            if maker is None or maker.type != "Less" or not self._counts(maker.input[0], condition):
                return False
            bounds.append(_origin(condition, maker.input[1]))
        for bound in bounds:
            if bound in condition.input_names:
                k = condition.input_names.index(bound)
                if self._change(self._body.input_names[k]) != 0:
                    return False
                bound = self._node.input[k]
            known = _number(condition, bound)
            known = _number(self._graph, bound) if known is None else known
            is_same = _origin(self._graph, bound) == _origin(self._graph, size)
            if not is_same and (known is None or known != _number(self._graph, size)):
                return False
        return True


def _complete(graph: Any, loop: Any, lists: list[_List]) -> None:
    """Put the elements of lists that are not whole where they belong."""
    body = loop.get_body_graphs()["body"]
    positions = {}
    for entry, rows in zip(lists, loop.output[::-1], strict=False):  # tf2onnx has the last list first
        if entry.is_whole:
            _use_as_tensor(graph, rows)
        if not entry.is_whole:
            positions[rows] = entry, f"{rows}/positions"
            cast = body.make_node("Cast", [entry.position], attr={"to": TensorProto.INT64}, shapes=[[]])
            body.outputs.append(cast.output[0])
    if not positions:
        return
    count = len(positions)
    shapes, dtypes = [*loop.output_shapes, *[[-1]] * count], [*loop.output_dtypes, *[TensorProto.INT64] * count]
    outputs, given = [*loop.output, *(name for _, name in positions.values())], list(loop.input)
    graph.remove_node(loop.name)
    again = graph.make_node(
        "Loop", given, outputs=outputs, name=loop.name, shapes=shapes, dtypes=dtypes, branches={"body": body}
    )
    again.ragged_scan_output_to_len = getattr(loop, "ragged_scan_output_to_len", {})
    for rows, (entry, name) in positions.items():
        users = graph.find_output_consumers(rows)
        whole = _scattered(graph, entry, rows, name, loop.name)
        graph.replace_all_inputs(rows, whole.name, ops=users)
        _use_as_tensor(graph, whole.name)


def _scattered(graph: Any, entry: _List, rows: str, positions: str, scope: str) -> Tensor:
    """The whole list as a tensor."""
    emit = GraphEmitter(graph, scope)
    elements = Tensor(rows, graph.get_dtype(rows), None)
    places = Tensor(positions, TensorProto.INT64, (None,))
    size = emit.cast(Tensor(entry.size, graph.get_dtype(entry.size), ()), TensorProto.INT64)
    length = emit.op("Reshape", size, emit.constant([1]))
    if entry.grows:
        last = emit.op("ReduceMax", emit.op("Concat", emit.constant([-1]), places, axis=0), emit.constant([0]))
        length = emit.op("Max", length, emit.op("Add", last, emit.constant(1)))
    if entry.element_shape is None:
        sizes = emit.op("Slice", emit.shape_of(elements), emit.constant([1]), emit.constant([np.iinfo(np.int64).max]))
    else:
        sizes = emit.constant(entry.element_shape)
        # Without a round, ONNX Runtime does not know the shape of an element.
        target = emit.op("Concat", emit.shape_of(places), sizes, axis=0)
        elements = emit.op("Reshape", elements, target, allowzero=1)
    if entry.repeats:
        last_round = emit.constant([-1]), emit.constant([np.iinfo(np.int64).max]), emit.constant([0])
        elements, places = (emit.op("Slice", given, *last_round) for given in (elements, places))
    nothing = emit.constant("" if elements.dtype == TensorProto.STRING else 0, elements.dtype)
    zeros = emit.op("Expand", nothing, emit.op("Concat", length, sizes, axis=0))
    for position, element in entry.before:
        place = emit.op("Reshape", Tensor(position, graph.get_dtype(position), None), emit.constant([1, 1]))
        first = emit.op("Unsqueeze", Tensor(element, elements.dtype, None), emit.constant([0]))
        zeros = emit.op("ScatterND", zeros, emit.cast(place, TensorProto.INT64), first)
    whole = emit.op("ScatterND", zeros, emit.op("Unsqueeze", places, emit.constant([1])), elements)
    known = graph.get_shape(rows)
    if known is not None:
        graph.set_shape(whole.name, [-1, *known[1:]])
    return whole


def _use_as_tensor(graph: Any, whole: str) -> None:
    """Convert the operators that make a tensor of a list, which is one."""
    for user in list(_users(graph, whole)):
        if user.type == "TensorListStack":
            user.type = "Identity"
            graph.replace_inputs(user, [user.input[0]])
        elif user.type == "TensorListGather":
            flat = GraphEmitter(graph, user.name)
            places = flat.op("Reshape", Tensor(user.input[1], TensorProto.INT32, None), flat.constant([-1]))
            user.type = "Gather"
            graph.replace_inputs(user, [user.input[0], places.name])


def _origin(graph: Any, name: str) -> str:
    """The tensor that a tensor is a copy of, in its own or another integer type."""
    maker = graph.get_node_by_output(name, search_in_parent_graphs=False)
    return _origin(graph, maker.input[0]) if maker is not None and maker.type in _COPIES else name


def _users(graph: Any, name: str) -> Iterator[Any]:
    """The nodes that take a tensor or copies of it."""
    for user in graph.find_output_consumers(name):
        if user.type == "Identity":
            yield from _users(graph, user.output[0])
        else:
            yield user


def _maker(graph: Any, name: str) -> Any:
    return graph.get_node_by_output(_origin(graph, name), search_in_parent_graphs=False)


def _number(graph: Any, name: str) -> int | None:
    """The value of a constant integer."""
    maker = _maker(graph, name)
    if maker is None or not maker.is_const():
        return None
    value = maker.get_tensor_value(as_list=False)
    return int(value) if value.ndim == 0 and value.dtype.kind in "iu" else None
