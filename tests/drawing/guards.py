"""What draws graphs around the faults of ONNX Runtime, for each anchor of each guard."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, parser
from support.random_nodes import FAMILIES, Array, Drawn, Rng, i64, pick, values

from drawing.declaration import draws
from onnx_sparse.converters.onnxruntime import guards as known

_WIDE = (0, 1, -1, 5, 2**31, 3 * 10**9, 2**32 - 1, 2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1, -(2**31))
_NARROW = (0, 1, -1, 2, 65537, 2**31 - 1, -(2**31), 123456789)
_REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
)
_SIZES = (0, 1, 1, 2, 3, 5)


def sizes(rng: Rng, rank: int, *, least: int = 0) -> list[int]:
    """Sizes among which 0 and 1 are frequent, and perhaps one of more elements than a vector register has."""
    found = [max(least, int(pick(rng, *_SIZES))) for _ in range(rank)]
    if rank and rng.random() < 0.2:
        found[int(rng.integers(rank))] = int(rng.integers(17, 70))
    return found


def integers(rng: Rng, dtype: Any, shape: Any) -> Array:
    """Integers that are small, or of many bits, or the ends of their type."""
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    if rng.random() < 0.3:
        return rng.integers(0 if kind.kind == "u" else -3, 4, shape).astype(kind)
    chosen = [number for number in (*_WIDE, *_NARROW, info.min, info.max) if info.min <= number <= info.max]
    return rng.choice(np.array(chosen, kind), tuple(shape))


def floats(rng: Rng, dtype: Any, shape: Any) -> Array:
    """Numbers, and perhaps NaN and infinities among them."""
    array = rng.standard_normal(tuple(shape))
    for value, share in ((np.nan, 0.15), (np.inf, 0.05), (-np.inf, 0.05)) if rng.random() < 0.6 else ():
        array = np.where(rng.random(tuple(shape)) < share, value, array)
    return array.astype(dtype)


def any_axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank)) if rank else 0


@draws(known.DivisionByMinusOne, "Div", "Mod")
def division(rng: Rng, op_type: str) -> Drawn:
    kind = np.dtype(pick(rng, "int32", "int64", "int64", "int8", "uint8"))
    shape = sizes(rng, int(rng.integers(0, 3)))
    x = integers(rng, kind, shape)
    y = integers(rng, kind, shape if rng.random() < 0.7 else shape[-1:])
    if kind.kind == "i" and rng.random() < 0.5:
        x = np.where(rng.random(x.shape) < 0.5, np.array(np.iinfo(kind).min, kind), x)
        y = np.where(rng.random(y.shape) < 0.7, np.array(-1, kind), y)
    y = np.where(y == 0, np.array(3, kind), y)
    attributes = {"fmod": 1} if op_type == "Mod" and rng.random() < 0.3 else {}
    return Drawn(op_type, {"x": x, "z": y}, attributes)


@draws(known.WideComparison, "Max", "Min", "Clip", "Relu", "Sign")
def comparison(rng: Rng, op_type: str) -> Drawn:
    kind = np.dtype(pick(rng, "int64", "int64", "int64", "int32", "uint64" if op_type != "Sign" else "int64"))
    kind = kind if op_type != "Relu" or kind.kind == "i" else np.dtype("int64")
    shape = sizes(rng, int(rng.integers(0, 3)))
    names = {"Max": ["x", "b", "c"][: int(rng.integers(1, 4))], "Clip": ["x", "low", "high"]}
    names["Min"] = names["Max"]
    inputs: dict[str, Any] = {}
    for name in names.get(op_type, ["x"]):
        inputs[name] = integers(rng, kind, [] if name in ("low", "high") else shape)
    if op_type == "Clip":
        inputs["low"], inputs["high"] = sorted((inputs["low"], inputs["high"]))
        for name in ("low", "high"):
            inputs[name] = None if rng.random() < 0.2 else np.asarray(inputs[name], kind)
        inputs = {name: value for name, value in inputs.items() if value is not None or name == "low"}
        if list(inputs) == ["x", "low"] and inputs["low"] is None:
            del inputs["low"]
    return Drawn(op_type, inputs)


def reduction(rng: Rng, op_type: str, x: Array, *, opset: int | None = None) -> Drawn:
    """A reduction of an array, along axes that are an input or an attribute, constant or not."""
    opset = opset or int(pick(rng, 13, 18, 20))
    if opset == 20 and op_type not in ("ReduceMax", "ReduceMin"):
        opset = 18
    chosen = [axis for axis in range(x.ndim) if rng.random() < 0.5]
    if rng.random() < 0.5:
        chosen = [axis - x.ndim for axis in chosen]
    attributes: dict[str, Any] = {"keepdims": int(pick(rng, 0, 1))}
    inputs: dict[str, Any] = {"x": x}
    if op_type == "ReduceSum" or opset >= 18:
        if rng.random() < 0.3 and op_type not in ("ReduceL1", "ReduceL2", "ReduceSumSquare"):
            attributes["noop_with_empty_axes"] = int(pick(rng, 0, 1))
        if chosen or rng.random() < 0.5:
            inputs["axes"] = i64(*chosen)
    elif chosen:
        attributes["axes"] = chosen
    is_constant = rng.random() < 0.7
    return Drawn(op_type, inputs, attributes, ("axes",) if is_constant else (), opset=opset, tolerance=1e-3)


@draws(known.WideExtreme, "ReduceMax", "ReduceMin")
@draws(known.IntegerSum, "ReduceSum", "ReduceL1", "ReduceSumSquare")
@draws(known.IntegerProduct)
def integer_reduction(rng: Rng, op_type: str) -> Drawn:
    names = {"ReduceMax": ("int64", "int32", "int8", "uint8"), "ReduceProd": ("int64", "int32")}
    names["ReduceMin"] = names["ReduceMax"]
    kind = pick(rng, "int64", *names.get(op_type, ("int32", "int64")))
    x = integers(rng, kind, sizes(rng, int(rng.integers(0, 4))))
    # In opsets without a scatter that multiplies, products stay as they are.
    return reduction(rng, op_type, x, opset=18 if op_type == "ReduceProd" else None)


@draws(known.ExtremeOfNaN, "ReduceMax", "ReduceMin")
def extreme_of_nan(rng: Rng, op_type: str) -> Drawn:
    x = floats(rng, pick(rng, "float32", "float32", "float64", "float16"), sizes(rng, int(rng.integers(0, 4))))
    return reduction(rng, op_type, x)


@draws(known.PlaceOfNaN, "ArgMax", "ArgMin")
def place_of_nan(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    x = floats(rng, pick(rng, "float32", "float32", "float64", "float16"), sizes(rng, rank, least=1))
    attributes = {"axis": any_axis(rng, rank), "keepdims": int(pick(rng, 0, 1))}
    if rng.random() < 0.2:
        return Drawn(op_type, {"x": np.nan_to_num(x)}, attributes | {"select_last_index": 1})
    return Drawn(op_type, {"x": x}, attributes)


@draws(known.SignOfNaN)
def sign_of_nan(rng: Rng, op_type: str) -> Drawn:
    return Drawn(op_type, {"x": floats(rng, pick(rng, "float16", "float32", "float64"), sizes(rng, 2))})


@draws(known.NegativeAxes, *_REDUCTIONS, "ArgMax", "ArgMin")
def empty_reduction(rng: Rng, op_type: str) -> Drawn:
    rank, is_place = int(rng.integers(1, 4)), op_type.startswith("Arg")
    x = rng.uniform(0.5, 2, sizes(rng, rank, least=0)).astype(np.float32)
    if is_place:
        axis = any_axis(rng, rank)
        shape = list(x.shape)
        shape[axis] = max(shape[axis], 1)
        attributes = {"axis": axis, "keepdims": int(pick(rng, 0, 1))}
        return Drawn(op_type, {"x": rng.random(shape).astype(np.float32)}, attributes)
    drawn = reduction(rng, op_type, x)
    axes = drawn.inputs.get("axes", drawn.attributes.get("axes"))
    every = axes is None or (len(axes) == 0 and not drawn.attributes.get("noop_with_empty_axes"))
    reduced = range(rank) if every else [int(axis) for axis in axes]
    if op_type not in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare") and any(
        x.shape[axis] == 0 for axis in reduced
    ):
        shape = [max(size, 1) if axis in [r % rank for r in reduced] else size for axis, size in enumerate(x.shape)]
        drawn.inputs["x"] = rng.uniform(0.5, 2, shape).astype(np.float32)
    return drawn


@draws(known.MeanOfNothing)
def mean(rng: Rng, op_type: str) -> Drawn:
    kind = pick(rng, "float32", "float32", "float64", "float16", "int32", "int64")
    rank = int(rng.integers(0, 4))
    least = 0 if np.dtype(kind).kind == "f" else 1
    x = (rng.integers(-2, 3, sizes(rng, rank, least=least)) * 60).astype(kind)
    return reduction(rng, op_type, x)


@draws(known.InferredSize)
def inferred_size(rng: Rng, op_type: str) -> Drawn:
    shape = sizes(rng, int(rng.integers(1, 4)))
    x = rng.standard_normal(shape).astype(np.float32)
    target = [*shape]
    if rng.random() < 0.5:
        target = target[::-1]
    if rng.random() < 0.5:
        target.insert(int(rng.integers(len(target) + 1)), 1)
    allow = int(pick(rng, 0, 0, 1))
    places = [k for k, size in enumerate(target) if size or (0 not in target[:k] + target[k + 1 :])]
    if places and rng.random() < 0.6 and not (allow and 0 in target):
        target[int(pick(rng, *places))] = -1
    if not allow:
        target = [
            0 if k < len(shape) and size == shape[k] and rng.random() < 0.4 else size for k, size in enumerate(target)
        ]
        bad = [k for k, size in enumerate(target) if size == 0 and (k >= len(shape) or shape[k])]
        is_bad = [k for k in bad if k >= len(shape)]
        if is_bad or (-1 in target and 0 in [shape[k] if t == 0 else t for k, t in enumerate(target) if t != -1]):
            return inferred_size(rng, op_type)
    attributes = {"allowzero": allow} if allow else {}
    return Drawn(op_type, {"x": x, "shape": i64(*target)}, attributes, opset=int(pick(rng, 14, 18)))


@draws(known.EqualParts)
def equal_parts(rng: Rng, op_type: str) -> Drawn:
    rank, count, opset = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(pick(rng, 13, 18))
    axis, shape = any_axis(rng, rank), sizes(rng, rank)
    shape[axis] = count * int(rng.integers(0, 3))
    x = rng.standard_normal(shape).astype(pick(rng, "float32", "int64", "float64"))
    attributes = {"axis": axis, "num_outputs": count} if opset >= 18 else {"axis": axis}
    return Drawn(op_type, {"x": x}, attributes, outputs=count, opset=opset)


@draws(known.EmptySlices)
def unique_slices(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    shape = sizes(rng, rank)
    axis = any_axis(rng, rank)
    shape[axis] = max(shape[axis], 1)
    kind = pick(rng, "float32", "int64", "float64", "int8")
    attributes = {"sorted": 1} | ({"axis": axis} if rng.random() < 0.8 else {})
    return Drawn(op_type, {"x": rng.integers(0, 2, shape).astype(kind)}, attributes)


@draws(known.DepthOfZero)
def depth(rng: Rng, op_type: str) -> Drawn:
    count = int(rng.integers(0, 4))
    rank = int(rng.integers(1, 3))
    at = rng.integers(-count, max(count, 1), sizes(rng, rank))
    vector = rng.random() < 0.5
    inputs = {
        "at": at,
        "depth": np.array([count] if vector else count),
        "v": np.array([0, 1], pick(rng, "float32", "int64")),
    }
    return Drawn(op_type, inputs, {"axis": int(rng.integers(-rank - 1, rank + 1))})


@draws(known.GatherOfStrings)
def gather_of_strings(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    shape, axis = [int(rng.integers(1, 4)) for _ in range(rank)], any_axis(rng, rank)
    x = values(rng, TensorProto.STRING, shape)
    at = rng.integers(-shape[axis], shape[axis], sizes(rng, int(rng.integers(0, 3))))
    return Drawn(
        op_type,
        {"x": x, "at": at.astype(pick(rng, "int32", "int64"))},
        {"axis": axis},
        ("x",) if rng.random() < 0.3 else (),
    )


def nodes_of(text: str) -> list[NodeProto]:
    """Nodes in onnx's text form."""
    return [*parser.parse_graph(f"g () => () {{ {text} }}").node]


def written(text: str, inputs: dict[str, Any], **options: Any) -> Drawn:
    """Nodes in onnx's text form, with operands for the names that none of them makes."""
    nodes = nodes_of(text)
    return Drawn(nodes[-1].op_type, inputs, written=nodes, **options)


@draws(known.GatherOfRange)
def gather_of_range(rng: Rng, op_type: str) -> Drawn:
    size = int(rng.integers(1, 6))
    x = rng.standard_normal([size, int(rng.integers(0, 3))] if rng.random() < 0.5 else [size]).astype(np.float32)
    start, end, step = (size - 1, -1, -1) if rng.random() < 0.6 else (0, size, int(pick(rng, 1, 2)))
    if rng.random() < 0.3:
        start, end, step = -1, -size - 1, -1
    inputs = {"start": np.array(start), "end": np.array(end), "step": np.array(step), "x": x}
    cast = rng.random() < 0.3
    text = "r = Range(start, end, step) " + ("p = Cast <to = 6> (r) y = Gather(x, p)" if cast else "y = Gather(x, r)")
    return written(text, inputs)


@draws(known.PlacesInScalar)
def places(rng: Rng, op_type: str) -> Drawn:
    x = rng.integers(0, 2, sizes(rng, int(rng.integers(0, 3)))).astype(
        pick(rng, "float32", "int64", "int32", "bool", "uint8")
    )
    return Drawn(op_type, {"x": x})


@draws(known.ReducingScatter)
def scatter(rng: Rng, op_type: str) -> Drawn:
    kind, reduction = pick(rng, "float32", "int64", "int32", "float64"), pick(rng, "add", "mul", "max", "min", "none")
    rows, width = int(rng.integers(1, 4)), int(pick(rng, 0, 1, 3))
    count = int(pick(rng, 0, 1, 5, 2000)) if reduction != "none" else min(rows, 1)
    ids = rng.integers(-rows, rows, (count, 1)) if reduction != "none" else np.arange(count)[:, None]
    updates = rng.integers(-2, 3, (count, width)) if reduction != "mul" else rng.choice([-1, 1], (count, width))
    attributes = {"reduction": reduction} if reduction != "none" else {}
    inputs = {"x": rng.integers(-2, 3, (rows, width)).astype(kind), "at": ids, "u": updates.astype(kind)}
    return Drawn(op_type, inputs, attributes)


@draws(known.OutputOfBranch)
def branch(rng: Rng, op_type: str) -> Drawn:
    text = {
        "one twice": "{n}_p = Neg(x)",
        "from outside": "",
        "a constant": "{n}_p = Constant <value = float[1] {{2.0}}> ()",
        "two": "{n}_p = Neg(x) {n}_q = Abs(x)",
    }
    kind = pick(rng, *text)
    attributes = {}
    for name in ("then_branch", "else_branch"):
        chosen = kind if rng.random() < 0.7 else "two"
        outputs = [f"{name}_p", f"{name}_q" if chosen == "two" else f"{name}_p"]
        if chosen == "from outside":
            outputs = ["x", "x"] if rng.random() < 0.5 else ["x", f"{name}_p"]
            nodes = nodes_of(f"{name}_p = Abs(x)") if outputs[1] != "x" else []
        else:
            nodes = nodes_of(text[chosen].format(n=name))
        results = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None) for output in outputs]
        attributes[name] = helper.make_graph(nodes, name, [], results)
    inputs = {"c": np.array(rng.random() < 0.5), "x": rng.standard_normal(sizes(rng, 1)).astype(np.float32)}
    nodes = [helper.make_node("If", ["c"], ["p", "q"], **attributes)]
    return Drawn(op_type, inputs, written=nodes)


@draws(known.TransposedProduct)
@draws(known.EmptyBatch)
def product(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(2, 5))
    batch = sizes(rng, rank - 2)
    rows, inner, columns = (int(pick(rng, 0, 1, 2, 3)) for _ in range(3))
    shapes = [[*batch, rows, inner], [*batch, inner, columns]]
    for k in range(2):
        if rng.random() < 0.4:
            shapes[k] = [1 if rng.random() < 0.5 else n for n in shapes[k][:-2]] + shapes[k][-2:]
        if rng.random() < 0.3:
            shapes[k] = shapes[k][int(rng.integers(0, rank - 1)) :]
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    if rng.random() < 0.5:
        return Drawn(op_type, {"a": arrays[0], "b": arrays[1]})
    side = int(rng.integers(2))
    order = [int(axis) for axis in rng.permutation(arrays[side].ndim)]
    if rng.random() < 0.6:
        order = [*range(arrays[side].ndim - 2), arrays[side].ndim - 1, arrays[side].ndim - 2]
    turned = arrays[side].transpose(np.argsort(order))
    names = ["t" if k == side else "ab"[k] for k in range(2)]
    given = {"ab"[k]: turned if k == side else arrays[k] for k in range(2)}
    return written(f"t = Transpose <perm = {order}> ({'ab'[side]}) y = MatMul({names[0]}, {names[1]})", given)


@draws(known.EmptyIntegerProduct)
def integer_product(rng: Rng, op_type: str) -> Drawn:
    rows, inner, columns = (int(pick(rng, 0, 1, 2, 17)) for _ in range(3))
    one, other = pick(rng, "uint8", "int8"), pick(rng, "uint8", "int8")
    inputs: dict[str, Any] = {
        "a": rng.integers(0, 4, (rows, inner)).astype(one),
        "b": rng.integers(0, 4, (inner, columns)).astype(other),
    }
    if rng.random() < 0.5:
        inputs |= {"az": np.array(1, one), "bz": np.array(2, other)}
    return Drawn(op_type, inputs)


_EQUATIONS = (
    *("bhd,bmd->bhmd", "bij,bjk->bik", "ij,kj->ik", "bid,bjd->bij", "bi,bi->b", "i,j->ij", "bnd,de->bne", "ij->j"),
    *("bhqd,bhkd->bhqk", "ij,jk->ki", "ij->ji", "...ij,jk->...ik", "ij,ij->", "ijk,ik->j", "bi,bj,bk->bijk"),
)


@draws(known.EmptyEinsum)
def einsum(rng: Rng, op_type: str) -> Drawn:
    equation = pick(rng, *_EQUATIONS)
    letters = {letter: int(pick(rng, 0, 1, 2, 3)) for letter in set(equation) if letter.isalpha()}
    kind = pick(rng, "float32", "float64", "int32", "int64")
    inputs = {}
    for k, term in enumerate(equation.partition("->")[0].split(",")):
        batch = [2] if "..." in term else []
        shape = batch + [letters[letter] for letter in term if letter.isalpha()]
        inputs[f"x{k}"] = rng.integers(-2, 3, shape).astype(kind)
    return Drawn(op_type, inputs, {"equation": equation})


@draws(known.NoRows, "LSTM", "GRU", "RNN")
@draws(known.BatchFirst, "LSTM", "GRU", "RNN")
def recurrent(rng: Rng, op_type: str) -> Drawn:
    gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type], int(rng.integers(1, 3))
    steps, rows, units = int(pick(rng, 0, 1, 2)), int(pick(rng, 0, 1, 3)), 2
    layout, opset = int(pick(rng, 0, 0, 1)), int(pick(rng, 14, 22))
    both = 1 if layout else both
    if not steps and op_type == "LSTM":
        steps = 1
    kind = pick(rng, "float32", "float32", "float64")
    x = rng.standard_normal([rows, steps, 3] if layout else [steps, rows, 3]).astype(kind)
    w, r = (rng.standard_normal([both, gates * units, n]).astype(kind) for n in (3, units))
    inputs: dict[str, Any] = {"x": x, "w": w, "r": r}
    attributes = {"hidden_size": units, "layout": layout}
    attributes |= {"direction": "bidirectional"} if both == 2 else {}
    if rng.random() < 0.4:
        state = rng.standard_normal([rows, both, units] if layout else [both, rows, units]).astype(kind)
        inputs |= {"b": np.zeros([both, 2 * gates * units], kind), "lens": None, "h": state}
    return Drawn(op_type, inputs, attributes, ("w", "r", "b"), outputs=2, opset=opset, tolerance=1e-3)


@draws(known.ShortInput, "AveragePool", "LpPool", "MaxPool")
def short_input(rng: Rng, op_type: str) -> Drawn:
    spatial = int(rng.integers(1, 3))
    kernel, stride = int(pick(rng, 1, 2, 3)), int(pick(rng, 1, 2, 3))
    x = rng.integers(1, 5, [1, 2, *(int(rng.integers(kernel, 7)) for _ in range(spatial))]).astype(np.float32)
    attributes: dict[str, Any] = {"kernel_shape": [kernel] * spatial, "strides": [stride] * spatial}
    if op_type == "LpPool":
        attributes["p"] = 2
    return Drawn(op_type, {"x": x}, attributes, opset=int(pick(rng, 18, 22)))


@draws(known.TransformOfAnyLength, "DFT", "STFT")
def transform(rng: Rng, op_type: str) -> Drawn:
    length, kind = int(pick(rng, 1, 2, 5, 8, 12)), pick(rng, "float32", "float64", "float16")
    if op_type == "DFT":
        x = rng.standard_normal([2, length, int(pick(rng, 1, 2))]).astype(kind)
        attributes: dict[str, Any] = {"axis": 1} if rng.random() < 0.5 else {}
        return Drawn(op_type, {"x": x}, attributes, opset=17, tolerance=1e-2)
    signal = rng.standard_normal([1, length + 6, 1]).astype("float32" if kind == "float16" else kind)
    window = np.ones(length, signal.dtype)
    return Drawn(op_type, {"x": signal, "step": np.array(2), "w": window}, opset=17, tolerance=1e-2)


@draws(known.VarianceOfGroups)
def groups(rng: Rng, op_type: str) -> Drawn:
    opset, count = int(pick(rng, 18, 21)), int(pick(rng, 1, 2))
    channels = 2 * count
    x = rng.standard_normal([2, channels, *sizes(rng, int(rng.integers(1, 3)), least=2)])
    scale = rng.standard_normal(channels if opset >= 21 else count)
    kind = pick(rng, "float32", "float64")
    given = {"x": x.astype(kind), "s": scale.astype(kind), "b": scale.astype(kind)}
    return Drawn(op_type, given, {"num_groups": count, "epsilon": 1e-3}, opset=opset, tolerance=1e-3)


@draws(known.RankOfImage)
def image(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(3, 6))
    x = rng.standard_normal([2, 3, *(int(rng.integers(1, 4)) for _ in range(rank - 2))]).astype(np.float32)
    if op_type == "InstanceNormalization":
        return Drawn(op_type, {"x": x, "s": x[0, :, *[0] * (rank - 2)], "b": np.zeros(3, np.float32)}, tolerance=1e-2)
    attributes = {"LRN": {"size": 3}, "GlobalLpPool": {"p": int(pick(rng, 1, 2))}}.get(op_type, {})
    return Drawn(op_type, {"x": x}, attributes, tolerance=1e-2)


def _family(name: str) -> Any:
    return next(family for family in FAMILIES if family.__name__ == name)


@draws(known.ResizedAxes)
@draws(known.NearestOfOtherTypes)
@draws(known.NegativeResizedAxes)
def resized(rng: Rng, op_type: str) -> Drawn:
    return _family("resize")(rng)


@draws(known.OneHotTypes)
@draws(known.RearrangedTypes)
@draws(known.SumOfIntegers)
@draws(known.GemmOfIntegers)
@draws(known.MissingKernel)
def of_family(rng: Rng, op_type: str) -> Drawn:
    """A node of the operator as the families of nodes draw it, of any type."""
    from drawing.operators import draw

    return draw(rng, op_type)


_STEPS = {
    "copy": "s = Identity(state) e = Identity(element)",
    "sum": "s = Add(state, element) e = Identity(s)",
    "mixed": "s = Sub(element, state) e = Mul(s, element)",
}


@draws(known.ScanAxes)
@draws(known.ScanOfNoSteps)
def scan(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    shape, axis, out = sizes(rng, rank), int(rng.integers(rank)), int(rng.integers(rank))
    x = rng.integers(-2, 3, shape).astype(np.float32)
    element = [size for k, size in enumerate(shape) if k != axis]
    state = rng.integers(-2, 3, element).astype(np.float32)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("state", "element")]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("s", "e")]
    body = helper.make_graph(nodes_of(_STEPS[pick(rng, *_STEPS)]), "step", given, made)
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if rng.random() < 0.6:
        attributes |= {"scan_input_axes": [axis], "scan_output_axes": [out]}
    else:
        x, state = (x, state) if axis == 0 else (np.moveaxis(x, axis, 0).copy(), state)
    return Drawn(op_type, {"state": state, "x": x}, attributes, outputs=2)


@draws(known.SmallSigmoid)
@draws(known.SmallSwish)
@draws(known.SmallSoftplus)
@draws(known.LogSoftmaxOfDouble)
def of_small_results(rng: Rng, op_type: str) -> Drawn:
    """Numbers of which the result is small, so that a logarithm of it or a quotient by it matters."""
    opsets = {"Swish": 24, "Mish": 18}
    kind = pick(rng, "float32", "float64")
    is_judged = op_type != "LogSoftmax"  # of which the evaluator loses small powers
    scale = float(pick(rng, 1, 10, 40 if is_judged else 5))
    x = (rng.standard_normal(sizes(rng, int(rng.integers(1, 3)), least=1)) * scale).astype(kind)
    attributes = {} if is_judged else {"axis": -1}
    return Drawn(op_type, {"x": x}, attributes, opset=opsets.get(op_type, 18))


@draws(known.LogSumExpOfHalf)
def powers_of_halves(rng: Rng, op_type: str) -> Drawn:
    x = (rng.standard_normal(sizes(rng, 2, least=1)) * float(pick(rng, 1, 20, 1000))).astype(np.float16)
    return reduction(rng, op_type, x, opset=18)


@draws(known.LimitsOfRange)
def limits_of_range(rng: Rng, op_type: str) -> Drawn:
    """Limits that are scalars, or vectors of one element."""
    limits = {"start": 0, "limit": int(rng.integers(0, 5)), "delta": 1}
    return Drawn(op_type, {name: np.int64(n) if rng.random() < 0.5 else i64(n) for name, n in limits.items()})
