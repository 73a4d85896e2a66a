"""The documentation, the help, messages and public docstrings avoid phrases that make them hard to read.

What is checked is prose: code blocks and inline code are skipped, and line breaks do not matter.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from onnx_sparse.cli import _parser

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in ROOT.glob(pattern))

#: A phrase, and what to write instead.
PHRASES = {
    r"\d of (the|its|their|torch's|numpy's) (\w+ )?time\b": '"0.8x the time of torch" or "20 % faster than torch"',
    r"\d of (torch|TensorFlow|numpy|OpenVINO|the (copy|limit))\b": '"1.5x torch"',
    r"\bshall\b": '"must", "will", an infinitive ("to run"), or "is deprecated"',
    r"\b(is|are) to (stay|go|be)\b": 'the verb: "to keep X"',
    r"\bwhere no [\w+ ]+ (is|was|were) there\b": '"if no ... is available"',
    r"\b(that|which|who|it|they|what|library|one) (is|are|was|were) there\b": '"exists", "is available"',
    r"\bwhich says? (what|which|where|how)\b": 'a noun: "reports the selected code path"',
    r"\bwhat (stands|is said|has been said)\b": "a noun",
    r"\brefused by name\b|\bwith (its|their) reasons?\b": '"raises an error that names the operator and the reason"',
    r"\bbeside\b": '"next to" or "with"; "besides" or "apart from"',
    r"\bbehind\b": '"after"',
    r"\bon the way\b": '"in passing"',
    r"\bgo(es)? on (with|from|to)\b": '"next"',
    r"\b[Nn]othing is guessed\b|\b(is|are) not compared\b": "what happens instead",
    r"\bof which\b|\bthose of\b|\bthe same of\b": "the noun again",
    r"\bit is known that\b|\b(is|are) seen\b|\b(was|were) found\b": "the statement itself",
    r"\b(leave|leaves|leaving|left) (\w+ ){0,3}(out|off)\b": '"omit" or "skip"',
    r"\bhanded over\b|\bgiven as\b": '"passed as"',
    r"(\]\([^)]*\)|\b(page|guide|section|README|changelog)s?) (tell|say|show)s?\b": '"see", "lists", "describes"',
    r"\b(were|was|been) tried\b|\bno longer (?!than)\b|\bany more\b|\bused to\b": "the current fact",
    # As the native library writes it: "is no index of keys", "are no part of the 9 bytes".
    r"(?<!\b[Tt]here )\b(is|are|was|were|be) no (?!(index|part) of|(\w+er|less|more)\b)[\w']": '"is not a"',
    r"\bfor the time being\b|\bas yet\b": "nothing",
}
#: Words of those who build the project; `road`, `guard` and `verdict` are in the glossary of docs/design.md.
PHRASES[r"\brooms?\b(?! for\b)|\b[Cc]ensus\b|\b[Jj]udge[sd]?\b|\b[Jj]udgments?\b"] = '"package", "count", "reference"'
PHRASES[r"\b[Dd]rawn(?= (?!(by|as|into)\b))|(?<= )drawn\b(?! (by|as|into)\b)"] = '"random", "generated"'

#: The pages for contributors, where these words have their meanings, and what the past is described in.
WORKSHOP = {"CONTRIBUTING.md", "CHANGELOG.md", "docs/design.md"}
WORDS = list(PHRASES)[-2:]

EVERY_PHRASE = re.compile("|".join(f"(?P<p{number}>{phrase})" for number, phrase in enumerate(PHRASES)))

#: The packages with public names, as docs/api.md lists them.
PUBLIC = [
    "onnx_sparse",
    "onnx_sparse.arrow",
    "onnx_sparse.batching",
    "onnx_sparse.converters",
    *(f"onnx_sparse.converters.{source}" for source in ("tensorflow", "torch", "ascend", "openvino", "onnx")),
]


#: What is no prose: blocks and pieces of code, and comments.
CODE = re.compile(r"```.*?```|`[^`\n]*(?:\n[^`\n]+)?`|<!--.*?-->", re.DOTALL)


def habits(text: str, skipped: Collection[str] = ()) -> list[str]:
    """Each phrase of a text that is to be written otherwise, with the words around it; some may be skipped."""
    prose = " ".join(CODE.sub("`...`", text).split())
    found = []
    for match in EVERY_PHRASE.finditer(prose):
        number = int((match.lastgroup or "p0")[1:])
        if list(PHRASES)[number] in skipped:
            continue
        around = prose[max(match.start() - 50, 0) : match.end() + 50]
        found.append(f'"{match[0]}" in "...{around}...": write {list(PHRASES.values())[number]}')
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    skipped = WORDS if page.relative_to(ROOT).as_posix() in WORKSHOP else ()
    found = habits(page.read_text("utf-8"), skipped)
    assert not found, "\n".join([str(page.relative_to(ROOT)), *found])


def helps(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it, by the words that call it."""
    yield parser.prog, parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from helps(child)


@pytest.mark.parametrize(("command", "text"), [pytest.param(*each, id=each[0]) for each in helps(_parser())])
def test_help(command: str, text: str) -> None:
    found = habits(text)
    assert not found, "\n".join([f"{command} --help", *found])


def docstrings(package: str) -> Iterator[tuple[str, str]]:
    """The docstrings of a package, of its public names and of their methods, by name."""
    module = importlib.import_module(package)
    yield package, inspect.getdoc(module) or ""
    for name in getattr(module, "__all__", vars(module)):
        public = getattr(module, name)
        is_documented = inspect.isclass(public) or inspect.isfunction(public)
        is_own = hasattr(module, "__all__") or (is_documented and public.__module__ == package)
        if name.startswith("_") or not is_documented or not is_own:
            continue
        yield f"{package}.{name}", inspect.getdoc(public) or ""
        for method, member in vars(public).items():
            if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{package}.{name}.{method}", inspect.getdoc(member) or ""


@pytest.mark.parametrize("package", PUBLIC)
def test_docstrings(package: str) -> None:
    found = [f"{name}: {habit}" for name, text in docstrings(package) for habit in habits(text)]
    assert not found, "\n".join(found)


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """The text of each string of a module that is no docstring, with its line."""
    tree = ast.parse(module.read_text("utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


@pytest.mark.parametrize("folder", ["onnx_sparse", "schemas", "converters"])
def test_messages(folder: str) -> None:
    """Errors, notes and all else that the code writes."""
    found = [
        f"{module.relative_to(ROOT)}:{line}: {habit}"
        for module in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts(module)
        for habit in habits(text)
    ]
    assert not found, "\n".join(found)


def test_words_of_the_workshop_are_found_but_for_contributors() -> None:
    text = "Drawn rows are judged. There is room for a picture, which is drawn by dagre."
    assert len(habits(text)) == 2
    assert not habits(text, WORDS)
    assert not habits("drawn")  # a value of --json


def test_a_habit_is_found_across_lines_and_not_in_code() -> None:
    assert len(habits("The file is\nleft out, and takes 0.8 of the\ntime.")) == 2
    assert not habits("Type `git switch beside`:\n\n```sh\nls beside\n```\n")
