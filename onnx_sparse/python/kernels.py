"""The reference functions as kernels of onnxruntime-extensions, with an overload for every element type.

onnxruntime-extensions calls a kernel from C++ that no exception may pass, checks no dtype, and copies results through
Python lists. The wrapper here works around all three: a kernel never raises, its dtypes are asserted, and its arrays
are returned as arrays.

Operators that it cannot pass their inputs to have no kernels; `onnx_sparse.InferenceSession` says why.

The kernels are declared in two domains. In the public one they serve any `onnxruntime.InferenceSession`; no error can
be raised there, so an error ends the process with its message rather than continue with wrong numbers. In the guarded
one, which only `onnx_sparse.InferenceSession` uses, the error is kept for the run that it belongs to.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from onnx import TensorProto

from onnx_sparse.python.guard import active_run
from onnx_sparse.python.passed_text import require_text
from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import HALF_FLOATS, DType, Op, dtype_name, element_type, numpy_dtype
from onnx_sparse.schemas.validation import Dimensions

#: The domain to which `onnx_sparse.InferenceSession` moves the domain's nodes.
GUARDED_DOMAIN = "onnx_sparse.guarded"

#: The attribute that a node has only in the guarded domain: the half float that float32 carries, or 0.
CARRIED_ATTRIBUTE = "carried_type"

Array = np.ndarray[Any, Any]

_declared: set[str] = set()
_lock = threading.Lock()


def declare(domain: str) -> None:
    """Declare all kernels of a domain to onnxruntime-extensions, once in the process.

    All at once, because declaring another kernel of a domain moves the memory that sessions with the domain point to.

    Args:
        domain: The public domain or the guarded one.
    """
    make = _public_kernel if domain == DOMAIN else _guarded_kernel
    with _lock:
        if domain in _declared:
            return
        for op in OPS.values():
            if op.no_python_kernels:
                continue
            for binding in op.type_bindings():
                # onnxruntime-extensions ends the process on a half float; without a kernel the model fails to load.
                if not any(t in HALF_FLOATS for t in binding.values()):
                    _declare_kernel(domain, op, binding, make(op, binding))
        _declared.add(domain)


class _ArrayResult:
    """An output for onnxruntime-extensions, which asks for `shape` and `flatten().tolist()`.

    When `tolist` returns the array itself, its memory is copied; a list of ten million Python objects takes seconds.
    """

    def __init__(self, array: Array) -> None:
        self.shape = array.shape
        self._array = array

    def flatten(self) -> _ArrayResult:
        return self

    def tolist(self) -> Any:
        if self._array.dtype == object:
            return self._array.reshape(-1).tolist()
        return np.require(self._array, requirements="C")


def _declare_kernel(domain: str, op: Op, binding: Mapping[str, DType], kernel: Callable[..., Any]) -> None:
    from onnxruntime_extensions import PyCustomOpDef, onnx_op

    def element(type_name: str) -> int:
        return int(getattr(PyCustomOpDef, f"dt_{dtype_name(op.bind(type_name, binding))}"))

    inputs = [element(i.type) for i in op.inputs]
    attributes = {a.name: PyCustomOpDef.dt_string for a in op.attributes}
    if domain == GUARDED_DOMAIN:
        inputs.append(PyCustomOpDef.dt_int64)  # the run's number
        attributes[CARRIED_ATTRIBUTE] = PyCustomOpDef.dt_int64
    onnx_op(
        op_type=f"{domain}::{op.name}",
        inputs=inputs,
        outputs=[element(o.type) for o in op.outputs],
        attrs=attributes,
    )(kernel)


def _public_kernel(op: Op, binding: Mapping[str, DType]) -> Callable[..., Any]:
    def kernel(*inputs: Array, **attributes: str) -> Any:
        try:
            outputs = evaluate(op, inputs, attributes)
            _assert_dtypes(op, binding, outputs)
            _require_text(op, outputs)
            return _results(outputs)
        except BaseException as error:
            _end_process(op, error)

    return kernel


def _guarded_kernel(op: Op, binding: Mapping[str, DType]) -> Callable[..., Any]:
    def kernel(*inputs_and_number: Array, carried_type: int, **attributes: str) -> Any:
        *inputs, number = inputs_and_number
        try:
            run = active_run(int(number))
        except KeyError as error:
            _end_process(op, error)
        if run.error is None:
            try:
                outputs = _evaluate_carried(op, inputs, attributes, carried_type)
                _assert_dtypes(op, binding, outputs)
                _require_text(op, outputs)
                return _results(outputs)
            except BaseException as error:
                run.fail(error)
        return _results(_placeholders(op, binding, inputs, attributes))

    return kernel


def _evaluate_carried(
    op: Op, inputs: Sequence[Array], attributes: dict[str, str], carried_type: DType
) -> tuple[Array, ...]:
    """Evaluate the operator, in the half float where float32 carries one."""
    if not carried_type:
        return evaluate(op, inputs, attributes)
    half = numpy_dtype(carried_type)
    narrowed = [a.astype(half) if i.type == "T" else a for i, a in zip(op.inputs, inputs, strict=True)]
    outputs = evaluate(op, narrowed, attributes)
    return tuple(a.astype(np.float32) if a.dtype == half else a for a in outputs)


def _assert_dtypes(op: Op, binding: Mapping[str, DType], outputs: tuple[Array, ...]) -> None:
    for declared, array in zip(op.outputs, outputs, strict=True):
        expected = op.bind(declared.type, binding)
        if element_type(array.dtype) != expected or (expected == TensorProto.STRING and array.dtype != object):
            raise TypeError(f"{op.name}: output {declared.name} is {array.dtype}; expected {dtype_name(expected)}")


def _require_text(op: Op, outputs: tuple[Array, ...]) -> None:
    for declared, array in zip(op.outputs, outputs, strict=True):
        if array.dtype == object:
            require_text(f"{op.name}: {declared.name}", array.reshape(-1))


def _placeholders(
    op: Op, binding: Mapping[str, DType], inputs: Sequence[Array], attributes: Mapping[str, str]
) -> tuple[Array, ...]:
    """Outputs for a failed run, in the declared shapes as far as they are known, because ONNX Runtime checks shapes."""
    named = {i.name: array for i, array in zip(op.inputs, inputs, strict=False)}
    try:
        dims = Dimensions(op, {name: list(array.shape) for name, array in named.items()}, named)
        resolved = [dims.resolve(output.shape_with(attributes)) or [0] for output in op.outputs]
        shapes = [[d if isinstance(d, int) and 0 <= d < 1000 else 0 for d in shape] for shape in resolved]
        shapes = [shape if math.prod(shape) < 10**6 else [0] * len(shape) for shape in shapes]
    except (ValueError, IndexError):
        shapes = [[0]] * len(op.outputs)
    dtypes = [numpy_dtype(op.bind(output.type, binding)) for output in op.outputs]
    return tuple(
        np.full(shape, "" if dtype.kind == "O" else 0, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
    )


def _results(outputs: tuple[Array, ...]) -> Any:
    results = tuple(_ArrayResult(array) for array in outputs)
    return results if len(results) > 1 else results[0]


def _end_process(op: Op, error: BaseException) -> NoReturn:
    message = str(error) if str(error).startswith(op.name) else f"{op.name}: {type(error).__name__}: {error}"
    hint = "(a Python kernel cannot pass its error to ONNX Runtime; onnx_sparse.InferenceSession raises it instead)"
    sys.stdout.flush()
    os.write(2, f"onnx_sparse: {message}\n{hint}\n".encode(errors="replace"))
    os.abort()
