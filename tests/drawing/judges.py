"""The right answers of operators of which onnx's evaluator has none or a wrong one; `judge` names what it asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import onnxruntime
from onnx.reference import ReferenceEvaluator
from support.drawn_nodes import Array, Drawn
from support.random_nodes import reference

from onnx_sparse import InferenceSession
from onnx_sparse.schemas import DOMAIN

_INTEGERS = "iu"
_RANDOM = ("Random", "Bernoulli", "Multinomial")


def _quotient(drawn: Drawn) -> Array:
    """Division that truncates, and wraps for the least integer by -1."""
    one, other = drawn.given().values()
    if one.dtype.kind not in _INTEGERS:
        return one / other
    with np.errstate(all="ignore"):
        negative = np.where(other == -1, np.negative(one), one)
        safe = np.where(other == -1, 1, other).astype(other.dtype)
        return (negative - np.fmod(negative, safe)) // safe


def _remainder(drawn: Drawn) -> Array:
    one, other = drawn.given().values()
    compute = np.fmod if drawn.attributes.get("fmod") else np.mod
    if one.dtype.kind not in _INTEGERS:
        return compute(one, other)
    safe = np.where(other == -1, 1, other).astype(other.dtype)
    return compute(one, safe)


def _reduced(drawn: Drawn) -> Array:
    """Reductions of integers wrap; the extremes of nothing are the ends of the type."""
    data = drawn.given()["x"]
    axes = drawn.given().get("axes", drawn.attributes.get("axes"))
    keep = bool(drawn.attributes.get("keepdims", 1))
    given = None if axes is None or len(axes) == 0 else tuple(int(axis) for axis in axes)
    if (axes is None or len(axes) == 0) and drawn.attributes.get("noop_with_empty_axes"):
        given = ()
    options = {"axis": given, "keepdims": keep}
    with np.errstate(all="ignore"):
        if drawn.op_type in ("ReduceMax", "ReduceMin"):
            least = drawn.op_type == "ReduceMax"
            if data.dtype.kind in _INTEGERS:
                limits = np.iinfo(data.dtype)
                start = limits.min if least else limits.max
            else:
                start = -np.inf if least else np.inf
            return np.asarray((np.max if least else np.min)(data, initial=np.array(start, data.dtype), **options))
        if drawn.op_type == "ReduceProd":
            return np.asarray(np.prod(data, dtype=data.dtype, **options))
        data = {"ReduceL1": np.abs, "ReduceSumSquare": np.square}.get(drawn.op_type, np.asarray)(data)
        return np.asarray(np.sum(data, dtype=data.dtype, **options))


def _place(drawn: Drawn) -> Array:
    """The place of the first extreme, or of the last one; a NaN is one."""
    data, axis = drawn.given()["x"], drawn.attributes.get("axis", 0)
    find = np.argmax if drawn.op_type == "ArgMax" else np.argmin
    if drawn.attributes.get("select_last_index"):
        return (
            data.shape[axis] - 1 - find(np.flip(data, axis), axis, keepdims=bool(drawn.attributes.get("keepdims", 1)))
        )
    return find(data, axis, keepdims=bool(drawn.attributes.get("keepdims", 1)))


def _scanned(drawn: Drawn) -> list[Array]:
    """A Scan of one state and one sequence, step by step: the evaluator has no other axes than the first, and no Scan
    of no steps, of which the results have the sizes of a step's.
    """
    state, x = drawn.given().values()
    (axis,), (out,) = (drawn.attributes.get(f"scan_{side}_axes", [0]) for side in ("input", "output"))
    step = ReferenceEvaluator(drawn.attributes["body"], opsets={"": drawn.opset})
    steps = [*np.moveaxis(x, axis, 0)]
    # A step of zeros says what the sizes of no results are.
    results = [step.run(None, {"state": state, "element": np.zeros(np.delete(x.shape, axis), x.dtype)})[1]] * (
        not steps
    )
    for element in steps:
        state, result = step.run(None, {"state": state, "element": element})
        results.append(result)
    return [state, np.moveaxis(np.stack(results)[: len(steps)], 0, out)]


def _unique(drawn: Drawn) -> Array:
    """Slices in the order of their first occurrence, or sorted: the evaluator sorts them always."""
    x, axis = drawn.given()["x"], drawn.attributes.get("axis")
    found, first = np.unique(x, return_index=True, axis=axis)
    return found if drawn.attributes.get("sorted", 1) else np.take(found, np.argsort(first), axis or 0)


def _pooled(drawn: Drawn) -> Array:
    """Windows one by one: the evaluator has wrong sizes of dilated windows, and of `ceil_mode`."""
    x, given = drawn.given()["x"], drawn.attributes
    kernel, rank = given["kernel_shape"], len(given["kernel_shape"])
    strides, dilations = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    pads, mode = given.get("pads", [0] * 2 * rank), given.get("auto_pad", "NOTSET")
    windows: list[list[list[int]]] = []
    for k, size in enumerate(x.shape[2:]):
        span, begin = dilations[k] * (kernel[k] - 1) + 1, pads[k]
        over = size + pads[k] + pads[k + rank] - span
        count = (-(-over // strides[k]) if given.get("ceil_mode") else over // strides[k]) + 1
        if given.get("ceil_mode") and (count - 1) * strides[k] >= size + pads[k]:
            count -= 1  # a window that begins beyond the padding before and the input
        if mode.startswith("SAME"):
            count = -(-size // strides[k])
            begin = max((count - 1) * strides[k] + span - size, 0) // 2
        starts = [place * strides[k] - begin for place in range(max(count, 0))]
        windows.append([[at for at in range(s, s + span, dilations[k]) if 0 <= at < size] for s in starts])
    reduce = {"MaxPool": np.max, "AveragePool": np.mean, "LpPool": lambda v, axis: np.sqrt(np.square(v).sum(axis))}
    made = np.empty([*x.shape[:2], *map(len, windows)], x.dtype)
    for place in itertools.product(*(range(len(each)) for each in windows)):
        cut = x[:, :, *np.ix_(*(each[k] for each, k in zip(windows, place, strict=True)))]
        made[:, :, *place] = reduce[drawn.op_type](cut.reshape(*x.shape[:2], -1), -1)
    return made


#: The judges of integers, and of operators with a NaN.
_OWN: dict[str, Callable[[Drawn], Array]] = {
    "Div": _quotient,
    "Mod": _remainder,
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"), _reduced),
    "Unique": _unique,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pooled),
    "ArgMax": _place,
    "ArgMin": _place,
}


def judge(drawn: Drawn) -> Sequence[Array]:
    """The right answers of drawn nodes: numpy's for some operators that stand alone, else those of onnx's
    evaluator; of the domain's operators, those of their kernels, without any optimization.
    """
    if drawn.op_type.startswith(_RANDOM):
        raise ValueError("it draws at random")
    if drawn.op_type == "Scan" and not drawn.written:
        return _scanned(drawn)
    own = _OWN.get(drawn.op_type)
    if own is not None and not drawn.written:
        return [own(drawn)]
    model = drawn.model(np.random.default_rng(0))
    if any(node.domain == DOMAIN for node in drawn.nodes()):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return InferenceSession(model, options).run(None, drawn.feeds())
    return reference(drawn, model)
