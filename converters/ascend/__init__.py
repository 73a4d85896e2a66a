"""From Ascend: ATB graphs from dumps, GE graphs and torch_npu's ONNX files to ONNX that runs on any CPU.

Written from public sources; nothing here has been compared with an NPU. `convert` takes `Options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.ascend.options import Options
from onnx_sparse.converters.ascend.road import ROAD
from onnx_sparse.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.emitter import notes
    from onnx_sparse.converters.writing.registry import CoverageRow
else:
    __getattr__ = lazy_names(__name__, {"CoverageRow": "onnx_sparse.converters.writing.registry", "notes": ".emitter"})

__all__ = ["CoverageRow", "Options", "convert", "coverage", "differences", "notes", "refusals"]

convert = ROAD.convert
"""Convert an Ascend graph: `Road.convert` with `Options`."""


def coverage() -> dict[str, list[CoverageRow]]:
    """The operations for each kind of file, sorted by name.

    ATB's list is complete; the other kinds list the operations that have a handler.
    The `state` of a row of ATB says whether all of it, a part of it or nothing is converted.
    """
    # imported only here, because the import builds protobuf descriptors, which ATB graphs do not need
    from onnx_sparse.converters.ascend.atb.operations import coverage as atb_coverage
    from onnx_sparse.converters.ascend.ge import tensorflow_operators
    from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE
    from onnx_sparse.converters.ascend.npu_handlers import HANDLERS as NPU

    ge = sorted([*GE.coverage(), *tensorflow_operators.coverage()], key=lambda row: row.source)
    return {"ATB": atb_coverage(), "GE": ge, "torch_npu": NPU.coverage("npu::{}")}


def differences() -> dict[str, dict[str, list[str]]]:
    """Where results are meant to differ from an NPU's or the framework's, for each kind of file: the operations."""
    from onnx_sparse.converters.ascend.atb.handlers import HANDLERS as ATB
    from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE
    from onnx_sparse.converters.ascend.npu_handlers import HANDLERS as NPU

    found = {"ATB": ATB.differences(), "GE": GE.differences(), "torch_npu": NPU.differences("npu::{}")}
    return {kind: listed for kind, listed in found.items() if listed}


def refusals() -> dict[str, tuple[str, ...]]:
    """Why operators of GE are not converted, and their names or patterns of names."""
    from onnx_sparse.converters.ascend.ge.refusals import REFUSALS

    return REFUSALS
