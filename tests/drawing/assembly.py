"""Puts drawn nodes into a graph: where their operands come from, and in which body they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from support.drawn_nodes import Array, Drawn, Rng, pick, values
from support.node_families import ELEMENTWISE, REDUCTIONS

from onnx_sparse.models.graphs import rename
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import element_type

_NODE = helper.make_node

#: Integers that arithmetic of ONNX Runtime has kernels for.
_COMPUTED = (np.dtype(np.int32), np.dtype(np.int64))

#: What the names of operands are that the graphs here add.
_FLAGS = "places/flags"


#: The names of operands that may be any integers.
_DATA = ("x", "z", "b", "c", "low", "high")


@dataclass
class Assembly:
    """A graph while it is put together.

    Attributes:
        nodes: Its nodes.
        feeds: What is fed.
        values: The inputs of the graph.
        constants: Its constants.
        dtypes: The types of the operands.
        is_known: Whether the ranks of all inputs are known.
    """

    rng: Rng
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    values: list[ValueInfoProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    is_known: bool = True

    def feed(self, name: str, array: Array) -> str:
        """Feed an array. Its sizes are known, or some of them, or not even its rank."""
        kind = pick(self.rng, "sizes", "sizes", "rank", "some", "nothing")
        dims: list[Any] | None = None if kind == "nothing" else list(array.shape)
        if dims is not None and kind != "sizes":
            dims = [f"{name}_{k}" if kind == "rank" or self.rng.random() < 0.5 else n for k, n in enumerate(dims)]
        self.values.append(helper.make_tensor_value_info(name, element_type(array.dtype), dims))
        self.feeds[name] = array
        self.is_known &= kind != "nothing"
        return name

    def constant(self, name: str, array: Array) -> str:
        """Write an array into the graph, as an initializer or by a node."""
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if self.rng.random() < 0.8:
            self.constants.append(tensor)
        else:
            self.add(_NODE("Constant", [], [name], value=tensor))
        return name

    def add(self, node: NodeProto) -> str:
        self.nodes.append(node)
        return str(node.output[0])

    def operand(self, name: str, array: Array, *, is_constant: bool) -> None:
        """Let a tensor have a name and the elements of an array."""
        self.dtypes[name] = array.dtype
        sources: list[Callable[[str, Array], Any]] = [self.constant]
        if not is_constant:
            sources += [self.feed, self.feed, self.feed, self.gathered, self.moved]
            if array.dtype in _COMPUTED:
                sources += [self.computed, self.computed]
        pick(self.rng, *sources)(name, array)

    def place(self, name: str, position: int) -> str:
        """A computed position, of a kind that no constant folding sees."""
        if _FLAGS not in self.feeds:
            self.feed(_FLAGS, np.array([0, 0, 1], np.float32))
        kind = pick(self.rng, "ArgMax", "NonZero", "Shape")
        made, base, at = f"{name}/{kind}", f"{name}/base", f"{name}/at"
        if kind == "ArgMax":
            self.add(_NODE("ArgMax", [_FLAGS], [made], axis=0, keepdims=0))
            found = 2
        elif kind == "NonZero":
            self.add(_NODE("NonZero", [_FLAGS], [f"{made}/all"]))
            self.add(_NODE("Reshape", [f"{made}/all", self.constant(f"{name}/scalar", np.zeros(0, np.int64))], [made]))
            found = 2
        else:
            self.add(_NODE("Size", [_FLAGS], [made]))
            found = 3
        self.constant(base, np.array(found - position, np.int64))
        return self.add(_NODE("Sub", [made, base], [at]))

    def gathered(self, name: str, array: Array) -> None:
        """Gather the array from a constant of several, by a computed position."""
        others = [values(self.rng, element_type(array.dtype), array.shape, wide=True) for _ in range(2)]
        position = int(self.rng.integers(3))
        table = np.stack([*others[:position], array, *others[position:]])
        at = self.place(name, position)
        if array.dtype == object:  # ONNX Runtime gathers slices of strings wrongly
            self.constant(name, array)
            return
        self.add(_NODE("Gather", [self.constant(f"{name}/table", table), at], [name], axis=0))

    def moved(self, name: str, array: Array) -> None:
        """Move the elements of a constant or an input to where they are wanted."""
        given = pick(self.rng, self.constant, self.feed)
        kind = pick(
            self.rng, "Identity", "Where", "Slice", "Transpose", "Cast", "Unsqueeze" if self.opset >= 13 else "Identity"
        )
        if kind == "Where":
            is_one = self.feed(f"{name}/is", np.array(self.rng.random() < 0.5))
            other = values(self.rng, element_type(array.dtype), array.shape, wide=True)
            pair = [given(f"{name}/a", array), self.constant(f"{name}/b", other)]
            self.add(_NODE("Where", [is_one, *(pair if self.feeds[is_one] else pair[::-1])], [name]))
        elif kind == "Slice" and array.ndim:
            more = np.concatenate([array[:1], array, array[-1:]])
            ends = [self.constant(f"{name}/{k}", np.array([n])) for k, n in (("s", 1), ("e", 1 + len(array)))]
            if len(more) == len(array):
                ends = [self.constant(f"{name}/{k}", np.array([n])) for k, n in (("s2", 0), ("e2", len(array)))]
            self.add(
                _NODE("Slice", [given(f"{name}/more", more), *ends, self.constant(f"{name}/x", np.array([0]))], [name])
            )
        elif kind == "Unsqueeze":
            axis = self.constant(f"{name}/axis", np.array([0]))
            longer = self.add(_NODE("Unsqueeze", [given(f"{name}/flat", array), axis], [f"{name}/longer"]))
            self.add(_NODE("Squeeze", [longer, axis], [name]))
        elif kind == "Transpose" and array.ndim:
            order = [int(k) for k in self.rng.permutation(array.ndim)]
            moved = given(f"{name}/turned", array.transpose(np.argsort(order)))
            self.add(_NODE("Transpose", [moved], [name], perm=order))
        elif kind == "Cast" and array.dtype.kind in "iu" and array.dtype.itemsize == 8:
            wide = np.dtype("uint64" if array.dtype.kind == "i" else "int64")
            source = given(f"{name}/cast", array.astype(wide))
            self.add(_NODE("Cast", [source], [name], to=element_type(array.dtype)))
        else:
            self.add(_NODE("Identity", [given(f"{name}/same", array)], [name]))

    def computed(self, name: str, array: Array) -> None:
        """Compute integers, which wrap, from constants and inputs."""
        kind = pick(self.rng, "Add", "Sub", "Mul", "MatMul", "ReduceMax" if self.opset >= 18 else "Add")
        others = values(self.rng, element_type(array.dtype), array.shape, wide=True)
        sources = [pick(self.rng, self.constant, self.feed) for _ in range(2)]
        with np.errstate(all="ignore"):
            if kind in ("Add", "Sub"):
                pair = [array - others if kind == "Add" else array + others, others]
            elif kind == "Mul":
                pair = [array * np.array(-1, array.dtype), np.array(-1, array.dtype)]
            elif kind == "MatMul" and array.ndim and 0 not in array.shape:
                pair = [array[..., None], np.ones([1, 1], array.dtype)]
            elif not array.ndim or 0 in array.shape:
                kind, pair = "Add", [array, np.zeros([], array.dtype)]
            else:
                kind, pair = "ReduceMax", [array[None], np.array([0])]
        names = [
            source(f"{name}/{k}", np.asarray(part)) for k, (source, part) in enumerate(zip(sources, pair, strict=True))
        ]
        if kind == "MatMul":
            made = self.add(_NODE("MatMul", names, [f"{name}/product"]))
            self.add(_NODE("Squeeze", [made, self.constant(f"{name}/last", np.array([-1]))], [name]))
        elif kind == "ReduceMax":
            self.add(_NODE("ReduceMax", names, [name], keepdims=0))
        else:
            self.add(_NODE(kind, names, [name]))


def assembled(drawn: Drawn, want: Sequence[Array] | None, rng: Rng) -> tuple[ModelProto, Assembly]:
    """A model around drawn nodes, and how it was put together.

    Args:
        drawn: The nodes and their operands.
        want: Their results; None if they are not known.
        rng: Draws the graph.
    """
    graph, nodes = Assembly(rng, drawn.opset), drawn.nodes()
    names = [name for name in nodes[-1].output if name]
    is_wrapped = want is not None and drawn.opset >= 13 and not any(np.asarray(each).dtype == object for each in want)
    kind = pick(rng, "flat", "flat", "If", "Loop") if is_wrapped else "flat"
    rounds = int(rng.integers(1, 3)) if kind == "Loop" else 1
    states = _states(drawn, rng) if kind == "Loop" else ()
    for name, array in drawn.given().items():
        first = array - np.array(rounds - 1, array.dtype) if name in states else array  # one is added in each round
        graph.operand(name, np.asarray(first, array.dtype), is_constant=name in drawn.constants)
    if kind == "flat":
        graph.nodes += nodes
    elif kind == "If":
        _in_branch(graph, nodes, names, want or ())
    else:
        _in_loop(graph, nodes, names, want or (), rounds, states)
    outputs = [ValueInfoProto(name=name) for name in names]
    proto = helper.make_graph(graph.nodes, "drawn", graph.values, outputs, graph.constants)
    imports = [helper.make_opsetid("", drawn.opset), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return helper.make_model(proto, ir_version=10, opset_imports=imports), graph


def _results(names: Sequence[str], want: Sequence[Array]) -> list[ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, element_type(np.asarray(array).dtype), None)
        for name, array in zip(names, want, strict=True)
    ]


def _renamed(nodes: Sequence[NodeProto], names: Sequence[str]) -> list[NodeProto]:
    """Nodes whose results have other names."""
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    for name in names:
        for node in copies:
            node.output[:] = [f"{name}/inner" if made == name else made for made in node.output]
    return copies


def _in_branch(graph: Assembly, nodes: Sequence[NodeProto], names: Sequence[str], want: Sequence[Array]) -> None:
    """The branch of an If that is taken; the other one has a constant of each type."""
    is_then = bool(graph.rng.random() < 0.5)
    condition = pick(graph.rng, graph.feed, graph.constant)("branch/condition", np.array(is_then))
    inner = [f"{name}/inner" for name in names]
    taken = helper.make_graph(_renamed(nodes, names), "taken", [], _results(inner, want))
    others = [f"{name}/other" for name in names]
    blanks = [np.zeros([], np.asarray(array).dtype) for array in want]
    empty = [numpy_helper.from_array(blank, f"{name}/value") for name, blank in zip(others, blanks, strict=True)]
    copies = [_NODE("Identity", [f"{name}/value"], [name]) for name in others]
    other = helper.make_graph(copies, "other", [], _results(others, want), empty)
    branches = (taken, other) if is_then else (other, taken)
    graph.add(_NODE("If", [condition], names, then_branch=branches[0], else_branch=branches[1]))


def _states(drawn: Drawn, rng: Rng) -> list[str]:
    """Operands that count the rounds of a loop."""
    data = ("x",) if drawn.op_type in ("Div", "Mod") else _DATA  # a divisor may not be 0 on the way
    counted = [name for name, array in drawn.given().items() if array.dtype in _COMPUTED and name in data]
    is_any = (
        drawn.op_type != "NonZero" and drawn.op_type in (*ELEMENTWISE, *REDUCTIONS, "Div") and not drawn.written
    )  # others take no other integers
    return [name for name in counted if name not in drawn.constants and rng.random() < 0.5] if is_any else []


def _in_loop(
    graph: Assembly,
    nodes: Sequence[NodeProto],
    names: Sequence[str],
    want: Sequence[Array],
    rounds: int,
    states: Sequence[str],
) -> None:
    """A loop of some rounds, the last of which is taken."""
    start = [graph.constant("loop/rounds", np.array(rounds)), graph.constant("loop/go", np.array(True))]
    inner, dtypes = [f"{name}/inner" for name in names], {}
    copies = _renamed(nodes, names)
    rename(copies, {name: f"{name}/state" for name in states}, reading_only=True)
    for name in states:
        dtypes[name] = element_type(graph.dtypes[name])
        one = numpy_helper.from_array(np.ones([], graph.dtypes[name]), f"{name}/one")
        copies += [
            _NODE("Constant", [], [f"{name}/one"], value=one),
            _NODE("Add", [f"{name}/state", f"{name}/one"], [f"{name}/next"]),
        ]
    given = [
        helper.make_tensor_value_info("round", TensorProto.INT64, []),
        helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(f"{name}/state", dtypes[name], None) for name in states),
    ]
    results = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(f"{name}/next", dtypes[name], None) for name in states),
        *_results(inner, want),
    ]
    body = helper.make_graph([_NODE("Identity", ["going"], ["still"]), *copies], "body", given, results)
    made = [*(f"{name}/after" for name in states), *(f"{name}/all" for name in names)]
    graph.add(_NODE("Loop", [*start, *states], made, body=body))
    last = graph.constant("loop/last", np.array(rounds - 1))
    for name in names:
        graph.add(_NODE("Gather", [f"{name}/all", last], [name], axis=0))
