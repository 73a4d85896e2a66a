"""States that outlast a run, as pairs of inputs and outputs.

`past.NAME` takes the value of the state NAME, `present.NAME` returns its next one. A record says what the value before
the first run is if all its elements are equal; if not, or if the model computes it, a past without elements along the
first axis stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.models.graphs import put_nodes, read_names
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.states import State


@dataclass(frozen=True)
class _Held:
    """A state.

    Attributes:
        past: The input with its past value; a vector where a scalar cannot have no elements.
        value: That value as the model reads it.
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


class States:
    """The states of a model under construction.

    Args:
        emitter: Receives the nodes of the graph.
    """

    def __init__(self, emitter: InferringEmitter) -> None:
        self._emit = emitter
        self._held: dict[str, _Held] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._branches: list[NodeProto] = []

    def reserve(self, name: str) -> None:
        """Keep the names of a state's input and output from other tensors."""
        fresh = self._emit.names.fresh
        self._names[name] = fresh(f"past.{name}"), fresh(f"present.{name}")

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def value(self, name: str) -> Tensor:
        """The value of a state that has begun, as the model reads it."""
        return self._held[name].value

    def begin(self, name: str, declared: Tensor, initial: Tensor | None, constant: Array | None) -> Tensor:
        """Add a state, and return its value as the model reads it.

        Args:
            name: Its name.
            declared: Its element type and shape, of a known rank.
            initial: What it begins with; None for zeros.
            constant: The value of that, if it is known.
        """
        if name not in self._names:
            self.reserve(name)
        value = replace(declared, name=self._names[name][0], value=None)
        if initial is None:
            sizes = tuple(size or 0 for size in value.shape or ())
            made = _Held(value, value, sizes, _nothing(value.dtype))
        elif constant is not None and (filled := _fill(constant)) is not None:
            made = _Held(value, value, constant.shape, filled)
        else:
            made = self._computed(value, self._emit.cast(initial, value.dtype))
        self._held[name] = made
        return made.value

    def _computed(self, value: Tensor, initial: Tensor) -> _Held:
        """A state that begins with a computed value."""
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
        return _Held(past, current, sizes_before, _nothing(value.dtype))

    def finish(self, following: Mapping[str, Tensor], kept: set[str]) -> Pairs:
        """The inputs and outputs of the states.

        Args:
            following: The next values of states; others keep theirs.
            kept: The names of the tensors that the model returns otherwise.
        """
        pairs = Pairs([], [], [])
        for name, held in self._held.items():
            past, present = self._names[name]
            after = self._emit.cast(following.get(name, held.value), held.value.dtype)
            if held.value.shape == () and held.past.shape != ():
                after = self._emit.op("Unsqueeze", after, self._emit.constant([0]))
            pairs.pasts.append(held.past)
            pairs.presents.append(after)
            pairs.record.append(State(name, past, present, held.shape, held.fill))
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
