"""Mutations of files that keep most of their structure: protobuf messages, JSON, XML, zip archives, text and bytes."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

#: Files beside the source that must never be read; see `files.py`.
OUTSIDE = ["../secret.bin", "../../secret.bin"]

_INTEGERS = [-1, 0, 1, 2, 3, 7, 16, 255, 2**31 - 1, -(2**31), 2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, -(2**63)]
_FLOATS = [0.0, -1.5, 1e300, float("inf"), float("nan")]
_TEXTS = [
    "",
    "x",
    "0",
    "-1",
    "f32",
    "a" * 5000,
    "é\0ü",
    "%s%n",
    "/etc/passwd",
    "\udc80",
    "1,2,?",
    "^x",
    "x:0",
    *OUTSIDE,
]


def mutated_bytes(data: bytes, source: random.Random) -> bytes:
    """A few bytes changed, lost, repeated or added."""
    content = bytearray(data)
    for _ in range(source.choice([1, 1, 2, 8])):
        at, length = source.randrange(len(content) + 1), source.choice([1, 2, 4, 8, 64, 1000])
        match source.choice(["flip", "flip", "overwrite", "cut", "end", "insert", "repeat", "zeros"]):
            case "flip" if content:
                content[min(at, len(content) - 1)] ^= 1 << source.randrange(8)
            case "overwrite":
                content[at : at + length] = source.randbytes(len(content[at : at + length]))
            case "cut":
                del content[at : at + length]
            case "end":
                del content[at:]
            case "insert":
                content[at:at] = source.randbytes(length)
            case "repeat":
                content[at:at] = content[at : at + length]
            case "zeros":
                content[at : at + length] = bytes(len(content[at : at + length]))
    return bytes(content)


def mutated_text(text: str, source: random.Random) -> str:
    """A few words of a text changed, lost, repeated or swapped."""
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    for _ in range(source.choice([1, 1, 2, 5])):
        if not words:
            break
        at = source.randrange(len(words))
        match source.choice(["drop", "repeat", "swap", "replace", "replace", "cut"]):
            case "drop":
                del words[at]
            case "repeat":
                words[at:at] = words[at : at + source.choice([1, 5, 50])]
            case "swap":
                other = source.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case "replace":
                words[at] = str(
                    source.choice([*_INTEGERS, *_FLOATS, *_TEXTS, "{" * 500, "<" * 500, source.choice(words)])
                )
            case "cut" if source.random() < 0.2:
                del words[at:]
    return "".join(words)


def mutate_message(message: Any, source: random.Random) -> None:
    """Change a few fields of a protobuf message, however deep."""
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        chosen = message
        while inner := list(_messages_in(chosen)):
            if source.random() < 0.2:
                break
            chosen = source.choice(inner)
        _change_a_field(chosen, source)


def _messages_in(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from (value[key] for key in sorted(value))
        elif _is_repeated(field):
            yield from value
        else:
            yield value


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _change_a_field(message: Any, source: random.Random) -> None:
    present = [field for field, _ in message.ListFields()]
    fields = message.DESCRIPTOR.fields if not present or source.random() < 0.25 else present
    if not len(fields):
        return
    field = source.choice(list(fields))
    try:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _change_map(getattr(message, field.name), field, source)
        elif _is_repeated(field):
            _change_repeated(getattr(message, field.name), field, source)
        elif field.message_type is not None:
            if source.random() < 0.5:
                message.ClearField(field.name)
            else:
                getattr(message, field.name).SetInParent()
        elif source.random() < 0.15:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _scalar(field, getattr(message, field.name), source))
    except (ValueError, UnicodeEncodeError):  # what this field cannot hold, such as a number beyond its type
        message.ClearField(field.name)


def _scalar(field: Any, old: Any, source: random.Random) -> Any:
    if field.enum_type is not None:
        return source.choice([*(v.number for v in field.enum_type.values), 0, 99])
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return source.choice([*_INTEGERS, old + 1, old - 1, 2**20])
    if isinstance(old, float):
        return source.choice(_FLOATS)
    if isinstance(old, bytes):
        return source.choice([mutated_bytes(old, source), b"", b"\xff", *(t.encode(errors="ignore") for t in _TEXTS)])
    return source.choice([*_TEXTS, old + "x", old[:-1], old.swapcase()])


def shuffle(values: Any, source: random.Random) -> None:
    """Put the elements of a repeated field in another order."""
    kept = list(values)
    source.shuffle(kept)
    del values[:]
    values.extend(kept)


def _change_repeated(values: Any, field: Any, source: random.Random) -> None:
    at = source.randrange(len(values)) if len(values) else 0
    match source.choice(["drop", "repeat", "swap", "clear", "append", "change", "change"]):
        case "drop" if len(values):
            del values[at]
        case "repeat" if len(values):
            values.append(values[at])
        case "swap":
            shuffle(values, source)
        case "clear":
            del values[:]
        case _ if field.message_type is not None:
            values.add()
        case "append":
            values.append(_scalar(field, values[at] if len(values) else field.default_value or _zero(field), source))
        case _ if len(values):
            values[at] = _scalar(field, values[at], source)


def _zero(field: Any) -> Any:
    return {field.CPPTYPE_STRING: b"" if field.type == field.TYPE_BYTES else "", field.CPPTYPE_FLOAT: 0.0}.get(
        field.cpp_type, 0
    )


def _change_map(values: Any, field: Any, source: random.Random) -> None:
    keys = sorted(values)  # which protobuf hands out in any order
    if not keys:
        return
    key = source.choice(keys)
    if field.message_type.fields_by_name["value"].message_type is None:
        values[key] = _scalar(field.message_type.fields_by_name["value"], values[key], source)
        return
    match source.choice(["drop", "rename", "copy"]):
        case "drop":
            del values[key]
        case "rename" if isinstance(key, str):
            values[key + "x"].CopyFrom(values[key])
            del values[key]
        case _:
            values[source.choice(keys)].CopyFrom(values[key])


def mutated_json(text: str, source: random.Random) -> str:
    """A few values of a JSON document replaced, lost, moved or repeated."""
    document = json.loads(text)
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        places = [(holder, key) for holder, key in _places(document)]
        if not places:
            break
        holder, key = source.choice(places)
        match source.choice(["drop", "replace", "replace", "copy", "rename", "deep"]):
            case "drop":
                del holder[key]
            case "replace":
                holder[key] = source.choice([None, True, [], {}, [1], {"a": 1}, *_INTEGERS, *_FLOATS, *_TEXTS])
            case "copy":
                other, name = source.choice(places)
                holder[key] = deepcopy(other[name])
            case "rename" if isinstance(holder, dict):
                holder[source.choice([*_TEXTS, key + "x"])] = holder.pop(key)
            case _:
                nested: Any = holder[key]
                for _ in range(source.choice([1, 3, 100])):
                    nested = [nested] if source.random() < 0.5 else {"nodes": nested}
                holder[key] = nested
    return json.dumps(document)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: a list or an object, and an index or a key."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def mutated_xml(text: str, source: random.Random) -> str:
    """A few elements, attributes or texts of an XML document replaced, lost, moved or repeated."""
    if source.random() < 0.03:
        entities = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10 if k else "lol"}">' for k in range(12))
        begin = text.index("<net")
        return f"<!DOCTYPE net [{entities}]>" + text[begin:].replace('name="', 'name="&e11;', 1)
    root = ElementTree.fromstring(text)  # written by the tests
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        elements = list(root.iter())
        parents = {child: parent for parent in elements for child in parent}
        chosen = source.choice(elements)
        match source.choice(["drop", "repeat", "move", "swap", "tag", *["attribute"] * 6, *["text"] * 2]):
            case "drop" if chosen in parents:
                parents[chosen].remove(chosen)
            case "repeat" if chosen in parents:
                parents[chosen].append(deepcopy(chosen))
            case "move":
                source.choice(elements).append(deepcopy(chosen))
            case "swap":
                children = list(chosen)
                source.shuffle(children)
                chosen[:] = children
            case "tag":
                chosen.tag = source.choice(elements).tag
            case "attribute":
                having = [element for element in elements if element.attrib]
                chosen = source.choice(having)
                name = source.choice(list(chosen.attrib))
                others = [element.attrib[name] for element in having if name in element.attrib]
                value = source.choice([*map(str, _INTEGERS), *map(str, _FLOATS), *_TEXTS, *others * 2])
                if source.random() < 0.15:
                    del chosen.attrib[name]
                else:
                    chosen.attrib[name] = value
            case "text":
                texts = [element for element in elements if (element.text or "").strip()]
                if texts:
                    source.choice(texts).text = source.choice([*map(str, _INTEGERS), *_TEXTS])
    return ElementTree.tostring(root, encoding="unicode").replace("\0", "").replace("\udc80", "?")


def mutated_zip(data: bytes, source: random.Random) -> bytes:
    """An entry of an archive changed, lost, renamed or added."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    at = source.randrange(len(entries))
    name, content = entries[at]
    match source.choice(["drop", "rename", "add", *["change"] * 6]):
        case "drop":
            del entries[at]
        case "rename":
            entries[at] = (source.choice([*OUTSIDE, "/tmp/x", "x", name.upper()]), content)
        case "add":
            entries.append((source.choice([*OUTSIDE, "extra"]), b"0" * source.choice([10, 10**7])))
        case _:
            is_json = name.endswith(".json") and source.random() < 0.8
            changed = mutated_json(content.decode(), source).encode() if is_json else mutated_bytes(content, source)
            entries[at] = (name, changed)
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry_name, entry in entries:
            archive.writestr(entry_name, entry)
    return result.getvalue()
