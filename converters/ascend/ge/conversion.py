"""From a GE graph to an ONNX model: the driver of the handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge import refusals, tensorflow_operators
from onnx_sparse.converters.ascend.ge.graph import CONSTANTS, PLAIN_FORMATS, Description, GeGraph, GeNode, Source
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS, Node, NodeAttributes
from onnx_sparse.converters.ascend.ge.weights import file_constant
from onnx_sparse.converters.ascend.given_inputs import HOW_TO_GIVE_SHAPES, Given
from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNodes
from onnx_sparse.converters.tensor import Tensor, shape_text
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.schemas.declaration import FLOATS, dtype_name

#: The domain of operators that are kept unconverted.
UNKNOWN_DOMAIN = "ascend.ge"
_INPUTS = ("Data", "RefData")
#: Operators that take the next batch of TensorFlow's data sets, which are inputs of a model.
_NEXT = ("DynamicGetNext", "DynamicGetNextV2", "GetNext", "IteratorGetNext")
#: Operators without results that a model would compute.
_WITHOUT_RESULTS = ("NoOp", "Assert", "IteratorV2", "Iterator", "MakeIterator", "OneShotIterator", "ControlTrigger")
#: Operators that run other graphs of the file; `subgraph` is the name of a body in ge_onnx dumps.
_CALLS = frozenset({"If", "StatelessIf", "While", "StatelessWhile", "Case", "For", "PartitionedCall",
                    "StatefulPartitionedCall", "subgraph"})  # fmt: skip


class _Conversion:
    """The state of one conversion."""

    def __init__(
        self, graph: GeGraph, folder: Path, given: Mapping[str, Given], *, keep_unknown: bool, saturate: bool
    ) -> None:
        self.graph, self.folder, self.given, self.keep_unknown = graph, folder, given, keep_unknown
        self.emit = AscendEmitter((node.name for node in graph.nodes), saturate=saturate)
        self.results: dict[str, tuple[Tensor, ...]] = {}
        self.unsupported = UnsupportedNodes(HOW_TO_GIVE_SHAPES)
        self.inputs: dict[str, Tensor] = {}
        self.placed: set[str] = set()

    def run(self) -> ModelProto:
        data = [node for node in self.graph.nodes if node.op_type in _INPUTS]
        for node in sorted(data, key=lambda node: _index(node, len(data))):
            self._place_inputs(node)
        for node in self.graph.nodes:
            if node.op_type in _NEXT:
                self._place_inputs(node)
        outputs: list[Source] = []
        for node in self.graph.nodes:
            if node.op_type == "NetOutput":
                outputs += [source for source in node.inputs if source is not None]
            elif node.op_type not in (*_INPUTS, *_NEXT, *_WITHOUT_RESULTS):
                self._convert(node)
        outputs = outputs or list(self.graph.outputs) or self._unread()
        if not outputs:
            raise ConversionError(f"{self.graph.name} has no outputs")
        self.unsupported.raise_if_any()
        try:
            values = [value_info(self._output(source, number)) for number, source in enumerate(outputs)]
        except Unsupported as reason:
            raise ConversionError(f"the outputs of {self.graph.name}: {reason}") from reason
        inputs = [value_info(tensor) for tensor in self.inputs.values()]
        return self.emit.model(self.graph.name, inputs, values, doc="converted from a GE graph")

    def _place_inputs(self, node: GeNode) -> None:
        placed = []
        for name, described in zip(_input_names(node), _described_inputs(node), strict=True):
            dtype, shape = described.dtype, described.shape
            if name in self.given:
                said = self.given[name]
                if dtype is not None and said.dtype != dtype:
                    raise ConversionError(f"{name} is {dtype_name(dtype)} in the graph, not {dtype_name(said.dtype)}")
                dtype, shape = said.dtype, said.shape if said.shape is not None else shape
            if dtype is None:
                raise ConversionError(f"the graph does not say the element type of {name}: give it with --input-spec")
            self.inputs[name] = Tensor(name, dtype, shape)
            placed.append(self.inputs[name])
        self.results[node.name] = tuple(placed)

    def _convert(self, node: GeNode) -> None:
        self.emit.begin(node.name)
        with self.unsupported.collecting(node.name, node.op_type):
            if node.op_type in (*CONSTANTS, "FileConstant"):
                self.results[node.name] = (self._constant(node),)
                return
            results = self._results(node)
            if results is not None:
                named = [self.emit.names.fresh(f"{node.name}:{i}") if i else node.name for i in range(len(results))]
                self.results[node.name] = self.emit.name_outputs(results, named)

    def _constant(self, node: GeNode) -> Tensor:
        is_file = node.op_type == "FileConstant"
        value = file_constant(node, self.folder) if is_file else node.attributes.get("value")
        if not isinstance(value, np.ndarray):
            raise Unsupported("a constant of an element type that ONNX does not have")
        return self.emit.constant(value, name=node.name)

    def _results(self, node: GeNode) -> tuple[Tensor, ...] | None:
        """The results of a node; None if one of its inputs could not be converted."""
        handler = HANDLERS.get(node.op_type) or tensorflow_operators.handler(node.op_type)
        if node.op_type in _CALLS:
            raise Unsupported("it runs another graph of the file; only the file's first graph is converted")
        if handler is None and not self.keep_unknown:
            why = refusals.reason(node.op_type)
            raise Unsupported(f"this operator is not supported{': ' if why else ''}{why}")
        if any(source is not None and source.node not in self.results for source in node.inputs):
            return None
        inputs = tuple(None if source is None else self._result(source) for source in node.inputs)
        if handler is None:
            dtypes, shapes = [r.dtype or 0 for r in node.results], [r.shape for r in node.results]
            present = [tensor for tensor in inputs if tensor is not None]
            return self.emit.node(node.op_type, present, dtypes, shapes, domain=UNKNOWN_DOMAIN)
        seen = Node(node.op_type, Inputs(inputs), NodeAttributes(node.attributes), node.results)
        results = handler.convert(seen, self.emit)
        return tuple(
            self._as_described(result, node.results[i]) if i < len(node.results) else result
            for i, result in enumerate(results)
        )

    def _as_described(self, result: Tensor, described: Description) -> Tensor:
        """A result completed by the graph's description, cast within a kind of type; contradictions are refused."""
        if described.dtype is not None and described.dtype != result.dtype:
            if (described.dtype in FLOATS) != (result.dtype in FLOATS):
                raise Unsupported(f"it makes {dtype_name(result.dtype)}, the graph says {dtype_name(described.dtype)}")
            result = self.emit.cast(result, described.dtype)
        if described.shape is None:
            return result
        if result.shape is None:
            return replace(result, shape=described.shape)
        pairs = list(zip(result.shape, described.shape, strict=False))
        if len(result.shape) != len(described.shape) or any(a != b and None not in (a, b) for a, b in pairs):
            raise Unsupported(f"it makes {shape_text(result.shape)}, the graph says {shape_text(described.shape)}")
        return replace(result, shape=tuple(b if a is None else a for a, b in pairs))

    def _result(self, source: Source) -> Tensor:
        results = self.results.get(source.node, ())
        if source.position >= len(results):
            raise Unsupported(f"it reads result {source.position} of {source.node}, which has {len(results)}")
        return results[source.position]

    def _output(self, source: Source, number: int) -> Tensor:
        """A result as an output of the model; inputs, constants and existing outputs go through an Identity."""
        tensor = self._result(source)
        plain = tensor.name not in self.inputs and tensor.value is None
        if plain and tensor.name not in self.placed:
            self.placed.add(tensor.name)
            return tensor
        name = self.emit.names.fresh(f"output_{number}")
        self.emit.begin(name)
        return self.emit.name_outputs((tensor,), (name,))[0]

    def _unread(self) -> list[Source]:
        read = {source.node for node in self.graph.nodes for source in node.inputs if source is not None}
        others = (*_INPUTS, *_NEXT, *_WITHOUT_RESULTS, *CONSTANTS, "FileConstant")
        makers = [node for node in self.graph.nodes if node.op_type not in others]
        return [Source(node.name, 0) for node in makers if node.name not in read and node.name in self.results]


def convert_ge(
    graph: GeGraph,
    folder: Path,
    *,
    given: Mapping[str, Given],
    keep_unknown: bool = False,
    saturate: bool = False,
) -> ModelProto:
    """Convert a GE graph.

    Args:
        graph: The graph.
        folder: The folder of its file, which also has the files of weights.
        given: The types and shapes that the user gives for its inputs.
        keep_unknown: Keep operators without a handler as nodes of the domain `ascend.ge`.
        saturate: Whether values beyond float16 become the largest float16.

    Raises:
        ConversionError: Its weights are not in the file, its tensors are in the NPU's own formats, or operators cannot
            be converted; all are listed.
    """
    _check_weights(graph)
    _check_formats(graph)
    names = [name for node in graph.nodes if node.op_type in (*_INPUTS, *_NEXT) for name in _input_names(node)]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ConversionError(f"{graph.name} has no input {unknown[0]}; its inputs are {', '.join(names)}")
    return _Conversion(graph, folder, given, keep_unknown=keep_unknown, saturate=saturate).run()


def _described_inputs(node: GeNode) -> tuple[Description, ...]:
    """What the graph says of the inputs that a node stands for; an iterator also says it in its attributes."""
    if node.op_type in _INPUTS:
        return node.results[:1] or (Description(None, None),)
    types = node.attributes.get("output_types")
    listed = [ACL.get(number) for number in types] if isinstance(types, list) else []
    missing = (Description(dtype, None) for dtype in listed[len(node.results) :])
    pairs = zip(node.results, (*listed, *[None] * len(node.results)), strict=False)
    known = (replace(said, dtype=dtype) if said.dtype is None else said for said, dtype in pairs)
    return (*known, *missing)


def _input_names(node: GeNode) -> list[str]:
    """The names of the inputs that a node stands for."""
    count = len(_described_inputs(node))
    return [node.name] if count == 1 else [f"{node.name}_{position}" for position in range(count)]


def _index(node: GeNode, last: int) -> int:
    index = node.attributes.get("index")
    return index if isinstance(index, int) else last


def _check_weights(graph: GeGraph) -> None:
    empty = [node.name for node in graph.nodes if node.without_data]
    if empty:
        raise ConversionError(
            f"{graph.name}: the data of {len(empty)} constants are not in the file ({', '.join(empty[:3])}): dumps of "
            f"ge_onnx hold them only with DUMP_GE_GRAPH=1, and dumps of ge_proto may lack them; dump again with "
            f"DUMP_GE_GRAPH=1, or export an .air (torchair's dynamo_export)"
        )


def _check_formats(graph: GeGraph) -> None:
    for node in graph.nodes:
        for described in node.results:
            if described.layout.upper() not in PLAIN_FORMATS:
                raise ConversionError(
                    f"{graph.name}: {node.name} ({node.op_type}) is in the format {described.layout}, the NPU's own "
                    "order of elements, which GE chooses late: dump the graph before that (*_PreRunBegin*) or export "
                    "an .air"
                )
