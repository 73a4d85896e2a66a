"""Print a script that completes commands, options, choices, operators and file names in a shell.

Write the script where the shell looks for it, as in the examples, and open a new shell.
"""

from __future__ import annotations

import argparse

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import path_argument
from onnx_sparse.cli.ops import operator_name
from onnx_sparse.errors import CommandError
from onnx_sparse.installation import install_command
from onnx_sparse.schemas import OPS

NAME = "completion"
SUMMARY = "print a script for completion in a shell"
EXAMPLES = """
onnx-sparse completion bash \\
  > ~/.local/share/bash-completion/completions/onnx-sparse
onnx-sparse completion zsh > ~/.zfunc/_onnx-sparse  # a folder in zsh's fpath
onnx-sparse completion fish > ~/.config/fish/completions/onnx-sparse.fish
"""

#: The shells that shtab 1.8, the oldest that is supported, and later ones know.
_SHELLS = ("bash", "zsh", "tcsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise CommandError(f"completion needs shtab: {install_command('completion')}") from None
    whole: argparse.ArgumentParser = arguments.whole_parser
    if arguments.shell not in shtab.SUPPORTED_SHELLS:
        raise CommandError(f"shtab {shtab.__version__} does not support {arguments.shell}: pip install -U shtab")
    _add_completions(whole, shtab.FILE)
    script = shtab.complete(whole, arguments.shell)
    if arguments.json:
        output.write_json({"shell": arguments.shell, "script": script})
    else:
        output.write_line(script.rstrip("\n"))
    return output.DONE


def _add_completions(parser: argparse.ArgumentParser, file: object) -> None:
    """Let arguments that are paths be completed as such, and operators by their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _add_completions(child, file)
        elif action.type is operator_name:
            action.choices = tuple(OPS)
        elif action.type is path_argument or action.dest in ("rows", "output", "input"):
            action.complete = file  # type: ignore[attr-defined]  # which shtab reads
