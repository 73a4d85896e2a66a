"""The attributes of a node as its handler sees them; those that nobody reads are refused unless they have no effect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.handlers.example_parsing import DENSE_SHAPES
from onnx_sparse.converters.tensorflow.handlers.sequence_parsing import CONTEXT_SHAPES, LIST_SHAPES
from onnx_sparse.converters.tensorflow.reading.element_types import ONNX_TYPES, REFERENCE
from onnx_sparse.converters.tensorflow.reading.operators import Operator
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of

#: Attributes with lists of shapes that handlers read as text.
_SHAPES_AS_TEXT = frozenset({DENSE_SHAPES, CONTEXT_SHAPES, LIST_SHAPES})


class Attributes(Mapping[str, Any]):
    """The attributes of a node, with the defaults of its operator.

    Types are ONNX's (0 for one that ONNX does not have), strings are bytes, shapes are lists with None for unknown
    dimensions, or None. What is read is remembered.

    Args:
        operator: The operator of the node.
        attributes: The node's own attributes.
    """

    def __init__(self, operator: Operator, attributes: Mapping[str, Any]) -> None:
        self._operator = operator
        self._attributes = attributes
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name in _SHAPES_AS_TEXT:
            shapes = self[name.removeprefix("_")]
            return json.dumps([[-1 if size is None else size for size in shape or ()] for shape in shapes]).encode()
        self._read.add(name)
        if name in self._attributes and self._attributes[name].WhichOneof("value") is not None:
            return _value(self._attributes[name])
        if name in self._operator.types:
            return ONNX_TYPES.get(self._operator.types[name], 0)
        if self._operator.defaults.get(name) is None:
            raise KeyError(name)
        return _from_json(self._operator.defaults[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**self._operator.types, **self._operator.defaults, **self._attributes})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def refuse_unread(self, ignored: frozenset[str]) -> None:
        """Refuse the node if it has an attribute that was not read, is not the default and may matter.

        Args:
            ignored: The attributes that say how TensorFlow computes, but not what.

        Raises:
            Unsupported: It has one.
        """
        for name, attribute in self._attributes.items():
            if name in self._read or name.startswith("_") or name in ignored:
                continue
            kind = attribute.WhichOneof("value")
            if kind is None:
                continue
            if kind == "type" or (kind == "list" and attribute.list.type) or name not in self._operator.defaults:
                is_known = kind in ("type", "list", "func") or name in self._operator.defaults
                if is_known:
                    continue
                raise Unsupported(f"its attribute {name} = {_text(attribute)} is not one of TensorFlow's")
            default = self._operator.defaults[name]
            if default is None and kind == "i":  # the number of inputs or outputs, which these say themselves
                continue
            if default is None or _value(attribute) != _from_json(default):
                raise Unsupported(f"its attribute {name} = {_text(attribute)} is not converted")


def _value(attribute: Any) -> Any:
    kind = attribute.WhichOneof("value")
    if kind == "list":
        return _list(attribute.list)
    if kind == "type":
        return ONNX_TYPES.get(attribute.type % REFERENCE, 0)
    if kind == "shape":
        return _shape(attribute.shape)
    if kind == "tensor":
        return array_of(attribute.tensor)
    return None if kind is None else getattr(attribute, kind)


def _list(held: Any) -> list[Any]:
    for name in ("s", "i", "f", "b"):
        if getattr(held, name):
            return list(getattr(held, name))
    if held.type:
        return [ONNX_TYPES.get(dtype % REFERENCE, 0) for dtype in held.type]
    return [_shape(shape) for shape in held.shape]


def _shape(shape: Any) -> list[int | None] | None:
    return None if shape.unknown_rank else [None if dim.size < 0 else int(dim.size) for dim in shape.dim]


def _from_json(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _text(attribute: Any) -> str:
    value = _value(attribute)
    return repr(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)[:80]
