"""A node that was drawn with its operands, and what operands are drawn of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.element_types import FLOATS, element_type, numpy_dtype

Rng = np.random.Generator
Array = np.ndarray[Any, Any]


@dataclass
class Drawn:
    """A node: its operator, its inputs in order (None: omitted), which are constants, and its attributes."""

    op_type: str
    inputs: dict[str, Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[str] = ()
    outputs: int = 1
    opset: int = 18
    #: The relative error that different ways to compute it may have.
    tolerance: float = 1e-4
    #: The nodes, of which the last is the operator's, where there are more.
    written: Sequence[NodeProto] = ()

    def model(self, rng: Rng) -> ModelProto:
        """The node as a model; some sizes of its inputs are not known to it."""
        given = self.given()
        fed = [name for name in given if name not in self.constants]
        nodes = self.nodes()
        known = rng.random() < 0.7
        values = []
        for name in fed:
            dims = [n if known or rng.random() < 0.5 else f"{name}_{k}" for k, n in enumerate(given[name].shape)]
            values.append(helper.make_tensor_value_info(name, element_type(given[name].dtype), dims))
        graph = helper.make_graph(
            nodes,
            "drawn",
            values,
            [ValueInfoProto(name=name) for name in nodes[-1].output if name],
            [numpy_helper.from_array(given[name], name) for name in given if name in self.constants],
        )
        model = helper.make_model(
            graph,
            ir_version=10,
            opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, OPSET_VERSION)],
        )
        return onnx.shape_inference.infer_shapes(model)

    def nodes(self) -> list[NodeProto]:
        """The node, after those before it."""
        if self.written:
            return [*self.written]
        names = [name if value is not None else "" for name, value in self.inputs.items()]
        outputs = [f"y{k}" for k in range(self.outputs)]
        return [helper.make_node(self.op_type, names, outputs, **self.attributes)]

    def feeds(self) -> dict[str, Array]:
        """What to run the model on."""
        return {name: value for name, value in self.given().items() if name not in self.constants}

    def given(self) -> dict[str, Array]:
        """The operands, by name."""
        return {name: np.asarray(value) for name, value in self.inputs.items() if value is not None}


def types_of(op_type: str, opset: int, variable: str | None = None) -> list[int]:
    """The element types that ONNX allows a type variable of an operator, the first by default."""
    schema = onnx.defs.get_schema(op_type, opset)
    wanted = variable or schema.inputs[0].type_str
    (allowed,) = (each.allowed_type_strs for each in schema.type_constraints if each.type_param_str == wanted)
    names = [text[7:-1].upper() for text in allowed if text.startswith("tensor(")]
    usual = [name for name in names if not name.startswith(("COMPLEX", "FLOAT8", "INT4", "UINT4", "FLOAT4"))]
    return [int(TensorProto.DataType.Value(name)) for name in usual]


def values(rng: Rng, dtype: int, shape: Sequence[int], *, wide: bool = False) -> Array:
    """Numbers of a type: small ones, or any that it has."""
    if dtype == TensorProto.STRING:
        return np.array([f"s{k}" for k in rng.integers(0, 50, int(np.prod(shape)))], object).reshape(shape)
    if dtype == TensorProto.BOOL:
        return rng.random(shape) < 0.5
    kind = numpy_dtype(dtype)
    if dtype in FLOATS:
        return rng.normal(size=shape).astype(kind)
    if wide:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    return rng.integers(0 if kind.kind == "u" else -4, 5, shape).astype(kind)


def shape_of(rng: Rng, rank: int, most: int = 5) -> list[int]:
    return [int(size) for size in rng.integers(1, most + 1, rank)]


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]
