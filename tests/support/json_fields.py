"""The page of the fields of `--json`, which every document of a command is compared with."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
#: The fields below a field by name, in which `[]` is any element and `NAME` any key, and below "" its own type.
Fields = dict[str, Any]


@functools.cache
def declared() -> dict[str, Fields]:
    """The fields of each section of the page, by its title."""
    sections: dict[str, Fields] = {}
    for section in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        fields = sections[section.partition("\n")[0].strip("`")] = {}
        for path, kind in re.findall(r"^\| `(\S+)` \| ([^|]+) \|", section, re.MULTILINE):
            at = fields
            for part in re.findall(r"\[\]|[^.\[\]]+", path):
                at = at.setdefault(part, {})
            at[""] = kind
    return sections


def misfits(command: str, document: Any) -> list[str]:
    """What a document has that is not on the page: unknown fields, other types, fields that are missing."""
    fields = declared()["Errors"] | declared()[command]
    documents = document if isinstance(document, list) else [document]
    return [text for each in documents for text in _misfits(fields, "", each, is_whole="error" not in each)]


def _misfits(fields: Fields, path: str, value: Any, *, is_whole: bool) -> Iterator[str]:
    below = [name for name in fields if name]
    if isinstance(value, dict) and below:
        for name, held in value.items():
            known = fields.get(name, fields.get("NAME"))
            if known is None:
                yield f"{path}.{name} is unknown"
            else:
                yield from _misfits(known, f"{path}.{name}", held, is_whole=is_whole)
        if is_whole:  # a document of an error has what there was until then
            missing = (name for name in below if name not in ("NAME", "[]", *value) and not _is_optional(fields[name]))
            yield from (f"{path}.{name} is missing" for name in missing)
    elif isinstance(value, list) and "[]" in fields:
        for item in value:
            yield from _misfits(fields["[]"], f"{path}[]", item, is_whole=is_whole)
    elif not _is_one_of(fields.get("", ""), value):
        yield f"{path} = {value!r} is not of the type {fields.get('', 'object')!r}"


def _is_optional(fields: Fields) -> bool:
    return "optional" in fields.get("", "") or any(_is_optional(held) for name, held in fields.items() if name)


def _is_one_of(kind: str, value: Any) -> bool:
    """Whether a value is of a type as the page writes it: `list of integer or null, optional`."""
    kinds = kind.removesuffix(", optional").replace("true or false", "bool").split(" or ")
    if isinstance(value, list):
        return any(each == "any" or all(_is_one_of(each.removeprefix("list of "), v) for v in value) for each in kinds)
    is_text = isinstance(value, str)
    return (
        "any" in kinds
        or (value is None and "null" in kinds)
        or (is_text and ("text" in kinds or ("number" in kinds and value in ("NaN", "Infinity", "-Infinity"))))
        or (isinstance(value, bool) and "bool" in kinds)
        or (type(value) is int and ("integer" in kinds or "number" in kinds))
        or (type(value) is float and "number" in kinds)
    )
