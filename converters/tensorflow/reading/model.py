"""A model as it is read from files: its graph, functions, variables' values, and inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.tensorflow.reading.scopes import Library, Scope
from onnx_sparse.converters.tensorflow.reading.variables import Variables
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs


@dataclass(frozen=True)
class Model:
    """A model that has been read.

    Attributes:
        name: A name for it.
        graph: Its graph, whose inputs are fed by none yet.
        inputs, outputs: Its inputs and outputs, in order.
        variables: The values of its variables.
        assets: The files of its assets, by the tensor that names each.
        folder: The folder outside of which no asset is read.
        lookup_tables: The keys and values of lookup tables that were given with it, by node.
        specs: What is known of the parts of sparse and ragged inputs.
        effects: The nodes that a call runs besides those that its outputs need.
        tags, signature: The tags of its graph and its signature in a SavedModel.
    """

    name: str
    graph: Scope
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    variables: Variables
    assets: Mapping[str, Path] = field(default_factory=dict)
    folder: Path | None = None
    lookup_tables: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    specs: CompositeSpecs = field(default_factory=CompositeSpecs)
    effects: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    signature: str = ""

    def fresh(self) -> Model:
        """The model as it was read, of which nothing has been converted yet."""
        graph = Scope(list(self.graph.nodes.values()), Library(self.graph.library.functions, [0]))
        return replace(self, graph=graph, variables=self.variables.of(graph))


def graph_of(graph_def: Any, nodes: Sequence[Any] | None = None) -> Scope:
    """The graph of a GraphDef."""
    return Scope(graph_def.node if nodes is None else nodes, Library.of(graph_def.library.function))
