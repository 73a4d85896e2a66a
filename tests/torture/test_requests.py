"""A small part of the fuzz in `requests.py`."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

if sys.platform == "win32":
    pytest.skip("POSIX streams", allow_module_level=True)

from torture import requests

pytestmark = pytest.mark.slow


def test_mutated_requests_are_answered_or_refused() -> None:
    done, faults = requests.fuzz(1_000_000, 40, seconds=300)
    assert not faults
    assert {what.rpartition(" ")[0] for what in done} == {*requests.FORMS}


def test_numbers_that_are_no_varints_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read as bytes first, and then by protobuf, which refuses them."""
    monkeypatch.setattr(requests, "FORMS", ("grpc contents",))
    monkeypatch.setattr(requests, "mutated_bytes", lambda data, _: data.replace(b"\1\2\x08\0\5", b"\1\2\x08\0\x85"))
    done, faults = requests.fuzz(0, 1, seconds=60)
    assert not faults
    assert done == {"grpc contents refused": 1}
