"""Traces modules with torch.export, in each of its ways, and says why it cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.torch.gradients import are_computed, with_gradients
from onnx_sparse.converters.torch.lazy_imports import quietly, require
from onnx_sparse.converters.torch.source import Source

#: What torch.export says below the first line: which sizes are constant, and the caller's line at which it gave up.
_CONSTANT_SIZE = re.compile(
    r"^ *- You marked (.*?) as dynamic but your code specialized it to be a constant \((\d+)\)", re.M
)
_TRACE_LOGS = re.compile(r" *For more information, run with TORCH_LOGS=\S+")
_VIOLATED = re.compile(r"^ *- (Not all values of .*|.*conflict.*)", re.M)
_SUGGESTED = re.compile(r"^Suggested fixes:\n((?:^ +\S.*\n?)+)", re.M)
_GAVE_UP_AT = re.compile(r"The following call raised this error:\n *File \"(.*?)\", line (\d+).*\n *(.*)")

#: What torch.export says of an output that is no tensor: a stand-in.
_STAND_IN_RETURNED = re.compile(r"onnx_sparse\.converters\.torch\.\w+\.\w+'> in output")

#: What torch.export says of modules of torch.ao.nn.quantized, which keep their weights in objects of torch's own.
_PACKED = re.compile(r"PackedParams|\(ScriptObject\)")

_PACKED_REFUSAL = (
    "a quantized module keeps its weights in an object that torch.export does not read; export the module before it is "
    "quantized, and quantize the tables of the file: onnx_sparse.quantize_tables, or convert --tables int8"
)

#: How many lines of torch.export's message make its reason, where the first one only announces it.
_REASON_LINES = 6


def trace(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> Source:
    """Trace a module with torch.export: as asked for, then with sizes of 0 and 1 that are not taken for constants, then
    the other way of tracing.

    Args:
        model: A `torch.nn.Module`.
        args, kwargs, dynamic_shapes, strict: As for `export`.

    Raises:
        ConversionError: With the reason for which the first way fails, and that of the last where it is another.
    """
    torch = require("torch")
    from onnx_sparse.converters.torch.causal_masks import causal_masks_unread
    from onnx_sparse.converters.torch.composite_inputs import in_parts
    from onnx_sparse.converters.torch.composites import sizes_kept
    from onnx_sparse.converters.torch.jagged_tensors import jagged_tensors_replaced
    from onnx_sparse.converters.torch.recurrent import apart, recurrent_layers_whole
    from onnx_sparse.converters.torch.sparse_stand_ins import sparse_matrices_replaced

    try:
        args, named, dynamic_shapes = in_parts(model, args, dict(kwargs or {}), dynamic_shapes)
    except (NotImplementedError, TypeError) as error:
        raise ConversionError(f"an input of {type(model).__name__}: {first_line(error)}") from error
    errors: list[Exception] = []
    for is_strict, oblivious in ((strict, False), (strict, True), (not strict, True)):
        try:
            with (
                quietly(),
                torch.random.fork_rng(devices=()),  # where it gives up, torch may have drawn numbers
                sparse_matrices_replaced(model),
                jagged_tensors_replaced(),
                recurrent_layers_whole(),
                causal_masks_unread(),
                sizes_kept(),
                torch.fx.experimental._config.patch(backed_size_oblivious=oblivious),
            ):
                program = torch.export.export(model, args, named, dynamic_shapes=dynamic_shapes, strict=is_strict)
            return Source(program, type(model).__name__)
        except Exception as error:  # whatever torch raises for what it cannot export
            errors.append(error)
    untraced = ""
    if are_computed(errors):
        try:
            with quietly(), torch.random.fork_rng(devices=()):
                traced = with_gradients(model, args, named, dynamic_shapes)
                program = torch.export.export(traced, args, named, dynamic_shapes=dynamic_shapes)
            return Source(program, type(model).__name__)
        except Exception as error:  # whatever torch raises
            untraced = f"; a gradient that forward computes is not traced: {first_line(error)}"
    reasons = dict.fromkeys(_refusal(error) for error in (errors[0], errors[-1]))
    text = f"; with strict={not strict}: ".join(reasons)
    if not are_computed([ConversionError(text)]):  # then the reason is another one
        untraced = ""
    if _CONSTANT_SIZE.search(str(errors[-1])) and (layers := apart(model)):
        untraced += f"; the number of steps of {', '.join(layers)} must be static: of doubles, or with projections"
    raise ConversionError(f"torch.export cannot export {type(model).__name__}: {text}{untraced}") from errors[0]


def _refusal(error: Exception) -> str:
    """Why torch.export refuses a module, and where."""
    text = str(error)
    if constant := _CONSTANT_SIZE.findall(text):
        return "; ".join(
            f"{size} is declared dynamic, but its code makes it always {known}" for size, known in constant
        )
    if _STAND_IN_RETURNED.search(text):
        return "a sparse or nested tensor as an output is not converted; return to_dense(), or its values"
    if _PACKED.search(text):
        return _PACKED_REFUSAL
    if suggested := _SUGGESTED.search(text):
        fixes = "; ".join(line.strip() for line in suggested[1].splitlines())
        reasons = [_TRACE_LOGS.sub("", first_line(error)).rstrip("!. "), *_VIOLATED.findall(text)[:1]]
        return f"{': '.join(reasons)} Suggested fixes: {fixes}"
    place = _GAVE_UP_AT.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):  # what follows is the reason
        return " ".join(lines[:_REASON_LINES])
    return first_line(error) + (f" [{place[1]}:{place[2]}: {place[3]}]" if place else "")
