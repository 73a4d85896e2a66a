"""The command lines of the programs beside the tests: how they take their options and tell what was done."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_HELP = {
    "seed": "the first seed",
    "seconds": "how long to run",
    "only": "only those whose name has this text",
    "show": "show each as it is examined",
}

_PROGRESS = re.compile(r"^onnx-sparse: .* \.\.\. \(after \d+ s\)\n", re.MULTILINE)


def without_progress(said: str) -> str:
    """What a command has said, but for what it says each few seconds, as any does on a machine with much else to do."""
    return _PROGRESS.sub("", said)


def parser(doc: str | None, prog: str | None = None, **defaults: Any) -> argparse.ArgumentParser:
    """A parser with an option for each default; False is for a flag."""
    made = argparse.ArgumentParser(prog=prog, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        option, told = f"--{name.replace('_', '-')}", f"{_HELP.get(name, '')} (default: %(default)s)".strip()
        if default is False:
            made.add_argument(option, action="store_true", help=_HELP.get(name))
        else:
            made.add_argument(option, type=type(default), default=default, help=told)
    return made


def tell(done: Mapping[str, int], faults: Sequence[str], prefix: str = "") -> bool:
    """Print how often each thing was done, and the faults; returns whether there are any."""
    for what, count in sorted(done.items()):
        sys.stdout.write(f"{count:>9}  {prefix}{what}\n")
    for fault in faults:
        sys.stdout.write(f"FAULT  {fault}\n")
    sys.stdout.flush()
    return bool(faults)
