"""`pytest --listed-skips` fails on a skip that nobody expects, in one process and in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from listed_skips import LISTED, is_listed

ROOT = Path(__file__).parents[1]

CONFTEST = """
from listed_skips import UnlistedSkips
def pytest_configure(config):
    config.pluginmanager.register(UnlistedSkips())
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
    "test_module": ("import pytest\npytest.importorskip('no_such')", ": Skipped: could not import 'no_such'"),
}


def run(folder: Path, modules: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
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


@pytest.mark.parametrize("module", [module for module, _, _ in LISTED])
def test_a_listed_module_exists(module: str) -> None:
    assert (ROOT / module).is_file()


@pytest.mark.parametrize("test", ["", "::test_it", "::TestIt::test_it[a]"])
def test_a_listed_module_is_listed_with_its_tests(test: str) -> None:
    assert is_listed(f"tests/serving/test_clients.py{test}", "Skipped: could not import 'kserve'")
    assert not is_listed(f"tests/serving/test_clients.py{test}", "Skipped: why not")
    assert not is_listed(f"tests/serving/test_client.py{test}", "Skipped: could not import 'kserve'")
