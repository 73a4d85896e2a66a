"""The attributes of a node as its handler sees them; those that nobody reads are refused unless they have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.element_types import ONNX_TYPES, REFERENCE
from onnx_sparse.converters.tensorflow.reading.operators import Operator
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of
from onnx_sparse.converters.writing import reads

#: By which names variables, tables and lists are shared among sessions and devices.
_NAMES = frozenset({"shared_name", "container", "use_node_name_sharing", "allowed_devices", "debug_name",
                    "tensor_array_name"})  # fmt: skip

#: Numbers of inputs, outputs and row splits, which these say themselves.
_COUNTS = frozenset({"N", "num", "num_split", "num_sparse", "Nsparse", "Ndense", "num_row_partition_tensors",
                     "RAGGED_RANK", "PARAMS_RAGGED_RANK", "OUTPUT_RAGGED_RANK"})  # fmt: skip

#: The fields that may hold an attribute, by the type of its default in JSON.
_KINDS: Mapping[type, Sequence[str]] = {bool: ["b"], int: ["i", "f"], float: ["f", "i"], str: ["s"], list: ["list"]}


class MessageAttributes(reads.Attributes[Any]):
    """The attributes of a node as TensorFlow's messages; one that is missing is an empty message.

    Args:
        operator: The operator of the node.
        attributes: The node's own attributes.
    """

    def __init__(self, operator: Operator, attributes: Mapping[str, Any]) -> None:
        super().__init__(attributes)
        self._operator = operator

    def says_nothing(self, name: str, value: Any) -> bool:
        """Whether an attribute is the operator's default, a note or name, or about types and numbers of tensors.

        These the tensors say themselves. One that the operator does not have says something.
        """
        kind = value.WhichOneof("value")
        is_note = name.startswith("_")  # such as _output_shapes, _class (colocation) and _XlaCompile
        if kind is None or is_note or name in _NAMES | _COUNTS:
            return True
        if kind == "type" or (kind == "list" and value.list.type):
            return True
        if name not in self._operator.defaults:
            return kind == "list" and not _values_of(value.list)
        default = self._operator.defaults[name]
        return default is not None and bool(_value(value) == _from_json(default))

    def unread(self) -> Iterator[reads.Part]:
        """The attributes that were not read and may say something."""
        for part in super().unread():
            yield reads.Part(part.kind, part.name, _value(part.value))


class Attributes(MessageAttributes):
    """The attributes of a node, with the defaults of its operator.

    Types are ONNX's (0 for one that ONNX does not have), strings are bytes, shapes are lists with None for unknown
    dimensions, or None.
    """

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        if name in self._values and (kind := self._values[name].WhichOneof("value")) is not None:
            self._refuse_other_fields(name, kind)
            return _value(self._values[name])
        if name in self._operator.types:
            return ONNX_TYPES.get(self._operator.types[name], 0)
        if self._operator.defaults.get(name) is None:
            raise KeyError(name)
        return _from_json(self._operator.defaults[name])

    def _refuse_other_fields(self, name: str, kind: str) -> None:
        """Raise Unsupported where an attribute is held by a field that its operator does not declare."""
        operator, held = self._operator, kind
        if kind == "list":
            held = ".".join(["list", *(field.name for field, _ in self._values[name].list.ListFields())])
        declared = operator.fields.get(name)
        expected = _KINDS.get(type(operator.defaults.get(name)), (kind,)) if declared is None else (declared,)
        if not any(f"{held}.".startswith(f"{each}.") or f"{each}.".startswith(f"{held}.") for each in expected):
            raise Unsupported(f"its attribute {name} is a field {held}; {expected[0]} is expected")

    def __contains__(self, name: object) -> bool:
        own = name in self._values or name in self._operator.types
        return own or self._operator.defaults.get(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter({**self._operator.types, **self._operator.defaults, **self._values})

    def __len__(self) -> int:
        return len(list(iter(self)))


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
    return [ONNX_TYPES.get(dtype % REFERENCE, 0) for dtype in held.type] or _values_of(held)


def _values_of(held: Any) -> list[Any]:
    """The elements of a list, which are no types."""
    kinds = (list(getattr(held, name)) for name in ("s", "i", "f", "b"))
    return next(filter(None, kinds), None) or [_shape(shape) for shape in held.shape] or list(held.func)


def _shape(shape: Any) -> list[int | None] | None:
    return None if shape.unknown_rank else [None if dim.size < 0 else int(dim.size) for dim in shape.dim]


def _from_json(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
