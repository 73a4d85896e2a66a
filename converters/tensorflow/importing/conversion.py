"""From a model that has been read to ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from onnx import ModelProto, ValueInfoProto, numpy_helper

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.tensorflow.importing.importer import Importer, NotConvertedError
from onnx_sparse.converters.tensorflow.large_tables import is_repeated
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS, onnx_type
from onnx_sparse.converters.tensorflow.reading.graph_file import PLACEHOLDERS
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.states import Pairs
from onnx_sparse.models.data.references import tensor_of
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.states import write_states

#: Standard operators that only look up rows of their first input.
_LOOKUPS = frozenset({"Gather", "GatherND"})


@dataclass(frozen=True)
class Imported:
    """The nodes of a model, not simplified and checked yet.

    Attributes:
        model: The model.
        tables: The values of its inputs that stand in for large tables.
        source_nodes: How many nodes of TensorFlow that compute something were converted.
        attempts: The outcome of the rules for tables that are derived from others.
    """

    model: ModelProto
    tables: dict[str, Array]
    source_nodes: int
    attempts: tuple[Attempt, ...]


def to_onnx(model: Model) -> Imported:
    """Convert the nodes of a model.

    Args:
        model: The model; it is converted once.

    Raises:
        ConversionError: It has nodes that cannot be converted, all of which are listed.
        Unsupported: Its inputs or outputs have types that ONNX lacks.
    """
    importer = Importer(model)
    emit = importer.frame.emit
    reserved = [port.name for port in (*model.inputs, *model.outputs)]
    for name in reserved:
        emit.names.fresh(name)
    given = [_feed(importer, port) for port in model.inputs]
    results = _results(importer, model.outputs)
    pairs = _states(importer, results)
    wanted = [port.name for port in model.outputs] + [state.present for state in pairs.record]
    outputs = emit.name_outputs([*results, *pairs.presents], wanted, start=0)
    values = [_described(tensor, port) for tensor, port in zip(outputs, model.outputs, strict=False)]
    values += [_described(tensor) for tensor in outputs[len(values) :]]
    made = emit.model(model.name, [_described(tensor) for tensor in (*given, *pairs.pasts)], values)
    write_states(made, pairs.record)
    return Imported(made, _add_large(made, emit.large), importer.computing_nodes(), tuple(importer.derived.attempts))


def inferred_shape(model: Model, tensor: str) -> Shape | None:
    """The shape of a tensor inside a graph, as far as it follows from those of the graph's own inputs.

    Args:
        model: The model; it is converted once.
        tensor: The tensor.
    """
    importer = Importer(model)
    try:
        for port in model.inputs:
            _feed(importer, port)
        found = importer.attempt([model.graph.origin(tensor)])
    except (ConversionError, Unsupported):  # which is an error where it is converted
        return None
    return None if found is None else found[0].shape


def _type_of(port: Port) -> DType:
    """The element type of an input or output.

    Raises:
        Unsupported: ONNX has none.
    """
    return onnx_type(NUMBERS.get(port.dtype, 0))


def _feed(importer: Importer, port: Port) -> Tensor:
    """The tensor that an input is."""
    graph = importer.model.graph
    node, _, position = port.tensor.partition(":")
    if node not in graph.nodes or not (position or "0").isdecimal():
        raise ConversionError(f"input {port.name} is the tensor {port.tensor}, which nothing makes")
    tensor = Tensor(port.name, _type_of(port), port.shape)
    graph.fed[node, int(position or 0)] = tensor
    return tensor


def _results(importer: Importer, ports: Sequence[Port]) -> list[Tensor]:
    """The tensors that the outputs are."""
    found: list[Tensor] = []
    origins = []
    for port in ports:
        with importer.unsupported.collecting(port.name, "output"):
            origins.append(importer.model.graph.origin(port.tensor))
    importer.unsupported.raise_if_any()
    importer.convert(origins)
    _refuse_omitted_inputs(importer)
    importer.unsupported.found[:] = dict.fromkeys(importer.unsupported.found)
    importer.unsupported.raise_if_any()
    for port, origin in zip(ports, origins, strict=True):
        try:
            (tensor,) = importer.tensors([origin])
        except Unsupported as reason:
            raise ConversionError(f"output {port.name} cannot be converted: {reason}") from None
        if tensor.dtype != _type_of(port):
            raise ConversionError(f"output {port.name} is {tensor}, not {port.dtype} as the model says")
        found.append(tensor)
    return found


def _states(importer: Importer, results: Sequence[Tensor]) -> Pairs:
    """The inputs and outputs of variables that a call reads and assigns."""
    pairs = Pairs([], [], [])
    # What could not be converted before it has been recorded.
    with importer.unsupported.collecting("states", "the next values of variables"), suppress(NotConvertedError):
        pairs = importer.variables.finish(results)
    importer.unsupported.raise_if_any()
    return pairs


def _refuse_omitted_inputs(importer: Importer) -> None:
    omitted = [node.node for node in importer.unsupported.found if node.op_type in PLACEHOLDERS]
    if omitted:
        was = "was" if len(omitted) == 1 else "were"
        raise ConversionError(f"the model needs every input: {', '.join(dict.fromkeys(omitted))} {was} omitted")


def _described(tensor: Tensor, port: Port | None = None) -> ValueInfoProto:
    """A tensor as an input or output, with names for dimensions that are not known."""
    shape = tensor.shape
    if port is not None and port.shape is not None:
        if shape is None:
            shape = port.shape
        elif len(shape) == len(port.shape):
            shape = tuple(p if s is None else s for s, p in zip(shape, port.shape, strict=True))
    value = value_info(Tensor(tensor.name, tensor.dtype, shape))
    for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
        if not dimension.HasField("dim_value"):
            dimension.dim_param = f"{tensor.name}_{axis}"
    return value


def _add_large(model: ModelProto, large: Mapping[str, Array]) -> dict[str, Array]:
    """Add large constants to a model: those that are only looked up, and
    those of one value, as inputs, which the returned tables become."""
    read: dict[str, bool] = {}
    for graph in graphs(model.graph):
        for node in graph.node:
            is_lookup = node.domain == DOMAIN or (node.domain == "" and node.op_type in _LOOKUPS)
            for position, name in enumerate(node.input):
                read[name] = read.get(name, True) and is_lookup and position == 0
        for value in graph.output:
            read[value.name] = False
    set_aside = {}
    for name, array in large.items():
        if name not in read:
            continue
        if read[name] or is_repeated(array):
            set_aside[name] = array
            dtype = numpy_helper.from_array(array.reshape(-1)[:1]).data_type
            model.graph.input.append(value_info(Tensor(name, dtype, array.shape)))
        else:
            model.graph.initializer.append(tensor_of(array, name))
    return set_aside
