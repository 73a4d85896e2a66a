"""The backends, each a function from a one-node model to its outputs, and the known gaps of each.

The models are ONNX graphs of one node whose inputs are graph inputs of unknown shape, run as users run theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION, Op
from onnx_sparse.schemas.declaration import dtype_name
from onnx_sparse.sessions.runtime import InferenceSession, available_backends

Array = np.ndarray[Any, Any]
Items = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Call:
    """An operator with its types, its attributes and the inputs that its node has."""

    op_name: str
    types: Items
    attributes: Items
    given: tuple[str, ...]

    @property
    def op(self) -> Op:
        return OPS[self.op_name]

    @classmethod
    def of(cls, op: Op, types: Mapping[str, int], attributes: Mapping[str, str], inputs: Mapping[str, Array]) -> Call:
        return cls(op.name, tuple(types.items()), tuple(attributes.items()), tuple(inputs))


Run = Callable[[Call, Mapping[str, Array]], list[Array]]


def one_node_model(call: Call) -> ModelProto:
    """A model of one node; inputs are omitted as users do it: trailing ones omitted, others named empty."""
    op, types = call.op, dict(call.types)
    names = [i.name if i.name in call.given else "" for i in op.inputs]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        op.name, names, [o.name for o in op.outputs], name="node", domain=DOMAIN, **dict(call.attributes)
    )

    def value(formal: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(formal.name, op.bind(formal.type, types), None)

    graph = helper.make_graph(
        [node], "one_node", [value(i) for i in op.inputs if i.name in call.given], [value(o) for o in op.outputs]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def run_reference(call: Call, inputs: Mapping[str, Array]) -> list[Array]:
    return list(evaluate(call.op, [inputs.get(i.name) for i in call.op.inputs], dict(call.attributes)))


def in_sessions(make: Callable[[Call], Any]) -> Run:
    """Runs calls in sessions made for them, and keeps the latest sessions."""
    session = functools.lru_cache(maxsize=64)(make)

    def run(call: Call, inputs: Mapping[str, Array]) -> list[Array]:
        return [np.asarray(output) for output in session(call).run(None, {k: fed(v) for k, v in inputs.items()})]

    return run


def fed(array: Array) -> Array:
    """An array as sessions take it: strings that are bytes, all of one length, in an array of numpy's type void."""
    if array.dtype != object or not any(isinstance(item, bytes) for item in array.flat):
        return array
    (length,) = {len(item) for item in array.flat}
    return np.array([np.void(item) for item in array.flat], f"V{length}").reshape(array.shape)


class PlainSession:
    """Plain ONNX Runtime without our kernels, which takes bfloat16 arrays as `onnx_sparse.InferenceSession` does."""

    def __init__(self, model: ModelProto) -> None:
        import onnxruntime as ort

        self.session = ort.InferenceSession(model.SerializeToString())

    def run(self, output_names: list[str] | None, feed: dict[str, Array]) -> list[Array]:
        from onnx_sparse.sessions import bfloat16

        if not bfloat16.needs_conversion(self.session):
            return list(self.session.run(output_names, feed))
        names = output_names or [output.name for output in self.session.get_outputs()]
        values = {name: bfloat16.to_ort_value(value) for name, value in feed.items()}
        outputs = self.session.run_with_ort_values(names, values)
        return [bfloat16.to_numpy(o) if o.element_type() == TensorProto.BFLOAT16 else o.numpy() for o in outputs]


BACKENDS: dict[str, Run] = {
    "reference": run_reference,
    "ReferenceEvaluator": in_sessions(
        lambda call: ReferenceEvaluator(one_node_model(call), new_ops=onnx_sparse.reference_ops())
    ),
    "ORT Python": in_sessions(lambda call: InferenceSession(one_node_model(call), backend="python")),
    "ORT function body": in_sessions(lambda call: PlainSession(onnx_sparse.embed_functions(one_node_model(call)))),
}
if "native" in available_backends():
    BACKENDS["ORT native"] = in_sessions(lambda call: InferenceSession(one_node_model(call), backend="native"))

#: Backends that run the reference's numpy functions.
SHARE_NUMPY = ("reference", "ReferenceEvaluator", "ORT Python")

#: Backends that report errors. Function bodies cannot; they assume legal input.
REPORTING = tuple(name for name in BACKENDS if name != "ORT function body")


def _lacks_zlib() -> bool:
    """Whether the native library was built without zlib."""
    compressed = OPS["DecodeCompressed"]
    inputs = {"input": np.array([""], object)}
    try:
        BACKENDS["ORT native"](Call.of(compressed, {}, {"compression": "GZIP"}, inputs), inputs)
    except KernelError as error:
        return "built without zlib" in str(error)
    return False


#: What a backend cannot do: (backend, operator, element type of T or None for all) -> the reason.
#: Strict: the suite fails once a gap has been closed.
EXPECTED_GAPS: dict[tuple[str, str, str | None], str] = {
    ("ORT function body", op.name, None): op.body_notes for op in OPS.values() if op.body is None
} | {("ORT Python", op.name, None): op.no_python_kernels for op in OPS.values() if op.no_python_kernels}
if "ORT native" in BACKENDS and _lacks_zlib():
    EXPECTED_GAPS["ORT native", "DecodeCompressed", None] = "the native library was built without zlib"


def reporting(op: Op) -> list[str]:
    """The backends that run an operator and report errors."""
    return [backend for backend in REPORTING if (backend, op.name, None) not in EXPECTED_GAPS]


def gap_marks(backend: str, op: Op, types: Mapping[str, int]) -> list[pytest.MarkDecorator]:
    """The marks of a test that runs an operator on a backend."""
    t = dtype_name(types["T"]) if "T" in types else None
    gap = EXPECTED_GAPS.get((backend, op.name, t)) or EXPECTED_GAPS.get((backend, op.name, None))
    return [pytest.mark.xfail(reason=gap, strict=True)] if gap else []
