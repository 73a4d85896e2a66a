"""`onnx-sparse completion`."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from onnx_sparse.cli.completion import _SHELLS
from onnx_sparse.installation import install_command


@pytest.mark.parametrize("shell", _SHELLS)
def test_the_script_knows_commands_and_their_options(cli, shell):
    pytest.importorskip("shtab")
    script = cli("completion", shell).out
    for word in ("benchmark", "convert", "batch-sizes", "ragged"):
        assert word in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["onnx-sparse", "ben"], {"benchmark"}),
        (["onnx-sparse", "convert", "--rep"], {"--report", "--repair-scatter"}),
        (["onnx-sparse", "run", "--backend", "na"], {"native"}),
        (["onnx-sparse", "check", "mod"], {"model.onnx"}),
    ],
)
def test_bash_completes_what_was_typed(cli, typed, expected, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "model.onnx").touch()
    words = " ".join(f"'{word}'" for word in typed)
    program = f"""{cli("completion", "bash").out}
        COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}
        $(complete -p onnx-sparse | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == expected, done.stderr


def test_without_shtab(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli("completion", "bash").error == f"completion needs shtab: {install_command('completion')}"
