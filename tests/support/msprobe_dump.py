"""Writes a dump of msit's form again in the form that msprobe writes by default.

The form follows msprobe's own writer (Ascend/msprobe, ccsrc/atb_probe/atb_probe.cpp): a tensor that several operations
share is saved once, empty tensors are not saved at all, and statistic.csv has a line for each tensor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from support.ascend_graphs import bin_bytes, write

from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor

Document = dict[str, Any]
HEAD = (
    "Device and PID,Execution Count,Op Name,Op Type,Op Id,Input/Output,Index,Dtype,Format,Shape,Max,Min,Mean,Norm,"
    "Tensor Path"
)
NAMES = {"float32": "float", "bfloat16": "bf16"}
#: Where the dump was written, which is not where it is read.
ELSEWHERE = "/data/run/atb_dump_data/data"


def write_msprobe(msit: Path, root: Path, *, device: str = "0_77", task: str = "all", shared_once: bool = True) -> None:
    """Write the dump in the folder `msit` again below `root`.

    Args:
        msit: A dump with `layer/<pid>/` and `tensors/<device>_<pid>/<round>/`.
        root: The new dump's folder.
        device: The device and process.
        task: `tensor`, `statistics` or `all`: what is dumped.
        shared_once: Whether a tensor that several operations share is saved once (filter_level 1, the default).
    """
    for file in sorted(msit.glob("layer/*/*.json")):
        graph = json.loads(file.read_text())
        ids = [graph["opName"].rpartition("_")[2]]
        _rename(graph, ids)
        write(root, graph, f"info/layer/{device}/{file.name}")
        for folder in sorted(msit.glob(f"tensors/*/*/{ids[0]}_{graph['opType']}")):
            saved = _saved_under(graph, ids[0]) if shared_once else {}
            _write_round(
                folder, root / "data" / device / folder.parent.name, saved, f"{device},{folder.parent.name}", task
            )


def _rename(node: Document, ids: list[str]) -> None:
    """Give operations the names that ATB gives them: the type and all ids."""
    for position, child in enumerate(node.get("nodes", [])):
        if child.get("opType"):  # a plugin keeps its own name
            child["opName"] = "_".join([child["opType"], *ids, str(position)])
        _rename(child, [*ids, str(position)])


def _order(node: Document, ids: str) -> Iterator[tuple[str, str, list[str]]]:
    """The inputs of operations and graphs before they run, and their outputs after; with ids and side."""
    yield ids, "in", node.get("inTensors", [])
    for position, child in enumerate(node.get("nodes", [])):
        yield from _order(child, f"{ids}_{position}")
    yield ids, "out", node.get("outTensors", [])


def _saved_under(graph: Document, number: str) -> dict[str, str]:
    """The file under which each file's tensor is saved: its own, or an earlier one of the same name."""
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    before: tuple[str, list[str]] = ("", [])
    for ids, side, names in _order(graph, number):
        in_place = before[1] if side == "out" and before[0] == ids else []
        for index, name in enumerate(names):
            own = f"{ids}_{side}tensor{index}.bin"
            if name not in last or name in in_place:
                last[name] = own
            found[own] = last[name]
        before = (ids, names if side == "in" else [])
    return found


def _write_round(folder: Path, target: Path, saved: dict[str, str], run: str, task: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    table = target / "statistic.csv"
    lines = table.read_text().splitlines() if table.exists() else [HEAD]
    for file in sorted(folder.rglob("*tensor*.bin")):
        array = read_tensor(file, folder)
        if not array.size:
            continue
        parts = file.relative_to(folder.parent).parts
        operation = parts[:-2]
        ids = "_".join(part.partition("_")[0] for part in operation)
        kinds = [part.partition("_")[2] for part in operation]
        own = f"{ids}_{file.name}"
        data = bin_bytes(array)
        if saved.get(own, own) != own:
            data = bin_bytes(
                array, fields={"$Object.Count": "0", "$Object.Length": "0", "$Object.data": None, "data": saved[own]}
            )
            data = data[: len(data) - array.nbytes]
        if task != "statistics":
            place = target.joinpath(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        side, index = ("input" if file.name.startswith("in") else "output"), file.stem.partition("tensor")[2]
        values = array.astype(np.float64)
        figures = (
            [values.max(), values.min(), values.mean(), np.linalg.norm(values)] if task != "tensor" else ["N/A"] * 4
        )
        path = "N/A" if task == "statistics" else "/".join((ELSEWHERE, *run.split(","), *parts))
        lines.append(
            ",".join(
                [run, "/".join(kinds), kinds[-1], ids, side, index, NAMES.get(str(array.dtype), str(array.dtype)), "nd",
                 "x".join(map(str, array.shape)), *map(str, figures), path]
            )
        )  # fmt: skip
    table.write_text("\n".join(lines) + "\n")
