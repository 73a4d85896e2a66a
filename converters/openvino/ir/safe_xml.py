"""A parser for as much XML as an IR needs: elements and attributes, nothing that reaches outside the file or explodes.

A document type is refused where it begins, so there are no entities to expand and nothing external to fetch. Text is
kept only in <dim>, the one element of an IR that has some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.files.guarded_files import open_file

#: The largest .xml that is read. IRs of language models with thousands of layers have 10 to 20 MB.
LARGEST_XML = 128 * 2**20
_MOST_ELEMENTS = 4_000_000
_DEEPEST = 200
_LONGEST_TEXT = 1000
_CHUNK = 2**20


@dataclass(slots=True)
class Element:
    """An element: its tag, its attributes, its children, and the text of a <dim>."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def child(self, tag: str) -> Element | None:
        """The first child with a tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, *path: str) -> list[Element]:
        """The elements at a path of tags, `all("input", "port")`."""
        found = [self]
        for tag in path:
            found = [child for element in found for child in element.children if child.tag == tag]
        return found


def parse_xml(path: Path) -> Element:
    """The root element of a file.

    Raises:
        ConversionError: The file cannot be read, is too large, has a document type, or is not XML.
    """
    try:
        return _parse(path)
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error
    except (expat.ExpatError, LookupError, ValueError) as error:  # ValueError: an encoding that expat cannot use
        raise ConversionError(f"{path} is not well-formed XML: {error}") from error


def _parse(path: Path) -> Element:
    top = Element("", {})
    stack = [top]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MOST_ELEMENTS or len(stack) > _DEEPEST:
            raise ConversionError(f"{path} has too many elements, or too many within each other, to be an IR")
        element = Element(tag, attributes)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def text(part: str) -> None:
        if stack[-1].tag == "dim" and len(stack[-1].text) < _LONGEST_TEXT:
            stack[-1].text += part

    def refuse(*_: object) -> int:
        raise ConversionError(f"{path} has a document type (<!DOCTYPE>), which no IR has; it is not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    with open_file(path, most=LARGEST_XML) as file:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    return top.children[0]
