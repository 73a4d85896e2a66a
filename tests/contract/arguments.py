"""Drawing legal inputs of any operator from the shapes and values in its declaration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from contract.csv_records import legal_csv_inputs
from contract.encoded_strings import legal_base64, legal_compressed, legal_raw, legal_tensor
from contract.example_messages import legal_inputs, legal_sequence_inputs
from contract.keyed_tables import legal_find_keys, legal_find_strings, legal_index_keys, legal_index_strings
from contract.regular_expressions import legal_replace, legal_split
from hypothesis import strategies as st

from onnx_sparse.schemas import Input, Op
from onnx_sparse.schemas.declaration import is_group, numpy_dtype, shape_items

Array = np.ndarray[Any, Any]
Arguments = dict[str, Array]

#: A segment with more rows than this goes through every step of a blocked summation.
LONG = 40

#: What an optional input may be.
OPTIONAL = ("absent", "sentinel", "given")

#: What draws the inputs of operators whose strings or bytes have a syntax, for a node's attributes and types.
DRAWN: dict[str, Callable[[np.random.Generator, Mapping[str, str], Mapping[str, int]], Arguments]] = {
    "ParseExample": lambda random, attributes, types: legal_inputs(random),
    "ParseSequenceExample": lambda random, attributes, types: legal_sequence_inputs(random),
    "FindKeys": lambda random, attributes, types: legal_find_keys(random, numpy_dtype(types["T"])),
    "FindStrings": lambda random, attributes, types: legal_find_strings(random),
    "IndexKeys": lambda random, attributes, types: legal_index_keys(random, numpy_dtype(types["T"])),
    "IndexStrings": lambda random, attributes, types: legal_index_strings(random),
    "RegexReplace": lambda random, attributes, types: legal_replace(random),
    "RegexSplit": lambda random, attributes, types: legal_split(random),
    "DecodeCSV": lambda random, attributes, types: legal_csv_inputs(random, attributes["quoting"]),
    "DecodeBase64": lambda random, attributes, types: legal_base64(random),
    "DecodeRaw": lambda random, attributes, types: legal_raw(random, numpy_dtype(types["T"])),
    "DecodeCompressed": lambda random, attributes, types: legal_compressed(random, attributes["compression"]),
    "ParseTensor": lambda random, attributes, types: legal_tensor(random, types["T"]),
}

#: The possible sizes of dimensions that are not numbers of entries.
SIZES = {
    "R": (2, 1, 3, 0),
    "Q": (2, 1, 3, 0),
    "V": (6, 1, 4, 0),
    "L": (4, 2, 9, LONG),
    "D": (2,),
    "E": (4, 2, 16, 34, 0),
    "G": (1, 2),
    "A": (2, 1),
    "W": (1, 2, 3, 0),
}


@st.composite
def arguments(
    draw: st.DrawFn,
    op: Op,
    binding: Mapping[str, int],
    attributes: Mapping[str, str],
    optional: Sequence[str] = OPTIONAL,
) -> Arguments:
    """Inputs by name that are legal in a node with these attributes; `optional` says what optional inputs may be."""
    return _Draw(draw, op, binding, attributes, optional).arguments()


@st.composite
def calls(draw: st.DrawFn, op: Op, binding: Mapping[str, int]) -> tuple[Arguments, dict[str, str]]:
    """Legal inputs of the operator by name, and its attributes."""
    attributes = {a.name: draw(st.sampled_from(a.choices)) for a in op.attributes}
    return draw(arguments(op, binding, attributes)), attributes


class _Draw:
    """Hypothesis chooses (and shrinks) the structure; a seeded generator, which is faster, fills in the values."""

    def __init__(
        self,
        draw: st.DrawFn,
        op: Op,
        binding: Mapping[str, int],
        attributes: Mapping[str, str],
        optional: Sequence[str],
    ) -> None:
        self.draw = draw
        self.optional = optional
        self.attributes = op.with_defaults(attributes)
        self.op = op
        self.legal = {i.name: i.legal_values(attributes) for i in op.inputs}
        self.output_shapes = [o.shape_with(op.with_defaults(attributes)) for o in op.outputs]
        self.binding = binding
        self.random = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.special = draw(st.sampled_from([True, False]))  # NaN, infinities and extreme values among the data
        self.sizes: dict[str, int] = {}
        self.groups: dict[str, tuple[int, ...]] = {}
        self.values: Arguments = {}

    def arguments(self) -> Arguments:
        if self.op.name in DRAWN:
            return DRAWN[self.op.name](self.random, self.attributes, self.binding)
        # Sizes and shapes that other inputs refer to come first.
        turns = {"size": 0, "any": 1, "flags": 2}
        for declared in sorted(self.op.inputs, key=lambda i: turns.get(self.legal[i.name].kind, 3)):
            if declared.optional:
                state = self.draw(st.sampled_from(self.optional))
                if state == "absent":
                    continue
                if state == "sentinel":
                    self.values[declared.name] = declared.sentinel_array(self.op.bind(declared.type, self.binding))
                    continue
            self.values[declared.name] = np.asarray(self.value(declared))
        return {i.name: self.values[i.name] for i in self.op.inputs if i.name in self.values}

    def dtype(self, declared: Input) -> np.dtype[Any]:
        return numpy_dtype(self.op.bind(declared.type, self.binding))

    def shape(self, declared: Input) -> tuple[int, ...]:
        shape: list[int] = []
        for item in shape_items(declared.shape):
            shape += self.group(item) if is_group(item) else [self.size(item)]
        if declared.broadcasts:
            kept = shape[self.draw(st.integers(0, len(shape))) :]
            return tuple(1 if self.draw(st.booleans()) else d for d in kept)
        return tuple(shape)

    def group(self, name: str) -> tuple[int, ...]:
        if name not in self.groups:
            self.groups[name] = self.draw(st.sampled_from([(2,), (), (1,), (3, 2), (5,), (0,), (2, 0)]))
        return self.groups[name]

    def size(self, letter: str) -> int:
        if letter not in self.sizes:
            size = self.draw(st.sampled_from(SIZES.get(letter, (3, 1, 9, 0, 10, 20, LONG))))
            size = max(size, self._fewest(letter))
            if letter in ("K", "N") and self._nothing_to_refer_to():
                size = 0
            self.sizes[letter] = size
        return self.sizes[letter]

    def _fewest(self, letter: str) -> int:
        """The least size of a dimension.

        An output dimension `dense_shape[0]` needs an element 0 of dense_shape, and `B - 1` needs a B of 1. Row
        splits of values have two elements.
        """
        if any(self.legal[i.name].kind == "row_splits" and i.shape == letter for i in self.op.inputs):
            return 2
        named = {i.name for i in self.op.inputs if i.shape == letter}
        elements = [found for shape in self.output_shapes for found in re.findall(r"(\w+)\[(\d+)\]", shape)]
        fewer = [found for shape in self.output_shapes for found in re.findall(r"(\w+) - (\d+)", shape)]
        least = [int(k) + 1 for name, k in elements if name in named] + [int(k) for name, k in fewer if name == letter]
        return max(least, default=0)

    def _nothing_to_refer_to(self) -> bool:
        """Whether entries could only refer to rows of an empty table or coordinates of an empty shape."""
        for legal in self.legal.values():
            if legal.kind == "index" and legal.low == 0 and self.bound(legal.of) == 0:
                return True
            if legal.kind in ("coordinates", "row_major") and 0 in self.values[legal.of]:
                return True
        return False

    def bound(self, of: str) -> int:
        """The value of an input or the size of a dimension."""
        return int(self.values[of]) if of in self.values else self.size(of)

    def value(self, declared: Input) -> Array:
        shape, dtype = self.shape(declared), self.dtype(declared)
        legal = self.legal[declared.name]
        kind, of, low = legal.kind, legal.of, legal.low
        if kind == "any":
            return self.data(shape, dtype)
        if kind == "flags":
            return self.random.integers(0, 2, shape).astype(dtype)
        if kind == "size":
            return self.size_value(declared, shape, dtype)
        if kind == "index":
            return self.integers(low, self.bound(of), shape, dtype)
        if kind == "segment":
            return self.integers(-2, self.bound(of), shape, dtype)
        if kind == "sorted_segment":
            return self.sorted_ids(shape, dtype)
        if kind == "offsets":
            offsets = np.sort(self.random.integers(0, self.bound(of), shape, endpoint=True))
            offsets[:1] = 0
            return offsets.astype(dtype)
        if kind in ("coordinates", "row_major"):
            columns = [self.integers(0, int(d), shape[:1], dtype) for d in self.values[of]]
            coordinates = np.stack(columns, axis=1) if columns else np.zeros(shape, dtype)
            # Those that are drawn twice are left out; without columns, all entries are the same one.
            return (
                coordinates if kind == "coordinates" else np.unique(coordinates, axis=0) if columns else coordinates[:1]
            )
        if kind == "row_splits":
            inner = np.sort(self.integers(0, self.bound(of) + 1, (shape[0] - 2,), dtype))
            return np.concatenate([[0], inner, [self.bound(of)]]).astype(dtype)
        if kind == "position":
            sizes = [len(text) for text in self.values[of].reshape(-1)]
            return np.array([self.random.integers(-n, n + 1) for n in sizes], dtype).reshape(shape)
        assert kind == "reshape", kind
        return self.reshaped(self.values[of], shape[0])

    def size_value(self, declared: Input, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        low = max(declared.values.low, 0)
        values = self.random.integers(low, low + 5, shape).astype(dtype)
        if declared.name == "num_buckets" and self.special:
            values = np.full(shape, np.iinfo(dtype).max)
        if declared.name == "dense_shape" and shape[0] > 1 and self.special:
            values[-1] = self.large(dtype)  # no output has the size of the columns, so they may be many
        return values

    def large(self, dtype: np.dtype[Any]) -> int:
        """The largest integer, or one of 33 bits, whose upper half small numbers have, too."""
        largest = int(np.iinfo(dtype).max)
        return min(largest, 3 * 10**9) if self.random.random() < 0.5 else largest

    def integers(self, low: int, high: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if high <= low:
            return np.full(shape, low, dtype)
        return self.random.integers(low, high, shape, dtype=dtype)

    def sorted_ids(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Sorted ids; if num_segments is given, some may be beyond it, one of them far beyond."""
        few = self.draw(st.integers(1, 7))
        ids = self.random.integers(0, few, shape)
        bounded = "num_segments" in self.values and int(self.values["num_segments"]) >= 0
        if bounded and self.special and ids.size:
            ids[self.random.integers(0, ids.size)] = self.large(dtype)
        return np.sort(ids).astype(dtype)

    def reshaped(self, before: Array, rank: int) -> Array:
        """A shape with as many elements as `before`, perhaps with a -1 for one dimension."""
        total = math.prod(int(d) for d in before)
        if rank == 0 and total != 1:
            rank = 1
        if rank == 0:
            return np.zeros(0, np.int64)
        sizes = [1] * rank
        for axis in range(rank - 1):
            divisors = [d for d in range(1, total + 1) if total % d == 0] or [1]
            sizes[axis] = int(self.random.choice(divisors))
            total //= sizes[axis]
        sizes[-1] = total
        if self.draw(st.booleans()) and 0 not in sizes[:-1]:
            sizes[-1] = -1
        return np.array(sizes, np.int64)

    def data(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if dtype.kind == "O":
            words = [
                "",
                "a",
                "ß",
                "日本語",
                "b" * 50,
                "ß日" * 5,
                "d" * 200,
                " ",
                "\ta  b ß\n",
                "a-b, a\u3000c",
                "aaba aa",
            ]
            if self.attributes.get("empty_separator") == "BYTES":
                words = words[:1] * 9 + words
            if self.attributes.get("empty_separator") == "BYTES" or any(
                legal.kind == "position" for legal in self.legal.values()
            ):
                # A part of a character is no text, which Python kernels cannot return.
                words = [word for word in words if word.isascii()]
            drawn = self.random.integers(0, len(words), math.prod(shape))
            return np.array([words[k] for k in drawn], object).reshape(shape)
        if self.op.name == "UnicodeEncode":
            # Python kernels refuse to return a zero byte.
            return self.random.choice([-1, *range(1, 128), 0xDFFF, 0x65E5, 0x1F600, 2**31 - 1], shape).astype(dtype)
        if dtype.kind == "b":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            high = self.large(dtype) if self.special else min(info.max, 100)
            return self.random.integers(max(info.min, -int(high)), high, shape, dtype=dtype, endpoint=True)
        # Products of many must not overflow, so magnitudes stay around one.
        values = (self.random.uniform(0.5, 1.6, shape) * self.random.choice([1, -1], shape)).astype(dtype)
        if self.special and values.size:
            pool = [np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0]
            if any(word in self.op.name for word in ("Max", "Min", "Fill")):
                pool += [float(ml_dtypes.finfo(dtype).max), float(ml_dtypes.finfo(dtype).min)]
            flat = values.reshape(-1)
            where = self.random.integers(0, flat.size, max(1, flat.size // 4))
            flat[where] = self.random.choice(pool, where.size).astype(dtype)
            values = flat.reshape(shape)
        return values
