"""Which names a handler can ask for: the strings in its code, and in that of the functions that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

#: Code outside this package asks for nothing.
_OURS = "onnx_sparse."


def names_in(function: Callable[..., Any], node: type | None = None) -> frozenset[str]:
    """Every string that a function may use: its constants, and those of what it refers to in this package.

    Args:
        function: The function.
        node: The class of its argument, whose method `take` it may call.
    """
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, str):
            found.add(thing)
            continue
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        waiting += _parts(thing)
        if node is not None and isinstance(thing, FunctionType) and "take" in _names(thing.__code__):
            waiting.append(vars(node).get("take"))
    return frozenset(found)


def may_read(name: str, strings: frozenset[str]) -> bool:
    """Whether a name is one of the strings, or one with what an f-string may add to it."""
    pieces = (text for text in strings if text.strip("_") != text and len(text) > 2)
    if name in strings or name.lstrip("_") in {text.lstrip("_") for text in strings}:
        return True
    return name.rstrip("0123456789") in strings or any(
        name.startswith(piece) or name.endswith(piece) for piece in pieces
    )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _parts(thing: Any) -> Iterator[Any]:
    if isinstance(thing, MethodType | staticmethod | classmethod):
        yield thing.__func__
    elif isinstance(thing, partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, FunctionType) and thing.__module__.startswith(_OURS):
        yield from (thing.__code__, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values())
        yield from (cell.cell_contents for cell in thing.__closure__ or ())
        yield from (thing.__globals__.get(name) for name in _names(thing.__code__))
        if wrapped := getattr(thing, "__wrapped__", None):
            yield wrapped
    elif isinstance(thing, type) and thing.__module__.startswith(_OURS):
        yield from vars(thing).values()
    elif isinstance(thing, property):
        yield thing.fget
    elif isinstance(thing, CodeType):
        yield from (part for part in thing.co_consts if isinstance(part, str | tuple | frozenset | CodeType))
    elif isinstance(thing, tuple | list | set | frozenset):
        yield from thing
    elif isinstance(thing, dict):
        yield from (*thing, *thing.values())
