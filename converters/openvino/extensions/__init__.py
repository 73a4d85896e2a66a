"""The domain's operators as OpenVINO extensions, for `core.add_extension` or `ov.convert_model(extension=...)`.

Each becomes a subgraph of OpenVINO's standard operators. OpenVINO's own EmbeddingSegmentsSum is quadratic and its
SegmentMax is wrong for NaN and without rows (see known_faults); Gather and ScatterNDUpdate with a reduction are not.

OpenVINO's CPU plugin computes 64-bit types in 32 bits, which nothing here can change. Errors in the values of inputs,
such as unsorted segment ids, are not reported.
"""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import Any

import onnx
from onnx import ModelProto

from onnx_sparse.converters.errors import require
from onnx_sparse.converters.openvino.extensions import embedding, fill, segment, sparse
from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Write
from onnx_sparse.schemas import DOMAIN, OPS, STRING_FAMILIES, Op, keyed_tables, quantized_embedding
from onnx_sparse.schemas.function_body import operator_name

__all__ = ["extensions"]

WRITERS: dict[str, Write] = {**embedding.WRITERS, **fill.WRITERS, **segment.WRITERS, **sparse.WRITERS}

#: The operators that OpenVINO's operators cannot express, with the reason.
NOT_EXPRESSIBLE = (
    dict.fromkeys(
        (op.name for op in keyed_tables.FAMILY.ops),
        "OpenVINO's CPU plugin computes 64-bit keys in 32 bits",
    )
    | dict.fromkeys(
        (op.name for family in STRING_FAMILIES for op in family.ops),
        "OpenVINO's operators do not look at the bytes of a string",
    )
    | dict.fromkeys(
        (op.name for op in quantized_embedding.FAMILY.ops),
        "OpenVINO's lookups take no scales",
    )
)


def extensions(model: ModelProto | str | os.PathLike[str] | None = None) -> list[Any]:
    """One extension for each operator of the domain: `for e in extensions(): core.add_extension(e)`.

    For a model that OpenVINO cannot run (such as one with strings), OpenVINO raises an error when it converts the
    model, with the reason in the last line.

    Args:
        model: The model that is to run, or its path. One with function bodies, which OpenVINO does not read, may call
            operators by the names of its functions: these get an extension, too.

    Raises:
        MissingPackageError: The `openvino` package is not installed.
    """
    onnx_frontend = require("openvino.frontend.onnx", "openvino")
    # In OpenVINO 2025, the module opset16 has only the operators that are new in it.
    older, newer = (vars(require(f"openvino.opset{number}", "openvino")) for number in (15, 16))
    operators = SimpleNamespace(**{**newer, **older})
    return [
        onnx_frontend.ConversionExtension(name, DOMAIN, partial(_convert, op, WRITERS.get(op.name, _refuse), operators))
        for name, op in {**OPS, **_operators_of_bodies(model)}.items()
    ]


def _operators_of_bodies(model: ModelProto | str | os.PathLike[str] | None) -> dict[str, Op]:
    """The operators whose bodies are functions of a model, by the functions' names."""
    if model is None:
        return {}
    loaded = model if isinstance(model, ModelProto) else onnx.load(model, load_external_data=False)
    bodies = {f.name: operator_name(f.name) for f in loaded.functions if f.domain == DOMAIN}
    return {name: OPS[operator] for name, operator in bodies.items() if operator in OPS}


def _refuse(b: Subgraph) -> list[Any]:
    raise ValueError(f"{b.op.name}: {NOT_EXPRESSIBLE[b.op.name]}")


def _convert(op: Op, write: Write, operators: Any, node: Any) -> list[Any]:
    return [output.output(0) for output in write(Subgraph(op, node, operators))]
