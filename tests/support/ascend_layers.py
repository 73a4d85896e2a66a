"""Whole layers as msit dumps them, computed in plain numpy: each operation in float64 and rounded once.

Nothing of the converter is used: the layers are what the NPU would have written if it made no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from support.ascend_graphs import BFLOAT16, operation, write, write_tensors

Array = np.ndarray
NORM = {"layerType": 1, "normParam": {"epsilon": 1e-5, "quantType": 0}}


def wide(array: Array) -> Array:
    return array.astype(np.float64)


@dataclass
class _Scope:
    """A graph under construction."""

    label: str
    nodes: list[dict[str, Any]] = field(default_factory=list)
    inner: int = 0


class Layer:
    """A layer under construction: its graph, and every tensor that an operation reads and writes.

    Args:
        name: `opName`, such as `Decoder_layer_0`.
        dtype: The element type of its activations.
        seed: Of its random weights.
    """

    def __init__(self, name: str, dtype: Any, seed: int = 0) -> None:
        self.name, self.dtype = name, np.dtype(dtype)
        self.random = np.random.default_rng(seed)
        self.values: dict[str, Array] = {}
        self.inputs: list[str] = []
        self._scopes = [_Scope(name)]
        self._written: list[tuple[str, list[Array], list[Array]]] = []
        self._groups: list[tuple[str, list[str]]] = []
        self._first: dict[str, Array] = {}
        self.operations = 0

    def given(self, array: Array) -> str:
        """An input of the layer."""
        name = f"{self.name}_input_{len(self.inputs)}"
        self.inputs.append(name)
        self.values[name] = self._first[name] = np.array(array)
        return name

    def weight(self, *shape: int, scale: float = 0.3, dtype: Any = None) -> str:
        """A random input."""
        return self.given((self.random.standard_normal(shape) * scale).astype(dtype or self.dtype))

    @property
    def _path(self) -> str:
        return "/".join(scope.label for scope in self._scopes[1:])

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        param: Any,
        *results: Array,
        onto: Sequence[str] = (),
        shapes: dict[int, tuple[int, ...]] | None = None,
    ) -> Any:
        """An operation with its results; `onto` are the tensors that it writes in place, `shapes` hidden reshapes."""
        scope = self._scopes[-1]
        position = len(scope.nodes)
        names = list(onto)
        while len(names) < len(results):
            names.append(f"{scope.label}_internal_{scope.inner}_of_{self.operations}")
            scope.inner += 1
        numbers = "_".join(str(i) for i in (*(len(s.nodes) for s in self._scopes[:-1]), position))
        plain = op_type or "Node"
        scope.nodes.append(operation(op_type, list(inputs), names, param, f"{plain}_{numbers}_{self.operations}"))
        reads = [self.values[name].reshape((shapes or {}).get(i, self.values[name].shape))
                 for i, name in enumerate(inputs)]  # fmt: skip
        where = "/".join(filter(None, (self._path, f"{position}_{plain}")))
        self._written.append((where, reads, [np.array(r) for r in results]))
        self.values |= dict(zip(names, results, strict=True))
        self.operations += 1
        return names[0] if len(names) == 1 else names

    @contextmanager
    def group(self, op_type: str) -> Iterator[None]:
        """A graph in the layer; its results are those that the last operation in it writes."""
        outer, position = self._scopes[-1], len(self._scopes[-1].nodes)
        scope = _Scope(f"{position}_{op_type}")
        self._scopes.append(scope)
        yield
        where = self._path
        self._scopes.pop()
        outputs = scope.nodes[-1]["outTensors"]
        reads = dict.fromkeys(n for node in scope.nodes for n in node.get("inTensors", []))
        made = {n for node in scope.nodes for n in node.get("outTensors", [])}
        inputs = [n for n in reads if n not in made or n in self.inputs]
        outer.nodes.append(operation(op_type, inputs, outputs, "", f"{op_type}_{where}") | {"nodes": scope.nodes})
        self._groups.append((where, outputs))
        self._written.append((where, [], [np.array(self.values[n]) for n in outputs]))

    def write(self, root: Path, outputs: Sequence[str], *, round_: str = "0", device: str = "0_77") -> Path:
        """Write the graph and the tensors as msit does; returns the folder of the layer's tensors."""
        kind, _, number = self.name.rpartition("_")
        graph = {"opName": self.name, "opType": kind, "param": "", "inTensors": self.inputs,
                 "outTensors": list(outputs), "nodes": self._scopes[0].nodes}  # fmt: skip
        write(root, graph, f"layer/77/{self.name}.json")
        folder = root / "tensors" / device / round_ / f"{number}_{kind}"
        write_tensors(folder, [self._first[name] for name in self.inputs], [self.values[name] for name in outputs])
        for where, reads, results in self._written:
            write_tensors(folder / where, reads, results)
        return folder

    # --- operations -------------------------------------------------------------------------------------------------

    def rounded(self, values: Array) -> Array:
        return values.astype(self.dtype)

    def linear(self, x: str, weight: str, *, bias: str = "", shape: tuple[int, ...] | None = None) -> str:
        a = self.values[x] if shape is None else self.values[x].reshape(shape)
        y = wide(a) @ wide(self.values[weight]).T
        if bias:
            y = y + wide(self.values[bias])
        param = {"transposeA": False, "transposeB": True, "hasBias": bool(bias), "outDataType": -1, "enAccum": False}
        return self.op("LinearOperation", [x, weight, *([bias] if bias else [])], param, self.rounded(y),
                       shapes={0: a.shape})  # fmt: skip

    def w8a8(self, x: str, rows: int, columns: int, *, shape: tuple[int, ...] | None = None) -> str:
        """Quantized by a scale and offset of the layer, multiplied as int8, and scaled back."""
        a = self.values[x] if shape is None else self.values[x].reshape(shape)
        scale, offset = self.given(np.array([0.05], self.dtype)), self.given(np.array([3], np.int8))
        weight = self.given(self.random.integers(-127, 128, (rows, columns)).astype(np.int8))
        back = self.random.uniform(1e-5, 2e-5, rows).astype(np.float32)
        stored = back.view(np.uint32).astype(np.int64) if self.dtype == np.float16 else back
        bias, descale = self.given(self.random.integers(-99, 99, rows).astype(np.int32)), self.given(stored)
        shifted = self.rounded(self.rounded(wide(a) / wide(self.values[scale])).astype(np.float64) + 3)
        steps = np.clip(np.rint(wide(shifted)), -128, 127).astype(np.int8)
        q = self.op("ElewiseOperation", [x, scale, offset], {"elewiseType": 17}, steps, shapes={0: a.shape})
        total = steps.astype(np.int64) @ self.values[weight].T.astype(np.int64) + self.values[bias]
        number = 1 if self.dtype == np.float16 else 27
        param = {"transposeB": True, "hasBias": True, "outDataType": number}
        return self.op("LinearOperation", [q, weight, bias, descale], param, self.rounded(total * wide(back)))

    def rms_norm(self, x: str, gamma: str) -> str:
        a = wide(self.values[x])
        y = a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-5) * wide(self.values[gamma])
        return self.op("RmsNormOperation", [x, gamma], NORM, self.rounded(y))

    def add(self, x: str, y: str, shape: tuple[int, ...] | None = None) -> str:
        a, b = (self.values[n] if shape is None else self.values[n].reshape(shape) for n in (x, y))
        return self.op("ElewiseOperation", [x, y], {"elewiseType": 8}, self.rounded(wide(a) + wide(b)),
                       shapes={0: a.shape, 1: b.shape})  # fmt: skip

    def split(self, x: str, sizes: Sequence[int]) -> list[str]:
        parts = np.split(self.values[x], np.cumsum(sizes)[:-1], -1)
        param = {"splitDim": -1, "splitNum": len(sizes), "splitSizes": list(sizes)}
        return self.op("SplitOperation", [x], param, *parts)

    def rope(self, q: str, k: str, cos: str, sin: str, lengths: str) -> None:
        c, s = (wide(self.values[name])[:, None] for name in (cos, sin))
        results = []
        for name in (q, k):
            x = wide(self.values[name]).reshape(len(c), -1, c.shape[-1])
            first, second = np.split(x, 2, -1)
            turned = np.concatenate([-second, first], -1)
            results.append(self.rounded((x * c + turned * s).reshape(self.values[name].shape)))
        self.op("RopeOperation", [q, k, cos, sin, lengths], {"rotaryCoeff": 2}, *results, onto=[q, k])

    def swiglu(self, x: str) -> str:
        gate, value = np.split(wide(self.values[x]), 2, -1)
        y = self.rounded(gate / (1 + np.exp(-gate)) * value)
        return self.op("ActivationOperation", [x], {"activationType": 6, "dim": -1}, y)

    def into_cache(
        self, rows: Sequence[str], caches: Sequence[str], slots: str, shapes: Sequence[tuple[int, ...]]
    ) -> None:
        results = []
        for name, cache, shape in zip(rows, caches, shapes, strict=True):
            after = self.values[cache].copy()
            flat = after.reshape(-1, *after.shape[2:])
            flat[self.values[slots]] = self.values[name].reshape(shape)
            results.append(after)
        param = {"compressType": 0, "kvCacheCfg": 0 if len(rows) == 2 else 1}
        self.op("ReshapeAndCacheOperation", [*rows, *caches, slots], param, *results, onto=list(caches),
                shapes=dict(enumerate(shapes)))  # fmt: skip


def attend(q: Array, k: Array, v: Array, scale: float, addend: Array | None = None) -> Array:
    """Attention of one sequence: q [n, heads, d], k and v [m, groups, d]."""
    share = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(wide(t), share, 1) for t in (k, v))
    scores = np.einsum("nhd,mhd->hnm", wide(q), keys) * scale
    scores = scores if addend is None else scores + addend
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hnm,mhd->nhd", weights / weights.sum(-1, keepdims=True), values)


HEADS, GROUPS, SIZE = 4, 2, 8
HIDDEN, QUERIES, KEYS = HEADS * SIZE, HEADS * SIZE, GROUPS * SIZE


def llama(
    name: str, dtype: Any, *, prefill: bool, quantized: bool = False, blocks: int = 1, seed: int = 0
) -> tuple[Layer, list[str]]:
    """Blocks of llama: norm, q k v, rope, cache, attention, dense, residual, norm, mlp, residual; and its results."""
    layer = Layer(name, dtype, seed)
    lengths = np.array([5, 3] if prefill else [6, 3, 9], np.int32)
    tokens = int(lengths.sum()) if prefill else len(lengths)
    x = layer.weight(tokens, HIDDEN, scale=1.0)
    places = np.concatenate([np.arange(n) for n in lengths]) if prefill else lengths - 1
    angles = np.tile(places[:, None] * 0.5 ** np.arange(SIZE // 2), 2)
    cos, sin = layer.given(np.cos(angles).astype(dtype)), layer.given(np.sin(angles).astype(dtype))
    sizes = layer.given(lengths)
    tables = layer.given(np.array([[2, 7, 1], [5, 0, 0], [3, 6, 4]], np.int32)[: len(lengths)])
    table = layer.values[tables]
    owner = np.repeat(np.arange(len(lengths)), lengths) if prefill else np.arange(len(lengths))
    slots = layer.given((table[owner, places // 4] * 4 + places % 4).astype(np.int32))
    masked = 1.0 if layer.dtype == BFLOAT16 else -np.inf
    mask = layer.given(np.triu(np.full((8, 8), masked), 1).astype(dtype)) if prefill else ""
    for _ in range(blocks):
        caches = [layer.weight(8, 4, GROUPS, SIZE) for _ in range(2)]

        def dense(y: str, rows: int, columns: int, shape: tuple[int, ...] | None = None) -> str:
            if quantized:
                return layer.w8a8(y, rows, columns, shape=shape)
            return layer.linear(y, layer.weight(rows, columns), shape=shape)

        with layer.group("Attention"):
            normed = layer.rms_norm(x, layer.weight(HIDDEN, scale=1.0))
            q, k, v = layer.split(dense(normed, QUERIES + 2 * KEYS, HIDDEN), [QUERIES, KEYS, KEYS])
            layer.rope(q, k, cos, sin, sizes)
            layer.into_cache([k, v], caches, slots, [(tokens, GROUPS, SIZE)] * 2)
            heads = {0: (tokens, HEADS, SIZE)}
            if prefill:
                shaped = [layer.values[n].reshape(tokens, -1, SIZE) for n in (q, k, v)]
                parts, start = [], 0
                for n in lengths:
                    rows = slice(start, start + n)
                    parts.append(attend(*(t[rows] for t in shaped), SIZE**-0.5, np.triu(np.full((n, n), -np.inf), 1)))
                    start += n
                param = {"headNum": HEADS, "kvHeadNum": GROUPS, "qkScale": SIZE**-0.5, "calcType": 3, "maskType": 1}
                own = heads | {1: (tokens, GROUPS, SIZE), 2: (tokens, GROUPS, SIZE)}
                y = layer.op("SelfAttentionOperation", [q, k, v, mask, sizes], param,
                             layer.rounded(np.concatenate(parts)), shapes=own)  # fmt: skip
            else:
                queries = layer.values[q].reshape(tokens, HEADS, SIZE)
                kept = [layer.values[c] for c in caches]
                parts = []
                for i, n in enumerate(lengths):
                    place = (table[i, np.arange(n) // 4], np.arange(n) % 4)
                    parts.append(attend(queries[i : i + 1], *(cache[place] for cache in kept), SIZE**-0.5))
                param = {"headNum": HEADS, "kvHeadNum": GROUPS, "qkScale": SIZE**-0.5, "maskType": 0}
                y = layer.op("PagedAttentionOperation", [q, *caches, tables, sizes], param,
                             layer.rounded(np.concatenate(parts)), shapes=heads)  # fmt: skip
            y = dense(y, HIDDEN, QUERIES, (tokens, QUERIES))
        x = layer.add(x, y)
        with layer.group("Mlp"):
            normed = layer.rms_norm(x, layer.weight(HIDDEN, scale=1.0))
            y = dense(layer.swiglu(dense(normed, 96, HIDDEN)), HIDDEN, 48)
        x = layer.add(x, y)
    return layer, [x]
