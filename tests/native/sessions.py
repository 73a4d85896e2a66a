"""Sessions of one node on native kernels, and inputs for them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto, helper

import onnx_sparse
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import element_type

Array = np.ndarray[Any, Any]


def one_node(op: Op, types: Iterable[tuple[str, int]], attributes: Mapping[str, Any]) -> ModelProto:
    """A model of one operator, on inputs of given element types; inputs without a type are omitted."""
    given = dict(types)
    names = [i.name if i.name in given else "" for i in op.inputs]
    node = helper.make_node(op.name, names, [o.name for o in op.outputs], domain=onnx_sparse.DOMAIN, **attributes)
    binding = {i.type: given[i.name] for i in op.inputs if i.name in given}
    inputs = [helper.make_tensor_value_info(i.name, given[i.name], None) for i in op.inputs if i.name in given]
    outputs = [helper.make_tensor_value_info(o.name, op.bind(o.type, binding), None) for o in op.outputs]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(onnx_sparse.DOMAIN, onnx_sparse.OPSET_VERSION)]
    return helper.make_model(helper.make_graph([node], "g", inputs, outputs), ir_version=10, opset_imports=imports)


@functools.lru_cache(maxsize=512)
def _session(
    op_name: str, types: tuple[tuple[str, int], ...], attributes: tuple[tuple[str, str], ...], threads: int
) -> onnx_sparse.InferenceSession:
    model = one_node(OPS[op_name], types, dict(attributes))
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # there are many sessions
    options.log_severity_level = 4  # errors are raised, so they need not be logged
    return onnx_sparse.InferenceSession(model, options, backend="native")


def forget_sessions() -> None:
    """Drop the sessions that are kept; each keeps the memory of its largest run."""
    _session.cache_clear()


def session_for(
    op_name: str, inputs: Mapping[str, Array], *, threads: int = 2, **attributes: str
) -> onnx_sparse.InferenceSession:
    """A session of an operator for inputs of these types."""
    void = TensorProto.STRING  # as ONNX Runtime takes arrays of bytes
    types = tuple((n, void if a.dtype.type is np.void else element_type(a.dtype)) for n, a in inputs.items())
    return _session(op_name, types, tuple(attributes.items()), threads)


def run(op_name: str, inputs: Mapping[str, Array], *, threads: int = 2, **attributes: str) -> list[Array]:
    """The outputs of an operator on the native kernels."""
    return list(session_for(op_name, inputs, threads=threads, **attributes).run(None, dict(inputs)))


def segment_ids(random: np.random.Generator, lengths: Array) -> Array:
    """Sorted ids of segments of given lengths."""
    return np.repeat(np.arange(len(lengths)), lengths)
