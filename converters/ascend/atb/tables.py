"""Reads the tables of dump tools: `operation_tensors_*.csv` of msit and of ATB's tests, `statistic.csv` of msprobe."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from onnx_sparse.converters.ascend.atb.graph import AtbGraph
from onnx_sparse.converters.ascend.atb.records import OperationRecord, TensorRecord
from onnx_sparse.converters.ascend.dtypes import dtype_of_name
from onnx_sparse.converters.ascend.source import is_file_inside
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.files.guarded_files import read_file

_MOST_BYTES = 256 * 2**20
_MOST_TENSORS = 10_000


#: The operations of a table by `opName`.
Operations = dict[str, OperationRecord]


def read_table(path: Path, root: Path | None) -> Operations:
    """The operations of a table by `opName`, each with its first run.

    Raises:
        ConversionError: The file is neither of the two tables.
    """
    first: Operations = {}
    for operations in read_runs(path, root).values():
        for name, record in operations.items():
            first.setdefault(name, record)
    return first


def named_records(operations: Operations, graph: AtbGraph, layer: str = "") -> Operations:
    """What a table says of the operations of a graph, by `opName`.

    msprobe's table has types and ids: `ElewiseOperation_5_0_2` is operation 2 of graph 0 of layer 5. The names in a
    graph's file may be others, and the ids of layers go on from round to round while the graph keeps its own.

    Args:
        operations: The operations of a table.
        graph: The graph.
        layer: The id of the layer that ran; "" takes the graph's own, else that of the first layer of its type.
    """
    number = layer or graph.name.rpartition("_")[2]
    found = _named(operations, graph, number)
    if found or layer or not graph.op_type:
        return found
    prefix = f"{graph.op_type}_"
    others = (name.removeprefix(prefix) for name in operations if name.startswith(prefix))
    return next((found for other in others if other.isdecimal() and (found := _named(operations, graph, other))), {})


def _named(operations: Operations, graph: AtbGraph, number: str) -> Operations:
    places = [(graph.name, ()), *((group.name, group.path) for group in graph.groups)]
    places += [(node.name, node.path) for node in graph.nodes]
    found: Operations = {}
    for name, path in places:
        ids = [*([number] if graph.op_type else []), *(str(index) for index, _ in path)]
        listed = "_".join([path[-1][1] if path else graph.op_type, *ids])
        record = operations.get(name) or operations.get(listed)
        if record is not None:
            found.setdefault(name, record)
    return found


def read_runs(path: Path, root: Path | None) -> dict[tuple[str, str], Operations]:
    """The operations of a table by device and round, both "" if the table does not say them.

    Raises:
        ConversionError: The file is neither of the two tables.
    """
    try:
        text = read_file(path, root, _MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConversionError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    lines = text.splitlines()
    head = lines[0] if lines else ""
    try:
        if "OpName" in head and "|" in head:
            return {("", ""): dict(_operations(lines))}
        if "Op Name" in head and "Input/Output" in head:
            return _statistic(lines, path, root)
    except (ValueError, csv.Error) as error:
        raise ConversionError(f"{path}: {error}") from error
    raise ConversionError(
        f"{path} is neither an operation_tensors csv (OpName|...) nor a statistic.csv (... Op Name, ...)"
    )


def _operations(lines: list[str]) -> Iterator[tuple[str, OperationRecord]]:
    seen: set[str] = set()
    for row in csv.DictReader(lines, delimiter="|", quoting=csv.QUOTE_NONE):
        name = (row.get("OpName") or "").strip()
        if not name or name in seen:
            continue
        seen.add(name)
        sides = [
            tuple(
                _tensor(dtype or "", layout or "", (shape or "").split(","))
                for dtype, layout, shape in zip_longest(*(_items(row.get(side + part)) for part in _PARTS))
            )
            for side in ("In", "Out")
        ]
        yield (
            name,
            OperationRecord(sides[0], sides[1], (row.get("SocVersion") or "").strip(), _param(row.get("OpParam"))),
        )


_PARTS = ("DType", "Format", "Shape")


def _items(text: str | None) -> list[str]:
    """A cell is a list joined by `;`."""
    stripped = (text or "").strip()
    return [part.strip() for part in stripped.split(";")] if stripped else []


def _param(text: str | None) -> object:
    try:
        return json.loads(text) if text and text.strip() else None
    except (ValueError, RecursionError):
        return None  # a second copy of the parameters, which the graph has


def _statistic(lines: list[str], path: Path, root: Path | None) -> dict[tuple[str, str], Operations]:
    """One line per tensor: `Op Name`, `Op Id`, `Input/Output`, `Index`, `Dtype`, `Shape` as 36x128, ..."""
    runs: dict[tuple[str, str], dict[str, tuple[dict[int, TensorRecord], dict[int, TensorRecord]]]] = {}
    for row in csv.DictReader(lines):
        cells = {(key or "").strip(): (value or "").strip() for key, value in row.items() if isinstance(value, str)}
        name, ids = cells.get("Op Name", ""), cells.get("Op Id", "")
        if not name:
            continue
        kind = name.rpartition("/")[2]
        if ids and kind == cells.get("Op Type", kind):  # else it is an `opName`
            name = f"{kind}_{ids}"
        run = cells.get("Device and PID", ""), cells.get("Execution Count", "")
        index = int(cells.get("Index", "0"))
        side = runs.setdefault(run, {}).setdefault(name, ({}, {}))[cells.get("Input/Output", "").lower()[:2] != "in"]
        file = _tensor_path(cells.get("Tensor Path", ""), run, path.parent, root)
        side[index] = _tensor(cells.get("Dtype", ""), cells.get("Format", ""), cells.get("Shape", "").split("x"), file)
    return {
        run: {name: OperationRecord(_in_order(ins), _in_order(outs)) for name, (ins, outs) in sides.items()}
        for run, sides in runs.items()
    }


def _tensor_path(text: str, run: tuple[str, str], folder: Path, root: Path | None) -> Path | None:
    """The file of a tensor: relative to the table, or absolute on the machine that wrote the dump."""
    below = text.rpartition("/{}/{}/".format(*run))[2] if text.startswith("/") else text
    file = folder / below
    return file if text not in ("", "N/A") and is_file_inside(file, root) else None


def _in_order(side: dict[int, TensorRecord]) -> tuple[TensorRecord | None, ...]:
    return tuple(side.get(index) for index in range(min(max(side, default=-1) + 1, _MOST_TENSORS)))


def _tensor(dtype: str, layout: str, dims: list[str], file: Path | None = None) -> TensorRecord:
    parts = [part.strip() for part in dims if part.strip()]
    shape = tuple(int(part) for part in parts) if parts else None
    if any(not 0 <= dim < 2**63 for dim in shape or ()):
        raise ValueError(f"{','.join(parts)[:80]} is not a shape")
    return TensorRecord(dtype_of_name(dtype), layout.upper().removeprefix("ACL_FORMAT_") or None, shape, file)
