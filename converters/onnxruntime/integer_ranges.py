"""In which range the integers of a model are, as far as it is proved: constants, sizes, and what is computed of them.

Kernels of ONNX Runtime that are wrong on some integers are replaced unless it is proved that there are none of these.
Integers of which nothing is known may be any of their element type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from operator import add, mul, neg, or_, sub

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.intervals import (
    FLAG,
    PLACE,
    SIGN,
    SIZE,
    ZERO,
    Interval,
    greater,
    is_integer,
    of_type,
)
from onnx_sparse.converters.rewriting.graph import constants_of
from onnx_sparse.converters.rewriting.well_formed import is_well_formed
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.graphs import array_of, attribute, subgraphs
from onnx_sparse.models.key_lookups import LOOKUPS
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import DType

#: How often a loop's body is followed before what still grows may be anything.
_ROUNDS = 2

#: The largest number at which a counter is taken to start.
_START = 1 << 16

#: The inputs whose elements the first result has, of operators that only move elements; none: all of them.
_MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Compress", "Slice", "Split", "Reshape", "Expand"), (0,)),
    **dict.fromkeys(("Tile", "Squeeze", "Unsqueeze", "TopK", "Unique", "Transpose", "Flatten", "Identity"), (0,)),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "ReverseSequence"), (0,)),
    "Where": (1, 2),
    "OneHot": (2,),
    "Concat": (),
}

#: The range of the first result of operators that make sizes, positions and flags of anything.
_MADE = {
    **dict.fromkeys(("Shape", "Size"), SIZE),
    **dict.fromkeys(("NonZero", "ArgMax", "ArgMin", "NonMaxSuppression"), PLACE),
    "Sign": SIGN,
    "EyeLike": FLAG,
}

#: The range of the results after the first.
_LATER = {"TopK": PLACE, "Unique": PLACE}


class IntegerRanges:
    """The ranges of a model's integer tensors, by name."""

    def __init__(self) -> None:
        self._found: dict[str, Interval] = {}

    def of(self, name: str, dtype: DType) -> Interval:
        """The range of a tensor of an element type; all that the type has if nothing is known of it."""
        return self._found.get(name) or of_type(dtype)

    def note(self, name: str, found: Interval) -> None:
        """Add what a tensor may be; branches may use one name for several tensors, and loops come back to one."""
        before = self._found.get(name)
        self._found[name] = found if before is None else before | found


def integer_ranges(model: ModelProto, positions: Collection[str] = ()) -> IntegerRanges:
    """Follow integers through a model, whose types must have been inferred.

    Args:
        model: The model.
        positions: Inputs whose integers are positions.
    """
    ranges = IntegerRanges()
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    _Follower(ranges, opset).follow(model.graph, [PLACE if v.name in positions else None for v in model.graph.input])
    return ranges


def number_reduced(shape: Shape | None, axes: Sequence[int] | None, *, is_noop: bool = False) -> int | None:
    """How many elements a reduction makes one of; None if it is not known.

    Args:
        shape: The shape of what is reduced.
        axes: The axes; none for all, or for no axis if `is_noop`; None if they are not known.
        is_noop: Whether no axes mean no axis.
    """
    if is_noop and axes is not None and not len(axes):
        return 1
    if shape is None:
        return None
    rank = len(shape)
    reduced = {axis % rank for axis in axes if -rank <= axis < rank} if axes else range(rank)
    sizes = [shape[axis] for axis in reduced]
    return None if None in sizes else int(np.prod([size for size in sizes if size is not None], dtype=object))


class _Follower:
    """Follows the integers of a graph and of those inside it, node by node."""

    def __init__(self, ranges: IntegerRanges, opset: int) -> None:
        self._ranges = ranges
        self._opset = opset
        self._types: dict[str, DType] = {}
        self._shapes: dict[str, Shape | None] = {}
        self._constants: dict[str, TensorProto] = {}

    def follow(self, graph: GraphProto, given: Sequence[Interval | None] = ()) -> None:
        """Note the ranges of the inputs of a graph, its constants and the results of its nodes in their order."""
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            dims = tuple(int(dim.dim_value) if dim.HasField("dim_value") else None for dim in kind.shape.dim)
            self._types[value.name] = kind.elem_type
            self._shapes[value.name] = dims if kind.HasField("shape") else None
        for value, found in zip(graph.input, given, strict=True):
            self._note(value.name, found)
        fed = {value.name for value in graph.input}  # a caller may give another value for their initializers
        for tensor in graph.initializer:
            if tensor.name not in fed:
                self._note_constant(tensor.name, tensor)
        for name, tensor in constants_of(graph.node):
            self._note_constant(name, tensor)
        for node in graph.node:
            if node.output[:1] and node.output[0] in self._constants:
                continue
            for name, found in zip(node.output, self._results(node), strict=False):
                self._note(name, found)

    def _note(self, name: str, found: Interval | None) -> None:
        dtype = self._types.get(name, 0)
        if name and (is_integer(dtype) or not dtype):
            self._ranges.note(name, of_type(dtype) if found is None else found.within(dtype))

    def _note_constant(self, name: str, tensor: TensorProto) -> Interval | None:
        self._types[name], self._shapes[name] = tensor.data_type, tuple(tensor.dims)
        self._constants[name] = tensor
        found = None
        if is_integer(tensor.data_type) and is_known(tensor):
            values = array_of(tensor)
            found = Interval(int(values.min()), int(values.max())) if values.size else ZERO
        self._note(name, found)
        return found

    def of(self, name: str) -> Interval:
        """The range of a tensor."""
        return self._ranges.of(name, self._types.get(name, 0))

    def _results(self, node: NodeProto) -> Sequence[Interval | None]:
        """The ranges of a node's results; None where nothing is known."""
        if node.domain == DOMAIN and is_well_formed(node, self._opset):
            return self._results_of_domain(node)
        if node.domain == "ai.onnx.ml" and node.op_type == "LabelEncoder":
            values = [*attribute(node, "values_int64s", ()), attribute(node, "default_int64", -1)]
            return [Interval(min(values), max(values)) if len(values) > 1 else None]
        if node.domain not in ("", "ai.onnx") or not is_well_formed(node, self._opset):
            return self._unknown_results(node)
        if subgraphs(node):
            return self._results_of_bodies(node)
        first = self._first_result(node)
        later = first if node.op_type == "Split" else _LATER.get(node.op_type)
        return [first, *[later] * (len(node.output) - 1)]

    def _first_result(self, node: NodeProto) -> Interval | None:
        if node.op_type in _MADE:
            return _MADE[node.op_type]
        if node.op_type == "ConstantOfShape":
            value = attribute(node, "value")
            return ZERO if value is None else self._note_constant(f"elements of {node.output[0]}", value)
        if node.op_type in _MOVED:
            places = _MOVED[node.op_type] or range(len(node.input))
            return reduce(or_, [self.of(node.input[k]) for k in places]) if len(node.input) > max(places) else None
        compute = _COMPUTED.get(node.op_type)
        return compute(self, node) if compute is not None and node.input else None

    def count(self, node: NodeProto) -> int | None:
        """How many elements a reduction makes one of; None if it is not known."""
        shape, is_noop = self._shapes.get(node.input[0]), bool(attribute(node, "noop_with_empty_axes", 0))
        if len(node.input) > 1 and node.input[1]:
            axes = self._numbers(node.input[1])
            is_noop = is_noop and axes is not None
            return number_reduced(shape, axes or (), is_noop=is_noop)  # along unknown axes, at most all elements
        return number_reduced(shape, attribute(node, "axes", ()), is_noop=is_noop)

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor, as far as it is known."""
        return self._shapes.get(name)

    def dtype(self, name: str) -> DType:
        """The element type of a tensor; 0 if it is not known."""
        return self._types.get(name, 0)

    def _numbers(self, name: str) -> list[int] | None:
        """The elements of a constant of integers."""
        tensor = self._constants.get(name)
        if tensor is None or not is_integer(tensor.data_type) or not is_known(tensor):
            return None
        return [int(number) for number in array_of(tensor).ravel()]

    def _results_of_domain(self, node: NodeProto) -> Sequence[Interval | None]:
        """The ranges that an operator's declaration tells."""
        if node.op_type in LOOKUPS:
            return [PLACE | Interval(-1, -1, PLACE.counted)]
        op = OPS[node.op_type]
        given = dict(zip((declared.name for declared in op.inputs), node.input, strict=False))
        results: list[Interval | None] = []
        for output in op.outputs[: len(node.output)]:
            sources = [declared for declared in op.inputs if declared.type == output.type and output.type in op.types]
            ranges = [self.of(given[s.name]) if given.get(s.name) else ZERO for s in sources]
            data = reduce(or_, ranges) if ranges else None
            if output.holds_data:
                results.append(None)
            elif data is None:
                results.append(PLACE)
            elif op.reduction in ("sum", "mean"):
                results.append((data | ZERO).total(None) if op.reduction == "sum" else data | ZERO)
            else:
                results.append(None if op.reduction else data)
        return results

    def _results_of_bodies(self, node: NodeProto) -> Sequence[Interval | None]:
        bodies = subgraphs(node)
        if node.op_type == "If":
            for body in bodies:
                self.follow(body)
            return [reduce(or_, each) for each in zip(*(map(self.of, _outputs(body)) for body in bodies), strict=False)]
        body, is_loop = bodies[0], node.op_type == "Loop"
        states = len(node.input) - 2 if is_loop else len(node.input) - int(attribute(node, "num_scan_inputs", 0))
        outputs = _outputs(body)[1:] if is_loop else _outputs(body)
        if node.op_type not in ("Loop", "Scan") or not 0 <= states <= len(outputs):
            return self._unknown_results(node)
        rounds = [PLACE, FLAG] if is_loop else []
        given: list[Interval | None] = [self.of(name) for name in node.input[len(rounds) :]]
        counters: set[int] = set()
        for turn in range(states + _ROUNDS + 1):
            self.follow(body, [*rounds, *given])
            after = [self.of(name) for name in outputs]
            grown = [k for k in range(states) if (old := given[k]) and k not in counters and old | after[k] != old]
            if not grown:
                break
            for k in grown:
                old = given[k] or after[k]
                is_counter = self._is_counter(body, body.input[len(rounds) + k].name, outputs[k])
                if is_counter and turn == 0 and 0 <= old.low <= old.high <= _START:
                    counters.add(k)
                    given[k] = SIZE
                else:
                    given[k] = old | after[k] if turn < _ROUNDS else None
        return [old and old | new for old, new in zip(given, after, strict=False)][:states] + after[states:]

    def _unknown_results(self, node: NodeProto) -> Sequence[None]:
        """Follow the graphs of a node of which nothing is known."""
        for body in subgraphs(node):
            self.follow(body, [None] * len(body.input))
        return [None] * len(node.output)

    def _is_counter(self, body: GraphProto, before: str, after: str) -> bool:
        """Whether one is added to a state in each round."""
        makers = {name: node for node in body.node for name in node.output}
        node = makers.get(after)
        while node is not None and node.op_type == "Identity":
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Add" or before not in node.input:
            return False
        return any(self._numbers(name) == [1] for name in node.input)


def _outputs(body: GraphProto) -> list[str]:
    return [value.name for value in body.output]


#: Computes the range of a node's first result; None if nothing is known.
_Compute = Callable[[_Follower, NodeProto], "Interval | None"]


def _of_all(compute: Callable[[Interval, Interval], Interval]) -> _Compute:
    """What is computed of all inputs, one after the other."""
    return lambda follower, node: reduce(compute, map(follower.of, node.input))


def _of_data(compute: Callable[[Interval], Interval]) -> _Compute:
    """What is computed of the first input."""
    return lambda follower, node: compute(follower.of(node.input[0]))


def _total(follower: _Follower, node: NodeProto) -> Interval:
    return summands(node.op_type, follower.of(node.input[0])).total(follower.count(node))


def summands(op_type: str, data: Interval) -> Interval:
    """The range of the numbers that a reduction adds."""
    return {"ReduceL1": data.absolute(), "ReduceSumSquare": data * data}.get(op_type, data)


def _product(follower: _Follower, node: NodeProto) -> Interval:
    return follower.of(node.input[0]).product(follower.count(node))


def _extreme(follower: _Follower, node: NodeProto) -> Interval | None:
    """An element of the data; of nothing, it is the least or largest integer."""
    return follower.of(node.input[0]) if follower.count(node) else None


def _cast(follower: _Follower, node: NodeProto) -> Interval | None:
    to = attribute(node, "to", 0) if node.op_type == "Cast" else follower.dtype(node.input[1])
    return follower.of(node.input[0]).within(to) if is_integer(follower.dtype(node.input[0])) and to else None


def _quotient(follower: _Follower, node: NodeProto) -> Interval:
    return follower.of(node.input[0]).divided(follower.of(node.input[1]))


def _remainder(follower: _Follower, node: NodeProto) -> Interval:
    is_of_dividend = bool(attribute(node, "fmod", 0))
    return follower.of(node.input[0]).remainder(follower.of(node.input[1]), of_dividend=is_of_dividend)


def _clip(follower: _Follower, node: NodeProto) -> Interval | None:
    low, high = (follower.of(name) if name else None for name in (*node.input, "", "")[1:3])
    data = follower.of(node.input[0])
    data = data if low is None else greater(data, low)
    return data if high is None else -greater(-data, -high)


def _range(follower: _Follower, node: NodeProto) -> Interval:
    """Numbers between the first and the limit, which are positions if it is a size."""
    first, limit = (follower.of(name) for name in node.input[:2])
    most = PLACE.high if limit.counted and first.high <= PLACE.high else limit.high
    return Interval(min(first.low, limit.low), max(first.high, most))


def _written(follower: _Follower, node: NodeProto) -> Interval | None:
    """What a Pad or a scatter takes from its data and from its third input, unless that is added or multiplied."""
    if attribute(node, "reduction", b"none") not in (b"none", b"max", b"min"):
        return None
    name = (*node.input, "", "")[2]
    return follower.of(node.input[0]) | (follower.of(name) if name else ZERO)


def _matrix_product(follower: _Follower, node: NodeProto) -> Interval:
    shape = follower.shape(node.input[0])
    factor = follower.of(node.input[0]) * follower.of(node.input[1])
    return factor.total(shape[-1] if shape else None)


def _masked(follower: _Follower, node: NodeProto) -> Interval | None:
    """The bits of numbers under a mask that is not negative."""
    masks = [found for found in map(follower.of, node.input) if found.low >= 0]
    return Interval(0, min(mask.high for mask in masks)) if masks else None


_COMPUTED: dict[str, _Compute] = {
    "Add": _of_all(add),
    "Sum": _of_all(add),
    "Sub": _of_all(sub),
    "Mul": _of_all(mul),
    "Max": _of_all(greater),
    "Min": _of_all(lambda one, other: -greater(-one, -other)),
    "Neg": _of_data(neg),
    "Abs": _of_data(Interval.absolute),
    "Relu": _of_data(lambda data: greater(data, ZERO)),
    "Trilu": _of_data(lambda data: data | ZERO),
    "CumSum": _of_data(lambda data: data.total(None)),
    "Div": _quotient,
    "Mod": _remainder,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "Range": _range,
    "MatMul": _matrix_product,
    "BitwiseAnd": _masked,
    "ReduceProd": _product,
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceSumSquare"), _total),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme),
    **dict.fromkeys(("Pad", "ScatterND", "ScatterElements"), _written),
}
