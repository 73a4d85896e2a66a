"""Functions of a TensorFlow 2 model that no signature calls: each trace as a signature of its own.

A SavedModel holds every tf.function of its objects, with the traces that existed when it was saved. The object graph
says which objects a trace captures; its last inputs are these, in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.reading.argument_names import result_names
from onnx_sparse.converters.tensorflow.reading.ports import refuse_unknown
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS
from onnx_sparse.converters.tensorflow.reading.specs import kind_of_spec, shapes_of_arguments, specs_in

#: The objects of a model that are no part of it, but of how it is saved.
_SKIPPED = ("signatures", "_initializer", "_create_resource", "_initialize", "_destroy_resource")


@dataclass(frozen=True)
class Trace:
    """A function of a model, for inputs of one kind.

    Attributes:
        attributes: Where the function is, from the model on: `("encoder", "__call__")`.
        number: Which of its traces.
        name: The name of the trace in the graph's library.
        inputs: The names of its inputs, in order.
        outputs: The names of its outputs, in order.
    """

    attributes: tuple[str, ...]
    number: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def function_names(meta_graph: Any) -> list[str]:
    """The names by which functions can be chosen; those with several traces by the names of these, which come last."""
    return sorted((name for name, _, _, _ in _traces(meta_graph)), key=lambda name: name.startswith("__inference"))


def add_signature(meta_graph: Any, name: str, path: Path) -> tuple[str, Trace]:
    """Add a signature that calls a function to a graph.

    Args:
        meta_graph: The graph; it is changed.
        name: The name of the function, as in `function_names`.
        path: The folder of the model, for errors.

    Returns:
        The name of the signature, and the function.

    Raises:
        ConversionError: There is no such function, or it captures what the graph does not have.
    """
    known = {key: (attributes, number, trace) for key, attributes, number, trace in _traces(meta_graph)}
    if not known:
        raise ConversionError(f"{path} has no functions that were traced before it was saved")
    refuse_unknown([] if name in known else [name], function_names(meta_graph), "function")
    attributes, number, trace = known[name]
    graph, objects = meta_graph.graph_def, meta_graph.object_graph_def
    definition = next((each for each in graph.library.function if each.signature.name == trace), None)
    concrete = objects.concrete_functions[trace]
    if definition is None or len(definition.signature.input_arg) < len(concrete.bound_inputs):
        raise ConversionError(f"{path} is damaged: its graph has no function {trace!r} as its objects describe it")
    arguments = list(definition.signature.input_arg)
    given = arguments[: len(arguments) - len(concrete.bound_inputs)]
    prefix = _unused(name.replace(".", "_"), graph)
    signature = meta_graph.signature_def[f"function {name}"]
    call = graph.node.add(name=prefix, op="StatefulPartitionedCall")
    shapes = shapes_of_arguments(concrete.canonicalized_input_signature, len(given))
    for k, (argument, shape) in enumerate(zip(given, shapes, strict=True)):
        placeholder = graph.node.add(name=f"{prefix}/input_{k}", op="Placeholder")
        placeholder.attr["dtype"].type = argument.type
        info = signature.inputs[argument.name]
        info.name, info.dtype = f"{placeholder.name}:0", argument.type
        if shape is None:
            info.tensor_shape.unknown_rank = True
        for size in shape or ():
            info.tensor_shape.dim.add(size=-1 if size is None else size)
        placeholder.attr["shape"].shape.CopyFrom(info.tensor_shape)
        call.input.append(placeholder.name)
    held = dict(_held(meta_graph))
    for k, (node_id, argument) in enumerate(zip(concrete.bound_inputs, arguments[len(given) :], strict=True)):
        if 0 <= node_id < len(objects.nodes) and objects.nodes[node_id].HasField("variable"):
            variable = graph.node.add(name=f"{prefix}/variable_{k}", op="VarHandleOp")
            variable.attr["dtype"].type = objects.nodes[node_id].variable.dtype
            variable.attr["shape"].shape.CopyFrom(objects.nodes[node_id].variable.shape)
            call.input.append(variable.name)
        elif node_id in held:
            call.input.append(held[node_id])
        else:
            raise ConversionError(f"{path}: the function {name!r} captures {argument.name!r}, which its graph has not")
    results = list(definition.signature.output_arg)
    names = _output_names(concrete.output_signature, len(results))
    for k, (result, output) in enumerate(zip(results, names, strict=True)):
        signature.outputs[output].name, signature.outputs[output].dtype = f"{prefix}:{k}", result.type
        signature.outputs[output].tensor_shape.unknown_rank = True
    call.attr["f"].func.name = trace
    call.attr["Tin"].list.type.extend(argument.type for argument in arguments)
    call.attr["Tout"].list.type.extend(result.type for result in results)
    return f"function {name}", Trace(attributes, number, trace, tuple(arg.name for arg in given), tuple(names))


def _traces(meta_graph: Any) -> Iterator[tuple[str, tuple[str, ...], int, str]]:
    """The name of each trace, where its function is, which of its traces it is, and its name in the library."""
    for attributes, traces in _functions(meta_graph.object_graph_def):
        for number, trace in enumerate(traces):
            yield ".".join(attributes) if len(traces) == 1 else trace, attributes, number, trace


def _functions(objects: Any) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The functions below the model, the nearest first, with their traces."""
    waiting: list[tuple[int, tuple[str, ...]]] = [(0, ())] if objects.nodes else []
    seen = {0}
    for number, attributes in waiting:  # which grows
        node = objects.nodes[number]
        traces = list(node.function.concrete_functions) if node.HasField("function") else []
        if node.HasField("bare_concrete_function"):
            traces = [node.bare_concrete_function.concrete_function_name]
        traces = [trace for trace in traces if trace in objects.concrete_functions]
        if traces:
            yield attributes, traces
        for child in () if traces else node.children:
            if (
                0 <= child.node_id < len(objects.nodes)
                and child.node_id not in seen
                and child.local_name not in _SKIPPED
            ):
                seen.add(child.node_id)
                waiting.append((child.node_id, (*attributes, child.local_name)))


def _held(meta_graph: Any) -> Iterator[tuple[int, str]]:
    """The tensor of the graph that each captured object is, by the object's number: as far as the graph says it."""
    objects = meta_graph.object_graph_def
    for node in meta_graph.graph_def.node:
        called = node.attr["f"].func.name if node.op in CALLS and "f" in node.attr else ""
        if called in objects.concrete_functions:
            bound = objects.concrete_functions[called].bound_inputs
            given = [tensor for tensor in node.input if not tensor.startswith("^")]
            yield from zip(bound, given[len(given) - len(bound) :], strict=False)
    for number, node in enumerate(objects.nodes):
        if node.HasField("constant"):
            yield number, node.constant.operation
        elif node.HasField("asset") and 0 <= node.asset.asset_file_def_index < len(meta_graph.asset_file_def):
            yield number, meta_graph.asset_file_def[node.asset.asset_file_def_index].tensor_info.name


def _output_names(signature: Any, count: int) -> list[str]:
    """The names of the results, of which there are so many, in a function's signature; see `result_names`."""
    kinds = [(path, kind_of_spec(spec)) for path, spec in specs_in(signature)]
    known = [(path, kind[0] == "sparse", kind[1]) for path, kind in kinds if kind is not None]
    names = result_names(known)
    is_whole = len(names) == count == len({*names})
    return names if is_whole else [f"output_{k}" for k in range(count)]


def _unused(name: str, graph: Any) -> str:
    taken = {node.name for node in graph.node}
    while name in taken:
        name += "_"
    return name
