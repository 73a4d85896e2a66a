"""Finds a dump's records of a graph's tensors, in the folder layouts of the tools.

msit:     ROOT/{layer,model}/<pid>/<graph>.json         and  ROOT/tensors/<device>_<pid>/<round>/<id>_<Layer>/...
          ROOT/operation_io_tensors/<pid>/operation_tensors_<n>.csv
msprobe:  ROOT/info/{layer,model}/<device>_<pid>/<graph>.json  and  ROOT/data/<device>_<pid>/<round>/<id>_<Layer>/...
          ROOT/data/<device>_<pid>/<round>/statistic.csv

A layer's folder has `before/intensor<i>.bin`, `after/outtensor<i>.bin`, and one folder of the same kind for each of its
operations, `<id>_<Op>`, with `op_param.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from onnx_sparse.converters.ascend.atb.graph import AtbGraph, NodePath
from onnx_sparse.converters.ascend.atb.records import OperationRecord, Records, TensorRecord
from onnx_sparse.converters.ascend.atb.tables import named_records, read_table
from onnx_sparse.converters.ascend.atb.tensor_file import FOLDER, read_record
from onnx_sparse.converters.ascend.source import inside
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.files.guarded_files import read_file

#: The folders of tensors, of msit and of msprobe.
DATA_FOLDERS = ("tensors", "data")
_MARKS = (*DATA_FOLDERS, "operation_io_tensors", "statistic.csv")
_LEVELS_UP = 5
_LEVELS_DOWN = 4
_MOST_FOLDERS = 20_000
_MOST_PARAM_BYTES = 2**20
_TENSOR = re.compile(r"(in|out)tensor(\d+)\.bin")


def find_records(graph: AtbGraph, source: Path, tensors: Path | None) -> Records:
    """The records of a graph's tensors.

    Args:
        graph: The graph.
        source: Its file, beside which a dump is looked for.
        tensors: A csv, a dump's folder or the folder of the layer's tensors, given by the user.

    Raises:
        ConversionError: The user's file or folder says nothing about this graph, or a file of the dump is malformed.
    """
    if tensors is None:
        root = _root_above(source)
        return Records() if root is None else _without_errors(_from_folder(graph, root, _process(source)))
    if tensors.is_dir():
        records = _from_folder(graph, tensors, "")
    elif tensors.is_file():
        listed = named_records(read_table(tensors, tensors.parent), graph)
        records = Records(by_name=listed, root=tensors.parent)
    else:
        raise ConversionError(f"{tensors}: no such file or directory")
    if not records.by_path and not records.by_name:
        raise ConversionError(f"{tensors} holds no tensors of {graph.name}, whose operations are {_some(graph)}")
    return _without_errors(records)


def _without_errors(records: Records) -> Records:
    """The records, if the files of all could be read: a conversion must not take what it can get."""
    for record in records.by_path.values():
        for error in record.errors:
            raise ConversionError(error)
    return records


def _some(graph: AtbGraph) -> str:
    names = [node.name for node in graph.nodes]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _root_above(source: Path) -> Path | None:
    """The dump's folder, given a graph in it; None if the graph is not where the tools put one."""
    parents = source.absolute().parents
    for level, folder in enumerate(parents[:_LEVELS_UP]):
        stands = level == 0 or any(part.name in ("layer", "model", "info") for part in parents[:level])
        if stands and any((folder / mark).exists() for mark in _MARKS):
            return folder
    return None


def _process(source: Path) -> str:
    """The process that wrote a graph: the number at the end of its folder's name."""
    return source.absolute().parent.name.rpartition("_")[2]


def _from_folder(graph: AtbGraph, root: Path, process: str) -> Records:
    records = Records(root=root)
    tables = tables_of(root)
    for table in [table for table in tables if is_of_process(table, root, process)] or tables:
        for name, record in named_records(read_table(table, root), graph).items():
            records.by_name.setdefault(name, record)
    folder = _graph_folder(graph, root, process)
    if folder is not None:
        folder_records(folder, graph, records)
    return records


def is_of_process(path: Path, root: Path, process: str) -> bool:
    """Whether a file stands below the folder of a process: `<pid>` or `<device>_<pid>`."""
    return any(part.rpartition("_")[2] == process for part in path.relative_to(root).parts[:-1])


def tables_of(root: Path) -> list[Path]:
    """The tables in a dump's folder."""
    patterns = ("operation_io_tensors/*/operation_tensors_*.csv", "statistic*.csv", "operation_tensors_*.csv",
                "*/statistic*.csv", "*/*/statistic*.csv", "*/*/*/statistic*.csv")  # fmt: skip
    return list(dict.fromkeys(path for pattern in patterns for path in sorted(root.glob(pattern))))


def folder_records(folder: Path, graph: AtbGraph, records: Records) -> None:
    """Add the tensors in the folder of a layer and in those of its operations."""
    children: dict[NodePath, set[tuple[int, str]]] = {}
    for node in graph.nodes:
        for depth in range(len(node.path)):
            children.setdefault(node.path[:depth], set()).add(node.path[depth])
    _read_folder(folder, (), children, records)


def _graph_folder(graph: AtbGraph, root: Path, process: str) -> Path | None:
    """The folder with the tensors of a layer; for a model, the folder with those of its layers."""
    bases = [root / name for name in DATA_FOLDERS if (root / name).is_dir()] or [root]
    found: list[tuple[bool, Path]] = []
    # A model has no type: its folder is the one that contains its layers' folders.
    wanted = {graph.op_type, graph.name} - {""}
    layers = {node.path[0][1] for node in graph.nodes} - {""}
    for folder in (f for base in bases for f in _folders(base, root)):
        match = FOLDER.fullmatch(folder.name)
        if graph.op_type and match and match[2] in wanted:
            found.append((graph.name.endswith(f"_{match[1]}"), folder))
        elif not graph.op_type and any((m := FOLDER.fullmatch(f.name)) and m[2] in layers for f in folder.iterdir()):
            found.append((True, folder))
    if not found and (root / "before").is_dir():
        return root
    own = [entry for entry in found if any(part.name.rpartition("_")[2] == process for part in entry[1].parents)]
    # Prefer the layer with the graph's own number, then the first round of the first device.
    return max(own or found, key=lambda entry: entry[0])[1] if found else None


def _folders(base: Path, root: Path) -> Iterator[Path]:
    """The folders below a folder, upper levels first; their depth and number are limited."""
    level, count = [base], 0
    for _ in range(_LEVELS_DOWN):
        yield from level
        deeper = [f for folder in level for f in sorted(folder.iterdir(), key=by_number) if f.is_dir()]
        level = [folder for folder in deeper if inside(folder, root)]
        count += len(level)
        if count > _MOST_FOLDERS:
            raise ConversionError(f"{base} has more than {_MOST_FOLDERS} folders; give the layer's own with --tensors")


def by_number(path: Path) -> tuple[list[int], str]:
    """Sorts names by the numbers in them."""
    return [int(number) for number in re.findall(r"\d{1,18}", path.name)], path.name


def _read_folder(
    folder: Path, path: NodePath, children: dict[NodePath, set[tuple[int, str]]], records: Records
) -> None:
    record = _record(folder, records.root)
    if record != OperationRecord():
        records.by_path[path] = record
    by_type: dict[str, list[tuple[int, Path]]] = {}
    for child in folder.iterdir():
        match = FOLDER.fullmatch(child.name)
        if match and child.is_dir() and inside(child, records.root):
            by_type.setdefault(match[2], []).append((int(match[1]), child))
    types = dict(children.get(path, ()))
    for op_type, found in by_type.items():
        positions = sorted(index for index, name in types.items() if name == op_type)
        numbered = dict(found)
        # The graph has no type of a plugin's operation; its folder has.
        if all(types.get(index) in (op_type, "") for index in numbered):
            pairs = list(numbered.items())
        elif len(positions) == len(found):  # numbered in another way, but in the same order
            pairs = list(zip(positions, (f for _, f in sorted(found)), strict=True))
        else:
            continue
        for index, child in pairs:
            _read_folder(child, (*path, (index, types[index])), children, records)


def _record(folder: Path, root: Path | None) -> OperationRecord:
    sides = (("before", "in"), ("after", "out"), ("after", "in"))
    inputs, outputs, updated = (_tensors(folder / when, side, root) for when, side in sides)
    param_file = folder / "op_param.json"
    param, wrong = None, ""
    if param_file.is_file() and inside(param_file, root) and param_file.stat().st_size <= _MOST_PARAM_BYTES:
        try:
            param = json.loads(read_file(param_file, root).decode())
        except OSError as error:
            wrong = f"{param_file} cannot be read: {error.strerror}"
        except (ValueError, RecursionError) as error:
            wrong = f"{param_file} is not JSON: {error}"
    return OperationRecord(inputs, outputs, "", param, updated, wrong)


def _tensors(folder: Path, side: str, root: Path | None) -> tuple[TensorRecord | None, ...]:
    found: dict[int, TensorRecord] = {}
    for file in folder.iterdir() if folder.is_dir() else ():
        match = _TENSOR.fullmatch(file.name)
        if match and match[1] == side and len(match[2]) < 6:
            found[int(match[2])] = read_record(file, root)
    return tuple(found.get(i) for i in range(max(found, default=-1) + 1))
