"""Options of a command, derived from the dataclass of its settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, TypeVar

from onnx_sparse.commands.inputs.named_values import named_values
from onnx_sparse.settings import Setting, local_path, settings_of

S = TypeVar("S")


def add_options(parser: argparse.ArgumentParser, settings: type[Any]) -> None:
    """Declare the options of settings, in their order."""
    places: dict[str, Any] = {"": parser}
    for setting in settings_of(settings):
        option = setting.option
        if option is None or option.written:
            continue
        if option.group not in places:
            places[option.group] = parser.add_argument_group(option.group)
        place = places[option.group]
        if together := option.alone or option.off:
            places.setdefault(together, None)
            place = places[together] = places[together] or place.add_mutually_exclusive_group()
        _add(place, setting)


def _add(place: Any, setting: Setting) -> None:
    option = setting.option
    assert option is not None
    flags = [*filter(None, [option.short]), setting.flag]
    help = {"help": option.help}
    if setting.type is bool:
        more: dict[str, Any] = {"dest": setting.name, "action": "store_false" if setting.is_off else "store_true"}
        place.add_argument(*flags, **help, **more, **({"default": None} if option.off else {}))
        if option.off:
            place.add_argument(option.off, dest=setting.name, action="store_false", help=option.off_help)
        return
    is_needed = setting.default is MISSING
    repeated = setting.type in (Sequence, Mapping) and not option.listed
    more = {"type": _parser(setting), "metavar": option.metavar}
    if option.position:
        count = ("+" if is_needed else "*") if repeated else None if is_needed else "?"
        place.add_argument(setting.name, **help, **more, nargs=count, **_choices(setting))
        return
    if repeated:
        more |= {"action": "append", "default": []}
    else:
        more |= {"default": None if is_needed else setting.default}
    place.add_argument(
        *flags, dest=setting.name, required=option.required or is_needed, **help, **more, **_choices(setting)
    )


def path_argument(text: str) -> Path:
    """A path that is typed: see `local_path`."""
    try:
        return local_path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _choices(setting: Setting) -> dict[str, Any]:
    return {"choices": setting.choices} if setting.choices else {}


def _parser(setting: Setting) -> Callable[[str], Any]:
    """What makes a value of a text; what it raises becomes an error of argparse."""
    option = setting.option
    assert option is not None
    if option.parse is None:
        kind: Callable[[str], Any] = setting.item if setting.type is Sequence else setting.type
        return str if setting.type is Mapping else path_argument if kind is Path else kind
    if option.parse is local_path:
        return path_argument
    parse = option.parse

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def given(settings: type[S], arguments: argparse.Namespace) -> S:
    """The settings that are given on a command line.

    Raises:
        UsageError: A value that shall be NAME=VALUE is not, or a name is given twice.
    """
    found = {}
    for setting in settings_of(settings):
        if setting.option is None or setting.option.written:
            continue
        value = getattr(arguments, setting.name)
        if setting.type in (Sequence, Mapping) and not value and setting.default is not MISSING:
            value = setting.default
        elif setting.type is Mapping:
            value = named_values(value, str(setting.option.metavar), setting.flag)
        found[setting.name] = value
    return settings(**found)
