"""Tests of the native library, which are skipped in an installation without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from native.sessions import forget_sessions

from onnx_sparse.sessions.runtime import available_backends


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "native" not in available_backends():
        skip = pytest.mark.skip(reason="this installation has no native library")
        for item in items:
            if "native" in item.path.parent.parts:
                item.add_marker(skip)


@pytest.fixture(scope="module", autouse=True)
def memory_is_given_back() -> Iterator[None]:
    """The sessions of a module have gigabytes in the end."""
    yield
    forget_sessions()
