"""Draws of operands: the ends of an element type, zero, NaN and infinities among numbers of every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from atlas.values import specials

from verbs.declaration import Case, Draw
from verbs.roads import Array

_COUNT = 48


def ends(dtype: np.dtype[Any]) -> Array:
    """The ends of a type, and numbers that kernels take for others."""
    return np.array([np.array(value).astype(dtype) for value in specials(dtype).values()], dtype)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Numbers of every size: integers of 1 to all bits, floats of many exponents, both signs."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        raw = rng.integers(0, 2**63, shape, np.uint64) * np.uint64(2) + rng.integers(0, 2, shape, np.uint64)
        made = np.asarray(raw >> rng.integers(64 - bits, 64, shape).astype(np.uint64)).astype(dtype)
        return np.where(rng.integers(0, 2, shape) == 1, made, (~made if dtype.kind == "i" else made)).astype(dtype)
    sizes = rng.integers(-6, 7, shape) if dtype.itemsize > 2 else rng.integers(-3, 4, shape)
    return np.asarray(rng.standard_normal(shape) * 2.0**sizes).astype(dtype)


def small(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Whole numbers that all types hold, and whose sums and products of a few they hold, too."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(-3 if dtype.kind not in "u" else 0, 4, shape).astype(dtype)


def one(low: float = -np.inf, high: float = np.inf) -> Draw:
    """A tensor with the ends of its type, of those between two numbers."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
        x = np.concatenate([ends(dtype), numbers(rng, dtype, (_COUNT,))])
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            kept = x if low == -np.inf and high == np.inf else x[(wide >= low) & (wide <= high) | np.isnan(wide)]
        return Case([kept])

    return draw


def two(fits: Callable[[Array, Array], Array] = lambda x, y: np.ones(x.shape, bool)) -> Draw:
    """All pairs of the ends of a type, and others, of which those that fit."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
        special = ends(dtype)
        x, y = (part.ravel() for part in np.meshgrid(special, special))
        x = np.concatenate([x, numbers(rng, dtype, (2 * _COUNT,))])
        y = np.concatenate([y, numbers(rng, dtype, (2 * _COUNT,))])
        with np.errstate(all="ignore"):
            kept = fits(x, y)
        return Case([x[kept], y[kept]])

    return draw


def shape(rng: np.random.Generator, least: int = 1, most: int = 4, *, empty: bool = True) -> list[int]:
    """A shape of some rank; one of ten has a size of 0."""
    made = [int(size) for size in rng.integers(1, 5, int(rng.integers(least, most + 1)))]
    if empty and made and rng.random() < 0.1:
        made[int(rng.integers(0, len(made)))] = 0
    return made


def axis(rng: np.random.Generator, rank: int) -> int:
    """An axis, from the front or the end."""
    return int(rng.integers(-rank, rank))
