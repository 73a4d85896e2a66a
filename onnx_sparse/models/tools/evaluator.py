"""The operators for `onnx.reference.ReferenceEvaluator`."""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import DOMAIN, OPS, op_schema
from onnx_sparse.schemas.declaration import Op


def reference_ops() -> list[type[OpRun]]:
    """One OpRun class per operator of the domain: `ReferenceEvaluator(model, new_ops=reference_ops())`.

        evaluator = ReferenceEvaluator("model.onnx", new_ops=onnx_sparse.reference_ops())

    They raise `onnx_sparse.KernelError` for illegal input. onnx's evaluator does not use them for nodes in model-local
    functions; `onnx_sparse.canonicalize(model)` inlines the functions that have such nodes.
    """
    return [_op_run(op) for op in OPS.values()]


def _op_run(op: Op) -> type[OpRun]:
    def _run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        written = {a.name: attributes[a.name] for a in self.onnx_node.attribute}
        return evaluate(op, inputs, written)[: len(self.onnx_node.output)]

    # The evaluator finds a class by its name, and an operator's defaults in its schema.
    return type(op.name, (OpRun,), {"op_domain": DOMAIN, "op_schema": op_schema(op), "_run": _run})
