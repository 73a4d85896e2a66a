"""Runs a dumped layer on the CPU with the dump's own inputs and compares every tensor with the NPU's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.ascend.atb.conversion import Conversion, convert_graph, input_record
from onnx_sparse.converters.ascend.atb.dump import find_records
from onnx_sparse.converters.ascend.atb.graph import AtbGraph
from onnx_sparse.converters.ascend.atb.handlers import Choices
from onnx_sparse.converters.ascend.atb.json_graph import is_atb_json, read_graph
from onnx_sparse.converters.ascend.atb.records import Records, TensorRecord
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.ascend.emitter import notes
from onnx_sparse.converters.ascend.source import inside, read_json
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.graph_emitter import value_info

Array = np.ndarray[Any, Any]

#: How far a tensor may be from the NPU's, relative to the largest finite magnitude in it, by element type.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-4}
_GRAPH_PLACES = ("layer", "model", "info/layer", "info/model")


@dataclass(frozen=True)
class Comparison:
    """The comparison of one tensor with the NPU's.

    Attributes:
        operation: The operation that wrote it; the graph's name for its outputs.
        tensor: Its name.
        dtype: The element type.
        shape: The shape in the dump.
        max_abs: The largest difference.
        max_rel: The largest difference relative to the NPU's value.
        cosine: The cosine of the angle between the two; None if one of them is zero or not finite.
        equal: Whether all values are equal.
        ok: Whether they agree within the tolerance.
        note: Any other difference.
    """

    operation: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    cosine: float | None
    equal: bool
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Replay:
    """A layer that was run.

    Attributes:
        graph: The layer's name.
        source: Its file.
        comparisons: Its tensors in execution order.
        notes: Notes on the conversion for the user.
    """

    graph: str
    source: Path
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]


def find_graphs(folder: Path, wanted: str = "") -> list[tuple[Path, AtbGraph, Records]]:
    """The graphs of a dump whose tensors are in the dump as well.

    Args:
        folder: The dump's folder.
        wanted: The name of the only graph to look for; all graphs when empty.

    Raises:
        ConversionError: There is no such graph.
    """
    seen, found = [], []
    for path in (path for place in _GRAPH_PLACES for path in sorted(folder.glob(f"{place}/*/*.json"))):
        if not inside(path, folder):
            continue
        document = read_json(path)
        if not is_atb_json(document):
            continue
        graph = read_graph(document, path)
        seen.append(graph.name)
        if wanted and wanted != graph.name:
            continue
        records = find_records(graph, path, None)
        if _has_results(graph, records):
            found.append((path, graph, records))
    if found:
        return found
    if not seen:
        places = ", ".join(f"{place}/<pid>" for place in _GRAPH_PLACES)
        raise ConversionError(f"{folder} is not a dump: there are no graphs in {places}")
    known = ", ".join(seen[:8])
    raise ConversionError(
        f"{folder} has no tensors of {wanted or known}: there must be tensors/ or data/ beside the graphs, with "
        f"after/outtensor<i>.bin" + (f"; its graphs are {known}" if wanted else "")
    )


def replay(
    path: Path, graph: AtbGraph, records: Records, choices: Choices, *, backend: str = "auto", tolerance: float | None
) -> Replay:
    """Run one graph of a dump.

    Args:
        path: The graph's file.
        graph: The graph.
        records: The dump's records of its tensors.
        choices: The user's choices.
        backend: The backend that runs it.
        tolerance: How far a floating tensor may be from the NPU's; None uses the tolerance of its element type.

    Raises:
        ConversionError: It cannot be converted, an input's tensor is not in the dump, or it does not run on the inputs.
    """
    read = {name for node in graph.nodes for name in node.inputs}
    for name in (name for name in graph.inputs if name in read):
        _input_file(graph, name, records)
    conversion = convert_graph(graph, given={}, records=records, choices=choices, weights_from_dump=False)
    feeds = {}
    for value in conversion.model.graph.input:
        feeds[value.name] = read_tensor(_input_file(conversion.graph, value.name, records), records.root)
    expected = list(_expected(conversion, records))
    try:
        results = _run(conversion, feeds, [name for _, name, _ in expected], backend)
    except Exception as error:  # onnxruntime's exceptions have no common base of their own
        raise ConversionError(f"it is converted but does not run on the dump's inputs: {error}") from error
    comparisons = []
    for operation, name, record in expected:
        assert record.file is not None
        comparisons.append(compare(operation, name, results[name], read_tensor(record.file, records.root), tolerance))
    return Replay(graph.name, path, tuple(comparisons), tuple(notes(conversion.model)))


def _input_file(graph: AtbGraph, name: str, records: Records) -> Path:
    """The file with an input's tensor."""
    record = input_record(graph, name, records)
    if record is None or record.file is None:
        raise ConversionError(f"the dump has no data of the input {name}")
    return record.file


def compare(operation: str, tensor: str, actual: Array, expected: Array, tolerance: float | None) -> Comparison:
    """Compare a tensor with the NPU's. NaN and infinities must be at the same positions."""
    dtype, shape = str(expected.dtype), tuple(expected.shape)
    note = ""
    if actual.shape != expected.shape:
        note = f"{list(actual.shape)} here"
        if actual.size != expected.size:
            infinite = float("inf")
            return Comparison(operation, tensor, dtype, shape, infinite, infinite, None, False, False, note)
        actual = actual.reshape(expected.shape)
    if actual.dtype != expected.dtype:
        note = f"{actual.dtype} here"
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
        relative = np.where(same, 0.0, distance / np.maximum(np.abs(np.where(finite, b, 1.0)), 1e-30))
    largest = float(np.max(np.abs(b[finite]), initial=0.0))
    allowed = (TOLERANCES.get(dtype, 0.0) if tolerance is None else tolerance) * largest
    max_abs = float(np.max(distance, initial=0.0))
    norms = float(np.linalg.norm(a[finite]) * np.linalg.norm(b[finite])) if finite.all() else 0.0
    cosine = float(np.vdot(a, b)) / norms if norms else None
    ok = max_abs <= allowed and actual.dtype == expected.dtype
    return Comparison(
        operation,
        tensor,
        dtype,
        shape,
        max_abs,
        float(np.max(relative, initial=0.0)),
        cosine,
        bool(same.all()),
        ok,
        note,
    )


def _has_results(graph: AtbGraph, records: Records) -> bool:
    """Whether any result of the graph or of its operations was dumped."""
    places = [((), graph.name), *((node.path, node.name) for node in graph.nodes)]
    outputs = (record for path, name in places for record in records.of(path, name).outputs)
    return any(record is not None and record.file is not None for record in outputs)


def _expected(conversion: Conversion, records: Records) -> Iterator[tuple[str, str, TensorRecord]]:
    """The tensors to compare, in execution order: (operation, tensor, record)."""
    graph = conversion.graph
    places = [(node.path, node.name, node.outputs) for node in graph.nodes]
    places.append(((), graph.name, tuple(value.name for value in conversion.model.graph.output)))
    for path, operation, names in places:
        for name, record in zip(names, records.of(path, operation).outputs, strict=False):
            if record is not None and record.file is not None:
                yield operation, name, record


def _run(conversion: Conversion, feeds: Mapping[str, Array], wanted: list[str], backend: str) -> dict[str, Array]:
    """The wanted tensors, including inner ones."""
    import onnxruntime

    import onnx_sparse

    model = ModelProto()
    model.CopyFrom(conversion.model)
    there = {value.name for value in model.graph.output}
    for name in dict.fromkeys(wanted):
        if name not in there:
            model.graph.output.append(value_info(conversion.tensors[name]))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # failures are raised as exceptions
    session = onnx_sparse.InferenceSession(model, options, backend=backend)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))
