"""The `onnx.defs.OpSchema` of every operator, derived from its declaration and registered with onnx."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from onnx import defs, helper

from onnx_sparse.schemas.declaration import DOMAIN, OPSET_VERSION, Op, dtype_name
from onnx_sparse.schemas.shape_inference import infer

_Option = defs.OpSchema.FormalParameterOption


def op_schema(op: Op) -> defs.OpSchema:
    """The onnx schema of an operator, with type and shape inference."""
    schema = defs.OpSchema(
        op.name,
        DOMAIN,
        OPSET_VERSION,
        f"{op.summary}\n\n{op.law}",
        inputs=[
            defs.OpSchema.FormalParameter(
                i.name,
                _type_name(op, i.type),
                i.doc,
                param_option=_Option.Optional if i.optional else _Option.Single,
            )
            for i in op.inputs
        ],
        outputs=[
            defs.OpSchema.FormalParameter(
                o.name,
                _type_name(op, o.type),
                o.doc,
                param_option=_Option.Optional if o.optional else _Option.Single,
            )
            for o in op.outputs
        ],
        type_constraints=[
            (variable, [f"tensor({dtype_name(t)})" for t in types], "") for variable, types in op.types.items()
        ],
        attributes=[
            defs.OpSchema.Attribute(
                a.name, defs.OpSchema.AttrType.STRING, f"{a.doc} One of {', '.join(a.choices)}.", required=True
            )
            if a.default is None
            else defs.OpSchema.Attribute(
                a.name, helper.make_attribute(a.name, a.default), f"{a.doc} One of {', '.join(a.choices)}."
            )
            for a in op.attributes
        ],
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


def _inference_function(op: Op) -> Callable[[Any], None]:
    return lambda context: infer(op, context)


def _type_name(op: Op, type_name: str) -> str:
    return type_name if type_name in op.types else f"tensor({type_name})"
