"""The oracles of operators that parse messages, by protobuf's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from contract.example_messages import FLOAT, INT64, STRING, example_class, sequence_example_class
from contract.expected import Expected, Inputs, elements


def parse_example(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """No key may have both an entry with a list and one without."""
    lists = {FLOAT: "FloatList", INT64: "Int64List", STRING: "BytesList"}
    names = {FLOAT: "float", INT64: "int64", STRING: "string"}
    parsed = [example_class().FromString(text.encode()) for text in inputs["serialized"]]
    values: dict[int, list[Any]] = {dtype: [] for dtype in lists}
    splits: list[int] = []
    coordinates: list[int] = []
    position = dict.fromkeys(lists, 0)
    for f, key in enumerate(inputs["keys"]):
        dtype, size = int(inputs["types"][f]), int(inputs["sizes"][f])
        default: list[Any] = []
        if size >= 0 and not inputs["required"][f]:
            default = elements(inputs[f"{names[dtype]}_defaults"])[position[dtype] :][:size]
            position[dtype] += size
        splits.append(0)
        for b, example in enumerate(parsed):
            kind = example.features.feature[key].WhichOneof("kind") if key in example.features.feature else None
            found = list(getattr(example.features.feature[key], lists[dtype]).value) if kind else default
            if key in example.features.feature and not kind and inputs["unset_is_empty"][f]:
                found = []
            values[dtype] += [value.decode() if isinstance(value, bytes) else value for value in found]
            splits.append(splits[-1] + len(found))
            if inputs["sparse"][f]:
                coordinates += [n for k in range(len(found)) for n in (b, k)]
    shape = (len(inputs["keys"]), len(parsed) + 1)
    return {
        "float_values": Expected.exactly(np.float32, [len(values[FLOAT])], values[FLOAT]),
        "int64_values": Expected.exactly(np.int64, [len(values[INT64])], values[INT64]),
        "string_values": Expected.exactly(object, [len(values[STRING])], values[STRING]),
        "row_splits": Expected.exactly(np.int64, shape, splits),
        "coordinates": Expected.exactly(np.int64, (len(coordinates) // 2, 2), coordinates),
    }


def parse_sequence_example(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    lists = {FLOAT: "FloatList", INT64: "Int64List", STRING: "BytesList"}
    names = {FLOAT: "float", INT64: "int64", STRING: "string"}
    parsed = [sequence_example_class().FromString(text.encode()) for text in inputs["serialized"]]
    values: dict[int, list[Any]] = {dtype: [] for dtype in lists}
    splits: list[int] = []
    lengths: list[int] = []
    position = dict.fromkeys(lists, 0)
    for f, key in enumerate(inputs["keys"]):
        dtype, size, in_lists = int(inputs["types"][f]), int(inputs["sizes"][f]), bool(inputs["in_lists"][f])
        default: list[Any] = []
        if size >= 0 and not inputs["required"][f] and not in_lists:
            default = elements(inputs[f"{names[dtype]}_defaults"])[position[dtype] :][:size]
            position[dtype] += size
        splits.append(0)
        for example in parsed:
            if in_lists:
                steps = example.feature_lists.feature_list
                found = [getattr(step, lists[dtype]).value for step in steps[key].feature] if key in steps else []
            else:
                features = example.context.feature
                found = [getattr(features[key], lists[dtype]).value if key in features else default]
            for step in found:
                values[dtype] += [value.decode() if isinstance(value, bytes) else value for value in step]
                lengths.append(len(step))
            splits.append(splits[-1] + len(found))
    return {
        "float_values": Expected.exactly(np.float32, [len(values[FLOAT])], values[FLOAT]),
        "int64_values": Expected.exactly(np.int64, [len(values[INT64])], values[INT64]),
        "string_values": Expected.exactly(object, [len(values[STRING])], values[STRING]),
        "list_splits": Expected.exactly(np.int64, (len(inputs["keys"]), len(parsed) + 1), splits),
        "lengths": Expected.exactly(np.int64, [len(lengths)], lengths),
    }
