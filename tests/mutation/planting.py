"""What can be wrong in a source file: the faults that matter where something is proved or refused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: What a comparison becomes; the negations become what they negate.
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutant:
    """A fault in a file.

    Attributes:
        path: The file, from the root of the repository.
        line: Where the fault is.
        old: What the file says there.
        new: What it says instead.
        start: The offset of what is replaced.
        tests: What must find it; by default what the room lists.
        name: What it is called, where it was written by hand.
    """

    path: Path
    line: int
    old: str
    new: str
    start: int
    tests: tuple[str, ...] = ()
    name: str = ""

    def applied(self, source: str) -> str:
        """The source with the fault."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {self.name and f'{self.name}: '}{old[:90]}  ->  {new[:90]}"


def mutants(path: Path, source: str) -> list[Mutant]:
    """All mutants of a file that are valid Python, in the order of the file."""
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text.encode()))
    encoded = source.encode()
    found: dict[tuple[int, str], Mutant] = {}
    for node, new in _faults(ast.parse(source)):
        begin, end = (starts[line - 1] + column for line, column in _ends(node))
        old, at = encoded[begin:end].decode(), len(encoded[:begin].decode())
        mutant = Mutant(path, source.count("\n", 0, at) + 1, old, new, at)
        try:
            changed = ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            continue
        if changed:
            found.setdefault((at, new), mutant)
    return sorted(found.values(), key=lambda mutant: mutant.start)


def _ends(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _faults(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What may stand in the place of a node, in code that runs: not in annotations and f-strings."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, result = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            result = ast.unparse(node.returns) if node.returns else ""
            inner: list[ast.AST] = [*node.body, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.AnnAssign):
            inner = [node.value] if node.value else []
        elif isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or _is_for_types(node):
            continue
        else:
            inner = [*ast.iter_child_nodes(node)]
        waiting += [(child, result) for child in inner]
        if isinstance(node, ast.expr):
            yield from ((node, text) for text in _expressions(node))
        elif isinstance(node, ast.stmt):
            yield from _statements(node, result)


def _is_for_types(node: ast.AST) -> bool:
    names = [*map(ast.unparse, node.targets)] if isinstance(node, ast.Assign) else []
    is_said = any(name == "__all__" or name.startswith("(seen") for name in names)
    return is_said or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")


def _expressions(node: ast.expr) -> Iterator[str]:
    text = ast.unparse
    match node:
        case ast.Compare(ops=[op]) if type(op) not in _OPPOSITE:  # in, and its negation
            yield f"(not ({text(node)}))"
        case ast.Compare(left=left, ops=[op], comparators=right):
            yield f"({text(ast.Compare(left, [_OPPOSITE[type(op)]()], right))})"
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                yield f"({text(ast.Compare(left, [_turned(op)()], right))})"
        case ast.BoolOp(op=word, values=values):
            for k in range(len(values)):
                left_over = [value for j, value in enumerate(values) if j != k]
                yield f"({text(ast.BoolOp(word, left_over) if len(left_over) > 1 else left_over[0])})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({text(operand)})"
        case ast.Tuple(elts=items, ctx=ast.Load()) if len(items) > 1 and all(map(_is_named, items)):
            for k in range(len(items)):
                yield f"({''.join(f'{text(item)}, ' for j, item in enumerate(items) if j != k)})"
        case ast.Set(elts=items) if len(items) > 1 and all(map(_is_named, items)):
            for k in range(len(items)):
                yield f"{{{', '.join(text(item) for j, item in enumerate(items) if j != k)}}}"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
            if value > 1:
                yield str(value * 100)
        case ast.Constant(value=float() as value):
            yield repr(value * 100 if value else 1.0)


def _turned(op: ast.cmpop) -> type[ast.cmpop]:
    return ast.Gt if isinstance(op, ast.Lt | ast.LtE) else ast.Lt


def _is_named(node: ast.expr) -> bool:
    """Whether an element of a tuple is a type, an anchor or the like: tuples of results are of any length."""
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _statements(node: ast.stmt, result: str) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If(test=test, body=[*_, ast.Raise() | ast.Return() | ast.Continue()]):
            yield test, "False"
        case ast.Raise():
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if result == "bool":
            yield from ((value, str(answer)) for answer in (True, False))
        case ast.Return(value=ast.expr() as value) if result.endswith("None"):
            yield value, "None"
        case ast.Expr(value=ast.Call()):
            yield node, "pass"
