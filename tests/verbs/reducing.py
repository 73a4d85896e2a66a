"""Verbs along axes: reductions, running sums, Softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verbs.declaration import BFLOAT16, BOOL, FLOATS, INTEGERS, NUMBERS, Case, declare, written
from verbs.operands import axis, ends, numbers, shape, small
from verbs.roads import Array, Fixed

_ATB = (np.dtype("float16"), BFLOAT16)
Rng = np.random.Generator
DType = np.dtype[Any]


def _axes_draw(rng: Rng, dtype: DType) -> Case:
    """Small numbers, whose sums are exact; for extremes, `_ends_draw`."""
    dims = shape(rng, 1, 4)
    axes = sorted({int(a) for a in rng.integers(0, len(dims), 2)})
    if rng.random() < 0.3:
        axes = [a - len(dims) for a in axes]
    return Case([small(rng, dtype, dims)], {"axes": axes, "keep": bool(rng.integers(0, 2))})


def _filled_draw(rng: Rng, dtype: DType) -> Case:
    """As `_axes_draw`, without sizes of 0, of which there is no extreme."""
    case = _axes_draw(rng, dtype)
    dims = [max(size, 1) for size in case.operands[0].shape]
    special = ends(dtype)
    x = numbers(rng, dtype, dims)
    chosen = rng.random(dims) < 0.15
    x = np.where(chosen, rng.choice(special, dims), x).astype(dtype)
    return Case([x], case.attributes)


def _reduced(compute: Callable[..., Any]) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x = case.operands[0]
        made = compute(x, tuple(case["axes"]), case["keep"])
        return np.asarray(made).astype(x.dtype)

    return meaning


def _sum(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.sum(x.astype(np.int64 if x.dtype.kind in "iu" else np.float64), axis=axes, keepdims=keep)


def _product(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.prod(x.astype(np.int64 if x.dtype.kind in "iu" else np.float64), axis=axes, keepdims=keep)


def _mean(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    """That of integers is cut off."""
    total, count = _sum(x, axes, keep), np.sum(np.ones(x.shape, np.int64), axis=axes, keepdims=keep)
    if x.dtype.kind in "iu":
        count = np.maximum(count, 1)
        return np.where(total < 0, -(-total // count), total // count)
    return np.asarray(total / count)


def _most(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.max(x.astype(np.float64) if x.dtype.kind not in "iu" else x, axis=axes, keepdims=keep)


def _least(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.min(x.astype(np.float64) if x.dtype.kind not in "iu" else x, axis=axes, keepdims=keep)


def _with_axes(dtype: str) -> Callable[[Case], list[Any]]:
    return lambda case: [*case.operands, Fixed(np.array(case["axes"], dtype))]


def _keep(case: Case) -> dict[str, bool]:
    return {"keep_dims": case["keep"]}


def _without_nan(case: Case) -> Case:
    """OpenVINO does not say what extremes of NaN are."""
    x = case.operands[0]
    return Case([np.where(np.isnan(x.astype(np.float64)), 0, x).astype(x.dtype)], case.attributes)


#: Name, meaning, operands, types, TensorFlow, OpenVINO, GE, ATB's reduction.
for _name, _compute, _draw, _dtypes, _tf, _ov, _ge, _atb in (
    ("reduce_sum", _sum, _axes_draw, NUMBERS, "Sum", "ReduceSum-1", "ReduceSum", 3),
    ("reduce_product", _product, _axes_draw, NUMBERS, "Prod", "ReduceProd-1", "ReduceProd", None),
    ("reduce_max", _most, _filled_draw, NUMBERS, "Max", "ReduceMax-1", "ReduceMax", 1),
    ("reduce_min", _least, _filled_draw, NUMBERS, "Min", "ReduceMin-1", "ReduceMin", 2),
    ("reduce_mean", _mean, _filled_draw, FLOATS, "Mean", "ReduceMean-1", "ReduceMean", None),
    ("reduce_mean_of_integers", _mean, _axes_draw, INTEGERS, "Mean", "ReduceMean-1", "ReduceMean", None),
    ("reduce_all", lambda x, a, k: np.all(x, axis=a, keepdims=k), _axes_draw, BOOL, "All", "ReduceLogicalAnd-1",
     "ReduceAll", None),
    ("reduce_any", lambda x, a, k: np.any(x, axis=a, keepdims=k), _axes_draw, BOOL, "Any", "ReduceLogicalOr-1",
     "ReduceAny", None),
):  # fmt: skip
    declare(
        _name, _draw, _reduced(_compute), _dtypes, digits=64,
        tensorflow=written(_tf, _with_axes("int32"), _keep),
        openvino=written(_ov, lambda case: _with_axes("int64")(_without_nan(case)), _keep,
                         meaning=lambda case, f=_compute: _reduced(f)(_without_nan(case))),
        ge=written(_ge, _with_axes("int32"), _keep),
        atb=None if _atb is None else written(
            "Reduce", attributes=lambda case, kind=_atb: {"reduceType": kind, "axis": case["axes"]}, dtypes=_ATB,
            meaning=lambda case, f=_compute: _reduced(f)(Case(case.operands, {**case.attributes, "keep": False}))),
    )  # fmt: skip


def _norm_of_integers(case: Case) -> Array:
    """Cut off; the sum of squares wraps, and the root of a negative one is the least integer of 32 and 64 bits."""
    x = case.operands[0]
    total = np.sum(x * x, axis=tuple(case["axes"]), keepdims=case["keep"], dtype=x.dtype)
    undefined = np.iinfo(x.dtype).min if x.dtype.itemsize > 2 else 0
    return np.where(total < 0, undefined, np.sqrt(np.maximum(total, 0).astype(np.float64)).astype(x.dtype))


declare("norm_of_integers", _filled_draw, _norm_of_integers, INTEGERS,
        tensorflow=written("EuclideanNorm", _with_axes("int32"), _keep))  # fmt: skip


def _running_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3)
    return Case([small(rng, dtype, dims)], {"axis": axis(rng, len(dims)), "exclusive": bool(rng.integers(0, 2)),
                                            "reverse": bool(rng.integers(0, 2))})  # fmt: skip


def _running_sum(case: Case) -> Array:
    x, at = case.operands[0], case["axis"]
    wide = x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
    wide = np.flip(wide, at) if case["reverse"] else wide
    made = np.cumsum(wide, at) - (wide if case["exclusive"] else 0)
    return (np.flip(made, at) if case["reverse"] else made).astype(x.dtype)


def _flags(case: Case) -> dict[str, Any]:
    return {name: case[name] for name in ("exclusive", "reverse")}


def _with_axis(case: Case) -> list[Any]:
    return [*case.operands, Fixed(np.array(case["axis"], "int32"))]


declare("cumulative_sum", _running_draw, _running_sum, NUMBERS, tensorflow=written("Cumsum", _with_axis, _flags),
        openvino=written("CumSum-3", _with_axis, _flags), ge=written("Cumsum", _with_axis, _flags))  # fmt: skip


def _softmax_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3)
    return Case([numbers(rng, dtype, dims)])


def _softmax(case: Case) -> Array:
    x = case.operands[0].astype(np.float64)
    if not x.size:
        return case.operands[0]
    made = np.exp(x - x.max(-1, keepdims=True))
    return (made / made.sum(-1, keepdims=True)).astype(case.operands[0].dtype)


def _log_softmax(case: Case) -> Array:
    x = case.operands[0].astype(np.float64)
    if not x.size:
        return case.operands[0]
    x = x - x.max(-1, keepdims=True)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(case.operands[0].dtype)


def _last(case: Case) -> dict[str, Any]:
    return {"axis": case.operands[0].ndim - 1}


declare("softmax", _softmax_draw, _softmax, FLOATS, digits=64, tensorflow="Softmax",
        openvino=written("SoftMax-8", attributes=_last),
        ge=written("SoftmaxV2", attributes=lambda case: {"axes": [-1]}),
        atb=written("Softmax", attributes=lambda case: {"axes": [-1]}, dtypes=_ATB))  # fmt: skip
declare("log_softmax", _softmax_draw, _log_softmax, FLOATS, digits=64, near=8, tensorflow="LogSoftmax",
        openvino=written("LogSoftmax-5", attributes=_last),
        ge=written("LogSoftmaxV2", attributes=lambda case: {"axes": [-1]}))  # fmt: skip
