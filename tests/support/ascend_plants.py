"""An operation of each kind of ATB's table, and what is wrong in its results after a mistake, in plain numpy.

Nothing of the converter is used: a wrong result is computed from the inputs and the right results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from support.ascend_graphs import BFLOAT16
from support.ascend_layers import attend, wide

Array = np.ndarray
F16, F32, I32 = np.float16, np.float32, np.int32
#: Wrong results, given the right ones.
Wrong = Callable[[list[Array]], list[Array]]


@dataclass
class Example:
    """An operation, and its mistakes.

    Attributes:
        kind: Its type without `Operation`.
        inputs: What it reads.
        param: Its parameters.
        outputs: The number of its results in the graph; operations that write in place may have none.
        wrong: The results of each mistake, by a part of the words that name it; `|` between several.
    """

    kind: str
    inputs: list[Array]
    param: Any
    outputs: int = 1
    wrong: dict[str, Wrong] = field(default_factory=dict)


def one(array: Array) -> Wrong:
    """A single result, rounded to the type of the right one."""
    return lambda right: [np.asarray(array).astype(right[0].dtype)]


def first(array: Array) -> Wrong:
    """Another first result; the others are right."""
    return lambda right: [np.asarray(array).astype(right[0].dtype), *right[1:]]


def second(function: Callable[[list[Array]], Array]) -> Wrong:
    """Another second result; the others are right."""
    return lambda right: [right[0], np.asarray(function(right)).astype(right[1].dtype), *right[2:]]


def exchanged(right: list[Array]) -> list[Array]:
    return right[::-1]


def lost_rows(right: list[Array]) -> list[Array]:
    """The last rows of the first result were not written."""
    made = right[0].copy()
    made[-max(1, len(made) // 3) :] = 0
    return [made, *right[1:]]


def zeros(right: list[Array]) -> list[Array]:
    return [np.zeros_like(array) for array in right]


ANY = {"zeros": zeros, "rows lost|then zeros": lost_rows}


def coordinates(bits: Array) -> Wrong:
    """The coordinates of what is not 0, and their number."""
    found = np.stack(np.nonzero(bits))
    padded = np.zeros((bits.ndim, bits.size), np.int64)
    padded[:, : found.shape[1]] = found
    return lambda right: [padded, np.array([found.shape[1]])]


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def rms(x: Array, epsilon: float = 1e-5) -> Array:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon)


def centered(x: Array, epsilon: float = 1e-5) -> Array:
    y = x - x.mean(-1, keepdims=True)
    return y / np.sqrt(np.square(y).mean(-1, keepdims=True) + epsilon)


def turned(x: Array, cos: Array, sin: Array) -> Array:
    """Halves of each head rotated."""
    tokens, head = cos.shape
    parts = x.reshape(tokens, -1, head)
    a, b = np.split(parts, 2, -1)
    return (parts * cos[:, None] + np.concatenate([-b, a], -1) * sin[:, None]).reshape(x.shape)


class _Examples:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def draw(self, *shape: int, scale: float = 1.0, dtype: Any = F16) -> Array:
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def all(self) -> Iterator[Example]:
        for family in (self.elements, self.moves, self.sums, self.products, self.norms, self.rotations,
                       self.attentions, self.caches, self.indices, self.experts, self.sequences):  # fmt: skip
            yield from family()

    def elements(self) -> Iterator[Example]:
        x, y, row = self.draw(4, 6), self.draw(4, 6), self.draw(6)
        a, b, r = wide(x), wide(y), wide(row)
        mask = (self.random.random((4, 6)) < 0.4).astype(np.int8)
        yield Example("Fill", [x, mask], {"withMask": True, "value": [2.5]}, wrong={
            "mask is 0": one(np.where(mask, a, 2.5)), "exchanged": one(mask), "all elements": one(0 * a + 2.5),
            "sign": one(np.where(mask, -2.5, a)), "with 0": one(np.where(mask, 0, a)), "input 0": one(a), **ANY,
        })  # fmt: skip
        yield Example("Fill", [], {"withMask": False, "value": [-3.0], "outDim": [3, 5]}, wrong={
            "sign": one(np.full((3, 5), 3.0)), **ANY,
        })  # fmt: skip
        yield Example("Where", [mask, x, y], None, wrong={
            "branches exchanged": one(np.where(mask, b, a)), "input 1|ones": one(a), "input 2|zeros": one(b),
        })  # fmt: skip
        add = {"elewiseType": 8}
        yield Example("Elewise", [x, y], add, wrong={
            "MUL": one(a * b), "SUB": one(a - b), "input 0": one(a), "input 1": one(b), **ANY,
        })  # fmt: skip
        padded = np.zeros(24)
        padded[:6] = r
        yield Example("Elewise", [x, row], add, wrong={
            "first elements only": one(a + padded.reshape(4, 6)), "input 0": one(a), "sign of y": one(a - r),
        })  # fmt: skip
        yield Example("Elewise", [x, y], {"elewiseType": "ELEWISE_SUB"}, wrong={
            "exchanged": one(b - a), "ADD": one(a + b), **ANY,
        })  # fmt: skip
        yield Example("Elewise", [x], {"elewiseType": 3}, wrong={"SIN": one(np.sin(a)), "input 0": one(a)})
        yield Example("Elewise", [x], {"elewiseType": 2, "mulsParam": {"varAttr": 3.0}}, wrong={
            "without the factor": one(a), "factor twice": one(9 * a), "1 / varAttr": one(a / 3), **ANY,
        })  # fmt: skip
        yield Example("Elewise", [x, y], {"elewiseType": 13}, wrong={
            "GREATER": one(a > b), "EQUAL|zeros": one(a == b), "exchanged": one(b < a),
        })  # fmt: skip
        yield Example("Elewise", [mask, np.roll(mask, 1, 1)], {"elewiseType": 11}, wrong={
            "LOGICAL_OR": one(mask | np.roll(mask, 1, 1)), "input 0": one(mask),
        })  # fmt: skip
        scale, offset = np.array([0.05], F16), np.array([7], np.int8)
        steps = wide((a / wide(scale)).astype(F16))

        def quantized(values: Array) -> Wrong:
            return one(np.clip(np.rint(values), -128, 127))

        yield Example("Elewise", [x, scale, offset], {"elewiseType": 17}, wrong={
            "without the offset": quantized(steps), "sign of offset": quantized(steps - 7),
            "without the scale": quantized(wide((a + 7).astype(F16))), **ANY,
        })  # fmt: skip
        yield Example("Activation", [x], {"activationType": 4}, wrong={
            "Sigmoid": one(sigmoid(a)), "Relu": one(np.maximum(a, 0)), "Gelu": one(
                0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))), "input 0": one(a), **ANY,
        })  # fmt: skip
        gate, value = np.split(a, 2, -1)
        yield Example("Activation", [x], {"activationType": 6, "dim": -1}, wrong={
            "halves exchanged": one(value * sigmoid(value) * gate), "gate alone": one(gate * sigmoid(gate)),
            "neighbors": one(a[:, ::2] * sigmoid(a[:, ::2]) * a[:, 1::2]), "Sigmoid": one(sigmoid(gate) * value),
        })  # fmt: skip
        yield Example("SwigluQuant", [x], None, 2, wrong={
            "in result 1|zeros": lambda right: [right[0], 0 * right[1]], "rows lost|then zeros": lost_rows,
        })  # fmt: skip

    def moves(self) -> Iterator[Example]:
        x, y = self.draw(4, 6), self.draw(4, 6)
        parts = np.split(x, 3, 1)
        yield Example("Split", [x], {"splitDim": 1, "splitNum": 2, "splitSizes": []}, 2, wrong={
            "exchanged": exchanged, "in turn": lambda right: [x[:, ::2], x[:, 1::2]],
        })  # fmt: skip
        yield Example("Split", [x], {"splitDim": 1, "splitNum": 3, "splitSizes": [2, 2, 2]}, 3, wrong={
            "0, 2, 1": lambda right: [parts[0], parts[2], parts[1]], "2, 1, 0": exchanged,
            "in result 2": lambda right: [*right[:2], 0 * right[2]],
        })  # fmt: skip
        yield Example("Concat", [x, y], {"concatDim": 1}, wrong={
            "other order": one(np.concatenate([y, x], 1)), "not along": one(np.concatenate([x, y]).reshape(4, 12)),
            "in turn": one(np.stack([x, y], 2).reshape(4, 12)), "zeros as y": one(np.concatenate([x, 0 * y], 1)),
        })  # fmt: skip
        yield Example("Slice", [x], {"offsets": [1, 2], "size": [2, 3]}, wrong={
            "after along axis 0": one(x[2:4, 2:5]), "before along axis 1": one(x[1:3, 1:4]), **ANY,
        })  # fmt: skip
        cube = self.draw(2, 3, 4)
        yield Example("Transpose", [cube], {"perm": [1, 2, 0]}, wrong={
            "inverse": one(cube.transpose(2, 0, 1).reshape(3, 4, 2)), "input 0": one(cube.reshape(3, 4, 2)),
            "0, 2, 1": one(cube.transpose(0, 2, 1).reshape(3, 4, 2)),
        })  # fmt: skip
        yield Example("Repeat", [x], {"multiples": [2, 1]}, wrong={
            "each element": one(np.repeat(x, 2, 0)), "1, 2": one(np.tile(x, (1, 2)).reshape(8, 6)), **ANY,
        })  # fmt: skip
        flat = x.reshape(-1)
        yield Example("AsStrided", [x], {"size": [3, 2], "stride": [2, 5], "offset": [4]}, wrong={
            "beginning": one(np.array([[flat[2 * i + 5 * j] for j in range(2)] for i in range(3)])),
            "without strides": one(flat[4:10].reshape(3, 2)),
            "other order": one(np.array([[flat[4 + 5 * i + 2 * j] for j in range(2)] for i in range(3)])),
        })  # fmt: skip
        box, later = x.copy(), x.copy()
        box[1:3, 2:4], later[2:4, 2:4] = 0, y[:2, :2]
        yield Example("SetValue", [x, y[:2, :2]], {"starts": [1, 2], "ends": [3, 4], "strides": [1, 1]}, 0, wrong={
            "input 0": one(x), "zeros as src": one(box), "after along axis 0": one(later),
        })  # fmt: skip
        blocks = self.draw(2, 20, 17)
        yield Example("Transdata", [blocks], {"transdataType": 2, "outCrops": [0, 0]}, wrong={
            **ANY, "next row|moved|row of x": lambda right: [right[0][::-1]],
        })  # fmt: skip
        bits = (self.random.random((3, 4)) < 0.5).astype(np.int64)
        yield Example("Nonzero", [bits], None, 2, wrong={
            "last axis to the first": lambda right: [right[0][::-1], right[1]],
            "coordinates of the zeros": coordinates(bits == 0), "each element together": lambda right: [
                right[0].T.reshape(right[0].shape), right[1]],
        })  # fmt: skip
        yield Example("Gather", [x, np.array([2, 0, 1], I32)], {"axis": 0}, wrong={
            "one place after": one(x[[3, 1, 2]]), "one place before": one(x[[1, 0, 0]]), **ANY,
        })  # fmt: skip

    def sums(self) -> Iterator[Example]:
        x = self.draw(4, 6, 5)
        a = wide(x)
        yield Example("Reduce", [x], {"reduceType": 3, "axis": [1]}, wrong={
            "maximum": one(a.max(1)), "mean": one(a.mean(1)), "product": one(a.prod(1)), **ANY,
            "first elements": one(a[:, 0]),
        })  # fmt: skip
        square = self.draw(5, 5)
        yield Example("Reduce", [square], {"reduceType": "REDUCE_SUM", "axis": [0]}, wrong={
            "axis 1": one(wide(square).sum(1)), "minimum": one(wide(square).min(0)),
        })  # fmt: skip
        yield Example("Softmax", [x], {"axes": [-1]}, wrong={
            "axis 0": one(softmax(a, 0)), "axis 1": one(softmax(a, 1)), "logarithm": one(np.log(softmax(a))),
            "not divided": one(np.exp(a - a.max(-1, keepdims=True))), "input 0": one(a), **ANY,
        })  # fmt: skip
        yield Example("Cumsum", [x], {"axes": [1]}, wrong={
            "from the end": one(a[:, ::-1].cumsum(1)[:, ::-1]), "without the element": one(a.cumsum(1) - a),
            "axis 2": one(a.cumsum(2)), "input 0": one(a), **ANY,
        })  # fmt: skip
        rows = self.draw(4, 6)
        order = np.argsort(wide(rows), -1, kind="stable")

        def picked(places: Array) -> Wrong:
            return lambda right: [np.take_along_axis(rows, places, -1), places.astype(I32)]

        yield Example("Sort", [rows], {"num": [3]}, 2, wrong={
            "least": picked(order[:, :3]), "largest in ascending": picked(order[:, 3:]),
            "not sorted": picked(np.tile(np.arange(3), (4, 1))), "in result 1": second(lambda right: 0 * right[1]),
        })  # fmt: skip
        lse, parts = self.draw(3, 4, dtype=F32), self.draw(3, 4, 5, dtype=F32)
        yield Example("FaUpdate", [lse, parts], {"faUpdateType": 0, "sp": 3}, wrong={
            "mean without": one(wide(parts).mean(0)), "sum without": one(wide(parts).sum(0)),
            "next part": one((softmax(np.roll(lse, -1, 0), 0)[..., None] * parts).sum(0)),
        })  # fmt: skip

    def products(self) -> Iterator[Example]:
        x, weight, bias = self.draw(5, 8), self.draw(4, 8), self.draw(4)
        a, w, b = wide(x), wide(weight), wide(bias)
        y = a @ w.T + b
        yield Example("Linear", [x, weight, bias], {"transposeB": True, "hasBias": True}, wrong={
            "without the bias": one(a @ w.T), "not transposed": one(a @ w.reshape(8, 4) + b), "bias twice": one(y + b),
            "first half": one(a[:, :4] @ w.T[:4] + b), "second half": one(a[:, 4:] @ w.T[4:] + b), **ANY,
            "2 times": one(2 * y),
        })  # fmt: skip
        many, columns = np.abs(self.draw(3, 2048)), np.abs(self.draw(4, 2048))
        total = np.zeros((3, 4), F16)
        for i in range(2048):
            total = (total + many[:, i : i + 1].astype(F32) * columns[:, i].astype(F32)).astype(F16)
        yield Example("Linear", [many, columns], {"hasBias": False}, wrong={"float16": one(total)})
        batches, weights = self.draw(3, 2, 4), self.draw(3, 4, 4)
        yield Example("Linear", [batches, weights], {"hasBias": False, "transposeB": False}, wrong={
            "next batch": one(wide(batches) @ wide(np.roll(weights, 1, 0))),
            "transposed once more": one(wide(batches) @ wide(weights).transpose(0, 2, 1)),
        })  # fmt: skip
        q, k = (self.random.integers(-99, 99, shape).astype(np.int8) for shape in ((5, 8), (4, 8)))
        shift, scale = self.random.integers(-9999, 9999, 4).astype(I32), np.linspace(1e-4, 4e-4, 4).astype(F32)
        sums = q.astype(int) @ k.astype(int).T
        stored = scale.view(np.uint32).astype(np.int64)
        yield Example("Linear", [q, k, shift, stored], {"hasBias": True, "outDataType": 1}, wrong={
            "without the bias": one(sums * wide(scale)), "first one of deqScale": one((sums + shift) * wide(scale[:1])),
        })  # fmt: skip
        residual = self.draw(5, 4)
        param = {"rankSize": 1, "hasResidual": True, "transWeight": True}
        yield Example("LinearParallel", [x, weight, residual], param, wrong={
            "without the residual": one(a @ w.T), "first half": one(a[:, :4] @ w.T[:4] + wide(residual)), **ANY,
        })  # fmt: skip

    def norms(self) -> Iterator[Example]:
        x, gamma, beta, more = self.draw(4, 8), self.draw(8), self.draw(8), self.draw(4, 8)
        a, g, b, m = (wide(array) for array in (x, gamma, beta, more))
        yield Example("RmsNorm", [x, gamma], {"layerType": 1, "normParam": {"epsilon": 1e-5}}, wrong={
            "ones as gamma": one(rms(a)), "1 \\+ gamma": one(rms(a) * (1 + g)), "epsilon": one(rms(a, 0.1) * g),
            "mean taken off": one(centered(a) * g), **ANY,
        })  # fmt: skip
        gemma = {"layerType": 1, "normParam": {"epsilon": 1e-5, "modelType": 1}}
        yield Example("RmsNorm", [x, gamma], gemma, wrong={"gamma alone": one(rms(a) * g)})
        large = self.draw(4, 8, scale=300.0)
        with np.errstate(over="ignore"):
            squares = wide(np.square(large))
        overflown = wide(large) / np.sqrt(squares.mean(-1, keepdims=True) + 1e-5) * g
        yield Example("RmsNorm", [large, gamma], {"layerType": 1, "normParam": {"epsilon": 1e-5}}, wrong={
            "float16": one(overflown),
        })  # fmt: skip
        yield Example("RmsNorm", [x, more, gamma], {"layerType": 2, "preNormParam": {"epsilon": 1e-5}}, 2, wrong={
            "zeros as residual": lambda right: [(rms(a) * g).astype(F16), x], "order 1, 0": exchanged,
            "in result 1": second(lambda right: x), "ones as gamma": first(rms(a + m)),
        })  # fmt: skip
        yield Example("LayerNorm", [x, gamma, beta], {"layerType": 1, "normParam": {"beginNormAxis": 1}}, wrong={
            "zeros as beta": one(centered(a) * g), "ones as gamma": one(centered(a) + b),
            "without the mean": one(rms(a) * g + b), "exchanged": one(centered(a) * b + g), **ANY,
        })  # fmt: skip
        post = {"layerType": 3, "postNormParam": {"epsilon": 1e-5, "zoomScaleValue": 2.0}}
        yield Example("LayerNorm", [x, more, gamma, beta], post, wrong={
            "zeros as residual": one(centered(a) * g + b), "without the residual's scale": one(centered(a + m) * g + b),
        })  # fmt: skip
        heads, scales = self.draw(4, 3, 8), self.draw(3, 8)
        yield Example("CohereLayerNorm", [heads, scales], {"epsilon": 1e-5}, wrong={
            "ones as gamma": one(centered(wide(heads))), "without the mean": one(rms(wide(heads)) * wide(scales)),
            "first row of gamma": one(centered(wide(heads)) * wide(scales[:1])),
        })  # fmt: skip
        table, ids = self.draw(6, 8), np.array([3, 0, 5, 2], I32)
        yield Example("GatherPreRmsNorm", [x, table, ids, gamma], {"epsilon": 1e-5}, 2, wrong={
            "zeros as residual": lambda right: [(rms(a) * g).astype(F32), x],
            "ones as gamma": first(rms(wide(table)[ids] + a)),
        })  # fmt: skip

    def rotations(self) -> Iterator[Example]:
        angles = np.tile(np.arange(1, 5)[:, None] * 10.0 ** -np.arange(4), 2)
        cos, sin = np.cos(angles).astype(F16), np.sin(angles).astype(F16)
        c, s = wide(cos), wide(sin)
        lengths = np.array([4], I32)
        for heads in (1, 2):
            q, k = self.draw(4, 16), self.draw(4, 8 * heads)
            given = [wide(q), wide(k)]

            def both(cos: Array, sin: Array, given: list[Array] = given) -> Wrong:
                return lambda right: [turned(x, cos, sin).astype(F16) for x in given]

            yield Example("Rope", [q, k, cos, sin, lengths], {"rotaryCoeff": 2}, 2, wrong={
                "other direction": both(c, -s), "cos and sin exchanged": both(s, c), "cos alone": both(c, 0 * s),
                "position before": both(np.roll(c, 1, 0), np.roll(s, 1, 0)), "in result 1": second(lambda _, k=k: k),
                "sin alone": both(0 * c, s),
            })  # fmt: skip
        q, other = self.draw(4, 16), self.draw(4, 2, 3)

        def joined(values: Array) -> Wrong:
            return one(np.concatenate([values.reshape(4, 2, 8), wide(other)], 2))

        yield Example("RopeQConcat", [q, cos, sin, other], None, wrong={
            "other direction": joined(turned(wide(q), c, -s)), "position after": joined(
                turned(wide(q), np.roll(c, -1, 0), np.roll(s, -1, 0))), "no rotation": joined(wide(q)), **ANY,
        })  # fmt: skip
        x, gamma, key, cache = self.draw(4, 8), self.draw(8), self.draw(4, 8), self.draw(3, 4, 1, 16)
        slots = np.array([2, 7, 3, 9], I32)

        def written(gamma: Array = gamma, sin: Array = s, slots: Array = slots) -> Wrong:
            after = wide(cache).reshape(12, 16)
            after[slots] = np.concatenate([rms(wide(x)) * wide(gamma), turned(wide(key), c, sin)], 1)
            return one(after.reshape(cache.shape))

        yield Example("NormRopeReshape", [x, gamma, key, cos, sin, slots, cache], {"epsilon": 1e-5}, wrong={
            "ones as gamma": written(gamma=np.ones(8)), "slots after": written(slots=slots + 1),
            "cos alone": written(sin=0 * s), "input 6": one(cache),
        })  # fmt: skip

    def attentions(self) -> Iterator[Example]:
        q, k, v = self.draw(6, 4, 8), self.draw(6, 2, 8), self.draw(6, 2, 8)
        causal = np.triu(np.full((6, 6), -np.inf), 1)
        lengths = [4, 2]

        def prefill(scale: float = 0.25, mask: bool = True, k: Array = k, v: Array = v) -> Array:
            parts, start = [], 0
            for size in lengths:
                rows = slice(start, start + size)
                own = causal[:size, :size] if mask else None
                parts.append(attend(q[rows], k[rows], v[rows], scale, own))
                start += size
            return np.concatenate(parts)

        right, tiled = prefill(), prefill(k=np.tile(k, (1, 2, 1)), v=np.tile(v, (1, 2, 1)))
        given = [q, k, v, np.where(causal < 0, -10000.0, 0).astype(F16), np.array(lengths, I32)]
        param = {"headNum": 4, "kvHeadNum": 2, "qkScale": 0.25, "calcType": 3, "maskType": 1}
        yield Example("SelfAttention", given, param, wrong={
            "without the mask": one(prefill(mask=False)), "without the scale": one(prefill(1.0)),
            "scale applied twice": one(prefill(0.0625)), "keys and values exchanged": one(prefill(k=v, v=k)),
            "mod kvHeadNum": one(tiled), "neighboring heads": one(np.roll(right, 1, 1)),
            "one sequence": one(attend(q, k, v, 0.25, causal)), **ANY,
        })  # fmt: skip
        lengths = [4, 2]
        yield Example("SelfAttention", [*given[:3], given[4]], param | {"maskType": 0}, wrong={
            "causal mask": one(right),
        })  # fmt: skip
        keys, values = self.draw(4, 2, 2, 8, dtype=BFLOAT16), self.draw(4, 2, 2, 8, dtype=BFLOAT16)
        queries, table = self.draw(3, 4, 8, dtype=BFLOAT16), np.array([[0, 2], [3, 1], [2, 3]], I32)

        def decode(table: Array = table, lengths: Any = (3, 4, 1), scale: float = 0.5, swap: bool = False) -> Wrong:
            caches = (values, keys) if swap else (keys, values)
            parts = []
            for i, size in enumerate(lengths):
                place = (table[i, np.arange(size) // 2], np.arange(size) % 2)
                parts.append(attend(queries[i : i + 1], *(cache[place] for cache in caches), scale))
            return one(np.concatenate(parts))

        paged = {"headNum": 4, "kvHeadNum": 2, "qkScale": 0.5, "maskType": 0}
        given = [queries, keys, values, table, np.array([3, 4, 1], I32)]
        yield Example("PagedAttention", given, paged, wrong={
            "another sequence": decode(table=np.roll(table, 1, 0)), "keys and values exchanged": decode(swap=True),
            "other sequences": decode(lengths=(1, 3, 4)), "without the scale": decode(scale=1.0),
            "first block": decode(lengths=(2, 2, 1)),
            "reverse order": decode(table=table[:, ::-1]), "next block": decode(table=(table + 1).clip(None, 3)),
        })  # fmt: skip
        plain, rotated = self.draw(3, 4, 8), self.draw(3, 4, 2)
        latent, turned_keys = self.draw(4, 2, 1, 8), self.draw(4, 2, 1, 2)

        def multi_latent(rotated: Array = rotated, scale: float = 0.5) -> Wrong:
            parts = []
            for i, size in enumerate((3, 4, 1)):
                place = (table[i, np.arange(size) // 2], np.arange(size) % 2)
                whole = np.concatenate([latent[place], turned_keys[place]], -1)
                query = np.concatenate([plain[i : i + 1], rotated[i : i + 1]], -1)
                parts.append(attend(query, whole, latent[place], scale))
            return one(np.concatenate(parts))

        given = [plain, rotated, latent, turned_keys, table, np.array([3, 4, 1], I32)]
        param = {"headNum": 4, "kvHeadNum": 1, "qkScale": 0.5, "cacheMode": 1}
        yield Example("MultiLatentAttention", given, param, wrong={
            "zeros as qRope": multi_latent(rotated=0 * rotated), "scale applied twice": multi_latent(scale=0.25), **ANY,
        })  # fmt: skip

    def caches(self) -> Iterator[Example]:
        k, v, k_cache, v_cache = self.draw(3, 2, 4), self.draw(3, 2, 4), self.draw(4, 4, 2, 4), self.draw(4, 4, 2, 4)
        slots = np.array([5, 1, 10], I32)

        def put(cache: Array, rows: Array, slots: Array = slots) -> Array:
            after = cache.copy()
            after.reshape(-1, *cache.shape[2:])[slots] = rows
            return after

        given = [k, v, k_cache, v_cache, slots]
        yield Example("ReshapeAndCache", given, {"compressType": 0, "kvCacheCfg": 0}, 2, wrong={
            "slots after": lambda right: [put(k_cache, k, slots + 1), put(v_cache, v, slots + 1)],
            "each other's": lambda right: [put(k_cache, v), put(v_cache, k)],
            "in result 1": lambda right: [right[0], v_cache],
            "last one": lambda right: [put(k_cache, k[:2], slots[:2]), put(v_cache, v[:2], slots[:2])],
        })  # fmt: skip
        cache, new = self.draw(2, 2, 5, 4), self.draw(3, 4)
        lengths, offsets = np.array([2, 1], I32), np.array([3, 4], I32)

        def kv(layer: int = 1, offsets: Array = offsets) -> Wrong:
            after = cache.copy()
            after[layer, 0, offsets[0] - 2 : offsets[0]], after[layer, 1, offsets[1] - 1] = new[:2], new[2]
            return one(after)

        yield Example("KvCache", [new, np.array([1], I32), cache, offsets, lengths], None, 0, wrong={
            "layer": kv(layer=0), "offsets": kv(offsets=offsets + 1), "input 2": one(cache),
        })  # fmt: skip
        source, target, ends = np.array([0, 2], I32), np.array([1, 3], I32), np.array([1, 2], I32)
        yield Example("BlockCopy", [k_cache, v_cache, source, target, ends], None, 0, wrong={
            "input 0 and input 1": lambda right: [k_cache, v_cache], "in result 1": lambda right: [right[0], v_cache],
        })  # fmt: skip
        table, sizes = np.array([[0, 2], [3, 1]], I32), np.array([5, 3], I32)
        keys, values = self.draw(8, 2, 4), self.draw(8, 2, 4)

        def loaded(cache: Array, table: Array = table) -> Array:
            rows = [cache[table[i, j // 4], j % 4] for i, n in enumerate(sizes) for j in range(n)]
            return np.stack(rows)

        given = [k_cache, v_cache, table, sizes, keys, values]
        param = {"kvCacheCfg": 1}
        yield Example("PagedCacheLoad", given, param, 0, wrong={
            "another sequence": lambda right: [loaded(c, table[::-1]) for c in (k_cache, v_cache)],
            "exchanged": exchanged, "input 4 and input 5": lambda right: [keys, values],
        })  # fmt: skip

    def indices(self) -> Iterator[Example]:
        x, ids = self.draw(4, 3), np.array([2, 0, 2], I32)
        updates, alpha = self.draw(3, 3), np.array([2.0], F16)

        def summed(alpha: float = 2.0, ids: Array = ids, put: bool = False) -> Wrong:
            after = wide(x)
            for place, row in zip(ids, wide(updates), strict=True):
                after[place] = alpha * row + (0 if put else after[place])
            return one(after)

        yield Example("IndexAdd", [x, ids, updates, alpha], {"indexType": 1, "axis": 0}, 0, wrong={
            "put in place": summed(put=True), "ones as alpha": summed(1.0), "place after": summed(ids=ids + 1),
            "input 0": one(x),
        })  # fmt: skip
        places, values = np.array([[0, 2], [2, 1], [1, 0], [0, 1]], I32), self.draw(4, 2)
        added, put_there = wide(x), x.copy()
        for row in range(4):
            for column in range(2):
                added[row, places[row, column]] += wide(values)[row, column]
                put_there[row, places[row, column]] = values[row, column]
        yield Example("ScatterElementsV2", [x, places, values], {"axis": -1, "reduction": 1}, 0, wrong={
            "put in place": one(put_there), "input 0": one(x),
        })  # fmt: skip
        yield Example("ScatterElementsV2", [x, places, values], {"axis": -1, "reduction": 0}, 0, wrong={
            "added": one(added), "zeros as updates": one(np.where(put_there == x, x, 0)),
        })  # fmt: skip
        which, on, off = np.array([2, 0, 3], I32), np.array([5], I32), np.array([-1], I32)
        hits = np.arange(4) == which[:, None]
        yield Example("Onehot", [which, on, off], {"axis": 1, "depth": 4}, wrong={
            "values exchanged": one(np.where(hits, -1, 5)), **ANY,
            "place after": one(np.where(np.arange(4) == which[:, None] + 1, 5, -1)),
        })  # fmt: skip

    def experts(self) -> Iterator[Example]:
        experts, index = np.array([3, 0, 3, 1, 0, 2, 3, 1], I32), np.arange(8, dtype=I32)
        order = np.argsort(experts, kind="stable")
        counts = np.bincount(experts, minlength=4)
        yield Example("Gating", [experts, index], {"topkExpertNum": 2, "cumSumNum": 4, "deviceExpert": []}, 3, wrong={
            "not summed": second(lambda right: counts), "own order": lambda right: [index // 2, right[1], index],
            "one expert each": first(index[order]),
        })  # fmt: skip
        scores = self.draw(5, 12)
        group = {"groupNum": 4, "k": 2, "groupMultiFlag": 1, "n": 2}
        kept = np.sort(wide(scores).reshape(5, 4, 3), -1)[..., -1]
        best = np.argsort(-kept, 1, kind="stable")[:, :2]
        inside = np.zeros((5, 4), bool)
        np.put_along_axis(inside, best, True, 1)
        yield Example("GroupTopk", [scores, np.arange(16, dtype=I32)], group, 0, wrong={
            "best expert": one(np.where(np.repeat(inside, 3, 1), scores, 0)), "input 0": one(scores), **ANY,
        })  # fmt: skip
        x, bias = self.draw(5, 8, dtype=F32), self.draw(8, dtype=F32)
        param = {"groupNum": 2, "groupTopk": 1, "n": 2, "k": 3, "activationType": 8, "isNorm": True, "scale": 2.5}

        def chosen(bias: Array = bias, scale: float = 2.5, groups: bool = True, biased: bool = False) -> Wrong:
            weights = sigmoid(wide(x))
            total = weights + wide(bias)
            best = np.sort(total.reshape(5, 2, 4), -1)[..., 2:].sum(-1)
            inside = np.repeat(best == best.max(1, keepdims=True), 4, 1) | (not groups)
            order = np.argsort(-np.where(inside, total, 0), 1, kind="stable")[:, :3]
            taken = np.take_along_axis(total if biased else weights, order, 1)
            return lambda right: [(taken / taken.sum(1, keepdims=True) * scale).astype(F32), order.astype(I32)]

        yield Example("FusedAddTopkDiv", [x, bias], param, 2, wrong={
            "without the bias": chosen(bias=0 * bias), "without the scale": chosen(scale=1.0),
            "all groups": chosen(groups=False), "weights with the bias": chosen(biased=True),
        })  # fmt: skip

    def sequences(self) -> Iterator[Example]:
        lengths = np.array([2, 3, 1], I32)
        x, positions = self.draw(6, 5), np.zeros((3, 4), np.int64)
        yield Example("Pad", [x, np.zeros((1, 6), I32), lengths.reshape(3, 1), positions], None, wrong={
            "first token": one(x[[0, 2, 5]]), "last token of all": one(x[[5, 5, 5]]),
            "before the last": one(x[[0, 3, 4]]), **ANY,
        })  # fmt: skip
        ids = self.random.integers(1, 99, (3, 4))
        offsets, total = np.cumsum(4 - lengths).astype(I32).reshape(3, 1), np.array([[6]], np.int64)
        yield Example("Unpad", [ids, offsets, total, lengths.reshape(3, 1)], None, 3, wrong={
            "input 0": first(ids.reshape(1, 12)), "in result 2": lambda right: [*right[:2], 0 * right[2]],
        })  # fmt: skip
        places, frequencies = np.array([0, 1, 5, 6, 7, 3], I32), self.random.uniform(0, 1, (3, 4)).astype(F32)
        same = np.tile(places[:, None] * wide(frequencies[:1]), 2)
        yield Example("DynamicNTK", [places, frequencies, lengths], {"outputType": 1}, 2, wrong={
            "order 1, 0": exchanged, "first row of frequencies": lambda right: [
                np.sin(same).astype(F16), np.cos(same).astype(F16)],
        })  # fmt: skip


def examples(seed: int = 0) -> list[Example]:
    """An operation of each kind, on random tensors."""
    return list(_Examples(seed).all())
