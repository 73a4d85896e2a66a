"""ONNX files with operators of torch_npu's exporter, domain `npu`: each is rewritten, the rest is unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.ascend.compositions import fast_gelu, gelu, one_hot, range_filled
from onnx_sparse.converters.ascend.emitter import OPSET, Emitter
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE_HANDLERS
from onnx_sparse.converters.ascend.ge.handlers import Operator
from onnx_sparse.converters.ascend.model import IR_VERSION, value_info
from onnx_sparse.converters.ascend.tensors import Tensor, Unsupported
from onnx_sparse.converters.errors import ConversionError, UnsupportedNode
from onnx_sparse.converters.graphs import graphs

DOMAIN = "npu"
#: From this opset up to the emitter's, its nodes are legal as they are.
_LOWEST_OPSET = 13

Results = tuple[Tensor, ...]
HandlerFunction = Callable[[NodeProto, tuple[Tensor, ...], Emitter], Results]


@dataclass(frozen=True)
class Handler:
    """How one operator is rewritten: the ONNX operators that it becomes, and the function that does it."""

    to: str
    convert: HandlerFunction


#: The handlers by operator.
HANDLERS: dict[str, Handler] = {}


def _handles(*op_types: str, to: str) -> Callable[[HandlerFunction], HandlerFunction]:
    def register(function: HandlerFunction) -> HandlerFunction:
        for op_type in op_types:
            HANDLERS[op_type] = Handler(to, function)
        return function

    return register


def has_npu_nodes(model: ModelProto) -> bool:
    """Whether a model has operators of torch_npu, including in control-flow bodies."""
    return any(node.domain == DOMAIN for graph in graphs(model.graph) for node in graph.node)


def convert_npu(path: Path) -> ModelProto:
    """Rewrite the operators of torch_npu in an ONNX file.

    Raises:
        ConversionError: Some have no handler, or an input's type cannot be inferred; all are listed.
    """
    try:
        model = onnx.load(path)
        version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
        if not _LOWEST_OPSET <= version <= OPSET:
            model = onnx.version_converter.convert_version(model, OPSET)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ConversionError(f"{path} cannot be brought to opset {OPSET}: {' '.join(str(error).split())}") from error
    _, *bodies = graphs(model.graph)
    if inner := [node for body in bodies for node in body.node if node.domain == DOMAIN]:
        reason = "it is in the body of control flow, which is not supported"
        raise ConversionError("", [UnsupportedNode(_label(node), f"npu::{node.op_type}", reason) for node in inner])
    model.ir_version = max(model.ir_version, IR_VERSION)
    waiting = -1
    failures: list[UnsupportedNode] = []
    while left := sum(node.domain == DOMAIN for node in model.graph.node):
        if left == waiting:
            raise ConversionError("", failures)
        waiting = left
        # Inference stops at an unknown operator, and continues from the types that rewriting has added.
        model = onnx.shape_inference.infer_shapes(model)
        failures = _rewrite(model)
    imports = [entry for entry in model.opset_import if entry.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(imports)
    return model


def _label(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "?")


def _rewrite(model: ModelProto) -> list[UnsupportedNode]:
    """Rewrite the nodes that can be rewritten now; returns the others."""
    graph = model.graph
    types = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    known = {name: tensor for name, value in types.items() if (tensor := _tensor(value)) is not None}
    known |= {t.name: Tensor(t.name, t.data_type, tuple(t.dims)) for t in graph.initializer}
    emit = Emitter(sorted({*known, *(name for node in graph.node for name in (*node.input, *node.output))}))
    failures = []
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.domain != DOMAIN:
            nodes.append(node)
            continue
        start = len(emit.nodes)
        emit.begin(_label(node))
        try:
            results = _results(node, known, emit)
            outputs = [name for name in node.output if name]
            if len(outputs) > len(results):
                raise Unsupported(f"it has {len(outputs)} outputs, {len(results)} expected")
            for tensor in emit.name_outputs(results[: len(outputs)], outputs):
                known[tensor.name] = tensor
                if tensor.name not in types:
                    graph.value_info.append(value_info(tensor))
            nodes.extend(emit.nodes[start:])
        except Unsupported as reason:
            del emit.nodes[start:]
            nodes.append(node)
            failures.append(UnsupportedNode(_label(node), f"npu::{node.op_type}", str(reason)))
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(emit.initializers)
    there = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(
        helper.make_opsetid(domain, version) for domain, version in emit.domains.items() if domain not in there
    )
    return failures


def _results(node: NodeProto, known: dict[str, Tensor], emit: Emitter) -> Results:
    handler = HANDLERS.get(node.op_type)
    if handler is None:
        raise Unsupported("this operator is not supported")
    unknown = [name for name in node.input if name not in known]
    if unknown:
        raise Unsupported(f"the element type of its input {unknown[0]} cannot be inferred")
    return handler.convert(node, tuple(known[name] for name in node.input), emit)


def _tensor(value: ValueInfoProto) -> Tensor | None:
    kind = value.type.tensor_type
    if not kind.elem_type or kind.elem_type not in TensorProto.DataType.values():
        return None
    if not kind.HasField("shape"):
        return Tensor(value.name, kind.elem_type)
    dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)
    return Tensor(value.name, kind.elem_type, dims)


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.type != AttributeProto.UNDEFINED}


def _first(node: NodeProto, inputs: tuple[Tensor, ...], count: int = 1) -> tuple[Tensor, ...]:
    if len(inputs) != count:
        raise Unsupported(f"it has {len(inputs)} inputs, {count} expected")
    return inputs


def _as_ge(op_type: str, inputs: tuple[Tensor, ...], emit: Emitter, **attributes: Any) -> Results:
    operator = Operator(op_type, inputs, attributes, (), emit.values)
    return GE_HANDLERS[op_type].convert(operator, emit)


@_handles("NPUMaskedFillRange", to="GreaterOrEqual, Less, And, MaskedFill")
def _masked_fill_range(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    x, start, end, value = _first(node, inputs, 4)
    return (range_filled(emit, x, start, end, value, int(_attributes(node).get("axis", -1))),)


@_handles("NPUOneHot", to="OneHot, Cast")
def _one_hot(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    """The attribute that torch_npu calls num_classes (its exporter num_classses) is the axis; the result is float32."""
    (x,) = _first(node, inputs)
    given = _attributes(node)
    axis = int(given.get("num_classses", given.get("num_classes", -1)))
    values = [emit.constant(int(given.get(name, default))) for name, default in (("on_value", 1), ("off_value", 0))]
    made = one_hot(emit, x, values[0], values[1], int(given.get("depth", 1)), axis)
    return (emit.cast(made, TensorProto.FLOAT),)


@_handles("NPUSlice", to="Slice")
def _slice(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    (x,) = _first(node, inputs)
    given = _attributes(node)
    bounds = (_integers(emit, given, "offsetss"), _integers(emit, given, "sizes"))
    return _as_ge("Slice", (x, *bounds), emit)


@_handles("NPUIndexing", to="Slice, Squeeze, Unsqueeze")
def _indexing(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    (x,) = _first(node, inputs)
    given = _attributes(node)
    bounds = (_integers(emit, given, name) for name in ("begins", "ends", "strides"))
    masks = {name: int(value) for name, value in given.items() if name.endswith("_mask")}
    return _as_ge("StridedSlice", (x, *bounds), emit, **masks)


def _integers(emit: Emitter, given: dict[str, Any], name: str) -> Tensor:
    value = given.get(name)
    if value is None:
        raise Unsupported(f"attribute {name} is missing")
    return emit.constant(np.atleast_1d(np.asarray(value, np.int64)))


@_handles("NPUFastGelu", to="Exp, Sigmoid, Mul")
def _fast_gelu(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    return (emit.in_float32(lambda wide: fast_gelu(emit, wide), *_first(node, inputs)),)


@_handles("NPUGeluV2", to="Erf, Tanh, Mul")
def _gelu(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    exact = _attributes(node).get("approximate", b"none") not in (b"tanh", "tanh")
    return (emit.in_float32(lambda wide: gelu(emit, wide, exact=exact), *_first(node, inputs)),)


@_handles("NPUMish", to="Softplus, Tanh, Mul")
def _mish(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    def mish(x: Tensor) -> Tensor:
        return emit.op("Mul", x, emit.op("Tanh", emit.op("Softplus", x)))

    return (emit.in_float32(mish, *_first(node, inputs)),)


@_handles("NPURmsNorm", to="Mul, ReduceMean, Sqrt, Div")
def _rms_norm(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    return _as_ge("RmsNorm", _first(node, inputs, 2), emit, epsilon=float(_attributes(node).get("epsilon", 1e-6)))


@_handles("NPUFormatCast", to="Identity")
def _format_cast(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    return _first(node, inputs)  # the format says how the NPU stores a tensor, not what it holds


#: torch's numbers of element types, which the exporter writes.
_TORCH_DTYPES = {
    0: TensorProto.UINT8,
    1: TensorProto.INT8,
    2: TensorProto.INT16,
    3: TensorProto.INT32,
    4: TensorProto.INT64,
    5: TensorProto.FLOAT16,
    6: TensorProto.FLOAT,
    7: TensorProto.DOUBLE,
    11: TensorProto.BOOL,
    15: TensorProto.BFLOAT16,
}


@_handles("NPUDtypeCast", to="Cast")
def _dtype_cast(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    (x,) = _first(node, inputs)
    number = _attributes(node).get("dtype")
    if number not in _TORCH_DTYPES:
        raise Unsupported(f"dtype {number} is not one of torch's element types")
    return (emit.cast(x, _TORCH_DTYPES[number]),)


@_handles("NPUScatter", "NPUScatterOP", to="Unsqueeze, ScatterElements")
def _scatter(node: NodeProto, inputs: tuple[Tensor, ...], emit: Emitter) -> Results:
    """The exporter's name is NPUScatterOP. Indices and updates have size 1 along the axis, and may lack it."""
    x, indices, updates = _first(node, inputs, 3)
    axis = x.axis(int(_attributes(node).get("dim", 0)))
    pair = []
    for tensor in (indices, updates):
        if tensor.rank == x.rank - 1:
            dims = tensor.shape or ()
            tensor = emit.op("Unsqueeze", tensor, emit.constant([axis]), shape=(*dims[:axis], 1, *dims[axis:]))
        pair.append(tensor)
    return (emit.op("ScatterElements", x, *pair, shape=x.shape, axis=axis),)
