"""The skips that CI expects, each with the section of `.ci/run` in which the test runs instead.

`pytest --listed-skips` fails on any other. In the section `torch`, `--listed-skips=torch` fails on those of it as well.
`--skipped-to FOLDER` writes what was skipped, for the sections that run it later. `python tests/listed_skips.py
torch` prints all modules of a section. A test that is skipped everywhere tests nothing. Without the options, on a
developer's machine, skips are free.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_TORCH = "the extra `torch` is not installed|could not import '(torch|onnxscript|onnx_ir|sympy)['.]"

#: By modules, whether they or their tests are skipped: what the reason of the skip contains, and where the test runs.
LISTED: tuple[tuple[str, str, str], ...] = (
    ("tests/native/test_allocations.py", "the build that watches allocations", "sanitizers"),
    *(
        (f"tests/{modules}.py", _TORCH, "torch")
        for modules in (
            "atlas/test_atlas",
            "census/test_*",
            "cli/test_benchmark",
            "cli/test_convert_torch",
            "cli/test_mistakes",
            "contract/test_lowered",
            "contract/test_model_sources",
            "converters/kernels/test_roads",
            "converters/onnxruntime/test_transforms",
            "converters/rewriting/test_lost_rows",
            "converters/test_unread_parts",
            "converters/torch/test_*",
            "end_to_end/test_openvino_models",
            "end_to_end/test_readme",
            "end_to_end/test_torch_zoo",
            "faults/test_faults",
            "test_damaged_files",
            "rows/test_foreign_rows",
            "rows/test_row_objects",
            "files/test_guarded_files",
            "converters/verification/test_planted_faults",
        )
    ),
    ("tests/cli/test_engines.py", "could not import '(ray|pyspark)'", "engines"),
    ("tests/test_sharded_on_ray.py", "could not import 'ray'", "engines"),
    ("tests/cli/test_triton.py", "could not import 'tritonclient", "engines"),
    ("tests/serving/test_clients.py", "could not import '(kserve|openapi_spec|tritonclient)", "engines"),
    ("tests/end_to_end/test_serving_examples.py", "could not import '(tritonclient|httpx)", "engines"),
    ("tests/cli/test_completion.py", "there is no (fish|zsh)", "browser"),
    ("tests/cli/test_report_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_site_browser.py", "could not import 'playwright", "browser"),
    ("tests/tools/test_archive.py", "not the environment of tests/tools/requirements.txt", "tools"),
    ("tests/tools/test_recipe.py", "not the environment of tests/tools/requirements.txt", "tools"),
    ("tests/tools/test_tools.py", "not the environment of tests/tools/requirements.txt", "tools"),
    ("tests/converters/torch/test_torch_geometric.py", "could not import 'torch_geometric", "tools"),
    ("tests/converters/rewriting/test_lost_rows.py", "could not import 'torch_geometric", "tools"),
    (
        "tests/converters/torch/test_torchrec.py",
        "could not import '(fbgemm_gpu|torchrec)'",
        "by hand: needs CUDA's packages",
    ),
    (
        "tests/converters/tensorflow/test_text_kernels.py",
        "could not import 'tensorflow_text",
        "by hand: its releases lag",
    ),
    ("tests/native/test_limits.py", "takes 20 GB", "by hand: machines of CI have less memory"),
    ("tests/native/test_huge_pages.py", "does not make huge pages at once", "where the system does"),
    ("tests/contract/test_sessions.py", "this installation has it", "where there is no native library"),
    ("tests/torture/test_writers.py", "root may write anywhere", "where CI is not root"),
)


class UnlistedSkips:
    """Collects the skips of a run, those of xdist's workers included.

    Args:
        section: The section of `.ci/run` that runs; empty for none.
        folder: Where to write, for each section, what it has to run; None for nowhere.
    """

    def __init__(self, section: str = "", folder: Path | None = None) -> None:
        self.section, self.folder = section, folder
        self.unlisted: set[str] = set()
        self.elsewhere: defaultdict[str, set[str]] = defaultdict(set)

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
        section = section_of(report.nodeid, reason)
        if not section or section == self.section:
            self.unlisted.add(f"{report.nodeid}: {reason}")
        else:
            self.elsewhere[section].add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail for them."""
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Show them, after all else: a log is read from its end."""
        if hasattr(config, "workerinput"):
            return
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            for section, tests in self.elsewhere.items():
                (self.folder / section).write_text("\n".join(sorted(tests)))
        if self.unlisted:
            title = "\nFAILED for skips that tests/listed_skips.py does not list:"
            sys.stdout.write("\n".join([title, *sorted(self.unlisted), ""]))


def section_of(test: str, reason: str) -> str:
    """Where a skipped test runs; empty if nothing says so."""
    module = test.partition("::")[0]
    found = (where for listed, pattern, where in LISTED if fnmatchcase(module, listed) and re.search(pattern, reason))
    return next(found, "")


def modules_of(section: str) -> list[str]:
    """The modules some of whose tests run in a section, by their paths in the repository."""
    found = {path for listed, _, where in LISTED if where == section for path in ROOT.glob(listed)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


if __name__ == "__main__":
    sys.stdout.write("\n".join(modules_of(sys.argv[1])))
