"""Gives the inputs and outputs of a converted model the names and dimensions that the user knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import GraphProto, ModelProto, ValueInfoProto, helper

from onnx_sparse.converters.tensorflow.source import Frozen
from onnx_sparse.models.graphs import Names, graphs, rename


def name_inputs_and_outputs(model: ModelProto, frozen: Frozen) -> Mapping[str, str]:
    """Rename the model's inputs and outputs from TensorFlow's tensors to the names of the ports, in their order.

    A tensor that is fetched under several names, or is also an input, goes through an Identity.

    Returns:
        The new name of every tensor that was renamed.
    """
    graph = model.graph
    renamed = {port.tensor: port.name for port in frozen.inputs}
    copies = []
    for port in frozen.outputs:
        if port.tensor in renamed:
            copies.append((port.tensor, port.name))
        else:
            renamed[port.tensor] = port.name
    _rename_tensors(graph, renamed, reserved=[name for _, name in copies])
    by_name = {value.name: value for value in (*graph.input, *graph.output)}
    for tensor, name in copies:
        source = by_name[renamed[tensor]]
        graph.node.append(helper.make_node("Identity", [source.name], [name], name=f"{name}/Identity"))
        by_name[name] = ValueInfoProto(name=name, type=source.type)
    outputs = [by_name[port.name] for port in frozen.outputs]
    del graph.output[:]
    graph.output.extend(outputs)
    for value in (*graph.input, *graph.output):
        _name_dimensions(value)
    return renamed


def _rename_tensors(graph: GraphProto, renamed: dict[str, str], reserved: Iterable[str]) -> None:
    """Rename tensors everywhere in a graph; others that already have one of the new names are renamed, and added."""
    wanted = {*renamed.values(), *reserved}
    made = {name for inner in graphs(graph) for node in inner.node for name in node.output}
    every = made | {value.name for inner in graphs(graph) for value in (*inner.input, *inner.initializer)}
    names = Names(every | wanted)
    renamed |= {name: names.fresh(name) for name in sorted(every & wanted) if name not in renamed}
    rename(graph.node, renamed)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = renamed.get(value.name, value.name)


def _name_dimensions(value: ValueInfoProto) -> None:
    """Name unknown dimensions by tensor and axis; tf2onnx's `unk__17` says nothing."""
    for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
        if not dimension.HasField("dim_value"):
            dimension.dim_param = f"{value.name}_{axis}"
