"""Operands that guards and rules depend on: ends of types, NaN, sizes of 0 and 1; and nodes in onnx's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, parser
from support.drawn_nodes import Array, Drawn, Rng, i64, pick

_WIDE = (0, 1, -1, 5, 2**31, 3 * 10**9, 2**32 - 1, 2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1, -(2**31))
_NARROW = (0, 1, -1, 2, 65537, 2**31 - 1, -(2**31), 123456789)
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


def nodes_of(text: str) -> list[NodeProto]:
    """Nodes in onnx's text form."""
    return [*parser.parse_graph(f"g () => () {{ {text} }}").node]


def written(text: str, inputs: dict[str, Any], **options: Any) -> Drawn:
    """Nodes in onnx's text form, with operands for the names that none of them makes."""
    nodes = nodes_of(text)
    return Drawn(nodes[-1].op_type, inputs, written=nodes, **options)
