"""Operators of text."""

from __future__ import annotations

import base64

import tensorflow as tf
from support.tensorflow_kernels import constant, each, given, numbers, row, splits

_TEXT = numbers("mn")
_LINES = given([b"a b c", b"", b"  a  b ", "é,b,,c".encode(), b",", b"a,b"])
_NUMBERS = given([b"1", b"-3", b"07", b" 5 ", b"2147483647"])
_DECIMALS = given([b"1.5", b"-3e2", b"inf", b"nan", b" 5 ", b"0"])
_UNICODE = given(["aé".encode(), b"", "中文 x".encode(), b"a\x00b", "🙂".encode(), b"plain"])
_ERRORS = each("replace", "ignore")

TEXTS = (
    row(
        "StringJoin",
        inputs=each([numbers("mn"), numbers("mn")], [numbers("mn"), numbers("")], [numbers("mn")]),
        separator=each("", "-", "é"),
    ),
    row(
        "ReduceJoin",
        inputs=numbers("lmn"),
        reduction_indices=each(constant([0]), constant([-1, 0]), constant([]), constant(1)),
        separator=each("", ", "),
    ),
    row(
        "UnsortedSegmentJoin",
        inputs=numbers("m"),
        segment_ids=given([1, 0, 1]),
        num_segments=each(given(2), constant(4)),
        separator=each("", "-"),
        sizes={"m": 3},
        zeros="",
    ),
    row("StringLength", input=each(_TEXT, _UNICODE)),
    row("StringLower", input=each(_TEXT, given([b"ABC", "É".encode(), b"x1"])), encoding=each("", "utf-8")),
    row("StringUpper", input=each(_TEXT, given([b"abc", "éß".encode(), b"x1"])), encoding=each("", "utf-8")),
    row("StringStrip", input=each(_TEXT, given([b"  a b\t", b"\n", b"c "]))),
    row(
        "StringSplit",
        input=each(_LINES, numbers("m")),
        delimiter=each(constant(" "), constant(""), given(","), constant(", ")),
    ),
    row(
        "StringSplitV2",
        input=each(_LINES, numbers("m")),
        sep=each(constant(""), constant(" "), given(","), constant("b,")),
        maxsplit=each(-1, 1, 0, 2),
    ),
    row(
        "StringNGrams",
        data=numbers("k"),
        data_splits=splits("m", "k"),
        separator=each(" ", ""),
        ngram_widths=each([2], [1, 3], []),
        left_pad=each("", "<"),
        right_pad=each("", ">"),
        pad_width=each(0, -1, 1),
        sizes={"k": 5},
    ),
    row(
        "StringFormat",
        inputs=each([numbers("m")], [numbers("")], [given([[1, 2], [3, 4]])]),
        template=each("%s", "a {} b"),
        placeholder=each("%s", "{}"),
        summarize=each(3, -1, 1),
    ),
    row("StringToHashBucketFast", input=_TEXT, num_buckets=each(10, 1, 2**40)),
    row("StringToHashBucketStrong", input=_TEXT, num_buckets=each(10, 1), key=each([1, 2], [-1, 7])),
    row("StringToNumber", string_tensor=_NUMBERS, out_type=each(tf.float32, tf.int64, tf.int32, tf.float64)),
    row("StringToNumber", string_tensor=_DECIMALS, out_type=each(tf.float32, tf.float64)),
    row(
        "AsString",
        input=numbers("mn"),
        width=each(-1, 6),
        fill=each("", "0", " "),
        precision=each(-1, 2),
        T=each(tf.float32, tf.int64, tf.bool, tf.float64, tf.int32, tf.int8, tf.uint8),
    ),
    row(
        "Substr",
        input=_UNICODE,
        pos=each(constant(0), given(-1), constant(1)),
        len=each(constant(1), given(2), constant(0)),
    ),
    row("Substr", input=numbers("mn"), pos=each(constant(0), given(0)), len=each(constant(1), given(9))),
    row("RegexFullMatch", input=_TEXT, pattern=each(constant("a|b.*"), constant(".*"), constant("[^a]"))),
    row("StaticRegexFullMatch", input=_TEXT, pattern=each("a|b.*", "\\\\d+", "(?i)B.*", "\\\\pL*")),
    row(
        "RegexReplace",
        input=_TEXT,
        pattern=each(constant("[a-c]"), constant("")),
        rewrite=each(constant("x\\\\0"), constant("")),
    ),
    row(
        "StaticRegexReplace",
        input=each(_LINES, _TEXT),
        pattern=each("[a-c]", "\\\\s+", "(b)|(c)"),
        rewrite=each("", "<\\\\1>", "-"),
    ),
    row("EncodeBase64", input=_TEXT),
    row("DecodeBase64", input=given([base64.urlsafe_b64encode(word).rstrip(b"=") for word in (b"abc", b"", b"12")])),
    row(
        "DecodeRaw",
        bytes=given([b"abcdefgh", b"12345678"]),
        out_type=each(
            tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64, tf.float32, tf.float64, tf.float16, tf.uint16, tf.bool
        ),
    ),
    row(
        "DecodePaddedRaw",
        input_bytes=given([b"abcd", b"12345678", b""]),
        fixed_length=each(constant(8), given(16)),
        out_type=each(tf.uint8, tf.int16, tf.int32, tf.int64, tf.float32),
    ),
    row(
        "DecodeCSV",
        records=given([b"1,2.5,a", b',,"b,c"', b"3,4,"]),
        record_defaults=each([constant([0]), constant([1.5]), constant(["x"])]),
        OUT_TYPE=[tf.int32, tf.float32, tf.string],
        na_value=each("", "a"),
    ),
    row(
        "UnicodeDecode",
        input=_UNICODE,
        input_encoding=each("UTF-8", "UTF-16-BE", "US-ASCII"),
        errors=_ERRORS,
        replacement_char=each(65533, 63),
    ),
    row(
        "UnicodeDecodeWithOffsets",
        input=_UNICODE,
        input_encoding=each("UTF-8", "UTF-16-BE"),
        errors=_ERRORS,
        replacement_char=each(65533, 63),
    ),
    row(
        "UnicodeEncode",
        input_values=given([97, 233, 0x4E2D, 0x1F642, 120]),
        input_splits=given([0, 2, 2, 5]),
        output_encoding=each("UTF-8", "UTF-16-BE", "UTF-32-BE"),
        errors=_ERRORS,
    ),
    row(
        "UnicodeTranscode",
        input=_UNICODE,
        input_encoding=each("UTF-8", "UTF-16-BE", "US-ASCII"),
        output_encoding="UTF-8",
        errors=_ERRORS,
        replacement_char=each(65533, 63),
    ),
)
