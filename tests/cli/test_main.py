"""The command line as a whole: help, exit codes, errors, JSON, pipes."""

from __future__ import annotations

import gc
import logging
import os
import re
import subprocess
import sys
import time
import weakref
from pathlib import Path
from random import Random

import pytest

from onnx_sparse.cli import main, output
from onnx_sparse.commands.conversion.settings import extended
from onnx_sparse.commands.description import findings
from onnx_sparse.converters.roads.table import roads
from onnx_sparse.settings import settings_of

COMMANDS = (
    *("convert", "report", "run", "score", "benchmark", "replay", "check", "inspect", "tables", "shard", "triton"),
    *("ops", "doctor", "demo", "completion"),
)


def start(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onnx_sparse", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_help_lists_every_command(cli):
    result = cli("--help")
    assert result.code == 0
    for command in COMMANDS:
        assert f"\n    {command} " in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_examples(cli, command):
    result = cli(command, "--help")
    assert result.code == 0
    assert f"examples:\n  onnx-sparse {command}" in result.out


@pytest.mark.parametrize("command", [*COMMANDS, "serve"])
def test_examples_fit_a_terminal(cli, command):
    shown = cli("help", command, *["all"] * (command == "convert")).out.partition("examples:\n")[2]
    assert not [line for line in shown.splitlines() if len(line) > 80]


@pytest.mark.parametrize("arguments", [["ops", "Fill"], ["--debug", "check", "--help"], ["help", "tables"]])
def test_a_command_imports_no_other_command(arguments):
    """Each has settings and their options, half a second in all."""
    asking = "import sys; from onnx_sparse.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", asking, *arguments], capture_output=True, text=True, check=True)
    loaded = {*done.stderr.split()} & {f"onnx_sparse.cli.{command}" for command in (*COMMANDS, "serve")}
    assert loaded == {f"onnx_sparse.cli.{command}" for command in arguments if command in COMMANDS}


def test_help_as_a_command(cli):
    assert cli("help").out == cli("--help").out
    assert cli("help", "run").out == cli("run", "--help").out
    assert cli("help", "convert", "torch").out == cli("convert", "--help", "torch").out


def options_in(text: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w[^,]*, )?(--[\w-]+)", text, re.M))


def test_help_of_convert_by_topic(cli, monkeypatch):
    """The common help fits on a page and names every topic; each option is in it or in one topic, and all in `all`."""
    monkeypatch.setenv("COLUMNS", "80")
    common, every = cli("convert", "--help").out, cli("convert", "--help", "all").out
    assert len(common.splitlines()) <= 60
    topics = re.findall(r"^  onnx-sparse convert --help (\w+)", common, re.M)
    assert topics == [*roads(), "verification", "model", "all"]
    found = [options_in(common), *(options_in(cli("convert", "--help", topic).out) for topic in topics[:-1])]
    assert all(found)
    assert sum(map(len, found)) == len(set.union(*found))
    known = {setting.flag for setting in settings_of(extended()) if setting.option and not setting.option.position}
    assert set.union(*found) == options_in(every) >= known - {"--output", "--external-data"} | {"--one-file"}


def test_help_of_a_topic_that_is_none(cli, tmp_path, monkeypatch):
    assert cli("convert", "--help", "tensorflw").err.splitlines()[1] == "  did you mean tensorflow?"
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "torch"):
        Path(name).touch()
    assert cli("convert", "--help", "model.onnx").out == cli("convert", "--help").out
    assert "--no-run" in cli("convert", "--help", "torch").out


@pytest.mark.parametrize(
    ("arguments", "usage", "meant"),
    [
        (["conver", "x"], "onnx-sparse", "convert"),
        (["helpp", "convert"], "onnx-sparse", "help"),
        (["inspect", "m.onnx", "--jsn"], "onnx-sparse inspect", "--json"),
        (["convert", "x", "-o", "y", "--verfy"], "onnx-sparse convert", "--verify"),
        (["run", "m.onnx", "--inptu", "x"], "onnx-sparse run", "--input"),
        (["convert", "x", "-o", "y", "--lowr=1", "more"], "onnx-sparse convert", "--lower"),
        (["convert", "x", "-o", "y", "--from", "tensorflo"], "onnx-sparse convert", "tensorflow"),
    ],
)
def test_a_misspelled_word(cli, arguments, usage, meant):
    result = cli(*arguments)
    assert result.code == 2
    first, second, third = result.err.splitlines()
    assert first.startswith(f"{usage}: error: ")
    assert second == f"  did you mean {meant}?"
    assert third == f"  `{usage} --help` shows what it takes"


@pytest.mark.parametrize("arguments", [["xyz"], ["inspect", "m.onnx", "--xyz"], ["inspect", "m.onnx", "more"]])
def test_a_word_that_is_like_no_other(cli, arguments):
    result = cli(*arguments)
    assert result.code == 2
    assert "did you mean" not in result.err


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", ["", *COMMANDS, "serve"])
def test_help_fits_a_terminal(cli, monkeypatch, command, width):
    """Commands to type, and options whose value is one long word, are lines of their own however long."""
    monkeypatch.setenv("COLUMNS", str(width))
    described = cli(*filter(None, ["help", command])).out.partition("\nexamples:")[0]
    prose = [line for line in described.splitlines() if not line.startswith("  ")]
    options = [line for line in described.splitlines() if line.startswith(" " * 20) and "[" not in line]
    assert not [line for line in prose + options if len(line) > width]


@pytest.mark.parametrize(
    "word", ["export", "info", "infer", "list", "ls", "optimize", "predict", "quantize", "show", "test", "verify"]
)
def test_what_other_tools_call_it(cli, word):
    _, second, _ = cli(word).err.splitlines()
    meant = second.removeprefix("  did you mean ").removesuffix("?").split()
    assert meant[0] in COMMANDS
    assert all(option in cli("help", meant[0]).out for option in meant[1:])


#: What each command reads first; what it needs to be well formed follows.
READING = {
    **dict.fromkeys(("check", "inspect", "run", "benchmark", "tables", "serve", "replay"), ()),
    **{"convert": ("-o", "y.onnx"), "report": ("-o", "y.html"), "score": ("rows.csv", "-o", "y.csv")},
    **{"shard": ("-o", "y", "--shards", "2"), "triton": ("-o", "y")},
}


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "https://h/m.onnx",
            "https://h/m.onnx is an address; pass a local path, and download or upload the file yourself",
        ),
        ("s3://b/m.onnx", "s3://b/m.onnx is an address; pass a local path, and download or upload the file yourself"),
        ("", "expected a path, got ''"),
    ],
)
def test_what_is_no_path(cli, monkeypatch, tmp_path, command, given, said):
    """An address would lose a slash, and nothing would be the folder that one is in."""
    monkeypatch.chdir(tmp_path)
    result = cli(command, given, *READING[command])
    assert result.code == 2
    assert result.err.splitlines()[0].endswith(f": {said}")


@pytest.mark.parametrize("command", sorted({*READING} - {"convert", "replay"}))
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"a,b\n1,2\n", "m.onnx is not an ONNX model, or truncated: "), (b"", "m.onnx is not an ONNX model: ")],
)
def test_a_file_that_is_no_model(cli, monkeypatch, tmp_path, command, content, said):
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(content)
    Path("rows.csv").write_bytes(b"a\n1\n")
    ports = ("--port", "0", "--no-grpc") if command == "serve" else ()
    result = cli(command, "m.onnx", *READING[command], *ports)
    assert result.code == 1
    assert result.error.startswith(said)


def test_suggestions_look_at_more_than_the_dashes(cli):
    """`--grace` is like `--name` in its dashes and two letters only."""
    assert "did you mean" not in cli("serve", "m.onnx", "--name", "x").err


def test_options_have_no_abbreviations(cli):
    result = cli("convert", "m.onnx", "-o", "n.onnx", "--table", "int8")
    assert result.code == 2
    assert result.err.splitlines()[:2] == [
        "onnx-sparse convert: error: unrecognized arguments: --table int8",
        "  did you mean --tables?",
    ]


@pytest.mark.parametrize(
    ("arguments", "suffix"),
    [
        (["run", "MODEL", "-o"], ".npz"),
        (["benchmark", "MODEL", "--svg"], ".svg"),
        (["report", "MODEL", "-o"], ".html"),
        (["convert", "MODEL", "-o"], ".onnx"),
        (["convert", "MODEL", "-o", "out.onnx", "--report"], ".html"),
        (["convert", "MODEL", "-o", "out.onnx", "--write-inputs"], ".npz"),
        (["tables", "MODEL", "replace", "table=table.npy", "-o"], ".onnx"),
    ],
)
def test_a_name_of_another_format_is_refused(cli, segment_max, tmp_path, monkeypatch, arguments, suffix):
    """Before anything runs; the message says what is written."""
    monkeypatch.chdir(tmp_path)
    arguments = [str(segment_max) if argument == "MODEL" else argument for argument in arguments]
    for other in {".csv", ".png", ".pdf", ".txt", ".parquet", ".npz", ".html", ".onnx"} - {suffix}:
        result = cli(*arguments, f"out{other}")
        assert result.code == 2
        assert result.error.startswith(f"cannot write out{other}: expected a name that ends in ")
        assert suffix in result.error
        assert not Path(f"out{other}").exists()


def test_version(cli):
    assert cli("version").out == cli("-V").out == cli("--version").out
    assert cli("--version").out.startswith("onnx-sparse 0.")


@pytest.mark.parametrize(
    "arguments", [(), ("fly",), ("convert",), ("ops", "--fast"), ("run", "m.onnx", "--backend", "x")]
)
def test_wrong_usage_is_2(cli, arguments):
    result = cli(*arguments)
    assert result.code == 2
    assert re.match(r"onnx-sparse( \w+)?: error: ", result.err)
    assert len(result.err.splitlines()) <= 3
    assert result.out == ""


def test_wrong_usage_as_json(cli):
    result = cli("convert", "--json")
    assert result.code == 2
    assert "error" in result.json


def test_a_failure_is_1_and_one_line(cli, tmp_path):
    result = cli("check", tmp_path / "none.onnx")
    assert result.code == 1
    assert result.error == f"{tmp_path}/none.onnx: no such file"
    assert result.out == ""


def test_a_failure_as_json(cli, tmp_path):
    result = cli("check", tmp_path / "none.onnx", "--json")
    assert result.code == 1
    assert result.json == {"error": result.error}


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback(capsys, tmp_path, place):
    arguments = ["check", str(tmp_path / "none.onnx")]
    assert main(["--debug", *arguments] if place == "before" else [*arguments, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_debug_ends_with_the_command(capsys, segment_max):
    logger = logging.getLogger("onnx_sparse")
    before = logger.level, list(logger.handlers)
    assert main(["--debug", "check", str(segment_max)]) == 0
    assert (logger.level, logger.handlers) == before


def test_an_unexpected_exception_is_one_line(cli, monkeypatch, segment_max):
    monkeypatch.setattr(findings, "find", lambda *_: 1 / 0)
    result = cli("check", segment_max)
    assert result.code == 1
    assert result.error == "unexpected ZeroDivisionError: division by zero (--debug shows where)"


def test_control_sequences_in_a_name_do_not_reach_the_terminal(cli, tmp_path):
    result = cli("check", tmp_path / "a\x1b[31m\nb.onnx")
    assert result.error == f"{tmp_path}/a\\x1b[31m b.onnx: no such file"


def test_python_m_is_the_console_script():
    done = start("ops", "SegmentMaxx")
    assert done.returncode == 1
    assert done.stderr.startswith("onnx-sparse: error: there is no operator SegmentMaxx; did you mean SegmentMax or ")
    assert done.stdout == ""


def test_an_ascii_terminal_gets_escapes():
    done = start("ops", "EmbeddingSegmentsSqrtN", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\\u03a3" in done.stdout  # the sum sign in the semantics


@pytest.mark.parametrize("arguments", [("ops",), ("ops", "SparseFillEmptyRows"), ("demo", "--recorded")])
def test_a_narrow_terminal_breaks_no_words(cli, monkeypatch, arguments):
    wide = cli(*arguments).out.split()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", cli(*arguments).out)
    assert max(map(len, narrow.splitlines())) <= 80
    assert set(re.findall(r"\w+…?", narrow)) <= set(re.findall(r"\w+", " ".join(wide)))


def test_short_cells_are_not_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    short = ["Fill_0", "intermediate_2", "bfloat16", "[2, 3]", "0.00015", "0.00012", "0.999999", "DIFFERS"]
    output.table(
        ["node", "tensor", "type", "shape", ">abs", ">rel", ">cosine", "verdict", "note"], [[*short, "n" * 30]]
    )
    first, *others = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()[2:]
    assert re.split("  +", first)[:-1] == short
    assert re.split("  +", first)[-1] + "".join(map(str.strip, others)) == "n" * 30


@pytest.mark.parametrize("wide", [False, True])
def test_long_names_keep_their_ends(capsys, monkeypatch, wide):
    monkeypatch.setenv("COLUMNS", "200" if wide else "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    name = f"{'scope/' * 20}Fill_0"
    output.table(["operator", "node", "types"], [["Fill", name, "T=float"], ["Fill", "Fill_1", ""]], paths=["node"])
    *_, first, second = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert second.split() == ["Fill", "Fill_1"]
    if wide:
        assert first.split() == ["Fill", name, "T=float"]
    else:
        assert len(first) <= 80
        assert re.fullmatch(r"Fill +…\S{50,}/Fill_0 +T=float", first)


def test_no_colors_in_a_pipe():
    assert "\x1b" not in start("ops").stdout


def test_help_imports_nothing_slow():
    code = "import sys; from onnx_sparse.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"onnxruntime", "tensorflow", "rich", "onnxruntime_extensions"} & set(done.stderr.split())


def test_the_help_of_convert_imports_no_conversion():
    code = "import sys; from onnx_sparse.cli import main; main(['convert', '-h']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = {*done.stderr.split()}
    assert "onnx_sparse.cli.convert" in found
    slow = {"http", "ssl", "hashlib", "onnx_sparse.commands.conversion.source", "onnx_sparse.models.files.model_files"}
    assert not slow & found


def test_the_package_has_no_file_that_only_the_checkout_has():
    from importlib import resources

    files = resources.files("onnx_sparse.cli.demo")
    assert (files / "demo_saved_model" / "saved_model.pb").is_file()
    assert (files / "demo_answers.json").is_file()
    assert Path(str(files / "__init__.py")).is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="where commands go on in a forked child")
def test_a_program_that_calls_it_goes_on_once(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    program = "from onnx_sparse.cli import main; print('done', main(['convert', 'x.json', '-o', 'x.onnx']))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["done", "1"]


def test_nothing_is_held_after_an_error(cli, monkeypatch, segment_max):
    """A program that calls the command would wait for a lock that a frame of the error holds."""
    held = []

    class Lock:
        pass

    def failing(*_: object) -> None:
        lock = Lock()
        held.append(weakref.ref(lock))
        raise MemoryError

    monkeypatch.setattr(findings, "find", failing)
    gc.disable()
    try:
        assert cli("check", segment_max).error == "not enough memory"
        assert held[0]() is None
    finally:
        gc.enable()


def test_words_of_tables_are_not_broken(capsys, monkeypatch):
    """Where the longest words of all columns fit into a line; `include_last_offset=exact` has 25 letters."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    random = Random(5)
    for _ in range(100):
        widths = [random.randint(1, 30) for _ in range(3)]
        rows = [["n" * random.randint(1, w) for w in widths]]
        rows += [[" ".join(random.choice("abc") * random.randint(1, w) for _ in range(4)) for w in widths]]
        first = max(len(row[0]) for row in rows)
        words = [max((len(word) for row in rows for word in row[at].split()), default=0) for at in (1, 2)]
        if first + sum(max(word, 16) for word in words) + 4 > 80:
            continue
        output.table(["a", "b", "c"], rows)
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).split()
        assert not [word for row in rows for cell in row for word in cell.split() if word not in shown]


@pytest.mark.parametrize("note", ["", "both refuse the batch of empty rows"])
def test_tables_fit_into_a_terminal(capsys, monkeypatch, note):
    """Columns without text are left out, and long names are broken in their column, not by the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    columns = ["table", "shape", "type", ">max abs", ">batches with rows", "verdict", "worst batch", "note"]
    output.table(columns, [["t" * 40, "[5]", "float32", "1e-07", "4 of 5", "ok", "", note]])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert "worst" not in " ".join(lines)
    assert ("note" in " ".join(lines)) == bool(note)
    assert sum(len(line.split(" ")[0]) for line in lines if line.startswith("tt")) == 40


def test_a_log_has_a_line_for_each_stage_of_a_slow_command(capsys, monkeypatch):
    monkeypatch.setattr(output, "_QUIET_SECONDS", 0.3)
    monkeypatch.setattr(output, "_LINE_SECONDS", 0.1)
    with output.progress("reading a") as tell:
        tell("quick")
        tell("converting b\x1b")
        time.sleep(0.6)
        tell("verifying")
        time.sleep(0.3)
        tell("the last stage, which is over at once")
    with output.progress("quiet", quiet=True):
        time.sleep(0.4)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ... ")[0] for line in lines[:2]] == [
        "onnx-sparse: converting b\\x1b",
        "onnx-sparse: verifying",
    ]
    assert all(line.endswith("s)") for line in lines)
    assert "quick" not in " ".join(lines)


def test_a_log_has_no_line_of_a_quick_command(capsys):
    with output.progress("reading a") as tell:
        tell("converting")
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_seconds_of_a_stage():
    stage = output._Stage("reading a")
    stage._begun -= 12
    assert stage.__rich__() == "reading a ... 12 s"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_of_a_summary_wrap_on_terminals_only(capsys, monkeypatch, is_terminal):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    rules = ", ".join(f"rule-{number}" for number in range(30))
    output.labeled("rules", rules)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3 if is_terminal else len(lines) == 1
    if is_terminal:
        assert max(map(len, lines)) <= 80
    assert {line[:12].strip() for line in lines} == {"rules", ""} if is_terminal else {"rules"}
    assert " ".join(line[12:].strip() for line in lines) == rules
