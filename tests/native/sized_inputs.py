"""Inputs of every operator in sizes to be chosen, to measure what a call costs."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from contract.example_messages import INT64, STRING, entry, feature, field, message, varint
from native.sessions import Array

import onnx_sparse
from onnx_sparse.keyed_tables import join_text, key_index, text_index
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.csv_parsing import FAMILY as CSV
from onnx_sparse.schemas.encodings import FAMILY as ENCODINGS
from onnx_sparse.schemas.formatting import FAMILY as FORMATTING
from onnx_sparse.schemas.regular_expressions import FAMILY as REGULAR_EXPRESSIONS
from onnx_sparse.schemas.strings import FAMILY as TEXT

Inputs = dict[str, Array]


def segment(op: str, entries: int, segments: int, width: int, dtype: str) -> Inputs:
    random = np.random.default_rng(0)
    ids = random.integers(0, max(segments, 1), entries)
    data = np.ones((entries, width), dtype)
    sizes = {"num_segments": np.array(segments)}
    if op.startswith("Unsorted"):
        return {"data": data, "segment_ids": ids if segments else ids - 1, **sizes}
    if op.startswith("Segment"):
        return {"data": data, "segment_ids": np.sort(ids), **sizes}
    indices = np.zeros(entries, np.int64)
    return {"emb_table": np.ones((1, width), dtype), "indices": indices, "segment_ids": np.sort(ids), **sizes}


def bags(op: str, entries: int, offsets: int, width: int, dtype: str, padded: bool) -> Inputs:
    """Entries of two rows, half of them perhaps padding; there are as many offsets as asked for, or one.

    Where there are several, the last is the number of entries, as it must be where it begins no bag.
    """
    starts = np.arange(offsets) * entries // max(offsets - 1, 1)
    given = {
        "emb_table": np.ones((2, width), dtype),
        "indices": np.arange(entries, dtype=np.int32) % 2,
        "offsets": starts.astype(np.int32) if offsets else np.zeros(1, np.int32),
        "default_index": np.array(-1, np.int32),
        "per_sample_weights": np.ones(entries, dtype),
        "padding_index": np.array(padded - 1, np.int32),
    }
    return {i.name: given[i.name] for i in OPS[op].inputs}


def quantized(op: str, entries: int, groups: int, width: int, dtype: str) -> Inputs:
    plain = op.removeprefix("Quantized")
    sizes = (entries, groups, width, dtype)
    given = bags(plain, *sizes, True) if "Bag" in op else segment(plain, *sizes)
    rows = len(given["emb_table"])
    return given | {"emb_table": np.ones((rows, width), np.uint8), "scale_bias": np.ones((rows, 1, 2), dtype)}


def shuffled_entries(
    entries: int, segments: int, width: int, dtype: str, every_second_is_dropped: bool = False
) -> Inputs:
    given = segment("EmbeddingSegmentsSum", entries, max(segments, 1), width, dtype)
    given["indices"][::2] -= every_second_is_dropped
    given = {n: a.astype(np.int32) if n != "emb_table" else a for n, a in given.items()}
    given["segment_ids"] = np.random.default_rng(1).permutation(given["segment_ids"])
    return given | {"default_index": np.array(-1, np.int32), "per_sample_weights": np.ones(entries, dtype)}


def sparse(op: str, entries: int, rows: int, rank: int, sort: bool) -> Inputs:
    rows = max(rows, 1)
    at = np.random.default_rng(0).integers(0, rows, entries)
    at = np.sort(at) if sort else at
    values = {"values": np.ones(entries, np.int8), "default_value": np.array(0, np.int8)}
    if op.startswith("Ragged"):
        return {"value_rowids": at, "nrows": np.array(rows), **values}
    rank = max(rank, 1)
    indices = np.zeros((entries, rank), np.int32)
    indices[:, 0] = at
    return {"dense_shape": np.full(rank, rows, np.int32), "indices": indices, **values}


def reshape(entries: int, before: int, after: int) -> Inputs:
    return {
        "input_indices": np.zeros((entries, before), np.int64),
        "input_shape": np.ones(before, np.int64),
        "new_shape": np.ones(after, np.int64),
    }


def masked(rows: int, columns: int, narrow: bool) -> Inputs:
    mask = np.ones(columns if narrow else (rows, columns), np.int8)
    return {"x": np.ones((rows, columns), np.int8), "mask": mask, "value": np.array(2, np.int8)}


def strings(op: str, count: int, length: int) -> Inputs:
    keys = {"key_0": np.array(1), "key_1": np.array(2)} if op.endswith("Strong") else {}
    return {"input": np.array(["x" * length] * count, object), "num_buckets": np.array(7), **keys}


def text(op: str, count: int, length: int) -> Inputs:
    words, by, none = (np.array(t, object) for t in (["x, y" * (length // 4)] * count, ", ", ""))
    splits, numbers = np.array([0, count // 2, count]), np.zeros(count, np.int64)
    ngrams = {"data": words, "data_splits": splits, "ngram_widths": np.array([1, 2]), "separator": by}
    pads = {"left_pad": none, "right_pad": none, "pad_width": np.array(0), "preserve_short_sequences": np.array(True)}
    replaced = {"input": words, "ranges": np.array([[44, 44]]), "rewrite": np.array(["; "], object)}
    encoded = {"input_values": numbers.astype(np.int32), "input_splits": splits}
    stand_in = {"replacement_char": np.array(63, np.int32)}
    inputs: dict[str, Inputs] = {
        "RaggedStringSplit": {"input": words, "separator": by, "max_splits": np.array(-1)},
        "RaggedReduceJoin": {"values": words, "row_splits": splits, "separator": by},
        "ReplaceCharacters": replaced,
        "StringNGrams": ngrams | pads,
        "StringLength": {"input": words},
        "Substr": {"input": words, "pos": numbers, "len": numbers + 3},
        "StringStrip": {"input": words},
        "StringCase": {"input": words},
        "UnicodeDecode": {"input": words} | stand_in,
        "UnicodeEncode": encoded | stand_in,
        "AsString": {"input": numbers, "precision": np.array(-1), "width": np.array(min(length, 4096))},
        "SummarizeTensor": {"input": words, "summarize": np.array(-1)},
    }
    return inputs[op]


def encoded(op: str, count: int, length: int) -> Inputs:
    """So many strings of about that length; of ParseTensor one, with so many numbers."""
    words = functools.partial(np.full, count)
    numbers = count * length
    message = b"\x08\x09\x12" + _shape([numbers]) + field(0x52, b"\x07" * numbers)
    stream = zlib.compress(bytes(length))
    none = {f"{name}_defaults": np.zeros(0, name) for name in ("int32", "int64")}
    csv = {
        "records": words(f"a{'a' * length},7", object),
        "types": np.array([STRING, INT64]),
        "required": np.ones(2, bool),
        "float_defaults": np.zeros(0, np.float32),
        **none,
        "string_defaults": np.zeros(0, object),
        "double_defaults": np.zeros(0),
        "delimiter": np.array(",", object),
        "na_value": np.array("", object),
        "columns": np.zeros(0, np.int64),
    }
    inputs: dict[str, Inputs] = {
        "DecodeCSV": csv,
        "DecodeBase64": {"input": words("YWJj" * (length // 4), object)},
        "EncodeBase64": {"input": words("a" * length, object)},
        "DecodeRaw": {
            "input": words("a" * 8 * (length // 8), object),
            "fixed_length": np.array(-1),
            "like": np.array(0),
        },
        "DecodeCompressed": {"input": np.array([np.void(stream)] * count, f"V{len(stream)}")},
        "ParseTensor": {"serialized": np.array(np.void(message)), "like": np.array(0)},
    }
    return inputs[op]


def _shape(sizes: list[int]) -> bytes:
    """A TensorShapeProto with its length."""
    dims = b"".join(field(0x12, b"\x08" + varint(size)) for size in sizes)
    return varint(len(dims)) + dims


def parsed(features: int, messages: int, length: int) -> Inputs:
    """Features of one value, some of them missing, and a list."""
    entries = [entry(b"%d" % f, feature(INT64, [b"\1"])) for f in range(features) if f % 3]
    content = message(*entries, entry(b"list", feature(STRING, [b"x" * 9] * length)))
    keys = [*map(str, range(features)), "list"]
    return {
        "serialized": onnx_sparse.example_array([content] * messages),
        "keys": np.array(keys, object),
        "types": np.array([INT64] * features + [STRING]),
        "sizes": np.array([1] * features + [-1]),
        "required": np.zeros(features + 1, bool),
        "unset_is_empty": np.zeros(features + 1, bool),
        "sparse": np.ones(features + 1, bool),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.arange(features),
        "string_defaults": np.zeros(0, object),
    }


def sequences(messages: int, steps: int, length: int) -> Inputs:
    """A string in the context, a number that is missing, and a feature list."""
    step = field(0x0A, feature(INT64, [b"\1"] * length))
    content = message(entry(b"name", feature(STRING, [b"x" * 9]))) + field(0x12, entry(b"list", step * steps))
    return {
        "serialized": onnx_sparse.example_array([content] * messages),
        "keys": np.array(["name", "other", "list"], object),
        "types": np.array([STRING, INT64, INT64]),
        "sizes": np.array([1, 1, -1]),
        "required": np.zeros(3, bool),
        "in_lists": np.array([False, False, True]),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.arange(1),
        "string_defaults": np.array([""], object),
    }


def searched(op: str, count: int, length: int) -> Inputs:
    """Of the expression `a+|b`, of which matches are kept."""
    program = np.array([[2, 1, 4], [1, 0, 0], [2, 1, 3], [0, 0, 0], [1, 1, 0], [0, 0, 0]])
    classes = {"ranges": np.array([[97, 97], [98, 98]]), "class_splits": np.array([0, 1, 2])}
    inputs = {"input": np.array(["ab c" * (length // 4 + 1)] * count, object), "program": program} | classes
    if op == "RegexReplace":
        return inputs | {"rewrite": np.array(["<", ">"], object), "groups": np.zeros(1, np.int64)}
    return inputs | {"kept_program": program} | {f"kept_{name}": value for name, value in classes.items()}


def integer_keys(op: str, count: int, queries: int) -> Inputs:
    keys = np.arange(count) * 2**40
    if op == "IndexKeys":
        return {"keys": keys}
    return {"keys": keys, "index": key_index(keys), "queries": np.arange(queries) * 2**39}


def text_keys(op: str, count: int, queries: int) -> Inputs:
    key_bytes, key_offsets = join_text(f"id_{number}" for number in range(count))
    keys = {"key_bytes": key_bytes, "key_offsets": key_offsets}
    if op == "IndexStrings":
        return keys
    asked = np.array([f"id_{number * 2}" for number in range(queries)], object)
    return keys | {"index": text_index(key_bytes, key_offsets), "queries": asked}


def filled(rows: int, columns: int) -> Inputs:
    return {"dims": np.array([rows, columns]), "value": np.array(2, np.int8)}


def cases() -> Iterator[Any]:
    """An operator, the attributes that its inputs need, and a function from its sizes to inputs, for every size that an
    input or an output has."""
    for op in OPS:
        made: list[tuple[str, int, Callable[..., Inputs]]] = []
        if op.startswith("EmbeddingBagOffsets"):
            for dtype in ("int8", "float16", "float64"):
                if dtype != "int8" or op.endswith(("Sum", "Max")):
                    for padded in (False, True):
                        name = f"{dtype}{' padded' * padded}"
                        made.append(
                            (name, 3, lambda *s, op=op, dtype=dtype, padded=padded: bags(op, *s, dtype, padded))
                        )
        elif op.startswith("Quantized"):
            for dtype in ("float16", "float32"):
                made.append((dtype, 3, lambda *s, op=op, dtype=dtype: quantized(op, *s, dtype)))
        elif "Segment" in op:
            for dtype in ("int8", "float16", "float64"):
                if dtype != "int8" or not op.startswith("EmbeddingSegments") or op.endswith("Sum"):
                    made.append((dtype, 3, lambda *s, op=op, dtype=dtype: segment(op, *s, dtype)))
        elif op.endswith("FillEmptyRows"):
            for sort in (False, True):
                made.append(("sorted" if sort else "shuffled", 3, lambda *s, op=op, sort=sort: sparse(op, *s, sort)))
        elif op == "SparseReshape":
            made.append(("", 3, reshape))
        elif op == "MaskedFill":
            made.extend(("narrow" if n else "whole", 2, lambda *s, n=n: masked(*s, n)) for n in (False, True))
        elif op.startswith("StringToHashBucket"):
            made.append(("", 2, functools.partial(strings, op)))
        elif any(op == declared.name for declared in (*TEXT.ops, *FORMATTING.ops)):
            made.append(("", 2, functools.partial(text, op)))
        elif any(op == declared.name for declared in REGULAR_EXPRESSIONS.ops):
            made.append(("", 2, functools.partial(searched, op)))
        elif any(op == declared.name for declared in (*CSV.ops, *ENCODINGS.ops)):
            made.append(("", 2, functools.partial(encoded, op)))
        elif op in ("FindKeys", "IndexKeys"):
            made.append(("", 2, functools.partial(integer_keys, op)))
        elif op in ("FindStrings", "IndexStrings"):
            made.append(("", 2, functools.partial(text_keys, op)))
        elif op == "ParseExample":
            made.append(("", 3, parsed))
        elif op == "ParseSequenceExample":
            made.append(("", 3, sequences))
        else:
            made.append(("", 2, filled))
        needed = {"compression": "ZLIB"} if op == "DecodeCompressed" else {}
        for name, count, inputs in made:
            for grown in range(count):
                yield pytest.param(op, needed, count, grown, inputs, id=f"{op} {name} size {grown}")
    for dtype in ("int8", "float32"):
        for grown in range(3):
            shuffled = functools.partial(shuffled_entries, dtype=dtype)
            case = f"EmbeddingSegmentsSum {dtype} shuffled size {grown}"
            order = {"segment_ids_order": "any"}
            yield pytest.param("EmbeddingSegmentsSum", order, 3, grown, shuffled, id=case)
            half = functools.partial(shuffled_entries, dtype=dtype, every_second_is_dropped=True)
            yield pytest.param(
                "EmbeddingSegmentsSum", order | {"negative_indices": "drop"}, 3, grown, half, id=f"{case} dropped"
            )


def shuffled_strings() -> Inputs:
    words = np.array(["a" * 50, "b" * 60, "c"], object)
    default = np.array("d" * 40, object)
    return {"value_rowids": np.array([2, 0, 2]), "values": words, "nrows": np.array(9), "default_value": default}
