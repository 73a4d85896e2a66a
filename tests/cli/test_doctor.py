"""`onnx-sparse doctor`."""

from __future__ import annotations

import subprocess

import pytest

from onnx_sparse.cli import doctor
from onnx_sparse.sessions.runtime import available_backends

needs_native = pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")


@pytest.fixture(scope="module")
def examined():
    """What the command finds; each examination starts processes that load both backends."""
    return doctor.examine()


@pytest.fixture
def document(cli, examined, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: examined)
    return cli("doctor", "--json").json


def test_a_working_installation(cli):
    result = cli("doctor")
    assert result.code == 0
    assert "onnxruntime" in result.out
    assert "Everything that is needed works." in result.out


def test_json(document):
    assert document["ok"]
    assert document["packages"]["onnx"]
    assert document["backends"]["python"] == {"available": True, "library": None, "problem": None, "settings": {}}
    assert document["onnxruntime_takes"]["ir_version"] >= 10
    assert document["onnxruntime_takes"]["opset"] >= 18


@needs_native
def test_what_the_native_kernels_have_chosen(cli, document):
    settings = document["backends"]["native"]["settings"]
    assert set(settings) == {"instructions", "rows_prefetched_ahead", "huge_pages"}
    assert f"instructions     {settings['instructions']}" in cli("doctor").out


@pytest.fixture
def answer(monkeypatch):
    """Make the process that tests a backend end in a given way."""

    def make(returncode, stderr):
        done = subprocess.CompletedProcess([], returncode, "", stderr)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    return make


def test_a_broken_backend(cli, answer):
    answer(1, "Traceback (most recent call last):\n  ...\nImportError: libfoo.so.1 is missing\n")
    result = cli("doctor")
    assert result.code == 1
    assert "PROBLEM: backend python: ImportError: libfoo.so.1 is missing" in result.out


def test_a_backend_that_ends_the_process(cli, answer):
    answer(-11, "")
    result = cli("doctor", "--json")
    assert result.code == 1
    assert result.json["backends"]["python"]["problem"] == "ended by signal 11: it said nothing"


def test_a_missing_package(cli, monkeypatch):
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "rich" else version(name))
    result = cli("doctor", "--json")
    assert result.code == 1
    assert result.json["problems"] == ["rich is not installed: pip install rich"]


def test_the_packages_of_every_extra_are_shown(document):
    assert {"tensorflow", "torch", "openvino", "pyarrow", "ray", "pyspark"} <= document["packages"].keys()


@pytest.mark.parametrize(("given", "expected"), [("1", "off"), ("0", "on: ORT_DISABLE_TELEMETRY=1"), (None, "on: ")])
def test_telemetry_of_onnx_runtime(monkeypatch, given, expected):
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    if given is not None:
        monkeypatch.setenv("ORT_DISABLE_TELEMETRY", given)
    assert doctor._telemetry().startswith(expected)
