"""Loops of TensorFlow 1 as TensorFlow 2 has them, which is the form that is converted.

A loop of TensorFlow 1 is a cycle of Enter, Merge, Switch and NextIteration; in TensorFlow 2 it is one node with two
functions. The lists that it reads and writes are resources, with a float that orders what happens to them; in
TensorFlow 2 they are values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from onnx_sparse.converters.tensorflow.editable_graph import EditableGraph
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.models.graphs import Names

#: Operators that pass a value on.
_PASSING = ("Enter", "Merge", "Switch", "Identity", "NextIteration", "Exit")


def with_functions(graph_def: Any, fetches: Sequence[str]) -> Any:
    """The graph with its loops as nodes with functions; itself if it has none.

    Args:
        graph_def: A graph without variables.
        fetches: The tensors that are needed.
    """
    if not any(node.op == "LoopCond" for node in graph_def.node):
        return graph_def
    tf = require("tensorflow")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    graph_def = graph.as_graph_def(add_shapes=True)
    extract, needed = tf.compat.v1.graph_util.extract_sub_graph, [tensor.partition(":")[0] for tensor in fetches]
    for node in graph_def.node:
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    _Lists(graph_def).convert()
    while True:
        graph_def = extract(graph_def, needed)
        loops = [_Loop(graph_def, node) for node in graph_def.node if node.op == "LoopCond"]
        innermost = next((loop for loop in loops if loop.is_innermost), None)
        if innermost is None:
            return graph_def
        innermost.convert()


class _Lists:
    """The TensorArrays of a graph."""

    def __init__(self, graph_def: Any) -> None:
        self._graph_def = graph_def
        self._graph = EditableGraph(graph_def, {})
        self._nodes = {node.name: node for node in graph_def.node}
        self._variant = require("tensorflow").variant.as_datatype_enum

    def convert(self) -> None:
        """Replace the operators of TensorArrays by those of lists."""
        arrays = {node.name: type(node).FromString(node.SerializeToString()) for node in self._of("TensorArrayV3")}
        for node in list(self._graph_def.node):
            node.input[:] = [name[:-2] if name[:-2] in arrays and name.endswith(":1") else name for name in node.input]
        converters: dict[str, Callable[[Any, Any], None]] = {
            "TensorArrayV3": self._reserve,
            "TensorArrayWriteV3": self._write,
            "TensorArrayReadV3": self._read,
            "TensorArrayScatterV3": self._scatter,
            "TensorArrayGatherV3": self._gather,
            "TensorArraySizeV3": self._size,
        }
        # Those that are gathered look at the operators that the others were.
        for op in reversed(converters):
            for node in self._of(op):
                array = node if op == "TensorArrayV3" else arrays.get(self._handle(node.input[0]))
                if array is not None:
                    converters[op](node, array)
        self._pass_on()

    def _of(self, op: str) -> list[Any]:
        return [node for node in self._graph_def.node if node.op == op]

    def _handle(self, name: str) -> str:
        """The TensorArray of a handle, which may have entered a loop."""
        node = self._nodes[name.partition(":")[0]]
        return self._handle(node.input[0]) if node.op in ("Enter", "Identity") else node.name

    def _become(self, node: Any, op: str, inputs: Sequence[str], dtype: int, **flags: bool) -> None:
        node.op = op
        node.input[:] = inputs
        node.attr.clear()
        node.attr["element_dtype"].type = dtype
        if op in ("TensorListReserve", "TensorListFromTensor"):
            node.attr["shape_type"].type = require("tensorflow").int32.as_datatype_enum
        for name, value in flags.items():
            node.attr[name].b = value

    def _shape(self, node: Any, shape: Any) -> str:
        """A constant with the shape of the elements, in which -1 is not known."""
        tf = require("tensorflow")
        sizes = -1 if shape.unknown_rank else [dim.size for dim in shape.dim]
        constant = self._graph_def.node.add(name=Names(self._nodes).fresh(f"{node.name}/element_shape"), op="Const")
        constant.attr["dtype"].type = tf.int32.as_datatype_enum
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.array(sizes, np.int32)))
        self._nodes[constant.name] = constant
        return str(constant.name)

    def _reserve(self, node: Any, array: Any) -> None:
        shape = self._shape(node, node.attr["element_shape"].shape)
        self._become(node, "TensorListReserve", [shape, node.input[0]], node.attr["dtype"].type)

    def _write(self, node: Any, array: Any) -> None:
        _, position, value, flow = node.input
        grows = {"resize_if_index_out_of_bounds": True} if array.attr["dynamic_size"].b else {}
        self._become(node, "TensorListSetItem", [flow, position, value], array.attr["dtype"].type, **grows)

    def _read(self, node: Any, array: Any) -> None:
        _, position, flow = node.input
        shape = self._shape(node, array.attr["element_shape"].shape)
        self._become(node, "TensorListGetItem", [flow, position, shape], array.attr["dtype"].type)

    def _scatter(self, node: Any, array: Any) -> None:
        _, positions, value, _ = node.input
        if self._limit(positions) is not None:
            shape = self._shape(node, array.attr["element_shape"].shape)
            self._become(node, "TensorListFromTensor", [value, shape], array.attr["dtype"].type)

    def _gather(self, node: Any, array: Any) -> None:
        _, positions, flow = node.input
        given = node.attr["element_shape"].shape
        shape = self._shape(node, array.attr["element_shape"].shape if given.unknown_rank else given)
        limit = self._limit(positions)
        is_size = limit is not None and (
            self._graph.resolve(limit) == self._graph.resolve(array.input[0])
            or self._nodes[limit.partition(":")[0]].op == "TensorArraySizeV3"
        )
        if is_size:
            self._become(node, "TensorListStack", [flow, shape], array.attr["dtype"].type)
            node.attr["num_elements"].i = -1
        else:
            self._become(node, "TensorListGather", [flow, positions, shape], array.attr["dtype"].type)

    def _size(self, node: Any, array: Any) -> None:
        is_outside = self._nodes[node.input[0].partition(":")[0]].op != "Enter"
        if is_outside and not array.attr["dynamic_size"].b:
            node.op = "Identity"
            node.input[:] = array.input[:1]
            node.attr["T"].type = require("tensorflow").int32.as_datatype_enum

    def _limit(self, positions: str) -> str | None:
        """The n of the numbers from 0 to below n; None if they may be others."""
        numbers = self._graph.producer(positions, "Range")
        if numbers is None or self._graph.number(numbers.input[0]) != 0 or self._graph.number(numbers.input[2]) != 1:
            return None
        return str(numbers.input[1])

    def _pass_on(self) -> None:
        """Give lists their type where they are passed on."""
        lists = {
            node.name
            for node in self._graph_def.node
            if node.op in ("TensorListReserve", "TensorListSetItem", "TensorListFromTensor")
        }
        for name in lists:
            self._nodes[name].attr["_output_shapes"].list.shape.add()
        before = -1
        while before != len(lists):
            before = len(lists)
            for node in self._graph_def.node:
                if node.op in _PASSING and any(name.partition(":")[0] in lists for name in node.input):
                    node.attr["T"].type = self._variant
                    lists.add(node.name)


class _Loop:
    """A loop of TensorFlow 1."""

    def __init__(self, graph_def: Any, condition: Any) -> None:
        self._graph_def = graph_def
        self._graph = EditableGraph(graph_def, {})
        self._nodes = {node.name: node for node in graph_def.node}
        self._condition = condition
        self._switches = [node for node in graph_def.node if node.op == "Switch" and node.input[1] == condition.name]
        self._merges = [self._nodes[node.input[0]] for node in self._switches]
        self._next = [self._nodes[merge.input[1]].input[0] for merge in self._merges]
        stops = {id(node) for node in (*self._switches, *self._merges)}
        self._tests, entries = self._between(condition.input, stops)
        self._steps, more = self._between(self._next, stops)
        #: The Enters of values that do not change.
        self._constants = sorted(name for name in entries | more if self._nodes[name.partition(":")[0]].op == "Enter")

        self._enters = [self._nodes[merge.input[0]] for merge in self._merges]
        self._enters += [self._nodes[constant] for constant in self._constants]
        self._shapes = [self._shape(enter.input[0]) for enter in self._enters]

    @property
    def is_innermost(self) -> bool:
        """Whether there is no loop in it."""
        return not any(node.op in ("Exit", "LoopCond") for node in (*self._tests, *self._steps))

    def convert(self) -> None:
        """Replace the loop by one node."""
        tf = require("tensorflow")
        taken = Names([*self._nodes, *(f.signature.name for f in self._graph_def.library.function)])
        name = taken.fresh(f"{self._condition.name.rpartition('/')[0] or 'loop'}/while")
        variables = [f"{switch.name}:1" for switch in self._switches]
        test, step = (taken.fresh(f"{name}_{what}") for what in ("cond", "body"))
        self._settle_shapes(variables)
        self._add_function(test, [merge.name for merge in self._merges], self._tests, self._condition.input)
        self._add_function(step, variables, self._steps, self._next, changes_variables=True)
        start, limit = (self._number(taken.fresh(f"{name}/{what}"), n) for what, n in (("counter", 0), ("limit", -1)))
        node = self._graph_def.node.add(name=name, op="StatelessWhile")
        node.input[:] = [start, limit, *(enter.input[0] for enter in self._enters)]
        types = [tf.int32.as_datatype_enum] * 2 + [enter.attr["T"].type for enter in self._enters]
        node.attr["T"].list.type.extend(types)
        shapes = [shape.as_proto() for shape in (tf.TensorShape([]), tf.TensorShape([]), *self._shapes)]
        node.attr["output_shapes"].list.shape.extend(shapes)
        node.attr["_output_shapes"].list.shape.extend(shapes)
        node.attr["cond"].func.name, node.attr["body"].func.name = test, step
        node.attr["parallel_iterations"].i = 10
        for k, switch in enumerate(self._switches):
            for end in self._graph_def.node:
                if end.op == "Exit" and end.input[0] == switch.name:
                    end.op = "Identity"
                    end.input[:] = [f"{name}:{k + 2}"]

    def _between(self, tensors: Iterable[str], stops: set[int]) -> tuple[list[Any], set[str]]:
        nodes: dict[str, Any] = {}
        entries: set[str] = set()
        for tensor in tensors:
            found, ends = self._graph.between(tensor, lambda node: node.op == "Enter" or id(node) in stops)
            nodes |= {node.name: node for node in found}
            entries |= ends
        return list(nodes.values()), entries

    def _number(self, name: str, value: int) -> str:
        tf = require("tensorflow")
        node = self._graph_def.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.int32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int32))
        return name

    def _shape(self, tensor: str) -> Any:
        """The shape of a tensor; unknown if the graph does not say."""
        name, _, output = tensor.partition(":")
        shapes = self._nodes[name].attr["_output_shapes"].list.shape
        return require("tensorflow").TensorShape(shapes[int(output or 0)] if shapes else None)

    def _settle_shapes(self, variables: Sequence[str]) -> None:
        """Find shapes that the variables have in every round; TensorFlow infers those of a cycle from its start."""
        count = len(variables)
        while True:
            _, _, outputs = self._computed(variables, self._steps, self._next)
            found = [s.most_specific_compatible_shape(o.shape) for s, o in zip(self._shapes, outputs, strict=False)]
            if list(map(repr, found)) == list(map(repr, self._shapes[:count])):  # unknown sizes are not equal
                return
            self._shapes[:count] = found

    def _computed(
        self, variables: Sequence[str], nodes: Sequence[Any], results: Sequence[str]
    ) -> tuple[Any, list[Any], list[Any]]:
        """A graph of some nodes, the placeholders in it for the loop's variables and constants, and the results.

        Args:
            variables: What the nodes call the variables.
            nodes: The nodes.
            results: Their results.
        """
        tf = require("tensorflow")
        part = type(self._graph_def)()
        part.versions.CopyFrom(self._graph_def.versions)
        part.library.CopyFrom(self._graph_def.library)
        part.node.extend(nodes)
        taken = {_output(tensor) for node in nodes for tensor in node.input}
        with tf.Graph().as_default() as graph:
            given = {}
            for tensor, enter, shape in zip([*variables, *self._constants], self._enters, self._shapes, strict=True):
                given[_output(tensor)] = tf.compat.v1.placeholder(tf.dtypes.as_dtype(enter.attr["T"].type), shape)
            known = {tensor: placeholder for tensor, placeholder in given.items() if tensor in taken}
            computed = [tensor for tensor in map(_output, results) if tensor not in given]
            made = dict(zip(computed, tf.import_graph_def(part, known, computed), strict=True))
        return graph, list(given.values()), [(given | made)[_output(tensor)] for tensor in results]

    def _add_function(
        self,
        name: str,
        variables: Sequence[str],
        nodes: Sequence[Any],
        results: Sequence[str],
        *,
        changes_variables: bool = False,
    ) -> None:
        """Add a function of a counter, a limit, and the loop's variables and constants.

        Args:
            name: Its name.
            variables: What the nodes call the variables.
            nodes: What it computes.
            results: Its results.
            changes_variables: Whether these are the variables of the next round; a counter and what else does not
                change are then returned with them.
        """
        tf = require("tensorflow")
        to_function = require("tensorflow.python.framework.graph_to_function_def").graph_to_function_def
        graph, arguments, outputs = self._computed(variables, nodes, results)
        with graph.as_default():
            counter, limit = (tf.compat.v1.placeholder(tf.int32, []) for _ in range(2))
            if changes_variables:
                outputs = [counter + 1, limit, *outputs, *arguments[len(variables) :]]
            outputs = [tf.identity(output) for output in outputs]
            definition = to_function(graph, graph.get_operations(), [counter, limit, *arguments], outputs)
        definition.signature.name = name
        for k, argument in enumerate([counter, limit, *arguments]):
            definition.arg_attr[k].attr["_output_shapes"].list.shape.add().CopyFrom(argument.shape.as_proto())
        self._graph_def.library.function.add().CopyFrom(definition)


def _output(tensor: str) -> str:
    """The name of a tensor with the number of the output that it is."""
    return tensor if ":" in tensor else f"{tensor}:0"
