"""The command line: `onnx-sparse`, the same as `python -m onnx_sparse`.

One module per command. A command is a module with `NAME`, `SUMMARY`, `EXAMPLES`, `add_arguments(parser)` and
`run(arguments) -> exit code`; what is slow to import is imported in `run`.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import functools
import importlib
import logging
import os
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol, cast

from onnx_sparse.cli import output, watch
from onnx_sparse.cli.help_topics import Topic, add_help, examples_text
from onnx_sparse.errors import FAILED, USAGE, CommandError, one_line, printable
from onnx_sparse.files.termination import TerminatedError
from onnx_sparse.lazy_names import is_there
from onnx_sparse.version import __version__

__all__ = ["help_text", "main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_PIPE_CLOSED = 141  # 128 + SIGPIPE

#: What other tools call what we do.
_OTHER_WORDS = {
    "export": "convert",
    "info": "inspect",
    "infer": "run",
    "list": "ops",
    "ls": "ops",
    "optimize": "convert",
    "predict": "run",
    "quantize": "convert --tables",
    "show": "inspect",
    "test": "doctor",
    "validate": "check",
    "verify": "convert --verify",
}

#: The modules of the commands, in the order of the help. One that is not there is not missed.
_NAMES = (
    *("convert", "report", "run", "score", "serve", "benchmark", "replay", "check", "inspect", "tables", "shard"),
    *("triton", "ops", "doctor", "demo", "completion"),
)

#: The length of the longest name of a command with its indentation, behind which the help begins.
_LONGEST_NAME = 14

_DESCRIPTION = """
Sparse, segment and embedding operators for ONNX: convert models, run them in ONNX Runtime, inspect them.
"""
_DEBUG_HELP = "show the traceback of an error, and what each pass of a conversion does"
_EPILOG = """
new here:
  onnx-sparse demo           convert a TensorFlow model and get the same answer
  onnx-sparse doctor         see what is installed and whether it works
  onnx-sparse help convert   see what a command does, with examples

exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage, 3 too many bad rows (score)
"""


class _Command(Protocol):
    NAME: str
    SUMMARY: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    def run(self, arguments: argparse.Namespace, /) -> int: ...


def _commands(argv: Sequence[str] = ()) -> tuple[_Command, ...]:
    """The command that is called; all of them if it is none, and for those that show all."""
    modules = {name: f"onnx_sparse.cli.{name}" for name in _NAMES}
    called = next((word for word in argv if not word.startswith("-")), "")
    if called in modules and called != "completion" and is_there(modules[called]):  # the others take half a second
        modules = {called: modules[called]}
    return tuple(cast(_Command, importlib.import_module(module)) for module in modules.values() if is_there(module))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments after the program's name; those of the process when omitted.

    Returns:
        0 done, 1 failed, 2 wrong usage.
    """
    try:  # the first line, so that nothing is outside
        _prepare_streams()
        watch.process_is_ours = argv is None
        if watch.process_is_ours:  # before ONNX Runtime is imported; it reports its use unless this is 1
            os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
            warnings.formatwarning = _one_line_warning
            _wait_for_readers()
        try:
            arguments = _parsed(sys.argv[1:] if argv is None else argv)
        except SystemExit as stop:  # argparse has printed its message
            code = stop.code if isinstance(stop.code, int) else FAILED
            if code == USAGE and "--json" in (sys.argv[1:] if argv is None else argv):
                output.write_json({"error": "wrong usage: stderr says what is expected"})
        else:
            code = _run(arguments)
        output.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough (`| head`)
        _discard_stdout()
        return _PIPE_CLOSED
    except output.StdoutError as error:
        _discard_stdout()
        output.write_error(f"onnx-sparse: error: {error}")
        return FAILED
    except MemoryError:  # outside of the command itself
        output.write_error("onnx-sparse: error: not enough memory")
        return FAILED
    except KeyboardInterrupt:
        output.write_error("onnx-sparse: interrupted")
        return _INTERRUPTED
    except TerminatedError as end:
        output.write_error(f"onnx-sparse: ended by {end}")
        return end.exit_code


def _one_line_warning(message: object, *_: object, **__: object) -> str:
    return f"onnx-sparse: warning: {one_line(message)}\n"


def _prepare_streams() -> None:
    """Make it safe to write to closed streams (`>&-`), and to write characters that a terminal cannot show."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as the process lives
        stream = getattr(sys, name)
        # Not in vain: a stream that runs out of memory here is not writable any more.
        if hasattr(stream, "reconfigure") and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


def _wait_for_readers() -> None:
    """Let a write to a full pipe wait. If another process has told the pipe not to, Python drops what is too much."""
    if hasattr(os, "set_blocking"):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # no file behind it
                os.set_blocking(stream.fileno(), True)


def _discard_stdout() -> None:
    """Drop what is still buffered for stdout, so that it does not fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: argparse.Namespace) -> int:
    command: _Command = arguments.command
    try:
        with _logging_to_stderr() if arguments.debug else contextlib.nullcontext():
            return _uninterrupted(command, arguments)
    except (BrokenPipeError, output.StdoutError):
        raise
    except KeyboardInterrupt:
        if arguments.debug:
            traceback.print_exc()
        raise
    except CommandError as error:
        failure = error
        if _behind(error, MemoryError):  # and whoever caught that took it for a fault of the file
            failure = CommandError(f"{error} (not enough memory)", details=error.details, lines=error.lines)
            failure.exit_code = error.exit_code
            failure.__cause__ = error
    except MemoryError as error:
        failure = CommandError(f"not enough memory: {error}" if str(error) else "not enough memory")
        failure.__cause__ = error
    except OSError as error:
        # A name that is too long, a disk that fails: the system's message is enough, there is nothing to debug.
        named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        failure = CommandError(f"{named}{error.strerror or error}")
        failure.__cause__ = error
    except Exception as error:
        failure = CommandError(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
        failure.__cause__ = error
    try:
        if arguments.debug:
            traceback.print_exception(failure)
        output.write_error(f"onnx-sparse: error: {failure}")
        for line in failure.lines:
            output.write_error(f"  {printable(line)}")
        if arguments.json:
            output.write_json({"error": str(failure), **failure.details})
        return failure.exit_code
    finally:
        del failure  # else it and its traceback hold each other, and what frames have open, such as locks


@contextlib.contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Let the package's own loggers say what they do: with --debug, the passes of a conversion."""
    logger = logging.getLogger("onnx_sparse")
    level = logger.level
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _uninterrupted(command: _Command, arguments: argparse.Namespace) -> int:
    """Run a command; an error that Ctrl-C has led to, as in the midst of a compiled module's import, is Ctrl-C."""
    try:
        return command.run(arguments)
    except Exception as error:
        if interrupt := _behind(error, KeyboardInterrupt):
            raise interrupt from None
        raise


def _behind(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """The first error of a kind among an error and those that it was raised from, or after."""
    seen: set[int] = set()
    while error is not None and not isinstance(error, kind):
        if id(error) in seen:  # libraries raise errors from each other
            return None
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return error


class _Wrapped(argparse.RawDescriptionHelpFormatter):
    """Help whose paragraphs are as wide as the terminal; lists and examples, which are indented, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        def wrapped(paragraph: str) -> str:
            if re.match("- ", paragraph):  # items, whose further lines are indented
                lines = re.split(r"\n(?=- )", re.sub(r"\n +", " ", paragraph))
            elif re.search("^ ", paragraph, re.M):
                lines = paragraph.splitlines()
            else:
                lines = [" ".join(paragraph.split())]
            return "\n".join(_wrapped_line(line, width) for line in lines)

        return "\n\n".join(map(wrapped, text.strip("\n").split("\n\n")))


def _wrapped_line(line: str, width: int) -> str:
    """A line of prose in the width of a terminal; a command to type is one line however long."""
    begin = re.match(r" *(- )?", line)
    if len(line) <= width or line.startswith("  ") or begin is None:
        return line
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, width, subsequent_indent=" " * len(begin[0]), **options)


class _Help(_Wrapped):
    """Help in which the name of each command and what it does are on one line."""

    def __init__(self, prog: str, width: int | None = None) -> None:
        super().__init__(prog, width=width)
        self._action_max_length = _LONGEST_NAME  # argparse forgets the indentation of commands


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are three lines at most: what is wrong, what may have been meant, where help is.

    Attributes:
        given: The arguments of the command line.
    """

    given: Sequence[str] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)  # an abbreviation that works today may mean two options later

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        if message.startswith("the following arguments are required") and (unknown := self._unknown_option()):
            message = f"unrecognized arguments: {unknown}"  # what is missing may be there, misspelled
        message, meant = _explained(message, self._option_string_actions)
        output.write_error(f"{self.prog}: error: {printable(message)}")
        if meant:
            output.write_error(f"  did you mean {meant}?")
        output.write_error(f"  `{self.prog} --help` shows what it takes")
        self.exit(USAGE)

    def _unknown_option(self) -> str | None:
        known = self._option_string_actions
        # -oFILE is the option -o.
        options = [
            text.partition("=")[0] if text[1] == "-" else text[:2]
            for text in self.given
            if re.match("--?[A-Za-z]", text)
        ]
        return next((option for option in options if option not in known), None)


def _explained(message: str, options: Iterable[str]) -> tuple[str, str | None]:
    """The message without a long list of what there is, and the word that may have been meant."""
    chosen = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
    unknown = re.match(r"unrecognized arguments: (?:.* )?(-[^\s=]+)", message)
    if chosen:
        word, known = chosen[1], re.findall(r"[\w-]+", chosen[2])
        if "argument COMMAND" in message:
            known.append("help")
            message = f"there is no command {word or repr(word)}"
    elif unknown:
        word, known = unknown[1], [option for option in options if option.startswith("--")]
    else:
        return message, None
    bare = {name.lstrip("-"): name for name in known}  # alike in more than the dashes
    close = difflib.get_close_matches(word.lstrip("-"), bare, 1)
    return message, _OTHER_WORDS.get(word) or (bare[close[0]] if close else None)


def help_text(width: int) -> str:
    """The help of the whole command line in a terminal of a width."""
    parser = _parser()
    parser.formatter_class = functools.partial(_Help, width=width - 2)
    return parser.format_help()


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help", *argv[2:]]
    elif [*argv] in (["version"], ["-V"], ["-version"]):
        argv = ["--version"]
    _Parser.given = argv
    arguments, unknown = _parser(argv).parse_known_args(argv)
    if unknown:  # reported by the parser of the command
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="onnx-sparse",
        description=_DESCRIPTION.strip(),
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    parser.add_argument("--debug", action="store_true", help=_DEBUG_HELP)
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="show the version and exit")
    parser.set_defaults(whole_parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _commands(argv):
        topics: Mapping[str, Topic] = getattr(command, "topics", dict)()
        child = commands.add_parser(
            command.NAME,
            usage=getattr(command, "USAGE", None),
            help=command.SUMMARY,
            description=textwrap.dedent(command.__doc__ or "").strip(),
            epilog=examples_text(command.EXAMPLES),
            formatter_class=_Wrapped,
            add_help=not topics,
        )
        if topics:
            add_help(child, topics, command.EXAMPLES)
        # Also legal after the command; it has no default there, which would overwrite a --debug before the command.
        child.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG_HELP)
        child.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        command.add_arguments(child)
        child.set_defaults(command=command, parser=child)
    return parser


class _PrintVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        output.write_line(f"onnx-sparse {__version__}")
        parser.exit()
