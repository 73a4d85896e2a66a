"""`export`: a module of torch to an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import ModelProto

from onnx_sparse.converters.torch.conversion import OPSET
from onnx_sparse.converters.torch.lazy_imports import require
from onnx_sparse.converters.torch.reference import require_agreement
from onnx_sparse.converters.torch.road import ROAD
from onnx_sparse.converters.torch.source import load
from onnx_sparse.converters.torch.tracing import trace
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    verify: bool = False,
    opset_version: int = OPSET,
    masked_fill: bool = False,
    check_ids: bool = False,
    run: bool = True,
) -> ModelProto:
    """Export a module to ONNX with operators of the domain `onnx_sparse`.

    Args:
        model: A `torch.nn.Module`, which should be in evaluation mode, or an ExportedProgram.
        args: Examples of the positional arguments.
        path: Where to write the model; it is not written when omitted.
        kwargs: Examples of the named arguments.
        dynamic_shapes: As for `torch.export.export`, which see.
        strict: As for `torch.export.export`; the other way is tried where this one fails.
        verify: Whether to run module and model on generated inputs, and to write the model only if they agree.
        opset_version: The default opset of the model.
        masked_fill: Whether `masked_fill` becomes MaskedFill, too.
        check_ids: As for `convert`.
        run: As for `convert`.

    Returns:
        The model, as `convert` returns it.

    Raises:
        ConversionError: torch cannot export the module, a node cannot be converted, or verification fails.
    """
    torch = require("torch")
    source = model
    if not isinstance(model, torch.export.ExportedProgram):
        source = trace(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    loaded = load(source)
    converted = ROAD.convert(loaded, opset_version=opset_version, masked_fill=masked_fill, check_ids=check_ids, run=run)
    if verify:
        require_agreement(loaded, converted)
    if path is not None:
        onnx.save(converted, path, save_as_external_data=converted.ByteSize() >= LARGEST_PROTO)
    return converted
