"""`report`: a page about a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands.errors import raised
from onnx_sparse.reports.report import Report

if TYPE_CHECKING:
    from onnx_sparse.models.model_files import ModelSource


def report(
    model: ModelSource,
    source: str | os.PathLike[str] | None = None,
    *,
    source_options: Mapping[str, Any] | None = None,
    rows: Mapping[str, Any] | None = None,
    times: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """A page about a model, as `onnx-sparse report` writes it: `save` it, or let a notebook show it.

        onnx_sparse.report("model.onnx", "saved_model").save("report.html")

    Args:
        model: A path, ModelProto, bytes or onnx_ir.Model.
        source: The file or folder that it was converted from: then the page also has its graph, compares the answers
            of both, and times both, as far as the package that runs it is installed.
        source_options: What chooses a graph of a source of TensorFlow: `signature`, `tag`, `inputs`, `outputs`.
        rows: The inputs of a run to be timed; drawn when omitted.
        times: Whether to run the model.
        progress: Called with what is being done.

    Raises:
        ConversionError: A file cannot be read.
    """
    from onnx_sparse.commands.model_report import gather
    from onnx_sparse.commands.origin import with_source
    from onnx_sparse.models.model_files import file_of

    tell = progress or (lambda stage: None)
    with raised(), file_of(model) as path:
        made = None if source is None else with_source(path, Path(source), source_options or {}, tell)
        return gather(path, made, rows=rows, times=times, progress=tell)
