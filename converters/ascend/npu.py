"""ONNX files with operators of torch_npu's exporter, domain `npu`: each is rewritten, the rest is unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.ascend.compositions import fast_gelu, halves, range_filled, swapped
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE_HANDLERS
from onnx_sparse.converters.ascend.ge.handlers import Node as GeNode
from onnx_sparse.converters.ascend.ge.handlers import NodeAttributes as GeAttributes
from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNode, UnsupportedNodes, first_line
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import IR_VERSION, value_info
from onnx_sparse.converters.writing.inference import MOST_OF_SIZES, inferred
from onnx_sparse.converters.writing.lowering.activations import gelu, mish
from onnx_sparse.converters.writing.lowering.one_hot import one_hot
from onnx_sparse.converters.writing.reads import Attributes, Inputs, Readable, Reads
from onnx_sparse.converters.writing.registry import Handler, Registry, Results
from onnx_sparse.models.graphs import array_of, attribute, graphs, put_nodes
from onnx_sparse.models.onnx_tools import ONNX_ERRORS, convert_version, infer_shapes
from onnx_sparse.models.references import is_known
from onnx_sparse.schemas import DOMAIN as OWN_DOMAIN
from onnx_sparse.schemas import OPSET_VERSION

DOMAIN = "npu"
#: From this opset up to the emitter's, its nodes are legal as they are.
_LOWEST_OPSET = 13


class _Emitter(AscendEmitter):
    """The emitter of torch_npu's files, whose own nodes are kept: later operator sets would change them."""

    opset = 17


@dataclass(frozen=True)
class Node(Readable):
    """A node as its handler sees it: the tensors it reads, and its attributes."""

    inputs: Inputs[Tensor]
    attributes: Attributes[Any]

    def parts(self) -> Iterable[Reads]:
        """See `Readable`."""
        return self.inputs, self.attributes

    def take(self, count: int) -> tuple[Tensor, ...]:
        """The inputs; their number must be this."""
        if len(self.inputs) != count:
            raise Unsupported(f"it has {len(self.inputs)} inputs, {count} expected")
        return tuple(self.inputs)

    def integer(self, name: str, default: int) -> int:
        """An integer among the attributes; exporters also write it as a float."""
        value = self.number(name, default)
        if not float(value).is_integer():
            raise Unsupported(f"attribute {name} is {value}, not an integer")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """A number among the attributes."""
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise Unsupported(f"attribute {name} is not a number")
        return value

    def vector(self, emit: AscendEmitter, name: str) -> Tensor:
        """A list of integers among the attributes, as a constant."""
        value = self.attributes.get(name)
        if value is None:
            raise Unsupported(f"attribute {name} is missing")
        values = np.atleast_1d(np.asarray(value))
        if values.ndim > 1 or (values.size and values.dtype != np.int64):
            raise Unsupported(f"attribute {name} is not a list of integers")
        return emit.constant(values.astype(np.int64))


#: The handlers by operator.
HANDLERS = Registry(Handler)
handles = HANDLERS.handles


def has_npu_nodes(model: ModelProto) -> bool:
    """Whether a model has operators of torch_npu, including in control-flow bodies."""
    return any(node.domain == DOMAIN for graph in graphs(model.graph) for node in graph.node)


def convert_npu(path: Path, *, saturate: bool = False) -> ModelProto:
    """Rewrite the operators of torch_npu in an ONNX file.

    Args:
        path: The file.
        saturate: Whether values beyond float16 in these operators become the largest float16.

    Raises:
        ConversionError: Some have no handler, or an input's type cannot be inferred; all are listed.
    """
    try:
        model = onnx.load(path)
        version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
        if not _LOWEST_OPSET <= version <= _Emitter.opset:
            model = convert_version(model, _Emitter.opset)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ConversionError(
            f"{path} cannot be brought to opset {_Emitter.opset}: {' '.join(str(error).split())}"
        ) from error
    domains = ["" if entry.domain == "ai.onnx" else entry.domain for entry in model.opset_import]
    if repeated := sorted({domain for domain in domains if domains.count(domain) > 1}):
        raise ConversionError(f"{path} imports domain {repeated[0]!r} more than once")
    _, *bodies = graphs(model.graph)
    if inner := [node for body in bodies for node in body.node if node.domain == DOMAIN]:
        reason = "it is in the body of control flow, which is not supported"
        raise ConversionError(
            unsupported=[UnsupportedNode(_label(node), f"npu::{node.op_type}", reason) for node in inner]
        )
    model.ir_version = max(model.ir_version, IR_VERSION)
    waiting = -1
    failures = UnsupportedNodes()
    went_on = False
    while left := sum(node.domain == DOMAIN for node in model.graph.node):
        if left == waiting:
            raise ConversionError(unsupported=failures.found)
        waiting = left
        # Inference stops at an unknown operator, and continues from the types that rewriting has added: node by node,
        # and here where that cannot continue, as in control flow.
        try:
            model = infer_shapes(model)
        except ONNX_ERRORS as error:
            raise ConversionError(f"{path} is not a valid model: {first_line(error)}") from error
        failures, followed = _rewrite(model, saturate=saturate)
        went_on |= followed
    imports = [entry for entry in model.opset_import if entry.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(imports)
    try:
        typed = infer_shapes(model, strict_mode=True)
    except ONNX_ERRORS as error:
        raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error
    return typed if went_on else model


def _label(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "?")


def _rewrite(model: ModelProto, *, saturate: bool) -> tuple[UnsupportedNodes, bool]:
    """Rewrite the nodes that can be rewritten now; returns the others, and whether any type was followed to that."""
    graph = model.graph
    types = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    known = {name: tensor for name, value in types.items() if (tensor := _tensor(value)) is not None}
    known |= {t.name: Tensor(t.name, t.data_type, tuple(t.dims)) for t in graph.initializer}
    names = {*known, *(name for node in graph.node for name in (*node.input, *node.output))}
    emit = _Emitter(sorted(names), saturate=saturate)
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    followed = _Followed({OWN_DOMAIN: OPSET_VERSION, **opsets}, known, graph)
    failures = UnsupportedNodes()
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.domain != DOMAIN:
            nodes.append(node)
            known |= followed.results(node)
            continue
        start = len(emit.nodes)
        emit.begin(_label(node))
        with failures.collecting(_label(node), f"npu::{node.op_type}"):
            results = _results(node, known, emit)
            outputs = [name for name in node.output if name]
            if len(outputs) > len(results):
                raise Unsupported(f"it has {len(outputs)} outputs, {len(results)} expected")
            named = emit.name_outputs(results[: len(outputs)], outputs)
            for tensor in named:
                known[tensor.name] = tensor
                if tensor.name not in types:
                    graph.value_info.append(value_info(tensor))
            followed.wrote(emit, start, named)
            nodes.extend(emit.nodes[start:])
            continue
        del emit.nodes[start:]
        nodes.append(node)
    put_nodes(graph, nodes)
    graph.initializer.extend(emit.initializers)
    there = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(
        helper.make_opsetid(domain, version) for domain, version in emit.domains.items() if domain not in there
    )
    return failures, followed.went_on


class _Followed:
    """The types of what comes after the first nodes of torch_npu, where the inference of the whole model has stopped.

    Args:
        opsets: The versions of the operator sets.
        known: The tensors whose types the inference found.
        graph: The graph, for its small constants.

    Attributes:
        went_on: Whether anything was found.
    """

    def __init__(self, opsets: Mapping[str, int], known: Mapping[str, Tensor], graph: GraphProto) -> None:
        self._opsets = opsets
        self._tensors = dict(known)
        for constant in graph.initializer:
            self._note(constant.name, constant)
        self._initializers = 0
        self.went_on = False

    def results(self, node: NodeProto) -> dict[str, Tensor]:
        """The results of a node, as far as their types were not known and are found."""
        if node.op_type == "Constant" and (value := attribute(node, "value")) is not None:
            self._note(node.output[0], value)
        read = [self._tensors.get(name) if name else None for name in node.input]
        missing = [name for name in node.output if name and name not in self._tensors]
        if not missing or any(name and tensor is None for name, tensor in zip(node.input, read, strict=True)):
            return {}
        found = inferred(node, read, self._opsets)
        found = {name: tensor for name, tensor in found.items() if name in missing and tensor.dtype}
        self._tensors |= found
        self.went_on |= bool(found)
        return found

    def wrote(self, emit: AscendEmitter, start: int, results: Iterable[Tensor]) -> None:
        """Follow the nodes that a handler wrote."""
        for constant in emit.initializers[self._initializers :]:
            self._note(constant.name, constant)
        self._initializers = len(emit.initializers)
        for node in emit.nodes[start:]:
            self.results(node)
        for tensor in results:
            self._tensors.setdefault(tensor.name, tensor)

    def _note(self, name: str, constant: TensorProto) -> None:
        dims = tuple(constant.dims)
        small = math.prod(dims) <= MOST_OF_SIZES and is_known(constant)
        self._tensors[name] = Tensor(name, constant.data_type, dims, array_of(constant) if small else None)


def _results(node: NodeProto, known: dict[str, Tensor], emit: AscendEmitter) -> tuple[Tensor, ...]:
    handler = HANDLERS.get(node.op_type)
    if handler is None:
        raise Unsupported("this operator is not supported")
    unknown = [name for name in node.input if name not in known]
    if unknown:
        raise Unsupported(f"the element type of its input {unknown[0]} cannot be inferred")
    return handler.convert(Node(Inputs(known[name] for name in node.input), Attributes(_attributes(node))), emit)


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


def _as_ge(op_type: str, inputs: tuple[Tensor, ...], emit: AscendEmitter, **attributes: Any) -> Results:
    node = GeNode(op_type, Inputs[Tensor | None](inputs), GeAttributes(attributes), ())
    return GE_HANDLERS[op_type].convert(node, emit)


@handles("NPUMaskedFillRange", to="GreaterOrEqual, Less, And, MaskedFill")
def _masked_fill_range(node: Node, emit: AscendEmitter) -> Tensor:
    x, start, end, value = node.take(4)
    return range_filled(emit, x, start, end, value, node.integer("axis", -1))


@handles("NPUOneHot", to="Equal, Where, Cast")
def _one_hot(node: Node, emit: AscendEmitter) -> Tensor:
    """The attribute that torch_npu calls num_classes (its exporter num_classses) is the axis; the result is float32."""
    (x,) = node.take(1)
    axis = node.integer("num_classses", node.integer("num_classes", -1))
    on, off = (emit.constant(node.integer(name, default)) for name, default in (("on_value", 1), ("off_value", 0)))
    made = one_hot(emit, x, emit.constant(node.integer("depth", 1)), on, off, axis)
    return emit.cast(made, TensorProto.FLOAT)


@handles("NPUSlice", to="Slice")
def _slice(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    bounds = (node.vector(emit, "offsetss"), node.vector(emit, "sizes"))
    return _as_ge("Slice", (x, *bounds), emit)


@handles("NPUIndexing", to="Slice, Squeeze, Unsqueeze")
def _indexing(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    bounds = (node.vector(emit, name) for name in ("begins", "ends", "strides"))
    masks = {name: node.integer(name, 0) for name in node.attributes if name.endswith("_mask")}
    return _as_ge("StridedSlice", (x, *bounds), emit, **masks)


@handles("NPUFastGelu", to="Exp, Sigmoid, Mul")
def _fast_gelu(node: Node, emit: AscendEmitter) -> Tensor:
    return emit.in_float32(lambda wide: fast_gelu(emit, wide), *node.take(1))


@handles("NPUGeluV2", to="Erf, Tanh, Mul")
def _gelu(node: Node, emit: AscendEmitter) -> Tensor:
    exact = node.attributes.get("approximate", b"none") not in (b"tanh", "tanh")
    return gelu(emit, *node.take(1), exact=exact)


@handles("NPUMish", to="Softplus, Tanh, Mul")
def _mish(node: Node, emit: AscendEmitter) -> Tensor:
    return mish(emit, *node.take(1))


@handles("NPURmsNorm", to="Mul, ReduceMean, Sqrt, Div")
def _rms_norm(node: Node, emit: AscendEmitter) -> Results:
    return _as_ge("RmsNorm", node.take(2), emit, epsilon=float(node.number("epsilon", 1e-6)))


@handles("NPURotaryMul", to="Split, Neg, Concat, Mul, Add")
def _rotary_mul(node: Node, emit: AscendEmitter) -> Results:
    """X * cos + rotated(x) * sin, by halves of the last axis."""
    return _as_ge("RotaryMul", node.take(3), emit)


@handles("NPUScaledMaskedSoftmax", to="Mul, Where, Softmax")
def _scaled_masked_softmax(node: Node, emit: AscendEmitter) -> Results:
    """Softmax of x * scale, with -10000 where the mask is true; fixed_triu_mask is the mask above the diagonal."""
    scale, triangle = float(node.number("scale", 1.0)), node.integer("fixed_triu_mask", 0)
    return _as_ge("ScaledMaskedSoftmax", node.take(2), emit, scale=scale, fixed_triu_mask=triangle)


@handles("NPUGeGlu", to="Split, Erf, Tanh, Mul")
def _geglu(node: Node, emit: AscendEmitter) -> Results:
    """One half of x times gelu of the other, the right one unless activate_left; and gelu of that half."""
    (x,) = node.take(1)
    left, right = halves(emit, x, node.integer("dim", -1))
    other, active = (right, left) if node.integer("activate_left", 0) else (left, right)
    curve = gelu(emit, active, exact=node.integer("approximate", 1) == 0)
    return (emit.cast(emit.op("Mul", other, curve), x.dtype), emit.cast(curve, x.dtype))


@handles("NPUFusedAttentionScore", to="MatMul, Softmax, Transpose", notes="inference: keep_prob = 1")
def _fused_attention_score(node: Node, emit: AscendEmitter) -> Tensor:
    """Softmax(query key^T * scale + mask) @ value, with the heads of a token side by side: [tokens, hidden]."""
    query, key, value, mask = node.take(4)
    if node.number("keep_prob", 1.0) != 1.0:
        raise Unsupported("keep_prob is not 1: what is dropped is random")
    flags = ("query_transpose", "key_transpose", "bmm_score_transpose_a", "bmm_score_transpose_b", "value_transpose")
    if turned := [name for name in flags if node.integer(name, 0)]:
        raise Unsupported(f"{turned[0]} is not supported")
    q, k, v, addend = map(emit.wide, (query, key, value, mask))
    scores = emit.matmul(q, swapped(emit, k))
    scores = emit.op("Mul", scores, emit.like(float(node.number("scale", 1.0)), scores))
    weights = emit.op("Softmax", emit.op("Add", scores, addend), axis=3, shape=scores.shape)
    attended = emit.matmul(weights, v)
    batch, heads, length, size = attended.dims
    result = emit.transpose(attended, [0, 2, 1, 3])
    return emit.cast(emit.reshape(result, [batch * length, heads * size]), query.dtype)


# The format says how the NPU stores a tensor, not what it holds.
@handles("NPUFormatCast", to="Identity", ignored=("acl_format",))
def _format_cast(node: Node, emit: AscendEmitter) -> Results:
    return node.take(1)


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


@handles("NPUDtypeCast", to="Cast")
def _dtype_cast(node: Node, emit: AscendEmitter) -> Tensor:
    (x,) = node.take(1)
    number = node.integer("dtype", -1)
    if number not in _TORCH_DTYPES:
        raise Unsupported(f"dtype {number} is not one of torch's element types")
    return emit.cast(x, _TORCH_DTYPES[number])


@handles("NPUScatter", "NPUScatterOP", to="Unsqueeze, ScatterElements")
def _scatter(node: Node, emit: AscendEmitter) -> Tensor:
    """The exporter's name is NPUScatterOP. Indices and updates have size 1 along the axis, and may lack it."""
    x, indices, updates = node.take(3)
    axis = x.axis(node.integer("dim", 0))
    pair = []
    for tensor in (indices, updates):
        if tensor.rank == x.rank - 1:
            dims = tensor.shape or ()
            tensor = emit.op("Unsqueeze", tensor, emit.constant([axis]), shape=(*dims[:axis], 1, *dims[axis:]))
        pair.append(tensor)
    return emit.op("ScatterElements", x, *pair, shape=x.shape, axis=axis)
