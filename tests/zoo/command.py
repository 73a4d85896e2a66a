"""The command line of a zoo: models are examined in processes of the environments that they need."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from zoo.registry import EXTRAS, VARIABLES, Entry

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

#: A model that takes longer has hung.
_SECONDS_PER_MODEL = 300


@dataclass
class Outcome:
    """What became of a model.

    Attributes:
        name: The model.
        environment: The environment it was built in.
        outcome: "equal", "rounding" (differs as float32 must), "random" (of which types and shapes are equal),
            "refused" (by the converter), "torch.export refuses", "not built" (by its package), or "wrong".
        batches: By kind of batch: "equal", "differs", "fails", or that the source refuses it.
        notes: What went wrong, or the converter's reason.
        nodes: The number of ONNX nodes.
        verdict: What `verify` says, which makes inputs of its own: "ok", or the worst of its verdicts.
        verified_batches: In how many batches with rows it compared an output, at least.
    """

    name: str
    environment: str
    outcome: str = "not built"
    batches: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    nodes: int = 0
    verdict: str = ""
    verified_batches: int = 0

    def to_json(self) -> dict[str, Any]:
        """The values by name."""
        return asdict(self)

    def note_verified(self, records: Sequence[Any]) -> None:
        """Note what `verify` found: its worst verdict, and in how many batches with rows it compared something."""
        failed = next((record for record in records if not record.ok), None)
        self.verdict = "ok" if failed is None else failed.verdict.value
        self.verified_batches = min(record.batches for record in records)
        if failed is not None:
            self.notes.append(f"verify: {failed.verdict.value}: {failed.output}: {failed.note}")


Found = TypeVar("Found", bound=Outcome)


@dataclass(frozen=True)
class Zoo(Generic[Found]):
    """A zoo.

    Attributes:
        file: The script that runs its command line.
        description, epilog: What its help says.
        entries: Makes its models, by name.
        examine: Examines a model.
        result: The class of what `examine` returns.
        columns: The cells of a table, by heading, for a result.
        page_name: The name of the page of the documentation with the results.
        heading: What stands on that page above the table.
    """

    file: str
    description: str | None
    epilog: str
    entries: Callable[[], Mapping[str, Entry]]
    examine: Callable[[Entry], Found]
    result: type[Found]
    columns: Callable[[Found], Mapping[str, str]]
    summary: Callable[[Sequence[Found]], str]
    page_name: str
    heading: Callable[[], str]

    @property
    def script(self) -> Path:
        """The script's path."""
        return Path(self.file).resolve()

    @property
    def page(self) -> Path:
        """The page's path."""
        return ROOT / "docs" / self.page_name

    def main(self) -> int:
        """Run the command line. The status is 1 if a model is wrong."""
        parser = self._parser()
        given = parser.parse_args()
        every = self.entries()
        unknown = set(given.environment or ()) - {entry.environment for entry in every.values()}
        if unknown:
            there = ", ".join(_environments(every.values()))
            parser.error(f"no environment {', '.join(sorted(unknown))}; there is {there}")
        chosen = [entry for entry in every.values() if _is_chosen(entry, given.model, given.environment)]
        if not chosen:
            parser.error("no model matches; --list shows them all")
        if given.list:
            for entry in chosen:
                print(f"{entry.environment:14} {entry.name}")
            return 0
        if given.work:
            self._work(chosen)
            return 0
        if given.results:
            documents = [json.loads(path.read_text("utf-8")) for path in given.results]
            results = [self.result(**result) for document in documents for result in document]
        else:
            results = []
            for result in self._run(chosen, given.environments):
                results.append(result)
                if given.json is not None and str(given.json) != "-":  # what is known survives an interrupt
                    given.json.write_text(_json(results), "utf-8")
        results.sort(key=lambda result: result.name)
        if str(given.json) == "-":
            print(_json(results))
        else:
            print(self._table(results))
            print(self._counts(results))
            for result in results:
                if result.outcome != "equal" or result.verdict != "ok":
                    print(f"{result.name}: {result.outcome}: {'; '.join(result.notes)}")
        if given.page:
            self.page.write_text(self._page_text(results), "utf-8")
        return int(any(result.outcome == "wrong" for result in results))

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python {self.script.relative_to(ROOT)}",
            description=self.description,
            epilog=self.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "onnx_sparse" / "zoo"
        parser.add_argument(
            "--model", action="append", metavar="PATTERN", help="models whose name matches, '*' allowed"
        )
        parser.add_argument("--environment", action="append", metavar="NAME", help="models of this environment")
        parser.add_argument(
            "--environments",
            type=Path,
            default=cache,
            metavar="FOLDER",
            help="where the environments are kept; they share this one's packages (default: %(default)s)",
        )
        parser.add_argument("--list", action="store_true", help="list the models and stop")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON; - is standard output")
        parser.add_argument(
            "--results", type=Path, nargs="+", metavar="FILE", help="results of earlier runs (--json), instead of a run"
        )
        parser.add_argument("--page", action="store_true", help=f"write the results to {self.page.relative_to(ROOT)}")
        parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
        return parser

    def _run(self, chosen: Sequence[Entry], folder: Path) -> Iterator[Found]:
        """Examine models in processes of their environments; a process that ends costs one model."""
        done = 0
        for environment in _environments(chosen):
            python = _python(environment, folder)
            left = [entry.name for entry in chosen if entry.environment == environment]
            while left:
                at = left[0]
                for result in self._examined_by_process(python, environment, left):
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
                    yield self.result(at, environment, "wrong", notes=["the process ended, or took too long"])
        _tell("")

    def _examined_by_process(self, python: str, environment: str, names: Sequence[str]) -> Iterator[str | Found]:
        """The name of each model that a process begins with, and its result."""
        command = [python, str(self.script), "--work"]
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
                yield self.result(**json.loads(line))
        process.wait()

    def _work(self, chosen: Sequence[Entry]) -> None:
        import faulthandler

        for entry in chosen:
            print(f"at {entry.name}", flush=True)
            faulthandler.dump_traceback_later(_SECONDS_PER_MODEL, exit=True)
            print(json.dumps(self.examine(entry).to_json()), flush=True)
            faulthandler.cancel_dump_traceback_later()

    def _table(self, results: Sequence[Found]) -> str:
        """A Markdown table."""
        rows = [self.columns(result) for result in results]
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        )

    def _counts(self, results: Sequence[Found]) -> str:
        counts = Counter(result.outcome for result in results)
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        return f"{len(results)} models: {told}. {self.summary(results)}"

    def _page_text(self, results: Sequence[Found]) -> str:
        reasons = "\n".join(
            f"- {result.name}: {result.outcome}. {'; '.join(result.notes)}".replace("][", "]\\[")  # not a reference
            for result in results
            if result.outcome != "equal"
        )
        rest = f"\n## Those that are not equal\n\n{reasons}\n" if reasons else ""
        return f"{self.heading()}\n{self._counts(results)}\n\n{self._table(results)}\n{rest}"


def _json(results: Sequence[Outcome]) -> str:
    return json.dumps([result.to_json() for result in results], indent=1)


def _is_chosen(entry: Entry, patterns: Sequence[str] | None, environments: Sequence[str] | None) -> bool:
    named = patterns is None or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns)
    return named and (environments is None or entry.environment in environments)


def _environments(chosen: Iterable[Entry]) -> list[str]:
    return sorted({entry.environment for entry in chosen}, key=lambda name: (name != EXTRAS, name))


def _python(environment: str, folder: Path) -> str:
    """The interpreter of an environment, which is made when it is not there or its requirements changed."""
    if environment == EXTRAS:
        return sys.executable
    requirements = FOLDER / "requirements" / f"{environment}.txt"
    home = folder / environment
    python, made_from = home / "bin" / "python", home / "requirements.txt"
    if made_from.exists() and made_from.read_text("utf-8") == requirements.read_text("utf-8"):
        return str(python)
    _tell(f"installing {requirements.relative_to(ROOT)} into {home}")
    venv.create(home, clear=True, with_pip=True)
    packages = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # What this environment has, TensorFlow above all, need not be installed again: also what its .pth files add.
    (packages / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", "utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    made_from.write_text(requirements.read_text("utf-8"), "utf-8")
    return str(python)


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
