"""The oracles of operators that parse messages, by protobuf's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from contract.example_messages import FLOAT, INT64, STRING, example_class, sequence_example_class
from contract.expected import Expected, Inputs, elements

#: protobuf's list of each element type, and the name of the type.
LISTS = {FLOAT: "FloatList", INT64: "Int64List", STRING: "BytesList"}
NAMES = {FLOAT: "float", INT64: "int64", STRING: "string"}


def _by_type(values: Mapping[int, list[Any]]) -> dict[str, Expected]:
    kinds = {FLOAT: np.float32, INT64: np.int64, STRING: object}
    return {f"{NAMES[k]}_values": Expected.exactly(kinds[k], [len(found)], found) for k, found in values.items()}


def _default(inputs: Inputs, f: int, position: dict[int, int]) -> list[Any]:
    """The default of a feature that may be missing; the next one of its type begins after it."""
    dtype, size = int(inputs["types"][f]), int(inputs["sizes"][f])
    if size < 0 or inputs["required"][f]:
        return []
    position[dtype] += size
    return elements(inputs[f"{NAMES[dtype]}_defaults"])[position[dtype] - size :][:size]


def parse_example(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """No key may have both an entry with a list and one without."""
    parsed = [example_class().FromString(text.encode()) for text in inputs["serialized"]]
    values: dict[int, list[Any]] = {dtype: [] for dtype in LISTS}
    splits: list[int] = []
    coordinates: list[int] = []
    position = dict.fromkeys(LISTS, 0)
    for f, key in enumerate(inputs["keys"]):
        dtype, default = int(inputs["types"][f]), _default(inputs, f, position)
        splits.append(0)
        for b, example in enumerate(parsed):
            kind = example.features.feature[key].WhichOneof("kind") if key in example.features.feature else None
            found = list(getattr(example.features.feature[key], LISTS[dtype]).value) if kind else default
            if key in example.features.feature and not kind and inputs["unset_is_empty"][f]:
                found = []
            values[dtype] += [value.decode() if isinstance(value, bytes) else value for value in found]
            splits.append(splits[-1] + len(found))
            if inputs["sparse"][f]:
                coordinates += [n for k in range(len(found)) for n in (b, k)]
    shape = (len(inputs["keys"]), len(parsed) + 1)
    return {
        **_by_type(values),
        "row_splits": Expected.exactly(np.int64, shape, splits),
        "coordinates": Expected.exactly(np.int64, (len(coordinates) // 2, 2), coordinates),
    }


def parse_sequence_example(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    parsed = [sequence_example_class().FromString(text.encode()) for text in inputs["serialized"]]
    values: dict[int, list[Any]] = {dtype: [] for dtype in LISTS}
    splits: list[int] = []
    lengths: list[int] = []
    position = dict.fromkeys(LISTS, 0)
    for f, key in enumerate(inputs["keys"]):
        dtype, in_lists = int(inputs["types"][f]), bool(inputs["in_lists"][f])
        default = [] if in_lists else _default(inputs, f, position)
        splits.append(0)
        for example in parsed:
            if in_lists:
                steps = example.feature_lists.feature_list
                found = [getattr(step, LISTS[dtype]).value for step in steps[key].feature] if key in steps else []
            else:
                features = example.context.feature
                found = [getattr(features[key], LISTS[dtype]).value if key in features else default]
            for step in found:
                values[dtype] += [value.decode() if isinstance(value, bytes) else value for value in step]
                lengths.append(len(step))
            splits.append(splits[-1] + len(found))
    return {
        **_by_type(values),
        "list_splits": Expected.exactly(np.int64, (len(inputs["keys"]), len(parsed) + 1), splits),
        "lengths": Expected.exactly(np.int64, [len(lengths)], lengths),
    }
