"""ATB RmsNormOperation and LayerNormOperation, computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.compositions import layer_normalized, rms_normalized
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

_RMS_TYPES = {"RMS_NORM_UNDEFINED": 0, "RMS_NORM_NORM": 1, "RMS_NORM_PRENORM": 2, "RMS_NORM_POSTNORM": 3}
_LAYER_TYPES = {"LAYER_NORM_UNDEFINED": 0, "LAYER_NORM_NORM": 1, "LAYER_NORM_PRENORM": 2, "LAYER_NORM_POSTNORM": 3}
_NORM, _PRENORM, _POSTNORM = 1, 2, 3
_GROUPS = {_NORM: "normParam", _PRENORM: "preNormParam", _POSTNORM: "postNormParam"}
_QUANTS = {"QUANT_UNQUANT": 0, "QUANT_UNDEFINED": 0}
_MODELS = {"LLAMA_MODEL": 0, "GEMMA_MODEL": 1}


@handles("RmsNorm", to="Mul, ReduceMean, Sqrt, Div", weights=(1,), notes="without quantisation")
def rms_norm(node: Node, emit: Emitter) -> Results:
    """RmsNormOperation: x * gamma / sqrt(mean(x^2) + epsilon); PRENORM and POSTNORM add a residual first."""
    kind, params = _kind(node, _RMS_TYPES)
    epsilon = params.number("epsilon", 1e-5)
    if kind == _NORM:
        x, gamma = node.take(2)
        scale = emit.cast(gamma, TensorProto.FLOAT)
        if params.enum("modelType", _MODELS, 0) == _MODELS["GEMMA_MODEL"]:
            scale = emit.op("Add", scale, emit.like(1.0, scale))
        y, rstd = rms_normalized(emit, emit.cast(x, TensorProto.FLOAT), scale, epsilon)
        result = emit.cast(y, x.dtype)
        return (result, rstd) if params.flag("rstd", False) else (result,)
    x, *others = node.take(4 if params.flag("hasBias", False) else 3)
    gamma = others.pop()
    total = _summed(emit, x, others)
    y, _ = rms_normalized(emit, total, emit.cast(gamma, TensorProto.FLOAT), epsilon)
    result = emit.cast(y, x.dtype)
    return (result, emit.cast(total, x.dtype)) if kind == _PRENORM else (result,)


@handles("LayerNorm", to="LayerNormalization", weights=(1, 2), notes="without quantisation")
def layer_norm(node: Node, emit: Emitter) -> Results:
    """LayerNormOperation; PRENORM and POSTNORM add zoomScaleValue * residual first."""
    kind, params = _kind(node, _LAYER_TYPES)
    epsilon = params.number("epsilon", 1e-5)
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


def _kind(node: Node, types: dict[str, int]) -> tuple[int, Parameters]:
    kind = node.params.enum("layerType", types, 0)
    if kind not in _GROUPS:
        refuse("ERROR_INVALID_PARAM", f"layerType {kind} is none of NORM, PRENORM, POSTNORM")
    params = node.params.group(_GROUPS[kind])
    if params.enum("quantType", _QUANTS, 0) or params.integer("dynamicQuantType", 0):
        raise Unsupported("quantised normalisation is not supported")
    return kind, params


def _summed(emit: Emitter, x: Tensor, others: list[Tensor]) -> Tensor:
    total = emit.cast(x, TensorProto.FLOAT)
    for other in others:
        total = emit.op("Add", total, emit.cast(other, TensorProto.FLOAT))
    return total
