"""How a verb is declared: its operands, its meaning, and how each road writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from verbs.roads import Array, Operand, Source

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (*map(np.dtype, ("float32", "float16", "float64")), BFLOAT16)
SIGNED = tuple(map(np.dtype, ("int32", "int64", "int8", "int16")))
UNSIGNED = tuple(map(np.dtype, ("uint8", "uint16", "uint32", "uint64")))
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
BOOL = (np.dtype(bool),)


class OutOfRangeError(Exception):
    """What a verb means for these operands: an error when the model runs."""


@dataclass(frozen=True)
class Case:
    """Operands that were drawn, and attributes in numpy's words."""

    operands: Sequence[Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


Draw = Callable[[np.random.Generator, np.dtype[Any]], Case]
Meaning = Callable[[Case], Any]
Write = Callable[[Case, Sequence[Array]], Source | None]


@dataclass(frozen=True)
class Form:
    """How a road writes a verb.

    Attributes:
        write: The operator for a case and its results; None if the road does not have such a case.
        meaning: What the verb means on this road, where it differs from the others.
        dtypes: The element types that the road's own operator takes, if not all.
    """

    write: Write
    meaning: Meaning | None = None
    dtypes: tuple[np.dtype[Any], ...] | None = None


@dataclass(frozen=True)
class Verb:
    """What several roads can say.

    Attributes:
        name: Its name.
        draw: Draws operands of an element type.
        meaning: What numpy answers, one array or several; raises `OutOfRangeError` where the model must.
        dtypes: The element types that it is drawn for.
        roads: How each road writes it.
        digits: How many times the precision of its type a float may be off.
        near: Of numbers near zero, that much: the size of what is computed and cancels out.
    """

    name: str
    draw: Draw
    meaning: Meaning
    dtypes: tuple[np.dtype[Any], ...]
    roads: Mapping[str, Form]
    digits: float = 4
    near: float = 0

    def results(self, road: str, case: Case) -> list[Array]:
        """What the verb means on a road."""
        with np.errstate(all="ignore"):
            made = (self.roads[road].meaning or self.meaning)(case)
        return [np.asarray(each) for each in (made if isinstance(made, (list, tuple)) else [made])]


VERBS: dict[str, Verb] = {}


def declare(
    name: str,
    draw: Draw,
    meaning: Meaning,
    dtypes: tuple[np.dtype[Any], ...],
    *,
    digits: float = 4,
    near: float = 0,
    **roads: Form | str | None,
) -> None:
    """Declare a verb; a road that has an operator of the same inputs and no attributes says its name only."""
    assert name not in VERBS, name
    forms = {road: plain(form) if isinstance(form, str) else form for road, form in roads.items() if form is not None}
    VERBS[name] = Verb(name, draw, meaning, dtypes, forms, digits, near)


def plain(
    op: str,
    *,
    dtypes: tuple[np.dtype[Any], ...] | None = None,
    meaning: Meaning | None = None,
    **attributes: Any,
) -> Form:
    """An operator that takes the operands as they are, and these attributes."""
    return Form(lambda case, results: Source(op, case.operands, results, attributes), meaning, dtypes)


def written(
    op: str,
    inputs: Callable[[Case], Sequence[Operand]] = lambda case: case.operands,
    attributes: Callable[[Case], Mapping[str, Any]] = lambda case: {},
    *,
    dtypes: tuple[np.dtype[Any], ...] | None = None,
    meaning: Meaning | None = None,
    types: Callable[[Case], Mapping[str, Any]] = lambda case: {},
) -> Form:
    """An operator with inputs and attributes made from a case."""
    return Form(lambda case, results: Source(op, inputs(case), results, attributes(case), types(case)), meaning, dtypes)
