"""The oracles of operators on text, by Python's own strings, regular expressions and formats."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping

import numpy as np
from contract.expected import Expected, Inputs, elements
from contract.fingerprint import fingerprint64
from contract.siphash import siphash


def string_to_hash_bucket_fast(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    texts, buckets = inputs["input"], int(inputs["num_buckets"])
    hashed = [fingerprint64(text.encode()) % buckets for text in texts.reshape(-1)]
    return {"output": Expected.exactly(np.int64, texts.shape, hashed)}


def string_to_hash_bucket_strong(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    texts, buckets = inputs["input"], int(inputs["num_buckets"])
    key = (int(inputs["key_0"]), int(inputs["key_1"]))
    hashed = [siphash(text.encode(), key) % buckets for text in texts.reshape(-1)]
    return {"output": Expected.exactly(np.int64, texts.shape, hashed)}


def ragged(rows: list[list[str]], values: str, splits: str) -> dict[str, Expected]:
    ends = [sum(map(len, rows[:k])) for k in range(len(rows) + 1)]
    joined = [text for row in rows for text in row]
    return {
        values: Expected.exactly(object, [len(joined)], joined),
        splits: Expected.exactly(np.int64, [len(ends)], ends),
    }


def ragged_string_split(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By regular expressions."""
    separator, limit = str(inputs["separator"]), int(inputs["max_splits"])
    pattern = re.escape(separator) if separator else "[ \\t-\\r]+"
    rows = []
    for text in inputs["input"]:
        if not separator and attributes["empty_separator"] == "BYTES":
            single = len(text) if limit < 0 else limit
            rows.append([*text[:single], *([text[single:]] if text[single:] else [])])
        elif limit == 0:
            rows.append([text])
        elif separator:
            rows.append(re.split(pattern, text, maxsplit=max(limit, 0)))
        else:
            words = re.split(pattern, re.sub(f"^{pattern}", "", text), maxsplit=max(limit, 0))
            rows.append(words if len(words) > limit > 0 or words[-1] else words[:-1])
    return ragged(rows, "values", "row_splits")


def ragged_reduce_join(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    joined = []
    for first, end in itertools.pairwise(inputs["row_splits"].tolist()):
        text = ""
        for k in range(first, end):
            text += (str(inputs["separator"]) if k > first else "") + inputs["values"][k]
        joined.append(text)
    return {"output": Expected.exactly(object, [len(joined)], joined)}


def replace_characters(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By a regular expression."""
    ranges = [(max(first, 0), min(last, 0x10FFFF)) for first, last in inputs["ranges"].tolist()]
    members = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges if first <= last)
    pattern = f"[{members}]{'+' if attributes['matches'] == 'run' else ''}" if members else "(?!)"

    def rewritten(match: re.Match[str]) -> str:
        return match[0].join(inputs["rewrite"])

    replaced = [re.sub(pattern, rewritten, text) for text in inputs["input"].reshape(-1)]
    return {"output": Expected.exactly(object, inputs["input"].shape, replaced)}


def string_n_grams(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    left, right, separator = (str(inputs[name]) for name in ("left_pad", "right_pad", "separator"))
    most, data, rows = int(inputs["pad_width"]), inputs["data"], []
    for first, end in itertools.pairwise(inputs["data_splits"].tolist()):
        row = []
        for width in inputs["ngram_widths"].tolist():
            pads = width - 1 if most < 0 or most > width - 1 else most
            for start in range(first - pads, end + pads - width + 1):
                parts = [left if k < first else right if k >= end else data[k] for k in range(start, start + width)]
                row.append(separator.join(parts))
        if not row and inputs["preserve_short_sequences"] and end > first:
            row = [separator.join([left] * max(most, 0) + list(data[first:end]) + [right] * max(most, 0))]
        rows.append(row if len(data) else [])
    return ragged(rows, "ngrams", "ngrams_splits")


def characters(text: str, attributes: Mapping[str, str]) -> list[bytes]:
    """The bytes, or those of each character."""
    if attributes["unit"] == "BYTE":
        return [bytes([byte]) for byte in text.encode()]
    return [character.encode() for character in text]


def string_length(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    lengths = [len(characters(text, attributes)) for text in inputs["input"].reshape(-1)]
    return {"output": Expected.exactly(np.int32, inputs["input"].shape, lengths)}


def substr(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    parts = []
    for text, pos, size in zip(*(elements(inputs[name]) for name in ("input", "pos", "len")), strict=True):
        units = characters(text, attributes)
        first = pos if pos >= 0 else len(units) + pos
        everything = size < 0 and attributes["unit"] == "BYTE"
        taken = [unit for k, unit in enumerate(units) if k >= first and (everything or k - first < size)]
        parts.append(b"".join(taken).decode("utf-8", "surrogateescape"))
    return {"output": Expected.exactly(object, inputs["input"].shape, parts)}


def string_strip(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    stripped = [re.sub("^[ \\t-\\r]+|[ \\t-\\r]+\\Z", "", text) for text in inputs["input"].reshape(-1)]
    return {"output": Expected.exactly(object, inputs["input"].shape, stripped)}


def string_case(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
    table = str.maketrans(*(letters if attributes["case"] == "LOWER" else letters[::-1]))
    changed = [text.translate(table) for text in inputs["input"].reshape(-1)]
    return {"output": Expected.exactly(object, inputs["input"].shape, changed)}


def unicode_decode(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """Of text, which has no errors."""
    splits, values, starts = [0], [], []
    for text in inputs["input"]:
        values += [ord(character) for character in text]
        starts += [len(text[:k].encode()) for k in range(len(text))]
        splits.append(len(values))
    return {
        "row_splits": Expected.exactly(np.int64, [len(splits)], splits),
        "char_values": Expected.exactly(np.int32, [len(values)], values),
        "byte_starts": Expected.exactly(np.int64, [len(starts)], starts),
    }


def unicode_encode(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    def encoded(number: int, stand_in: str) -> str:
        try:
            return bytes(chr(number), "utf-8").decode()
        except (ValueError, OverflowError):
            return stand_in

    stand_in = encoded(int(inputs["replacement_char"]), "\ufffd") if attributes["errors"] == "replace" else ""
    texts = []
    for first, end in itertools.pairwise(inputs["input_splits"].tolist()):
        texts.append("".join(encoded(number, stand_in) for number in inputs["input_values"].tolist()[first:end]))
    return {"output": Expected.exactly(object, [len(texts)], texts)}


def as_string(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By Python's format()."""
    fill, width = attributes["fill"], max(int(inputs["width"]), 0)
    precision = int(inputs["precision"]) if inputs["precision"] >= 0 else 6
    letter = {"FIXED": "f", "SCIENTIFIC": "e", "SHORTEST": "g"}[attributes["notation"]]
    dtype = inputs["input"].dtype
    sign = {"SPACE": " ", "PLUS": "+"}.get(fill, "") if dtype.kind != "u" else ""
    texts = []
    for number in elements(inputs["input"]):
        is_finite = isinstance(number, int) or math.isfinite(number)
        align = {"MINUS": "<", "ZERO": "0=" if is_finite else ">"}.get(fill, ">")
        if dtype.kind == "b":
            texts.append("true" if number else "false")
        elif isinstance(number, int):
            texts.append(f"{number:{align}{sign}{width or ''}d}")
        elif math.isnan(number) and math.copysign(1, number) < 0:
            texts.append(f"{'-nan':{align}{width or ''}}")
        else:
            texts.append(f"{number:{align}{sign}{'#' * (fill == 'HASH')}{width or ''}.{precision}{letter}}")
    return {"output": Expected.exactly(object, inputs["input"].shape, texts)}
