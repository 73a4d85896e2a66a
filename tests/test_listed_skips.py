"""`pytest --listed-skips` fails on a skip that nobody expects, in one process and in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from listed_skips import LISTED, ROOT, modules_of, section_of

CONFTEST = """
import pathlib, listed_skips
listed_skips.LISTED = (("test_elsewhere.py", "could not import 'judge'", "judged"), *listed_skips.LISTED)
def pytest_configure(config):
    config.pluginmanager.register(listed_skips.UnlistedSkips({section!r}, pathlib.Path({folder!r})))
"""


#: Tests by their modules, and what is said of each.
MODULES = {
    "test_run": ("def test_it(): ...", ""),
    "test_gap": ("import pytest\n@pytest.mark.xfail\ndef test_it(): assert 0", ""),
    "test_inside": ("import pytest\ndef test_it(): pytest.skip('why not')", "::test_it: Skipped: why not"),
    "test_marked": (
        "import pytest\n@pytest.mark.skip(reason='why not')\ndef test_it(): ...",
        "::test_it: Skipped: why not",
    ),
    "test_elsewhere": ("import pytest\ndef test_it(): pytest.importorskip('judge')", ""),
    "test_module": ("import pytest\npytest.importorskip('no_such')", ": Skipped: could not import 'no_such'"),
}


def run(folder: Path, modules: list[str], *options: str, section: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.format(section=section, folder=str(folder / "skipped")))
    for name in modules:
        (folder / f"{name}.py").write_text(MODULES[name][0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [*command, "--rootdir", folder, *options, folder],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "two"])
def test_skips_that_nobody_expects_fail(tmp_path: Path, processes: list[str]) -> None:
    done = run(tmp_path, [*MODULES], *processes)
    assert done.returncode == 1, done.stdout + done.stderr
    unlisted = done.stdout.partition("does not list")[2]
    assert "passed" not in unlisted  # It stands last.
    for name, (_, said) in MODULES.items():
        assert (f"{name}.py" in unlisted) == bool(said)
        assert not said or f"{name}.py{said}" in unlisted


def test_without_skips_nothing_fails(tmp_path: Path) -> None:
    done = run(tmp_path, ["test_run", "test_gap"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_another_section_runs_is_written_and_fails_there(tmp_path: Path) -> None:
    done = run(tmp_path, ["test_elsewhere", "test_run"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "skipped" / "judged").read_text() == "test_elsewhere.py::test_it"
    done = run(tmp_path, ["test_elsewhere", "test_run"], section="judged")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_elsewhere.py::test_it: Skipped: could not import 'judge'" in done.stdout.partition("does not list")[2]


@pytest.mark.parametrize("modules", [modules for modules, _, _ in LISTED])
def test_listed_modules_exist(modules: str) -> None:
    assert [*ROOT.glob(modules)]


@pytest.mark.parametrize(
    "module", ["tests/converters/rewriting/test_lost_rows.py", "tests/converters/torch/test_torch_geometric.py"]
)
def test_what_needs_more_than_torch_runs_in_another_section(module: str) -> None:
    assert section_of(module, "Skipped: could not import 'torch': No module named 'torch'") == "torch"
    assert (
        section_of(module, "Skipped: could not import 'torch_geometric.nn': No module named 'torch_geometric'")
        == "tools"
    )


def test_a_section_of_ci_knows_its_modules() -> None:
    assert {"tests/census/test_census.py", "tests/converters/torch/test_trial.py"} < set(modules_of("torch"))
    sections = {where for _, _, where in LISTED if " " not in where}
    written = (ROOT / ".ci" / "run").read_text()
    assert [section for section in sections if f"\n{section}() {{" not in written] == []


@pytest.mark.parametrize("test", ["", "::test_it", "::TestIt::test_it[a]"])
def test_a_listed_module_is_listed_with_its_tests(test: str) -> None:
    reason = "Skipped: could not import 'kserve'"
    assert section_of(f"tests/serving/test_clients.py{test}", reason) == "engines"
    assert not section_of(f"tests/serving/test_clients.py{test}", "Skipped: why not")
    assert not section_of(f"tests/serving/test_client.py{test}", reason)
