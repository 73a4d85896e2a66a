"""The shapes of inputs that a model leaves open: given with their names, or the only ranks that its operators take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.writing.tensor import Shape

#: The ranks that are tried; TensorFlow's operators take no more dimensions.
_RANKS = range(9)
#: A name with a shape, `"x:0[-1,3]"`.
_SHAPED = re.compile(r"(.+)\[((?:-?\d{1,9}(?:, ?-?\d{1,9})*)?)\]")


def without_shapes(names: Sequence[str] | None) -> tuple[list[str] | None, dict[int, Shape]]:
    """The names of inputs, and the shapes that some have behind them, by position: `"x:0[-1,3]"`; -1 is any size."""
    if names is None:
        return None, {}
    plain, shapes = [], {}
    for position, name in enumerate(names):
        found = _SHAPED.fullmatch(name)
        plain.append(found[1] if found else name)
        if found:
            sizes = [int(size) for size in found[2].split(",") if size.strip()]
            shapes[position] = tuple(None if size < 0 else size for size in sizes)
    return plain, shapes


def with_shapes(model: Model, shapes: Mapping[int, Shape]) -> Model:
    """The model with other shapes of some inputs, by position."""
    ports = [replace(port, shape=shapes.get(k, port.shape)) for k, port in enumerate(model.inputs)]
    return replace(model, inputs=tuple(ports))


def with_ranks(model: Model, convert: Callable[[Model], object]) -> Model:
    """The model with ranks of all its inputs: the only ones with which it is converted.

    Args:
        model: The model.
        convert: Converts a model, or raises a ConversionError.

    Raises:
        ConversionError: It is converted with several ranks of an input.
    """
    if all(port.shape is not None for port in model.inputs):
        return model
    complaints, errors = [], []
    for position, port in enumerate(model.inputs):
        if port.shape is not None:
            continue
        taken = []
        for rank in _RANKS:
            try:
                convert(with_shapes(model.fresh(), {position: (None,) * rank}))
            except ConversionError as error:
                errors.append(error)
            else:
                taken.append(rank)
        if taken == [0, 1] and port.dtype == "string":  # messages that are parsed, which come in batches
            taken = [1]
        if len(taken) == 1:
            model = with_shapes(model, {position: (None,) * taken[0]})
        elif not taken:
            raise errors[-1]
        else:
            complaints.append(
                f"input {port.name} has no known rank; say its shape with its name, such as {port.name}[-1,3]"
            )
    if complaints:
        raise ConversionError("; ".join(complaints))
    return model.fresh()
