"""Mistakes of one operation: what only it can be mistaken for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from onnx_sparse.converters.ascend.atb.mistakes.operands import moved
from onnx_sparse.converters.ascend.atb.mistakes.trial import Array, Trial, Variants, is_float, wide

_ATTENTIONS = ("SelfAttention", "PagedAttention", "MultiLatentAttention")
#: Products of so many terms in all are accumulated in float16, to see whether the NPU has done so.
_MOST_TERMS = 2**26
#: Tensors of so many axes are transposed in every order.
_MOST_AXES = 4
#: The mistakes of each operation that no other has.
OWN: dict[str, list[Callable[[Trial], Variants]]] = {}


def _of(*kinds: str) -> Callable[[Callable[[Trial], Variants]], Callable[[Trial], Variants]]:
    def register(function: Callable[[Trial], Variants]) -> Callable[[Trial], Variants]:
        for kind in kinds:
            OWN.setdefault(kind, []).append(function)
        return function

    return register


def _shaped(values: Array, like: Array) -> Array:
    """Values in the shape and element type of a result."""
    return values.astype(like.dtype).reshape(like.shape)


def _cast(values: Array, like: Array) -> Array:
    """Values in the element type of a result."""
    return values.astype(like.dtype)


# --- attention -------------------------------------------------------------------------------------------------------


@_of(*_ATTENTIONS)
def _masks(trial: Trial) -> Variants:
    place = trial.place("mask")
    if place is None:
        yield "attention with a causal mask", trial.with_param(maskType=9)
        return
    mask = trial.inputs[place]
    yield "attention without the mask", trial.with_param(maskType=0).without_input(place)
    yield "attention with a mask of later tokens alone", trial.with_input(place, np.swapaxes(mask, -1, -2).copy())
    if mask.dtype.name == "bfloat16":
        yield "attention with the mask added as it is", trial.with_input(place, mask.astype(np.float16))


@_of("SelfAttention")
def _sequences(trial: Trial) -> Variants:
    place = trial.place("lengths")
    if place is not None and trial.place("offsets") is None and trial.inputs[place].size > 1:
        total = trial.inputs[place].sum(keepdims=True).astype(trial.inputs[place].dtype).reshape(1)
        yield "attention of all tokens as one sequence", trial.with_input(place, total)


@_of("PagedAttention", "MultiLatentAttention", "PagedCacheLoad")
def _blocks(trial: Trial) -> Variants:
    place = trial.names.index("tables")
    table = trial.inputs[place]
    yield "the result with the next block of each table", trial.with_input(place, moved(table, 1))
    yield "the result with the block before in each table", trial.with_input(place, moved(table, -1))
    for by in (1, -1):
        yield "the result with the block table of another sequence", trial.with_input(place, np.roll(table, by, 0))
    yield "the result with the blocks in reverse order", trial.with_input(place, table[:, ::-1].copy())
    lengths, cache = trial.names.index("lengths"), trial.inputs[trial.place("kCache", "ctKV") or 0]
    block = trial.inputs[lengths].clip(None, cache.shape[1])
    yield "the result of the first block of each sequence alone", trial.with_input(lengths, block)


@_of(*_ATTENTIONS)
def _heads(trial: Trial) -> Variants:
    heads = trial.settings.integer("headNum", 0)
    groups = trial.settings.integer("kvHeadNum", 0) or heads
    if not heads or trial.inputs[0].size % heads:
        return

    def by_head(order: Sequence[int], array: Array) -> Array:
        parted = array if array.ndim == 3 and array.shape[1] == heads else array.reshape(len(array), heads, -1)
        return parted[:, list(order)].reshape(array.shape)

    for by in (1, -1):
        turned = [(head + by) % heads for head in range(heads)]
        yield "attention of the neighboring heads", trial.then(partial(by_head, turned))
    if groups and heads % groups == 0 and 1 < groups < heads:
        tiled = [share * groups + group for group in range(groups) for share in range(heads // groups)]
        back = [int(place) for place in np.argsort(tiled)]
        changed = trial.with_input(0, by_head(tiled, trial.inputs[0]))
        words = "attention in which head h reads the keys of group h mod kvHeadNum"
        yield words, changed.then(partial(by_head, back))


@_of("FaUpdate")
def _weights(trial: Trial) -> Variants:
    yield "the sum without weights", trial.instead(lambda: wide(trial.inputs[1]).sum(0))


# --- rotations and norms ---------------------------------------------------------------------------------------------


@_of("Rope", "RopeQConcat", "NormRopeReshape")
def _positions(trial: Trial) -> Variants:
    cos, sin = trial.names.index("cos"), trial.names.index("sin")
    for by, words in ((1, "before"), (-1, "after")):
        rolled = trial.with_input(cos, np.roll(trial.inputs[cos], by, 0))
        yield f"the rotation at the position {words}", rolled.with_input(sin, np.roll(trial.inputs[sin], by, 0))
    first = trial.with_input(cos, np.ones_like(trial.inputs[cos]))
    yield "no rotation: every token at position 0", first.with_input(sin, np.zeros_like(trial.inputs[sin]))


@_of("Rope")
def _coefficients(trial: Trial) -> Variants:
    own, head = trial.settings.integer("rotaryCoeff", 4), trial.inputs[trial.names.index("cos")].shape[-1]
    names = {2: "halves of the head", head: "neighbors"}
    for coefficient in dict.fromkeys((2, 4, head)):
        if coefficient != own and head % coefficient == 0:
            words = names.get(coefficient, f"groups of rotaryCoeff {coefficient}")
            yield f"the rotation of {words}", trial.with_param(rotaryCoeff=coefficient)


@_of("RmsNorm", "LayerNorm", "CohereLayerNorm")
def _norms(trial: Trial) -> Variants:
    x, gamma, beta = trial.inputs[0], *(trial.place(name) for name in ("gamma", "beta"))
    if gamma is None or trial.place("residual", "scale") is not None:
        return
    settings = trial.settings.group("normParam") if "normParam" in trial.settings else trial.settings
    epsilon = settings.number("epsilon", 1e-5)
    scale, shift = wide(trial.inputs[gamma]), 0.0 if beta is None else wide(trial.inputs[beta])
    if settings.integer("modelType", 0):
        scale = scale + 1

    def normed(axes: tuple[int, ...], centered: bool, narrow: bool = False) -> Array:
        values = wide(x)
        values = values - values.mean(axes, keepdims=True) if centered else values
        squares = np.square(values)
        with np.errstate(all="ignore"):
            squares = wide(squares.astype(np.float16)) if narrow else squares
            return np.asarray(values / np.sqrt(squares.mean(axes, keepdims=True) + epsilon) * scale + shift)

    own = tuple(range(-max(scale.ndim, 1), 0)) if trial.place("beta") is not None else (-1,)
    is_centered = (settings is not None and trial.place("beta") is not None) or "layerType" not in trial.settings
    words = "the norm without the mean taken off" if is_centered else "the norm with the mean taken off"
    yield words, trial.instead(lambda: normed(own, not is_centered))
    yield "the norm with squares in float16", trial.instead(lambda: normed(own, is_centered, narrow=True))
    if x.ndim > 2:
        yield "the norm over all heads of a token", trial.instead(lambda: normed((-2, -1), is_centered))


# --- products --------------------------------------------------------------------------------------------------------


@_of("Linear", "LinearParallel")
def _products(trial: Trial) -> Variants:
    x, weight = trial.inputs[:2]
    key = "transWeight" if trial.place("residual") is not None or "transWeight" in trial.settings else "transposeB"
    transposed = trial.settings.flag(key, True)
    if weight.ndim >= 2:
        flipped = trial.with_param(**{key: not transposed})
        swapped = weight.reshape(*weight.shape[:-2], weight.shape[-1], weight.shape[-2])
        yield "the product with a weight that is not transposed", flipped.with_input(1, swapped)
        if weight.shape[-1] == weight.shape[-2]:
            yield "the product with a weight that is transposed once more", flipped
    if weight.ndim == 3 and len(weight) > 1:
        for by in (1, -1):
            yield "the product with the weight of the next batch", trial.with_input(1, np.roll(weight, by, 0))
    if trial.settings.flag("transposeA", False) or x.ndim < 2:
        return
    square = x.shape[-1] == x.shape[-2]
    if square:
        yield "the product with x transposed", trial.with_input(0, np.swapaxes(x, -1, -2).copy())
    half, place = x.shape[-1] // 2, np.arange(x.shape[-1])
    if half:
        for kept, words in ((place < half, "first"), (place >= half, "second")):
            yield f"the product of the {words} half of the terms", trial.with_input(0, x * kept.astype(x.dtype))
    if weight.ndim == 2 and x.ndim == 2 and x.dtype.name == "float16":
        columns = weight.T if transposed else weight
        bias = trial.place("bias", "residual")
        added = 0.0 if bias is None else wide(trial.inputs[bias])
        for step in (1, 16):
            words = f"the product accumulated in float16, {step} terms at a time"
            yield words, trial.instead(partial(_in_float16, x, columns, step, added))


def _in_float16(x: Array, columns: Array, step: int, added: Array | float) -> Array:
    """The product, rounded to float16 after so many terms, and what is added to it."""
    if x.size * columns.shape[1] > _MOST_TERMS:
        raise ValueError("too large")
    total = np.zeros((x.shape[0], columns.shape[1]), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, x.shape[1], step):
            part = slice(start, start + step)
            total = (total + x[:, part].astype(np.float32) @ columns[part].astype(np.float32)).astype(np.float16)
    return np.asarray(wide(total) + added)


# --- elements --------------------------------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


@_of("Activation", "SwigluQuant")
def _gates(trial: Trial) -> Variants:
    own = trial.settings.text("activationType") or trial.settings.integer("activationType", 0)
    is_quantized = "activationType" not in trial.settings
    if len(trial.inputs) != 1 or not (is_quantized or own == 6 or str(own).endswith("SWIGLU_FORWARD")):
        return
    (x,), axis = trial.inputs, trial.settings.integer("dim", -1)
    gate, value = np.split(x, 2, axis)
    yield "SwiGLU with its halves exchanged", trial.with_input(0, np.concatenate([value, gate], axis))
    parts = [np.take(x, range(first, x.shape[axis], 2), axis) for first in (0, 1)]
    yield "SwiGLU of neighbors in place of halves", trial.with_input(0, np.concatenate(parts, axis))
    if not is_quantized:
        a, b = wide(gate), wide(value)
        yield "Swish of the gate alone, without the value", trial.instead(lambda: a * _sigmoid(a))
        yield "the product of the halves, without Swish", trial.instead(lambda: a * b)
        yield "GeGLU, whose gate is Gelu", trial.instead(lambda: _gelu(a) * b)
        yield "GLU, whose gate is Sigmoid", trial.instead(lambda: _sigmoid(a) * b)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "the magnitudes": np.abs,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": _sigmoid,
    "the logarithm to base 2": np.log2,
    "the exponential": np.exp,
    "Tanh": np.tanh,
}


@_of("Activation", "Elewise")
def _functions(trial: Trial) -> Variants:
    if len(trial.inputs) == 1 and is_float(trial.inputs[0]):
        for words, function in _FUNCTIONS.items():
            with np.errstate(all="ignore"):
                made = function(wide(trial.inputs[0]))
            yield words, trial.then(partial(_cast, made))


@_of("Elewise")
def _broadcasts(trial: Trial) -> Variants:
    if trial.names != ("x", "y") or not is_float(trial.inputs[1]):
        return
    first, second = trial.inputs
    if second.ndim and second.shape != first.shape and second.size < first.size:
        names = {"ADD": 8, "MUL": 9, "REALDIV": 10, "SUB": 15}
        own = trial.settings.enum("elewiseType", names, 0)
        # What leaves a number as it is: 0 of sums, 1 of products.
        full = np.full(first.shape, own in (9, 10), second.dtype)
        full.reshape(-1)[: second.size] = second.reshape(-1)
        words = next((name for name, number in names.items() if number == own), "the result")
        yield f"{words} with the second operand at the first elements only", trial.with_input(1, full)


@_of("Fill")
def _values(trial: Trial) -> Variants:
    value = next(iter(trial.settings.numbers("value")), None)
    if value:
        yield "the fill with the value's sign turned", trial.with_param(value=[-value])
        yield "the fill with 0", trial.with_param(value=[0.0])
    if len(trial.inputs) == 2:
        x, mask = trial.inputs
        yield "the fill with 1, the mask's value", trial.with_param(value=[1.0])
        yield "the fill with value and mask exchanged", trial.instead(lambda: np.broadcast_to(mask, x.shape))
        words = "the mask where it is not 0, and the value elsewhere: x was lost"
        yield words, trial.instead(lambda: np.broadcast_to(np.where(mask, 1.0, value or 0.0), x.shape))


# --- moved elements --------------------------------------------------------------------------------------------------


@_of("Split")
def _parts(trial: Trial) -> Variants:
    sizes, count = trial.settings.integers("splitSizes"), trial.settings.integer("splitNum", 2)
    for order in itertools.permutations(range(count)):
        if order != tuple(range(count)):
            words = "the parts in the order " + ", ".join(map(str, order)) if count > 2 else "the parts exchanged"
            yield words, trial.ordered(*order)
    if len(sizes) == count and len(set(sizes)) > 1:
        words = "the parts of the sizes in the other order"
        yield words, trial.with_param(splitSizes=[*reversed(sizes)]).ordered(*reversed(range(count)))
    (x,), axis = trial.inputs, trial.settings.integer("splitDim", 0)
    if not sizes or len(set(sizes)) == 1:
        turns = [np.take(x, range(first, x.shape[axis], count), axis) for first in range(count)]
        yield "the elements of the parts in turn", trial.with_input(0, np.concatenate(turns, axis))
    if axis % x.ndim:  # as if the axes before were one with it
        columns = x.reshape(*x.shape[: axis % x.ndim - 1], -1, *x.shape[axis % x.ndim + 1 :])
        ends = np.cumsum(sizes or [columns.shape[axis % x.ndim - 1] // count] * count)
        if ends[-1] and columns.shape[axis % x.ndim - 1] % int(ends[-1]) == 0:
            ends = ends * (columns.shape[axis % x.ndim - 1] // int(ends[-1]))
            parts = np.split(columns, ends[:-1], axis % x.ndim - 1)
            yield (
                "the parts of all heads, not of each",
                trial.changed(lambda made: [p.reshape(m.shape) for p, m in zip(parts, made, strict=True)]),
            )


@_of("Concat")
def _turns(trial: Trial) -> Variants:
    x, y = trial.inputs
    axis = trial.settings.integer("concatDim", 0)
    if x.shape == y.shape:
        both = np.stack([x, y], axis + 1 if axis >= 0 else x.ndim + axis + 1)
        yield "the elements of the parts in turn", trial.then(lambda made: both.reshape(made.shape))
    yield (
        "the parts one after the other, not along the axis",
        trial.then(lambda made: np.concatenate([x.reshape(-1), y.reshape(-1)]).reshape(made.shape)),
    )


@_of("Sort")
def _sorted(trial: Trial) -> Variants:
    (x,) = trial.inputs
    if is_float(x):
        least = trial.with_input(0, -x)
        words = "the least in ascending order"
        yield words, least.changed(lambda made: [-made[0], *made[1:]])
    yield "the largest in ascending order", trial.then(lambda made: made[..., ::-1])
    yield "the values' and positions' places exchanged", trial.ordered(1, 0)
    yield (
        "the first elements, not sorted",
        trial.changed(
            lambda made: [
                x[..., : made[0].shape[-1]],
                np.broadcast_to(np.arange(made[1].shape[-1]), made[1].shape).astype(made[1].dtype),
            ]
        ),
    )


@_of("Slice")
def _sliced(trial: Trial) -> Variants:
    offsets = trial.settings.integers("offsets")
    for axis, offset in enumerate(offsets):
        for by, words in ((1, "after"), (-1, "before"), (-offset, "at the beginning")):
            places = [*offsets[:axis], offset + by, *offsets[axis + 1 :]]
            if by and places[axis] >= 0:
                yield f"the part {words} along axis {axis}", trial.with_param(offsets=places)


@_of("Repeat")
def _repeated(trial: Trial) -> Variants:
    """Each element so many times in place of the whole: what torch calls repeat_interleave."""
    multiples = trial.settings.integers("multiples")
    x = trial.inputs[0].reshape((1,) * (len(multiples) - trial.inputs[0].ndim) + trial.inputs[0].shape)
    each = x
    for axis, number in enumerate(multiples):
        each = np.repeat(each, number, axis)
    yield "each element repeated where it stands", trial.instead(lambda: each)
    for other in set(itertools.permutations(multiples)) - {tuple(multiples)}:
        words = f"the repetitions {', '.join(map(str, other))} of the axes"
        yield words, trial.then(partial(_shaped, np.tile(x, other)))


@_of("AsStrided")
def _views(trial: Trial) -> Variants:
    size, stride = trial.settings.integers("size"), trial.settings.integers("stride")
    offset = (trial.settings.integers("offset") or [0])[0]
    if offset:
        yield "the view from the beginning", trial.with_param(offset=[0])
    if len(size) > 1 and len(set(stride)) > 1:
        yield "the view with its strides in the other order", trial.with_param(stride=[*reversed(stride)])
    whole = [int(step) for step in np.cumprod([1, *size[:0:-1]])[::-1]]
    if whole != stride:
        yield "the elements one after the other, without strides", trial.with_param(stride=whole)


@_of("SetValue")
def _written_places(trial: Trial) -> Variants:
    starts, ends = (trial.settings.integers(key) for key in ("starts", "ends"))
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for by, words in ((1, "after"), (-1, "before"), (-start, "at the beginning")):
            if by:
                places = [[*given[:axis], at + by, *given[axis + 1 :]] for given, at in ((starts, start), (ends, end))]
                yield (
                    f"the values written {words} along axis {axis}",
                    trial.with_param(starts=places[0], ends=places[1]),
                )


@_of("Transpose")
def _transposed(trial: Trial) -> Variants:
    perm, rank = trial.settings.integers("perm"), trial.inputs[0].ndim
    inverse = [int(i) for i in np.argsort(perm)]
    if inverse != perm:
        yield "the inverse permutation", trial.with_param(perm=inverse)
    for other in itertools.permutations(range(rank)) if rank <= _MOST_AXES else ():
        if list(other) not in (perm, inverse):
            yield f"the axes in the order {', '.join(map(str, other))}", trial.with_param(perm=list(other))


@_of("Transdata")
def _formats(trial: Trial) -> Variants:
    x = trial.inputs[0]
    if x.ndim > 1:
        swapped = np.swapaxes(x, -1, -2)
        yield "the format of the transposed matrix", trial.with_input(0, swapped.reshape(x.shape))


@_of("Nonzero")
def _coordinates(trial: Trial) -> Variants:
    yield "the coordinates from the last axis to the first", trial.changed(lambda made: [made[0][::-1], *made[1:]])
    yield (
        "the coordinates of each element together",
        trial.changed(lambda made: [made[0].T.reshape(made[0].shape), *made[1:]]),
    )
    turned = (trial.inputs[0] == 0).astype(trial.inputs[0].dtype)
    yield "the coordinates of the zeros", trial.with_input(0, turned)


# --- caches and sequences --------------------------------------------------------------------------------------------


@_of("ReshapeAndCache", "NormRopeReshape")
def _rows_of_caches(trial: Trial) -> Variants:
    place = trial.names.index("slots")
    slots = trial.inputs[place].astype(np.int64)
    for at, words in ((-1, "last"), (0, "first")):
        fewer = slots.copy()
        fewer.reshape(-1)[at] = -1
        yield f"the rows written without the {words} one", trial.with_input(place, fewer.astype(np.int32))


@_of("Pad")
def _tokens(trial: Trial) -> Variants:
    x, lengths = trial.inputs[0], trial.inputs[trial.names.index("lengths")].reshape(-1).astype(np.int64)
    ends = np.cumsum(lengths)
    for words, places in (
        ("the first token of each sequence", ends - lengths),
        ("the token before the last one of each sequence", ends - 2),
        ("the token after the last one of each sequence", ends.clip(None, len(x) - 1)),
        ("the last token of all sequences", np.full_like(ends, len(x) - 1)),
        ("the tokens at the lengths, as if each sequence were the first", lengths - 1),
    ):
        yield words, trial.then(partial(_cast, x[places]))


@_of("Cumsum")
def _sums(trial: Trial) -> Variants:
    (x,) = trial.inputs
    axis = trial.settings.integers("axes")[0]
    yield "the sums from the end", trial.with_input(0, np.flip(x, axis)).then(lambda made: np.flip(made, axis))
    if x.dtype.name == "float16" and not trial.settings.flag("exclusive", False):
        yield "the sums accumulated in float16", trial.instead(lambda: np.add.accumulate(x, axis))


# --- reductions and experts ------------------------------------------------------------------------------------------


@_of("Reduce")
def _reductions(trial: Trial) -> Variants:
    (x,), axes = trial.inputs, tuple(trial.settings.integers("axis"))
    functions: tuple[tuple[str, Callable[..., Array]], ...] = (("the mean", np.mean), ("the product", np.prod))
    for words, function in functions:
        yield words, trial.then(partial(_cast, function(wide(x), axis=axes)))
    for words, at in (("first", 0), ("last", -1)):
        one = x
        for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
            one = np.take(one, at, axis)
        yield f"the {words} elements, not reduced", trial.then(partial(_cast, one))
    for axis in range(x.ndim):
        other = [along for along in range(x.ndim) if along != axis]
        yield f"the reduction along all axes but {axis}", trial.with_param(axis=other)
    if x.dtype.name == "float16" and len(axes) == 1:
        yield (
            "the sum accumulated in float16",
            trial.instead(lambda: np.take(np.add.accumulate(x, axes[0]), -1, axes[0])),
        )


@_of("Softmax")
def _exponentials(trial: Trial) -> Variants:
    x = wide(trial.inputs[0])
    axes = tuple(axis % x.ndim for axis in trial.settings.integers("axes") or [-1])
    with np.errstate(all="ignore"):
        exponentials = np.exp(x - x.max(axes, keepdims=True))
        total = exponentials.sum(axes, keepdims=True)
        yield "exponentials that are not divided by their sum", trial.instead(lambda: exponentials)
        yield "exponentials of x itself, not divided by their sum", trial.instead(lambda: np.exp(x))
        yield "the logarithm of Softmax", trial.instead(lambda: np.log(exponentials / total))


@_of("IndexAdd")
def _updates(trial: Trial) -> Variants:
    var, indices, updates, alpha = trial.inputs
    axis = trial.settings.integer("axis", 0)
    put = np.moveaxis(wide(var), axis, 0).copy()
    factor = wide(alpha).reshape(-1)[0] if is_float(alpha) else 1.0
    put[indices.reshape(-1)] = np.moveaxis(wide(updates), axis, 0) * factor
    yield "the updates put in place of the old values", trial.instead(lambda: np.moveaxis(put, 0, axis))
    added = np.moveaxis(wide(var), axis, 0).copy()
    added[indices.reshape(-1)] += np.moveaxis(wide(updates), axis, 0) * factor
    yield "the last update of each row alone", trial.instead(lambda: np.moveaxis(added, 0, axis))


@_of("Gating")
def _ordered_tokens(trial: Trial) -> Variants:
    index, chosen = trial.inputs[1].reshape(-1), max(trial.settings.integer("topkExpertNum", 1), 1)
    yield (
        "the tokens in their own order, not that of experts",
        trial.changed(lambda made: [_shaped(index // chosen, made[0]), made[1], _shaped(index, made[2]), *made[3:]]),
    )
    yield (
        "the counts of each expert alone, not summed",
        trial.changed(lambda made: [made[0], np.diff(made[1], prepend=made[1].dtype.type(0)), *made[2:]]),
    )


@_of("FusedAddTopkDiv")
def _chosen(trial: Trial) -> Variants:
    x, bias = (wide(array) for array in trial.inputs[:2])
    is_norm, scale = trial.settings.flag("isNorm", True), trial.settings.number("scale", 1.0)

    def of(scores: Array, made: list[Array]) -> list[Array]:
        weights = np.take_along_axis(scores, made[1].astype(np.int64), 1)
        weights = weights / weights.sum(1, keepdims=True) * scale if is_norm else weights
        return [weights.astype(made[0].dtype), *made[1:]]

    exponentials = np.exp(x - x.max(1, keepdims=True))
    yield "weights with the bias", trial.changed(lambda made: of(_sigmoid(x) + bias, made))
    softmax = exponentials / exponentials.sum(1, keepdims=True)
    yield "weights of Softmax in place of Sigmoid", trial.changed(lambda made: of(softmax, made))
