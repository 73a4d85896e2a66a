"""The cases of each operator: a node, what its values are called, and the right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from support import node_families
from support.drawn_nodes import Drawn, i64, types_of
from support.random_nodes import reference

from atlas import judges
from atlas.values import Array, rows, specials
from onnx_sparse.schemas.element_types import element_type, numpy_dtype

#: Elements of a vector of one value: full registers and a rest.
_WIDTH = 19
_OPSET = 18
_NEWER = {"Gelu": 20, "Swish": 24, "GridSample": 20}


@dataclass(frozen=True)
class Case:
    """A node on some values.

    Attributes:
        drawn: The node.
        label: What the values are called.
        want: The right answers.
        is_sum: Whether an error is relative to the largest of the answers, as that of sums.
    """

    drawn: Drawn
    label: str
    want: Sequence[Array]
    is_sum: bool = False


def cases(op_type: str) -> Iterator[Case]:
    """The cases of an operator."""
    if op_type in FAMILIES:
        yield from FAMILIES[op_type](op_type)
    elif op_type in DRAWN:
        yield from _drawn(op_type)


def _types(op_type: str, opset: int = _OPSET) -> list[np.dtype[Any]]:
    # bfloat16 has no kernels of arithmetic, and is cast to float.
    found = [np.dtype(numpy_dtype(t)) for t in types_of(op_type, opset) if t != 8]
    return [dtype for dtype in found if dtype.name != "bfloat16"]


def _node(op_type: str, inputs: dict[str, Array], attributes: dict[str, Any] | None = None, **options: Any) -> Drawn:
    return Drawn(op_type, dict(inputs), attributes or {}, opset=_NEWER.get(op_type, _OPSET), **options)


def _unary(op_type: str) -> Iterator[Case]:
    judge = judges.FLOAT_FUNCTIONS.get(op_type) or judges.FUNCTIONS[op_type]
    for dtype in _types(op_type, _NEWER.get(op_type, _OPSET)):
        if op_type in judges.FLOAT_FUNCTIONS and dtype.kind in "iu":
            continue
        for name, value in specials(dtype).items():
            x = np.full(_WIDTH, value).astype(dtype)
            yield Case(_node(op_type, {"x": x}), f"{dtype} {name}", [judges.exact(judge, x)])
        x = np.zeros(0, dtype)
        yield Case(_node(op_type, {"x": x}), f"{dtype} empty", [judges.exact(judge, x)])


def _binary(op_type: str) -> Iterator[Case]:
    judge = judges.PAIRS[op_type]
    for dtype in _types(op_type):
        is_integer = dtype.kind in "iu"
        if (op_type == "BitShift" and dtype.kind == "i") or (op_type == "PRelu" and is_integer):
            continue  # which no source has
        attributes: dict[str, Any] = {"BitShift": {"direction": "LEFT"}, "Mod": {"fmod": int(not is_integer)}}.get(
            op_type, {}
        )
        for (one, a), (other, b) in product(specials(dtype).items(), repeat=2):
            if is_integer and (
                (op_type in ("Div", "Mod") and b == 0)
                or (op_type == "Pow" and not 0 <= b <= 3)
                or (op_type == "BitShift" and not 0 <= b < 8 * dtype.itemsize)
            ):
                continue  # which ONNX does not define
            x, y = (np.full(_WIDTH, value).astype(dtype) for value in (a, b))
            want = judges.exact(judge, x, y)
            yield Case(_node(op_type, {"x": x, "z": y}, attributes), f"{dtype} {one}, {other}", [want])


def _reduction(op_type: str) -> Iterator[Case]:
    judge = judges.REDUCTIONS[op_type]
    for dtype in _types(op_type):
        if dtype == np.bool_ or (op_type in judges.OF_FLOATS and dtype.kind in "iu"):
            continue
        given = rows(dtype) | {"empty": np.zeros((3, 0), dtype), "one": np.ones((1, 1), dtype)}
        for name, x in given.items():
            for axis in (1, 0):
                data = x if axis else np.ascontiguousarray(x.T)
                node = _node(op_type, {"x": data, "axes": i64(axis)}, {"keepdims": 0}, constants=("axes",))
                yield Case(node, f"{dtype} {name}, axis {axis}", [judges.exact(judge, x)])


def _place(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        for (name, x), last in product(rows(dtype).items(), (0, 1)):
            if last and name == "NaN":
                continue
            want = judges.places(x, largest=op_type == "ArgMax", last=bool(last))
            node = _node(op_type, {"x": x}, {"axis": 1, "keepdims": 0, "select_last_index": last})
            yield Case(node, f"{dtype} {name}{', last' * last}", [want.astype(np.int64)])


def _softmax(op_type: str) -> Iterator[Case]:
    judge = judges.softmax if op_type == "Softmax" else judges.log_softmax
    for dtype in _types(op_type):
        for name, x in rows(dtype).items():
            yield Case(_node(op_type, {"x": x}, {"axis": -1}), f"{dtype} {name}", [judges.exact(judge, x)])


def _top_k(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        for (name, x), largest in product(rows(dtype).items(), (1, 0)):
            keys = [sorted(range(len(row)), key=lambda k, row=row: _rank(row[k], largest)) for row in x]
            found = np.array(keys)[:, :4]
            node = _node(op_type, {"x": x, "k": i64(4)}, {"largest": largest}, constants=("k",), outputs=2)
            yield Case(node, f"{dtype} {name}, largest {largest}", [np.take_along_axis(x, found, 1), found])


def _rank(value: Any, largest: int) -> tuple[int, Any]:
    """Where a value comes; NaN exceeds all numbers, as in torch."""
    if value != value:
        return (0 if largest else 2, 0)
    number = value.item()
    return (1, -number if largest else number)


def _unique(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        given = {"empty": np.zeros(0, dtype)} | {name: x.ravel() for name, x in rows(dtype, 5).items()}
        for (name, x), is_sorted in product(given.items(), (1, 0)):
            if name == "inf and -inf":
                continue
            node = _node(op_type, {"x": x}, {"sorted": is_sorted}, outputs=4)
            yield Case(node, f"{dtype} {name}, sorted {is_sorted}", judges.unique(x, is_sorted=bool(is_sorted)))


def _slice(op_type: str) -> Iterator[Case]:
    for kind in (np.int64, np.int32):
        info = np.iinfo(kind)
        ends = {"0": 0, "1": 1, "-1": -1, "size": 4, "-size": -4, "beyond": 9, "before": -9, "largest": info.max,
                "least": info.min, "least + 1": info.min + 1, "2^31 - 1": 2**31 - 1}  # fmt: skip
        for k, (size, (one, start), (other, end), step) in enumerate(
            product((4, 1, 0), ends.items(), ends.items(), (1, -1, -2, info.max, info.min + 1))
        ):
            x = np.arange(size, dtype=np.float32)
            bounds = {name: np.array([n], kind) for name, n in zip("seat", (start, end, 0, step), strict=True)}
            for constants in ((), (*"seat",)) if k % 7 == 0 else ((),):  # each constant needs a session
                node = _node(op_type, {"x": x, **bounds}, constants=constants)
                label = f"{np.dtype(kind)} {size} [{one}:{other}:{step}], {'constant' if constants else 'fed'}"
                yield Case(node, label, [x[start:end:step]])


def _cumulative(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        for name, x in (rows(dtype) | {"empty": np.zeros((2, 0), dtype)}).items():
            node = _node(op_type, {"x": x, "axis": np.array(1)}, constants=("axis",))
            want = judges.exact(lambda x: x.cumsum(1, dtype=x.dtype), x)
            yield Case(node, f"{dtype} {name}", [want])


def _product(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        for name, x in rows(dtype).items():
            y = (np.arange(18).reshape(9, 2) % 3).astype(dtype)
            attributes = {"equation": "ij,jk->ik"} if op_type == "Einsum" else {}
            want = judges.exact(lambda x, y: (x[:, :, None] * y[None]).sum(1, dtype=x.dtype), x, y)
            yield Case(_node(op_type, {"a": x, "b": y}, attributes), f"{dtype} {name}", [want])


def _clip(op_type: str) -> Iterator[Case]:
    for dtype in _types(op_type):
        low, high = (np.array(n).astype(dtype) for n in (1, 5))
        for name, value in specials(dtype).items():
            x = np.full(_WIDTH, value).astype(dtype)
            yield Case(_node(op_type, {"x": x, "l": low, "h": high}), f"{dtype} {name}", [np.clip(x, low, high)])


def _where(op_type: str) -> Iterator[Case]:
    condition = np.arange(_WIDTH) % 3 == 0
    for dtype in [np.dtype(numpy_dtype(t)) for t in types_of("Where", _OPSET, "T") if t not in (8, 16)]:
        for (one, a), (other, b) in product(specials(dtype).items(), repeat=2):
            x, y = (np.full(_WIDTH, value).astype(dtype) for value in (a, b))
            want = np.where(condition, x, y)
            yield Case(_node(op_type, {"c": condition, "x": x, "z": y}), f"{dtype} {one}, {other}", [want])


def _cast(op_type: str) -> Iterator[Case]:
    kinds = _types(op_type)
    for dtype, to in product(kinds, kinds):
        for name, value in specials(dtype).items():
            x = np.full(_WIDTH, value).astype(dtype)
            if to.kind in "iu" and dtype.kind == "f" and not _fits(float(x[0]), to):
                continue  # which ONNX does not define
            with np.errstate(all="ignore"):
                want = x.astype(to)
            code = int(element_type(to))
            yield Case(_node(op_type, {"x": x}, {"to": code}), f"{dtype} {name} to {to}", [want])


def _fits(number: float, to: np.dtype[Any]) -> bool:
    return number == number and float(np.iinfo(to).min) <= number < float(np.iinfo(to).max)


def _grid_sample(op_type: str) -> Iterator[Case]:
    import torch

    image = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) % 7
    for name, value in specials(np.dtype(np.float32)).items():
        pair = np.array([[value, 0.1], [0.1, value], [value, value]], np.float32)
        for mode, padding, aligned in product(
            ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)
        ):
            grid = pair.reshape(1, 1, 3, 2)
            other = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
            tensors = [torch.from_numpy(array) for array in (image, grid)]
            want = torch.nn.functional.grid_sample(*tensors, other, padding, bool(aligned)).numpy()
            attributes = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
            node = _node(op_type, {"x": image, "g": grid}, attributes)
            yield Case(node, f"{name}, {mode}, {padding}, aligned {aligned}", [want])


FAMILIES: dict[str, Callable[[str], Iterator[Case]]] = {
    **dict.fromkeys((*judges.FLOAT_FUNCTIONS, *judges.FUNCTIONS), _unary),
    **dict.fromkeys(judges.PAIRS, _binary),
    **dict.fromkeys(judges.REDUCTIONS, _reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), _place),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("MatMul", "Gemm", "Einsum"), _product),
    "TopK": _top_k, "Unique": _unique, "Slice": _slice, "CumSum": _cumulative, "Clip": _clip, "Where": _where,
    "Cast": _cast, "GridSample": _grid_sample,
}  # fmt: skip

#: Operators whose nodes `support.node_families` draws; the data become special values, the judge is onnx's evaluator.
DRAWN: dict[str, Callable[[np.random.Generator], Drawn]] = {
    **dict.fromkeys(("Resize",), node_families.resize),
    **dict.fromkeys(
        ("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), node_families.pool
    ),
    **dict.fromkeys(("Conv", "ConvTranspose"), node_families.conv),
    "Pad": node_families.pad,
    "NonZero": node_families.elementwise,
    **dict.fromkeys(
        ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Expand", "Tile", "Transpose",
         "Concat", "Trilu", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Compress", "Split", "Reshape",
         "OneHot"),
        node_families.moving),
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN"), node_families.normalization),
    "EyeLike": node_families.products,
}  # fmt: skip
#: How many nodes are looked at, and for how many types and modes of an operator.
_TRIES, _FORMS = 2500, 24


def _drawn(op_type: str) -> Iterator[Case]:
    seen: set[tuple[Any, ...]] = set()
    for seed in range(_TRIES):
        rng = np.random.default_rng(seed)
        drawn = DRAWN[op_type](rng)
        if drawn.op_type != op_type:
            continue
        name = next(name for name, value in drawn.inputs.items() if value is not None and name not in drawn.constants)
        data = drawn.inputs[name]
        if op_type == "LRN" and data is not None and data.ndim != 4:
            continue  # of which the evaluator adds no squares
        if op_type == "OneHot":
            name, data = "v", drawn.inputs["v"]
        assert data is not None
        form = (data.dtype, drawn.attributes.get("mode"), drawn.attributes.get("reduction"))
        if data.dtype.kind in "OSU" or data.dtype.name == "bfloat16" or form in seen or len(seen) >= _FORMS:
            continue
        seen.add(form)
        mode = drawn.attributes.get("mode") or drawn.attributes.get("reduction") or ""
        for label, value in specials(data.dtype).items():
            changed = data.copy()
            changed.ravel()[:: max(1, changed.size // 3)] = np.array(value).astype(data.dtype)
            given = replace(drawn, inputs={**drawn.inputs, name: changed})
            try:
                want = _evaluated(given)
            except Exception:  # the evaluator has operators and types that it does not compute
                break
            yield Case(given, f"{data.dtype} {label}{', ' if mode else ''}{mode}", want, is_sum=True)


def _evaluated(drawn: Drawn) -> list[Array]:
    """The evaluator's answers; for half floats, in which it computes, those for floats."""
    if drawn.op_type == "OneHot":
        at, depth, pair = (np.asarray(drawn.inputs[name]) for name in ("at", "depth", "v"))
        return [np.where(at[:, None] == np.arange(depth), pair[1], pair[0])]
    if drawn.op_type == "MaxPool":  # of which the evaluator keeps or drops NaN by its place
        x = np.asarray(drawn.inputs["x"])
        windows = np.lib.stride_tricks.sliding_window_view(x, (1, 1, *drawn.attributes["kernel_shape"]))
        steps = tuple(slice(None, None, stride) for stride in drawn.attributes["strides"])
        return [windows[(slice(None), slice(None), *steps)].max(tuple(range(x.ndim, 2 * x.ndim)))]
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    inputs = {n: v.astype(single) if v is not None and v.dtype == half else v for n, v in drawn.inputs.items()}
    with np.errstate(all="ignore"):
        wide = replace(drawn, inputs=inputs)
        answers = map(np.asarray, reference(wide, wide.model(np.random.default_rng(0))))
        is_half = any(v is not None and v.dtype == half for v in drawn.inputs.values())
        return [a.astype(half) if is_half and a.dtype == single else a for a in answers]
