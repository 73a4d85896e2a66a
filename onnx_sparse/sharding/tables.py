"""Which tables of a model can be split, and the nodes that look their rows up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.models.data.references import byte_size, is_known, is_packed
from onnx_sparse.models.domain_nodes import node_name
from onnx_sparse.models.graphs import attribute, read_names
from onnx_sparse.models.tables.live_tables import newer_positions
from onnx_sparse.schemas import DOMAIN, OPS, quantized_embedding
from onnx_sparse.schemas.declaration import Op


@dataclass(frozen=True)
class Lookup:
    """A node of the main graph that reads rows of a table and nothing else of it.

    Attributes:
        node: The node.
        op: Its operator; None for Gather.
    """

    node: NodeProto
    op: Op | None

    @property
    def parts(self) -> int:
        """How many of the first inputs are the table."""
        return 2 if self.op is not None and self.op.name in quantized_embedding.FAMILY.names else 1

    @property
    def label(self) -> str:
        """The node in messages."""
        return f"{self.node.op_type} node {printable(node_name(self.node))}"


@dataclass
class Table:
    """A table that can be split by its rows.

    Attributes:
        tensors: What has an element for each row: the table, and the scales and biases of a quantized one.
        lookups: The nodes that read it.
    """

    tensors: tuple[TensorProto, ...]
    lookups: list[Lookup] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.tensors[0].name)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.tensors[0].dims[0])

    @property
    def bytes(self) -> int:
        """Its bytes."""
        return sum(byte_size(tensor) or 0 for tensor in self.tensors)


def split_tables(model: ModelProto, least: int) -> list[Table]:
    """The tables of at least so many bytes that lookups read. What updates have added beside a table stays whole.

    Raises:
        CommandError: There is none, or one cannot be split; each is named, with the reason.
    """
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    readers: dict[str, list[tuple[NodeProto, int | None]]] = defaultdict(list)
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            readers[name].append((node, position))
        inside = NodeProto()
        inside.CopyFrom(node)
        del inside.input[:]
        for name in read_names([inside]):
            readers[name].append((node, None))
    found: dict[str, Table] = {}
    refused: list[str] = []
    whole = {*newer_positions(model).values()}
    for node in model.graph.node:
        lookup = _lookup(node)
        tensor = initializers.get(node.input[0]) if lookup is not None else None
        if lookup is None or tensor is None or not tensor.dims or tensor.name in whole:
            continue
        names = tuple(node.input[: lookup.parts])
        if sum(_size(initializers.get(name)) for name in names) < least:
            continue
        if tensor.name in found and tuple(t.name for t in found[tensor.name].tensors) == names:
            found[tensor.name].lookups.append(lookup)
            continue
        reason = _reason(model, names, initializers, readers)
        if reason:
            refused.append(f"{printable(tensor.name)}: {reason}")
        else:
            found[tensor.name] = Table(tuple(initializers[name] for name in names), [lookup])
    if refused:
        raise CommandError(
            "these tables cannot be split; a larger --at-least leaves those whole that have fewer bytes",
            lines=[*dict.fromkeys(refused)],
        )
    if not found:
        raise CommandError(f"no table that lookups read has {least:,} bytes; --at-least sets a smaller limit")
    return list(found.values())


def _lookup(node: NodeProto) -> Lookup | None:
    """A node as a lookup, if its operator is one."""
    if node.domain == DOMAIN:
        op = OPS.get(node.op_type)
        return Lookup(node, op) if op is not None and op.inputs[0].name == "emb_table" else None
    if node.domain in ("", "ai.onnx") and node.op_type == "Gather" and attribute(node, "axis", 0) == 0:
        return Lookup(node, None)
    return None


def _size(tensor: TensorProto | None) -> int:
    return 0 if tensor is None else byte_size(tensor) or 0


def _reason(
    model: ModelProto,
    names: Sequence[str],
    initializers: dict[str, TensorProto],
    readers: dict[str, list[tuple[NodeProto, int | None]]],
) -> str:
    """Why the tensors of a table cannot be split; empty if they can."""
    interface = {value.name for value in (*model.graph.input, *model.graph.output)}
    rows = initializers[names[0]].dims[0]
    for name in names:
        tensor = initializers.get(name)
        if tensor is None:
            return f"its scales and biases, {printable(name)}, are computed"
        if name in interface:
            return f"{printable(name)} is an input or an output of the model"
        if tensor.data_type == TensorProto.STRING or is_packed(tensor):
            return f"its elements are {TensorProto.DataType.Name(tensor.data_type)}"
        if not is_known(tensor):
            return f"the data of {printable(name)} cannot be read"
        if not tensor.dims or tensor.dims[0] != rows:
            return f"{printable(name)} has not its {rows} rows"
        for node, position in readers[name]:
            lookup = _lookup(node)
            if lookup is None or position is None or tuple(node.input[: lookup.parts]) != tuple(names):
                where = "in a graph inside" if position is None else f"as input {position}"
                return f"{node.op_type} node {printable(node_name(node))} reads {printable(name)}, too, {where}"
            if position >= lookup.parts:
                return f"{lookup.label} reads it as its ids"
    return ""
