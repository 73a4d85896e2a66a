"""What draws graphs that rewriting rules match, and near misses, for each anchor of each rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from support.drawn_nodes import Array, Drawn, Rng, i64, pick, types_of, values

from drawing.declaration import draws
from drawing.operands import integers, nodes_of, sizes, written
from drawing.operators import draw
from onnx_sparse.converters.rewriting import simplification
from onnx_sparse.converters.rewriting.rules import known_branches, known_shapes, means, pruning, stacks
from onnx_sparse.schemas.declaration import element_type

_FAR = (2**63 - 1, 2**31 - 1, 10**9)
#: Types that ONNX Runtime casts between, as numpy does where a number has the type.
_CAST = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint64", "bool")


def text_of(array: Array) -> str:
    """A tensor of one axis in onnx's text form."""
    kind = {"int64": "int64", "float32": "float"}[str(array.dtype)]
    return f"{kind}[{len(array)}] {{{', '.join(map(str, array.tolist()))}}}"


def constant(name: str, *numbers: int) -> str:
    """A node that makes a vector of integers, in onnx's text form."""
    return f"{name} = Constant <value = {text_of(i64(*numbers))}> ()"


@draws(simplification.FoldedConstant)
def folded(rng: Rng, op_type: str) -> Drawn:
    kind = pick(rng, "int64", "int64", "int32", "float32")
    shape = sizes(rng, int(rng.integers(1, 3)))
    if op_type in ("Add", "Sub", "Mul", "Neg"):
        names = ["x", "z"][: 1 if op_type == "Neg" else 2]
        made = [integers(rng, kind, shape) if kind != "float32" else rng.random(shape).astype(kind) for _ in names]
        drawn = Drawn(op_type, dict(zip(names, made, strict=True)))
    elif op_type == "Cast":
        drawn = cast(rng, op_type)
    else:
        drawn = draw(rng, op_type)
    if rng.random() < 0.8:
        drawn.constants = list(drawn.given())
    return drawn


@draws(simplification.Copy)
def copied(rng: Rng, op_type: str) -> Drawn:
    x = values(rng, pick(rng, *types_of("Identity", 18)), sizes(rng, 2))
    return written("a = Identity(x) y = Identity(a)" if rng.random() < 0.5 else "y = Identity(x)", {"x": x})


@draws(simplification.PlainCast)
def cast(rng: Rng, op_type: str) -> Drawn:
    one, other = pick(rng, *_CAST), pick(rng, *_CAST)
    start = pick(rng, one, *_CAST)
    if rng.random() < 0.3:  # a float does not hold all integers
        start = other = pick(rng, "int32", "int64")
        one = pick(rng, "float32", "float64")
    x = (
        rng.integers(-3, 4, sizes(rng, 2))
        if "uint" not in f"{start}{one}{other}"
        else rng.integers(0, 4, sizes(rng, 2))
    )
    x = x.astype(start)
    if all(np.dtype(kind).kind == "i" for kind in (start, one, other)):
        x = integers(rng, start, x.shape)
    elif all(np.dtype(kind).kind in "if" and kind != "float16" for kind in (start, one, other)) and "int" in start:
        large = [0, 2**24 + 1, 2**53 + 1, -(2**53) - 1, 127]  # floats do not hold them
        chosen = [number for number in large if abs(number) <= np.iinfo(start).max]
        if (other == "int64" and one in ("float64", "float32")) or other.startswith("float"):
            x = rng.choice(np.array(chosen, start), x.shape)
    kinds = [element_type(np.dtype(kind)) for kind in (one, other)]
    if rng.random() < 0.7:
        return written(f"a = Cast <to = {kinds[0]}> (x) y = Cast <to = {kinds[1]}> (a)", {"x": x})
    return Drawn("Cast", {"x": x}, {"to": kinds[0]})


@draws(simplification.PlainTransposition)
def transposed(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(0, 5))
    orders = [[int(k) for k in rng.permutation(rank)] for _ in range(2)]
    if rng.random() < 0.4:
        orders[1] = [int(k) for k in np.argsort(orders[0])]
    forms = [f"<perm = {order}> " if order and rng.random() < 0.8 else "" for order in orders]
    return written(f"a = Transpose {forms[0]}(x) y = Transpose {forms[1]}(a)", {"x": rng.random(sizes(rng, rank))})


@draws(simplification.SqueezedAxes)
def squeezed(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    removed = sorted({int(k) for k in rng.integers(0, rank, 2)})
    shape = [1 if k in removed else size for k, size in enumerate(sizes(rng, rank, least=2))]
    axes = [k - rank if rng.random() < 0.3 else k for k in removed]
    back = axes if rng.random() < 0.6 else [int(k) for k in rng.choice(rank, len(axes), replace=False)]
    text = f"{constant('n', *axes)} {constant('m', *back)} a = Squeeze(x, n) y = Unsqueeze(a, {pick(rng, 'n', 'm')})"
    return written(text, {"x": rng.random(shape).astype(np.float32)})


@draws(known_branches.KnownBranch)
def known_branch(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(0, 4))
    x = rng.standard_normal(sizes(rng, rank)).astype(np.float32)
    wanted = int(pick(rng, rank, rank, 2))
    conditions = {
        "rank": f"s = Shape(x) r = Size(s) {constant('w', wanted)} e = Constant <value = int64[0] {{}}> () "
        "k = Reshape(w, e) c = Equal(r, k)",
        "not": f"s = Shape(x) r = Size(s) {constant('w', wanted)} e = Constant <value = int64[0] {{}}> () "
        "k = Reshape(w, e) d = Equal(r, k) c = Not(d)",
        "elements": "r = Size(x) n = Size(x) c = Equal(r, n)",
        "constant": "c = Identity(flag)",
        "fed": "c = And(flag, flag)",
    }
    kind = pick(rng, *conditions)
    bodies = {}
    forms = (
        "{n} = Neg(x)",
        "{n}_a = Abs(x) {n} = Sqrt({n}_a)",
        "{n} = Identity(x)",
        "{n}_a = Identity(x) {n} = Neg({n}_a)",
    )
    for name in ("then_branch", "else_branch"):
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        nodes, more = nodes_of(pick(rng, *forms).format(n=name)), []
        if rng.random() < 0.3:
            nodes = [helper.make_node("Mul", ["x", f"{name}_two"], [name])]
            more = [numpy_helper.from_array(np.array(2, np.float32), f"{name}_two")]
        bodies[name] = helper.make_graph(nodes, name, [], [result], more)
    nodes = [*nodes_of(conditions[kind]), helper.make_node("If", ["c"], ["y"], **bodies)]
    given: dict[str, Any] = {"x": x}
    given |= {"flag": np.array(rng.random() < 0.5)} if kind in ("constant", "fed") else {}
    return Drawn("If", given, written=nodes, constants=("flag",) if kind == "constant" else ())


@draws(known_shapes.WholeSlice)
def whole_slice(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    x = rng.standard_normal(sizes(rng, rank)).astype(np.float32)
    axes = [int(axis) for axis in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]]
    given: dict[str, Any] = {"x": x}
    given["s"] = i64(*(pick(rng, 0, 0, 0, 1, -1, -x.shape[axis]) for axis in axes))
    given["e"] = i64(*(pick(rng, *_FAR, *_FAR, x.shape[axis], -1) for axis in axes))
    given["a"] = i64(*axes)
    if rng.random() < 0.6:
        given["p"] = i64(*(pick(rng, 1, 1, 1, 2) for _ in axes))
    drawn = Drawn("Slice", given)
    if rng.random() < 0.7:
        drawn.constants = ("s", "e", "a", "p")
    return drawn


def computed_shape(rng: Rng, shape: list[int], *, copies: bool) -> str:
    """Sizes of a tensor x, constants, -1 and 0, joined: a shape that x may have."""
    parts, total = [], int(np.prod(shape))
    target = [*shape]
    if rng.random() < 0.4:
        target = target[::-1]
    if rng.random() < 0.3 and len(target) > 1:
        target = [target[0] * target[1], *target[2:]]
    inferred = int(rng.integers(len(target))) if rng.random() < 0.3 and total and target else -1
    for k, size in enumerate(target):
        if k == inferred:
            parts.append(constant(f"p{k}", -1))
        elif size in shape and rng.random() < 0.6:
            place = k if k < len(shape) and shape[k] == size and rng.random() < 0.7 else shape.index(size)
            parts.append(f"{constant(f'i{k}', place)} p{k} = Gather(s, i{k})")
        elif copies and k < len(shape) and size == shape[k] and rng.random() < 0.4:
            parts.append(constant(f"p{k}", 0))
        elif size or not copies or (k < len(shape) and shape[k] == 0):
            parts.append(constant(f"p{k}", size))
        else:
            return computed_shape(rng, shape, copies=copies)
    joined = ", ".join(f"p{k}" for k in range(len(target)))
    return f"s = Shape(x) {' '.join(parts)} t = Concat <axis = 0> ({joined})"


@draws(known_shapes.SameShape)
@draws(known_shapes.KnownShape)
def reshaped(rng: Rng, op_type: str) -> Drawn:
    shape = sizes(rng, int(rng.integers(1, 4)))
    x = rng.standard_normal(shape).astype(np.float32)
    allow = int(pick(rng, 0, 1))
    form = f"<allowzero = {allow}> " if allow or rng.random() < 0.5 else ""
    if rng.random() < 0.7:
        if 0 in shape and not allow and rng.random() < 0.5:
            return written(f"s = Shape(x) y = Reshape {form}(x, s)", {"x": x})
        return written(f"{computed_shape(rng, shape, copies=not allow)} y = Reshape {form}(x, t)", {"x": x})
    target = [0 if rng.random() < 0.5 else size for size in shape] if 0 in shape or not allow else [*shape]
    return written(f"{constant('t', *target)} y = Reshape {form}(x, t)", {"x": x})


@draws(stacks.StackByReshape)
def stacked(rng: Rng, op_type: str) -> Drawn:
    rank, count = int(rng.integers(0, 4)), int(rng.integers(1, 4))
    shape, axis = sizes(rng, rank), int(rng.integers(0, rank + 1))
    given = {f"x{k}": rng.standard_normal(shape).astype(np.float32) for k in range(count)}
    axes = [axis if rng.random() < 0.7 else axis - rank - 1 for _ in range(count)]
    parts = [f"{constant(f'n{k}', axes[k])} u{k} = Unsqueeze(x{k}, n{k})" for k in range(count)]
    along = axis if rng.random() < 0.8 else int(rng.integers(-rank - 1, rank + 1))
    joined = ", ".join(f"u{k}" for k in range(count))
    return written(f"{' '.join(parts)} y = Concat <axis = {along}> ({joined})", given)


def _rows(rng: Rng, columns: int | None = None) -> Array:
    shape = [int(pick(rng, 0, 1, 2, 5)), columns or int(pick(rng, 1, 2, 3))]
    return rng.integers(-3, 9, shape).astype(pick(rng, "int64", "float32"))


def _column(rng: Rng, matrix: str, columns: int) -> str:
    """A column of a matrix, or what resembles one."""
    k, end = int(rng.integers(columns)), pick(rng, *_FAR, 10**6)
    first = 0 if rng.random() < 0.8 else 1
    width = 1
    return (
        f"{constant('b', first, k)} {constant('e', end, k + width)} {constant('a', 0, 1)} "
        f"cut = Slice({matrix}, b, e, a) {constant('one', 1)} col = Squeeze(cut, one)"
    )


@draws(pruning.ColumnByGather)
def column(rng: Rng, op_type: str) -> Drawn:
    x = _rows(rng)
    return written(_column(rng, "x", x.shape[1]), {"x": x})


@draws(pruning.KeepByMask)
def kept_by_mask(rng: Rng, op_type: str) -> Drawn:
    x = _rows(rng)
    mask: Array = rng.random(len(x)) < 0.5
    if rng.random() < 0.2:
        mask = mask.astype(np.int64) * 3
    axis = 0 if rng.random() < 0.8 else 1
    flat = f"{constant('m', -1)} f = Reshape(t, m)" if rng.random() < 0.5 else f"{constant('m', 1)} f = Squeeze(t, m)"
    if axis == 1:
        mask = rng.random(x.shape[1]) < 0.5
    return written(
        f"n = NonZero(mask) t = Transpose(n) {flat} y = Gather <axis = {axis}> (x, f)", {"x": x, "mask": mask}
    )


@draws(pruning.KeepColumn)
def kept_column(rng: Rng, op_type: str) -> Drawn:
    x = _rows(rng)
    axis = 0 if rng.random() < 0.8 else 1
    mask = rng.random(x.shape[axis]) < 0.7
    if axis == 1:
        mask[:] = True
    index = int(rng.integers(-x.shape[1], x.shape[1]))
    scalar = f"{constant('w', index)} e = Constant <value = int64[0] {{}}> () i = Reshape(w, e)"
    chosen = f"i = Constant <value_int = {index}> ()" if rng.random() < 0.7 else scalar
    return written(
        f"c = Compress <axis = {axis}> (x, mask) {chosen} y = Gather <axis = 1> (c, i)", {"x": x, "mask": mask}
    )


@draws(pruning.KeepOnce)
def kept_once(rng: Rng, op_type: str) -> Drawn:
    x = _rows(rng)
    mask, other = rng.random(len(x)) < 0.6, rng.random(len(x)) < 0.6
    weights = rng.standard_normal(len(x)).astype(np.float32)
    compare = pick(rng, "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    second = "mask" if rng.random() < 0.8 or mask.sum() != other.sum() else "other"
    limit = "l = Constant <value_float = 0.0> ()"
    text = f"a = Compress <axis = 0> (x, mask) w = Compress <axis = 0> (b, {second}) {limit} k = {compare}(w, l) "
    given = {"x": x, "mask": mask, "b": weights} | ({"other": other} if second == "other" else {})
    return written(text + "y = Compress <axis = 0> (a, k)", given)


def of_domain(op_type: str, inputs: list[str], outputs: list[str], **attributes: str) -> Any:
    """A node of the domain with every attribute."""
    from onnx_sparse.schemas import DOMAIN, OPS

    return helper.make_node(op_type, inputs, outputs, domain=DOMAIN, **OPS[op_type].with_defaults(attributes))


@draws(pruning.AndTrue)
def and_true(rng: Rng, op_type: str) -> Drawn:
    count = int(pick(rng, 0, 1, 2, 5))
    mask = rng.random(count) < 0.5
    filled = count if rng.random() < 0.7 or count != 1 else int(pick(rng, 1, 3))
    given: dict[str, Any] = {"dims": i64(filled), "v": np.array(rng.random() < 0.8)}
    sides = ["mask", "t"] if rng.random() < 0.5 else ["t", "mask"]
    nodes = [of_domain("Fill", ["dims", "v"], ["t"]), helper.make_node("And", sides, ["both"])]
    if rng.random() < 0.4:
        return Drawn("And", given | {"mask": mask}, written=[*nodes, *nodes_of("y = Identity(both)")], constants=("v",))
    given |= {"ids": rng.integers(-3, 4, count), "zero": i64(0), "more": rng.integers(0, 9, filled)}
    chosen = pick(rng, "ids", "more") if count == filled else "ids"
    text = f"n = NonZero(both) {constant('m', -1)} f = Reshape(n, m) y = Gather({chosen}, f)"
    text = text if rng.random() < 0.5 else f"y = Compress <axis = 0> ({chosen}, both)"
    nodes = [*nodes_of("mask = GreaterOrEqual(ids, zero)"), *nodes, *nodes_of(text)]
    return Drawn("And", given, written=nodes, constants=("v", "zero"))


@draws(known_shapes.SameSparseShape)
def sparse_reshaped(rng: Rng, op_type: str) -> Drawn:
    shape = [int(pick(rng, 1, 2, 3)) for _ in range(2)]
    count = int(pick(rng, 0, 1, 2))
    at = np.stack([rng.integers(0, size, count) for size in shape], axis=1).astype(np.int64)
    target = {"same": shape, "inferred": [shape[0], -1], "turned": shape[::-1], "flat": [-1]}[
        pick(rng, "same", "same", "inferred", "turned", "flat")
    ]
    node = of_domain("SparseReshape", ["at", "shape", "target"], ["y0", "y1"])
    is_same = target == shape and rng.random() < 0.5
    if is_same:
        node.input[2] = "shape"
    given = {"at": at, "shape": i64(*shape)} | ({} if is_same else {"target": i64(*target)})
    copies = [helper.make_node("Cast", ["y0"], ["c0"], to=7), helper.make_node("Concat", ["c0", "c0"], ["y"], axis=0)]
    return Drawn("SparseReshape", given, written=[node, *copies])


@draws(means.MeanOfSlices)
def mean_of_slices(rng: Rng, op_type: str) -> Drawn:
    count, segments = int(pick(rng, 0, 1, 5)), int(pick(rng, 0, 1, 3))
    ids = rng.integers(0, max(segments, 1), count)
    if not segments:
        ids = ids[:0]
    kind = pick(rng, "float32", "float64")
    data = rng.integers(-4, 5, (len(ids), 2)).astype(kind)
    ones = np.ones(len(ids), kind) if rng.random() < 0.8 else np.full(len(ids), 2, kind)
    least = np.array(1 if rng.random() < 0.8 else 2, kind)
    given = {"data": data, "ids": ids, "n": np.array(segments), "ones": ones, "least": least, "column": i64(-1, 1)}
    nodes = [
        of_domain("UnsortedSegmentSum", ["data", "ids", "n"], ["total"]),
        of_domain("UnsortedSegmentSum", ["ones", "ids", "n"], ["count"]),
        *nodes_of("some = Max(count, least) spread = Reshape(some, column) y = Div(total, spread)"),
    ]
    constants = ("least", "column", "ones") if rng.random() < 0.7 else ("column",)
    return Drawn("Div", given, written=nodes, constants=constants)
