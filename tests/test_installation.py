"""The command that adds an extra fits how the package was installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from onnx_sparse.installation import install_command


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a distribution of the package's name that says where it came from."""

    def install(record: object, *requirements: str) -> None:
        folder = tmp_path / "site" / "onnx_sparse-9.dist-info"
        folder.mkdir(parents=True)
        required = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: onnx_sparse\nVersion: 9\n{required}")
        if record is not None:
            (folder / "direct_url.json").write_text(record if isinstance(record, str) else json.dumps(record))
        monkeypatch.setattr(metadata, "distribution", lambda name: metadata.Distribution.at(folder))

    return install


def test_an_index(origin):
    origin(None)
    assert install_command("score") == 'pip install "onnx_sparse[score]"'


@pytest.mark.parametrize("is_editable", [False, True])
def test_a_checkout(origin, tmp_path, is_editable):
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    origin({"url": checkout.as_uri(), "dir_info": {"editable": is_editable}})
    assert install_command("score") == f'pip install {"-e " * is_editable}"{checkout}[score]"'


def test_a_checkout_is_not_compiled_again(origin, tmp_path):
    """The command names what the extra needs, also what it needs by another one, and nothing of others."""
    origin(
        {"url": tmp_path.as_uri(), "dir_info": {"editable": True}},
        "numpy>=1.26",
        'pyarrow>=16; extra == "score"',
        'onnx_sparse[score]; extra == "ray"',
        "ray[data]>=2.60; extra == 'ray'",
        'pyspark>=4.0; python_version > "3" and extra == "spark"',
    )
    assert install_command("score") == 'pip install "pyarrow>=16"'
    assert install_command("ray") == 'pip install "pyarrow>=16" "ray[data]>=2.60"'
    assert install_command("spark") == 'pip install "pyspark>=4.0"'


@pytest.mark.parametrize("is_there", [False, True])
def test_a_wheel(origin, tmp_path, is_there):
    wheel = tmp_path / "onnx_sparse-9-py3-none-any.whl"
    if is_there:
        wheel.touch()
    origin({"url": wheel.as_uri(), "archive_info": {}})
    expected = f"{wheel}[score]" if is_there else "onnx_sparse[score]"
    assert install_command("score") == f'pip install "{expected}"'


def test_addresses(origin):
    url = "https://example.com/onnx_sparse.git"
    origin({"url": url, "vcs_info": {"vcs": "git", "commit_id": "abc"}})
    assert install_command("score") == f'pip install "onnx_sparse[score] @ git+{url}@abc"'


def test_a_wheel_of_a_server(origin):
    origin({"url": "https://example.com/a.whl", "archive_info": {}})
    assert install_command("score") == 'pip install "onnx_sparse[score] @ https://example.com/a.whl"'


@pytest.mark.parametrize("record", ["{", "[]", '"x"'])
def test_a_damaged_record(origin, record):
    origin(record)
    assert install_command("score") == 'pip install "onnx_sparse[score]"'


def test_no_installation(monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("score") == 'pip install "onnx_sparse[score]"'


def test_pip_takes_the_command(tmp_path):
    """Its quoting and form, of a checkout whose path has a blank."""
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").write_text('[project]\nname = "onnx_sparse"\nversion = "9"\n')
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, f"{checkout}[score]"], capture_output=True, text=True, check=False)
    assert "Invalid requirement" not in done.stderr
    assert checkout.name in done.stdout
