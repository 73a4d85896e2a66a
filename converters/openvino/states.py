"""ReadValue and Assign: states that outlast a run, which become pairs of inputs and outputs.

`past.NAME` takes the value of the variable NAME, `present.NAME` returns its next one. Before the first run a variable
has the value of ReadValue's input. If all its elements are equal, the model's record says so; if not, or if the model
computes it, a past without elements along the first axis stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.element_types import ONNX_TYPES
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.ir import Layer, Network
from onnx_sparse.converters.openvino.model_ports import element_type, parse_shape, port_shape
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.models.graphs import put_nodes, read_names
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.states import State

READ, ASSIGN = "ReadValue", "Assign"


@dataclass(frozen=True)
class _Variable:
    """A variable.

    Attributes:
        past: The input with its past value; a vector where a scalar cannot have no elements.
        value: That value as layers read it.
        shape: The shape of the past before the first run.
        fill: What its elements are then.
    """

    past: Tensor
    value: Tensor
    shape: tuple[int, ...]
    fill: Any


@dataclass(frozen=True)
class Pairs:
    """The inputs of states, the tensors that their outputs return, and the record of both."""

    pasts: list[Tensor]
    presents: list[Tensor]
    record: list[State]


class Variables:
    """The variables of a network.

    Args:
        network: The network.
        emitter: Receives the nodes.
    """

    def __init__(self, network: Network, emitter: Emitter) -> None:
        self._emit = emitter
        self._found: dict[str, _Variable] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._assigned: dict[str, Tensor] = {}
        self._branches: list[NodeProto] = []
        for layer in network.layers.values():
            name = layer.data.get("variable_id")
            if layer.type == READ and name and name not in self._names:
                self._names[name] = (emitter.names.fresh(f"past.{name}"), emitter.names.fresh(f"present.{name}"))

    def __bool__(self) -> bool:
        return bool(self._names)

    def read(self, layer: Layer, initial: Tensor | None, constant: Array | None) -> Tensor:
        """The value that a ReadValue reads.

        Args:
            layer: The layer.
            initial: Its input; None for zeros.
            constant: The value of that input, if it is known.
        """
        name = layer.data.get("variable_id")
        if not name:
            raise Unsupported("it has no variable_id")
        if name in self._found:
            return self._found[name].value
        dtype, shape = _declared(layer, initial)
        if shape is None:
            raise Unsupported(
                f"the rank of the variable {name!r} is not known; give the model's inputs a rank in OpenVINO "
                "(model.reshape) and save the IR again"
            )
        value = Tensor(self._names[name][0], dtype, shape)
        if initial is None:
            sizes = tuple(size or 0 for size in shape)
            made = _Variable(value, value, sizes, _nothing(dtype))
        elif constant is not None and (filled := _fill(constant)) is not None:
            made = _Variable(value, value, constant.shape, filled)
        else:
            made = self._computed(value, self._emit.cast(initial, dtype))
        self._found[name] = made
        return made.value

    def _computed(self, value: Tensor, initial: Tensor) -> _Variable:
        """A variable that begins with a computed value."""
        emit, shape = self._emit, value.shape or ()
        past = replace(value, shape=(None, *shape[1:]))
        size = emit.op("Shape", past, start=0, end=1)
        is_first = emit.op("Equal", size, emit.constant([0]))
        if initial.shape is not None and 0 in initial.shape and shape:
            # Without elements either way: only the sizes are those of the initial value, and nothing is copied.
            sizes = emit.op("Where", is_first, emit.shape_of(initial), emit.op("Shape", past))
            current = emit.node("Reshape", [past, sizes], [value.dtype], [shape], allowzero=1)[0]
        else:
            branches = {}
            for key, tensor in (("then_branch", initial), ("else_branch", past)):
                inner = emit.body()
                copy = replace(tensor, name=emit.names.fresh(f"{past.name}/{key}"))
                if tensor is past and not shape:
                    only = inner.constant([0])
                    made = inner.node("Squeeze", [past, only], [value.dtype], [()])[0]
                    inner.nodes[-1].output[0], copy = copy.name, replace(made, name=copy.name)
                else:
                    inner.nodes.append(helper.make_node("Identity", [tensor.name], [copy.name], name=copy.name))
                branches[key] = inner.graph(key, [], [value_info(copy)])
            condition = emit.op("Squeeze", is_first, emit.constant([0]))
            current = emit.node("If", [condition], [value.dtype], [shape], **branches)[0]
            self._branches.append(emit.nodes[-1])
        sizes_before = (0, *(size or 0 for size in shape[1:]))
        return _Variable(past, current, sizes_before, _nothing(value.dtype))

    def assign(self, layer: Layer, value: Tensor) -> Tensor:
        """Make a value the next one of a variable, and return it. An Assign may come before the ReadValue."""
        name = layer.data.get("variable_id", "")
        if name not in self._names:
            raise Unsupported(f"no ReadValue reads its variable {name!r}")
        if name in self._assigned:
            raise Unsupported(f"another Assign gives the variable {name!r} a value")
        self._assigned[name] = value
        return value

    def finish(self, kept: set[str]) -> Pairs:
        """The inputs and outputs of the states.

        Args:
            kept: The names of the tensors that the model returns otherwise.
        """
        pairs = Pairs([], [], [])
        for name, variable in self._found.items():
            past, present = self._names[name]
            following = self._emit.cast(self._assigned.get(name, variable.value), variable.value.dtype)
            if variable.value.shape == () and variable.past.shape != ():
                following = self._emit.op("Unsqueeze", following, self._emit.constant([0]))
            pairs.pasts.append(variable.past)
            pairs.presents.append(following)
            pairs.record.append(State(name, past, present, variable.shape, variable.fill))
        self._compute_once(kept | {tensor.name for tensor in pairs.presents})
        return pairs

    def _compute_once(self, kept: set[str]) -> None:
        """Move what only initial values need into the branches that return them: other runs do not compute it."""
        nodes = self._emit.nodes
        for chooser in self._branches:
            branch = next(a.g for a in chooser.attribute if a.name == "then_branch")
            place = next(k for k, node in enumerate(nodes) if node is chooser)
            read_elsewhere = read_names(nodes[place + 1 :]) | kept | read_names([_without_branch(chooser)])
            wanted, moved, stay = read_names(branch.node), [], []
            for node in reversed(nodes[:place]):
                if not wanted.isdisjoint(node.output) and read_elsewhere.isdisjoint(node.output):
                    moved.append(node)
                    wanted |= read_names([node])
                else:
                    stay.append(node)
                    read_elsewhere |= read_names([node])
            put_nodes(branch, [*reversed(moved), *branch.node])
            nodes[:place] = reversed(stay)


def _without_branch(node: NodeProto) -> NodeProto:
    """An If without the branch that returns the initial value."""
    kept = NodeProto()
    kept.CopyFrom(node)
    del kept.attribute[:]
    kept.attribute.extend(a for a in node.attribute if a.name != "then_branch")
    return kept


def _declared(layer: Layer, initial: Tensor | None) -> tuple[DType, Shape | None]:
    """The type and shape of a variable: what the layer says, else those of its output or of its initial value."""
    port = layer.outputs[0] if layer.outputs else None
    precision = layer.data.get("variable_type") or (port.precision if port else "")
    if initial is None or precision in ONNX_TYPES:
        dtype: DType = element_type(precision, "the type of the variable")
    else:
        dtype = initial.dtype
    text = layer.data.get("variable_shape")
    shape = None if text is None else parse_shape(text)
    if shape is None and port is not None:
        shape = port_shape(port)
    if shape is None and initial is not None:
        shape = None if initial.shape is None else (None,) * len(initial.shape)
    return dtype, shape


def _nothing(dtype: DType) -> Any:
    return "" if dtype == TensorProto.STRING else 0


def _fill(constant: Array) -> Any:
    """The number that all elements of a constant are, or 0 without elements; None if they differ or are not finite."""
    if constant.size == 0:
        return 0
    first = constant.reshape(-1)[0]
    if constant.dtype == object:
        return first if isinstance(first, str) and (constant == first).all() else None
    is_exact = constant.dtype.kind in "biu" or (np.isfinite(first) and not (first == 0 and np.signbit(first)))
    return first.item() if is_exact and (constant == first).all() else None
