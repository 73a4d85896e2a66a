"""`onnx-sparse completion`."""

from __future__ import annotations

import contextlib
import os
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
        (["onnx-sparse", "convert", "mod"], {"model.onnx"}),
        (["onnx-sparse", "convert", "--help", "asc"], {"ascend"}),
        (["onnx-sparse", "ops", "SegmentM"], {"SegmentMax", "SegmentMean", "SegmentMin"}),
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


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("onnx-sparse ben", {"benchmark"}),
        ("onnx-sparse convert --rep", {"--report", "--repair-scatter"}),
        ("onnx-sparse ops SegmentM", {"SegmentMax", "SegmentMean", "SegmentMin"}),
    ],
)
def test_fish_completes_what_was_typed(cli, typed, expected, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "own.fish").write_text(cli("completion", "fish").out)
    program = f"source own.fish; complete -C '{typed}'"
    done = subprocess.run(["fish", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert {line.partition("\t")[0] for line in done.stdout.splitlines()} == expected, done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("onnx-sparse ben", ["onnx-sparse benchmark"]),
        ("onnx-sparse convert --repo", ["onnx-sparse convert --report"]),
        ("onnx-sparse ops SegmentMe", ["onnx-sparse ops SegmentMean"]),
    ],
)
def test_zsh_completes_what_was_typed(cli, typed, expected, tmp_path):
    """In a terminal of its own: zsh completes nothing elsewhere."""
    pytest.importorskip("shtab")
    import pty

    (tmp_path / "_onnx-sparse").write_text(cli("completion", "zsh").out)
    (tmp_path / "told").touch()
    (tmp_path / ".zshrc").write_text(
        "fpath=($ZDOTDIR $fpath); autoload -Uz compinit; compinit -u -D\n"
        "tell() { print -r -- $BUFFER > $ZDOTDIR/told; exit }; zle -N tell; bindkey '^X' tell\n"
    )
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        os.environ.update(ZDOTDIR=str(tmp_path), TERM="dumb")
        os.execlp("zsh", "zsh", "-i")
    try:
        os.write(terminal, typed.encode() + b"\t\x18")
        with contextlib.suppress(OSError):  # the terminal is closed at the end
            while os.read(terminal, 1024):
                pass
    finally:
        os.waitpid(child, 0)
        os.close(terminal)
    assert [line.strip() for line in (tmp_path / "told").read_text().splitlines()] == expected


def test_without_shtab(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli("completion", "bash").error == f"completion needs shtab: {install_command('completion')}"
