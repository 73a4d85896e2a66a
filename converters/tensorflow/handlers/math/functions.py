"""tf.raw_ops.Exp, Log1p, Erf, Atan2 and other functions of floats, and the activations."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import activations, angles, logarithms, special_functions
from onnx_sparse.converters.writing.lowering.arithmetic import rsqrt
from onnx_sparse.converters.writing.lowering.trigonometry import trigonometric
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import FLOATS, UNSIGNED_INTEGERS, dtype_name

_NUMBERS = ("all numbers",)
_FLOAT_NAMES = tuple(map(dtype_name, FLOATS))
_GAMMA = ("float16", "float", "double")

#: Operators of floats that ONNX has.
_OF_FLOATS = {
    "Sqrt": "Sqrt", "Exp": "Exp", "Log": "Log", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Sin": "Sin", "Cos": "Cos",
    "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh",
    "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf",
}  # fmt: skip


handles(
    "Erfinv",
    inputs=("x",),
    to="Log",
    dtypes=("float",),
    differs="near -1 and 1, TensorFlow rounds 1 - x, which is wrong by up to 0.3 % of the result",
)(lowered(special_functions.inverse_error))
handles("Ndtri", inputs=("x",), to="Log", dtypes=("float",))(lowered(special_functions.inverse_normal))
handles("Lgamma", inputs=("x",), to="Log", dtypes=_GAMMA)(lowered(special_functions.log_gamma))
handles("Digamma", inputs=("x",), to="Log", dtypes=_GAMMA)(lowered(special_functions.digamma))


@handles(*_OF_FLOATS, to="Exp", dtypes=_FLOAT_NAMES)
def of_floats(node: Node, emit: Emitter) -> Tensor:
    """The operator that ONNX has."""
    return trigonometric(emit, _OF_FLOATS[node.op_type], node["x"])


@handles("Elu", "Selu", to="Elu", dtypes=_FLOAT_NAMES)
def exponential_unit(node: Node, emit: Emitter) -> Tensor:
    """Elu and Selu, whose numbers attributes do not hold as doubles."""
    x = node["features"]
    if node.op_type == "Elu":
        return activations.elu(emit, x)
    if x.dtype != TensorProto.DOUBLE:
        return emit.op("Selu", x)
    return activations.selu(emit, x, emit.like(activations.SELU_ALPHA, x), emit.like(activations.SELU_SCALE, x))


@handles("Relu", to="Relu", dtypes=_NUMBERS)
def relu(node: Node, emit: Emitter) -> Tensor:
    """The larger of each and 0."""
    x = node["features"]
    return x if x.dtype in UNSIGNED_INTEGERS else emit.op("Relu", x)


@handles("Relu6", to="Clip", dtypes=_NUMBERS)
def relu_6(node: Node, emit: Emitter) -> Tensor:
    """Each, at least 0 and at most 6."""
    x = node["features"]
    return emit.op("Min", emit.op("Max", x, emit.like(0, x)), emit.like(6, x))


@handles("LeakyRelu", to="LeakyRelu", dtypes=_FLOAT_NAMES)
def leaky_relu(node: Node, emit: Emitter) -> Tensor:
    """Each, or where it is negative, alpha times it."""
    return activations.leaky_relu(emit, node["features"], float(node.attributes["alpha"]))


@handles("Softmax", "LogSoftmax", to="Softmax", dtypes=_FLOAT_NAMES,
         differs="a row with NaN or +inf is NaN; TensorFlow's kernels of oneDNN return 0 in it")  # fmt: skip
def softmax(node: Node, emit: Emitter) -> Tensor:
    """Softmax along the last axis."""
    return emit.op(node.op_type, node["logits"], axis=-1)


@handles(
    "Erfc",
    to="Erf",
    dtypes=("float16", "bfloat16", "float"),
    differs="computed as 1 - erf(x): an error of 1e-7 for float32, as large as the result itself where x > 4",
)
def erfc(node: Node, emit: Emitter) -> Tensor:
    """One minus the error function, as in Keras' gelu."""
    x = node["x"]
    if x.dtype == TensorProto.DOUBLE:
        raise Unsupported("ONNX Runtime has no error function of double")
    return emit.op("Sub", emit.like(1, x), emit.op("Erf", x))


handles("Rsqrt", inputs=("x",), to="Sqrt", dtypes=_FLOAT_NAMES)(lowered(rsqrt))
handles("Log1p", inputs=("x",), to="Log", dtypes=_FLOAT_NAMES)(lowered(logarithms.log1p))
handles("Expm1", inputs=("x",), to="Exp", dtypes=_FLOAT_NAMES)(lowered(logarithms.expm1))
handles("Softplus", inputs=("features",), to="Elu", dtypes=_FLOAT_NAMES)(lowered(activations.softplus))
handles("Softsign", inputs=("features",), to="Elu", dtypes=_FLOAT_NAMES)(lowered(activations.softsign))


handles("Atan2", inputs=("y", "x"), to="Atan", dtypes=_FLOAT_NAMES)(lowered(angles.angle))
