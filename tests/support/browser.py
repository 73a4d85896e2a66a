"""Headless Chromium, and folders that it reads through a server."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium: the system's, or the one that playwright has installed."""
    with pytest.importorskip("playwright.sync_api").sync_playwright() as started:
        opened = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield opened
        opened.close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # a browser asks for many files at once


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder's files."""
    server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def axe_violations(page: Any) -> list[tuple[str, str]]:
    """The rules of axe-core that a page breaks, each with the first part that does."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    return [(each["id"], each["nodes"][0]["html"]) for each in axe.run(page).response["violations"]]
