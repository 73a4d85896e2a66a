"""Help of a command by topic: what most people need first, and the rest when they ask for it.

A command with topics has a function `topics()`; `--help TOPIC` then shows the options and examples of one.
"""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from onnx_sparse.cli import output

COMMON, ALL = "common", "all"


@dataclass(frozen=True)
class Topic:
    """A group of options that the common help leaves to a help of its own.

    Attributes:
        title: The title of the group.
        examples: Commands to type, one a line.
    """

    title: str
    examples: str = ""


def examples_text(examples: str) -> str:
    """Examples as the help shows them, below their title."""
    return f"examples:\n{textwrap.indent(textwrap.dedent(examples).strip(), '  ')}"


def add_help(parser: argparse.ArgumentParser, topics: Mapping[str, Topic], examples: str) -> None:
    """Declare `--help [TOPIC]`.

    Args:
        parser: The parser of the command, made without help.
        topics: The topics by name; `all` is added to them.
        examples: Those of the common help.
    """
    known = (*topics, ALL)

    def topic(text: str) -> str:
        """Before there were topics, a source could follow `--help`, too."""
        return COMMON if text not in known and os.path.exists(text) else text

    class ShowHelp(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, _: object, value: object, *__: object) -> None:
            output.write_line(_text(parser, topics, str(value), examples).rstrip("\n"))
            parser.exit()

    parser.add_argument(
        *("-h", "--help"),
        action=ShowHelp,
        nargs="?",
        const=COMMON,
        default=argparse.SUPPRESS,
        type=topic,
        choices=(COMMON, *known),
        metavar="TOPIC",
        help="show this help, or the help of a topic, and exit",
    )


def _text(parser: argparse.ArgumentParser, topics: Mapping[str, Topic], topic: str, examples: str) -> str:
    title_of = {name: each.title for name, each in topics.items()}
    formatter = parser._get_formatter()
    formatter.add_usage(parser.usage, parser._actions, [])
    if topic not in topics:
        formatter.add_text(parser.description)
    for group in parser._action_groups:
        others = {title for name, title in title_of.items() if topic not in (name, ALL)}
        if group.title not in others and (topic not in topics or group.title == title_of[topic]):
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
    if topic == COMMON:
        lines = [f"  {parser.prog} --help {name:<14} {title}" for name, title in title_of.items()]
        lines.append(f"  {parser.prog} --help {ALL:<14} everything")
        formatter.add_text("more help:\n" + "\n".join(lines))
    own = [topics[topic].examples] if topic in topics else [examples]
    if topic == ALL:
        own += [each.examples for each in topics.values()]
    formatter.add_text(examples_text("\n".join(filter(None, map(str.strip, own)))))
    return formatter.format_help()
