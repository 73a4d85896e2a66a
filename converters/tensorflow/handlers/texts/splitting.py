"""Text taken apart and replaced: tf.strings.split, ngrams, regex_replace, substr, unicode_decode, ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.handlers.texts.joining import is_empty, joined_rows, text_constant
from onnx_sparse.converters.tensorflow.patterns import CharacterPattern, LiteralPattern, pattern_of, rewrite_of
from onnx_sparse.converters.tensorflow.regex_program import program_of
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import coordinates_of, dense_shape_of, of_rowids, of_splits
from onnx_sparse.schemas.declaration import FLOATS

_STRING = TensorProto.STRING
_OPSET_20 = "the model has opset 20"
_PATTERNS = "every pattern of RE2 but `\\C`"
_SPACE = "[ \\t\\n\\v\\f\\r]*"

_DIGITS = "[+-]?[0-9]+"

_FLOAT = "[+-]?(?:(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)"


@handles("StringSplitV2", to="RaggedStringSplit", dtypes=("string",))
def string_split_v2(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The pieces and their coordinates."""
    limit = emit.constant(node.attributes.get("maxsplit", -1))
    values, splits = _split(node["input"], emit.scalar(node["sep"]), limit, emit)
    return _sparse(values, splits, emit)


@handles("StringSplit", to="RaggedStringSplit", dtypes=("string",))
def string_split(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Splits at each byte of the delimiter; empty pieces are left out afterwards."""
    delimiters, skips_empty = (
        bytes_of_constant(node["delimiter"], "the delimiter"),
        node.attributes.get("skip_empty", 1),
    )
    if not delimiters:  # tf.strings.bytes_split, of which no piece is empty
        values, splits = _split(node["input"], text_constant(b"", emit), emit.constant(-1), emit, at="BYTES")
        return _sparse(values, splits, emit)
    if not delimiters.isascii():
        raise Unsupported(f"the delimiter {delimiters!r} has bytes that are not ASCII; each of them is a delimiter")
    words, first = node["input"], delimiters[:1]
    if len(set(delimiters)) > 1:
        words = _replaced(words, [(byte, byte) for byte in delimiters], [first], "character", emit)
    values, splits = _split(words, text_constant(first, emit), emit.constant(-1), emit)
    row = of_splits(splits, emit).row
    # Of an empty string, the one piece is left out anyway.
    empty = is_empty(values, emit) if skips_empty else emit.op("Gather", is_empty(words, emit), row)
    kept = emit.op("Not", empty)
    row, values = (emit.op("Compress", each, kept, axis=0) for each in (row, values))
    splits = of_rowids(row, emit.shape_of(words), emit).splits
    return _sparse(values, splits, emit)


@handles("StringNGrams", dtypes=("string",))
def string_n_grams(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; the attributes are inputs."""
    attributes = node.attributes
    ngrams, splits = emit.domain_op(
        "StringNGrams",
        {
            "data": node["data"],
            "data_splits": emit.cast(node["data_splits"], TensorProto.INT64),
            "ngram_widths": emit.constant(np.array(attributes["ngram_widths"], np.int64)),
            **{name: text_constant(attributes[name], emit) for name in ("separator", "left_pad", "right_pad")},
            "pad_width": emit.constant(attributes["pad_width"]),
            "preserve_short_sequences": emit.constant(bool(attributes["preserve_short_sequences"]), TensorProto.BOOL),
        },
    )
    return ngrams, emit.cast(splits, node["data_splits"].dtype)


@handles("StaticRegexReplace", to="RegexReplace", dtypes=("string",), notes=_PATTERNS)
@handles("RegexReplace", dtypes=("string",), notes=_PATTERNS)
def regex_replace(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Matches are replaced; classes of characters and literal texts by faster operators than programs."""
    words, once = node["input"], not node.attributes.get("replace_global", 1)
    if node.op_type == "RegexReplace":
        given, rewrite = (
            bytes_of_constant(node["pattern"], "the pattern"),
            bytes_of_constant(node["rewrite"], "the rewrite"),
        )
    else:
        given, rewrite = node.attributes["pattern"], node.attributes["rewrite"]
    program, pattern, replacement = program_of(given), pattern_of(given), rewrite_of(rewrite)
    if replacement is None:
        raise Unsupported(f"the rewrite {rewrite!r} has a backslash that is neither before a digit nor a backslash")
    pieces, groups = replacement
    if missing := [group for group in groups if group > program.groups]:
        raise Unsupported(f"the rewrite {rewrite!r} has the group {missing[0]}, which the pattern does not have")
    if isinstance(pattern, CharacterPattern) and not once:
        return (_replaced(words, pattern.ranges, pieces, "run" if pattern.is_run else "character", emit),)
    if not isinstance(pattern, LiteralPattern):
        return emit.domain_op(
            "RegexReplace",
            {"input": words}
            | {name: emit.constant(array) for name, array in program.inputs.items()}
            | {
                "rewrite": emit.constant(np.array(pieces, object), _STRING),
                "groups": emit.constant(np.array(groups, np.int64)),
            },
            {"matches": "FIRST" if once else "ALL"},
        )
    flat = emit.op("Reshape", words, emit.constant([-1]))
    parts, splits = _split(flat, text_constant(pattern.text, emit), emit.constant(1 if once else -1), emit)
    joined = joined_rows(parts, splits, pattern.text.join(pieces), emit)
    return (emit.op("Reshape", joined, emit.shape_of(words), allowzero=1),)


@handles("StaticRegexFullMatch", to="RegexFullMatch", dtypes=("string",), notes=_OPSET_20)
@handles("RegexFullMatch", dtypes=("string",), notes=_OPSET_20)
def regex_full_match(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator, of the same library (RE2)."""
    pattern = (
        node.attributes["pattern"]
        if "pattern" not in node.inputs
        else bytes_of_constant(node["pattern"], "the pattern")
    )
    return emit.node("RegexFullMatch", [node["input"]], [TensorProto.BOOL], [node["input"].shape], pattern=pattern)


@handles(
    "StringToNumber",
    to="Cast",
    dtypes=("string",),
    notes=_OPSET_20,
    differs="numbers that are not decimal (0x10), or beyond the range of normal doubles (1e400, 1e-320), are an error; "
    "TensorFlow reads them",
)
def string_to_number(node: Node, emit: Emitter) -> Tensor:
    """Cast, which takes a number at the beginning of any text: what is no number becomes "", which it refuses."""
    words, dtype = node["string_tensor"], node.dtypes[0]
    number = _FLOAT if dtype in FLOATS else _DIGITS
    pattern = f"(?i){_SPACE}{number}{_SPACE}"
    (is_number,) = emit.node("RegexFullMatch", [words], [TensorProto.BOOL], [words.shape], pattern=pattern)
    words = emit.op("Where", is_number, words, text_constant(b"", emit))
    if dtype == TensorProto.INT32:  # Cast wraps larger numbers
        wide = emit.cast(words, TensorProto.INT64)
        fits = emit.op("Equal", emit.cast(emit.cast(wide, dtype), TensorProto.INT64), wide)
        words = emit.op("Where", fits, words, text_constant(b"", emit))
    return emit.cast(words, dtype)


@handles("StringLength", dtypes=("string",))
def string_length(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator."""
    return emit.domain_op("StringLength", {"input": node["input"]}, _unit(node))


@handles("Substr", dtypes=("string",))
def substr(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator; positions and lengths get the shape of the strings."""
    words = node["input"]
    shape = emit.shape_of(words)
    places = {}
    for name in ("pos", "len"):
        if words.rank is None or node[name].rank is None or node[name].rank > words.rank:
            raise Unsupported("the strings must have at least the rank of pos and len")
        places[name] = emit.op("Expand", emit.cast(node[name], TensorProto.INT64), shape)
    return emit.domain_op("Substr", {"input": words, **places}, _unit(node))


@handles("StringStrip", dtypes=("string",))
def string_strip(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator."""
    return emit.domain_op("StringStrip", {"input": node["input"]})


@handles("UnicodeDecode", "UnicodeDecodeWithOffsets", to="UnicodeDecode", dtypes=("string",))
def unicode_decode(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator, of UTF-8."""
    splits, *found = _characters(node, emit)
    return (emit.cast(splits, node.dtypes[0]), *found)[: len(node.dtypes)]


@handles("UnicodeTranscode", to="UnicodeDecode", dtypes=("string",))
def unicode_transcode(node: Node, emit: Emitter) -> Tensor:
    """The characters of UTF-8, as UTF-8 again: what is no text is replaced or left out."""
    splits, characters, _ = _characters(node, emit)
    given = {"input_values": characters, "input_splits": splits, "replacement_char": _stand_in(node, emit)}
    (made,) = emit.domain_op("UnicodeEncode", given, _unicode(node, "output_encoding"))
    return emit.op("Reshape", made, emit.shape_of(node["input"]), allowzero=1)


def _characters(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Where the characters of each string begin in all of them, the characters, and their places."""
    flat = emit.op("Reshape", node["input"], emit.constant([-1]))
    errors = _unicode(node, "input_encoding")
    splits, characters, starts = emit.domain_op(
        "UnicodeDecode", {"input": flat, "replacement_char": _stand_in(node, emit)}, errors
    )
    if node.attributes.get("replace_control_characters", 0):
        if errors["errors"] != "replace":
            raise Unsupported("control characters are replaced, not removed: errors must be replace")
        is_control = emit.op("Less", characters, emit.like(0x20, characters))
        characters = emit.op("Where", is_control, _stand_in(node, emit), characters)
    return splits, characters, starts


@handles("UnicodeEncode", dtypes=("int32",))
def unicode_encode(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The same operator, to UTF-8."""
    given = {
        "input_values": node["input_values"],
        "input_splits": emit.cast(node["input_splits"], TensorProto.INT64),
        "replacement_char": _stand_in(node, emit),
    }
    return emit.domain_op("UnicodeEncode", given, _unicode(node, "output_encoding"))


def _stand_in(node: Node, emit: Emitter) -> Tensor:
    return emit.constant(node.attributes.get("replacement_char", 0xFFFD), TensorProto.INT32)


def _unicode(node: Node, encoding: str) -> dict[str, str]:
    """The attributes of UnicodeDecode and UnicodeEncode."""
    name, errors = node.attributes[encoding].decode(), node.attributes.get("errors", b"replace").decode()
    if name.upper() not in ("UTF-8", "UTF8"):
        raise Unsupported(f"the encoding {name}; ONNX Runtime's strings are UTF-8")
    if errors not in ("replace", "ignore"):
        raise Unsupported(f"errors are not reported in ONNX: errors must be replace or ignore, not {errors}")
    return {"errors": errors}


def _unit(node: Node) -> dict[str, str]:
    return {"unit": node.attributes.get("unit", b"BYTE").decode()}


def _split(
    words: Tensor, separator: Tensor, limit: Tensor, emit: Emitter, at: str = "WHITESPACE"
) -> tuple[Tensor, ...]:
    inputs = {"input": words, "separator": separator, "max_splits": limit}
    return emit.domain_op("RaggedStringSplit", inputs, {"empty_separator": at})


def _sparse(values: Tensor, splits: Tensor, emit: Emitter) -> tuple[Tensor, ...]:
    """Coordinates, values and dense shape."""
    partition = of_splits(splits, emit)
    return coordinates_of([partition], emit), values, dense_shape_of([partition], emit)


def _replaced(
    words: Tensor, ranges: Sequence[tuple[int, int]], rewrite: Sequence[bytes], matches: str, emit: Emitter
) -> Tensor:
    inputs = {
        "input": words,
        "ranges": emit.constant(np.array(ranges, np.int64).reshape(-1, 2)),
        "rewrite": emit.constant(np.array(rewrite, object), _STRING),
    }
    return emit.domain_op("ReplaceCharacters", inputs, {"matches": matches})[0]


def bytes_of_constant(tensor: Tensor, what: str) -> bytes:
    """The bytes of a string that must be known."""
    text = tensor.constant(what).reshape(-1)[0]
    return text if isinstance(text, bytes) else str(text).encode()
