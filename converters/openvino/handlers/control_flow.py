"""If, Loop and TensorIterator, whose bodies are graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.ir import BodyMap, Network
from onnx_sparse.converters.openvino.model_ports import parameter
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info


def _number(entry: BodyMap, key: str, default: int | None = None) -> int:
    text = entry.attributes.get(key)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise Unsupported(f"{key} = {text!r} in a port map is not an integer") from None


def _of_kind(node: Node, name: str, kind: str) -> list[BodyMap]:
    return [entry for entry in node.layer.maps.get(name, ()) if entry.kind == kind]


def _input(node: Node, port: int) -> Tensor:
    for tensor, declared in zip(node.inputs, node.layer.inputs, strict=True):
        if declared.id == port:
            return tensor
    raise Unsupported(f"a port map names input {port}, which is not there")


@handles("If-8", to="If")
def if_(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """If-8. ONNX's branches read its inputs directly, as tensors of the outer graph."""
    branches = {}
    chosen: list[list[Tensor]] = []
    for branch in ("then", "else"):
        if f"{branch}_body" not in node.layer.bodies:
            raise Unsupported(f"it has no {branch}_body")
        body = node.layer.bodies[f"{branch}_body"]
        name = f"{branch}_port_map"
        given = {
            _number(e, "internal_layer_id"): _input(node, _number(e, "external_port_id"))
            for e in _of_kind(node, name, "input")
        }
        inner = emit.body()
        converted = node.convert_body(body, inner, given)
        made = {_number(e, "external_port_id"): _number(e, "internal_layer_id") for e in _of_kind(node, name, "output")}
        results = [_result(converted.results, made.get(port.id)) for port in node.layer.outputs]
        branches[f"{branch}_branch"] = _graph(inner, body.name, [], results)
        chosen.append(results)
    condition = emit.scalar(emit.cast(node[0], TensorProto.BOOL))
    dtypes, shapes = [t.dtype for t in chosen[0]], list(map(_shared_shape, *chosen))
    return emit.node("If", [condition], dtypes, shapes, **branches)


def _shared_shape(one: Tensor, other: Tensor) -> Shape | None:
    """What two tensors have in common, of which a result is one."""
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return None
    return tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True))


def _result(results: dict[int, Tensor], layer: int | None) -> Tensor:
    if layer not in results:
        raise Unsupported("an output that a body does not make, or that could not be converted")
    return results[layer]


def _graph(emit: OpenVINOEmitter, name: str, inputs: list[ValueInfoProto], results: list[Tensor]) -> GraphProto:
    """A body. Its outputs are copies, because a result may belong to the outer graph or be used for two outputs."""
    outputs = []
    for tensor in results:
        copy = replace(tensor, name=emit.names.fresh(f"{tensor.name}/out"))
        emit.nodes.append(helper.make_node("Identity", [tensor.name], [copy.name], name=copy.name))
        outputs.append(value_info(copy))
    return emit.graph(name, inputs, outputs)


@handles("TensorIterator-1", to="Loop", notes="Slices must have one element, from the start or the end.")
def tensor_iterator(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """TensorIterator-1: one iteration for each slice of a sliced input."""
    trips = None
    for entry in _of_kind(node, "port_map", "input"):
        if "axis" in entry.attributes:
            sliced = _input(node, _number(entry, "external_port_id"))
            axis = _number(entry, "axis")
            end = None if axis == -1 else axis + 1
            trips = emit.op("Squeeze", emit.shape_of(sliced, axis, end), emit.constant([0]))
            break
    if trips is None:
        raise Unsupported("no input is sliced, so the number of rounds is not known")
    return _loop(node, emit, trips, emit.constant(True, TensorProto.BOOL))


@handles("Loop-5", to="Loop", notes="Slices must have one element, from the start or the end.")
def loop(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """Loop-5: (number of iterations, or -1 for no limit; condition; inputs)."""
    trips = emit.int64(emit.scalar(node[0]))
    unlimited = emit.op("Less", trips, emit.constant(0))
    trips = emit.op("Where", unlimited, emit.constant(2**62), trips)
    return _loop(node, emit, trips, emit.scalar(emit.cast(node[1], TensorProto.BOOL)))


@dataclass
class _Carried:
    """The state on a back edge: the body's layer that makes it, its initial value, and the tensor the body reads."""

    layer: int
    start: Tensor
    state: Tensor


def _loop(node: Node, emit: OpenVINOEmitter, trips: Tensor, condition: Tensor) -> tuple[Tensor, ...]:
    """Make an ONNX Loop: back edges become carried states, outputs concatenated along an axis become scan outputs."""
    body = node.layer.bodies.get("body")
    if body is None:
        raise Unsupported("it has no body")
    inner = emit.body()
    inner.begin(body.name)
    iteration = Tensor(inner.names.fresh(f"{body.name}/iteration"), TensorProto.INT64, ())
    again = Tensor(inner.names.fresh(f"{body.name}/condition"), TensorProto.BOOL, ())
    given, carried = _body_inputs(node, body, inner, iteration)
    results = node.convert_body(body, inner, given).results
    entries = {_number(e, "external_port_id"): e for e in _of_kind(node, "port_map", "output")}
    told = [e for e in entries.values() if e.attributes.get("purpose") == "execution_condition"]
    proceed = inner.scalar(_result(results, _number(told[0], "internal_layer_id"))) if told else again

    places = {state.layer: place for place, state in enumerate(carried)}
    scans: list[Tensor] = []
    made_by: dict[int, int] = {}  # for each port, the position of its output among the results of ONNX's Loop
    for port in node.layer.outputs:
        if port.id not in entries:
            raise Unsupported(f"output {port.id} is in no port map")
        entry = entries[port.id]
        layer = _number(entry, "internal_layer_id")
        if "axis" in entry.attributes:
            if _number(entry, "stride", 1) < 0 or _number(entry, "part_size", 1) != 1:
                raise Unsupported("an output that is put together backwards, or of parts of more than one element")
            made_by[port.id] = len(carried) + len(scans)
            scans.append(inner.op("Squeeze", _result(results, layer), inner.constant([_number(entry, "axis")])))
        elif layer in places:
            made_by[port.id] = places[layer]
        else:
            raise Unsupported("an output of the last round that no back edge carries")
    outputs = [proceed, *(_result(results, state.layer) for state in carried), *scans]
    inputs = [value_info(t) for t in (iteration, again, *(state.state for state in carried))]
    graph = _graph(inner, body.name, inputs, outputs)
    starts = [state.start for state in carried]
    # A state keeps its rank if the body keeps it; it has the initial value after no round.
    shapes = [*map(_shared_shape, starts, outputs[1:]), *([None] * len(scans))]
    made = emit.node("Loop", [trips, condition, *starts], [t.dtype for t in outputs[1:]], shapes, body=graph)
    finished = []
    for port in node.layer.outputs:
        tensor = made[made_by[port.id]]
        if "axis" in entries[port.id].attributes:  # ONNX stacks along a new first axis
            rank = len(port.dims or ())
            order = list(range(1, rank))
            order.insert(_number(entries[port.id], "axis") % max(rank, 1), 0)
            tensor = emit.op("Transpose", tensor, perm=order)
        finished.append(tensor)
    return tuple(finished)


def _body_inputs(
    node: Node, body: Network, inner: OpenVINOEmitter, iteration: Tensor
) -> tuple[dict[int, Tensor], list[_Carried]]:
    """The values of a body's Parameters: the iteration, a slice, a state, or a tensor of the outer graph."""
    back = {_number(e, "to-layer"): _number(e, "from-layer") for e in _of_kind(node, "back_edges", "edge")}
    given: dict[int, Tensor] = {}
    carried: list[_Carried] = []
    for entry in _of_kind(node, "port_map", "input"):
        layer = _number(entry, "internal_layer_id")
        if layer not in body.layers:
            raise Unsupported(f"a port map names layer {layer} of the body, which is not there")
        declared = parameter(body.layers[layer], "")
        if entry.attributes.get("purpose") == "current_iteration":
            ones = inner.constant([1] * len(declared.shape or ()))
            given[layer] = inner.op("Reshape", inner.cast(iteration, declared.dtype), ones)
            continue
        outer = _input(node, _number(entry, "external_port_id"))
        if "axis" in entry.attributes:
            given[layer] = _slice(inner, entry, outer, iteration)
        elif layer in back:
            state = replace(declared, name=inner.names.fresh(f"{body.name}/{body.layers[layer].name}"))
            given[layer] = state
            carried.append(_Carried(back[layer], outer, state))
        else:
            given[layer] = outer
    return given, carried


def _slice(emit: OpenVINOEmitter, entry: BodyMap, outer: Tensor, iteration: Tensor) -> Tensor:
    """The slice of one iteration, with its axis: from the start, or with a negative stride from the end."""
    stride = _number(entry, "stride", 1)
    if abs(stride) != 1 or _number(entry, "part_size", 1) != 1:
        raise Unsupported("slices of more than one element")
    bounds = (_number(entry, "start", 0), _number(entry, "end", -1))
    if bounds not in ((0, -1), (-1, 0)):
        raise Unsupported(f"slices from {bounds[0]} to {bounds[1]} instead of the whole axis")
    index = emit.op("Reshape", iteration, emit.constant([1]))
    if stride < 0:
        index = emit.op("Sub", emit.constant([-1]), index)
    return emit.op("Gather", outer, index, axis=_number(entry, "axis"))
