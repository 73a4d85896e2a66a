"""Type and shape inference, derived from an operator's declaration.

Dimensions come out as numbers where they are known (also from the values of constant inputs), as the graph's own
symbols where the inputs carry them, and unknown otherwise. Illegal input that the graph already shows is refused here;
the message names the operator and the input. A size that illegal values would decide is unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, TensorShapeProto, TypeProto, helper, numpy_helper
from onnx.shape_inference import InferenceError

from onnx_sparse.schemas.declaration import Attribute, Input, Op
from onnx_sparse.schemas.element_types import DType
from onnx_sparse.schemas.validation import (
    Dimensions,
    KernelError,
    Shape,
    attribute_value,
    bind_types,
    check_attributes,
)


def infer(op: Op, context: Any) -> None:
    """Set the output types of one node. `context` is onnx's `InferenceContext`.

    Raises:
        InferenceError: The node's attributes, element types, ranks, sizes or constant inputs violate the semantics.
    """
    try:
        _infer(op, context)
    except KernelError as error:
        raise InferenceError(f"{op.name}: {error}") from None


def _infer(op: Op, context: Any) -> None:
    attributes = {a.name: _attribute(context, a) for a in op.attributes}
    check_attributes(op, attributes)
    chosen = op.with_defaults({name: value for name, value in attributes.items() if isinstance(value, str)})
    types: dict[str, DType] = {}
    shapes: dict[str, Shape] = {}
    constants: dict[str, np.ndarray[Any, Any]] = {}
    propagated: dict[str, Shape] = {}
    for position, declared in enumerate(op.inputs):
        if position >= context.get_num_inputs() or not context.has_input(position):
            if declared.optional and not declared.shape:
                constants[declared.name] = np.array(declared.sentinel)
            continue
        tensor_type = context.get_input_type(position)
        if tensor_type is not None:
            _read_type(declared, tensor_type, types, shapes)
        if declared.name in op.inputs_that_decide_sizes:
            constant = _constant(context.get_input_data(position))
            symbolic = _symbolic(context, position)
            if constant is not None:
                constants[declared.name] = constant
                shapes[declared.name] = list(constant.shape)
            elif symbolic is not None:
                propagated[declared.name] = _dims(symbolic)

    binding = bind_types(op, types)
    dims = Dimensions(op, shapes, constants, propagated)
    for position, output in enumerate(op.outputs):
        if position >= context.get_num_outputs() or not context.has_output(position):
            continue
        elements = op.element_types(output.type)
        element = binding.get(output.type, elements[0] if len(elements) == 1 else None)
        if element is None:
            continue
        unknown = any(_is_passed_on(context.get_attribute(name)) for name, _ in output.items_under)
        shape = None if unknown else dims.resolve(output.shape_with(chosen))
        context.set_output_type(position, helper.make_tensor_type_proto(element, shape))


def _attribute(context: Any, declared: Attribute) -> object:
    attribute = context.get_attribute(declared.name)
    if attribute is None:
        return None
    return declared.choices[0] if _is_passed_on(attribute) else attribute_value(attribute)


def _is_passed_on(attribute: AttributeProto | None) -> bool:
    """Whether an attribute of a node in a function's body is the caller's, which is checked where it is known."""
    return attribute is not None and bool(attribute.ref_attr_name)


def _read_type(declared: Input, tensor_type: TypeProto, types: dict[str, DType], shapes: dict[str, Shape]) -> None:
    # A sparse initializer is a tensor of a sparse type to onnx, and of a dense one to ONNX Runtime.
    kind = next((k for k in ("tensor_type", "sparse_tensor_type") if tensor_type.HasField(k)), None)
    if kind is None:
        raise KernelError(f"input {declared.name} must be a tensor")
    tensor = getattr(tensor_type, kind)
    if tensor.elem_type != TensorProto.UNDEFINED:
        types[declared.name] = tensor.elem_type
    if tensor.HasField("shape"):
        shapes[declared.name] = _dims(tensor.shape)


def _dims(shape: TensorShapeProto) -> Shape:
    return [dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in shape.dim]


def _symbolic(context: Any, position: int) -> Any:
    """The sizes in an input, as far as onnx follows them; onnx 1.20 to 1.22 cannot hand all to Python."""
    try:
        return context.get_symbolic_input(position)
    except RuntimeError:
        return None


def _constant(tensor: TensorProto | None) -> np.ndarray[Any, Any] | None:
    """The value of a constant; None where there is none, it is in another file, or its bytes are not its value."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError):
        return None
