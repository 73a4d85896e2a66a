"""The parameters of an operation, in every form in which tools write them.

ATB's dumps have camelCase keys and enums as numbers; MindIE has the enums' names; torch_atb has snake_case keys; the
`.onnx` of msit has every scalar as a list of floats, which is empty for 0, false and null. Missing keys mean defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.writing.reads import Part

_INT64_END = 2.0**63


class Parameters:
    """Parameters by ATB's own camelCase names; those that are read are remembered.

    Args:
        raw: The content of the file: an object, or "" or None for no parameters.
        within: The name of the enclosing structure, for messages.
    """

    def __init__(self, raw: Any, within: str = "") -> None:
        if raw is not None and raw != "" and not isinstance(raw, Mapping):
            raise Unsupported(f"{within or 'param'} is not an object: {_short(raw)}")
        self._raw = {camel_case(str(key)): value for key, value in (raw or {}).items()}
        self._within = f"{within}." if within else ""
        self._read: set[str] = set()
        self._groups: dict[str, Parameters] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def changed(self, key: str, value: Any) -> Parameters:
        """With another value of one parameter."""
        return Parameters({**self._raw, key: value})

    def disregard(self, names: Collection[str]) -> None:
        """Take parameters, or structures of them, for read."""
        self._read.update(names)

    def unread(self) -> Iterator[Part]:
        """The parameters that were not read and are not 0, false, null or empty: dumps have every parameter."""
        for key, value in self._raw.items():
            if not {key, key.partition(".")[0]} & (self._read | self._groups.keys()):
                yield from _leaves(f"{self._within}{key}", value)
        for group in self._groups.values():
            yield from group.unread()

    def group(self, key: str) -> Parameters:
        """A nested structure; an empty one if it is missing, "" or null."""
        if key not in self._groups:
            value = self._raw.get(key)
            if value is None and any(k.startswith(f"{key}.") for k in self._raw):  # msit's .onnx has `a.b` for b of a
                value = {k.removeprefix(f"{key}."): v for k, v in self._raw.items() if k.startswith(f"{key}.")}
            self._groups[key] = Parameters(value, f"{self._within}{key}")
        return self._groups[key]

    def number(self, key: str, default: float) -> float:
        """A number.

        Raises:
            Unsupported: It is not a number; null is an infinity or NaN, which JSON cannot express.
        """
        if key not in self._raw:
            return default
        value = self._scalar(key)
        if value is None:
            raise Unsupported(f"{self._within}{key} is null: an infinity or NaN that the dump could not write")
        if not isinstance(value, int | float):
            raise Unsupported(f"{self._within}{key} is not a number: {_short(value)}")
        return self._float(key, value)

    def integer(self, key: str, default: int) -> int:
        """A whole number."""
        return self._whole(key, self.number(key, default))

    def flag(self, key: str, default: bool) -> bool:
        """A truth value: true, false, 1, 0."""
        if key in self._raw and self._raw[key] is None:
            self._read.add(key)
            return default
        return bool(self.number(key, default))

    def enum(self, key: str, names: Mapping[str, int], default: int) -> int:
        """An enumerator by its number, or by its name: `ELEWISE_ADD`, `torch_atb...ElewiseType.ELEWISE_ADD`, `ADD`."""
        value = self._scalar(key) if key in self._raw else default
        if not isinstance(value, str):
            return self.integer(key, default)
        wanted = value.rpartition(".")[2].upper()
        matches = [n for n in names if wanted == n or wanted.endswith(f"_{n}")]
        if not matches:
            raise Unsupported(f"{self._within}{key} {value!r} is none of {', '.join(names)}")
        return names[max(matches, key=len)]

    def text(self, key: str) -> str:
        """A text; empty if there is none, or for anything else."""
        self._read.add(key)
        value = self._raw.get(key)
        return value if isinstance(value, str) else ""

    def integers(self, key: str) -> list[int]:
        """A list of whole numbers; a single number is a list of one."""
        numbers = self.numbers(key)
        if None in numbers:
            raise Unsupported(f"{self._within}{key} is not a list of whole numbers: {_short(self._raw[key])}")
        return [self._whole(key, number) for number in numbers if number is not None]

    def numbers(self, key: str) -> list[float | None]:
        """A list of numbers, with None for null; a single number is a list of one."""
        self._read.add(key)
        value = self._raw.get(key, [])
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, bool) or not isinstance(item, int | float | None) for item in items):
            raise Unsupported(f"{self._within}{key} is not a list of numbers: {_short(value)}")
        return [None if item is None else self._float(key, item) for item in items]

    def _scalar(self, key: str) -> Any:
        self._read.add(key)
        value = self._raw[key]
        if not isinstance(value, list):
            return value
        if len(value) > 1:
            raise Unsupported(f"{self._within}{key} is not a single value: {_short(value)}")
        return value[0] if value else 0

    def _float(self, key: str, number: float) -> float:
        try:
            return float(number)
        except OverflowError as error:  # JSON's integers have no bound
            raise Unsupported(f"{self._within}{key} is too large: {_short(number)}") from error

    def _whole(self, key: str, number: float) -> int:
        if not abs(number) < _INT64_END or number != int(number):
            raise Unsupported(f"{self._within}{key} is not a whole number of 64 bits: {number}")
        return int(number)


def _leaves(name: str, value: Any) -> Iterator[Part]:
    """The parameters of a structure, or one parameter, that are not 0, false, null or empty."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{camel_case(str(key))}", inner)
    elif isinstance(value, list) and len(value) == 1:
        yield from _leaves(name, value[0])
    elif any(value) if isinstance(value, list) else value:
        yield Part("parameter", name, value)


def camel_case(key: str) -> str:
    """`normParam` of `norm_param`."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
