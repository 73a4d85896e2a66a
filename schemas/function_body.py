"""Function bodies: the operators of the domain in standard ONNX.

A body is written for one binding of element types and attributes, and for what a model tells about a node's inputs
(`Op.body` gets a `Body` to write on), so it holds only the nodes that this node needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.schemas.declaration import DOMAIN, Op
from onnx_sparse.schemas.element_types import HALF_FLOATS, DType, dtype_name, numpy_dtype
from onnx_sparse.schemas.validation import Dim

#: The lowest opset of ai.onnx that has what the bodies use: ScatterElements with min and max.
BODY_OPSET = 18
#: The operators of classical machine learning, and the lowest opset with what bodies use: LabelEncoder of every type.
ML_DOMAIN, ML_OPSET = "ai.onnx.ml", 2

Array = np.ndarray[Any, Any]
Value = str  # the name of a value in the function

#: The element types of the results whose type is not that of the node's first input.
_RESULT_TYPES: dict[str, DType] = {
    **dict.fromkeys(("Shape", "Size", "NonZero"), TensorProto.INT64),
    **dict.fromkeys(("Equal", "GreaterOrEqual", "IsNaN", "Less", "Not"), TensorProto.BOOL),
}


@dataclass(frozen=True)
class Known:
    """What a model tells about a node's inputs before it runs, by their names.

    Attributes:
        shapes: Their dimensions: numbers, symbols, None for unknown ones.
        constants: Their values.
    """

    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)


class Body:
    """Writes the nodes of one function body. `body.Gather(x, i, axis=0)` adds a node and returns its output's name.

    A node that is written twice is there once.

    Attributes:
        op: The operator.
        types: The element type of each type variable.
        attributes: The value of each attribute.
        given: The names of the inputs that the node gives other than as their sentinels.
        known: What is known about the inputs.
    """

    def __init__(
        self,
        op: Op,
        types: Mapping[str, DType],
        attributes: Mapping[str, str],
        given: frozenset[str],
        known: Known,
    ) -> None:
        self.op = op
        self.types = types
        self.attributes = attributes
        self.given = given
        self.known = known
        self.nodes: list[NodeProto] = []
        self.branches: list[Body] = []
        self.prefix = ""  # keeps a branch's names apart from those outside
        self._dtypes: dict[Value, DType] = {i.name: op.bind(i.type, types) for i in op.inputs}
        self._written: dict[bytes, tuple[Value, ...]] = {}
        self._results: dict[str, Value] = {}

    def node(self, op_type: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> tuple[Value, ...]:
        """Add a standard ONNX node; returns the names of its outputs."""
        node = helper.make_node(op_type, list(inputs), [], **attributes)
        key = node.SerializeToString(deterministic=True)
        if key not in self._written:
            names = tuple(f"{self.prefix}{op_type}_{len(self.nodes)}_{k}" for k in range(outputs))
            node.output.extend(names)
            self.nodes.append(node)
            self._written[key] = names
            dtype = self._result_type(node)
            if dtype is not None:
                self._dtypes[names[0]] = dtype
            self._dtypes.update(dict.fromkeys(names[1:], TensorProto.INT64))  # those of TopK and Unique
        return self._written[key]

    def __getattr__(self, op_type: str) -> Callable[..., Value]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.node(op_type, *inputs, **attributes)[0]

    def constant(self, value: Any, dtype: DType | None = None) -> Value:
        """A constant of the given element type (int64 when omitted)."""
        (name,) = self.node("Constant", value=_tensor(value, dtype))
        return name

    def filled(self, shape: Value, value: Any, dtype: DType | None = None) -> Value:
        """A tensor of a shape with one number everywhere, in the given element type (int64 when omitted)."""
        (name,) = self.node("ConstantOfShape", shape, value=_tensor([value], dtype))
        return name

    def int64(self, value: Value) -> Value:
        """The value as int64."""
        return self.cast(value, TensorProto.INT64)

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value as another element type."""
        if self._dtypes.get(value) == dtype:
            return value
        (name,) = self.node("Cast", value, to=dtype)
        return name

    def larger(self, one: Value, other: Value) -> Value:
        """The larger of int64s. ONNX Runtime's Max compares the lower halves of equal upper halves as if signed."""
        return self.Where(self.Less(one, other), other, one)

    def smaller(self, one: Value, other: Value) -> Value:
        """The smaller of int64s; see `larger`."""
        return self.Where(self.Less(one, other), one, other)

    def as_vector(self, scalar: Value) -> Value:
        """An integer scalar as int64 [1]."""
        constant = self.known.constants.get(scalar)
        if constant is not None:
            return self.constant([int(constant)])
        return self.Reshape(self.int64(scalar), self.constant([1]))

    def compute_type(self, type_variable: str) -> DType:
        """The type to compute in: float32 for the half floats, the type itself otherwise."""
        dtype = self.types[type_variable]
        return int(TensorProto.FLOAT) if dtype in HALF_FLOATS else dtype

    def rank(self, name: str) -> int | None:
        """The rank of an input, where it is known."""
        shape = self.known.shapes.get(name)
        return None if shape is None else len(shape)

    def inner(self, name: str, start: int = 1) -> tuple[Dim, ...] | None:
        """The dimensions of an input from one on, where its rank is known."""
        shape = self.known.shapes.get(name)
        return None if shape is None else shape[start:]

    def size(self, name: str, axis: int = 0) -> int | None:
        """The size of a dimension of an input, where it is known."""
        shape = self.known.shapes.get(name, ())
        size = shape[axis] if axis < len(shape) else None
        return size if isinstance(size, int) else None

    def has_shape_of(self, name: str, other: str) -> bool:
        """Whether two inputs are known to have the same shape."""
        shape = self.known.shapes.get(name)
        return shape is not None and None not in shape and shape == self.known.shapes.get(other)

    def branch(self) -> Body:
        """A separate body for a branch of `choose`; it may use this one's values. Its last node is its result."""
        branch = Body(self.op, self.types, self.attributes, self.given, self.known)
        branch.prefix = f"{self.prefix}{len(self.nodes)}_{len(self.branches)}_"
        branch._dtypes.update(self._dtypes)
        self.branches.append(branch)
        return branch

    def choose(self, condition: Value, yes: Body, no: Body, dtype: DType) -> Value:
        """The result of the branch that a scalar bool chooses, in the given element type."""
        graphs = []
        for name, branch in (("yes", yes), ("no", no)):
            result = helper.make_tensor_value_info(branch.nodes[-1].output[0], dtype, None)
            graphs.append(helper.make_graph(branch.nodes, name, [], [result]))
        return self.node("If", condition, then_branch=graphs[0], else_branch=graphs[1])[0]

    def stacked(self, count: Value, write: Callable[[Body, Value], list[Value]], dtype: DType) -> tuple[Value, ...]:
        """What each of some rounds makes, stacked: a Loop without states.

        Args:
            count: The number of rounds, an int64 scalar.
            write: Writes a round on a body, given its number; returns results, which nodes of the body make.
            dtype: The element type of the results.
        """
        body = self.branch()
        number, goes_on = f"{body.prefix}round", f"{body.prefix}goes_on"
        results = [body.Identity(goes_on), *write(body, number)]
        given = {number: TensorProto.INT64, goes_on: TensorProto.BOOL}
        made = zip(results, [int(TensorProto.BOOL), *[dtype] * (len(results) - 1)], strict=True)
        graph = helper.make_graph(
            body.nodes,
            "round",
            [helper.make_tensor_value_info(name, kind, []) for name, kind in given.items()],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in made],
        )
        names = self.node("Loop", count, self.constant(True, TensorProto.BOOL), outputs=len(results) - 1, body=graph)
        self._dtypes.update(dict.fromkeys(names, dtype))
        return names

    def output(self, name: str, value: Value) -> None:
        """Make a value the operator's output of that name, in its declared element type."""
        declared = next(o for o in self.op.outputs if o.name == name)
        self._results[name] = self.cast(value, self.op.bind(declared.type, self.types))

    def nodes_for(self, outputs: Iterable[str]) -> list[NodeProto]:
        """The nodes that compute some of the operator's outputs, which have the outputs' names."""
        results = {name: self._results[name] for name in outputs}
        needed, kept = set(results.values()), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(read_values(node))
        kept.reverse()
        produced = {name for node in kept for name in node.output}
        renamed: dict[Value, str] = {}
        copies = []
        for name, value in results.items():
            if value in produced and value not in renamed:
                renamed[value] = name
            else:
                copies.append(helper.make_node("Identity", [renamed.get(value, value)], [name]))
        for node in kept:
            _rename(node, renamed)
        return kept + copies

    def _result_type(self, node: NodeProto) -> DType | None:
        if node.op_type in ("Constant", "ConstantOfShape"):
            return int(node.attribute[0].t.data_type)
        if node.op_type == "Cast":
            return int(node.attribute[0].i)
        if node.op_type == "If":
            return int(node.attribute[0].g.output[0].type.tensor_type.elem_type)
        if node.op_type in _RESULT_TYPES:
            return _RESULT_TYPES[node.op_type]
        return self._dtypes.get(node.input[1 if node.op_type == "Where" else 0])


def function_proto(
    op: Op,
    types: Mapping[str, DType],
    attributes: Mapping[str, str] | None = None,
    given: frozenset[str] | None = None,
    opset: int = BODY_OPSET,
    *,
    known: Known | None = None,
    outputs: Iterable[str] | None = None,
) -> FunctionProto | None:
    """The function body of an operator as a model-local function; None where it has none.

    Args:
        op: The operator.
        types: The element type of each of its type variables.
        attributes: Values of its attributes; the defaults when omitted.
        given: The names of the inputs that the node gives; all when omitted.
        opset: The opset of ai.onnx that the function imports; the nodes of bodies mean the same from `BODY_OPSET` on.
        known: What is known about the inputs; nothing when omitted.
        outputs: The names of the outputs that the function has; all when omitted.
    """
    constants = (known or Known()).constants
    write = op.body_of_constants if op.body_of_constants and constants.keys() >= {*op.read_by_body} else op.body
    if write is None:
        return None
    values = op.with_defaults(attributes or {})
    present = frozenset(i.name for i in op.inputs) if given is None else given
    body = Body(op, types, values, present, known or Known())
    write(body)
    names = [o.name for o in op.outputs] if outputs is None else list(outputs)
    nodes = body.nodes_for(names)
    imports = [helper.make_opsetid("", opset)]
    if any(node.domain == ML_DOMAIN for node in nodes):
        imports.append(helper.make_opsetid(ML_DOMAIN, ML_OPSET))
    return helper.make_function(
        DOMAIN,
        op.name,
        [i.name for i in op.inputs],
        names,
        nodes,
        imports,
        attributes=[a.name for a in op.attributes],
    )


def binding_name(op: Op, types: Mapping[str, DType], attributes: Mapping[str, str], given: frozenset[str]) -> str:
    """A name that tells a specialized body of an operator from most others: `SegmentMax_float_int64_int64_ZERO`."""
    parts = [dtype_name(types[variable]) for variable in op.types]
    parts += [attributes[a.name] for a in op.attributes]
    parts += [f"no_{i.name}" for i in op.inputs if i.name not in given]
    return "_".join([op.name, *parts])


def operator_name(function_name: str) -> str:
    """The operator that a function of a name is a body of."""
    return function_name.partition("_")[0]


def read_values(node: NodeProto) -> set[str]:
    """The names of the values that a node and its subgraphs read."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names |= read_values(inner)
    return names


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    for values in (node.input, node.output):
        values[:] = [names.get(value, value) for value in values]
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                _rename(inner, names)


def _tensor(value: Any, dtype: DType | None) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value, np.int64 if dtype is None else numpy_dtype(dtype)))
