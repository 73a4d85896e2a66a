"""From OpenVINO: IRs of versions 10 and 11 to ONNX with operators of the domain.

Reads the .xml and .bin files itself. Only `verify` and `extensions` need the `openvino` package, which they import
when called. `convert` takes `Options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.openvino.extensions import extensions
from onnx_sparse.converters.openvino.road import ROAD, Options
from onnx_sparse.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnx_sparse.converters.writing.registry import CoverageRow
else:
    __getattr__ = lazy_names(__name__, {"CoverageRow": "onnx_sparse.converters.writing.registry"})

__all__ = ["CoverageRow", "Options", "convert", "coverage", "extensions", "verify"]

convert = ROAD.convert
"""Convert an OpenVINO IR: `Road.convert` with `Options`."""
verify = ROAD.verify
"""Run a source in OpenVINO and its model in ONNX Runtime on the same inputs, and compare: `Road.verify`."""


def coverage() -> list[CoverageRow]:
    """The operators with a handler, sorted by name and version."""
    from onnx_sparse.converters.openvino.handlers import HANDLERS

    return HANDLERS.coverage()
