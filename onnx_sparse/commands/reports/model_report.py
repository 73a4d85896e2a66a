"""What a report says of a model, gathered from what the other commands find."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.commands.reports.origin import Origin, is_there
from onnx_sparse.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.benchmarking.benchmark import Benchmark
    from onnx_sparse.benchmarking.profile import OperatorTime
    from onnx_sparse.pictures import Picture
    from onnx_sparse.reports.report import Report
    from onnx_sparse.rows.columns import Array

#: The rows of a batch that are timed: a request, and some that are joined.
_BATCH_SIZES = (1, 32, 256)
#: The seconds of each measurement of a report, which shall not take long.
_SECONDS = 0.25


def gather(
    path: Path,
    made: Origin | None = None,
    *,
    rows: Mapping[str, Array] | None = None,
    times: bool = True,
    progress: Progress = lambda stage: None,
) -> Report:
    """The report about a model.

    Args:
        path: Its file.
        made: What is known of its source.
        rows: The inputs of a run to be timed; drawn when omitted.
        times: Whether to run it.
        progress: Called with what is being done.
    """
    from onnx_sparse.commands.description.contents import describe
    from onnx_sparse.commands.description.findings import find
    from onnx_sparse.commands.description.forms import FORMS, NOT_FOR, form_of
    from onnx_sparse.commands.inputs.model_graph import infer_types
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.reports.contents import Contents
    from onnx_sparse.reports.model_picture import model_picture
    from onnx_sparse.reports.report import Report

    progress(f"inspecting {path}")
    model = load_model(path)
    inspected = describe(model, path)
    notes = [] if made is None else list(made.notes)
    benchmark, operators, by_node = (
        _times(path, made, rows, notes, progress) if times else (None, list[Any](), dict[str, str]())
    )
    form = form_of(model)
    pictures = {} if made is None or made.picture is None else {"before": made.picture}
    pictures["after"] = model_picture(infer_types(model), f"After: {path.name}" if pictures else path.name, by_node)
    contents = Contents(
        title=path.name if made is None else f"{made.source.name} → {path.name}",
        subtitle=f"by onnx_sparse {__version__}, {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        tiles=_tiles(inspected, pictures, made, benchmark),
        pictures=pictures,
        inspected=inspected,
        findings=[asdict(finding) for finding in find(model, path)],
        form={"name": form, "what": FORMS[form], "not_for": NOT_FOR[form]},
        tables=_tables(model, path),
        rules=None if made is None else made.rules,
        verification=None if made is None else made.verification,
        verified_inputs={} if made is None else made.verified_inputs,
        benchmark=benchmark,
        operators=operators,
        profiled=f"ONNX Runtime's profile of a batch of {_BATCH_SIZES[-1]} rows, or of the given ones, after its "
        "optimizations; the clock counts microseconds.",
        notes=notes,
    )
    return Report(contents)


def write_page(report: Report, path: Path) -> int:
    """Write a report whole or not at all; returns the bytes.

    Raises:
        CommandError: It cannot be written.
    """
    from onnx_sparse.files.new_file import new_file

    content = report.to_html().encode("utf-8", "replace")
    with new_file(path) as file:
        file.write(content)
    return len(content)


def _tiles(
    inspected: Mapping[str, Any], pictures: Mapping[str, Picture], made: Origin | None, benchmark: Benchmark | None
) -> dict[str, str]:
    from onnx_sparse.models.files.load_and_save import size_text

    ours = len(inspected["nodes"])
    count = ours + sum(inspected["other_nodes"].values())
    before = pictures.get("before")
    tiles = {
        "nodes": f"{before.count} → {count}" if before is not None else str(count),
        "nodes of our domain": str(ours),
    }
    tiles["size"] = size_text(inspected["size"])
    if made is not None and made.verification is not None:
        equal = sum(record["ok"] for record in made.verification)
        tiles["outputs that agree"] = f"{equal} of {len(made.verification)}"
    if benchmark is not None:
        fastest = max(benchmark.lines, key=lambda line: (line.contender == "onnx_sparse", line.rows_per_second))
        tiles[f"rows per second, batches of {fastest.rows}"] = f"{fastest.rows_per_second:,.0f}"
        speedups = [line.speedup for line in benchmark.lines if line.speedup is not None]
        if speedups:
            least, most = (
                f"{value:.2g}" if value < 10 else f"{value:,.0f}" for value in (min(speedups), max(speedups))
            )
            tiles["times as fast as the source"] = f"{least} to {most}"
    return tiles


def _tables(model: ModelProto, path: Path) -> list[list[object]]:
    from onnx_sparse.commands.description.embedding_tables import describe, tables_of
    from onnx_sparse.models.files.load_and_save import size_text

    rows: list[list[object]] = []
    for table in (describe(table, path) for table in tables_of(model)):
        readers = ", ".join(dict.fromkeys(reader["operator"] for reader in table["used_by"]))
        rows.append(
            [
                table["name"],
                f"[{', '.join(map(str, table['shape']))}]",
                table["type"],
                size_text(table["bytes"]),
                readers,
            ]
        )
    return rows


def _times(
    path: Path,
    made: Origin | None,
    rows: Mapping[str, Array] | None,
    notes: list[str],
    progress: Progress,
) -> tuple[Benchmark | None, list[OperatorTime], dict[str, str]]:
    """The times of a model; a note where it does not run."""
    from onnx_sparse.benchmarking.benchmark import benchmark
    from onnx_sparse.benchmarking.machine import usable_cores
    from onnx_sparse.benchmarking.profile import profile
    from onnx_sparse.benchmarking.rows import batches_of
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.sessions.ort_errors import ort_message

    is_timed = made is not None and made.is_timed and is_there(made.road)
    source = made.source if made is not None and is_timed else None
    options = made.options if made is not None and is_timed else {}
    sizes = None if rows is not None else _BATCH_SIZES
    threads = [usable_cores()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = benchmark(
                    path,
                    source,
                    source_options=options,
                    rows=rows,
                    batch_sizes=sizes,
                    threads=threads,
                    seconds=_SECONDS,
                    progress=progress,
                )
            except ConversionError as error:
                if source is None:
                    raise
                notes.append(f"the source was not timed: {error}")
                found = benchmark(
                    path, rows=rows, batch_sizes=sizes, threads=threads, seconds=_SECONDS, progress=progress
                )
        progress("profiling")
        (feeds,) = batches_of(path, rows, [] if rows is not None else [_BATCH_SIZES[-1]]).values()
        operators, seconds = profile(str(path), feeds, threads=threads[0])
    except Exception as error:  # a model that does not run is described all the same
        notes.append(f"no times: {ort_message(error)}")
        return None, [], {}
    return found, operators, {name: f"{1e6 * time:.3g} µs" for name, time in seconds.items()}
