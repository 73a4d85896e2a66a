"""From a flat ATB graph to an ONNX model: the driver of the handlers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onnx import ModelProto, ValueInfoProto

from onnx_sparse.converters.ascend.atb.graph import AtbGraph, AtbNode, with_unique_writes
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS, Choices, Node
from onnx_sparse.converters.ascend.atb.operations import why_not
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord, Records, TensorRecord
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.given_inputs import HOW_TO_GIVE_SHAPES, Given
from onnx_sparse.converters.ascend.shapes import element_count
from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNode, UnsupportedNodes
from onnx_sparse.converters.tensor import Shape, Tensor, shape_text
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.schemas.declaration import dtype_name

#: The domain of operations that are kept unconverted.
UNKNOWN_DOMAIN = "ascend.atb"


@dataclass
class Conversion:
    """A model and its relation to the source.

    Attributes:
        model: The model.
        graph: The source, in which every tensor is written once and has its name in the model.
        tensors: Every tensor by name.
    """

    model: ModelProto
    graph: AtbGraph
    tensors: dict[str, Tensor]


@dataclass
class _State:
    emit: AscendEmitter
    records: Records
    choices: Choices
    keep_unknown: bool
    tensors: dict[str, Tensor] = field(default_factory=dict)
    unsupported: UnsupportedNodes = field(default_factory=lambda: UnsupportedNodes(HOW_TO_GIVE_SHAPES))


def convert_graph(
    source: AtbGraph,
    *,
    given: Mapping[str, Given],
    records: Records,
    choices: Choices,
    keep_unknown: bool = False,
    weights_from_dump: bool = True,
) -> Conversion:
    """Convert a graph.

    Args:
        source: The graph from a reader.
        given: The types and shapes that the user gives for its inputs.
        records: The records of its tensors in a dump.
        choices: The user's choices.
        keep_unknown: Keep operations without a handler as nodes of the domain `ascend.atb`.
        weights_from_dump: Turn weights whose data are in the dump into initializers.

    Raises:
        ConversionError: Operations cannot be converted (all are listed), or the types of inputs are not known.
    """
    graph = with_unique_writes(source, written)
    if not graph.outputs:
        raise ConversionError(f"{graph.name} lists no outputs (outTensors) and writes onto none of its inputs")
    unknown = [name for name in given if name not in graph.inputs]
    if unknown:
        raise ConversionError(f"{graph.name} has no input {unknown[0]}; its inputs are {', '.join(graph.inputs)}")
    every_name = {*graph.inputs, *(name for node in graph.nodes for name in node.outputs)}
    emit = AscendEmitter(sorted(every_name), saturate=choices.saturates)
    state = _State(emit, records, choices, keep_unknown)
    inputs, untyped = _place_inputs(graph, given, state, weights_from_dump=weights_from_dump)
    for node in graph.nodes:
        _convert_node(node, state)
    _raise_for(untyped, state.unsupported.found)
    outputs = [_output(state, name, graph) for name in graph.outputs]
    model = state.emit.model(graph.name, inputs, outputs, doc="converted from an ATB graph")
    return Conversion(model, graph, state.tensors)


def written(node: AtbNode) -> tuple[str, ...]:
    """The names that a node writes; some operations have no outputs and write an input."""
    handler = HANDLERS.get(node.kind)
    if node.outputs or handler is None or max(handler.writes, default=0) >= len(node.inputs):
        return node.outputs
    return tuple(node.inputs[place] for place in handler.writes)


def _raise_for(untyped: list[str], unsupported: list[UnsupportedNode]) -> None:
    """Report everything that prevents the conversion at once."""
    if not untyped:
        if unsupported:
            raise ConversionError(unsupported=unsupported)
        return
    names = ", ".join(untyped[:8]) + (f" and {len(untyped) - 8} more" if len(untyped) > 8 else "")
    message = (
        f"the element types of the inputs {names} are not in the graph: give each as "
        f"--input-spec {untyped[0]}:float16:2,3, or the dump's tensors with --tensors"
    )
    if unsupported:
        message += f"; and {len(unsupported)} of the operations cannot be converted"
    raise ConversionError(message, unsupported)


# --- inputs ----------------------------------------------------------------------------------------------------------


def _place_inputs(
    graph: AtbGraph, given: Mapping[str, Given], state: _State, *, weights_from_dump: bool
) -> tuple[list[ValueInfoProto], list[str]]:
    """The graph's inputs, and the names of those whose types are not known.

    The user's types take precedence over the dump's. Weights become initializers.
    """
    first_use = _first_uses(graph)
    weights = (graph.weights | _weights_by_use(graph)) if weights_from_dump else frozenset()
    inputs, unknown = [], []
    for name in graph.inputs:
        record = _input_record(graph, name, state.records, first_use)
        if name in given:
            tensor = Tensor(name, given[name].dtype, given[name].shape)
            _check_given(tensor, record)
        elif record is not None and record.dtype is not None:
            tensor = Tensor(name, record.dtype, record.shape)
        elif name in first_use or name in graph.outputs:
            unknown.append(name)
            continue
        else:
            continue  # nothing reads it
        if name in weights and record is not None and record.file is not None:
            weight = state.emit.constant(read_tensor(record.file, state.records.root), tensor.dtype, name)
            tensor = replace(weight, value=None)  # a cast of it must not take its place in the model
        else:
            inputs.append(value_info(tensor))
        state.tensors[name] = tensor
    return inputs, unknown


def _input_record(
    graph: AtbGraph, name: str, records: Records, first_use: Mapping[str, tuple[AtbNode, int]]
) -> TensorRecord | None:
    """A dump's record of an input: as the graph reads it, else as the first operation reads it."""
    own, position = records.of((), graph.name).inputs, graph.inputs.index(name)
    if position < len(own) and own[position] is not None:
        return own[position]
    if name not in first_use:
        return None
    node, index = first_use[name]
    seen = records.of(node.path, node.name).inputs
    return seen[index] if index < len(seen) else None


def _check_given(tensor: Tensor, record: TensorRecord | None) -> None:
    if record is not None and record.dtype is not None and record.dtype != tensor.dtype:
        raise ConversionError(
            f"{tensor.name} is {dtype_name(record.dtype)} in the dump, not {dtype_name(tensor.dtype)}"
        )


def _first_uses(graph: AtbGraph) -> dict[str, tuple[AtbNode, int]]:
    uses: dict[str, tuple[AtbNode, int]] = {}
    for node in graph.nodes:
        for index, name in enumerate(node.inputs):
            uses.setdefault(name, (node, index))
    return uses


def _weights_by_use(graph: AtbGraph) -> frozenset[str]:
    """The inputs that are only read as weights; a layer's file does not say which of its inputs are weights."""
    roles: dict[str, set[bool]] = {}
    for node in graph.nodes:
        handler = HANDLERS.get(node.kind)
        for index, name in enumerate(node.inputs):
            roles.setdefault(name, set()).add(handler is not None and index in handler.weights)
    return frozenset(name for name in graph.inputs if roles.get(name) == {True})


# --- operations ------------------------------------------------------------------------------------------------------


def _convert_node(node: AtbNode, state: _State) -> None:
    record = state.records.of(node.path, node.name)
    handler = HANDLERS.get(node.kind)
    state.emit.begin(node.name)
    with state.unsupported.collecting(node.name, node.op_type or "?"):
        if handler is None and not (state.keep_unknown and node.op_type):
            reason = why_not(node.kind)
            if not node.op_type:
                reason = "a plugin operation: the dump holds its name only, neither its type nor its parameters"
            raise Unsupported(reason)
        if any(name not in state.tensors for name in node.inputs):
            return  # the operation that could not be converted, or the input without a type, is already reported
        inputs = _as_recorded(node, record, state)
        param = node.param if node.param not in (None, "") else record.param
        if handler is None:
            results = _kept(node, inputs, record, param, state)
        else:
            count = len(node.outputs)
            seen = Node(node.name, node.op_type, Parameters(param), Inputs(inputs), record, state.choices, count)
            results = handler.convert(seen, state.emit)
        if len(results) != len(node.outputs):
            raise Unsupported(f"it has {len(node.outputs)} outputs, {len(results)} expected")
        for tensor in state.emit.name_outputs(results, node.outputs):
            state.tensors[tensor.name] = tensor


def _as_recorded(node: AtbNode, record: OperationRecord, state: _State) -> tuple[Tensor, ...]:
    """The inputs in the shapes in which they were read according to the dump.

    ATB can reshape an input of a node with a function in the model's code, which leaves no trace in a dump but the
    shape.
    """
    tensors = []
    for index, name in enumerate(node.inputs):
        tensor = state.tensors[name]
        seen = record.inputs[index] if index < len(record.inputs) else None
        if seen is None:
            tensors.append(tensor)
            continue
        if seen.dtype is not None and seen.dtype != tensor.dtype:
            raise Unsupported(f"it reads {tensor}, which is {dtype_name(seen.dtype)} in the dump")
        if seen.shape is None or None in seen.shape:
            tensors.append(tensor)
            continue
        if tensor.shape is None:
            tensor = replace(tensor, shape=seen.shape)
        if not _fits(tensor.shape, seen.shape):
            counts = element_count(tensor.shape), element_count(seen.shape)
            if None not in counts and counts[0] != counts[1]:
                raise Unsupported(f"it reads {tensor}, which is {shape_text(seen.shape)} in the dump")
            state.emit.notes.append(
                f"{node.name}: input {index} ({name}) is reshaped from {shape_text(tensor.shape)} to "
                f"{shape_text(seen.shape)}, as the dump says; the graph does not"
            )
            tensor = state.emit.reshape(tensor, [d for d in seen.shape if d is not None])
        tensors.append(tensor)
    return tuple(tensors)


def _fits(shape: Shape | None, seen: Shape) -> bool:
    return (
        shape is not None and len(shape) == len(seen) and all(a in (None, b) for a, b in zip(shape, seen, strict=True))
    )


def _kept(
    node: AtbNode, inputs: tuple[Tensor, ...], record: OperationRecord, param: object, state: _State
) -> tuple[Tensor, ...]:
    """The operation as a node of a foreign domain, its parameters as JSON; its results are as in the dump."""
    known = [r if r is not None else TensorRecord() for r in record.outputs]
    known += [TensorRecord()] * (len(node.outputs) - len(known))
    results = known[: len(node.outputs)]
    text = json.dumps(param if param is not None else {}, sort_keys=True)
    dtypes, shapes = [r.dtype or 0 for r in results], [r.shape for r in results]
    return state.emit.node(node.op_type, inputs, dtypes, shapes, domain=UNKNOWN_DOMAIN, param=text)


def _output(state: _State, name: str, graph: AtbGraph) -> ValueInfoProto:
    tensor = state.tensors[name]
    if name in graph.inputs:  # an input that is also an output, unchanged
        state.emit.begin(name)
        (tensor,) = state.emit.name_outputs((tensor,), (state.emit.names.fresh(f"{name}_output"),))
    return value_info(tensor)
