"""The roads by which a verb comes: each writes operators into one graph of its own form, and converts it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from support.ascend_graphs import layer, operation, spec
from support.ge_graphs import Graph, attribute, described
from support.openvino_irs import IrBuilder, type_name

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fixed:
    """An operand that is a constant of the graph."""

    array: Array


Operand = Array | Fixed


@dataclass(frozen=True)
class Source:
    """An operator as a road writes it.

    Attributes:
        op: The operator; OpenVINO's with its version, as `Divide-1`.
        inputs: Its inputs in the road's order.
        results: Arrays of the element types and shapes of its results.
        attributes: Its attributes, or the parameters of an ATB operation.
        types: The attributes of a TensorFlow node that are element types, where the types of results are not enough.
    """

    op: str
    inputs: Sequence[Operand]
    results: Sequence[Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)

    def fed(self) -> list[Array]:
        """What is fed to the model."""
        return [operand for operand in self.inputs if not isinstance(operand, Fixed)]


def array_of(operand: Operand) -> Array:
    return operand.array if isinstance(operand, Fixed) else operand


def tensorflow(sources: Mapping[str, Source]) -> ModelProto:
    """A GraphDef, of which the shapes of inputs are known."""
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.tensorflow.graph_source import from_graph
    from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
    from onnx_sparse.converters.tensorflow.reading.messages import GraphDef
    from onnx_sparse.converters.tensorflow.reading.operators import operators

    def number(dtype: Any) -> int:
        return NUMBERS[np.dtype(dtype).name]

    graph = GraphDef()
    feeds, outputs = [], []
    for name, source in sources.items():
        node = graph.node.add(name=name, op=source.op)
        for k, operand in enumerate(source.inputs):
            array = array_of(operand)
            made = graph.node.add(name=f"{name}_{k}", op="Const" if isinstance(operand, Fixed) else "Placeholder")
            made.attr["dtype"].type = number(array.dtype)
            where = made.attr["value"].tensor if isinstance(operand, Fixed) else made.attr["shape"]
            shape = where.tensor_shape if isinstance(operand, Fixed) else where.shape
            for size in array.shape:
                shape.dim.add(size=size)
            if isinstance(operand, Fixed):
                where.dtype, where.tensor_content = number(array.dtype), array.tobytes()
            else:
                feeds.append(f"{made.name}:0")
            node.input.append(made.name)
        given = {
            output.dtype: result.dtype
            for output, result in zip(operators()[source.op].outputs, source.results, strict=False)
            if output.dtype not in NUMBERS
        }
        for key, dtype in {**given, **source.types}.items():
            node.attr[key].type = number(dtype)
        for key, value in source.attributes.items():
            _set(node.attr[key], value)
        outputs += [f"{name}:{k}" for k in range(len(source.results))]
    return convert(from_graph(graph, name="verbs", inputs=feeds, outputs=outputs))


def _set(attr: Any, value: Any) -> None:
    if isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, str):
        attr.s = value.encode()
    else:
        attr.list.f.extend(value) if any(isinstance(n, float) for n in value) else attr.list.i.extend(value)


def openvino(sources: Mapping[str, Source]) -> ModelProto:
    """An IR. A result of unknown sizes is written with -1."""
    from onnx_sparse.converters.openvino import convert

    builder, results = IrBuilder(), []
    for name, source in sources.items():
        given = []
        for k, operand in enumerate(source.inputs):
            if isinstance(operand, Fixed):
                given.append(builder.constant(operand.array))
            else:
                given.append(builder.parameter(f"{name}_{k}", type_name(operand.dtype), list(operand.shape)))
        op, _, version = source.op.rpartition("-")
        outputs = [(type_name(result.dtype), [*result.shape]) for result in source.results]
        layer, port = builder.layer(op, f"opset{version}", given, outputs, dict(_texts(source.attributes)), name, name)
        results += [(layer, port + k) for k in range(len(outputs))]
    for result in results:
        builder.result(result)
    with tempfile.TemporaryDirectory() as folder:
        return convert(builder.save(Path(folder)))


def _texts(attributes: Mapping[str, Any]) -> Any:
    for key, value in attributes.items():
        if isinstance(value, (list, tuple)):
            yield key, ",".join(map(str, value))
        else:
            yield key, str(value).lower() if isinstance(value, bool) else value


def ge(sources: Mapping[str, Source]) -> ModelProto:
    """A GE graph in binary form."""
    from onnx_sparse.converters.ascend import convert

    graph, results = Graph(), []
    for name, source in sources.items():
        given = []
        for k, operand in enumerate(source.inputs):
            if isinstance(operand, Fixed):
                given.append(graph.const(f"{name}_{k}", operand.array))
            else:
                given.append(graph.data(f"{name}_{k}", operand.dtype, operand.shape))
        node = graph.node(name, source.op, given)
        for key, value in source.attributes.items():
            if isinstance(value, list) and any(isinstance(number, float) for number in value):
                node.attr.add(key=key).value.list.f.extend(value)
            else:
                attribute(node, key, value)
        for result in source.results:
            described(node.output_desc.add(), result.dtype, result.shape)
        results += [f"{name}:{k}" for k in range(len(source.results))]
    graph.output(*results)
    with tempfile.TemporaryDirectory() as folder:
        return convert(graph.write(Path(folder)))


def atb(sources: Mapping[str, Source]) -> ModelProto:
    """A layer of ATB operations, whose operands are all fed."""
    from onnx_sparse.converters.ascend import convert

    nodes, specs, results = [], {}, []
    for name, source in sources.items():
        given = {f"{name}_{k}": array_of(operand) for k, operand in enumerate(source.inputs)}
        specs.update({tensor: spec(array) for tensor, array in given.items()})
        made = [f"{name}_out{k}" for k in range(len(source.results))]
        nodes.append(operation(source.op, [*given], made, dict(source.attributes), name))
        results += made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.json"
        path.write_text(json.dumps(layer([*specs], results, nodes)))
        return convert(path, inputs=specs)


ROADS: dict[str, Callable[[Mapping[str, Source]], ModelProto]] = {
    "tensorflow": tensorflow,
    "openvino": openvino,
    "ge": ge,
    "atb": atb,
}
