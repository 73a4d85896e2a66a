"""Gives three models in three forms to the tools of the ecosystem, and counts those that come out whole."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fnmatch
import importlib
import json
import multiprocessing
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(FOLDER.parent)  # `tools` is a package of the tests

from tools.registry import FORMS, MODELS, NODE_FOLDER, ROWS, Case, Row  # noqa: E402

PAGE = FOLDER.parents[1] / "docs" / "forms.md"

#: A tool that takes longer for one model has hung.
_SECONDS = 120

#: What many rows import, which takes seconds.
_LARGE = ("onnx.version_converter", "onnxruntime.quantization", "onnxruntime.tools.symbolic_shape_infer", "openvino")

#: What ONNX Runtime's packages for JavaScript are called in npm; all others are distributions of Python.
_OF_NPM = ("onnxruntime-node", "onnxruntime-web")

_HELP = """\
examples:
  python tests/tools/run.py --list                   the rows, and what is missing for each
  python tests/tools/run.py --row 'onnx*'            some of them
  python tests/tools/run.py --json tools.json        all whose tools are here
  python tests/tools/run.py --results tools.json ep.json --page    writes the table of docs/forms.md

The tools are in tests/tools/requirements.txt, and in package.json for node, which is found by the environment variable
ONNX_SPARSE_NODE_FOLDER. Each model is given to a tool in a process of its own, without onnx_sparse and, if it does not
come out whole, once more with the help that the row names. A model is whole if it runs and gives its results.
"""

Result = dict[str, Any]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python tests/tools/run.py",
        description=__doc__,
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--row", action="append", metavar="PATTERN", help="rows whose name matches, '*' allowed")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--results", type=Path, nargs="+", metavar="FILE", help="results of earlier runs (--json)")
    parser.add_argument("--page", action="store_true", help=f"write the table to {PAGE.relative_to(FOLDER.parents[1])}")
    given = parser.parse_args()
    chosen = [r for r in ROWS.values() if not given.row or any(fnmatch.fnmatchcase(r.name, p) for p in given.row)]
    if not chosen:
        parser.error("no row matches; --list shows them all")
    if given.list:
        for row in chosen:
            missing = [package for package in row.packages if version(package) is None]
            print(row.name + (f": {', '.join(missing)} is missing" if missing else ""))
        return 0
    if given.results:
        results = [result for path in given.results for result in json.loads(path.read_text("utf-8"))]
        names = [row.name for row in chosen]
        results = sorted((r for r in results if r["row"] in names), key=lambda result: names.index(result["row"]))
    else:
        results = examine(row for row in chosen if all(map(version, row.packages)))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(table(results))
    for result in results:
        for case, reason in result["failures"].items():
            print(f"{result['row']}: {case}: {reason}")
    if given.page:
        write_page(results)
    return 0


def version(package: str) -> str | None:
    """The version of a package that is installed; None where it is not."""
    if package in _OF_NPM:
        manifest = Path(os.environ.get(NODE_FOLDER, "")) / "node_modules" / package / "package.json"
        return str(json.loads(manifest.read_text("utf-8"))["version"]) if manifest.exists() else None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine(rows: Iterable[Row]) -> list[Result]:
    """The results of rows: for each form how many models come out whole, without and with help, and the failures."""
    for name in _LARGE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)  # here once, instead of in each process
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        failure = _in_a_process(_write_models, folder)
        if failure:
            raise RuntimeError(failure)
        for row in rows:
            print(row.name, file=sys.stderr, flush=True)
            results.append(_examine(row, folder))
    return results


def _examine(row: Row, folder: Path) -> Result:
    whole = {form: [0, 0] for form in FORMS}
    failures = {}
    for form in FORMS:
        for model in MODELS:
            failure = _in_a_process(_try, row, folder, model, form, False)
            if failure is None:
                whole[form][0] += 1
            else:
                failures[f"{model}, {form}"] = failure
                failure = _in_a_process(_try, row, folder, model, form, True)
                if failure is not None:
                    failures[f"{model}, {form}, {row.help}"] = failure
            whole[form][1] += failure is None
    versions = {package: version(package) for package in row.packages}
    return {"row": row.name, "help": row.help, "versions": versions, "whole": whole, "failures": failures}


def _in_a_process(function: Any, *arguments: Any) -> str | None:
    """Call a function in a process of its own: None, or why it failed. What it imports is gone with the process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, *arguments))
    process.start()
    sender.close()
    failure: str | None = f"no answer after {_SECONDS} seconds"
    if receiver.poll(_SECONDS):
        try:
            failure = receiver.recv()
        except EOFError:
            process.join()
            failure = f"the process ended with {process.exitcode}"
    process.kill()
    process.join()
    return failure


def _call(sender: Any, function: Any, *arguments: Any) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        function(*arguments)
        sender.send(None)
    except BaseException as error:  # whatever a tool raises
        sender.send(f"{type(error).__name__}: {' '.join(str(error).split())}"[:500])
    sender.close()
    os._exit(0)  # what tools registered for the end of the process is theirs


def _write_models(folder: Path) -> None:
    from tools.models import write

    write(folder)


def _try(row: Row, folder: Path, model: str, form: str, helped: bool) -> None:
    with np.load(folder / f"{model}.feeds.npz") as feeds, np.load(folder / f"{model}.results.npz") as results:
        given, expected = dict(feeds), list(results.values())
    if helped:
        import onnx_sparse  # noqa: F401
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):  # some tools leave files where they are run
        outcome = row.run(Case(folder / f"{model}.{form}.onnx", Path(work), given, helped))
        if isinstance(outcome, Path):
            outcome = _results(outcome, given, form)
    assert len(outcome) == len(expected)
    for k, (one, other) in enumerate(zip(outcome, expected, strict=True)):
        np.testing.assert_allclose(
            np.asarray(one, np.float64),
            np.asarray(other, np.float64),
            rtol=0,
            atol=row.tolerance * max(1.0, float(np.abs(other.astype(np.float64)).max(initial=0))),
            err_msg=f"output {k}",
        )


def _results(model: Path, feeds: Any, form: str) -> Any:
    """What a model gives; in the forms that run without onnx_sparse's kernels it must still run without them."""
    if form == "domain":
        from tools.models import results_of

        return results_of(model, feeds)
    import onnxruntime

    return onnxruntime.InferenceSession(str(model)).run(None, feeds)


def table(results: Sequence[Result]) -> str:
    """The results as a table in Markdown."""
    lines = [["tool", *FORMS]]
    for result in results:
        lines.append([_tool(result), *cells(result)])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(result: Result) -> list[str]:
    """What the table says of each form: how many models come out whole."""
    return [_cell(*result["whole"][form], result["help"]) for form in FORMS]


def _tool(result: Result) -> str:
    (package, its_version), *_ = result["versions"].items()
    shared = package in ("onnx", "onnxruntime")  # their versions stand above the table
    return result["row"] if shared else f"{result['row']} {its_version}"


def _cell(alone: int, helped: int, help_words: str) -> str:
    if helped == alone:
        return str(alone)
    return f"{helped} {help_words}" + (f", {alone} without" if alone else "")


def write_page(results: Sequence[Result]) -> None:
    """Put the table, with the date and the versions, in its place on the page."""
    shared = {
        package: its_version
        for result in results
        for package, its_version in result["versions"].items()
        if package in ("onnx", "onnxruntime")
    }
    said = f"{datetime.date.today()} with onnx {shared['onnx']} and ONNX Runtime {shared['onnxruntime']}"
    text = f"Written by `python tests/tools/run.py --page` on {said}, {platform.machine()}.\n\n{table(results)}\n"
    begin, end = "<!-- tools -->\n", "<!-- end of tools -->\n"
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
