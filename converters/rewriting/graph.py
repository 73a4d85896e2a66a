"""A graph while it is rewritten: which node makes each tensor, what is known about it, and how to replace nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TensorShapeProto, helper, numpy_helper

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.rewriting.well_formed import is_well_formed
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.emitter import Emitter, NewNode
from onnx_sparse.models.data.references import blocks_of, is_known, is_reference, state_content, tensor_of
from onnx_sparse.models.graphs import (
    Names,
    all_nodes,
    array_of,
    attribute,
    needed_nodes,
    put_nodes,
    read_names,
    rename,
)
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import DType

#: Constants up to this many elements are read; larger ones are tables.
_SMALL = 1 << 16

#: Constants up to this many elements are shared, so that equal nodes are recognized.
_SHARED = 64

#: The sets of operators that rules know.
KNOWN_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", DOMAIN)

#: Names that some exporters give to every dimension that they do not know.
_UNKNOWN_DIMENSIONS = ("", "?", "None", "none", "-1", "*")

#: Operators of which two equal nodes have different results.
_RANDOM = ("Random", "Multinomial", "Bernoulli", "Dropout")


_Dims = tuple[int | str | None, ...]


class Graph:
    """One graph of a model, without its subgraphs.

    Args:
        proto: The graph.
        names: The names of the model, from which new ones differ.
        opset: The default opset of the model.
        outer: The graph around it, whose constants it sees.
    """

    def __init__(self, proto: GraphProto, *, names: Names, opset: int = 18, outer: Graph | None = None) -> None:
        self.proto = proto
        self.opset = opset
        self._nodes = list(proto.node)
        #: Nodes that are to be inserted before and after another one, by its id: a list is written anew once for all.
        self._inserted: dict[int, list[NodeProto]] = {}
        self._appended: dict[int, list[NodeProto]] = {}
        self.outputs = {value.name for value in proto.output}
        self.names = names
        self._outer = outer
        self._shared: dict[tuple[Any, ...], str] = {}
        self._is_ordered = True
        self.index()
        self._constants: dict[str, TensorProto] = dict(outer._constants) if outer else {}
        given = {value.name for value in proto.input}  # a caller may give another value for their initializers
        self._constants |= {tensor.name: tensor for tensor in proto.initializer if tensor.name not in given}
        self._constants |= dict(constants_of(self.nodes))
        self._types: dict[str, tuple[DType, _Dims | None]] = dict(outer._types) if outer else {}
        for value in (*proto.input, *proto.output, *proto.value_info):
            kind = value.type.tensor_type
            dims = tuple(map(_dimension, kind.shape.dim))
            self._types[value.name] = (kind.elem_type, dims if kind.HasField("shape") else None)
        for name, tensor in self._constants.items():
            self._types[name] = (tensor.data_type, tuple(tensor.dims))
        for node in self.nodes:
            node.name = node.name or names.fresh(f"{node.op_type}_{next(filter(None, node.output), '')}")

    @property
    def nodes(self) -> list[NodeProto]:
        """The nodes, in order."""
        if self._inserted or self._appended:
            waiting, placed = self._nodes[::-1], []
            while waiting:
                node = waiting.pop()
                before = self._inserted.pop(id(node), None)
                if before is None:
                    placed.append(node)
                    waiting += self._appended.pop(id(node), ())
                else:
                    waiting += [node, *reversed(before)]
            self._nodes = placed
            self._inserted.clear()
            self._appended.clear()
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: list[NodeProto]) -> None:
        self._nodes = nodes

    def index(self) -> None:
        """Find out which nodes make and read each tensor, also in the graphs inside them."""
        self._producers = {name: node for node in self.nodes for name in node.output if name}
        # All that read a tensor, and perhaps nodes that no longer do.
        self._readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            self._note_reads(node)

    def _note_reads(self, node: NodeProto) -> None:
        for name in read_names([node]):
            self._readers.setdefault(name, []).append(node)

    def inner(self, body: GraphProto) -> Graph:
        """The graph of a body inside this one."""
        return Graph(body, names=self.names, opset=self.opset, outer=self)

    def producer(self, name: str, *op_types: str) -> NodeProto | None:
        """The node that makes a tensor; None if it has none of the given types or is not in this graph.

        Nodes of other domains than ONNX's two and this project's, and malformed ones, are as good as none.
        """
        node = self._producers.get(name)
        if node is None or node.domain not in KNOWN_DOMAINS or (op_types and node.op_type not in op_types):
            return None
        return node if is_well_formed(node, self.opset) else None

    def is_constant(self, name: str) -> bool:
        """Whether a tensor is a constant whose value can be read."""
        tensor = self._constants.get(name)
        return tensor is not None and is_known(tensor)

    def is_foldable(self, name: str) -> bool:
        """Whether a tensor is a constant or computed from nothing else, so that a runtime may compute it beforehand."""
        waiting, met = [name], {name}
        while waiting:
            each = waiting.pop()
            if each in self._constants:
                continue
            made = self._maker(each)
            if made is None or not made.input:
                return False
            new = {*read_names([made])} - met
            met |= new
            waiting += new
        return True

    def _maker(self, name: str) -> NodeProto | None:
        """The node that makes a tensor, here or in a graph around this one."""
        node = self._producers.get(name)
        return node if node is not None or self._outer is None else self._outer._maker(name)

    def constant(self, name: str, *, most: int | None = _SMALL) -> Array | None:
        """The value of a constant; None for anything else, and for what is in other files or has more elements."""
        if not self.is_constant(name):
            return None
        tensor = self._constants[name]
        return array_of(tensor) if most is None or math.prod(tensor.dims) <= most else None

    def integers(self, name: str) -> list[int] | None:
        """The elements of an integer constant; a scalar gives a list of one."""
        array = self.constant(name)
        return None if array is None or array.dtype.kind not in "iu" else [int(v) for v in array.ravel()]

    def uniform(self, name: str) -> float | None:
        """The value of all elements of a tensor; None where they differ or are not known."""
        node = self.producer(name, "ConstantOfShape", "Unsqueeze", "Reshape", "Expand", "Identity")
        if node is not None and node.op_type != "ConstantOfShape":
            return self.uniform(node.input[0])
        value: Any = self.constant(name)
        if node is not None:
            given = attribute(node, "value")
            value = np.zeros(1) if given is None else array_of(given)
        if value is None or value.size == 0 or not (value == value.flat[0]).all():
            return None
        number: float = value.flat[0].item()
        return number

    def is_zeros(self, name: str) -> bool:
        """Whether all elements of a tensor are known to be 0, also those of a large constant."""
        tensor = self._constants.get(name)
        if tensor is not None and is_reference(tensor):
            return not any(np.frombuffer(block, np.uint8).any() for block in blocks_of(tensor))
        if tensor is not None and tensor.raw_data:
            return tensor.raw_data.count(0) == len(tensor.raw_data)
        return self.uniform(name) == 0

    def dtype(self, name: str) -> DType:
        """The element type of a tensor; 0 if it is not known."""
        return self._types.get(name, (0, None))[0]

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """The shape of a tensor; None for an unknown rank or dimension."""
        dims = self._types.get(name, (0, None))[1]
        return None if dims is None else tuple(d if isinstance(d, int) else None for d in dims)

    def same_size(self, one: str, axis: int, other: str, other_axis: int) -> bool:
        """Whether two dimensions are known to have the same size: one number, or one symbol."""
        dims = self._types.get(one, (0, None))[1], self._types.get(other, (0, None))[1]
        if dims[0] is None or dims[1] is None:
            return False
        return dims[0][axis] is not None and dims[0][axis] == dims[1][other_axis]

    def rank(self, name: str) -> int | None:
        """The rank of a tensor; None if it is not known."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def without_casts(self, name: str) -> str:
        """The tensor before any casts between integer types."""
        while (cast := self.producer(name, "Cast")) is not None and self._is_integer(cast.input[0]):
            name = cast.input[0]
        return name

    def _is_integer(self, name: str) -> bool:
        return self.dtype(name) in (TensorProto.INT32, TensorProto.INT64)

    def users(self, name: str) -> list[NodeProto]:
        """The nodes of this graph that take a tensor."""
        return [node for node in self.readers(name) if name in node.input]

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes of this graph that take a tensor, and those in whose graphs it may be read."""
        return list({id(node): node for node in self._readers.get(name, ())}.values())

    def tensor(self, name: str) -> Tensor:
        """A tensor, as an emitter takes it."""
        return Tensor(name, self.dtype(name), self.shape(name), self.constant(name))

    def emitter(self, node: NodeProto) -> Emitter:
        """Writes nodes before a node."""
        return _InsertingEmitter(self, node)

    def insert(self, before: NodeProto, node: NodeProto, results: Iterable[Tensor]) -> None:
        """Insert a node before another."""
        self._inserted.setdefault(id(before), []).append(node)
        self._note_reads(node)
        for result in results:
            self._producers[result.name] = node
            self._types[result.name] = (result.dtype, result.shape)

    def add_constant(self, array: Array, dtype: DType, name: str, near: NodeProto) -> str:
        """Add a constant for a node; one without a name is shared with others of equal value. Returns its name."""
        key = (dtype, array.shape, array.tobytes()) if not name and array.size <= _SHARED else None
        if key in self._shared:
            return self._shared[key]
        tensor = tensor_of(array, name or self.fresh(near, "constant"))
        self.proto.initializer.append(tensor)
        self._constants[tensor.name] = tensor
        self._types[tensor.name] = (tensor.data_type, tuple(tensor.dims))
        if key is not None:
            self._shared[key] = tensor.name
        return str(tensor.name)

    def replace(self, node: NodeProto, op_type: str, inputs: Sequence[Tensor | str], **attributes: Any) -> None:
        """Replace a node by another with the same outputs and name.

        If the domain has such an operator, it is one of the domain; attributes that are omitted get their defaults.
        """
        names = [tensor if isinstance(tensor, str) else tensor.name for tensor in inputs]
        op = OPS.get(op_type)
        domain, written = ("", attributes) if op is None else (DOMAIN, op.with_defaults(attributes))
        if op is None:
            names, written = in_opset(self.opset, op_type, names, attributes, self.integers)
        node.CopyFrom(helper.make_node(op_type, names, list(node.output), node.name, domain=domain, **written))
        self._note_reads(node)

    def replace_by(self, node: NodeProto, results: Sequence[Tensor]) -> None:
        """Replace the outputs of a node by other tensors."""
        if len(node.output) == 1:
            self.replace(node, "Identity", results)
            return
        for k, result in enumerate(results):
            if node.output[k]:
                self.bypass(node, result.name, k)

    def set_input(self, node: NodeProto, position: int, name: str) -> None:
        """Let a node read another tensor. A rule that changed the node itself would hide that from others."""
        node.input[position] = name
        self._readers.setdefault(name, []).append(node)

    def bypass(self, node: NodeProto, source: str, output: int = 0) -> None:
        """Replace an output of a node by another tensor in all its users. An output of the graph keeps its node."""
        name = node.output[output]
        readers = self._readers.pop(name, [])
        rename(readers, {name: source}, reading_only=True)
        self._readers.setdefault(source, []).extend(readers)
        if name in self.outputs:
            copy = helper.make_node("Identity", [source], [name], name=self.fresh(node, "Identity"))
            node.output[output] = self.fresh(node, "unused")
            self._producers[name] = copy
            self._appended.setdefault(id(node), []).append(copy)
            self._note_reads(copy)

    def reorder(self) -> None:
        """Let the nodes be put into a new order when the rules have been tried: one may read what comes after it."""
        self._is_ordered = False

    def _sort(self) -> None:
        """Put the nodes into an order in which each comes after those whose results it reads; else they stay."""
        placed: dict[int, NodeProto] = {}
        entered: set[int] = set()  # so that a cycle ends
        for last in self.nodes:
            waiting = [last]
            while waiting:
                node = waiting[-1]
                entered.add(id(node))
                makers = [self._producers.get(name) for name in sorted(read_names([node]))]
                missing = [maker for maker in makers if maker is not None and id(maker) not in entered]
                if missing:
                    waiting.append(missing[0])
                else:
                    placed.setdefault(id(waiting.pop()), node)
        self.nodes = list(placed.values())
        self._is_ordered = True

    def tidy(self) -> None:
        """Merge equal nodes and drop unused ones."""
        if not self._is_ordered:
            self._sort()
        self._merge_equal_nodes()
        self._drop_copies()
        self.nodes = needed_nodes(self.nodes, self.outputs)
        self.index()

    def _merge_equal_nodes(self) -> None:
        seen: dict[bytes, NodeProto] = {}
        renamed: dict[str, str] = {}
        kept = []
        for node in self.nodes:
            rename([node], renamed, reading_only=True)
            if self.outputs.intersection(node.output) or not _is_repeatable(node):
                kept.append(node)
                continue
            key = NodeProto()
            key.CopyFrom(node)
            key.ClearField("name")
            key.output[:] = ["made" if name else "" for name in node.output]
            for tensor in filter(is_reference, (a.t for a in key.attribute)):
                state_content(tensor)
            first = seen.setdefault(key.SerializeToString(deterministic=True), node)
            if first is node:
                kept.append(node)
            else:
                renamed.update(zip(node.output, first.output, strict=True))
        self.nodes = kept

    def _drop_copies(self) -> None:
        """Where an output of the graph is only a copy of a tensor, let the tensor's node make that output."""
        renamed: dict[str, str] = {}
        dropped: set[int] = set()
        for copy in [node for node in self.nodes if node.op_type == "Identity"]:
            made, wanted = renamed.get(copy.input[0], copy.input[0]), copy.output[0]
            maker = self._producers.get(made)
            if wanted not in self.outputs or made in self.outputs or maker is None:
                continue
            dropped.add(id(copy))
            maker.output[:] = [wanted if name == made else name for name in maker.output]
            renamed[made] = wanted
            self._producers[wanted] = maker
        self.nodes = [node for node in self.nodes if id(node) not in dropped]
        rename(self.nodes, renamed, reading_only=True)

    def write_back(self) -> None:
        """Put the nodes into the GraphProto, and drop unused types and constants."""
        made = {name for node in self.nodes for name in node.output}
        typed = [value for value in self.proto.value_info if value.name in made]
        put_nodes(self.proto, self.nodes)
        del self.proto.value_info[:]
        self.proto.value_info.extend(typed)
        used = read_names(self.proto.node) | self.outputs | {value.name for value in self.proto.input}
        for k in reversed([k for k, tensor in enumerate(self.proto.initializer) if tensor.name not in used]):
            del self.proto.initializer[k]

    def fresh(self, near: NodeProto, what: str) -> str:
        """A new name for a tensor that is made for a node."""
        return self.names.fresh(f"{near.name}/{what}")


def _is_repeatable(node: NodeProto) -> bool:
    """Whether another node that is equal has equal results."""
    return all(each.domain in KNOWN_DOMAINS and not each.op_type.startswith(_RANDOM) for each in all_nodes([node]))


def content(tensor: TensorProto) -> bytes:
    """What a constant holds, without its name: equal for two only if they are equal."""
    unnamed = TensorProto()
    unnamed.CopyFrom(tensor)
    unnamed.ClearField("name")
    if is_reference(unnamed):
        state_content(unnamed)
    return bytes(unnamed.SerializeToString(deterministic=True))


def _dimension(dim: TensorShapeProto.Dimension) -> int | str | None:
    """The size or the symbol of a dimension; None where it has neither."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return None if dim.dim_param in _UNKNOWN_DIMENSIONS else str(dim.dim_param)


def constants_of(nodes: Iterable[NodeProto]) -> Iterator[tuple[str, TensorProto]]:
    """The results of Constant nodes, as tensors."""
    for node in nodes:
        if node.op_type != "Constant" or node.domain not in KNOWN_DOMAINS or len(node.attribute) != 1:
            continue
        (name,), (written,) = node.output, node.attribute
        value = helper.get_attribute_value(written)
        if isinstance(value, TensorProto):
            yield name, value
        elif written.name.startswith(("value_int", "value_float")):
            dtype = np.int64 if written.name.startswith("value_int") else np.float32
            yield name, numpy_helper.from_array(np.array(value, dtype), name)


class _InsertingEmitter(Emitter):
    """Writes nodes before a node of a graph."""

    def __init__(self, graph: Graph, before: NodeProto) -> None:
        self._graph = graph
        self._before = before
        self.names = graph.names
        self.kernels_of = graph.opset

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        label = self._graph.fresh(self._before, new.op_type)
        results = new.results([f"{label}:{k}" if k else label for k in range(len(new.dtypes))])
        read = ["" if tensor is None else tensor.name for tensor in new.inputs]
        made = [result.name for result in results]
        written = new.attributes
        if not new.domain:
            read, written = in_opset(self._graph.opset, new.op_type, read, written, self._graph.integers)
        # An empty domain is omitted, as in other nodes: equal nodes are merged.
        node = helper.make_node(new.op_type, read, made, name=label, domain=new.domain or None, **written)
        self._graph.insert(self._before, node, results)
        return results

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        return self._graph.add_constant(array, dtype, name, self._before)


#: The opset from which on an operator takes as its second input what was an attribute, and the attribute.
_INPUT_SINCE: dict[str, tuple[int, str]] = {
    **{f"Reduce{kind}": (18, "axes") for kind in ("Max", "Min", "Mean", "Prod", "L1", "L2", "SumSquare")},
    **dict.fromkeys(("ReduceSum", "Squeeze", "Unsqueeze"), (13, "axes")),
    "Split": (13, "split"),
}


def in_opset(
    opset: int,
    op_type: str,
    inputs: Sequence[str],
    written: Mapping[str, Any],
    integers: Callable[[str], list[int] | None],
) -> tuple[list[str], dict[str, Any]]:
    """The inputs and attributes of a node of opset 18 in an earlier one.

    Args:
        opset: The opset of the model.
        op_type: The operator.
        inputs: The names of the node's inputs in opset 18.
        written: Its attributes there.
        integers: Gives the elements of a constant.

    Raises:
        Unsupported: The operator has no such form in that opset.
    """
    names, changed = list(inputs), dict(written)
    since, moved = _INPUT_SINCE.get(op_type, (0, ""))
    if opset < since:
        changed.pop("noop_with_empty_axes", None)
        if len(names) > 1 and names[1]:
            values = integers(names[1])
            if not values:
                raise Unsupported(f"{op_type} of opset {opset} takes no computed {moved}")
            changed[moved] = values
        del names[1:]
    if op_type == "Reshape" and opset < 14 and changed.pop("allowzero", 0):
        raise Unsupported(f"Reshape of opset {opset} has no allowzero")
    if opset < _SINCE.get(op_type, 0):
        raise Unsupported(f"opset {opset} has no {op_type}")
    return names, changed


#: The opsets from which on there are the operators that rules write, beyond the first ones.
_SINCE = {
    **dict.fromkeys(("Equal", "IsNaN", "Where", "Scan", "OneHot", "ConstantOfShape"), 9),
    **dict.fromkeys(("Mod", "Slice", "Resize"), 10),
    **dict.fromkeys(("Range", "ScatterND", "ScatterElements", "GatherND", "Pad", "CumSum", "Unique"), 11),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), 12),
    "BitwiseAnd": 18,
    "BitwiseXor": 18,
}
