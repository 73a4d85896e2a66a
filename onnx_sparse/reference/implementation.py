"""The wrapper of every reference function: it checks what the declaration implies, and adds the name to messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.schemas.declaration import Op, element_type
from onnx_sparse.schemas.validation import Dimensions, KernelError, bind_types, check_attributes

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

#: The reference function of every operator by the operator's name.
FUNCTIONS: dict[str, Function] = {}


def implements(op: Op) -> Callable[[Function], Function]:
    """Make a function the reference of an operator.

    The function takes the operator's inputs as arrays in order and its attributes by keyword, and returns its output,
    or a tuple of all outputs. It is called only with legal attributes, element types, ranks, dimensions and sizes; an
    optional input that is omitted or is its sentinel is passed as None.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def checked(*inputs: Any, **attributes: str) -> Any:
            try:
                arrays = checked_inputs(op, inputs, attributes)
                with np.errstate(all="ignore"):
                    return function(*arrays, **attributes)
            except KernelError as error:
                raise KernelError(f"{op.name}: {error}") from None
            except MemoryError as error:
                raise KernelError(f"{op.name}: out of memory: {error}") from None

        FUNCTIONS[op.name] = checked
        return checked

    return decorate


def evaluate(op: Op, inputs: Sequence[Array | None], attributes: dict[str, str]) -> tuple[Array, ...]:
    """All outputs of an operator as a tuple.

    Raises:
        KernelError: The inputs violate the operator's semantics.
    """
    result = FUNCTIONS[op.name](*inputs, **attributes)
    return result if isinstance(result, tuple) else (result,)


def checked_inputs(op: Op, inputs: Sequence[Any], attributes: Mapping[str, str]) -> list[Array | None]:
    """The inputs of an operator as arrays, in order; None for those that are omitted or their sentinels.

    Raises:
        KernelError: They have not the types, ranks and dimensions that the operator declares.
    """
    if len(inputs) > len(op.inputs):
        raise KernelError(f"{len(inputs)} inputs given; expected at most {len(op.inputs)}")
    arrays = [None if i is None else _array(i) for i in inputs] + [None] * (len(op.inputs) - len(inputs))
    given = {}
    for declared, array in zip(op.inputs, arrays, strict=True):
        if array is not None:
            given[declared.name] = array
        elif not declared.optional:
            raise KernelError(f"input {declared.name} is required")
    check_attributes(op, attributes)
    bind_types(op, {name: element_type(array.dtype) for name, array in given.items()})
    sizes = {i.name: given[i.name] for i in op.inputs if i.values.kind == "size" and i.name in given}
    dimensions = Dimensions(op, {name: list(array.shape) for name, array in given.items()}, sizes)
    for output in op.outputs:
        dimensions.resolve(output.shape_with(op.with_defaults(attributes)))
    return [None if i.is_sentinel(array) else array for i, array in zip(op.inputs, arrays, strict=True)]


def _array(value: Any) -> Array:
    """An input as an array; numpy's fixed-width strings become objects, and its void, which holds bytes, too."""
    array = np.asarray(value)
    if array.dtype.type is np.void:
        strings = np.empty(array.shape, object)
        strings.reshape(-1)[:] = [item.tobytes() for item in array.reshape(-1)]
        return strings
    return array.astype(object) if array.dtype.kind == "U" else array
