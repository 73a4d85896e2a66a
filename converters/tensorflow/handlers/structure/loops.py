"""tf.raw_ops.While and StatelessWhile: loops, whose lists of tensors become results of each round where they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.handlers.structure.branches import common_shape, truth
from onnx_sparse.converters.tensorflow.handlers.structure.lists import (
    known_shape,
    only_concatenated,
    rows_of,
    written,
    zeros,
)
from onnx_sparse.converters.tensorflow.handlers.structure.loop_examination import Body, Scan, examine
from onnx_sparse.converters.tensorflow.handlers.structure.loop_sources import (
    Functions,
    Source,
    live_variables,
    read_before,
)
from onnx_sparse.converters.tensorflow.handlers.structure.ragged_rows import Appended
from onnx_sparse.converters.tensorflow.importing.context import Context, Frame
from onnx_sparse.converters.tensorflow.importing.values import ListOfRows, ListOfTensors, Resource, Value
from onnx_sparse.converters.tensorflow.reading.effects import changes
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_LAST = np.iinfo(np.int64).max

#: How often shapes of a loop's variables are found to be more general than thought.
_MOST_ATTEMPTS = 8


@structure(
    *("While", "StatelessWhile"),
    reads=read_before,
    ignored=("cond", "body", "output_shapes", "parallel_iterations"),  # which scopes read; and how many at once
)
def loop(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """A loop of two functions; variables that nothing needs leave it."""
    context, scope = node.context, node.scope
    if any(changes(scope.library, node.attr[name].func.name) for name in ("body", "cond")):
        raise Unsupported("it changes a variable or table, a state that is not converted")
    live, declared = live_variables(context, scope, node), _declared_shapes(node)
    initial = context.values(read_before(context, scope, node))
    for place, (k, value) in enumerate(zip(live, initial, strict=True)):
        if isinstance(value, ListOfTensors) and value.rows is None and _differ_in_length(scope, node, k, value):
            initial[place] = ListOfRows(None, value.size)
    shapes = [declared[k] if k < len(declared) else None for k in live]
    source = Functions(scope, node, live)
    made: list[Value] = [Resource(scope, node)] * source.count  # of those that nothing reads
    for k, value in zip(live, converted_loop(context, source, initial, shapes), strict=True):
        made[k] = value
    return tuple(made)


def _differ_in_length(scope: Scope, node: NodeDef, k: int, value: ListOfTensors) -> bool:
    """Whether the elements of a list that a loop writes may differ in length."""
    has_length = value.element_shape is not None and None not in value.element_shape[:1]
    return not has_length and only_concatenated(scope, node, k)


def converted_loop(
    context: Context, source: Source, initial: Sequence[Value], declared: Sequence[Shape | None] = ()
) -> tuple[Value, ...]:
    """A Loop; a variable that no round changes is read from outside.

    Args:
        context: The conversion.
        source: The loop.
        initial: The values of the variables before it.
        declared: The shapes that they have in every round, where the graph says these.

    Returns:
        Their values after it.

    Raises:
        Unsupported: It cannot be converted.
    """
    emit: InferringEmitter = source.scope.frame.emit
    examined = examine(context, source, initial)
    written_only = {*examined.constants, *examined.scanned, *examined.appended}
    changing = [k for k in range(len(initial)) if k not in written_only]
    initial = _with_element_shapes(context, source, initial, changing)
    starts: list[Tensor] = []
    emit.begin(source.name)
    for k in changing:
        starts += _parts(initial[k], emit)
    shapes = [tensor.shape for tensor in starts]
    if len(starts) == len(changing):
        shapes = [
            _widened(shape, declared[k] if k < len(declared) else None)
            for k, shape in zip(changing, shapes, strict=True)
        ]
    before = len(context.unsupported.found)
    for _ in range(_MOST_ATTEMPTS):
        del context.unsupported.found[before:]
        made = _Round(context, source, initial, examined, changing, starts, shapes)
        wider = [common_shape([a, b.shape]) for a, b in zip(shapes, made.parts, strict=True)]
        if wider == shapes:
            break
        shapes = wider
    else:
        raise Unsupported("the shapes of its variables change from round to round")
    condition = _condition(context, source, "first", initial, source.scope.frame)
    emit.begin(source.name)
    scans = [made.elements[k] for k in examined.scanned]
    for appended in made.appended.values():
        starts += appended.starts(emit)
        shapes += [shape for _, shape in appended.states]
    dtypes = [*(tensor.dtype for tensor in starts), *(tensor.dtype for tensor in scans)]
    known = [*shapes, *(None if tensor.shape is None else (None, *tensor.shape) for tensor in scans)]
    if not dtypes:
        return tuple(initial)
    given = [None, condition, *starts]
    results = list(emit.node("Loop", given, dtypes, known, body=made.graph()))
    after: list[Value] = list(initial)
    for k in changing:
        after[k] = _whole(initial[k], results, emit)
    for k, appended in made.appended.items():
        reserved = initial[k]
        assert isinstance(reserved, ListOfRows)
        after[k] = appended.whole(reserved, results)
    for (k, scan), rows in zip(examined.scanned.items(), results, strict=True):
        value = initial[k]
        assert isinstance(value, ListOfTensors)
        after[k] = _completed(value, rows, scan, emit)
    return tuple(after)


def _with_element_shapes(
    context: Context, source: Source, initial: Sequence[Value], changing: Sequence[int]
) -> list[Value]:
    """The variables, with the shapes of the elements of lists that only what a round writes to them says."""
    known = list(initial)
    open_ones = [k for k in changing if isinstance(initial[k], ListOfTensors) and _is_open(initial[k])]
    if not open_ones:
        return known
    before, frame = len(context.unsupported.found), source.scope.frame.body()
    values = list(initial)
    for k in changing:
        start = initial[k]
        if isinstance(start, Tensor):
            values[k] = Tensor(frame.emit.names.fresh(f"{source.name}/shapes"), start.dtype, start.shape)
    results = source.body(context, values, f"{source.name}/shapes/", frame)
    for k in open_ones:
        context.convert([results[k]])
        if len(context.unsupported.found) > before:
            break
        (after,) = context.values([results[k]])
        if isinstance(after, ListOfTensors):
            start = initial[k]
            assert isinstance(start, ListOfTensors)
            known[k] = replace(start, element_shape=known_shape(start.element_shape, after.element_shape))
    del context.unsupported.found[before:]
    return known


def _is_open(value: Value) -> bool:
    """Whether a list has been reserved only and it is not known of elements of which shape."""
    assert isinstance(value, ListOfTensors)
    return value.rows is None and (value.element_shape is None or None in value.element_shape)


class _Round:
    """One round of a loop, converted into a body."""

    def __init__(
        self,
        context: Context,
        source: Source,
        initial: Sequence[Value],
        examined: Body,
        changing: Sequence[int],
        starts: Sequence[Tensor],
        shapes: Sequence[Shape | None],
    ) -> None:
        frame = source.scope.frame.body()
        self.emit: InferringEmitter = frame.emit
        self._name = f"{source.name}/body"
        names = self.emit.names
        self._inputs = [
            Tensor(names.fresh(f"{self._name}/round"), TensorProto.INT64, ()),
            Tensor(names.fresh(f"{self._name}/condition"), TensorProto.BOOL, ()),
        ]
        states = [
            Tensor(names.fresh(f"{self._name}/variable"), start.dtype, shape)
            for start, shape in zip(starts, shapes, strict=True)
        ]
        self._inputs += states
        values = list(initial)
        for k in changing:
            values[k] = _whole(initial[k], states, self.emit, consume=True)
        results = source.body(context, values, f"{self._name}/", frame)
        self.elements: dict[int, Tensor] = {}
        for k in examined.scanned:
            (self.elements[k],) = context.tensors([written(results[k])[2]])
        self.appended = {k: Appended(*context.values([written(results[k])[2]])) for k in examined.appended}
        made = dict(zip(changing, context.values([results[k] for k in changing]), strict=True))
        self.emit.begin(self._name)
        following = list(initial)
        self.parts: list[Tensor] = []
        for k in changing:
            following[k] = made[k]
            self.parts += _parts(made[k], self.emit)
        if [part.dtype for part in self.parts] != [start.dtype for start in starts]:
            raise Unsupported("its variables change their types")
        self._grown: list[Tensor] = []
        for appended in self.appended.values():
            states = [Tensor(names.fresh(f"{self._name}/rows"), *state) for state in appended.states]
            self._inputs += states
            self._grown += appended.after(states, self.emit)
        self._goes_on = _condition(context, source, "next", following, frame)

    def graph(self) -> Any:
        """The body's graph."""
        self.emit.begin(self._name)
        results = [self._goes_on, *self.parts, *self._grown, *self.elements.values()]
        names = [self.emit.names.fresh(f"{self._name}/result_{k}") for k in range(len(results))]
        outputs = self.emit.name_outputs(results, names, start=0)
        return self.emit.graph(self._name, [*map(value_info, self._inputs)], [*map(value_info, outputs)])


def _condition(context: Context, source: Source, what: str, values: Sequence[Value], frame: Frame) -> Tensor:
    """Whether there is another round, for values of the variables."""
    prefix = f"{source.name}/{what}"
    (condition,) = context.tensors([source.condition(context, values, f"{prefix}/", frame)])
    frame.emit.begin(prefix)
    return truth(condition, frame.emit)


def _parts(value: Value, emit: InferringEmitter) -> list[Tensor]:
    """The tensors of a variable: itself, or the elements and the size of a list."""
    if isinstance(value, ListOfTensors):
        return [rows_of(value, emit), value.size]
    if not isinstance(value, Tensor):
        raise Unsupported("it changes a resource from round to round")
    return [value]


def _whole(value: Value, tensors: list[Tensor], emit: InferringEmitter, *, consume: bool = False) -> Value:
    """The variable of which the first tensors, which are removed, are the parts."""
    if isinstance(value, ListOfTensors):
        rows, size = tensors[:2]
        del tensors[:2]
        return replace(value, rows=rows, size=size)
    return tensors.pop(0)


def _completed(value: ListOfTensors, rows: Tensor, scan: Scan, emit: InferringEmitter) -> ListOfTensors:
    """A list with the elements that rounds have written, and zeros elsewhere."""
    place = scan.place
    zero, one = emit.constant([0]), emit.constant([1])
    size = emit.op("Reshape", value.size, one)
    shape = known_shape(value.element_shape, None if rows.shape is None else rows.shape[1:])
    if place is not None:  # what the last round has written, if there is one
        rows = emit.op("Slice", rows, emit.constant([-1]), emit.constant([_LAST]), zero)
    count_written = emit.op("Gather", emit.shape_of(rows), zero)
    if shape is not None and None not in shape:
        sizes = emit.constant(shape)
        # Without a round, ONNX Runtime does not know the shape of an element.
        rows = emit.op("Reshape", rows, emit.op("Concat", count_written, sizes, axis=0), allowzero=1)
    else:
        sizes = emit.op("Slice", emit.shape_of(rows), one, emit.constant([_LAST]), zero)
    count = None if value.size.value is None or scan.grows else int(value.size.value)
    known = None if shape is None else (count, *shape)
    if place is not None:
        assert isinstance(place, Tensor)
        one_place = emit.op("Reshape", emit.int64(place), emit.constant([1, 1]))
        places = emit.op("Expand", one_place, emit.op("Concat", count_written, one, axis=0))
        whole = emit.op("ScatterND", zeros(size, sizes, rows.dtype, emit), places, rows, shape=known)
        return ListOfTensors(whole, value.size, rows.dtype, shape)
    missing = emit.op("Sub", size, count_written)  # not negative, unless the list grows: Expand refuses that
    length = value.size
    if scan.grows:
        missing = emit.op("Max", missing, zero)
        length = emit.op("Squeeze", emit.op("Max", size, count_written), zero)
    padded = emit.op("Concat", rows, zeros(missing, sizes, rows.dtype, emit), axis=0, shape=known)
    return ListOfTensors(padded, length, rows.dtype, shape)


def _declared_shapes(node: NodeDef) -> list[Shape | None]:
    for name in ("output_shapes", "_output_shapes"):
        if name in node.attr and node.attr[name].list.shape:
            return [shape_of(shape) for shape in node.attr[name].list.shape]
    return []


def _widened(start: Shape | None, declared: Shape | None) -> Shape | None:
    """The shape in every round, by that in the first and what TensorFlow says."""
    return start if declared is None else common_shape([start, declared])
