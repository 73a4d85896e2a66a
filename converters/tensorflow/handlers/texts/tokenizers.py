"""tensorflow_text's tokenizers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.handlers.texts.splitting import bytes_of_constant
from onnx_sparse.converters.tensorflow.reading.operators import declare
from onnx_sparse.converters.tensorflow.regex_program import Program, program_of
from onnx_sparse.converters.tensorflow.unicode_classes import LAST_CHARACTER
from onnx_sparse.converters.writing.emitter import Emitter

#: A pattern that matches no text.
_NOTHING = rb"[^\x{0}-\x{10ffff}]"

declare(
    "RegexSplitWithOffsets(input, delim_regex_pattern, keep_delim_regex_pattern) -> "
    "tokens:string, begin_offsets:int64, end_offsets:int64, row_splits:int64"
)
declare(
    "TFText>WhitespaceTokenizeWithOffsetsV2(input_values, input_config) -> "
    "output_tokens:string, output_row_splits:int64, output_start_offsets:int32, output_end_offsets:int32"
)


@handles(
    "RegexSplitWithOffsets",
    to="RegexSplit",
    dtypes=("string",),
    notes="the patterns are constants; delimiters that match the empty text are refused",
    differs="tensorflow_text ends a string at its first zero byte; the model does not",
)
def regex_split_with_offsets(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The delimiter is the pattern's first group, which tensorflow_text puts around the pattern."""
    given = bytes_of_constant(node["delim_regex_pattern"], "the pattern of delimiters")
    kept = program_of(bytes_of_constant(node["keep_delim_regex_pattern"], "the pattern of delimiters that are kept"))
    delimiters = program_of(given)
    if not delimiters.is_group:
        raise Unsupported(f"the pattern of delimiters {given!r} is not one group, as tensorflow_text makes it")
    if delimiters.matches_empty:
        raise Unsupported(f"the pattern of delimiters {given!r} matches the empty text")
    tokens, splits, starts, ends = _split(node["input"], delimiters, kept, emit)
    return tokens, starts, ends, splits


@handles(
    "TFText>WhitespaceTokenizeWithOffsetsV2",
    to="RegexSplit",
    dtypes=("string",),
    notes="the configuration is a constant",
)
def whitespace_tokenize(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The configuration has a bit for each character, which is set for whitespace; it may end early."""
    config = bytes_of_constant(node["input_config"], "the configuration")
    spaces = np.flatnonzero(np.unpackbits(np.frombuffer(config, np.uint8), bitorder="little"))
    members = "".join(f"\\x{{{number:x}}}" for number in spaces[spaces <= LAST_CHARACTER].tolist())
    delimiters = program_of(f"[{members}]+".encode() if members else _NOTHING)
    tokens, splits, starts, ends = _split(node["input_values"], delimiters, program_of(_NOTHING), emit)
    return tokens, splits, *(emit.cast(places, TensorProto.INT32) for places in (starts, ends))


def _split(words: Tensor, delimiters: Program, kept: Program, emit: Emitter) -> tuple[Tensor, ...]:
    inputs = {"input": words}
    for prefix, program in (("", delimiters), ("kept_", kept)):
        inputs |= {f"{prefix}{name}": emit.constant(array) for name, array in program.inputs.items()}
    return emit.domain_op("RegexSplit", inputs)
