"""Function bodies: the operators of the domain in standard ONNX, as model-local functions.

A body is written for one binding of element types and attributes (`Op.body` gets a `Body` to write on), so it holds
only the nodes that this binding needs; the `overload` of the function tells the bindings apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.schemas.declaration import DOMAIN, HALF_FLOATS, DType, Op, dtype_name, numpy_dtype

#: The lowest opset of ai.onnx that has what the bodies use: ScatterND with min and max.
BODY_OPSET = 18

Value = str  # the name of a value in the function


class Body:
    """Writes the nodes of one function body. `body.Gather(x, i, axis=0)` adds a node and returns its output's name.

    Attributes:
        op: The operator.
        types: The element type of each type variable.
        attributes: The value of each attribute.
        given: The names of the inputs that the node gives other than as their sentinels.
    """

    def __init__(
        self, op: Op, types: Mapping[str, DType], attributes: Mapping[str, str], given: frozenset[str]
    ) -> None:
        self.op = op
        self.types = types
        self.attributes = attributes
        self.given = given
        self.nodes: list[NodeProto] = []
        self.branches: list[Body] = []
        self.prefix = ""  # keeps a branch's names apart from those outside

    def node(self, op_type: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> tuple[Value, ...]:
        """Add a standard ONNX node; returns the names of its outputs."""
        names = tuple(f"{self.prefix}{op_type}_{len(self.nodes)}_{k}" for k in range(outputs))
        self.nodes.append(helper.make_node(op_type, list(inputs), list(names), **attributes))
        return names

    def __getattr__(self, op_type: str) -> Callable[..., Value]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.node(op_type, *inputs, **attributes)[0]

    def constant(self, value: Any, dtype: DType | None = None) -> Value:
        """A constant of the given element type (int64 when omitted)."""
        array = np.asarray(value, np.int64 if dtype is None else numpy_dtype(dtype))
        (name,) = self.node("Constant", value=numpy_helper.from_array(array))
        return name

    def int64(self, value: Value) -> Value:
        """The value as int64."""
        return self.cast(value, TensorProto.INT64)

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value as another element type."""
        (name,) = self.node("Cast", value, to=dtype)
        return name

    def compute_type(self, type_variable: str) -> DType:
        """The type to compute in: float32 for the half floats, the type itself otherwise."""
        dtype = self.types[type_variable]
        return int(TensorProto.FLOAT) if dtype in HALF_FLOATS else dtype

    def branch(self) -> Body:
        """A separate body for a branch of `choose`; it may use this one's values. Its last node is its result."""
        branch = Body(self.op, self.types, self.attributes, self.given)
        branch.prefix = f"{self.prefix}{len(self.nodes)}_{len(self.branches)}_"
        self.branches.append(branch)
        return branch

    def choose(self, condition: Value, yes: Body, no: Body, dtype: DType) -> Value:
        """The result of the branch that a scalar bool chooses, in the given element type."""
        graphs = []
        for name, branch in (("yes", yes), ("no", no)):
            result = helper.make_tensor_value_info(branch.nodes[-1].output[0], dtype, None)
            graphs.append(helper.make_graph(branch.nodes, name, [], [result]))
        return self.node("If", condition, then_branch=graphs[0], else_branch=graphs[1])[0]

    def output(self, name: str, value: Value) -> None:
        """Make a value the operator's output of that name, in its declared element type."""
        declared = next(o for o in self.op.outputs if o.name == name)
        self.nodes.append(helper.make_node("Cast", [value], [name], to=self.op.bind(declared.type, self.types)))

    def move(self, name: str, value: Value) -> None:
        """Make a value that already has its element type an output (also a string, which no Cast takes)."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))


def function_proto(
    op: Op,
    types: Mapping[str, DType],
    attributes: Mapping[str, str] | None = None,
    given: frozenset[str] | None = None,
    opset: int = BODY_OPSET,
) -> FunctionProto | None:
    """The function body of an operator as a model-local function; None where it has none.

    Args:
        op: The operator.
        types: The element type of each of its type variables.
        attributes: Values of its attributes; the defaults when omitted.
        given: The names of the inputs that the node gives; all when omitted.
        opset: The opset of ai.onnx that the function imports; the nodes of bodies mean the same from `BODY_OPSET` on.
    """
    if op.body is None:
        return None
    values = op.with_defaults(attributes or {})
    present = frozenset(i.name for i in op.inputs) if given is None else given
    body = Body(op, types, values, present)
    op.body(body)
    return helper.make_function(
        DOMAIN,
        op.name,
        [i.name for i in op.inputs],
        [o.name for o in op.outputs],
        body.nodes,
        [helper.make_opsetid("", opset)],
        attributes=[a.name for a in op.attributes],
        overload=overload_name(op, types, values, present),
    )


def overload_name(op: Op, types: Mapping[str, DType], attributes: Mapping[str, str], given: frozenset[str]) -> str:
    """The name that tells one specialised body of an operator from another: `float_int64_row_major`."""
    parts = [dtype_name(types[variable]) for variable in op.types]
    parts += [attributes[a.name] for a in op.attributes]
    parts += [f"no_{i.name}" for i in op.inputs if i.name not in given]
    return "_".join(parts)
