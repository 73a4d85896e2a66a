"""Known mistakes of kernels and of the programs that call them: which one has the numbers of the NPU?

A mistake runs the operation again with other parameters or inputs, or changes the result, as if somebody had made it.
If what comes out agrees with the NPU's, where the right result does not, that is most likely what has happened.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ATTENTIONS = ("SelfAttention", "PagedAttention", "MultiLatentAttention")
_NORMS = ("RmsNorm", "LayerNorm", "CohereLayerNorm", "GatherPreRmsNorm")


@dataclass(frozen=True)
class Trial:
    """An operation as it is run.

    Attributes:
        param: Its parameters.
        inputs: The tensors that it reads.
        saturates: Whether values beyond float16 saturate, against what was chosen.
        after: What is done with each result.
        order: Which result stands at each place; None leaves them where they are.
    """

    param: dict[str, Any]
    inputs: tuple[Array, ...]
    saturates: bool | None = None
    after: Callable[[Array], Array] | None = None
    order: tuple[int, ...] | None = None

    def written(self, made: Sequence[Array]) -> list[Array]:
        """What is written of the results of the operation."""
        placed = [made[place] for place in self.order] if self.order else made
        return [array if self.after is None else self.after(array) for array in placed]

    def with_param(self, **values: Any) -> Trial:
        """With other parameters."""
        return replace(self, param={**self.param, **values})

    def with_input(self, position: int, array: Array) -> Trial:
        """With another tensor at a position."""
        return replace(self, inputs=(*self.inputs[:position], array, *self.inputs[position + 1 :]))

    def without_input(self, position: int) -> Trial:
        """With one tensor less."""
        return replace(self, inputs=(*self.inputs[:position], *self.inputs[position + 1 :]))

    def swapped(self, first: int, second: int) -> Trial:
        """With two tensors exchanged."""
        return self.with_input(first, self.inputs[second]).with_input(second, self.inputs[first])


#: The mistakes of an operation: what it then computes, in words after "equals", and how it is run.
Variants = Iterator[tuple[str, Trial]]
_MISTAKES: dict[str, list[Callable[[Trial], Variants]]] = {}


def _of(*kinds: str) -> Callable[[Callable[[Trial], Variants]], Callable[[Trial], Variants]]:
    def register(function: Callable[[Trial], Variants]) -> Callable[[Trial], Variants]:
        for kind in kinds:
            _MISTAKES.setdefault(kind, []).append(function)
        return function

    return register


def variants(kind: str, trial: Trial) -> Variants:
    """The operation with each mistake that it can have, the likeliest first."""
    for function in _MISTAKES.get(kind, ()):
        with contextlib.suppress(IndexError, TypeError, ValueError):  # parameters of a form that only the handler reads
            yield from function(trial)
    yield from _saturation(trial)


def _is_float(array: Array) -> bool:
    return array.dtype.kind not in "iub"


def _integer_vectors(trial: Trial) -> Iterator[int]:
    return (i for i, array in enumerate(trial.inputs) if array.dtype.kind in "iu" and array.ndim == 1)


def _moved(array: Array, by: int) -> Array:
    return (array.astype(np.int64) + by).clip(0).astype(array.dtype)


@_of(*_ATTENTIONS)
def _masks(trial: Trial) -> Variants:
    kind = trial.param.get("maskType", 0)
    places = [i for i, array in enumerate(trial.inputs) if i >= 3 and _is_float(array) and array.ndim >= 2]
    place = places[-1] if places else None
    if kind and place is not None:
        mask = trial.inputs[place]
        yield "attention without the mask", trial.with_param(maskType=0).without_input(place)
        yield "attention with the mask's sign turned", trial.with_input(place, -mask)
        if mask.dtype.name == "bfloat16":
            yield "attention with the mask added as it is", trial.with_input(place, mask.astype(np.float16))
    if not kind:
        yield "attention with a causal mask", trial.with_param(maskType=9)


@_of(*_ATTENTIONS)
def _scales(trial: Trial) -> Variants:
    scale = float(trial.param.get("qkScale", 1.0) or 1.0)
    if scale != 1:
        yield "attention without the scale", trial.with_param(qkScale=1.0)
        yield "attention with the scale applied twice", trial.with_param(qkScale=scale * scale)
    if "qScale" in trial.param and float(trial.param["qScale"]) != 1:
        yield "attention without qScale", trial.with_param(qScale=1.0)


@_of(*_ATTENTIONS)
def _lengths(trial: Trial) -> Variants:
    for place in _integer_vectors(trial):
        for by, words in ((-1, "one short"), (1, "one too long")):
            yield f"attention with lengths that are {words}", trial.with_input(place, _moved(trial.inputs[place], by))
        if trial.inputs[place].size > 1:
            turned = np.roll(trial.inputs[place], 1)
            yield "attention with the lengths of other sequences", trial.with_input(place, turned)


@_of("PagedAttention", "MultiLatentAttention", "PagedCacheLoad")
def _blocks(trial: Trial) -> Variants:
    tables = (i for i, array in enumerate(trial.inputs) if array.dtype.kind in "iu" and array.ndim == 2)
    for place in tables:
        table = trial.inputs[place]
        yield "the result with the next block of each table", trial.with_input(place, _moved(table, 1))
        yield "the result with the block before in each table", trial.with_input(place, _moved(table, -1))
        for by in (1, -1):
            yield "the result with the block table of another sequence", trial.with_input(place, np.roll(table, by, 0))
        yield "the result with the blocks in reverse order", trial.with_input(place, table[:, ::-1].copy())


@_of(*_ATTENTIONS)
def _heads(trial: Trial) -> Variants:
    heads = int(trial.param.get("headNum", 0) or 0)
    groups = int(trial.param.get("kvHeadNum", 0) or 0) or heads
    if len(trial.inputs) > 2 and trial.inputs[1].shape == trial.inputs[2].shape:
        yield "attention with keys and values exchanged", trial.swapped(1, 2)
    if not heads or trial.inputs[0].size % heads:
        return

    def by_head(order: Sequence[int], array: Array) -> Array:
        wide = array if array.ndim == 3 and array.shape[1] == heads else array.reshape(len(array), heads, -1)
        return wide[:, list(order)].reshape(array.shape)

    for by in (1, -1):
        turned = [(head + by) % heads for head in range(heads)]
        yield "attention of the neighboring heads", replace(trial, after=partial(by_head, turned))
    if groups and heads % groups == 0 and 1 < groups < heads:
        tiled = [share * groups + group for group in range(groups) for share in range(heads // groups)]
        back = list(np.argsort(tiled))
        changed = trial.with_input(0, by_head(tiled, trial.inputs[0]))
        words = "attention in which head h reads the keys of group h mod kvHeadNum"
        yield words, replace(changed, after=partial(by_head, back))


#: Where each operation that rotates has its cosines; its sines follow.
_COSINES = {"Rope": 2, "RopeQConcat": 1, "NormRopeReshape": 3}


def _rotations(kind: str, trial: Trial) -> Variants:
    cos, sin = _COSINES[kind], _COSINES[kind] + 1
    head = trial.inputs[cos].shape[-1]
    if kind == "Rope":
        own = trial.param.get("rotaryCoeff", 4)
        names = {2: "halves of the head", head: "neighbors"}
        for coefficient in dict.fromkeys((2, 4, head)):
            if coefficient != own and head % coefficient == 0:
                words = names.get(coefficient, f"groups of rotaryCoeff {coefficient}")
                yield f"the rotation of {words}", trial.with_param(rotaryCoeff=coefficient)
    yield "the rotation with cos and sin exchanged", trial.swapped(cos, sin)
    yield "the rotation in the other direction", trial.with_input(sin, -trial.inputs[sin])
    yield "the product with cos alone", trial.with_input(sin, np.zeros_like(trial.inputs[sin]))
    for by, words in ((1, "before"), (-1, "after")):
        moved = trial.with_input(cos, np.roll(trial.inputs[cos], by, 0))
        yield f"the rotation at the position {words}", moved.with_input(sin, np.roll(trial.inputs[sin], by, 0))


for _kind in _COSINES:
    _of(_kind)(partial(_rotations, _kind))


@_of("Linear", "LinearParallel")
def _products(trial: Trial) -> Variants:
    weight = trial.inputs[1]
    if trial.param.get("hasBias", True) and len(trial.inputs) == 3:
        yield "the product without the bias", trial.with_param(hasBias=False).without_input(2)
    key = "transposeB" if "transWeight" not in trial.param else "transWeight"
    if weight.ndim >= 2:
        flipped = trial.with_param(**{key: not trial.param.get(key, True)})
        swapped = weight.reshape(*weight.shape[:-2], weight.shape[-1], weight.shape[-2])
        yield "the product with a weight that is not transposed", flipped.with_input(1, swapped)
        if weight.shape[-1] == weight.shape[-2]:
            yield "the product with a weight that is transposed once more", flipped
    if weight.ndim == 3 and len(weight) > 1:
        for by in (1, -1):
            yield "the product with the weight of the next batch", trial.with_input(1, np.roll(weight, by, 0))


@_of(*_NORMS)
def _norms(trial: Trial) -> Variants:
    width = trial.inputs[0].shape[-1]
    for place, array in enumerate(trial.inputs[1:], 1):
        if not _is_float(array):
            continue
        if array.size == width or array.ndim < trial.inputs[0].ndim:
            yield f"the norm with ones as input {place}", trial.with_input(place, np.ones_like(array))
            yield f"the norm with 1 + input {place}", trial.with_input(place, array + np.ones_like(array))
        yield f"the norm with zeros as input {place}", trial.with_input(place, np.zeros_like(array))
    groups = [key for key, value in trial.param.items() if isinstance(value, dict) and "epsilon" in value]
    for epsilon, key in itertools.product((1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 1e-7), groups):
        if trial.param[key]["epsilon"] != epsilon:
            other = {**trial.param[key], "epsilon": epsilon}
            yield f"the norm with an epsilon of {epsilon:g}", trial.with_param(**{key: other})


@_of("Activation")
def _activations(trial: Trial) -> Variants:
    names = {1: "Relu", 2: "Gelu", 3: "FastGelu", 4: "Swish", 8: "Sigmoid"}
    own = trial.param.get("activationType", 0)
    if own in (6, "SWIGLU_FORWARD"):
        axis = int(trial.param.get("dim", -1))
        halves = np.split(trial.inputs[0], 2, axis)
        yield "SwiGLU with its halves exchanged", trial.with_input(0, np.concatenate(halves[::-1], axis))
    if own in (2, "GELU"):
        mode = trial.param.get("geluMode", 0)
        yield (
            "Gelu with the other formula (erf or tanh)",
            trial.with_param(geluMode=0 if mode in (1, "NONE_MODE") else 1),
        )
    if own in names:
        for number, name in names.items():
            if number != own:
                yield name, trial.with_param(activationType=number)


@_of("Elewise")
def _elementwise(trial: Trial) -> Variants:
    binary = {8: "ADD", 9: "MUL", 10: "REALDIV", 15: "SUB"}
    own = trial.param.get("elewiseType", 0)
    if own in binary and len(trial.inputs) == 2:
        if trial.inputs[0].shape == trial.inputs[1].shape:
            yield f"{binary[own]} with its operands exchanged", trial.swapped(0, 1)
        for number, name in binary.items():
            if number != own:
                yield name, trial.with_param(elewiseType=number)
        first, second = trial.inputs
        if _is_float(second) and second.ndim and second.shape != first.shape and second.size < first.size:
            # What leaves a number as it is: 0 of sums, 1 of products.
            wide = np.full(first.shape, binary[own] in ("MUL", "REALDIV"), second.dtype)
            wide.reshape(-1)[: second.size] = second.reshape(-1)
            yield f"{binary[own]} with the second operand at the first elements only", trial.with_input(1, wide)
    if own == 17 and len(trial.inputs) == 3:
        yield "the quantization without the offset", trial.with_input(2, np.zeros_like(trial.inputs[2]))
        yield "the quantization without the scale", trial.with_input(1, np.ones_like(trial.inputs[1]))


@_of("Fill")
def _filled(trial: Trial) -> Variants:
    if len(trial.inputs) == 2:
        mask = trial.inputs[1]
        yield "the fill where the mask is 0", trial.with_input(1, (mask == 0).astype(mask.dtype))
        yield "the fill of all elements", trial.with_input(1, np.ones_like(mask))
    given = trial.param.get("value")
    value = given[0] if isinstance(given, list) and given else given
    if isinstance(value, int | float) and value:
        yield "the fill with the value's sign turned", trial.with_param(value=[-value])
        yield "the fill with 0", trial.with_param(value=[0.0])


@_of("Where")
def _branches(trial: Trial) -> Variants:
    yield "the result with its branches exchanged", trial.swapped(1, 2)


@_of("Split")
def _parts(trial: Trial) -> Variants:
    sizes = trial.param.get("splitSizes") or []
    count = int(trial.param.get("splitNum", 2))
    for order in itertools.permutations(range(count)):
        if order != tuple(range(count)):
            words = "the parts in the order " + ", ".join(map(str, order)) if count > 2 else "the parts exchanged"
            yield words, replace(trial, order=order)
    if len(sizes) == count and len(set(sizes)) > 1:
        words = "the parts of the sizes in the other order"
        yield words, replace(trial.with_param(splitSizes=[*reversed(sizes)]), order=tuple(reversed(range(count))))
    axis, rank = int(trial.param.get("splitDim", 0)), trial.inputs[0].ndim
    for other in range(rank):
        if other != axis % rank:
            yield f"the parts along axis {other}", trial.with_param(splitDim=other)


@_of("Sort")
def _sorted(trial: Trial) -> Variants:
    if _is_float(trial.inputs[0]):
        dtype = trial.inputs[0].dtype
        turned = trial.with_input(0, -trial.inputs[0])
        yield "the least in ascending order", replace(turned, after=lambda a: -a if a.dtype == dtype else a)
    yield "the values' and positions' places exchanged", replace(trial, order=(1, 0))


@_of("Slice")
def _sliced(trial: Trial) -> Variants:
    offsets = [int(offset) for offset in trial.param.get("offsets", ())]
    for axis, offset in enumerate(offsets):
        for by, words in ((1, "after"), (-1, "before"), (-offset, "at the beginning")):
            moved = [*offsets[:axis], offset + by, *offsets[axis + 1 :]]
            if by and moved[axis] >= 0:
                yield f"the part {words} along axis {axis}", trial.with_param(offsets=moved)


@_of("Cumsum")
def _sums(trial: Trial) -> Variants:
    exclusive = bool(trial.param.get("exclusive", False))
    words = "with" if exclusive else "without"
    yield f"the sums {words} the element itself", trial.with_param(exclusive=not exclusive)
    axis, rank = int(trial.param["axes"][0]), trial.inputs[0].ndim
    yield (
        "the sums from the end",
        replace(trial.with_input(0, np.flip(trial.inputs[0], axis)), after=lambda a: np.flip(a, axis)),
    )
    for other in range(rank):
        if other != axis % rank:
            yield f"the sums along axis {other}", trial.with_param(axes=[other])


@_of("Onehot")
def _marks(trial: Trial) -> Variants:
    yield "the marks with their values exchanged", trial.swapped(1, 2)
    for by, words in ((1, "after"), (-1, "before")):
        moved = (trial.inputs[0].astype(np.int64) + by).astype(trial.inputs[0].dtype)
        yield f"the marks one place {words}", trial.with_input(0, moved)


#: Where each operation on sequences has their lengths.
_LENGTHS = {"Pad": 2, "Unpad": 3, "DynamicNTK": 2}


def _ends_of_sequences(kind: str, trial: Trial) -> Variants:
    place = _LENGTHS[kind]
    for by, words in ((-1, "one short"), (1, "one too long")):
        yield f"the result of lengths that are {words}", trial.with_input(place, _moved(trial.inputs[place], by))
    if trial.inputs[place].size > 1:
        turned = np.roll(trial.inputs[place].reshape(-1), 1).reshape(trial.inputs[place].shape)
        yield "the result of the lengths of other sequences", trial.with_input(place, turned)


for _kind in _LENGTHS:
    _of(_kind)(partial(_ends_of_sequences, _kind))


@_of("Repeat")
def _repeated(trial: Trial) -> Variants:
    """Each element so many times in place of the whole: what torch calls repeat_interleave."""
    multiples = [int(number) for number in trial.param.get("multiples", ())]
    x = trial.inputs[0].reshape((1,) * (len(multiples) - trial.inputs[0].ndim) + trial.inputs[0].shape)
    made = x
    for axis, number in enumerate(multiples):
        made = np.repeat(made, number, axis)
    yield "each element repeated where it stands", replace(trial, after=lambda _: made)


@_of("FaUpdate")
def _weights(trial: Trial) -> Variants:
    yield "the mean without weights", trial.with_input(0, np.zeros_like(trial.inputs[0]))
    yield "the weights of the parts moved by one", trial.with_input(0, np.roll(trial.inputs[0], 1, 0))


@_of("AsStrided")
def _views(trial: Trial) -> Variants:
    if any(trial.param.get("offset", ())):
        yield "the view from the beginning", trial.with_param(offset=[0])
    size, stride = trial.param["size"], trial.param["stride"]
    if len(size) > 1 and len(set(stride)) > 1:
        yield "the view with its strides in the other order", trial.with_param(stride=[*reversed(stride)])


@_of("SetValue")
def _written_places(trial: Trial) -> Variants:
    starts, ends = trial.param["starts"], trial.param["ends"]
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for by, words in ((1, "after"), (-1, "before"), (-start, "at the beginning")):
            if by:
                moved = [[*given[:axis], at + by, *given[axis + 1 :]] for given, at in ((starts, start), (ends, end))]
                yield f"the values written {words} along axis {axis}", trial.with_param(starts=moved[0], ends=moved[1])


@_of("SwigluQuant")
def _halves(trial: Trial) -> Variants:
    halves = np.split(trial.inputs[0], 2, -1)
    yield "SwiGLU with its halves exchanged", trial.with_input(0, np.concatenate(halves[::-1], -1))


@_of("BlockCopy")
def _copies(trial: Trial) -> Variants:
    for place in _integer_vectors(trial):
        for by, words in ((1, "after"), (-1, "before")):
            yield (
                f"the blocks with input {place} one place {words}",
                trial.with_input(place, _moved(trial.inputs[place], by)),
            )


@_of("Softmax")
def _axes(trial: Trial) -> Variants:
    axes = trial.param.get("axes")
    rank = trial.inputs[0].ndim
    own = {int(axis) % rank for axis in axes} if isinstance(axes, list) and axes else {rank - 1}
    for axis in range(rank):
        if {axis} != own:
            yield f"Softmax along axis {axis}", trial.with_param(axes=[axis])


@_of("ReshapeAndCache", "KvCache", "NormRopeReshape")
def _slots(trial: Trial) -> Variants:
    for place in _integer_vectors(trial):
        for by, words in ((1, "after"), (-1, "before")):
            moved = trial.inputs[place].astype(np.int64) + by
            yield (
                f"rows written into the slots {words}",
                trial.with_input(place, moved.astype(trial.inputs[place].dtype)),
            )
    if len(trial.inputs) > 4 and trial.inputs[0].shape == trial.inputs[1].shape:
        yield "keys and values written into each other's cache", trial.swapped(0, 1)


@_of("Gather", "IndexAdd", "ScatterElementsV2")
def _places(trial: Trial) -> Variants:
    for place, array in enumerate(trial.inputs[1:], 1):
        if array.dtype.kind in "iu":
            for by, words in ((1, "after"), (-1, "before")):
                yield f"the rows one place {words}", trial.with_input(place, _moved(array, by))
            break


@_of("Reduce")
def _reductions(trial: Trial) -> Variants:
    for number, name in ((1, "the maximum"), (2, "the minimum"), (3, "the sum")):
        if trial.param.get("reduceType") != number:
            yield name, trial.with_param(reduceType=number)


@_of("FusedAddTopkDiv", "Gating", "GroupTopk")
def _routing(trial: Trial) -> Variants:
    if "isNorm" in trial.param:
        yield "weights that are not normalized, or once more", trial.with_param(isNorm=not trial.param["isNorm"])
    if float(trial.param.get("scale", 1) or 1) != 1:
        yield "weights without the scale", trial.with_param(scale=1.0)


@_of("Concat")
def _joined(trial: Trial) -> Variants:
    yield "the parts in the other order", replace(trial, inputs=trial.inputs[::-1])


@_of("Transpose")
def _transposed(trial: Trial) -> Variants:
    perm = trial.param.get("perm")
    if isinstance(perm, list):
        inverse = [int(i) for i in np.argsort(perm)]
        if inverse != perm:
            yield "the inverse permutation", trial.with_param(perm=inverse)


def _saturation(trial: Trial) -> Variants:
    if any(array.dtype == np.float16 for array in trial.inputs):
        for saturates, words in ((True, "65504 for values beyond float16"), (False, "infinities beyond float16")):
            yield f"the result with {words}", replace(trial, saturates=saturates)


# --- what no operation needs to be run for -----------------------------------------------------------------------


def resemblances(here: Array, npu: Array, inputs: Sequence[Array]) -> Iterator[tuple[str, Array]]:
    """Tensors that the NPU may have in place of the right one: its words, and the tensor.

    Args:
        here: The right result.
        npu: The NPU's, of the same shape.
        inputs: What the operation has read.
    """
    if here.size < 2:
        return
    yield "zeros: nothing was written", np.zeros_like(here)
    for place, array in enumerate(inputs):
        if array.size == here.size and array.dtype == here.dtype:
            yield f"input {place}: nothing was computed", array.reshape(here.shape)
    if _is_float(here):
        yield from _scaled(here, npu)
    flat = npu.reshape(-1)
    zeros = flat.size - int(np.flatnonzero(flat != 0).max(initial=-1)) - 1
    if 0 < zeros < flat.size:
        cut = here.reshape(-1).copy()
        cut[flat.size - zeros :] = 0
        yield f"the result up to element {flat.size - zeros}, then zeros", cut.reshape(here.shape)
    if here.ndim > 1:
        lost = ~np.any(npu.reshape(len(npu), -1) != 0, axis=1)
        if 0 < lost.sum() < len(lost):
            rows = here.copy()
            rows[lost] = 0
            yield (
                f"the result with {int(lost.sum())} of {len(lost)} rows lost, from row {int(np.argmax(lost))} on",
                rows,
            )
    for axis in {0, here.ndim - 2, here.ndim - 1} & set(range(here.ndim)):
        for by, words in ((1, "after"), (-1, "before")):
            if here.shape[axis] > 1:
                yield f"the result moved along axis {axis} to the place {words}", np.roll(here, by, axis)


def _scaled(here: Array, npu: Array) -> Iterator[tuple[str, Array]]:
    a, b = here.astype(np.float64).reshape(-1), npu.astype(np.float64).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b)
    norm = float(np.vdot(a[finite], a[finite]))
    factor = float(np.vdot(a[finite], b[finite])) / norm if norm else 0.0
    if factor and np.isfinite(factor):
        with np.errstate(over="ignore", invalid="ignore"):
            yield f"{factor:.4g} times the result", (a * factor).astype(here.dtype).reshape(here.shape)
