"""The `onnx.defs.OpSchema` of every operator, derived from its declaration and registered with onnx."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from onnx import defs, helper

from onnx_sparse.schemas.declaration import DOMAIN, OPSET_VERSION, Attribute, Input, Op, Output
from onnx_sparse.schemas.element_types import dtype_name
from onnx_sparse.schemas.shape_inference import infer

_Option = defs.OpSchema.FormalParameterOption


def op_schema(op: Op) -> defs.OpSchema:
    """The onnx schema of an operator, with type and shape inference."""
    schema = defs.OpSchema(
        op.name,
        DOMAIN,
        OPSET_VERSION,
        f"{op.summary}\n\n{op.semantics}",
        inputs=[_parameter(op, i) for i in op.inputs],
        outputs=[_parameter(op, o) for o in op.outputs],
        type_constraints=[
            (variable, [f"tensor({dtype_name(t)})" for t in types], "") for variable, types in op.types.items()
        ],
        attributes=[_attribute(a) for a in op.attributes],
    )
    schema.set_type_and_shape_inference_function(_inference_function(op))
    return schema


def register(ops: tuple[Op, ...]) -> None:
    """Register the schemas with onnx; those already there stay."""
    for op in ops:
        if not defs.has(op.name, DOMAIN):
            defs.register_schema(op_schema(op))
            # Before 1.23 onnx's registry outlives the interpreter, and crashes when it drops the inference function.
            atexit.register(defs.deregister_schema, op.name, OPSET_VERSION, DOMAIN)


def _parameter(op: Op, declared: Input | Output) -> defs.OpSchema.FormalParameter:
    type_name = declared.type if declared.type in op.types else f"tensor({declared.type})"
    option = _Option.Optional if declared.optional else _Option.Single
    return defs.OpSchema.FormalParameter(declared.name, type_name, declared.doc, param_option=option)


def _attribute(declared: Attribute) -> defs.OpSchema.Attribute:
    doc = f"{declared.doc} One of {', '.join(declared.choices)}."
    if declared.default is None:
        return defs.OpSchema.Attribute(declared.name, defs.OpSchema.AttrType.STRING, doc, required=True)
    return defs.OpSchema.Attribute(declared.name, helper.make_attribute(declared.name, declared.default), doc)


def _inference_function(op: Op) -> Callable[[Any], None]:
    return lambda context: infer(op, context)
