"""Settings of a command: one dataclass for the arguments of its function in Python and for its options in a shell.

A field that both have holds an `Option` in its metadata:

    engine: Engine = field(default="local", metadata=option("what runs the workers (default: local)"))

`function_of` makes the function of Python, and `cli.arguments` the options. A type of literals lists the choices, and
messages of whatever is called are written in the words of a shell, `--engine ray`, which `in_python` translates.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import os
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")

FilePath: TypeAlias = str | os.PathLike[str]


def local_path(given: FilePath) -> Path:
    """The path of a file or folder of this machine.

    Raises:
        ValueError: It is an address, of whose slashes a Path would lose one, or nothing, which is a Path of the folder
            that one is in.
    """
    text = os.fspath(given)
    if not text:
        raise ValueError("expected a path, got ''")
    if re.match(r"[A-Za-z][\w+.-]+://", text):
        raise ValueError(f"{text} is an address; pass a local path, and download or upload the file yourself")
    return Path(given)


def output_name(text: str) -> str:
    """A path to write, as `local_path`, with its last slash: a folder has one."""
    local_path(text)
    return text


#: Which kernels run a model.
Backend: TypeAlias = Literal["auto", "native", "python"]


@dataclass(frozen=True)
class Option:
    """What a setting is in a shell.

    Attributes:
        help: What it means. Other settings are named as in a shell, `--keep`.
        metavar: What stands for its value; `NAME=VALUE` for a mapping.
        flag: The option, `--keep`; the setting's name when empty. One that sets False begins with `--no-`.
        short: A short form of it, `-o`.
        position: Whether it is no option, but an argument that is known by its position.
        written: Whether the command declares it itself, in a form of its own.
        required: Whether a shell must give it, although Python need not.
        off: The option that makes it False; `flag` makes it True.
        off_help: What that means.
        alone: Settings with the same text exclude each other; the text says why.
        group: The title above it in the help.
        listed: Whether `parse` makes a whole list of one text; else the option is repeated.
        parse: What makes its value of a text, or raises a ValueError; by its type when omitted.
        known: What it can be, where that is known when it is asked for only.
    """

    help: str
    metavar: str | None = None
    flag: str = ""
    short: str = ""
    position: bool = False
    written: bool = False
    required: bool = False
    off: str = ""
    off_help: str = ""
    alone: str = ""
    group: str = ""
    listed: bool = False
    parse: Callable[[str], Any] | None = None
    known: Callable[[], tuple[str, ...]] | None = None


def option(help: str, metavar: str | None = None, **more: Any) -> dict[str, Any]:
    """The metadata of a setting: see `Option`."""
    return {"option": Option(help, metavar, **more)}


def only_python(help: str) -> dict[str, Any]:
    """The metadata of a setting that a shell cannot give: an object, or a function."""
    return {"help": help}


@dataclass(frozen=True)
class Setting:
    """One field of settings.

    Attributes:
        name: Its name.
        default: Its default; `dataclasses.MISSING` if it has none.
        option: What it is in a shell; None if a shell lacks it.
        help: What it means.
        type: The type of what a shell gives: `bool`, `int`, `float`, `str`, `Path`, `Sequence` or `Mapping`.
        item: The type of the elements of a Sequence.
        choices: The values that it can have; empty where there is no such list.
        takes_text: Whether one text is legal, where a list is, too.
    """

    name: str
    default: Any
    option: Option | None
    help: str
    type: Any
    item: Any
    choices: tuple[Any, ...]
    takes_text: bool = False

    @property
    def flag(self) -> str:
        """The option in a shell."""
        return (self.option.flag if self.option else "") or f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        """What stands for its value, without a suffix."""
        return ((self.option and self.option.metavar) or "").partition(".")[0]

    @property
    def is_off(self) -> bool:
        """Whether the option makes it False."""
        return self.type is bool and self.default is True


def settings_of(kind: type[Any]) -> tuple[Setting, ...]:
    """The settings of a dataclass: those that have a position first, then its own, then those of its bases."""
    order = sorted(dataclasses.fields(kind), key=lambda each: (each.kw_only, kind.__mro__.index(_owner(kind, each))))
    return tuple(_setting(kind, each) for each in order)


def _owner(kind: type[Any], each: dataclasses.Field[Any]) -> type[Any]:
    """The class that declares a field. Its `GROUP` is the title above its options in the help."""
    return next(base for base in kind.__mro__ if each.name in vars(base).get("__annotations__", ()))


def _setting(kind: type[Any], each: dataclasses.Field[Any]) -> Setting:
    found: Option | None = each.metadata.get("option")
    owner = _owner(kind, each)
    if found is not None and not found.group:
        found = dataclasses.replace(found, group=vars(owner).get("GROUP", ""))
    several = _types(each.type, vars(sys.modules[owner.__module__])) if found else [object]
    declared = _given_in_a_shell(several)
    origin, arguments = typing.get_origin(declared) or declared, typing.get_args(declared)
    default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
    help = found.help if found else each.metadata.get("help", "")
    if origin is Literal:
        return Setting(each.name, default, found, help, str, str, arguments)
    item = _given_in_a_shell(_types(arguments[0], {})) if arguments else str
    known = found.known() if found is not None and found.known is not None else ()
    return Setting(each.name, default, found, help, origin, item, known, str in several)


def _types(annotation: Any, names: Mapping[str, Any]) -> list[Any]:
    """The types of an annotation without None."""
    try:
        declared = eval(annotation, dict(names)) if isinstance(annotation, str) else annotation
    except NameError:  # of a module that is imported for type checkers only
        return [Path]
    is_union = typing.get_origin(declared) in (typing.Union, types.UnionType)
    return [each for each in typing.get_args(declared) if each is not type(None)] if is_union else [declared]


def _given_in_a_shell(several: Sequence[Any]) -> Any:
    """The type that a shell gives: of several, a list or mapping, else a path, else the first."""
    origins = [typing.get_origin(each) for each in several]
    containers = [each for each, origin in zip(several, origins, strict=True) if origin in (Sequence, Mapping)]
    return containers[0] if containers else Path if os.PathLike in origins else several[0]


def function_of(
    settings: Callable[P, S], extended: Callable[[], type[S]] | None = None
) -> Callable[[Callable[[S], R]], Callable[P, R]]:
    """A decorator that makes the function of Python of what runs with settings: it takes them as its arguments.

    The function's documentation is that of the decorated one, and what the settings mean.

    Args:
        settings: The dataclass.
        extended: Returns that with more settings, those of what is installed.
    """
    kind = typing.cast(type[Any], settings if extended is None else extended())

    def made(run: Callable[[S], R]) -> Callable[P, R]:
        @functools.wraps(run)
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            known = {setting.name: setting for setting in settings_of(kind)}
            for name in kwargs:
                if name not in known:
                    close = difflib.get_close_matches(name, known, 1)
                    meant = f"; did you mean {close[0]}?" if close else f"; it has {', '.join(known)}"
                    raise TypeError(f"{run.__name__}() has no argument {name!r}{meant}")
            given: S = kind(*args, **kwargs)
            _check(given)
            return run(given)

        function.__signature__ = inspect.signature(kind).replace(  # type: ignore[attr-defined]
            return_annotation=run.__annotations__.get("return")
        )
        function.__doc__ = _documentation(kind, run.__doc__ or "")
        return function

    return made


def _check(given: Any) -> None:
    """Refuse values that no setting of its kind can have; a shell's parser does this for its options.

    Raises:
        ValueError: A value is none of the choices or too small, or settings exclude each other.
        TypeError: A text is given for a list of texts.
    """
    alone: dict[str, str] = {}
    for setting in settings_of(type(given)):
        name, value, known = setting.name, getattr(given, setting.name), setting.option
        if known is None or value is None:
            continue
        if setting.choices and value not in setting.choices:
            raise ValueError(f"{name} = {value!r} is not one of {', '.join(map(str, setting.choices))}")
        if setting.type is Sequence and isinstance(value, str) and not setting.takes_text:
            raise TypeError(f"{name} is a list of names, not the name {value!r}")
        if setting.type is Path and known.parse is None and isinstance(value, str):
            local_path(value)
        if setting.type in (Sequence, Mapping) and isinstance(value, (bool, int, float)):
            raise TypeError(f"{name} is a list or mapping, not {value!r}")
        if known.parse is not None and not known.listed and isinstance(value, (int, float, str)):
            try:
                known.parse(str(value))
            except ValueError as error:
                raise ValueError(f"{name} = {error}") from None
        if known.alone and value != setting.default:
            if known.alone in alone:
                raise ValueError(f"{alone[known.alone]} and {name} exclude each other: {known.alone}")
            alone[known.alone] = name


def _documentation(kind: type[Any], text: str) -> str:
    """The documentation of a function with what its settings mean, before the exceptions."""
    before, raises, after = text.partition("    Raises:\n")
    metavars = [setting.metavar for setting in settings_of(kind)]
    words = {s.metavar: f"`{s.name}`" for s in settings_of(kind) if metavars.count(s.metavar) == 1 < len(s.metavar)}

    def explained(setting: Setting) -> str:
        named = re.sub(r"\b[A-Z]+\b", lambda found: words.get(found[0], found[0]), in_python(setting.help, kind))
        said = named.replace("; repeatable", "; a list")
        if setting.is_off:
            said = f"if False: {said}"
        elif not re.match(rf"({'|'.join(map(str, setting.choices))}):", said):
            said = said[:1].upper() + said[1:]
        if setting.option is not None and setting.option.off:
            said += f"; if False: {in_python(setting.option.off_help, kind)}"
        return textwrap.fill(
            f"{setting.name}: {said}.", 120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )

    return f"{before.rstrip()}\n\n    Args:\n" + "\n".join(map(explained, settings_of(kind))) + f"\n\n{raises}{after}"


def in_python(text: str, *kinds: type[Any]) -> str:
    """A message for who has called a function: the options of a shell in it become arguments of Python.

    Args:
        text: The message, which names options as a shell does: `--dependent-rows alone`.
        kinds: The dataclasses with the settings.
    """
    flags = {}
    for setting in (each for kind in kinds for each in settings_of(kind) if each.option):
        assert setting.option is not None
        flags[setting.flag] = (setting, not setting.is_off)
        if setting.option.off:
            flags[setting.option.off] = (setting, False)

    def argument(found: re.Match[str]) -> str:
        flag, value = found["flag"], found["value"] or ""
        if flag not in flags:
            return found[0]
        setting, truth = flags[flag]
        if setting.type is bool:
            return f"{setting.name}={truth}{value}"
        word = value[1:].rstrip(",;:.")
        rest = value[1 + len(word) :]
        name, equals, mapped = word.partition("=")
        if word in setting.choices:
            return f'{setting.name}="{word}"{rest}'
        if setting.type is Mapping and name and equals and mapped:
            return f'{setting.name}={{"{name}": "{mapped}"}}{rest}'
        if setting.type is Sequence and value.startswith("="):
            return f'{setting.name}=["{word}"]{rest}'
        return f"{setting.name}={word}{rest}" if re.match(r"['\d]", word) else f"{setting.name}={value}"

    quoted = "`onnx-sparse[^`]*`"  # a command to type
    named = r"(?<![\w./=-])(?P<flag>--[a-z][a-z0-9-]*[a-z0-9])(?![\w-])(?P<value>[ =](?!--)[^\s`]+)?"
    return re.sub(f"{quoted}|{named}", lambda found: argument(found) if found["flag"] else found[0], text)


def names(text: str) -> list[str]:
    """Names with commas between them; those in brackets, between the sizes of a shape, are no such commas."""
    found = [name.strip() for name in re.split(r",(?![^\[\]]*\])", text)]
    if not all(found):
        raise ValueError(f"{text!r} is not a comma-separated list of names")
    return found


def numbers(text: str) -> list[int]:
    """Positive numbers with commas between them."""
    with contextlib.suppress(ValueError):
        found = [int(part) for part in text.split(",")]
        if min(found) >= 1:
            return found
    raise ValueError(f"{text!r} is not a comma-separated list of positive numbers")


def positive(text: str) -> int:
    """A positive number."""
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise ValueError(f"{text} is not positive")
    return number


def seed(text: str) -> int:
    """What generators of random numbers begin with."""
    number = int(text) if text.strip().isdecimal() else -1
    if number < 0:
        raise ValueError(f"{text!r} is not a whole number from 0 on")
    return number
