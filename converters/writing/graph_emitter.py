"""An emitter that collects the nodes and constants of a graph, for sources whose graph is converted node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.emitter import Emitter, NewNode
from onnx_sparse.models.data.references import tensor_of
from onnx_sparse.models.graphs import Names, read_names, rename
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.version import __version__

IR_VERSION = 10
#: The operator sets beside the default one: LabelEncoder has its lists of each type since version 2.
_VERSIONS = {DOMAIN: OPSET_VERSION, "ai.onnx.ml": 2}
#: The most elements of a constant that is shared with equal ones.
_MOST_SHARED = 64


class GraphEmitter(Emitter):
    """A graph, or the body of a control-flow operator, under construction.

    Args:
        names: The names of the model, in which all tensors have different ones.
        domains: The operator sets of the model, if this is a body in it.

    Attributes:
        names: The names of the model.
        nodes: The graph's nodes so far.
        initializers: Its constants.
        domains: The operator sets that the model needs.
    """

    def __init__(self, names: Names | None = None, domains: dict[str, int] | None = None) -> None:
        self.names = names or Names()
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.domains = {"": self.opset} if domains is None else domains
        self._constants: dict[tuple[Any, ...], str] = {}
        self._prefix = ""
        self._start = 0

    def begin(self, name: str) -> None:
        """Name the following nodes after a node of the source."""
        self._prefix, self._start = name, len(self.nodes)

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        given = list(new.inputs)
        while given and given[-1] is None:  # ONNX Runtime's Squeeze fails on an axes input with an empty name
            given.pop()
        if new.domain:
            self.domains[new.domain] = _VERSIONS.get(new.domain, 1)
        label = self.names.fresh(f"{self._prefix}/{new.op_type}")
        outputs = [self.names.fresh(f"{label}:{k}") if k else label for k in range(len(new.dtypes))]
        if empty := [name for name, value in new.attributes.items() if isinstance(value, list | tuple) and not value]:
            raise Unsupported(f"{new.op_type} takes no empty {empty[0]}")
        read = ["" if tensor is None else tensor.name for tensor in given]
        written = {"name": label, "domain": new.domain, **new.attributes}
        self.nodes.append(helper.make_node(new.op_type, read, outputs, **written))
        return new.results(outputs)

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        """Add a constant; equal small ones without a name of their own are shared."""
        is_shared = not name and array.size <= _MOST_SHARED and dtype != TensorProto.STRING
        key = (dtype, array.shape, array.tobytes()) if is_shared else None
        if key in self._constants:
            return self._constants[key]
        name = name or self.names.fresh("constant")
        self.initializers.append(tensor_of(array, name))
        if key is not None:
            self._constants[key] = name
        return name

    def name_outputs(
        self, results: Sequence[Tensor], names: Sequence[str], *, start: int | None = None
    ) -> tuple[Tensor, ...]:
        """Give results the names that they have in the source.

        A result that none of the nodes makes, or that is given two names, goes through an Identity.

        Args:
            results: The results.
            names: Their names, which no other tensor has.
            start: The position of the first of the nodes; the one that followed `begin` when omitted.
        """
        nodes = self.nodes[self._start if start is None else start :]
        made = {output for node in nodes for output in node.output}
        renamed: dict[str, str] = {}
        for result, name in zip(results, names, strict=True):
            if result.name not in made or renamed.setdefault(result.name, name) != name:
                self.nodes.append(helper.make_node("Identity", [result.name], [name], name=f"{name}/Identity"))
                nodes.append(self.nodes[-1])
        rename(nodes, renamed)
        return tuple(result.renamed(name) for result, name in zip(results, names, strict=True))

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """The finished graph, without the constants that nothing in it reads."""
        read = read_names(self.nodes) | {value.name for value in outputs}
        constants = [tensor for tensor in self.initializers if tensor.name in read]
        return helper.make_graph(self.nodes, name, inputs, outputs, constants)

    def model(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], *, doc: str = ""
    ) -> ModelProto:
        """The model of the finished graph."""
        return helper.make_model(
            self.graph(name, inputs, outputs),
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in self.domains.items()],
            ir_version=IR_VERSION,
            producer_name="onnx_sparse",
            producer_version=__version__,
            doc_string=doc,
        )


def value_info(tensor: Tensor) -> ValueInfoProto:
    """A tensor as an input or output of a graph."""
    if not tensor.dtype:  # the result of an operation that was kept unconverted
        return ValueInfoProto(name=tensor.name)
    return helper.make_tensor_value_info(tensor.name, tensor.dtype, tensor.shape)
