"""A command has one dataclass of settings: the options of a shell and the arguments of Python derive from it."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnx_sparse
from onnx_sparse.cli import _parser
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.commands.conversion.settings import extended
from onnx_sparse.commands.inputs.model_settings import ModelSettings
from onnx_sparse.commands.reports.benchmark import BenchmarkSettings
from onnx_sparse.commands.reports.report import ReportSettings
from onnx_sparse.commands.scoring.score_files import ScoreSettings
from onnx_sparse.commands.tables.shard import ShardSettings
from onnx_sparse.commands.tables.tables import TablesSettings
from onnx_sparse.settings import Setting, in_python, settings_of

COMMANDS: dict[str, tuple[Callable[..., Any], type[Any]]] = {
    "check": (onnx_sparse.check, ModelSettings),
    "inspect": (onnx_sparse.inspect, ModelSettings),
    "convert": (onnx_sparse.convert, extended()),
    "score": (onnx_sparse.score, ScoreSettings),
    "shard": (onnx_sparse.shard, ShardSettings),
    "tables": (onnx_sparse.tables, TablesSettings),
    "benchmark": (onnx_sparse.benchmark, BenchmarkSettings),
    "report": (onnx_sparse.report, ReportSettings),
}
#: How a command shows what it does, which Python's callers choose otherwise.
ONLY_SHELL = {"help", "debug", "json", "verbose", "quiet"}
#: Functions and objects, which no shell can give.
ONLY_PYTHON = {"progress", "source_options", "custom_objects", "opset_version", "feeds"}

SETTINGS = [(name, setting) for name, (_, kind) in COMMANDS.items() for setting in settings_of(kind)]


def options(command: str) -> dict[str, argparse.Action]:
    (commands,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {action.dest: action for action in commands.choices[command]._actions}


@pytest.mark.parametrize("command", COMMANDS)
def test_neither_lacks_what_the_other_has(command: str) -> None:
    function, _ = COMMANDS[command]
    if command == "tables":  # `update NAME=FILE`, which reads better than an option
        assert options(command).keys() - ONLY_SHELL == {"model", "action", "operands", "absent", "output", "check"}
        return
    assert inspect.signature(function).parameters.keys() - ONLY_PYTHON == options(command).keys() - ONLY_SHELL


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_are_the_same(command: str) -> None:
    function, kind = COMMANDS[command]
    parser = argparse.ArgumentParser()
    add_options(parser, kind)
    needed = [setting for setting in settings_of(kind) if setting.option and _is_needed(setting)]
    line = [text for s in needed for text in (["1"] if s.option.position else [s.flag, "1"])]  # type: ignore[union-attr]
    made = given(kind, parser.parse_args(line))
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not inspect.Parameter.empty and name not in {setting.name for setting in needed}:
            assert getattr(made, name) == parameter.default


def _is_needed(setting: Setting) -> bool:
    return setting.option is not None and (setting.default is MISSING or setting.option.required)


@pytest.mark.parametrize(("command", "setting"), SETTINGS, ids=lambda value: getattr(value, "name", value))
def test_every_setting_is_explained(command: str, setting: Setting) -> None:
    documentation = COMMANDS[command][0].__doc__ or ""
    assert f"        {setting.name}: " in documentation
    assert "--" not in documentation


@pytest.mark.parametrize(
    ("command", "setting"), [each for each in SETTINGS if each[1].option], ids=lambda v: getattr(v, "name", v)
)
def test_a_message_names_an_argument_in_the_words_of_who_asked(command: str, setting: Setting) -> None:
    value = setting.choices[-1] if setting.choices else "7"
    said = in_python(f"files: {setting.flag} {value}, or not {setting.flag}", COMMANDS[command][1])
    assert said.count(f"{setting.name}=") == 2
    assert "--" not in said
    path = f"/data/{setting.flag}/x is none of `onnx-sparse {command} {setting.flag}`"
    assert in_python(path, COMMANDS[command][1]) == path


@pytest.mark.parametrize(("command", "setting"), SETTINGS, ids=lambda value: getattr(value, "name", value))
def test_values_that_no_setting_can_have(command: str, setting: Setting) -> None:
    function, kind = COMMANDS[command]
    needed = {each.name: "1" for each in settings_of(kind) if each.default is MISSING}
    if setting.choices:
        with pytest.raises(ValueError, match=f"{setting.name} = 'other' is not one of "):
            function(**needed | {setting.name: "other"})
    elif setting.type is Sequence and not setting.takes_text:
        with pytest.raises(TypeError, match=f"{setting.name} is a list of names, not the name 'uid'"):
            function(**needed | {setting.name: "uid"})
    if setting.option and setting.option.parse and setting.type in (int, float):
        with pytest.raises(ValueError, match=f"{setting.name} = .* is not "):
            function(**needed | {setting.name: -1})
    with pytest.raises(TypeError, match=f"has no argument '{setting.name}_'; did you mean {setting.name}?"):
        function(**needed, **{f"{setting.name}_": None})


def test_settings_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="resume and overwrite exclude each other"):
        onnx_sparse.score("model.onnx", "rows.csv", "scores.parquet", resume=True, overwrite=True)


def test_errors_name_arguments(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Neg(x) }'
    path, rows, out = tmp_path / "model.onnx", tmp_path / "rows.csv", tmp_path / "out"
    onnx.save(onnx.parser.parse_model(text), path)
    rows.write_text("uid,x\na,1\nb,2\n")
    onnx_sparse.score(path, rows, out)
    with pytest.raises(ValueError, match="resume=True keeps complete files, overwrite=True replaces them"):
        onnx_sparse.score(path, rows, out)
    with pytest.raises(ValueError, match=r'column_types=\{"uid": "int64"\}: the column is not kept; keep=\["uid"\]'):
        onnx_sparse.score(path, rows, out, column_types={"uid": "int64"}, overwrite=True)
    rows.write_text("uid,x\na,1\nb,zwei\n")
    with pytest.raises(ValueError, match=r"1 of 2 rows could not be scored, more than max_bad_rows=0; see "):
        onnx_sparse.score(path, rows, out, max_bad_rows=0, overwrite=True)
