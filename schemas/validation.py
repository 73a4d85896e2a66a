"""The part of the semantics that a declaration states by itself: attributes, element types, ranks and dimensions.

Shape inference checks it when a model is made, the kernels when it runs; both give the same messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto

from onnx_sparse.schemas.declaration import Input, Op, is_group, shape_items
from onnx_sparse.schemas.element_types import DType, dtype_name

Dim = int | str | None
_LARGEST = np.iinfo(np.int64).max
Shape = list[Dim]


class KernelError(ValueError):
    """An illegal input. The message names operator, input, position, value and what was expected.

        try:
            session.predict({"items": [[0, 99]]})
        except onnx_sparse.KernelError as error:
            print(error)  # EmbeddingSegmentsSum: indices[1] = 99 is out of range [0, 3)

    A check raises it without the operator's name; whatever evaluates the operator puts the name in front.
    """


KernelError.__module__ = "onnx_sparse"  # where users import it from


def attribute_value(attribute: AttributeProto) -> str | AttributeProto:
    """The text of a string attribute; an attribute of another type itself, which `check_attributes` refuses."""
    return attribute.s.decode(errors="replace") if attribute.type == AttributeProto.STRING else attribute


def check_attributes(op: Op, attributes: Mapping[str, object]) -> None:
    """Check the attributes that a node writes.

    Raises:
        KernelError: One is missing, not a string or outside its set of values, or the operator has no such attribute.
    """
    for declared in op.attributes:
        value = attributes.get(declared.name)
        if value is None:
            if declared.default is None:
                raise KernelError(f"attribute {declared.name} is required: one of {declared.choices}")
        elif not isinstance(value, str):
            raise KernelError(f"attribute {declared.name} is not a string; expected one of {declared.choices}")
        elif value not in declared.choices:
            raise KernelError(f"attribute {declared.name} = {value!r} is not one of {declared.choices}")
    known = [declared.name for declared in op.attributes]
    for name in attributes:
        if name not in known:
            raise KernelError(f"there is no attribute {name}; the operator has {', '.join(known) or 'none'}")


def bind_types(op: Op, types: Mapping[str, DType]) -> dict[str, DType]:
    """Bind the type variables from the inputs' element types.

    Raises:
        KernelError: An element type is outside its set, or two inputs of one type variable differ.
    """
    binding: dict[str, DType] = {}
    bound_by: dict[str, str] = {}
    for declared in op.inputs:
        element = types.get(declared.name)
        if element is None:
            continue
        legal = op.element_types(declared.type)
        if element not in legal:
            names = ", ".join(map(dtype_name, legal))
            raise KernelError(f"input {declared.name} is {dtype_name(element)}; expected one of: {names}")
        first = binding.setdefault(declared.type, element)
        if first != element:
            raise KernelError(
                f"input {declared.name} is {dtype_name(element)} but "
                f"{bound_by[declared.type]} is {dtype_name(first)}; both must have the same type"
            )
        bound_by.setdefault(declared.type, declared.name)
    return binding


class Dimensions:
    """The dimensions of one node: what each letter and group of the declaration stands for.

    Args:
        op: The operator.
        shapes: The inputs' shapes as far as they are known; an input of unknown rank is omitted.
        values: The inputs whose values are known; an optional one that is omitted has its sentinel, or is omitted too.
        elements: The elements of scalars and lists of sizes of which only some are known, or have a symbol.

    Raises:
        KernelError: Ranks, dimensions or sizes violate the semantics.
    """

    def __init__(
        self,
        op: Op,
        shapes: Mapping[str, Shape],
        values: Mapping[str, np.ndarray[Any, Any]],
        elements: Mapping[str, Shape] | None = None,
    ) -> None:
        self.op = op
        self.shapes = shapes
        self.values = values
        self.elements = elements or {}
        self.sizes: dict[str, tuple[Dim, str]] = {}
        self.groups: dict[str, tuple[Shape, str]] = {}
        # An input with one group fixes its length for an input with two ("*S" before "*S, ...").
        for declared in sorted(op.inputs, key=lambda i: (i.broadcasts, sum(map(is_group, shape_items(i.shape))) > 1)):
            shape = self.shapes.get(declared.name)
            if shape is not None and declared.broadcasts:
                self._check_broadcast(declared, shape)
            elif shape is not None:
                self._unify(declared, shape)
            if declared.name in values:
                self._check_sizes(declared, values[declared.name])
        self._check_elements()

    def resolve(self, declared: str) -> Shape | None:
        """The shape that a declared output shape stands for; None where its rank is unknown.

        Raises:
            KernelError: A dimension that is less than that of an input would be negative.
        """
        shape: Shape = []
        for item in shape_items(declared):
            if is_group(item):
                group = self._group(item)
                if group is None:
                    return None
                shape += group
            else:
                shape.append(self._size(item))
        return shape

    def _group(self, item: str) -> Shape | None:
        name = item.lstrip("*")
        elements = self._elements(name)
        if elements is not None:
            return elements
        if item in self.groups:
            return list(self.groups[item][0])
        sizes = self.shapes.get(name)  # "*dims": as many dimensions as dims has elements
        if sizes is not None and isinstance(sizes[0], int):
            return [None] * sizes[0]
        return None

    def _size(self, item: str) -> Dim:
        if item.isdigit():
            return int(item)
        if element := re.fullmatch(r"(\w+)\[(\d+)\]", item):
            elements = self._elements(element[1]) or []
            return elements[int(element[2])] if int(element[2]) < len(elements) else None
        if multiple := re.fullmatch(r"(\d+) (\w+)", item):
            size, _ = self.sizes.get(multiple[2], (None, ""))
            return int(multiple[1]) * size if isinstance(size, int) else None
        if difference := re.fullmatch(r"(\w+) ([+-]) (\d+)", item):
            size, owner = self.sizes.get(difference[1], (None, ""))
            if not isinstance(size, int):
                return None
            if difference[2] == "+":
                return size + int(difference[3])
            if size < int(difference[3]):
                raise KernelError(f"{owner} has {size} elements; at least {difference[3]} expected")
            return size - int(difference[3])
        if item not in self.sizes:
            elements = self._elements(item) or []
            value = elements[0] if len(elements) == 1 else None
            self.sizes[item] = (self._decided(item) if value is None else value, item)
        return self.sizes[item][0]

    def _elements(self, name: str) -> Shape | None:
        """The elements of an input that are sizes, as far as they are known; the -1 for "not given" is none."""
        known: Shape | None = self.elements.get(name)
        if name in self.values:
            known = self.values[name].reshape(-1).tolist()
        return known and [None if isinstance(size, int) and size < 0 else size for size in known]

    def _decided(self, item: str) -> int | None:
        """A size that values decide; None where one of them is not known or there is no such size."""
        if item not in self.op.decided:
            return None
        decided = self.op.decided[item]
        known = [self._known(name) for name in decided.by]
        size = None if any(value is None for value in known) else decided.of(*known)
        return size if size is not None and size <= _LARGEST else None

    def _known(self, name: str) -> np.ndarray[Any, Any] | int | None:
        """The value of an input, which is known where it has no elements, or the size of a dimension."""
        if name in self.values:
            return self.values[name]
        declared = next((i for i in self.op.inputs if i.name == name), None)
        if declared is None:
            size = self._size(name)
            return size if isinstance(size, int) else None
        shape = self.resolve(declared.shape) or []
        return np.zeros([d if isinstance(d, int) else 1 for d in shape], np.int64) if 0 in shape else None

    def _unify(self, declared: Input, shape: Shape) -> None:
        items = shape_items(declared.shape)
        groups = [item for item in items if is_group(item)]
        fixed = len(items) - len(groups)
        if declared.sentinel == () and shape == [0]:
            return
        spare = len(shape) - fixed  # how many dimensions are left for the groups
        if spare < 0 or (spare and not groups):
            wanted = "a scalar" if not items else f"rank {'>= ' if groups else ''}{fixed}"
            raise KernelError(f"input {declared.name} has rank {len(shape)}; expected {wanted} [{declared.shape}]")
        axis = 0
        for item in items:
            if not is_group(item):
                self._bind_size(item, shape[axis], declared.name, axis)
                axis += 1
                continue
            length = spare
            if item != groups[-1]:
                if item not in self.groups:
                    return  # where the next item begins is not known
                dims, owner = self.groups[item]
                length = len(dims)
                if length > spare:
                    raise KernelError(
                        f"input {declared.name} has rank {len(shape)}, less than the rank {length} of {owner}"
                    )
            self._bind_group(item, shape[axis : axis + length], declared.name)
            spare -= length
            axis += length

    def _bind_size(self, letter: str, size: Dim, input_name: str, axis: int) -> None:
        known, owner = self.sizes.get(letter, (None, ""))
        if _differ(known, size):
            raise KernelError(
                f"dimension {axis} of {input_name} is {size} but {owner} has {known} for the same dimension {letter}"
            )
        if not isinstance(known, int) and size is not None:
            self.sizes[letter] = (size, input_name)

    def _bind_group(self, item: str, dims: Shape, input_name: str) -> None:
        known, owner = self.groups.setdefault(item, (list(dims), input_name))
        if len(known) != len(dims) or any(map(_differ, known, dims)):
            raise KernelError(f"{input_name} has dimensions {dims} where {owner} has {known} for the same {item}")
        self.groups[item] = ([b if isinstance(b, int) else a for a, b in zip(known, dims, strict=True)], owner)

    def _check_broadcast(self, declared: Input, shape: Shape) -> None:
        group = self.groups.get(declared.shape)
        if group is None:
            return
        target, owner = group
        pairs = zip(reversed(shape), reversed(target), strict=False)
        if len(shape) > len(target) or any(a != 1 and _differ(a, b) for a, b in pairs):
            raise KernelError(f"{declared.name} of shape {shape} does not broadcast to {target}, the shape of {owner}")

    def _check_sizes(self, declared: Input, sizes: np.ndarray[Any, Any]) -> None:
        if declared.values.kind != "size" or sizes.size == 0:
            return
        if sizes.min() < declared.values.low:
            position = ",".join(str(i) for i in np.unravel_index(int(sizes.argmin()), sizes.shape))
            element = f"{declared.name}[{position}]" if position else declared.name
            raise KernelError(f"{element} = {sizes.min()} must be >= {declared.values.low}")

    def _check_elements(self) -> None:
        """An output dimension `dense_shape[0]` requires that dense_shape has an element 0."""
        for output in self.op.outputs:
            for name, element in re.findall(r"(\w+)\[(\d+)\]", output.shape):
                shape = self.shapes.get(name)
                if shape and isinstance(shape[0], int) and shape[0] <= int(element):
                    raise KernelError(f"{name} has {shape[0]} elements; at least {int(element) + 1} expected")


def _differ(one: Dim, other: Dim) -> bool:
    """Whether two dimensions are known to be different."""
    return isinstance(one, int) and isinstance(other, int) and one != other
