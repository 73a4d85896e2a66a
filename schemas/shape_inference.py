"""Type and shape inference, derived from an operator's declaration.

Dimensions come out as numbers where they are known (also from constant inputs), as the graph's own symbols where the
inputs carry them, and unknown otherwise. What the law forbids and the graph already shows is refused here, with the
operator and the input in the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, numpy_helper
from onnx.shape_inference import InferenceError

from onnx_sparse.schemas.declaration import DType, Input, Op, dtype_name

Dim = int | str | None
Shape = list[Dim]


def infer(op: Op, context: Any) -> None:
    """Set the output types of one node. `context` is onnx's `InferenceContext`.

    Raises:
        InferenceError: The node's attributes, element types, ranks, sizes or constant inputs break the law.
    """
    check_attributes(op, {a.name: context.get_attribute(a.name) for a in op.attributes})
    types: dict[str, TypeProto] = {}
    constants: dict[str, np.ndarray[Any, Any]] = {}
    for position, declared in enumerate(op.inputs):
        given = position < context.get_num_inputs() and context.has_input(position)
        if not given:
            if not declared.optional:
                raise InferenceError(f"{op.name}: input {declared.name} is required")
            continue
        tensor_type = context.get_input_type(position)
        if tensor_type is not None:
            types[declared.name] = tensor_type
        data = context.get_input_data(position)
        if data is not None:
            constants[declared.name] = numpy_helper.to_array(data)

    binding = bind_types(op, types)
    dims = Dimensions(op, types, constants)
    for position, output in enumerate(op.outputs):
        if position >= context.get_num_outputs() or not context.has_output(position):
            continue
        elements = op.element_types(output.type)
        element = binding.get(output.type, elements[0] if len(elements) == 1 else None)
        if element is None:
            continue
        inferred = TypeProto()
        inferred.tensor_type.elem_type = element
        shape = dims.resolve(output.shape)
        if shape is not None:
            inferred.tensor_type.shape.SetInParent()
            for dim in shape:
                proto = inferred.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    proto.dim_value = dim
                elif isinstance(dim, str):
                    proto.dim_param = dim
        context.set_output_type(position, inferred)


def check_attributes(op: Op, attributes: Mapping[str, onnx.AttributeProto | None]) -> None:
    """Refuse an attribute that is missing or outside its set of values."""
    for declared in op.attributes:
        attribute = attributes[declared.name]
        if attribute is None:
            if declared.default is None:
                raise InferenceError(f"{op.name}: attribute {declared.name} is required: one of {declared.choices}")
        elif attribute.type == onnx.AttributeProto.STRING and not attribute.ref_attr_name:
            value = attribute.s.decode(errors="replace")
            if value not in declared.choices:
                raise InferenceError(
                    f"{op.name}: attribute {declared.name} = {value!r} is not one of {declared.choices}"
                )


def bind_types(op: Op, types: Mapping[str, TypeProto]) -> dict[str, DType]:
    """Bind the type variables from the inputs' element types.

    Raises:
        InferenceError: An element type is outside its set, or two inputs of one type variable differ.
    """
    binding: dict[str, DType] = {}
    bound_by: dict[str, str] = {}
    for declared in op.inputs:
        tensor_type = types.get(declared.name)
        if tensor_type is None:
            continue
        if not tensor_type.HasField("tensor_type"):
            raise InferenceError(f"{op.name}: input {declared.name} must be a tensor")
        element = tensor_type.tensor_type.elem_type
        if element == onnx.TensorProto.UNDEFINED:
            continue
        legal = op.element_types(declared.type)
        if element not in legal:
            names = ", ".join(map(dtype_name, legal))
            raise InferenceError(f"{op.name}: input {declared.name} is {dtype_name(element)}; expected one of: {names}")
        first = binding.setdefault(declared.type, element)
        if first != element:
            raise InferenceError(
                f"{op.name}: input {declared.name} is {dtype_name(element)} but "
                f"{bound_by[declared.type]} is {dtype_name(first)}; both must have the same type"
            )
        bound_by.setdefault(declared.type, declared.name)
    return binding


class Dimensions:
    """The dimensions of one node: what each letter and group of the declaration stands for."""

    def __init__(
        self, op: Op, types: Mapping[str, TypeProto], constants: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        self.op = op
        self.constants = constants
        self.ranks = {name: _shape_of(tensor_type) for name, tensor_type in types.items()}
        self.sizes: dict[str, tuple[Dim, str]] = {}
        self.groups: dict[str, tuple[Shape, str]] = {}
        # An input with one group tells its length to an input with two ("*S" before "*S, ...").
        for declared in sorted(op.inputs, key=lambda i: (i.broadcasts, len(_groups(i.shape)))):
            shape = self.ranks.get(declared.name)
            if shape is not None and declared.broadcasts:
                self._check_broadcast(declared, shape)
            elif shape is not None:
                self._unify(declared, shape)
            if declared.name in constants:
                self._check_constant(declared, constants[declared.name])

    def resolve(self, declared: str) -> Shape | None:
        """The shape that a declared output shape stands for; None where its rank is unknown."""
        shape: Shape = []
        for item in _items(declared):
            if item == "..." or item.startswith("*"):
                group = self._group(item)
                if group is None:
                    return None
                shape += group
            else:
                shape.append(self._size(item))
        return shape

    def _group(self, item: str) -> Shape | None:
        name = item.lstrip("*")
        if name in self.constants:
            return [int(v) for v in self.constants[name]]
        if item in self.groups:
            return list(self.groups[item][0])
        sizes = self.ranks.get(name)  # "*dims": as many dimensions as dims has elements
        if sizes is not None and isinstance(sizes[0], int):
            return [None] * sizes[0]
        return None

    def _size(self, item: str) -> Dim:
        element = re.fullmatch(r"(\w+)\[(\d+)\]", item)
        if element:
            constant = self.constants.get(element[1])
            return None if constant is None else int(constant[int(element[2])])
        if item in self.constants:
            value = int(self.constants[item])
            return value if value >= 0 else None
        return self.sizes[item][0] if item in self.sizes else None

    def _unify(self, declared: Input, shape: Shape) -> None:
        if declared.sentinel == () and shape == [0]:
            return
        items = _items(declared.shape)
        fixed = [i for i in items if not (i == "..." or i.startswith("*"))]
        spare = len(shape) - len(fixed)
        if spare < 0 or (spare and len(fixed) == len(items)):
            wanted = "a scalar" if not items else f"rank {'>= ' if len(fixed) < len(items) else ''}{len(fixed)}"
            raise InferenceError(
                f"{self.op.name}: input {declared.name} has rank {len(shape)}; expected {wanted} [{declared.shape}]"
            )
        axis = 0
        for position, item in enumerate(items):
            if item == "..." or item.startswith("*"):
                last_group = not any(i == "..." or i.startswith("*") for i in items[position + 1 :])
                if last_group:
                    length = spare
                elif item in self.groups:
                    length = len(self.groups[item][0])
                    if length > spare:
                        raise InferenceError(
                            f"{self.op.name}: input {declared.name} has rank {len(shape)}, less than the rank "
                            f"{length} of {self.groups[item][1]}"
                        )
                else:
                    return
                self._bind_group(item, shape[axis : axis + length], declared.name)
                spare -= length
                axis += length
            else:
                self._bind_size(item, shape[axis], declared.name, axis)
                axis += 1

    def _bind_size(self, letter: str, size: Dim, input_name: str, axis: int) -> None:
        known, owner = self.sizes.get(letter, (None, ""))
        if isinstance(known, int) and isinstance(size, int) and known != size:
            raise InferenceError(
                f"{self.op.name}: dimension {axis} of {input_name} is {size} but {owner} has {known} for the same "
                f"dimension {letter}"
            )
        if not isinstance(known, int) and size is not None:
            self.sizes[letter] = (size, input_name)

    def _bind_group(self, item: str, dims: Shape, input_name: str) -> None:
        known, owner = self.groups.setdefault(item, (list(dims), input_name))
        if len(known) != len(dims) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(known, dims, strict=False)
        ):
            raise InferenceError(
                f"{self.op.name}: {input_name} has dimensions {dims} where {owner} has {known} for the same {item}"
            )
        self.groups[item] = ([b if isinstance(b, int) else a for a, b in zip(known, dims, strict=True)], owner)

    def _check_broadcast(self, declared: Input, shape: Shape) -> None:
        group = self.groups.get(declared.shape)
        if group is None:
            return
        target, owner = group
        pairs = zip(reversed(shape), reversed(target), strict=False)
        if len(shape) > len(target) or any(
            isinstance(a, int) and a != 1 and isinstance(b, int) and a != b for a, b in pairs
        ):
            raise InferenceError(
                f"{self.op.name}: {declared.name} of shape {shape} does not broadcast to {target}, the shape of {owner}"
            )

    def _check_constant(self, declared: Input, constant: np.ndarray[Any, Any]) -> None:
        if declared.values.kind != "size" or constant.size == 0:
            return
        if constant.min() < declared.values.low:
            position = tuple(int(i) for i in np.unravel_index(int(constant.argmin()), constant.shape))
            where = f"[{','.join(map(str, position))}]" if position else ""
            raise InferenceError(
                f"{self.op.name}: {declared.name}{where} = {constant.min()} must be >= {declared.values.low}"
            )


def _items(shape: str) -> list[str]:
    return [item.strip() for item in shape.split(",")] if shape else []


def _groups(shape: str) -> list[str]:
    return [item for item in _items(shape) if item == "..." or item.startswith("*")]


def _shape_of(tensor_type: TypeProto) -> Shape | None:
    if not tensor_type.tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor_type.tensor_type.shape.dim
    ]
