"""What draws graphs around the faults of ONNX Runtime in shapes, types and forms, for each anchor of each guard."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from support.drawn_nodes import Drawn, Rng, i64, pick, values
from support.node_families import resize

from drawing.declaration import draws
from drawing.operands import any_axis, nodes_of, reduction, sizes, written
from drawing.operators import draw, transform
from onnx_sparse.converters.onnxruntime import guards as known

_REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
)

draws(known.TransformOfAnyLength, "DFT", "STFT")(transform)


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
    if rng.random() < 0.3:
        ends = np.sort(rng.integers(0, shape[axis] + 1, count - 1))
        given = {"x": x, "split": np.diff([0, *ends, shape[axis]]).astype(np.int64)}
        return Drawn(op_type, given, {"axis": axis}, outputs=count, opset=opset)
    attributes = {"axis": axis, "num_outputs": count} if opset >= 18 else {"axis": axis}
    return Drawn(op_type, {"x": x}, attributes, outputs=count, opset=opset)


@draws(known.EmptySlices)
def unique_slices(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    shape = sizes(rng, rank)
    axis = any_axis(rng, rank)
    shape[axis] = max(shape[axis], 1)
    kind = pick(rng, "float32", "int64", "float64", "int8")
    attributes = {"sorted": int(pick(rng, 0, 1, 1))} | ({"axis": axis} if rng.random() < 0.8 else {})
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


@draws(known.GatherOfRange)
def gather_of_range(rng: Rng, op_type: str) -> Drawn:
    size = int(rng.integers(1, 6))
    x = rng.standard_normal([size, int(rng.integers(0, 3))] if rng.random() < 0.5 else [size]).astype(np.float32)
    axis = int(rng.integers(-x.ndim, x.ndim)) if rng.random() < 0.5 else 0
    x = np.moveaxis(x, 0, axis)
    start, end, step = (size - 1, -1, -1) if rng.random() < 0.6 else (0, size, int(pick(rng, 1, 2)))
    if rng.random() < 0.3:
        start, end, step = -1, -size - 1, -1
    inputs = {"start": np.array(start), "end": np.array(end), "step": np.array(step), "x": x}
    cast = rng.random() < 0.3
    places = "p = Cast <to = 6> (r)" if cast else "p = Identity(r)" if rng.random() < 0.3 else ""
    gather = f"y = Gather{f' <axis = {axis}>' if axis else ''} (x, {'p' if places else 'r'})"
    text = f"r = Range(start, end, step) {places} {gather}"
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


@draws(known.ProductByVector)
def product_by_vector(rng: Rng, op_type: str) -> Drawn:
    """Products of which one side, or both, is transposed, and one mostly a vector; other nodes may read the same."""
    inner = int(pick(rng, 0, 1, 2, 3, 3, 5))
    dtype = pick(rng, "float32", "float32", "float32", "float64", "float16", "int32")
    matrix = [*sizes(rng, int(pick(rng, 0, 0, 1, 2))), int(pick(rng, 0, 1, 2, 3, 4)), inner]
    other = [inner] if rng.random() < 0.7 else [inner, int(pick(rng, 0, 1, 3))]
    shapes = [matrix, other]
    if rng.random() < 0.15:
        shapes = [[inner], [*matrix[:-2], inner, matrix[-2]]]
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    sides = pick(rng, (0,), (0,), (0,), (0, 1), (1,))
    lines, given, names = [], {}, ["a", "b"]
    for k, name in enumerate("ab"):
        given[name], rank = arrays[k], arrays[k].ndim
        if k not in sides:
            continue
        order = [*range(rank)]
        if rng.random() < 0.75:
            order[-2:] = order[-2:][::-1]
        elif rng.random() < 0.7:
            order = [int(axis) for axis in rng.permutation(rank)]
        given[name] = arrays[k].transpose(np.argsort(order))
        says = "" if order == [*range(rank)][::-1] and rng.random() < 0.3 else f"<perm = {order}> "
        between = pick(rng, "Identity", "Identity", "Identity", "Neg", "Relu")
        lines.append(f"t{k} = Transpose {says}({name}) u{k} = {between}(t{k})")
        names[k] = f"t{k}" if between == "Identity" else f"u{k}"
    product = f"MatMul({names[0]}, {names[1]})"
    end = pick(rng, "y = {}", "y = {}", "p = {} y = Neg(p)", "p = {} s = ReduceSum <keepdims = 0> ({t}) y = Add(p, s)")
    return written(" ".join([*lines, end.format(product, t=names[0])]), given)


@draws(known.MeanWithoutAxis)
def mean_without_axis(rng: Rng, op_type: str) -> Drawn:
    """Normalizations and parts of them, with means that are kept as axes or not, along axes of sizes that broadcast."""
    rank, size = int(rng.integers(1, 5)), int(pick(rng, 1, 2, 3, 3))
    shape = [int(pick(rng, 1, size, size)) for _ in range(rank)]
    axes = sorted({int(rng.integers(rank)) for _ in range(int(pick(rng, 1, 1, 2)))})
    x = rng.integers(-4, 5, shape).astype(pick(rng, "float32", "float32", "float64"))
    given: dict[str, Any] = {"x": x, "axes": i64(*(axis - rank if rng.random() < 0.5 else axis for axis in axes))}
    kept = [int(rng.random() < 0.4) for _ in range(2)]
    small, two, w = (np.asarray(value, x.dtype) for value in (0.25, 2, np.arange(1, shape[-1] + 1)))
    given |= {"small": small, "two": two, "w": w}
    center = pick(rng, f"m = ReduceMean <keepdims = {kept[0]}> (x, axes) c = Sub(x, m)", "c = Identity(x)")
    text = f"{center} p = Pow(c, two) v = ReduceMean <keepdims = {kept[1]}> (p, axes) s = Add(v, small) r = Sqrt(s) "
    end = pick(rng, "d = Div(c, r) y = Mul(d, w)", "d = Div(c, r) n = Mul(d, w) y = Add(n, w)", "y = Div(c, r)")
    # What does not broadcast is no graph.
    with contextlib.suppress(ValueError):
        mean = x.mean(tuple(axes), keepdims=bool(kept[0]))
        centered = x - mean if center.startswith("m") else x
        np.broadcast_shapes(centered.shape, centered.mean(tuple(axes), keepdims=bool(kept[1])).shape, w.shape)
        constants = ("axes", "small", "two", "w")[rng.random() < 0.2 :]
        return written(text + end, given, constants=constants)
    return written("y = ReduceMean <keepdims = 0> (x, axes)", {"x": x, "axes": given["axes"]})


@draws(known.GeluOfFewAxes)
def gelu_of_few_axes(rng: Rng, op_type: str) -> Drawn:
    """Gelu of its nodes, with constants of as many axes as the numbers, fewer, or more."""
    rank = int(pick(rng, 0, 0, 1, 2))
    x = rng.standard_normal([int(pick(rng, 1, 2, 3)) for _ in range(rank)]).astype(np.float32)
    given: dict[str, Any] = {"x": x}
    for name, value in (("root", 2**0.5), ("one", 1.0), ("half", 0.5)):
        given[name] = np.full([1] * int(pick(rng, 0, 0, 1, 2)), value, np.float32)
    scaled = pick(rng, "d = Div(x, root)", "d = Div(x, root)", "r = Reciprocal(root) d = Mul(x, r)")
    ends = ("h = Mul(x, half) y = Mul(h, w)", "h = Mul(x, w) y = Mul(h, half)", "y = Mul(x, w)")
    text = f"{scaled} e = Erf(d) w = Add(e, one) {pick(rng, *ends)}"
    if text.endswith("y = Mul(x, w)"):
        given.pop("half")
    return written(text, given, constants=tuple(name for name in given if name != "x"))


@draws(known.ExpandToNothing)
def expand(rng: Rng, op_type: str) -> Drawn:
    """Expands to sizes some of which are 0, constant or the shape of another, of what is computed, or not."""
    rank = int(rng.integers(1, 4))
    wanted = [int(pick(rng, 0, 0, 1, 2, 3)) for _ in range(rank)]
    own = [size if rng.random() < 0.4 else 1 for size in wanted][int(rng.integers(0, rank + 1)) :]
    target = [1 if rng.random() < 0.2 and k >= rank - len(own) else size for k, size in enumerate(wanted)]
    if rng.random() < 0.3:
        target = target[int(pick(rng, *range(rank - len(own) + 1))) :]
    dtype = pick(rng, "float32", "int64", "int32", "float64")
    given: dict[str, Any] = {"x": rng.integers(-3, 4, own).astype(dtype)}
    before = pick(rng, "a = Abs(x)", "a = Identity(x)", "a = Add(x, x)")
    after = pick(rng, "y = Neg(p)", "y = Add(p, a)", "y = Concat <axis = 0> (p, p)" if target else "y = Neg(p)")
    if rng.random() < 0.4:
        given["z"] = np.zeros(target, np.float32)
        return written(f"{before} s = Shape(z) p = Expand(a, s) {after}", given)
    given["s"] = i64(*target)
    return written(f"{before} p = Expand(a, s) {after}", given, constants=("s",) if rng.random() < 0.7 else ())


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
    letters = {letter: int(pick(rng, 0, 1, 2, 3)) for letter in sorted(set(equation)) if letter.isalpha()}
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
    spatial, opset = int(rng.integers(1, 3)), int(pick(rng, 18, 22))
    kernel, stride = int(pick(rng, 1, 2, 3)), int(pick(rng, 1, 2, 3))
    attributes: dict[str, Any] = {"kernel_shape": [kernel] * spatial, "strides": [stride] * spatial}
    padding, window = pick(rng, "none", "none", "pads", "VALID", *["SAME_UPPER"] * (kernel >= stride)), kernel
    # Of dilated windows with auto_pad = SAME, ONNX Runtime says other sizes than ONNX.
    if rng.random() < 0.3 and padding != "SAME_UPPER" and (op_type != "AveragePool" or opset >= 19):
        attributes["dilations"], window = [2] * spatial, 2 * kernel - 1
    if padding == "pads":
        attributes["pads"] = [int(n) for n in rng.integers(0, kernel, 2 * spatial)]
    elif padding != "none":
        attributes["auto_pad"] = padding
    if rng.random() < 0.2 and padding in ("none", "pads"):
        attributes["ceil_mode"] = 1
    if op_type == "LpPool":
        attributes["p"] = 2
    x = rng.integers(1, 5, [1, 2, *(int(rng.integers(window, 9)) for _ in range(spatial))]).astype(np.float32)
    return Drawn(op_type, {"x": x}, attributes, opset=opset)


@draws(known.RankOfImage)
def image(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(3, 6))
    x = rng.standard_normal([2, 3, *(int(rng.integers(1, 4)) for _ in range(rank - 2))]).astype(np.float32)
    if op_type == "InstanceNormalization":
        return Drawn(op_type, {"x": x, "s": x[0, :, *[0] * (rank - 2)], "b": np.zeros(3, np.float32)}, tolerance=1e-2)
    attributes = {"LRN": {"size": 3}, "GlobalLpPool": {"p": int(pick(rng, 1, 2))}}.get(op_type, {})
    return Drawn(op_type, {"x": x}, attributes, tolerance=1e-2)


@draws(known.ResizedAxes)
@draws(known.NearestOfOtherTypes)
@draws(known.NegativeResizedAxes)
def resized(rng: Rng, op_type: str) -> Drawn:
    return resize(rng)


@draws(known.OneHotTypes)
def one_hot(rng: Rng, op_type: str) -> Drawn:
    drawn = draw(rng, op_type)
    rank = np.ndim(next(iter(drawn.given().values())))
    drawn.attributes["axis"] = int(rng.integers(-rank - 1, rank + 1))
    return drawn


@draws(known.RearrangedTypes)
@draws(known.SumOfIntegers)
@draws(known.MissingKernel)
def of_family(rng: Rng, op_type: str) -> Drawn:
    """A node of the operator as the families of nodes draw it, of any type."""
    return draw(rng, op_type)


@draws(known.GemmOfIntegers)
def gemm_of_integers(rng: Rng, op_type: str) -> Drawn:
    """Whole factors, and others, of products of which each side may be turned; with something to add, or not."""
    dtype = pick(rng, "int32", "int64", "uint32", "uint64", "float32", "float64")
    rows, inner, columns = sizes(rng, 3)
    a, b = rng.integers(0, 4, (rows, inner)).astype(dtype), rng.integers(0, 4, (inner, columns)).astype(dtype)
    attributes: dict[str, Any] = {}
    for flag in ("transA", "transB"):
        if rng.random() < 0.5:
            attributes[flag] = int(pick(rng, 0, 1, 1))
    for factor in ("alpha", "beta"):
        if rng.random() < 0.5:
            attributes[factor] = float(pick(rng, 0, 1, 2, 3) if a.dtype.kind != "f" else pick(rng, 0, 0.5, 2))
    given = {"a": a.T if attributes.get("transA") else a, "b": b.T if attributes.get("transB") else b}
    if rng.random() < 0.6:
        given["c"] = rng.integers(0, 4, pick(rng, (rows, columns), (1, columns), (columns,), ())).astype(dtype)
    return Drawn(op_type, given, attributes)


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


@draws(known.LimitsOfRange)
def limits_of_range(rng: Rng, op_type: str) -> Drawn:
    """Limits that are scalars, or vectors of one element."""
    limits = {"start": 0, "limit": int(rng.integers(0, 5)), "delta": 1}
    return Drawn(op_type, {name: np.int64(n) if rng.random() < 0.5 else i64(n) for name, n in limits.items()})
