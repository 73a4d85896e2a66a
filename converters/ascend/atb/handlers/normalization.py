"""ATB RmsNormOperation, LayerNormOperation and their relatives, computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.compositions import layer_normalized, rms_normalized
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.quantization import dynamic_asymmetric, dynamic_symmetric, rounded_int8
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

_RMS_TYPES = {"RMS_NORM_UNDEFINED": 0, "RMS_NORM_NORM": 1, "RMS_NORM_PRENORM": 2, "RMS_NORM_POSTNORM": 3}
_LAYER_TYPES = {"LAYER_NORM_UNDEFINED": 0, "LAYER_NORM_NORM": 1, "LAYER_NORM_PRENORM": 2, "LAYER_NORM_POSTNORM": 3}
_NORM, _PRENORM, _POSTNORM = 1, 2, 3
_GROUPS = {_NORM: "normParam", _PRENORM: "preNormParam", _POSTNORM: "postNormParam"}
_QUANTS = {"QUANT_UNQUANT": 0, "QUANT_UNDEFINED": 0, "QUANT_INT4": 1, "QUANT_INT8": 2, "QUANT_INT16": 3}
_INT8 = _QUANTS["QUANT_INT8"]
_DYNAMIC = {"DYNAMIC_QUANT_UNDEFINED": 0, "DYNAMIC_QUANT_SYMMETRIC": 1, "DYNAMIC_QUANT_ASYMMETRIC": 2}
_MODELS = {"LLAMA_MODEL": 0, "GEMMA_MODEL": 1}
_PRECISIONS = {"HIGH_PRECISION_MODE": 0, "HIGH_PERFORMANCE_MODE": 1}


@handles(
    "RmsNorm",
    to="Mul, ReduceMean, Sqrt, Div, Round, Clip",
    weights=(1,),
    lacks="quantized to other types than int8",
    ignored=("normParam.layerNormEps",),  # of no effect in ATB either
)
def rms_norm(node: Node, emit: AscendEmitter) -> Results:
    """RmsNormOperation: x * gamma / sqrt(mean(x^2) + epsilon); PRENORM and POSTNORM add a residual first."""
    kind, params = _kind(node, _RMS_TYPES)
    quantized = _is_quantized(params)
    if kind == _NORM:
        return _rms_norm_alone(node, emit, params, quantized=quantized)
    has_bias = params.flag("hasBias", False) and not quantized
    rest = 3 if kind == _PRENORM else 2  # beta, scale and offset; POSTNORM has no beta
    x, residual, *others = node.take(3 + (rest if quantized else has_bias))
    total = _summed(emit, x, [residual, *others[:has_bias]])
    gamma, *quantization = others[has_bias:]
    y = _rms(emit, total, gamma, params)
    if quantized:
        beta, (scale, offset) = (quantization[0] if kind == _PRENORM else None), quantization[-2:]
        result = _int8(emit, _plus(emit, y, beta), scale, offset)
    else:
        result = emit.cast(y, x.dtype)
    if kind == _PRENORM:
        return (result, emit.cast(total, x.dtype))
    return (result, emit.cast(y, x.dtype)) if quantized else (result,)


def _rms_norm_alone(node: Node, emit: AscendEmitter, params: Parameters, *, quantized: bool) -> Results:
    dynamic = params.enum("dynamicQuantType", _DYNAMIC, 0)
    x, gamma, *rest = node.take(2 + (1 if dynamic else 3) * quantized)
    is_gemma = params.enum("modelType", _MODELS, 0) == _MODELS["GEMMA_MODEL"]
    if not quantized and params.flag("rstd", False):
        scale = emit.cast(gamma, TensorProto.FLOAT)
        y, rstd = rms_normalized(
            emit, emit.cast(x, TensorProto.FLOAT), scale, params.number("epsilon", 1e-5), gamma.rank
        )
        return (emit.cast(y, x.dtype), emit.cast(rstd, node.result_type(1, TensorProto.FLOAT)))
    if params.enum("precisionMode", _PRECISIONS, 0) == _PRECISIONS["HIGH_PERFORMANCE_MODE"]:
        y = _rms_in_float16(emit, x, gamma, params)
    else:
        y = _rms(emit, emit.cast(x, TensorProto.FLOAT), gamma, params, is_gemma=is_gemma)
    if not quantized:
        return (emit.cast(y, x.dtype),)
    shifted = _plus(emit, y, rest[0])
    return _dynamic(emit, shifted, dynamic) if dynamic else (_int8(emit, shifted, rest[1], rest[2]),)


def _rms(emit: AscendEmitter, x: Tensor, gamma: Tensor, params: Parameters, *, is_gemma: bool = False) -> Tensor:
    """The float32 x normalized over the axes that gamma has, and scaled; leading axes of size 1 do not count."""
    dims = list(gamma.dims)
    while len(dims) > 1 and dims[0] == 1:
        del dims[0]
    scale = emit.reshape(emit.cast(gamma, TensorProto.FLOAT), dims)
    if is_gemma:
        scale = emit.op("Add", scale, emit.like(1.0, scale))
    return rms_normalized(emit, x, scale, params.number("epsilon", 1e-5), len(dims))[0]


def _rms_in_float16(emit: AscendEmitter, x: Tensor, gamma: Tensor, params: Parameters) -> Tensor:
    """HIGH_PERFORMANCE_MODE: x is normalized to float16, in which it is then scaled."""
    wide = emit.cast(x, TensorProto.FLOAT)
    one = emit.constant(1.0, TensorProto.FLOAT)
    plain = rms_normalized(emit, wide, one, params.number("epsilon", 1e-5), 1)[0]
    narrow = emit.cast(emit.cast(plain, TensorProto.FLOAT16), TensorProto.FLOAT)
    return emit.op("Mul", narrow, emit.reshape(emit.cast(gamma, TensorProto.FLOAT), [x.dims[-1]]))


@handles(
    "LayerNorm",
    to="LayerNormalization, Round, Clip",
    weights=(1, 2),
    lacks="quantized PRENORM",
    ignored=("normParam.beginParamsAxis",),  # which the shape of gamma says
    defaults={"preNormParam.zoomScaleValue": 1.0, "postNormParam.zoomScaleValue": 1.0},
)
def layer_norm(node: Node, emit: AscendEmitter) -> Results:
    """LayerNormOperation; PRENORM and POSTNORM add zoomScaleValue * residual first."""
    kind, params = _kind(node, _LAYER_TYPES)
    epsilon = params.number("epsilon", 1e-5)
    if _is_quantized(params):
        return _layer_norm_quantized(node, emit, kind, params)
    if kind == _NORM:
        x, gamma, beta = node.take(3)
        axis = x.axis(params.integer("beginNormAxis", 0))
        return (emit.cast(layer_normalized(emit, emit.wide(x), gamma, beta, axis, epsilon), x.dtype),)
    x, residual, gamma, beta = node.take(4)
    zoom = params.number("zoomScaleValue", 1.0)
    wide = emit.cast(residual, TensorProto.FLOAT)
    zoomed = wide if zoom == 1.0 else emit.op("Mul", wide, emit.like(zoom, wide))
    total = emit.op("Add", emit.cast(x, TensorProto.FLOAT), zoomed)
    result = emit.cast(layer_normalized(emit, total, gamma, beta, x.rank - 1, epsilon), x.dtype)
    return (result, emit.cast(total, x.dtype)) if kind == _PRENORM else (result,)


def _layer_norm_quantized(node: Node, emit: AscendEmitter, kind: int, params: Parameters) -> Results:
    """round(float16(layer norm) * scale + offset). The graph does not say dynamicQuantType, but has its results."""
    if kind == _PRENORM:
        raise Unsupported("quantized PRENORM has no definition that is known")
    dynamic = params.enum("dynamicQuantType", _DYNAMIC, 0 if kind == _POSTNORM else max(node.results - 1, 0))
    x, *rest = node.take(3 + (kind == _POSTNORM) + (0 if dynamic else 2))
    total = _summed(emit, x, [rest.pop(0)] if kind == _POSTNORM else [])
    y = layer_normalized(emit, total, rest[0], rest[1], x.rank - 1, params.number("epsilon", 1e-5))
    half = emit.cast(y, TensorProto.FLOAT16)
    narrow = emit.cast(half, TensorProto.FLOAT)
    if dynamic:
        return _dynamic(emit, narrow, dynamic)
    scale, offset = (emit.cast(tensor, TensorProto.FLOAT) for tensor in rest[2:])
    quantized = rounded_int8(emit, emit.op("Add", emit.op("Mul", narrow, scale), offset))
    return (quantized,) if kind == _NORM else (half, quantized)


@handles("CohereLayerNorm", to="ReduceMean, Sub, Mul, Div", weights=(1,))
def cohere_layer_norm(node: Node, emit: AscendEmitter) -> Tensor:
    """CohereLayerNormOperation: gamma * (x - mean) / deviation over the last axis, with a gamma for each head."""
    x, gamma = node.take(2)
    wide, scale = (emit.cast(tensor, TensorProto.FLOAT) for tensor in (x, gamma))
    last = [x.rank - 1]
    centered = emit.op("Sub", wide, emit.reduce("ReduceMean", wide, last, keepdims=True))
    variance = emit.reduce("ReduceMean", emit.op("Mul", centered, centered), last, keepdims=True)
    epsilon = emit.like(node.params.number("epsilon", 1e-5), wide)
    deviation = emit.op("Sqrt", emit.op("Add", variance, epsilon))
    return emit.cast(emit.op("Div", emit.op("Mul", scale, centered), deviation), x.dtype)


@handles("GatherPreRmsNorm", to="Gather, Add, Mul, ReduceMean, Sqrt, Div")
def gather_pre_rms_norm(node: Node, emit: AscendEmitter) -> Results:
    """GatherPreRmsNormOperation: x plus gathered rows of the residual, normalized, in float32; and the sum."""
    x, residual, indices, gamma = node.take(4)
    rows = emit.op("Gather", residual, indices, shape=(*indices.dims, *residual.dims[1:]), axis=0)
    total = _summed(emit, x, [rows])
    return (_rms(emit, total, gamma, node.params), emit.cast(total, x.dtype))


def _kind(node: Node, types: dict[str, int]) -> tuple[int, Parameters]:
    kind = node.params.enum("layerType", types, 0)
    if kind not in _GROUPS:
        refuse("ERROR_INVALID_PARAM", f"layerType {kind} is none of NORM, PRENORM, POSTNORM")
    node.disregard(*(name for other, name in _GROUPS.items() if other != kind))
    return kind, node.params.group(_GROUPS[kind])


def _is_quantized(params: Parameters) -> bool:
    number = params.enum("quantType", _QUANTS, 0)
    if number not in (0, _INT8):
        raise Unsupported(f"quantType {number} has no definition that is known; only int8 is quantized")
    return number == _INT8


def _int8(emit: AscendEmitter, y: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """round(y / scale + offset), clamped."""
    divisor, shift = (emit.cast(tensor, TensorProto.FLOAT) for tensor in (scale, offset))
    return rounded_int8(emit, emit.op("Add", emit.op("Div", y, divisor), shift))


def _dynamic(emit: AscendEmitter, y: Tensor, kind: int) -> Results:
    return dynamic_symmetric(emit, y) if kind == _DYNAMIC["DYNAMIC_QUANT_SYMMETRIC"] else dynamic_asymmetric(emit, y)


def _plus(emit: AscendEmitter, y: Tensor, beta: Tensor | None) -> Tensor:
    return y if beta is None else emit.op("Add", y, emit.cast(beta, TensorProto.FLOAT))


def _summed(emit: AscendEmitter, x: Tensor, others: list[Tensor]) -> Tensor:
    total = emit.cast(x, TensorProto.FLOAT)
    for other in others:
        total = emit.op("Add", total, emit.cast(other, TensorProto.FLOAT))
    return total
