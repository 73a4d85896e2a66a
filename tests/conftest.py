"""What all tests need from the process that runs them."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from hypothesis import HealthCheck, settings
from listed_skips import UnlistedSkips
from support.parts_of_tests import split
from support.torch_exports import read_torchlib_once

# Every run draws the same inputs. `--hypothesis-profile=few` is for runs that repeat on another build or on other
# versions what a full run has tested; `random` draws others each night, and prints how to draw what failed again.
settings.register_profile(
    "all", max_examples=9, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("few", settings.get_profile("all"), max_examples=3)
settings.register_profile(
    "random", settings.get_profile("all"), max_examples=60, derandomize=False, database=None, print_blob=True
)
settings.load_profile("all")

# Hypothesis also draws the constants of our modules that are loaded, which differ from worker to worker, with
# `derandomize` too; it has no setting for that. Where a version keeps them elsewhere, draws differ again, no more.
with contextlib.suppress(ImportError, AttributeError):
    from hypothesis.internal.conjecture import providers

    _constants, _none = providers._get_local_constants, providers.Constants()
    providers._get_local_constants = lambda: _none if settings.default.derandomize else _constants()

# OpenVINO's converter forks its process for each event that it reports to its makers, some 60 for a model: without the
# module that does so, it is silent.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]

# A program that is started in the background inherits that Ctrl-C and hang-ups are ignored, and so would every process
# that a test starts to send them to it.
if threading.current_thread() is threading.main_thread():
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--listed-skips",
        nargs="?",
        const="",
        metavar="SECTION",
        help="fail on skips that tests/listed_skips.py does not list, or of this section of .ci/run",
    )
    parser.addoption("--skipped-to", type=Path, metavar="FOLDER", help="write which tests other sections have to run")
    parser.addoption("--whole", action="store_true", help="only the tests that otherwise run in part, and these whole")


def pytest_configure(config: pytest.Config) -> None:
    """Several workers take tests from each other at the end, where one would have the long ones left."""
    section = config.getoption("listed_skips")
    if section is not None:
        config.pluginmanager.register(UnlistedSkips(section, config.getoption("skipped_to")))
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A worker of pytest-xdist cannot send surrogates, and ends where a message has one."""
    return _escaped((yield))


def _escaped(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {_escaped(key): _escaped(value) for key, value in data.items()}
    return type(data)(map(_escaped, data)) if isinstance(data, (list, tuple)) else data


def pytest_itemcollected(item: pytest.Item) -> None:
    """`-k NAME` finds the tests that pin down a rule or guard by its name."""
    for mark in item.iter_markers("pins"):
        item.extra_keyword_matches.update(mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What the tests import stays: collections of garbage, of which a full one takes half a second, leave it out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:], left = split(items, whole=config.getoption("whole"))
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_runtest_setup() -> None:
    read_torchlib_once()


@pytest.fixture
def one_of(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """One of how many cases a test runs: of all at night."""
    return lambda by_day: 1 if pytestconfig.getoption("whole") else by_day


@pytest.fixture(scope="session", autouse=True)
def threads_that_sleep() -> Iterator[None]:
    """Sessions in this process whose threads sleep while they wait for work, unless their options say how they wait.

    By default they spin, and each session that ends waits for that, some 50 ms.
    """
    make = onnxruntime.InferenceSession.__init__

    def make_sleeping(session: Any, model: Any, sess_options: Any = None, *args: Any, **kwargs: Any) -> None:
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        try:
            options.get_session_config_entry("session.intra_op.allow_spinning")
        except RuntimeError:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        make(session, model, options, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime.InferenceSession, "__init__", make_sleeping)
        yield
