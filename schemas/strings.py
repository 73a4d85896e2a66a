"""Operators that take text apart and put it together, as TensorFlow's do, whatever bytes the strings have."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_sparse.schemas.declaration import Attribute, DecidedSize, Example, Family, Input, Op, Output, Values

#: What all have in common.
_BYTES = """
- Bytes that are not UTF-8, and zero bytes, are kept as they are; see [text is bytes](../text.md) for how programs pass
  and get them."""

_BODY_NOTES = "It has no operator that reads the bytes of a string."

_ROW_SPLITS = "Row r has values row_splits[r] to row_splits[r+1] - 1."
_ERRORS = ("replace", "ignore")

RAGGED_STRING_SPLIT = Op(
    name="RaggedStringSplit",
    summary="Splits strings at a separator, or at whitespace.",
    semantics="""
The pieces of `input[i]` are number `row_splits[i]` to `row_splits[i+1] - 1` of `values`.

- A `separator` that is not empty is looked for from the left. The pieces are what is before, between and after its
  occurrences, which do not overlap; pieces may be empty. The empty string has one piece, the empty string.
- With an empty `separator` the pieces are the runs of bytes other than whitespace (space, and bytes 9 to 13), never
  empty. A string of whitespace alone has no pieces. With `empty_separator` = `BYTES` each byte is a piece; the empty
  string then has none.
- With `max_splits` = m > 0 the rest is not looked at after m separators, and is one more piece, even where it is
  empty. If whitespace separates, this rest begins after the whitespace, and is a piece if there are m pieces before
  it.
- With `max_splits` = 0 the only piece is the whole string, unless bytes are split and it is empty. A negative number
  sets no limit.
""".strip()
    + _BYTES,
    source="tf.raw_ops.StringSplitV2, whose coordinates follow from the row splits",
    inputs=(
        Input("input", "string", "N", "The strings."),
        Input("separator", "string", "", "What separates pieces; empty: whitespace."),
        Input("max_splits", "int64", "", "At how many separators to split at most; negative: at all."),
    ),
    outputs=(
        Output("values", "string", "M", "The pieces of all strings."),
        Output("row_splits", "int64", "N + 1", "Where the pieces of each string begin."),
    ),
    types={},
    attributes=(
        Attribute("empty_separator", ("WHITESPACE", "BYTES"), "What an empty separator splits at.", "WHITESPACE"),
    ),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "at whitespace",
            {},
            {"input": ["to see\tor not", "", "  日本 語 "], "separator": "", "max_splits": -1},
            {"values": ["to", "see", "or", "not", "日本", "語"], "row_splits": [0, 4, 4, 6]},
        ),
        Example(
            "at a separator",
            {},
            {"input": ["a, b, , c", "", "ab"], "separator": ", ", "max_splits": -1},
            {"values": ["a", "b", "", "c", "", "ab"], "row_splits": [0, 4, 5, 6]},
        ),
        Example(
            "each byte",
            {},
            {"input": ["abc", "", " \t"], "separator": "", "max_splits": -1},
            {"values": ["a", "b", "c", " ", "\t"], "row_splits": [0, 3, 3, 5]},
            {"empty_separator": "BYTES"},
        ),
        Example(
            "once",
            {},
            {"input": [" a  b c", "a ", "a"], "separator": "", "max_splits": 1},
            {"values": ["a", "b c", "a", "", "a", ""], "row_splits": [0, 2, 4, 6]},
        ),
    ),
)

RAGGED_REDUCE_JOIN = Op(
    name="RaggedReduceJoin",
    summary="Joins the strings of each row.",
    semantics="""
`output[r]` is `values[row_splits[r]]` to `values[row_splits[r+1] - 1]`, one after another, with `separator` between
them.

- An empty row gives the empty string.
- `row_splits` has at least one element. It must begin with 0, not decrease, and end with the number of values.
""".strip()
    + _BYTES,
    source="tf.strings.reduce_join of ragged tensors; tf.raw_ops.ReduceJoin",
    inputs=(
        Input("values", "string", "N", "The strings of all rows."),
        Input("row_splits", "int64", "L", _ROW_SPLITS, Values("row_splits", of="N")),
        Input("separator", "string", "", "What is put between two strings of a row."),
    ),
    outputs=(Output("output", "string", "L - 1", "The joined strings of each row."),),
    types={},
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "rows of several strings, of one and of none",
            {},
            {"values": ["a", "b", "", "c"], "row_splits": [0, 3, 3, 4], "separator": "-"},
            {"output": ["a-b-", "", "c"]},
        ),
    ),
)

REPLACE_CHARACTERS = Op(
    name="ReplaceCharacters",
    summary="Replaces the characters of a class.",
    semantics="""
Matches in the strings are replaced from left to right; the rest is kept. A match is a character of the class,
or (`matches` = `run`) as many characters of the class as there are one after another.

- The class has the characters `ranges[c, 0]` to `ranges[c, 1]`, both included, of each c. Ranges may overlap, and have
  numbers that no character has.
- The replacement is `rewrite[0]`, then the match, `rewrite[1]`, the match again, and so on, ending with the last of
  `rewrite`. So a single string replaces the match without keeping it, and none deletes it.
- Characters are encoded in UTF-8. The class may also have surrogates, encoded in three bytes like others.
- Bytes that are not UTF-8 are not matched, and overlong encodings neither, with one exception: a class with a range
  from 128 or less to 1114111 or more matches every byte from C2 to F4 with the one to three continuation bytes
  that it calls for.
""".strip()
    + _BYTES,
    source="RE2::GlobalReplace (tf.raw_ops.StaticRegexReplace) for patterns like `[.,]`, `\\s+` and `[^a-z]`",
    inputs=(
        Input("input", "string", "*S", "The strings."),
        Input("ranges", "int64", "C, D", "The first and the last character of each range; D = 2."),
        Input("rewrite", "string", "W", "The strings around and between the copies of the match."),
    ),
    outputs=(Output("output", "string", "*S", "The strings with the matches replaced."),),
    types={},
    attributes=(Attribute("matches", ("character", "run"), "What is replaced at a time.", "character"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "punctuation deleted",
            {},
            {"input": [["Don't!", "a-b"], ["", "日本、語"]], "ranges": [[33, 47], [58, 64]], "rewrite": [""]},
            {"output": [["Dont", "ab"], ["", "日本、語"]]},
            {"matches": "character"},
        ),
        Example(
            "runs of all but letters replaced",
            {},
            {"input": "1, 日本 and 2", "ranges": [[0, 64], [91, 96], [123, 1114111]], "rewrite": [" "]},
            {"output": " and "},
            {"matches": "run"},
        ),
        Example(
            "spaces put around a character",
            {},
            {"input": ["¿que?"], "ranges": [[63, 63], [191, 191]], "rewrite": [" ", " "]},
            {"output": [" ¿ que ? "]},
            {"matches": "character"},
        ),
    ),
)


def _n_gram_count(
    splits: np.ndarray[Any, Any],
    widths: np.ndarray[Any, Any],
    pad_width: np.ndarray[Any, Any],
    preserve_short_sequences: np.ndarray[Any, Any],
) -> int | None:
    """How many n-grams there are."""
    if not splits.size or splits[0] != 0 or (splits[1:] < splits[:-1]).any():
        return None
    if splits[-1] == 0:
        return 0
    total = 0
    lengths, rows = np.unique(np.diff(splits), return_counts=True)
    for length, row_count in zip(lengths.tolist(), rows.tolist(), strict=True):
        pads = [width - 1 if pad_width < 0 else min(int(pad_width), width - 1) for width in widths.tolist()]
        found = sum(max(length + 2 * p - w + 1, 0) for p, w in zip(pads, widths.tolist(), strict=True))
        total += row_count * (found or int(bool(preserve_short_sequences) and length > 0))
    return total


STRING_N_GRAMS = Op(
    name="StringNGrams",
    summary="Joins each n consecutive strings of a row.",
    semantics="""
For each row and each n of `ngram_widths`, in this order, the n-grams are every n consecutive strings of the row, with
`separator` between them.

- Before, the row gets p times `left_pad` at its beginning and p times `right_pad` at its end, where p is `pad_width`
  but at most n - 1; `pad_width` = -1 means n - 1.
- With `preserve_short_sequences` a row that has strings, but no n-grams, gets one: the whole row with
  `pad_width` pads at either end, or none where that is -1.
- If `data` is empty there are no n-grams, even if pads alone would make some.
- `data_splits` has at least one element. It must begin with 0, not decrease, and end with the number of strings.
""".strip()
    + _BYTES,
    source="tf.raw_ops.StringNGrams",
    inputs=(
        Input("data", "string", "N", "The strings of all rows."),
        Input("data_splits", "int64", "L", "Where rows begin and end.", Values("row_splits", of="N")),
        Input("ngram_widths", "int64", "W", "How many strings an n-gram has.", Values("size", low=1)),
        Input("separator", "string", "", "What is put between the strings of an n-gram."),
        Input("left_pad", "string", "", "What is put before a row."),
        Input("right_pad", "string", "", "What is put after a row."),
        Input("pad_width", "int64", "", "How many pads there are at most; -1: all.", Values("size", low=-1)),
        Input("preserve_short_sequences", "bool", "", "Whether rows that are too short are kept."),
    ),
    outputs=(
        Output("ngrams", "string", "M", "The n-grams of all rows."),
        Output("ngrams_splits", "int64", "L", "Where the n-grams of each row begin and end."),
    ),
    types={},
    decided={"M": DecidedSize(("data_splits", "ngram_widths", "pad_width", "preserve_short_sequences"), _n_gram_count)},
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "words and pairs of words",
            {},
            {
                "data": ["to", "see", "or", "not"],
                "data_splits": [0, 3, 3, 4],
                "ngram_widths": [1, 2],
                "separator": " ",
                "left_pad": "",
                "right_pad": "",
                "pad_width": 0,
                "preserve_short_sequences": False,
            },
            {"ngrams": ["to", "see", "or", "to see", "see or", "not"], "ngrams_splits": [0, 5, 5, 6]},
        ),
        Example(
            "with pads, and a row that is too short",
            {},
            {
                "data": ["a", "b", "c"],
                "data_splits": [0, 2, 3],
                "ngram_widths": [4],
                "separator": "",
                "left_pad": "<",
                "right_pad": ">",
                "pad_width": 1,
                "preserve_short_sequences": True,
            },
            {"ngrams": ["<ab>", "<c>"], "ngrams_splits": [0, 1, 2]},
        ),
    ),
)

_UNIT = Attribute("unit", ("BYTE", "UTF8_CHAR"), "What is counted.", "BYTE")
_UNITS = """
- `unit` = `BYTE` counts bytes. `UTF8_CHAR` counts characters: every byte other than a continuation byte (80 to BF)
  begins one, also where the bytes are not UTF-8."""
_FIRST_BYTE = " So does the first byte of a string, whatever it is."

STRING_LENGTH = Op(
    name="StringLength",
    summary="Counts the bytes or characters of strings.",
    semantics="`output[i]` is the number of bytes or characters of `input[i]`.\n" + _UNITS + _BYTES,
    source="tf.raw_ops.StringLength",
    inputs=(Input("input", "string", "*S", "The strings."),),
    outputs=(Output("output", "int32", "*S", "The length of each string."),),
    types={},
    attributes=(_UNIT,),
    body_notes=_BODY_NOTES,
    examples=(
        Example("bytes", {}, {"input": ["", "ab", "日本"]}, {"output": [0, 2, 6]}, {"unit": "BYTE"}),
        Example("characters", {}, {"input": [["", "ab", "日本"]]}, {"output": [[0, 2, 2]]}, {"unit": "UTF8_CHAR"}),
    ),
)

SUBSTR = Op(
    name="Substr",
    summary="Takes a part of each string.",
    semantics="""
`output[i]` has the bytes or characters of `input[i]` from position `pos[i]` on, at most `len[i]` of them.

- A negative position counts from the end. A position before the beginning or after the end is an error; the end
  itself is a position.
- A negative `len[i]` takes all bytes to the end, but no characters.
""".strip()
    + _UNITS
    + _FIRST_BYTE
    + _BYTES,
    source="tf.raw_ops.Substr",
    inputs=(
        Input("input", "string", "*S", "The strings."),
        Input("pos", "int64", "*S", "Where each part begins.", Values("position", of="input")),
        Input("len", "int64", "*S", "How long each part is at most."),
    ),
    outputs=(Output("output", "string", "*S", "The parts."),),
    types={},
    attributes=(_UNIT,),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "bytes from the beginning and from the end",
            {},
            {"input": ["prefix", "suffix", "all"], "pos": [0, -3, 1], "len": [3, 3, 10]},
            {"output": ["pre", "fix", "ll"]},
            {"unit": "BYTE"},
        ),
        Example(
            "characters", {}, {"input": "日本語です", "pos": 1, "len": 2}, {"output": "本語"}, {"unit": "UTF8_CHAR"}
        ),
    ),
)

STRING_STRIP = Op(
    name="StringStrip",
    summary="Takes whitespace off both ends of strings.",
    semantics="`output[i]` is `input[i]` without the spaces and bytes 9 to 13 at its beginning and its end.\n" + _BYTES,
    source="tf.raw_ops.StringStrip",
    inputs=(Input("input", "string", "*S", "The strings."),),
    outputs=(Output("output", "string", "*S", "The stripped strings."),),
    types={},
    body_notes=_BODY_NOTES,
    examples=(Example("words", {}, {"input": ["  a b\n", "\t ", "c"]}, {"output": ["a b", "", "c"]}),),
)

STRING_CASE = Op(
    name="StringCase",
    summary="Changes the case of the ASCII letters of strings.",
    semantics="`output[i]` is `input[i]` with the letters A to Z as a to z, or the reverse. Other bytes are kept.\n"
    + _BYTES,
    source="tf.raw_ops.StringLower and StringUpper without an encoding",
    inputs=(Input("input", "string", "*S", "The strings."),),
    outputs=(Output("output", "string", "*S", "The changed strings."),),
    types={},
    attributes=(Attribute("case", ("LOWER", "UPPER"), "What letters become.", "LOWER"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example("lower", {}, {"input": ["The Ä", ""]}, {"output": ["the Ä", ""]}, {"case": "LOWER"}),
        Example("upper", {}, {"input": "straße"}, {"output": "STRAßE"}, {"case": "UPPER"}),
    ),
)

UNICODE_DECODE = Op(
    name="UnicodeDecode",
    summary="Reads the characters of strings in UTF-8.",
    semantics="""
The characters of `input[i]` are number `row_splits[i]` to `row_splits[i+1] - 1` of `char_values`, and `byte_starts` has
the position of their first bytes in the string.

- Bytes that are not UTF-8 are taken apart as Unicode recommends and Python does: each longest beginning of a
  character counts as one error, and each other byte, too. Surrogates, overlong encodings and numbers above 10FFFF are
  not UTF-8.
- For each error there is `replacement_char` (`errors` = `replace`) or nothing (`ignore`).
""".strip()
    + _BYTES,
    source="tf.raw_ops.UnicodeDecodeWithOffsets for UTF-8",
    inputs=(
        Input("input", "string", "N", "The strings."),
        Input("replacement_char", "int32", "", "What replaces an error."),
    ),
    outputs=(
        Output("row_splits", "int64", "N + 1", "Where the characters of each string begin."),
        Output("char_values", "int32", "M", "The characters of all strings.", holds_data=True),
        Output("byte_starts", "int64", "M", "Where each begins in its string."),
    ),
    types={},
    attributes=(Attribute("errors", _ERRORS, "What is done with bytes that are not UTF-8.", "replace"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "characters of one byte, of three and of four",
            {},
            {"input": ["a日", "", "😀b"], "replacement_char": 65533},
            {"row_splits": [0, 2, 2, 4], "char_values": [97, 26085, 128512, 98], "byte_starts": [0, 1, 0, 4]},
            {"errors": "replace"},
        ),
    ),
)

UNICODE_ENCODE = Op(
    name="UnicodeEncode",
    summary="Writes characters as strings in UTF-8.",
    semantics="""
`output[r]` has the characters `input_values[input_splits[r]]` to `input_values[input_splits[r+1] - 1]`.

- For a number that no character has (negative, above 10FFFF, a surrogate) there is `replacement_char`
  (`errors` = `replace`) or nothing (`ignore`). If `replacement_char` itself is not a character, U+FFFD replaces it.
- `input_splits` has at least one element. It must begin with 0, not decrease, and end with the number of values.
""".strip()
    + _BYTES,
    source="tf.raw_ops.UnicodeEncode for UTF-8",
    inputs=(
        Input("input_values", "int32", "N", "The characters of all strings."),
        Input("input_splits", "int64", "L", "Where strings begin and end.", Values("row_splits", of="N")),
        Input("replacement_char", "int32", "", "What replaces a number that no character has."),
    ),
    outputs=(Output("output", "string", "L - 1", "The strings."),),
    types={},
    attributes=(Attribute("errors", _ERRORS, "What is done with numbers that no character has.", "replace"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "characters of one byte, of three and of four, and a number that no character has",
            {},
            {"input_values": [97, 26085, 128512, -1], "input_splits": [0, 2, 2, 4], "replacement_char": 63},
            {"output": ["a日", "", "😀?"]},
            {"errors": "replace"},
        ),
    ),
)

FAMILY = Family(
    "strings",
    (
        RAGGED_STRING_SPLIT,
        RAGGED_REDUCE_JOIN,
        REPLACE_CHARACTERS,
        STRING_N_GRAMS,
        STRING_LENGTH,
        SUBSTR,
        STRING_STRIP,
        STRING_CASE,
        UNICODE_DECODE,
        UNICODE_ENCODE,
    ),
    origin="`tf.strings`, Keras' TextVectorization",
)
