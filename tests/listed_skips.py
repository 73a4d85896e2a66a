"""The skips that CI expects, each with where the test runs instead; `pytest --listed-skips` fails on any other.

A test that is skipped everywhere tests nothing. Without the option, on a developer's machine, skips are free.
"""

from __future__ import annotations

import re
import sys

import pytest

#: By module, whether it or its tests are skipped: what the reason of the skip contains, and where the test runs.
LISTED: tuple[tuple[str, str, str], ...] = (
    ("tests/native/test_allocations.py", "the build that watches allocations", "sanitizers"),
    ("tests/cli/test_engines.py", "could not import '(ray|pyspark)'", "engines"),
    ("tests/test_sharded_on_ray.py", "could not import 'ray'", "engines"),
    ("tests/cli/test_triton.py", "could not import 'tritonclient", "engines"),
    ("tests/serving/test_clients.py", "could not import '(kserve|openapi_spec|tritonclient)", "engines"),
    ("tests/end_to_end/test_serving_examples.py", "could not import '(tritonclient|httpx)", "engines"),
    ("tests/cli/test_report_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_site_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_archive.py", "not the environment of tests/tools/requirements.txt", "tools"),
    ("tests/tools/test_tools.py", "not the environment of tests/tools/requirements.txt", "tools"),
    ("tests/converters/torch/test_torch_geometric.py", "could not import 'torch_geometric", "tools"),
    ("tests/converters/test_lost_rows.py", "could not import 'torch_geometric", "tools"),
    (
        "tests/converters/torch/test_torchrec.py",
        "could not import '(fbgemm_gpu|torchrec)'",
        "by hand: needs CUDA's packages",
    ),
    (
        "tests/converters/test_tensorflow_text_kernels.py",
        "could not import 'tensorflow_text",
        "by hand: its releases lag",
    ),
    ("tests/native/test_limits.py", "takes 20 GB", "by hand: machines of CI have less memory"),
    ("tests/native/test_huge_pages.py", "does not make huge pages at once", "where the system does"),
    ("tests/contract/test_sessions.py", "this installation has it", "where there is no native library"),
    ("tests/torture/test_writers.py", "root may write anywhere", "where CI is not root"),
)


class UnlistedSkips:
    """Collects the skips of a run, those of xdist's workers included."""

    def __init__(self) -> None:
        self.unlisted: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skipped test."""
        if not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a skipped module."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or not isinstance(report.longrepr, tuple):
            return
        reason = str(report.longrepr[2])
        if not is_listed(report.nodeid, reason):
            self.unlisted.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail for them."""
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Show them, after all else: a log is read from its end."""
        if self.unlisted and not hasattr(config, "workerinput"):
            title = "\nFAILED for skips that tests/listed_skips.py does not list:"
            sys.stdout.write("\n".join([title, *sorted(set(self.unlisted)), ""]))


def is_listed(test: str, reason: str) -> bool:
    """Whether CI expects a skip."""
    module = test.partition("::")[0]
    return any(module == listed and re.search(pattern, reason) for listed, pattern, _ in LISTED)
