"""The files in examples/deploy start the command with options that it has, and ask at addresses that it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onnx_sparse
from onnx_sparse.cli import _parsed

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[1] / "examples" / "deploy"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
SECONDS_TO_END = 5


def entry_point() -> list[str]:
    found = re.search(r"^ENTRYPOINT (\[.*\])$", (FOLDER / "Dockerfile").read_text(), re.M)
    assert found
    return list(json.loads(found[1]))


def below(value: Any, key: str) -> Iterator[Any]:
    """Every value of a key in a document."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from below(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from below(inner, key)


def test_the_image_has_this_version():
    text = (FOLDER / "Dockerfile").read_text()
    assert f"ARG VERSION={onnx_sparse.__version__}\n" in text


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_command_takes_the_arguments(path):
    documents = list(yaml.safe_load_all(path.read_text()))
    containers = [container for found in below(documents, "containers") for container in found]
    assert containers
    for container in containers:
        assert container["image"] == f"onnx-sparse:{onnx_sparse.__version__}"
        arguments = _parsed([*entry_point()[1:], *container["args"]])
        assert arguments.host == "0.0.0.0"
        ports = {port["containerPort"] for port in container["ports"]}
        assert ports <= {arguments.port, arguments.grpc_port}
        paths = {probe["path"] for probe in below(container, "httpGet")}
        assert paths == {"/v2/health/ready", "/v2/health/live"}
        longest = arguments.drain + arguments.grace + SECONDS_TO_END
        assert all(seconds >= longest for seconds in below(documents, "terminationGracePeriodSeconds"))
