"""From an IR to a model before the passes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from onnx import ModelProto, TensorProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNodes
from onnx_sparse.converters.onnxruntime.gathers import PlacesInScalar
from onnx_sparse.converters.onnxruntime.guards import UNSPECIFIED
from onnx_sparse.converters.onnxruntime.slices import BackwardSliceFromBefore
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.openvino import compression
from onnx_sparse.converters.openvino.compressed_weight import Weight
from onnx_sparse.converters.openvino.element_types import CARRIED, MOVING, ONNX_TYPES
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers import Converted, Node, find_handler
from onnx_sparse.converters.openvino.ir import Layer, Network, Port, read_ir
from onnx_sparse.converters.openvino.ir.weights import Weights
from onnx_sparse.converters.openvino.model_ports import parameter, port_names, port_shape
from onnx_sparse.converters.openvino.older_files import in_todays_form
from onnx_sparse.converters.openvino.quotients import signed_quotients
from onnx_sparse.converters.openvino.states import ASSIGN, READ, Variables
from onnx_sparse.converters.openvino.untrue_sizes import without_untrue_sizes
from onnx_sparse.converters.pipeline import Pass
from onnx_sparse.converters.pipeline.passes import in_place
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.files.guarded_files import folder_of
from onnx_sparse.models.files.large_models import whole_size
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.states import write_states

#: From which size on a model is said to be larger than the constants of its IR: so many times, and bytes for its nodes.
_LARGER, _SMALL = 1.5, 10_000


def convert_file(path: Path, weights: Path | None, tell: Callable[[str], None]) -> ModelProto:
    """The model of an IR, before the passes.

    Args:
        path: The `.xml`.
        weights: The `.bin`; by default the file of the same name next to it.
        tell: Called with `"converting"` as that begins.

    Raises:
        ConversionError: The files cannot be read, or layers cannot be converted: all of them are listed.
    """
    network = without_untrue_sizes(in_todays_form(read_ir(path)))
    for layer in signed_quotients(network):
        warnings.warn(
            f"{layer.name!r} divides signed integers and, as its m_pythondiv says, rounds down; OpenVINO's CPU plugin, "
            "and ONNX where the IR comes from there, round toward zero: they differ for negative numbers",
            stacklevel=3,
        )
    constants = Weights(path.with_suffix(".bin"), folder_of(path)) if weights is None else Weights(weights)
    if (end := _end_of_constants(network)) is not None:
        size = constants.file().size  # to say once that it is missing, not once per constant
        if size > end:
            warnings.warn(
                f"{constants.path} has {size:,} bytes, and the constants of {path} end at byte {end:,}: "
                "it may belong to another IR, and its values are then wrong",
                stacklevel=3,
            )
    tell("converting")
    model = convert_network(network, constants)
    _warn_of_growth(network, model)
    return model


def _end_of_constants(network: Network) -> int | None:
    """Where the last constant ends, also of those in bodies: OpenVINO writes nothing after it."""
    ends: list[int] = []
    for layer in network.layers.values():
        ends += filter(None, map(_end_of_constants, layer.bodies.values()))
        if layer.type == "Const":
            ends.append(0)
            with contextlib.suppress(ValueError):  # which is reported with its layer
                ends.append(int(layer.data.get("offset", 0)) + int(layer.data.get("size", 0)))
    return max(ends, default=None)


def _warn_of_growth(network: Network, model: ModelProto) -> None:
    """Say how large a model is whose constants are of types that ONNX cannot store as small."""
    stored = [layer for layer in network.layers.values() if layer.type == "Const"]
    kinds = sorted({layer.data.get("element_type", "") for layer in stored} & CARRIED)
    before, after = sum(int(layer.data.get("size", 0)) for layer in stored), whole_size(model)
    if kinds and after > _LARGER * before + _SMALL:
        warnings.warn(
            f"constants of {', '.join(kinds)}: not all stay as small in ONNX; {after / 1e3:,.0f} KB in the model, "
            f"{before / 1e3:,.0f} KB in the IR",
            stacklevel=4,
        )


def convert_network(network: Network, weights: Weights) -> ModelProto:
    """The model of a network."""
    emitter = OpenVINOEmitter()
    unsupported = UnsupportedNodes()
    names = port_names(network, emitter.names)
    variables = Variables(network, emitter)
    converted = convert_layers(network, emitter, weights, unsupported, input_names=names.inputs, variables=variables)
    unsupported.raise_if_any()
    if not converted.results and not variables:
        raise ConversionError(f"{network.name!r} has no Result layer")
    pairs = variables.finish({tensor.name for tensor in converted.results.values()})
    wanted = [names.outputs[layer_id] for layer_id in converted.results] + [state.present for state in pairs.record]
    outputs = emitter.name_outputs([*converted.results.values(), *pairs.presents], wanted, start=0)
    inputs = [*converted.parameters.values(), *pairs.pasts]
    model = emitter.model(network.name, [*map(value_info, inputs)], [*map(value_info, outputs)])
    write_states(model, pairs.record)
    return model


def convert_layers(
    network: Network,
    emitter: OpenVINOEmitter,
    weights: Weights,
    unsupported: UnsupportedNodes,
    *,
    given: Mapping[int, Tensor] = MappingProxyType({}),
    input_names: Mapping[int, str] = MappingProxyType({}),
    variables: Variables | None = None,
) -> Converted:
    """Convert the layers of a graph or of a body.

    Args:
        network: The graph.
        emitter: Receives the nodes.
        weights: The constants.
        unsupported: Receives the layers that cannot be converted.
        given: The tensors that stand for Parameters, by layer id; other Parameters are inputs.
        input_names: The names of these inputs, by layer id; the layers' names when omitted.
        variables: Receives the states; a body can have none.
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
                    _check_rank(tensor)
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
            elif layer.type == READ and variables is not None:
                initial = tensors[read[0]] if read else None
                made = (variables.read(layer, initial, _known(network, read, tensors)),)
            elif layer.type == ASSIGN and variables is not None and read:
                made = (variables.assign(layer, tensors[read[0]]),)
            else:
                given_values = partial(_known, network, read, tensors)
                inputs = [tensors[source] for source in read]
                made = _convert_layer(layer, inputs, emitter, weights, unsupported, given_values)
            tensors.update({(layer.id, port.id): tensor for port, tensor in zip(layer.outputs, made, strict=False)})
    positions = {layer_id: place for place, layer_id in enumerate(network.layers)}
    for found in (converted.parameters, converted.results):
        ordered = sorted(found.items(), key=lambda item: positions[item[0]])
        found.clear()
        found.update(ordered)
    return converted


def _known(
    network: Network, read: Sequence[tuple[int, int]], tensors: Mapping[tuple[int, int], Tensor], position: int = 0
) -> Array | None:
    """The value of a layer's input if it is a constant, also one that a Convert decompresses."""
    if position >= len(read):
        return None
    found = tensors[read[position]]
    producer = network.layers[read[position][0]]
    if found.value is None and producer.type == "Convert" and producer.inputs:
        stored = tensors[network.sources[producer.id, producer.inputs[0].id]]
        return None if stored.value is None else stored.value.astype(numpy_dtype(found.dtype))
    return found.value


def _convert_layer(
    layer: Layer,
    inputs: Sequence[Tensor],
    emitter: OpenVINOEmitter,
    weights: Weights,
    unsupported: UnsupportedNodes,
    known: Callable[[int], Array | None],
) -> tuple[Tensor, ...]:
    handler = find_handler(layer)

    def convert_body(body: Network, inner: OpenVINOEmitter, given: Mapping[int, Tensor]) -> Converted:
        return convert_layers(body, inner, weights, unsupported, given=given)

    carried = [port.precision for port in layer.outputs if port.precision in CARRIED]
    if carried and layer.type not in MOVING:
        raise Unsupported(f"it computes in {carried[0]}, a type that only constants may have")
    results = tuple(_expected(port) for port in layer.outputs)
    node = Node(layer, Inputs(inputs), results, weights, convert_body, known)
    made = handler.convert(node, emitter)
    if len(made) < len(layer.outputs):
        raise Unsupported(f"it has {len(layer.outputs)} outputs; {len(made)} are converted")
    finished = []
    for tensor, (dtype, shape) in zip(made, node.results, strict=False):
        cast = tensor if dtype is None else emitter.cast(tensor, dtype)
        joined = _joined(cast.shape, shape)
        if cast.value is not None and joined != cast.value.shape:
            raise Unsupported(f"its value has the shape {list(cast.value.shape)}, its output {list(joined or ())}")
        finished.append(replace(cast, shape=joined))
    return tuple(finished)


def _weight(layer: Layer, weight: Weight, emitter: OpenVINOEmitter, weights: Weights, *, expanded: bool) -> Tensor:
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
    if port.precision and port.precision not in (*ONNX_TYPES, "dynamic"):
        raise Unsupported(f"element type {port.precision!r} of an output is not supported")
    return ONNX_TYPES.get(port.precision), port_shape(port)


def _check_rank(given: Tensor) -> None:
    """Refuse an input of unknown rank, before layers that read it are refused for that."""
    if given.shape is None:
        raise Unsupported(
            "its rank is not known, which ONNX demands; give it one in OpenVINO "
            f"(model.reshape({{{given.name!r}: [-1, -1]}})) and save the IR again"
        )


def _check_ranks(model: ModelProto) -> None:
    """Refuse an output of unknown rank, which ONNX does not have."""
    if model.ByteSize() >= LARGEST_PROTO:
        return  # its types have not been inferred
    for value in model.graph.output:
        if not value.type.tensor_type.HasField("shape"):
            lengths = ", ".join(f"{name!r}: [2]" for name in _of_open_length(model)) or "..."
            raise ConversionError(
                f"the rank of output {value.name!r} is not known, which ONNX demands; fix the length of the inputs "
                f"that hold its shape or axes in OpenVINO (model.reshape({{{lengths}}})) and save the IR again"
            )


def _of_open_length(model: ModelProto) -> list[str]:
    """The inputs that are vectors of integers of any length."""
    tensors = {value.name: value.type.tensor_type for value in model.graph.input}
    return [
        name
        for name, tensor in tensors.items()
        if tensor.elem_type in (TensorProto.INT32, TensorProto.INT64)
        and len(tensor.shape.dim) == 1
        and not tensor.shape.dim[0].HasField("dim_value")
    ]


def passes(*, check_ids: bool = False) -> tuple[Pass, ...]:
    """What is done with a model once its layers are converted. OpenVINO gives a scalar a coordinate, too."""
    return (
        pipeline.INFER_WITH_TYPES,
        *([pipeline.REFUSE_NEGATIVE_IDS] if check_ids else []),
        pipeline.guard_against(omitted=(*UNSPECIFIED, PlacesInScalar, OneNaN, BackwardSliceFromBefore)),
        pipeline.INFER_WITH_TYPES,
        pipeline.REFUSE_UNSUPPORTED,
        Pass("ranks", "refuses inputs and outputs of unknown rank", in_place(_check_ranks)),
        pipeline.CHECK,
    )
