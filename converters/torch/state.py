"""The state of a program: buffers, or parameters, that its calls change and that a model of ONNX does not keep."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.torch.lazy_imports import quietly, require

#: Calls that change the statistics that they are given as the fourth and fifth argument, where the sixth, whether they
#: train, is set. Not all of their schemas say so.
_NORM = re.compile(r"aten\.\w*(batch|instance)_norm")


@dataclass(frozen=True)
class State:
    """What the calls of a program change, by the names in its module.

    Attributes:
        read: What an output of a later call depends on, such as a cache or a running mean that is subtracted.
        written: The rest, such as counters, and the statistics of a batch norm in training.
    """

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.read, *self.written)


def state_of(program: Any) -> State:
    """The state of a `torch.export.ExportedProgram`.

    torch.export leaves assignments in a program as they are. Its functional form has the new values as outputs.
    """
    if not _may_change(program):
        return State()
    with quietly():
        functional = program.run_decompositions()
    signature = functional.graph_signature
    kinds = require("torch.export.graph_signature").OutputKind
    held = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
    names = {node.name: node for node in functional.graph.nodes}
    outputs, changes = [], {}
    for spec in signature.output_specs:
        node = names.get(getattr(spec.arg, "name", None))
        if node is None:
            continue
        if spec.kind in (kinds.BUFFER_MUTATION, getattr(kinds, "PARAMETER_MUTATION", None)):
            changes[spec.target] = node
        elif spec.kind == kinds.USER_OUTPUT:
            outputs.append(node)
    # What new values depend on that outputs depend on counts, too.
    read: set[str] = set()
    while found := {held[node.name] for node in nodes_before(outputs) if node.name in held} & changes.keys() - read:
        read |= found
        outputs += [changes[name] for name in found]
    return State(tuple(sorted(read)), tuple(sorted(changes.keys() - read)))


def _may_change(program: Any) -> bool:
    """Whether the program may change its state: it assigns to it, or has become functional already."""
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        return True
    given = {*signature.user_inputs}
    graphs = [module.graph for module in program.graph_module.modules() if hasattr(module, "graph")]
    return any(
        origin.op == "get_attr" or (origin.op == "placeholder" and not (graph is graphs[0] and origin.name in given))
        for graph in graphs
        for node in graph.nodes
        for assigned in _assigned(node)
        for origin in _origins(assigned)
    )


def _assigned(node: Any) -> list[Any]:
    """The arguments that a call changes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    if is_norm_in_training(node):
        return [argument for argument in node.args[3:5] if argument is not None]
    values = [node.args[k] if k < len(node.args) else node.kwargs.get(a.name) for k, a in enumerate(schema.arguments)]
    written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    return [value for value, is_written in zip(values, written, strict=True) if is_written and hasattr(value, "op")]


def _origins(node: Any) -> list[Any]:
    """The tensors whose memory a tensor may be a part of."""
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        schema = getattr(node.target, "_schema", None)
        if schema is None and node.op == "call_function":  # getitem, or one of torch's higher order
            waiting += [each for each in node.all_input_nodes if each.op != "get_attr"]
        elif schema is not None and any(result.alias_info is not None for result in schema.returns):
            waiting += [node.args[k] for k, a in enumerate(schema.arguments) if a.alias_info and k < len(node.args)]
        else:
            found.append(node)
    return found


def is_norm_in_training(node: Any) -> bool:
    """Whether a node of a program is a norm by the statistics of its batch, which also changes those that it keeps."""
    return _NORM.match(str(node.target)) is not None and len(node.args) > 5 and node.args[5] is True


def nodes_before(nodes: Sequence[Any]) -> set[Any]:
    """Nodes, and all that these depend on."""
    found, waiting = set(nodes), [*nodes]
    while waiting:
        new = set(_needed(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def _needed(node: Any) -> list[Any]:
    """What a node is computed of: in training, a norm is not computed of the statistics that it keeps."""
    if node.target is operator.getitem and is_norm_in_training(norm := node.args[0]) and node.args[1] < 3:
        return [given for given in norm.all_input_nodes if given not in norm.args[3:5]]
    return list(node.all_input_nodes)
