"""Rows for a model, generated from its features and from what its operators say about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from onnx_sparse.rows.columns import Array, Rows
from onnx_sparse.rows.input_roles import Roles, find_roles
from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.rows.tf_examples import ParsedFeature, serialized_example
from onnx_sparse.schemas.declaration import DType, numpy_dtype
from onnx_sparse.schemas.features import Feature

#: Texts that are numbers, or that have numbers in some of their places, from the most ordinary.
NUMBER_TEXTS = (
    ("7", "12", "0", "3"),
    ("2024-02-29", "1999-12-01", "2023-07-04"),
    ("2024-02-29 23:59:58", "1999-12-01 00:00:00", "2023-07-04 12:30:01"),
    ("2024-02-29T23:59:58Z", "1999-12-01T00:00:00Z", "2023-07-04T12:30:01Z"),
    ("23:59:58", "00:00:00", "12:30:01"),
    ("29/02/2024", "01/12/1999", "04/07/2023"),
    ("1.5", "0.25", "-2", "31"),
    ("20240229", "19991201", "20230704"),
    ("20240229235958120010", "19991201000000310101", "11111111111111111111"),
)

#: Texts of which nothing is known.
_WORDS = ("a", "b", "cd")

#: The size of dimensions that the model leaves open, and what ids are below where it does not say so.
_OPEN, _FEW = 2, 3


@dataclass(frozen=True)
class Draws:
    """Draws rows of a model's features.

    Attributes:
        known: The features.
        roles: What the model's operators say about its inputs; None if the model cannot be read.
    """

    known: Features
    roles: Roles | None = None

    @classmethod
    def of(cls, known: Features, model: ModelProto | None) -> Draws:
        """For the features of a model."""
        return cls(known, None if model is None else find_roles(model))

    def texts(self) -> Iterator[Mapping[str, Sequence[str]]]:
        """Texts for each input that takes text, the likeliest first: words that the model knows, numbers, dates."""
        held = [name for name, kind in self.known.inputs.items() if numpy_dtype(kind.dtype).kind == "O"]
        numeric: set[str] = set() if self.roles is None else self.roles.numeric
        words: Mapping[str, Sequence[str]] = {} if self.roles is None else self.roles.words
        likely = {name: words.get(name) or (NUMBER_TEXTS[0] if name in numeric else _WORDS) for name in held}
        yield likely
        if held:
            for same in NUMBER_TEXTS:
                yield {name: same if name in numeric or name not in words else likely[name] for name in held}

    def columns(
        self, lengths: Sequence[int], texts: Mapping[str, Sequence[str]], scale: float = 1.0
    ) -> dict[str, Any] | None:
        """Columns of rows with so many values; None where no rows can be generated for a feature.

        Args:
            lengths: The number of values of each row.
            texts: The texts for each input that takes text.
            scale: The magnitude of floats.
        """
        random = np.random.default_rng(0)
        columns: dict[str, Any] = {}
        for name, feature in self.known.items():
            if feature.kind == "example":
                if self.roles is None:
                    return None
                parsed = self.roles.examples.get(feature.inputs["serialized"], ())
                some = texts[feature.inputs["serialized"]]
                columns[name] = [_message(random, parsed, length, some, scale) for length in lengths]
                continue
            values = feature.inputs["values"]
            held = self.known.inputs[values]
            if feature.kind == "dense":
                shape = (None, 1) if held.shape is None else held.shape
                if shape and shape[0] is not None:
                    return None
                sizes = [len(lengths), *shape[1:]] if shape else []
                columns[name] = self._values(random, feature, held, sizes, texts, scale)
                continue
            widths = list(lengths)
            if feature.kind == "sparse" and feature.shape is not None:
                if len(feature.shape) != 2:
                    return None
                widths = [min(width, feature.shape[1] or width) for width in widths]
            levels = [np.array(widths, np.int64)]
            for _ in range(len(feature.row_splits) - 1):  # lists of rows have values of their own
                levels.append(random.integers(0, _FEW, int(levels[-1].sum())))
            sizes = [int(levels[-1].sum()), *(held.shape or (None,))[1:]]
            columns[name] = Rows(self._values(random, feature, held, sizes, texts, scale), tuple(levels))
        return columns

    def _values(
        self,
        random: np.random.Generator,
        feature: Feature,
        held: InputType,
        shape: Sequence[int | None],
        texts: Mapping[str, Sequence[str]],
        scale: float,
    ) -> Array:
        name = feature.inputs["values"]
        sizes = [_OPEN if size is None else size for size in shape]
        dtype = numpy_dtype(held.dtype)
        if dtype.kind == "O":
            return np.array(random.choice(list(texts[name]), sizes), object)
        if dtype.kind in "fV":
            return np.asarray((scale * random.standard_normal(sizes)).astype(dtype))
        keys = None if self.roles is None else self.roles.keys.get(name)
        if keys:
            return np.asarray(random.choice([*keys], sizes)).astype(dtype)
        bound = feature.vocabulary_size or (self.roles.bounds.get(name) if self.roles is not None else None)
        below = 2 if dtype.kind == "b" else min(_FEW if bound is None else 100, bound or _FEW)
        return np.asarray(random.integers(0, below, sizes)).astype(dtype)


def row_of(feature: Feature, column: Any, row: int) -> Any:
    """One row of a column."""
    if isinstance(column, list):
        return column[row : row + 1]
    if not isinstance(column, Rows):
        return column[row : row + 1] if column.ndim else column
    begin, end = row, row + 1
    levels = []
    for lengths in column.lengths:
        levels.append(lengths[begin:end])
        begin, end = int(lengths[:begin].sum()), int(lengths[:end].sum())
    return Rows(column.values[begin:end], tuple(levels))


def _message(
    random: np.random.Generator, features: Sequence[ParsedFeature], length: int, texts: Sequence[str], scale: float
) -> bytes:
    """A serialized message with the features that a model takes, of so many values where any number is taken."""

    def values(dtype: DType, count: int) -> list[Any]:
        if dtype == TensorProto.STRING:
            return [text.encode() for text in random.choice(list(texts), count)]
        if dtype == TensorProto.FLOAT:
            drawn: list[Any] = (scale * random.standard_normal(count)).tolist()
            return drawn
        return list(map(int, random.integers(0, _FEW, count)))

    def count(size: int) -> int:
        return size if size >= 0 else -size * length

    context = {f.key: (f.dtype, values(f.dtype, count(f.size))) for f in features if not f.in_lists}
    lists = {f.key: (f.dtype, [values(f.dtype, count(f.size)) for _ in range(length)]) for f in features if f.in_lists}
    return serialized_example(context, lists)
