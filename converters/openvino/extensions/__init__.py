"""The domain's operators for OpenVINO: what `core.add_extension` or `ov.convert_model(extension=...)` takes.

Each becomes a subgraph of OpenVINO's standard operators. Its own EmbeddingSegmentsSum is quadratic and its SegmentMax
is wrong for NaN and without rows (see known_faults); a Gather and a ScatterNDUpdate with a reduction are neither.

OpenVINO's CPU plugin computes 64-bit types in 32 bits, and nothing here can change that. Errors in the values of
inputs, such as segment ids that are not sorted, are not reported.
"""

from __future__ import annotations

import importlib
from functools import partial
from types import SimpleNamespace
from typing import Any

from onnx_sparse.converters.openvino.extensions import embedding, fill, segment, sparse
from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Write
from onnx_sparse.schemas import DOMAIN, OPS, Op

__all__ = ["extensions"]

_WRITERS: dict[str, Write] = {**embedding.WRITERS, **fill.WRITERS, **segment.WRITERS, **sparse.WRITERS}


def extensions() -> list[Any]:
    """One extension for each operator of the domain: `for e in extensions(): core.add_extension(e)`.

    What they make of a model that OpenVINO cannot run (one with strings, say) is OpenVINO's error at conversion, with
    the reason in its last line.

    Raises:
        ImportError: The `openvino` package is not installed.
    """
    onnx_frontend = importlib.import_module("openvino.frontend.onnx")
    # OpenVINO 2025's opset16 has only what is new in it.
    older, newer = (vars(importlib.import_module(f"openvino.opset{number}")) for number in (15, 16))
    operators = SimpleNamespace(**{**newer, **older})
    return [
        onnx_frontend.ConversionExtension(name, DOMAIN, partial(_convert, op, _WRITERS.get(name, _refuse), operators))
        for name, op in OPS.items()
    ]


def _refuse(b: Subgraph) -> list[Any]:
    raise ValueError(f"{b.op.name}: OpenVINO's operators cannot express it")


def _convert(op: Op, write: Write, operators: Any, node: Any) -> list[Any]:
    return [output.output(0) for output in write(Subgraph(op, node, operators))]
