"""The domain's operators as OpenVINO extensions, for `core.add_extension` or `ov.convert_model(extension=...)`.

Each becomes a subgraph of OpenVINO's standard operators. OpenVINO's own EmbeddingSegmentsSum is quadratic and its
SegmentMax is wrong for NaN and without rows (see known_faults); Gather and ScatterNDUpdate with a reduction are not.

OpenVINO's CPU plugin computes 64-bit types in 32 bits, which nothing here can change. Errors in the values of inputs,
such as unsorted segment ids, are not reported.
"""

from __future__ import annotations

import importlib
from functools import partial
from types import SimpleNamespace
from typing import Any

from onnx_sparse.converters.openvino.extensions import embedding, fill, segment, sparse
from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Write
from onnx_sparse.schemas import DOMAIN, OPS, Op, example_parsing, hashing, strings

__all__ = ["extensions"]

WRITERS: dict[str, Write] = {**embedding.WRITERS, **fill.WRITERS, **segment.WRITERS, **sparse.WRITERS}

#: The operators that OpenVINO's operators cannot express, with the reason.
NOT_EXPRESSIBLE = dict.fromkeys(
    (op.name for family in (hashing, strings, example_parsing) for op in family.FAMILY.ops),
    "OpenVINO's operators do not look at the bytes of a string",
)


def extensions() -> list[Any]:
    """One extension for each operator of the domain: `for e in extensions(): core.add_extension(e)`.

    For a model that OpenVINO cannot run (such as one with strings), OpenVINO raises an error when it converts the
    model, with the reason in the last line.

    Raises:
        ImportError: The `openvino` package is not installed.
    """
    onnx_frontend = importlib.import_module("openvino.frontend.onnx")
    # In OpenVINO 2025, the module opset16 has only the operators that are new in it.
    older, newer = (vars(importlib.import_module(f"openvino.opset{number}")) for number in (15, 16))
    operators = SimpleNamespace(**{**newer, **older})
    return [
        onnx_frontend.ConversionExtension(name, DOMAIN, partial(_convert, op, WRITERS.get(name, _refuse), operators))
        for name, op in OPS.items()
    ]


def _refuse(b: Subgraph) -> list[Any]:
    raise ValueError(f"{b.op.name}: {NOT_EXPRESSIBLE[b.op.name]}")


def _convert(op: Op, write: Write, operators: Any, node: Any) -> list[Any]:
    return [output.output(0) for output in write(Subgraph(op, node, operators))]
