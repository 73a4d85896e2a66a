"""Tests of the native library, which are skipped in an installation without it."""

from __future__ import annotations

import pytest

from onnx_sparse.sessions.runtime import available_backends


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "native" not in available_backends():
        skip = pytest.mark.skip(reason="this installation has no native library")
        for item in items:
            if "native" in item.path.parent.parts:
                item.add_marker(skip)
