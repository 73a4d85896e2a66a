"""`convert`: from an IR to a model that runs in ONNX Runtime."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import onnx
from onnx import ModelProto, TensorProto

from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNodes, first_line
from onnx_sparse.converters.onnxruntime.gathers import PlacesInScalar
from onnx_sparse.converters.onnxruntime.guards import UNSPECIFIED, guard
from onnx_sparse.converters.openvino import compression
from onnx_sparse.converters.openvino.compressed_weight import Weight
from onnx_sparse.converters.openvino.element_types import CARRIED, MOVING, ONNX_TYPES
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers import Converted, Node, find_handler
from onnx_sparse.converters.openvino.ir import Layer, Network, Port, read_ir
from onnx_sparse.converters.openvino.ir.weights import Weights
from onnx_sparse.converters.openvino.model_ports import parameter, port_names, port_shape
from onnx_sparse.converters.openvino.quotients import signed_quotients
from onnx_sparse.converters.openvino.untrue_sizes import without_untrue_sizes
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.tensor import Shape, Tensor

#: The limit of protocol buffers; the tools of the onnx package refuse larger models.
_LARGEST_PROTO = 2**31 - 1


def convert(
    source: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ModelProto:
    """Convert an OpenVINO IR to ONNX with operators of the domain `onnx_sparse`.

    Args:
        source: The `.xml` of an IR of version 10 or 11.
        weights: Its `.bin`; the file of the same name beside it when omitted. IRs without constants need none.
        progress: Called with `"reading"`, `"converting"` and `"checking"` as these begin.

    Returns:
        A model of IR version 10 in canonical form. Its inputs and outputs have the names of the IR's tensors, in the
        order of the IR.

    Raises:
        ConversionError: The files cannot be read, or layers cannot be converted: all of them are listed.
    """
    tell = progress or (lambda stage: None)
    tell("reading")
    path = Path(source)
    network = without_untrue_sizes(read_ir(path))
    for layer in signed_quotients(network):
        warnings.warn(
            f"{layer.name!r} divides signed integers and, as its m_pythondiv says, rounds down; OpenVINO's CPU plugin, "
            "and ONNX where the IR comes from there, round toward zero: they differ for negative numbers",
            stacklevel=2,
        )
    constants = Weights(Path(weights) if weights is not None else path.with_suffix(".bin"))
    if any(layer.type in ("Const", "Constant") for layer in network.layers.values()):
        constants.content()  # to say once that it is missing, not once per constant
    tell("converting")
    model = convert_network(network, constants)
    tell("checking")
    return _checked(model)


def convert_network(network: Network, weights: Weights) -> ModelProto:
    """The model of a network."""
    emitter = Emitter()
    unsupported = UnsupportedNodes()
    names = port_names(network, emitter.names)
    converted = convert_layers(network, emitter, weights, unsupported, input_names=names.inputs)
    unsupported.raise_if_any()
    if not converted.results:
        raise ConversionError(f"{network.name!r} has no Result layer")
    wanted = [names.outputs[layer_id] for layer_id in converted.results]
    outputs = emitter.name_outputs(list(converted.results.values()), wanted, start=0)
    return emitter.model(network.name, [*map(value_info, converted.parameters.values())], [*map(value_info, outputs)])


def convert_layers(
    network: Network,
    emitter: Emitter,
    weights: Weights,
    unsupported: UnsupportedNodes,
    *,
    given: Mapping[int, Tensor] = MappingProxyType({}),
    input_names: Mapping[int, str] = MappingProxyType({}),
) -> Converted:
    """Convert the layers of a graph or of a body.

    Args:
        network: The graph.
        emitter: Receives the nodes.
        weights: The constants.
        unsupported: Receives the layers that cannot be converted.
        given: The tensors that stand for Parameters, by layer id; other Parameters are inputs.
        input_names: The names of these inputs, by layer id; the layers' names when omitted.
    """
    tensors: dict[tuple[int, int], Tensor] = {}
    converted = Converted()
    order = network.ordered()
    compressed = compression.plan(network, order, weights)
    for layer in order:
        if layer.id in compressed.unread:
            continue
        read = [network.sources[layer.id, port.id] for port in layer.inputs]
        emitter.begin(layer.name)
        with unsupported.collecting(layer.name, f"{layer.type}, {layer.version}"):
            if layer.type == "Parameter":
                tensor = given.get(layer.id)
                if tensor is None:
                    name = input_names.get(layer.id)
                    tensor = parameter(layer, emitter.names.fresh(layer.name) if name is None else name)
                converted.parameters[layer.id] = tensor
                made: tuple[Tensor, ...] = (tensor,)
            elif layer.id in compressed.weights:
                weight = compressed.weights[layer.id]
                made = (_weight(layer, weight, emitter, weights, expanded=layer.id in compressed.expanded),)
            elif any(source not in tensors for source in read):
                # A layer before it could not be converted. Report whether this one could be.
                if layer.type != "Result":
                    find_handler(layer)
                continue
            elif layer.type == "Result":
                if len(read) != 1:
                    raise Unsupported(f"it has {len(read)} inputs; a Result has one")
                converted.results[layer.id] = tensors[read[0]]
                continue
            else:
                made = _convert_layer(layer, [tensors[source] for source in read], emitter, weights, unsupported)
            tensors.update({(layer.id, port.id): tensor for port, tensor in zip(layer.outputs, made, strict=False)})
    positions = {layer_id: place for place, layer_id in enumerate(network.layers)}
    for found in (converted.parameters, converted.results):
        ordered = sorted(found.items(), key=lambda item: positions[item[0]])
        found.clear()
        found.update(ordered)
    return converted


def _convert_layer(
    layer: Layer, inputs: Sequence[Tensor], emitter: Emitter, weights: Weights, unsupported: UnsupportedNodes
) -> tuple[Tensor, ...]:
    handler = find_handler(layer)

    def convert_body(body: Network, inner: Emitter, given: Mapping[int, Tensor]) -> Converted:
        return convert_layers(body, inner, weights, unsupported, given=given)

    carried = [port.precision for port in layer.outputs if port.precision in CARRIED]
    if carried and layer.type not in MOVING:
        raise Unsupported(f"it computes in {carried[0]}, a type that only constants may have")
    node = Node(layer, tuple(inputs), tuple(_expected(port) for port in layer.outputs), weights, convert_body)
    results = handler.convert(node, emitter)
    if len(results) < len(layer.outputs):
        raise Unsupported(f"it has {len(layer.outputs)} outputs; {len(results)} are converted")
    finished = []
    for tensor, (dtype, shape) in zip(results, node.results, strict=False):
        cast = tensor if dtype is None else emitter.cast(tensor, dtype)
        known = _joined(cast.shape, shape)
        if cast.value is not None and known != cast.value.shape:
            raise Unsupported(f"its value has the shape {list(cast.value.shape)}, its output {list(known or ())}")
        finished.append(replace(cast, shape=known))
    return tuple(finished)


def _weight(layer: Layer, weight: Weight, emitter: Emitter, weights: Weights, *, expanded: bool) -> Tensor:
    """The floats of a compressed weight; if they are not expanded, only a name by which handlers find the weight."""
    dtype = ONNX_TYPES[layer.outputs[0].precision]
    if not expanded:
        made = Tensor(emitter.names.fresh(layer.name), dtype, weight.shape)
        emitter.weights[made.name] = weight
        return made
    return emitter.cast(compression.expand(weight, weights, emitter), dtype)


def _joined(found: Shape | None, declared: Shape | None) -> Shape | None:
    """What is known of a shape by what is declared, and else by what is found."""
    if declared is None or found is None or len(found) != len(declared):
        return found if declared is None else declared
    return tuple(f if d is None else d for f, d in zip(found, declared, strict=True))


def _expected(port: Port) -> tuple[TensorProto.DataType | None, Shape | None]:
    if port.precision and port.precision not in ONNX_TYPES:
        raise Unsupported(f"element type {port.precision!r} of an output is not supported")
    return ONNX_TYPES.get(port.precision), port_shape(port)


def _checked(model: ModelProto) -> ModelProto:
    """The model with types and shapes of its inner tensors, unless it is too large for the tools of onnx."""
    if model.ByteSize() >= _LARGEST_PROTO:
        return model
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        guard(model, omitted=(*UNSPECIFIED, PlacesInScalar))  # OpenVINO gives a scalar a coordinate, too
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
            for value in values:
                if not value.type.tensor_type.HasField("shape"):
                    raise ConversionError(
                        f"the rank of {kind} {value.name!r} is not known, which ONNX demands; give the inputs a rank "
                        "in OpenVINO (model.reshape) and save the IR again"
                    )
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error
    return model
