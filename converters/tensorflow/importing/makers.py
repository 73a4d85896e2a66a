"""Which nodes of a graph that has been read make a tensor, and a part of it as a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.importing.context import Context, Frame
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.reading.scopes import Origin
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of
from onnx_sparse.converters.tensorflow.reading.variables import VARIABLES
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.schemas.declaration import element_type

_GATHERS = ("Gather", "GatherV2", "ResourceGather")


class Makers:
    """What rules ask about the tensors of a graph, which are origins.

    Args:
        context: The conversion of the graph.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def node(self, origin: Any, *ops: str) -> Any:
        """The node that makes a tensor; None if it has none of the given types, or is fed."""
        if not isinstance(origin, Origin):
            return None
        node = origin.scope.nodes[origin.node]
        return node if not ops or node.op in ops else None

    def inputs(self, origin: Origin) -> list[Any]:
        """The inputs of the node that makes a tensor.

        Raises:
            Unsupported: They cannot be followed.
        """
        return origin.scope.origins(origin.scope.nodes[origin.node])

    def constant(self, origin: Any) -> Array | None:
        """The value of a constant or of a variable; None for anything else."""
        node = self.node(origin, "Const", "ReadVariableOp", *VARIABLES)
        try:
            if node is None:
                return None
            if node.op == "Const":
                return array_of(node.attr["value"].tensor)
            if node.op == "ReadVariableOp":
                return self.constant(self.inputs(origin)[0])
            if self._context.variables.changed_by(origin) is not None:  # a state
                return None
            return self._context.model.variables.value(node)
        except Unsupported:  # which is an error where the node is converted
            return None

    def number(self, origin: Any) -> Any:
        """The value of a constant scalar; None for anything else."""
        node = self.node(origin, "Const")
        value = self.constant(origin) if node is not None and not node.attr["value"].tensor.tensor_shape.dim else None
        return None if value is None else value.item()

    def table(self, lookup: Any) -> Any:
        """The tensor or variable whose rows a node gathers; None if it gathers something else."""
        node = self.node(lookup, *_GATHERS)
        given = self.inputs(lookup) if node is not None else []
        if len(given) < 2 or (node.op != "Gather" and int(node.attr["batch_dims"].i)):
            return None
        if node.op == "GatherV2" and (len(given) != 3 or self.number(given[2]) != 0):
            return None
        read = self.node(given[0], "ReadVariableOp")
        return self.inputs(given[0])[0] if read is not None else given[0]

    def between(
        self, origin: Any, stops: Callable[[Any], bool], allowed: Callable[[Any], bool]
    ) -> tuple[list[Origin], list[Any]] | None:
        """The tensors by which one is computed, back to those that `stops` accepts, and the latter.

        None if a node on the way is not allowed.
        """
        found: dict[tuple[int, str], Origin] = {}
        entries: dict[Any, None] = {}
        waiting = [origin]
        while waiting:
            tensor = waiting.pop()
            if stops(tensor):
                entries[tensor] = None
            elif not isinstance(tensor, Origin) or not allowed(tensor):
                return None
            elif (id(tensor.scope), tensor.node) not in found:
                found[id(tensor.scope), tensor.node] = tensor
                waiting += self.inputs(tensor)
        return list(found.values()), list(entries)

    def function(
        self, argument: Origin, like: Array, results: Sequence[Origin], nodes: Iterable[Origin]
    ) -> Callable[[Array], list[Array]] | None:
        """A function that computes tensors from one with the given nodes; None if it cannot be made.

        It computes in ONNX Runtime with the same operators as the converted model.

        Args:
            argument: The tensor.
            like: An array of its element type and rank.
            results: What is computed.
            nodes: The nodes by which it is.
        """
        scope = argument.scope
        if any(origin.scope is not scope for origin in (*results, *nodes)):
            return None
        emit = TensorFlowEmitter()
        fed = Tensor(emit.names.fresh("argument"), element_type(like.dtype), (None, *like.shape[1:]))
        part = self._context.keep(scope.part({(argument.node, argument.output): fed}, scope.name, Frame(emit)))
        computed = self._context.attempt([Origin(part, origin.node, origin.output) for origin in results])
        if computed is None:
            return None
        names = [f"result_{k}" for k in range(len(computed))]
        outputs = [value_info(Tensor(t.name, t.dtype, None)) for t in emit.name_outputs(computed, names, start=0)]
        from onnx_sparse.sessions.runtime import InferenceSession

        session = InferenceSession(emit.model("rows", [value_info(fed)], outputs))

        def call(value: Array) -> list[Array]:
            return list(session.run(names, {fed.name: value}))

        return call
