"""Numbers in calls of doubles, which torch's exporter rounds to float32: 0.1 becomes 0.10000000149.

Some are constants of their own, and are cast to doubles when they are rounded already; others are attributes of ONNX's
operators, which are floats. torch decomposes the functions that are written with such an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from onnx_sparse.converters.torch.lazy_imports import of_exporter, require

#: The functions that torch's exporter writes with an attribute, or with an operator that computes in float32 only.
WITH_ATTRIBUTES = (
    "aten.addcdiv.default",
    "aten.addcmul.default",
    "aten.celu.default",
    "aten.elu.default",
    "aten.hardsigmoid.default",
    "aten.hardswish.default",
    "aten.hardtanh.default",
    "aten.layer_norm.default",
    "aten.leaky_relu.default",
    "aten.native_layer_norm.default",
    "aten.selu.default",
    "aten.sinc.default",
    "aten.softplus.default",
    "aten.special_sinc.default",
)


@contextmanager
def numbers_of_doubles() -> Iterator[None]:
    """Let the exporter write a number that is given with doubles as a double."""
    import onnx_ir as ir

    building, write = of_exporter("_building", "_process_python_constants")
    double = ir.TensorType(ir.DataType.DOUBLE)

    def written(signature: Any, named: Any, types: Any, *rest: Any) -> Any:
        types_of_tensors = [_type(given) for given in named.values() if isinstance(given, ir.Value)]
        if double.dtype in types_of_tensors or signature.name == "Cast":  # then to any type
            numbers = [signature.params_map[name] for name, given in named.items() if isinstance(given, float)]
            own = {each.type_constraint: double for each in numbers if double in each.type_constraint.allowed_types}
            types = {**own, **types}
        return write(signature, named, types, *rest)

    with patch.object(building, "_process_python_constants", written):
        yield


def _type(value: Any) -> Any:
    """The element type of a value; what has none yet was made of another of that type."""
    while value.dtype is None and value.producer() is not None and value.producer().inputs:
        value = value.producer().inputs[0]
    return value.dtype


def of_doubles(program: Any, names: Any) -> bool:
    """Whether a program calls one of some functions with doubles."""
    torch = require("torch")
    calls = (node for node in program.graph.nodes if node.op == "call_function" and str(node.target) in names)
    given = (argument.meta.get("val") for node in calls for argument in node.all_input_nodes)
    return any(isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in given)
