"""Finds what a dump recorded: each layer, in each round, on each device, with the graph that describes it.

A dump has one file for each layer's graph, and a folder of tensors for each time that a layer ran:
`tensors/<device>_<pid>/<round>/<id>_<Layer>`. Round 0 is often a warm-up or the prefill.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx_sparse.converters.ascend.atb.dump import DATA_FOLDERS, by_number, folder_records, is_of_process, tables_of
from onnx_sparse.converters.ascend.atb.graph import AtbGraph
from onnx_sparse.converters.ascend.atb.json_graph import is_atb_json, read_graph
from onnx_sparse.converters.ascend.atb.records import OperationRecord, Records
from onnx_sparse.converters.ascend.atb.tables import named_records, read_runs
from onnx_sparse.converters.ascend.atb.tensor_file import FOLDER
from onnx_sparse.converters.ascend.source import inside, read_json
from onnx_sparse.converters.errors import ConversionError

_GRAPH_PLACES = ("layer", "model", "info/layer", "info/model")
#: `<device>_<pid>/<round>/<id>_<Layer>`; some tools have a folder more.
_LEVELS = 4
_MOST_FOLDERS = 200_000
#: A file of msprobe's that lists the tensors of a program in PyTorch or MindSpore.
_PROGRAM_DUMP = "dump.json"
#: A file of GE's own dump: operator's type and name, task, stream and time.
_GE_TENSOR = re.compile(r"[A-Za-z]\w*\.[\w-]+(\.\d+){1,3}\.\d{13,}")


@dataclass(frozen=True)
class Run:
    """One time that a layer ran.

    Attributes:
        graph: Its graph.
        source: The graph's file.
        root: The dump's folder.
        place: `<device>_<pid>/<round>/<id>_<Layer>`, below the folder of tensors; empty if only tables have it.
        folder: Its folder of tensors, if there is one.
        listed: Its tensors in the dump's tables, by operation.
        borrowed: Whether the graph is that of another layer of the same type: the dump has none of this layer.
    """

    graph: AtbGraph
    source: Path
    root: Path
    place: tuple[str, ...] = ()
    folder: Path | None = None
    listed: Mapping[str, OperationRecord] = field(default_factory=dict)
    borrowed: bool = False

    @property
    def device(self) -> str:
        """`<device>_<pid>`, or "" if the dump does not say it."""
        return self.place[0] if self.place else ""

    @property
    def device_number(self) -> int:
        """The number of the device, or 0."""
        number = self.device.partition("_")[0]
        return int(number) if number.isdecimal() and len(number) < 6 else 0

    def is_peer_of(self, other: Run) -> bool:
        """Whether this is the same layer in the same round, on another device."""
        mine, theirs = (run.identity or run.graph.name for run in (self, other))
        same = (self.round, self.graph.op_type, mine) == (other.round, other.graph.op_type, theirs)
        return same and self.device != other.device

    def is_relative_of(self, other: Run) -> bool:
        """Whether this is the same layer in another round, or on another device."""
        return (self.graph.op_type, self.graph.name) == (other.graph.op_type, other.graph.name)

    @property
    def round(self) -> str:
        """The round, or "" if the dump does not say it."""
        return self.place[1] if len(self.place) > 1 and self.place[1].isdecimal() else ""

    @property
    def identity(self) -> str:
        """The id in the name of its folder of tensors, or ""."""
        match = FOLDER.fullmatch(self.place[-1]) if self.folder is not None and self.place else None
        return match[1] if match else ""

    @property
    def has_data(self) -> bool:
        """Whether there is a file of any of its tensors."""
        listed = (tensor for record in self.listed.values() for tensor in (*record.inputs, *record.outputs))
        return any(tensor is not None and tensor.file is not None for tensor in listed) or (
            self.folder is not None and any(self.folder.rglob("*tensor*.bin"))
        )

    def records(self) -> Records:
        """The records of its tensors; their headers are read only now."""
        records = Records(by_name=dict(self.listed), root=self.root)
        if self.folder is not None:
            folder_records(self.folder, self.graph, records)
        return records


@dataclass(frozen=True)
class Found:
    """What there is to replay in a dump.

    Attributes:
        runs: In order of device, round and layer.
        left_out: What the dump has and cannot be replayed, with the reason.
    """

    runs: tuple[Run, ...]
    left_out: tuple[str, ...]


def find_runs(folder: Path, wanted: str = "") -> Found:
    """The layers that a dump recorded.

    Args:
        folder: The dump's folder, or that of one device or round in it.
        wanted: The name of the only graph to look for; all graphs when empty.

    Raises:
        ConversionError: The folder is not a dump, or has no tensors of the wanted graph.
    """
    root, within = _root_of(folder)
    graphs = list(_graphs(root))
    if not graphs:
        raise ConversionError(f"{folder} is not a dump of ATB: {_what_it_is(folder)}")
    known = ", ".join(graph.name for _, graph in graphs[:8]) + (", ..." if len(graphs) > 8 else "")
    chosen = [(path, graph) for path, graph in graphs if not wanted or graph.name == wanted]
    found = _Search(root, chosen)
    runs = tuple(run for run in found.runs if run.place[: len(within)] == within)
    runs = runs if any(run.has_data for run in runs) else ()
    if not runs:
        why = "expected tensors/ or data/ next to the graphs, with after/outtensor<i>.bin"
        if found.has_tables:
            why = "its tables have statistics only; dump the tensors, too (msprobe: task tensor or all)"
        others = f"; its graphs are {known}" if wanted else ""
        raise ConversionError(f"{folder} has no tensors of {wanted or known}: {why}{others}")
    return Found(runs, () if wanted or within else tuple(found.left_out))


def _root_of(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder of a whole dump, and the device and round in it: tools take the folder of a round, too."""
    whole = folder.absolute()
    for data in whole.parents[:2]:
        if data.name in DATA_FOLDERS and any(data.parent.glob(f"{place}/*/*.json") for place in _GRAPH_PLACES):
            return data.parent, whole.relative_to(data).parts
    return folder, ()


def _what_it_is(folder: Path) -> str:
    """What a folder without ATB's graphs holds."""
    for depth in ("", "*/", "*/*/"):
        for path in sorted(folder.glob(depth + _PROGRAM_DUMP)):
            document = read_json(path) if inside(path, folder) else None
            names = {"pytorch": "PyTorch", "mindspore": "MindSpore"}
            framework = str(document.get("framework", "")).lower() if isinstance(document, dict) else ""
            program = names.get(framework, "a program in PyTorch or MindSpore")
            return f"{path.name} is msprobe's of {program}, which has no graph"
        if any(folder.glob(f"{depth}ge_proto_*.txt")) or any(folder.glob(f"{depth}ge_onnx_*.pbtxt")):
            return "it has graphs of GE; convert each with onnx-sparse convert"
        if any(_GE_TENSOR.fullmatch(path.name) for path in folder.glob(f"{depth}*")):
            return "it has tensors of GE's graphs, which are not replayed"
    places = ", ".join(f"{place}/<pid>" for place in _GRAPH_PLACES)
    return f"there are no graphs in {places}"


def _graphs(root: Path) -> Iterator[tuple[Path, AtbGraph]]:
    for place in _GRAPH_PLACES:
        for path in sorted(root.glob(f"{place}/*/*.json"), key=by_number):
            document = read_json(path) if inside(path, root) else None
            if is_atb_json(document):
                yield path, read_graph(document, path)


def _process(name: str) -> str:
    return name.rpartition("_")[2]


class _Search:
    """Pairs the folders of tensors with graphs."""

    def __init__(self, root: Path, graphs: Sequence[tuple[Path, AtbGraph]]) -> None:
        self.root = root
        self.runs: list[Run] = []
        self.left_out: list[str] = []
        self._tables = [(path, read_runs(path, root)) for path in tables_of(root)]
        self._layers: dict[str, list[tuple[Path, AtbGraph]]] = defaultdict(list)
        self._models = [(path, graph) for path, graph in graphs if not graph.op_type]
        for path, graph in graphs:
            if graph.op_type:
                for name in dict.fromkeys((graph.op_type, graph.name)):
                    self._layers[name].append((path, graph))
        used: set[Path] = set()
        unknown: dict[Path, list[Path]] = {}
        for round_folder, folders in self._rounds():
            unknown[round_folder] = []
            by_type: dict[str, list[Path]] = defaultdict(list)
            for folder in folders:
                match = FOLDER.fullmatch(folder.name)
                by_type[match[2] if match else ""].append(folder)
            for name, same in by_type.items():
                if name in self._layers:
                    used.update(self._pair(name, same))
                else:
                    unknown[round_folder] += same
        for round_folder, folders in unknown.items():
            rest = [folder for folder in folders if folder not in used]
            taken = self._pair_model(round_folder, rest, used) if rest else frozenset()
            self.left_out += [
                f"{folder.relative_to(root)}: the dump has no graph of it"
                for folder in rest
                if folder.name not in taken
            ]
        self._only_listed([entry for entry in graphs if entry[0] not in used])
        self.runs.sort(key=lambda run: [by_number(Path(part)) for part in run.place])

    def _rounds(self) -> Iterator[tuple[Path, list[Path]]]:
        """The folders of rounds, each with the folders of the layers in it."""
        found: dict[Path, list[Path]] = defaultdict(list)
        level, count = [self.root / name for name in DATA_FOLDERS], 0
        for _ in range(_LEVELS):
            deeper: list[Path] = []
            for parent in level:
                for folder in sorted(parent.iterdir(), key=by_number) if parent.is_dir() else ():
                    if not folder.is_dir() or not inside(folder, self.root):
                        continue
                    count += 1
                    (found[parent] if FOLDER.fullmatch(folder.name) else deeper).append(folder)
            if count > _MOST_FOLDERS:
                raise ConversionError(f"{self.root} has more than {_MOST_FOLDERS} folders of tensors")
            level = deeper
        yield from found.items()

    def _pair(self, name: str, folders: Sequence[Path]) -> Iterator[Path]:
        """Pair the folders of one type of layer in one round: by the number in both names, else by their order."""
        process = _process(self._place(folders[0])[0]) if self._place(folders[0]) else ""
        graphs = [entry for entry in self._layers[name] if _process(entry[0].parent.name) == process]
        graphs = graphs or self._layers[name]
        numbers = {_process(graph.name): (path, graph) for path, graph in graphs}
        ids = [match[1] for folder in folders if (match := FOLDER.fullmatch(folder.name))]
        by_order = not set(ids) <= set(numbers) and len(folders) == len(graphs)
        for position, (number, folder) in enumerate(zip(ids, folders, strict=True)):
            own = graphs[position] if by_order else numbers.get(number)
            path, graph = own or graphs[0]
            self.runs.append(
                Run(graph, path, self.root, self._place(folder), folder, self._listed(folder, graph), own is None)
            )
            yield path

    def _pair_model(self, round_folder: Path, folders: Sequence[Path], used: set[Path]) -> frozenset[str]:
        """Pair the folder of a round with the graph of a whole model; returns the names of the folders that it has."""
        for path, graph in self._models:
            own = {node.path[0][1] for node in graph.nodes}
            names = {folder.name for folder in folders if (m := FOLDER.fullmatch(folder.name)) and m[2] in own}
            if names:
                used.add(path)
                place = self._place(round_folder)
                self.runs.append(Run(graph, path, self.root, place, round_folder, self._listed(round_folder, graph)))
                return frozenset(names)
        return frozenset()

    def _place(self, folder: Path) -> tuple[str, ...]:
        return folder.relative_to(self.root).parts[1:]

    def _listed(self, folder: Path, graph: AtbGraph) -> Mapping[str, OperationRecord]:
        """What the tables say of the operations of a graph in the round of a folder."""
        device, round_ = (*self._place(folder), "", "")[:2]
        match = FOLDER.fullmatch(folder.name) if graph.op_type else None
        own = [runs for path, runs in self._tables if is_of_process(path, self.root, _process(device))]
        listed: dict[str, OperationRecord] = {}
        for runs in own or [runs for _, runs in self._tables]:
            for operations in (runs.get((device, round_)), runs.get(("", ""))):
                for name, record in named_records(operations or {}, graph, match[1] if match else "").items():
                    listed.setdefault(name, record)
        return listed

    @property
    def has_tables(self) -> bool:
        """Whether the dump has tables of tensors."""
        return any(operations for _, runs in self._tables for operations in runs.values())

    def _only_listed(self, graphs: Iterable[tuple[Path, AtbGraph]]) -> None:
        """The graphs without a folder: their tensors may be files that a table names."""
        for path, graph in graphs:
            any_run = False
            for _, runs in self._tables:
                for (device, round_), operations in runs.items():
                    listed = named_records(operations, graph)
                    if any(r is not None and r.file is not None for o in listed.values() for r in o.outputs):
                        self.runs.append(Run(graph, path, self.root, (device, round_), None, listed))
                        any_run = True
            if not any_run and not any(run.source == path for run in self.runs):
                is_model = not graph.op_type and self.runs
                reason = "its layers are replayed by their own graphs" if is_model else "the dump has no tensors of it"
                self.left_out.append(f"{path.relative_to(self.root)}: {reason}")
