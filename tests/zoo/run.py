"""Builds models of public packages, converts them and compares them with TensorFlow."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import subprocess
import sys
import sysconfig
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

from zoo.examination import Examined, examine  # noqa: E402
from zoo.inputs import KINDS  # noqa: E402
from zoo.registry import EXTRAS, VARIABLES, Entry, entries  # noqa: E402

PAGE = FOLDER.parents[1] / "docs" / "tensorflow_models.md"

#: A model that takes longer has hung.
_SECONDS_PER_MODEL = 300

_SIGNS = {"equal": "=", "differs": "differs", "fails": "fails", "TensorFlow refuses": "-"}

_HELP = """\
examples:
  python tests/zoo/run.py --list                       the models, and the environment that each needs
  python tests/zoo/run.py --environment extras         those that need nothing but the extras
  python tests/zoo/run.py --model 'deepctr/*'          some of them
  python tests/zoo/run.py --json zoo.json --page       all of them; writes docs/tensorflow_models.md

Each model is built with random weights, saved as a SavedModel, converted, and run in TensorFlow and in ONNX Runtime on
a batch of each kind. "=" is equal, "-" is a batch that TensorFlow itself refuses. A model without an equal batch that
has rows counts as wrong. The exit status is 1 if a model is wrong, and 2 for a wrong command.
"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python tests/zoo/run.py",
        description=__doc__,
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "onnx_sparse" / "zoo"
    parser.add_argument("--model", action="append", metavar="PATTERN", help="models whose name matches, '*' allowed")
    parser.add_argument("--environment", action="append", metavar="NAME", help="models of this environment")
    parser.add_argument(
        "--environments",
        type=Path,
        default=cache,
        metavar="FOLDER",
        help="where the environments are kept; they share this one's TensorFlow (default: %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON; - is standard output")
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="FILE", help="results of earlier runs (--json), instead of a run"
    )
    parser.add_argument("--page", action="store_true", help=f"write the results to {PAGE.relative_to(Path.cwd())}")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    every = entries()
    unknown = set(given.environment or ()) - {entry.environment for entry in every.values()}
    if unknown:
        parser.error(
            f"no environment {', '.join(sorted(unknown))}; there is {', '.join(_environments(every.values()))}"
        )
    chosen = [entry for entry in every.values() if _is_chosen(entry, given.model, given.environment)]
    if not chosen:
        parser.error("no model matches; --list shows them all")
    if given.list:
        for entry in chosen:
            print(f"{entry.environment:14} {entry.name}")
        return 0
    if given.work:
        _work(chosen)
        return 0
    if given.results:
        documents = [json.loads(path.read_text("utf-8")) for path in given.results]
        results = [Examined(**result) for document in documents for result in document]
    else:
        results = []
        for result in _run(chosen, given.environments):
            results.append(result)
            if given.json is not None and str(given.json) != "-":  # what is known survives an interrupt
                given.json.write_text(_json(results), "utf-8")
    results.sort(key=lambda result: result.name)
    if str(given.json) == "-":
        print(_json(results))
    else:
        print(_table(results))
        print(_summary(results))
        for result in results:
            if result.outcome != "equal" or result.verdict != "ok":
                print(f"{result.name}: {result.outcome}: {'; '.join(result.notes)}")
    if given.page:
        PAGE.write_text(_page(results), "utf-8")
    return int(any(result.outcome == "wrong" for result in results))


def _json(results: Sequence[Examined]) -> str:
    return json.dumps([result.to_json() for result in results], indent=1)


def _is_chosen(entry: Entry, patterns: Sequence[str] | None, environments: Sequence[str] | None) -> bool:
    named = patterns is None or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns)
    return named and (environments is None or entry.environment in environments)


def _environments(chosen: Any) -> list[str]:
    return sorted({entry.environment for entry in chosen}, key=lambda name: (name != EXTRAS, name))


def _run(chosen: Sequence[Entry], folder: Path) -> Iterator[Examined]:
    """Examine models in processes of their environments; a process that ends costs one model."""
    done = 0
    for environment in _environments(chosen):
        python = _python(environment, folder)
        left = [entry.name for entry in chosen if entry.environment == environment]
        while left:
            at = left[0]
            for result in _examined_by_process(python, environment, left):
                if isinstance(result, str):
                    at = result
                    _tell(f"{done + 1}/{len(chosen)} {at}")
                    continue
                left.remove(result.name)
                at = left[0] if left else ""
                done += 1
                if result.outcome != "equal":
                    _tell(f"{result.name}: {result.outcome}: {'; '.join(result.notes)[:300]}")
                    _tell("\n" if sys.stderr.isatty() else "")
                yield result
            if left:  # the process ended while it examined `at`
                left.remove(at)
                done += 1
                yield Examined(at, environment, "wrong", notes=["the process ended, or took too long"])
    _tell("")


def _examined_by_process(python: str, environment: str, names: Sequence[str]) -> Iterator[str | Examined]:
    """The name of each model that a process begins with, and its result."""
    command = [python, __file__, "--work"]
    for name in names:
        command += ["--model", name.replace("[", "[[]")]
    process = subprocess.Popen(
        command,
        env={**os.environ, **VARIABLES.get(environment, {}), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("at "):
            yield line[3:].strip()
        elif line.startswith("{"):
            yield Examined(**json.loads(line))
    process.wait()


def _work(chosen: Sequence[Entry]) -> None:
    import faulthandler

    for entry in chosen:
        print(f"at {entry.name}", flush=True)
        faulthandler.dump_traceback_later(_SECONDS_PER_MODEL, exit=True)
        print(json.dumps(examine(entry).to_json()), flush=True)
        faulthandler.cancel_dump_traceback_later()


def _python(environment: str, folder: Path) -> str:
    """The interpreter of an environment, which is made when it is not there or its requirements changed."""
    if environment == EXTRAS:
        return sys.executable
    requirements = FOLDER / "requirements" / f"{environment}.txt"
    home = folder / environment
    python, made_from = home / "bin" / "python", home / "requirements.txt"
    if made_from.exists() and made_from.read_text("utf-8") == requirements.read_text("utf-8"):
        return str(python)
    _tell(f"installing {requirements.relative_to(FOLDER.parents[1])} into {home}")
    venv.create(home, clear=True, with_pip=True)
    packages = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # What this environment has, TensorFlow above all, need not be installed again.
    (packages / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    made_from.write_text(requirements.read_text("utf-8"), "utf-8")
    return str(python)


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def _table(results: Sequence[Examined]) -> str:
    """A Markdown table."""
    lines = [["model", "outcome", *KINDS, "`--verify`", "nodes", "TensorFlow ms", "ONNX Runtime ms"]]
    for result in results:
        verdicts = [_SIGNS[result.batches[kind]] if kind in result.batches else "" for kind in KINDS]
        times = ["" if time is None else f"{time:.2f}" for time in (result.tensorflow_ms, result.onnx_ms)]
        verified = f"{result.verdict} ({result.verified_batches})" if result.verdict else ""
        lines.append([result.name, result.outcome, *verdicts, verified, str(result.nodes or ""), *times])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _summary(results: Sequence[Examined]) -> str:
    counts = Counter(result.outcome for result in results)
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    timed = [r for r in results if r.tensorflow_ms and r.onnx_ms]
    faster = sum(r.onnx_ms <= r.tensorflow_ms for r in timed if r.onnx_ms and r.tensorflow_ms)
    return f"{len(results)} models: {told}. {faster} of {len(timed)} run at least as fast as TensorFlow."


def _page(results: Sequence[Examined]) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("tensorflow", "onnxruntime"))
    reasons = "\n".join(
        f"- {result.name}: {result.outcome}. {'; '.join(result.notes)}"
        for result in results
        if result.outcome != "equal"
    )
    return f"""\
# TensorFlow models that were tried

Written by `python tests/zoo/run.py --page` on {datetime.date.today()} with {packages} on {platform.machine()}.
Each model is built with random weights, saved as a SavedModel, converted, and compared with TensorFlow on five batches:
of several rows, of one row, of no rows, with rows whose features are all empty, and of extremes (one very long row,
the smallest and largest ids). "=" is equal, "-" is a batch that TensorFlow itself refuses. `--verify`, which makes
inputs of its own, says "ok" after as many batches with rows as stand in brackets. The times are medians of a run of a
batch of 256 rows or nodes, in one process.

{_summary(results)}

{_table(results)}
{f"{chr(10)}## Those that are not equal{chr(10)}{chr(10)}{reasons}{chr(10)}" if reasons else ""}"""


if __name__ == "__main__":
    sys.exit(main())
