"""Variables that a call of a model reads and assigns: states, which become pairs of inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.values import Resource
from onnx_sparse.converters.tensorflow.reading.effects import Change, final_change, last_change
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.tensorflow.reading.variables import VARIABLES
from onnx_sparse.converters.writing.states import Pairs, States
from onnx_sparse.schemas.declaration import numpy_dtype

_ASSIGN = "AssignVariableOp"
#: What is assigned: the value before and the input, put together by an operator.
_ADDING = {"AssignAddVariableOp": "Add", "AssignSubVariableOp": "Sub"}


class VariableValues:
    """The values of a model's variables where they are read.

    Args:
        context: The conversion of the model.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._constants: dict[str, Tensor] = {}
        self._states = States(context.frame.emit)
        self._final: dict[Origin, Change | None] = {}
        self._begun: dict[str, Resource] = {}
        self._assigned: dict[tuple[int, str], Tensor] = {}

    def at(self, scope: Scope, node: NodeDef, handle: object) -> Tensor:
        """The value of a variable that a node reads: that of the file, of the last call, or what was assigned before.

        Args:
            scope: The scope of the node.
            node: The node.
            handle: The value of its input that is the variable.

        Raises:
            Unsupported: It is no variable, or its value is not known.
        """
        variable = _variable(handle)
        resource = Origin(variable.scope, variable.node.name, 0)
        change = last_change(scope, node, resource)
        if change is not None:
            return self._after(change, variable)
        return self.constant(handle) if self.changed_by(resource) is None else self._past(variable)

    def constant(self, handle: object) -> Tensor:
        """The value of a variable in the file, a constant of the whole model; see `at`."""
        variable, model = _variable(handle), self._context.model
        name = variable.node.name
        if name not in self._constants or variable.scope.whole is not model.graph:
            dtype = onnx_type(variable.node.attr["dtype"].type)
            array = model.variables.value(variable.node)
            if numpy_dtype(dtype) != array.dtype:
                raise Unsupported(f"the variable {name} has another type in the checkpoint")
            emit = self._context.frame.emit
            self._constants[name] = emit.constant(array, dtype, emit.names.fresh(model.variables.name(variable.node)))
        return self._constants[name]

    def changed_by(self, resource: Origin) -> Change | None:
        """What changes a variable or table in each call of the model, and is the last to do so."""
        if resource not in self._final:
            model = self._context.model
            run = [port.tensor.partition(":")[0] for port in model.outputs]
            self._final[resource] = final_change(model.graph, [*run, *model.effects], resource)
        return self._final[resource]

    def finish(self, results: Sequence[Tensor]) -> Pairs:
        """The inputs and outputs of the states.

        Args:
            results: What the model returns otherwise.

        Raises:
            Unsupported: The next value of one cannot be converted.
        """
        following: dict[str, Tensor] = {}
        while left := [name for name in self._begun if name not in following]:  # whose next values may read others
            for name in left:
                variable = self._begun[name]
                change = self.changed_by(Origin(variable.scope, variable.node.name, 0))
                assert change is not None
                following[name] = self._after(change, variable)
        return self._states.finish(following, {tensor.name for tensor in results})

    def _past(self, variable: Resource) -> Tensor:
        """The value that the last call has left."""
        model, node = self._context.model, variable.node
        name = next((name for name, known in self._begun.items() if known == variable), None)
        if name is None:
            name = model.variables.name(node)
            if name in self._begun:  # of another variable
                name = node.name
            initial = self.constant(variable)
            shape = shape_of(node.attr["shape"].shape) if node.attr["shape"].WhichOneof("value") else initial.shape
            if shape is None:
                raise Unsupported(f"the rank of the variable {name}, a state, is not known")
            self._states.begin(name, Tensor("", initial.dtype, shape), initial, initial.value)
            self._begun[name] = variable
        return self._states.value(name)

    def _after(self, change: Change, variable: Resource) -> Tensor:
        """The value that a node assigns."""
        key = id(change.scope), change.node.name
        if key not in self._assigned:
            if change.node.op != _ASSIGN and change.node.op not in _ADDING:
                raise Unsupported(f"{change} changes it; only variables that are assigned or added to are states")
            (value,) = self._context.tensors(change.scope.origins(change.node)[1:2])
            if change.node.op in _ADDING:
                before = self.at(change.scope, change.node, variable)
                emit = change.scope.frame.emit
                emit.begin(f"{change.scope.name}{change.node.name}")
                value = emit.op(_ADDING[change.node.op], before, value)
            self._assigned[key] = value
        return self._assigned[key]


def _variable(handle: object) -> Resource:
    if not isinstance(handle, Resource) or handle.node.op not in VARIABLES:
        raise Unsupported("it reads a resource that is not a variable")
    return handle
