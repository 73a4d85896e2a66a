"""From a model that has been read to ONNX."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from onnx import ModelProto, ValueInfoProto, numpy_helper

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensorflow.conversion import finished
from onnx_sparse.converters.tensorflow.feature_record import record_features
from onnx_sparse.converters.tensorflow.importing.importer import Importer
from onnx_sparse.converters.tensorflow.importing.input_shapes import with_ranks, with_shapes, without_shapes
from onnx_sparse.converters.tensorflow.large_tables import attach
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS, onnx_type
from onnx_sparse.converters.tensorflow.reading.graph_file import read_graph_file
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.saved_model import read_saved_model
from onnx_sparse.converters.tensorflow.source import Port, refuse_huge, refuse_what_onnx_lacks
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.tensor import Array, Tensor
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import DType

#: Standard operators that only look up rows of their first input.
_LOOKUPS = frozenset({"Gather", "GatherND"})


def import_saved_model(
    path: Path,
    *,
    tag: str | None = None,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tables: MutableMapping[str, Array] | None = None,
) -> ModelProto:
    """Convert a SavedModel; see `converters.tensorflow.convert`.

    Args:
        path: Its folder.
        tag: Which of its graphs; that for serving when omitted.
        signature: Which signature; `serving_default`, or the only one, when omitted.
        inputs, outputs: The chosen inputs and outputs, in order. An input whose rank the model leaves open may have a
            shape behind its name, `"x[-1,3]"`.
        tables: Receives the embedding tables of a model larger than 1 GiB.

    Raises:
        ConversionError: It cannot be read, or has nodes that cannot be converted, all of which are listed.
    """
    names, shapes = without_shapes(inputs)
    model = read_saved_model(path, tag=tag, signature=signature, inputs=names, outputs=outputs)
    return import_model(with_shapes(model, shapes), tables)


def import_graph(
    path: Path,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Array, Array]] | None = None,
    tables: MutableMapping[str, Array] | None = None,
) -> ModelProto:
    """Convert a frozen GraphDef, or a checkpoint of TensorFlow 1 by its `.meta` file; see `import_saved_model`."""
    names, shapes = without_shapes(inputs)
    model = read_graph_file(path, inputs=names, outputs=outputs, lookup_tables=lookup_tables)
    return import_model(with_shapes(model, shapes), tables)


def import_model(model: Model, tables: MutableMapping[str, Array] | None = None) -> ModelProto:
    """Convert a model that has been read.

    Args:
        model: The model; it is converted once.
        tables: Receives the embedding tables of a model larger than 1 GiB.

    Raises:
        ConversionError: It has nodes that cannot be converted, all of which are listed.
    """
    refuse_huge(model.inputs)
    refuse_what_onnx_lacks(model.inputs, "input")
    refuse_what_onnx_lacks(model.outputs, "output")
    made, set_aside = _converted(with_ranks(model, _converted))
    attach(made, set_aside, tables)
    record_features(made, model.specs)
    return made


def _converted(model: Model) -> tuple[ModelProto, dict[str, Array]]:
    """The finished model, and its tables, which are inputs of it."""
    try:
        made, set_aside = to_onnx(model)
    except Unsupported as reason:
        raise ConversionError(f"{model.name} cannot be converted: {reason}") from None
    made, _, _ = finished(made, model.specs)
    return made, set_aside


def to_onnx(model: Model) -> tuple[ModelProto, dict[str, Array]]:
    """The nodes of a model, not simplified and checked yet.

    Returns:
        The model, and its tables, which are inputs of it.

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
    outputs = emit.name_outputs(results, [port.name for port in model.outputs], start=0)
    values = [_described(tensor, port) for tensor, port in zip(outputs, model.outputs, strict=True)]
    made = emit.model(model.name, [_described(tensor) for tensor in given], values)
    return made, _add_large(made, emit.large)


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
    """Add large constants to a model: those that are only looked up as inputs, which the returned tables become."""
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
        if read[name]:
            set_aside[name] = array
            dtype = numpy_helper.from_array(array.reshape(-1)[:1]).data_type
            model.graph.input.append(value_info(Tensor(name, dtype, array.shape)))
        else:
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    return set_aside
