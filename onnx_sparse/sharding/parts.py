"""The models that one is split into: what computes ids, what a shard runs, and what merges the shards' answers.

A lookup depends on its table through the rows that it reads only. So the merging model has the same operator, whose
table is an input: the rows that the shards have sent, in any order, with the positions of these rows as ids. Where sums
may be sent, the operator adds rows, or takes the sums as they are, and what a mean or SqrtN is divided by is an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.forms.canonical import canonicalize
from onnx_sparse.models.graphs import Names, all_nodes, array_of, attribute, names_of, needed_nodes, read_names
from onnx_sparse.models.tools.onnx_tools import ONNX_ERRORS, infer_shapes
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.sharding.tables import Lookup, Table

Array = np.ndarray[Any, Any]

#: Constants of more elements are computed, not written into the manifest.
_SMALL = 64
#: The element types whose sums a shard may send: of half floats, sums of sums would be rounded twice.
_SUMMED = (TensorProto.FLOAT, TensorProto.DOUBLE)
#: How the operators of bags are named by their reductions.
_BAGS = {"sum": "Sum", "mean": "Mean", "sqrtn": "SqrtN", "max": "Max"}
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_LEAST_IR = 8


@dataclass(frozen=True)
class Ask:
    """A lookup of a table that is split.

    Attributes:
        key: What begins the names of its inputs and outputs in the shards' models and in the merging model.
        table: The table.
        lookup: The node.
        sums: Whether shards may send sums.
        inputs: The values that it reads beside its table, by the names of the operator's inputs.
    """

    key: str
    table: Table
    lookup: Lookup
    sums: bool
    inputs: Mapping[str, str]

    @property
    def reduction(self) -> str:
        """What it makes of rows; empty for Gather."""
        return str(self.lookup.op.reduction) if self.lookup.op is not None else ""


@dataclass(frozen=True)
class Parts:
    """What a model is split into, but for the shards.

    Attributes:
        asks: The lookups.
        front: What computes ids; None where all are inputs of the model.
        merge: The merging model.
        constants: Inputs of lookups that never change.
        outputs: The outputs of the model that the front model makes.
    """

    asks: list[Ask]
    front: ModelProto | None
    merge: ModelProto
    constants: dict[str, Array]
    outputs: list[str]


def split(model: ModelProto, tables: Sequence[Table], *, exact: bool) -> Parts:
    """Split a model at the lookups of some tables.

    Args:
        model: The model, without functions of our domain.
        tables: The tables.
        exact: Whether rows are sent, never sums.

    Raises:
        CommandError: Ids depend on rows of such a table, or the type of a value is not known.
    """
    graph, names = model.graph, names_of(model)
    asks = [_ask(table, lookup, names, exact) for table in tables for lookup in table.lookups]
    by_output = {ask.lookup.node.output[0]: ask for ask in asks}
    fixed, constants = _fixed(model), _constants(graph)
    given = {value.name for value in graph.input}
    needed = {name for ask in asks for name in ask.inputs.values()}
    small = {name: constants[name] for name in needed if name in constants and constants[name].size <= _SMALL}
    computed = needed - small.keys() - given
    front = needed_nodes(graph.node, computed)
    _refuse_chains(asks, by_output, front)
    if replaceable := needed & given & {tensor.name for tensor in graph.initializer}:
        raise CommandError(
            f"the model cannot be split: callers may omit {printable(min(replaceable))}, which a lookup reads"
        )
    made = {name for node in front for name in node.output if name} - fixed
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.output and node.output[0] in by_output:
            nodes += _merging(by_output[node.output[0]], names)
        elif made.isdisjoint(node.output):
            nodes.append(node)
    outputs = [value.name for value in graph.output if value.name in made]
    wanted = [value for value in graph.output if value.name not in made]
    merging = needed_nodes(nodes, [value.name for value in wanted])
    passed = read_names(merging) & made
    crossing = [*dict.fromkeys([*sorted(computed), *sorted(passed), *outputs])]
    types = _types(model, crossing, asks)
    inputs = [*graph.input, *(types[name] for name in sorted(passed)), *(v for ask in asks for v in _fed(ask, types))]
    return Parts(
        asks,
        _model(model, front, graph.input, [types[name] for name in crossing]) if crossing else None,
        canonicalize(_model(model, merging, inputs, wanted)),
        small,
        outputs,
    )


def shard_model(model: ModelProto, asks: Iterable[Ask]) -> ModelProto:
    """What a shard runs: the rows of ids, and sums of rows where that is allowed; its tables are yet to be added."""
    nodes: list[NodeProto] = []
    inputs: list[ValueInfoProto] = []
    outputs: list[ValueInfoProto] = []
    for ask in asks:
        key = ask.key
        inputs.append(_value(f"{key}_ids", TensorProto.INT64, [None]))
        for tensor, name in zip(ask.table.tensors, ("rows", "scales"), strict=False):
            nodes.append(helper.make_node("Gather", [tensor.name, f"{key}_ids"], [f"{key}_{name}"], axis=0))
            outputs.append(_value(f"{key}_{name}", tensor.data_type, [None, *tensor.dims[1:]]))
        if ask.sums:
            table = ask.table.tensors[0]
            names = [f"{key}_{name}" for name in ("added", "bags", "count")]
            inputs += [_value(name, TensorProto.INT64, [None]) for name in names[:2]]
            inputs.append(_value(names[2], TensorProto.INT64, []))
            weights = [f"{key}_weights"] if "per_sample_weights" in ask.inputs else []
            inputs += [_value(name, table.data_type, [None]) for name in weights]
            given = [table.name, *names, *(["", *weights] if weights else [])]
            nodes.append(helper.make_node("EmbeddingSegmentsSum", given, [f"{key}_sums"], domain=DOMAIN))
            outputs.append(_value(f"{key}_sums", table.data_type, [None, *table.dims[1:]]))
    return canonicalize(_model(model, nodes, inputs, outputs, everything=True))


def _ask(table: Table, lookup: Lookup, names: Names, exact: bool) -> Ask:
    node, op = lookup.node, lookup.op
    declared = ["data", "indices"] if op is None else [i.name for i in op.inputs]
    inputs = {name: value for name, value in zip(declared, node.input, strict=False) if value}
    for part in declared[: lookup.parts]:
        del inputs[part]
    sums = op is not None and op.reduction in ("sum", "mean", "sqrtn") and table.tensors[0].data_type in _SUMMED
    return Ask(names.fresh(f"{node.output[0]}_shards"), table, lookup, sums and not exact, inputs)


def _refuse_chains(asks: Sequence[Ask], by_output: Mapping[str, Ask], front: Iterable[NodeProto]) -> None:
    for node in front:
        ask = by_output.get(node.output[0]) if node.output else None
        if ask is not None:
            raise CommandError(
                f"table {printable(ask.table.name)} cannot be split: ids of another lookup depend on what "
                f"{ask.lookup.label} reads of it ({', '.join(printable(a.table.name) for a in asks if a is not ask)})"
            )


def _merging(ask: Ask, names: Names) -> list[NodeProto]:
    """The nodes that stand for a lookup in the merging model."""
    key, [output], op = ask.key, ask.lookup.node.output, ask.lookup.op
    if op is None:
        return [helper.make_node("Gather", [f"{key}_rows", f"{key}_positions"], [output], axis=0)]
    if ask.sums:
        given = [f"{key}_rows", f"{key}_positions", f"{key}_splits", ""]
        given += [f"{key}_weights"] if "per_sample_weights" in ask.inputs else []
        total = output if ask.reduction == "sum" else names.fresh(f"{key}_total")
        nodes = [_bags("EmbeddingBagOffsetsSum", given, total)]
        return nodes if total == output else [*nodes, helper.make_node("Div", [total, f"{key}_divisors"], [output])]
    given = [f"{key}_rows", *([f"{key}_scales"] if ask.lookup.parts == 2 else [])]
    given += [f"{key}_positions", f"{key}_splits", f"{key}_default" if "default_index" in ask.inputs else ""]
    given += [f"{key}_weights"] if "per_sample_weights" in ask.inputs else []
    quantized = "Quantized" if ask.lookup.parts == 2 else ""
    node = _bags(f"{quantized}EmbeddingBagOffsets{_BAGS[ask.reduction]}", given, output)
    if quantized:
        bits = attribute(ask.lookup.node, "bits", b"8")
        node.attribute.append(helper.make_attribute("bits", bits))
    return [node]


def _bags(op_type: str, given: Sequence[str], output: str) -> NodeProto:
    return helper.make_node(op_type, given, [output], domain=DOMAIN, include_last_offset="exact")


def _fed(ask: Ask, types: Mapping[str, ValueInfoProto]) -> list[ValueInfoProto]:
    """The inputs of the merging model for a lookup."""
    key, tensors = ask.key, ask.table.tensors
    fed = [
        _value(f"{key}_{name}", tensor.data_type, [None, *tensor.dims[1:]])
        for tensor, name in zip(tensors, ("rows", "scales"), strict=False)
    ]
    if ask.lookup.op is None:
        positions = ValueInfoProto()
        positions.CopyFrom(types[ask.inputs["indices"]])
        positions.name = f"{key}_positions"
        positions.type.tensor_type.elem_type = TensorProto.INT64
        return [*fed, positions]
    fed += [_value(f"{key}_{name}", TensorProto.INT64, [None]) for name in ("positions", "splits")]
    if "per_sample_weights" in ask.inputs:
        fed.append(_value(f"{key}_weights", tensors[-1].data_type, [None]))
    if ask.sums and ask.reduction != "sum":
        fed.append(_value(f"{key}_divisors", tensors[0].data_type, [None, *[1] * (len(tensors[0].dims) - 1)]))
    if "default_index" in ask.inputs and not ask.sums:
        fed.append(_value(f"{key}_default", TensorProto.INT64, []))
    return fed


def _value(name: str, element: int, dims: Sequence[int | None]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, dims)


def _fixed(model: ModelProto) -> set[str]:
    """The values that depend on no input of the model: both models compute them."""
    graph = model.graph
    given = {value.name for value in graph.input}
    fixed = {tensor.name for tensor in graph.initializer} - given
    for node in graph.node:
        is_plain = all(n.domain in ("", "ai.onnx") and n.op_type not in _RANDOM for n in all_nodes([node]))
        if is_plain and read_names([node]) - {""} <= fixed:
            fixed.update(filter(None, node.output))
    return fixed


def _constants(graph: GraphProto) -> dict[str, Array]:
    """The initializers and constants of a graph that have values in it and that no caller can replace."""
    given = {value.name for value in graph.input}
    found = {t.name: t for t in graph.initializer if t.name not in given and is_known(t)}
    for node in graph.node:
        value = attribute(node, "value") if node.op_type == "Constant" and not node.domain else None
        if isinstance(value, TensorProto):
            found[node.output[0]] = value
    small = {name: tensor for name, tensor in found.items() if np.prod(tensor.dims, dtype=float) <= _SMALL}
    return {n: array_of(t) for n, t in small.items() if t.data_type != TensorProto.STRING}


def _types(model: ModelProto, names: Iterable[str], asks: Iterable[Ask]) -> dict[str, ValueInfoProto]:
    """The types of values by name, also those of the ids of every Gather.

    Raises:
        CommandError: One is not known, or no tensor.
    """
    try:
        graph = infer_shapes(model).graph
    except ONNX_ERRORS as error:
        raise CommandError(f"the types of the model's values cannot be found: {error}") from error
    known = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        known.setdefault(tensor.name, _value(tensor.name, tensor.data_type, tensor.dims))
    wanted = [*names, *(ask.inputs["indices"] for ask in asks if ask.lookup.op is None)]
    for name in wanted:
        if name not in known or not known[name].type.tensor_type.elem_type:
            raise CommandError(f"the model cannot be split: the type of {printable(name)} is not known, or no tensor's")
    return {name: known[name] for name in wanted}


def _model(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    inputs: Iterable[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    *,
    everything: bool = False,
) -> ModelProto:
    """A model with these nodes, and of the inputs and initializers those that it reads."""
    read = read_names(nodes) | {value.name for value in outputs}
    made = ModelProto(ir_version=max(model.ir_version, _LEAST_IR), producer_name=model.producer_name)
    made.opset_import.extend(model.opset_import)
    if all(imported.domain != DOMAIN for imported in made.opset_import):
        made.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)
    made.metadata_props.extend(model.metadata_props)
    made.functions.extend(model.functions)
    graph = made.graph
    graph.name = model.graph.name
    graph.node.extend(nodes)
    graph.input.extend(value for value in inputs if everything or value.name in read)
    graph.output.extend(outputs)
    if not everything:
        graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in read)
        graph.sparse_initializer.extend(t for t in model.graph.sparse_initializer if t.values.name in read)
        made_here = {name for node in nodes for name in node.output} - {value.name for value in outputs}
        # ONNX Runtime fuses nodes by these shapes, and fused nodes round otherwise.
        graph.value_info.extend(value for value in model.graph.value_info if value.name in made_here)
    return made
