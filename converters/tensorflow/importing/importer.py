"""Converts the nodes that a model's outputs need, each after those that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from onnx_sparse.converters.errors import Unsupported, UnsupportedNodes
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.handlers import STRUCTURE, find_handler
from onnx_sparse.converters.tensorflow.handlers.structure.complex_numbers import complex_results, is_complex
from onnx_sparse.converters.tensorflow.handlers.structure.ragged_rows import is_shape_of_variants, shape_of_variants
from onnx_sparse.converters.tensorflow.handlers.structure.spectra import complex_cast, is_complex_cast
from onnx_sparse.converters.tensorflow.importing.computing import computed
from onnx_sparse.converters.tensorflow.importing.context import Context, Frame
from onnx_sparse.converters.tensorflow.importing.derived_tables import DerivedTables, Lookup
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.handler import Handler
from onnx_sparse.converters.tensorflow.importing.nodes import (
    GraphNode,
    converted_by,
    declared_shapes,
    joined,
    refuse_types,
)
from onnx_sparse.converters.tensorflow.importing.states import VariableValues
from onnx_sparse.converters.tensorflow.importing.values import (
    ComplexTensor,
    ListOfPieces,
    ListOfRows,
    ListOfTensors,
    RaggedRows,
    Resource,
    SparseMatrix,
    Value,
    VariantOfBranch,
)
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.tensorflow.reading.variables import VARIABLES
from onnx_sparse.converters.writing.lowering.gathering import gathered
from onnx_sparse.schemas.declaration import dtype_name

#: The most nodes that are converted, those of a function anew for each call.
MOST_NODES = 1_000_000

#: Operators that compute nothing.
_NOT_COUNTED = frozenset({"Const", "Placeholder", "VarHandleOp", "VariableV2", "ReadVariableOp", "NoOp"})

#: What values are that are no tensors of numbers.
_KINDS = {
    ListOfTensors: "a list of tensors",
    ListOfPieces: "a list of pieces of a tensor",
    RaggedRows: "a variant of a ragged tensor",
    ListOfRows: "a list of ragged tensors",
    Resource: "a resource",
    ComplexTensor: "complex numbers",
    SparseMatrix: "a sparse matrix",
    VariantOfBranch: "a variant of a branch",
}
#: What is said where a handler fails, as on ranks or sizes that its operator does not take.
_DO_NOT_FIT = "its inputs and attributes do not fit each other"
_ON_UNKNOWN_SHAPE = "; say the shapes of the inputs"


class Importer(Context):
    """The conversion of one model.

    Args:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.frame = Frame(TensorFlowEmitter())
        model.graph.frame = self.frame
        self.unsupported = UnsupportedNodes(_ON_UNKNOWN_SHAPE)
        self.variables: VariableValues = VariableValues(self)
        self.tables: dict[Any, Any] | None = None
        self.branches: dict[tuple[int, str], list[Scope]] = {}
        self.live: dict[tuple[int, str], list[int]] = {}
        self.loops: dict[tuple[int, str], tuple[Value, ...]] = {}
        self.derived = DerivedTables(self)
        self._values: dict[tuple[int, str], tuple[Value, ...]] = {}
        self._operators: dict[tuple[int, str], str] = {}
        self._tables_of: dict[int, Tensor] = {}
        self._failed: set[tuple[int, str]] = set()
        self._open: set[tuple[int, str]] = set()
        self._scopes: list[Scope] = []  # that none is freed, whose id another would get

    def values(self, origins: Sequence[Any]) -> list[Value]:
        """See `Context`."""
        self.convert(origins)
        return [self._value(origin) for origin in origins]

    def tensors(self, origins: Sequence[Any]) -> list[Tensor]:
        """See `Context`."""
        found = []
        for value in self.values(origins):
            if not isinstance(value, Tensor):
                raise Unsupported(f"it takes {_KINDS[type(value)]} as a tensor")
            found.append(value)
        return found

    def computed(self, origin: Any, what: str) -> Array:
        """See `Context`."""
        (tensor,) = self.tensors([origin])
        return tensor.value if tensor.value is not None else computed(self.frame.emit, tensor, what)

    def attempt(self, origins: Sequence[Any]) -> list[Tensor] | None:
        """See `Context`."""
        count = len(self.unsupported.found)
        try:
            return self.tensors(origins)
        except (Unsupported, NotConvertedError):
            del self.unsupported.found[count:]
            return None

    def keep(self, scope: Scope) -> Scope:
        """See `Context`."""
        self._scopes.append(scope)
        return scope

    def _value(self, origin: Any) -> Value:
        if not isinstance(origin, Origin):
            value: Value = origin
            return value
        key = (id(origin.scope), origin.node)
        if key in self._failed or key not in self._values:
            raise NotConvertedError
        made = self._values[key]
        if origin.output >= len(made):
            node = origin.scope.nodes[origin.node]
            raise Unsupported(f"{origin.node} ({node.op}) has {len(made)} outputs; number {origin.output} is read")
        return made[origin.output]

    def convert(self, wanted: Sequence[Any]) -> None:
        """See `Context`."""
        waiting = [(origin.scope, origin.node) for origin in reversed(wanted) if isinstance(origin, Origin)]
        opened: list[tuple[int, str]] = []
        while waiting:
            scope, name = waiting[-1]
            key = (id(scope), name)
            if key in self._values or key in self._failed:
                waiting.pop()
                continue
            if len(self._values) >= MOST_NODES:
                raise Unsupported(f"the model has more than {MOST_NODES} nodes")
            node = scope.nodes[name]
            made: tuple[Value, ...] | None = None
            with self.unsupported.collecting(f"{scope.name}{name}", node.op):
                if key not in self._open:
                    self._open.add(key)
                    opened.append(key)
                    before = [origin for origin in self._before(scope, node) if not self._is_done(origin)]
                    for origin in before:
                        if (id(origin.scope), origin.node) in self._open:
                            raise Unsupported("it is made from itself; loops of TensorFlow 1 are not converted")
                    waiting += [(origin.scope, origin.node) for origin in reversed(before)]
                    if before:
                        continue
                try:
                    made = self._made(scope, node)
                except NotConvertedError:  # which has been recorded; say also whether this node could be converted
                    if node.op not in STRUCTURE:
                        find_handler(node.op)
                        refuse_types(node)
                except (IndexError, ValueError, OverflowError, ZeroDivisionError) as error:
                    is_of_lists = isinstance(error, IndexError) or "to unpack" in str(error)  # in Python's words
                    raise Unsupported(_DO_NOT_FIT if is_of_lists else f"{_DO_NOT_FIT}: {error}") from error
            waiting.pop()
            self._open.discard(key)
            if made is None:
                self._failed.add(key)
            else:
                self._values[key] = made
                self._operators[key] = node.op
        self._open.difference_update(opened)

    def computing_nodes(self) -> int:
        """How many nodes that compute something have been converted."""
        return sum(op not in _NOT_COUNTED for op in self._operators.values())

    def _is_done(self, origin: Origin) -> bool:
        key = (id(origin.scope), origin.node)
        return key in self._values or key in self._failed

    def _before(self, scope: Scope, node: NodeDef) -> Iterator[Origin]:
        """What is converted before a node."""
        for origin in self.read_by(scope, node):
            if isinstance(origin, Origin):
                yield origin

    def read_by(self, scope: Scope, node: NodeDef) -> list[Any]:
        """See `Context`."""
        lookup = self.derived.of(scope, node)
        if lookup is not None:
            return [lookup.ids]
        structure = STRUCTURE.get(node.op)
        if structure is not None and structure.reads is not None:
            return structure.reads(self, scope, node)
        return scope.origins(node)

    def _made(self, scope: Scope, node: NodeDef) -> tuple[Value, ...]:
        emit: TensorFlowEmitter = scope.frame.emit
        emit.begin(f"{scope.name}{node.name}")
        lookup = self.derived.of(scope, node)
        if lookup is not None:
            return (self._looked_up(lookup, emit),)
        if node.op in STRUCTURE:
            scope.data_inputs(node)
            return STRUCTURE[node.op].convert(GraphNode(self, scope, node), emit)
        if is_shape_of_variants(node):
            (value,) = self.values(scope.origins(node))
            return (shape_of_variants(value, node, emit),)
        if is_complex_cast(node):
            (value,) = self.values(scope.origins(node))
            return (complex_cast(value, node, emit),)
        handler = find_handler(node.op)
        if is_complex(node):

            def convert(real: Any, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
                return self._handled(handler, real, f"{scope.name}{node.name}", given, emit)

            return complex_results(node, self.values(scope.origins(node)), convert, emit)
        inputs = self.tensors(scope.origins(node))
        return self._handled(handler, node, f"{scope.name}{node.name}", inputs, emit)

    def _looked_up(self, lookup: Lookup, emit: TensorFlowEmitter) -> Tensor:
        """The rows of a derived table."""
        for origin in lookup.nodes:
            self._operators.setdefault((id(origin.scope), origin.node), origin.scope.nodes[origin.node].op)
        (ids,) = self.tensors([lookup.ids])
        if id(lookup.table) not in self._tables_of:
            name = self.frame.emit.names.fresh(_name_of_table(lookup, self.model))
            self._tables_of[id(lookup.table)] = self.frame.emit.constant(lookup.table, name=name)
        return gathered(emit, self._tables_of[id(lookup.table)], ids, 0, 0)

    def _handled(
        self, handler: Handler, node: NodeDef, name: str, inputs: Sequence[Tensor], emit: TensorFlowEmitter
    ) -> tuple[Tensor, ...]:
        results, dtypes = converted_by(handler, node, name, inputs, emit)
        declared = declared_shapes(node)
        finished = []
        for k, (result, dtype) in enumerate(zip(results, dtypes, strict=False)):
            if result.dtype != dtype:
                raise Unsupported(f"it makes {result}, not {dtype_name(dtype)} as it says")
            shape = joined(result.shape, declared[k] if k < len(declared) else None)
            finished.append(result if result.value is not None else replace(result, shape=shape))
        emit.note_shapes(finished)
        return tuple(finished)


def _name_of_table(lookup: Lookup, model: Model) -> str:
    """The name of a derived table: that of the first variable or constant that it was made from."""
    source = lookup.sources[0]
    node = source.scope.nodes[source.node]
    return model.variables.name(node) if node.op in VARIABLES else f"{source.scope.name}{source.node}"


class NotConvertedError(Exception):
    """A node before this one could not be converted, which has been recorded."""
