"""Runs tests in forks of a process that has imported what does not change, with one module's source replaced."""

from __future__ import annotations

import ast
import os
import pickle
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mutation.planted import plant
from mutation.planting import Mutant
from mutation.rooms import ROOT

#: pytest's statuses that say something of the tests: passed, failed, and errors while they were collected.
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"
_VERDICTS = {0: SURVIVED, 1: KILLED, 2: KILLED, 3: KILLED}


class Child:
    """A fork that calls a function, whose result is a status of pytest."""

    def __init__(self, call: Callable[[], int], limit: float) -> None:
        self.began, self.limit = time.monotonic(), limit
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  # the child writes it
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.dup2(self.log.fileno(), 1)
            os.dup2(self.log.fileno(), 2)
            status = 3
            try:
                status = int(call())
            finally:
                sys.stdout.flush()
                os._exit(status)

    def verdict(self) -> str:
        """What became of it; nothing while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0 and time.monotonic() - self.began < self.limit:
            return ""
        self._kill()
        if pid == 0:
            os.waitpid(self.pid, 0)
            return TIMED_OUT
        return _VERDICTS.get(os.waitstatus_to_exitcode(status), KILLED)  # a signal ends it: the fault was seen

    def _kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def output(self) -> str:
        """What it has printed."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


class Reached:
    """A plugin of pytest that notes which tests run which lines of some files, and how long they take."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._names = {str((ROOT / path).resolve()): str(path) for path in files}
        self._known: dict[str, str | None] = {}
        self.tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._test, began = item.nodeid, time.monotonic()
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - began

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if name not in self._known:
            self._known[name] = self._names.get(os.path.realpath(name))
        return None if self._known[name] is None else self._line

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        name = self._known[frame.f_code.co_filename]
        assert name is not None
        self.tests[name, frame.f_lineno].add(self._test)
        return self._line

    def of(self, mutant: Mutant, source: str) -> list[str]:
        """The tests that run the statement of a mutant, or any line of its file if that runs on import."""
        first, last = _statement(ast.parse(source), mutant.line)
        lines = range(first, last + 1) if first else ()
        name = str(mutant.path)
        found = {test for line in lines for test in self.tests.get((name, line), ())}
        if not lines:
            found = {test for (path, _), tests in self.tests.items() if path == name for test in tests}
        return sorted(found, key=self.seconds.__getitem__)


def _statement(tree: ast.Module, line: int) -> tuple[int, int]:
    """The first and last line of the innermost statement at a line; 0 and 0 where it runs on import."""
    span, inside = (0, 0), False
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inner = waiting.pop()
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            span, inside = (node.lineno, max(last, node.lineno)), inner
        inner = inner or isinstance(node, ast.FunctionDef | ast.Lambda)
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return span if inside else (0, 0)


class Chosen:
    """A plugin of pytest that runs some tests only, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: k for k, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._order), key=lambda i: self._order[i.nodeid])


def pytest_run(tests: Sequence[str], plugins: Sequence[object] = ()) -> int:
    """Run tests in this process, until one fails."""
    os.chdir(ROOT)
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "-W", "ignore"]
    return int(pytest.main([*quiet, *tests], plugins=[*plugins]))


def baseline(files: Iterable[Path], tests: Sequence[str], limit: float) -> Reached:
    """Which tests reach which lines, as they all pass.

    Raises:
        SystemExit: They do not.
    """
    with tempfile.NamedTemporaryFile() as file:

        def run() -> int:
            reached = Reached(files)
            status = pytest_run(tests, [reached])
            Path(file.name).write_bytes(pickle.dumps((dict(reached.tests), reached.seconds)))
            return status

        child = Child(run, limit)
        while not (verdict := child.verdict()):
            time.sleep(0.1)
        if verdict != SURVIVED:
            sys.exit(f"without a fault, the tests {verdict}:\n{child.output()[-2000:]}")
        reached = Reached(files)
        lines, reached.seconds = pickle.loads(Path(file.name).read_bytes())
        reached.tests.update(lines)
        return reached


def start(mutant: Mutant, tests: Sequence[str], source: str, limit: float) -> Child:
    """Run tests with a fault."""

    def run() -> int:
        plant(ROOT / mutant.path, mutant.applied(source))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        chosen: Collection[object] = [Chosen(tests)] if any("::" in test for test in tests) else []
        return pytest_run(files, [*chosen])

    return Child(run, limit)
