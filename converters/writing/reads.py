"""What a node of a source says, and which of it its handler has read.

A handler that does not know an attribute or input would convert the node as if it were not there, to wrong numbers.
`Handler.convert` therefore refuses a node of which something was not read:

    its attribute half_pixel_centers = True is not supported

Each source's `Node` holds its inputs as `Inputs` and its attributes as `Attributes`, which remember what is read, and
lists the rest in `unread`. What need not be read is declared: what never changes a result, by the source
(`says_nothing`) or by the handler (`ignored`, `defaults`); what does not under a condition, where that is known
(`disregard`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

from onnx_sparse.converters.errors import Unsupported

Value = TypeVar("Value")

#: The most characters of a value in a message.
_LONGEST = 60


@dataclass(frozen=True)
class Part:
    """An input or attribute of a node.

    Attributes:
        kind: `input`, `attribute`, or what the source calls them.
        name: Its name; the position of an input without one.
        value: Its value.
    """

    kind: str
    name: str
    value: object

    def __str__(self) -> str:
        value = self.value.decode("utf-8", "replace") if isinstance(self.value, bytes) else self.value
        text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
        return f"its {self.kind} {self.name} = {text if len(text) <= _LONGEST else f'{text[: _LONGEST - 3]}...'}"


class Inputs(tuple[Value, ...]):
    """The inputs of a node by position; None is one that is omitted."""

    _read: set[int]

    def __new__(cls, values: Iterable[Value]) -> Inputs[Value]:
        """A tuple of which nothing has been read."""
        made = super().__new__(cls, values)
        made._read = set()
        return made

    @overload
    def __getitem__(self, position: SupportsIndex) -> Value: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Value, ...]: ...

    def __getitem__(self, position: SupportsIndex | slice) -> Value | tuple[Value, ...]:
        """An input, or several, which are then read."""
        places = range(len(self))[position]
        self._read.update(places if isinstance(places, range) else [places])
        return super().__getitem__(position)

    def __iter__(self) -> Iterator[Value]:
        """The inputs, each of which is read when its turn comes."""
        return (self[place] for place in range(len(self)))

    def disregard(self, names: Collection[str]) -> None:
        """Take inputs for read, by position."""
        self._read.update(int(name) for name in names if name.isdecimal())

    def unread(self) -> Iterator[Part]:
        """The inputs that were not read."""
        for place, value in enumerate(super().__iter__()):
            if place not in self._read and value is not None:
                yield Part("input", str(place), value)


class Attributes(Mapping[str, Value]):
    """The attributes or named inputs of a node; to ask whether there is one, or for the names, is not to read it.

    Args:
        values: The values by name.
        kind: What the source calls them.
    """

    def __init__(self, values: Mapping[str, Value], kind: str = "attribute") -> None:
        self._values = values
        self._kind = kind
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self._read.add(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def disregard(self, names: Collection[str]) -> None:
        """Take attributes for read."""
        self._read.update(names)

    def says_nothing(self, name: str, value: Any) -> bool:
        """Whether an attribute cannot change a result, by its name or because its value is the default."""
        return False

    def unread(self) -> Iterator[Part]:
        """The attributes that were not read and may say something."""
        for name, value in self._values.items():
            if name not in self._read and not self.says_nothing(name, value):
                yield Part(self._kind, name, value)


class Reads(Protocol):
    """Some parts of a node, which remember what is read."""

    def disregard(self, names: Collection[str]) -> None:
        """Take these for read."""

    def unread(self) -> Iterable[Part]:
        """Those that were not read and may say something."""
        ...


class Node:
    """A node of a source as its handler sees it, which knows what of it was not read.

    Attributes:
        inputs: Its inputs, by position or name.
        attributes: Its attributes.
    """

    inputs: Any
    attributes: Any

    def parts(self) -> Iterable[Reads]:
        """Its inputs and attributes."""
        return self.inputs, self.attributes

    def unread(self) -> Iterator[Part]:
        """The inputs and attributes that were not read and may say something."""
        for part in self.parts():
            yield from part.unread()

    def disregard(self, *names: str) -> None:
        """Say that inputs (by position) or attributes have no effect, because of the values of others."""
        for part in self.parts():
            part.disregard(names)


def refuse_unread(
    node: Node, ignored: Collection[str] = (), defaults: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Refuse a node with an input or attribute that was not read.

    Args:
        node: The node, after its handler has converted it.
        ignored: The names of those that cannot change its results.
        defaults: The values at which others do not.

    Raises:
        Unsupported: It has one; all are named.
    """
    parts = [
        str(part)
        for part in node.unread()
        if part.name not in ignored and not (part.name in defaults and part.value == defaults[part.name])
    ]
    if parts:
        raise Unsupported(f"{' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} not supported")
