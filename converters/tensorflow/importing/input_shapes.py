"""The shapes of inputs that a model leaves open: given with their names, or the only ranks that its operators take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.converters.tensorflow.reading.model import Model

#: The ranks that are tried; TensorFlow's operators take no more dimensions.
_RANKS = range(9)
#: A name with a shape, `"x:0[-1,3]"`.
#: What is said of a rank that an operator does not take.
_OF_RANKS = re.compile(r"\brank\b|dimension|\baxis\b|do not fit")
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


def with_shapes(model: Model, shapes: Mapping[int, Shape | None]) -> Model:
    """The model with other shapes of some inputs, by position."""
    ports = [replace(port, shape=shapes.get(k, port.shape)) for k, port in enumerate(model.inputs)]
    return replace(model, inputs=tuple(ports))


def with_ranks(model: Model, convert: Callable[[Model], object]) -> Model:
    """The model with ranks of all its inputs: the only ones that the operators behind them take.

    Args:
        model: The model; it is not converted.
        convert: Converts a model, or raises a ConversionError.

    Raises:
        ConversionError: The operators take several ranks of an input, or none.
    """
    left = [position for position, port in enumerate(model.inputs) if port.shape is None]
    while left:
        found, possible = {}, {}
        for position in left:
            taken = possible[position] = _taken(model, position, convert)
            if model.inputs[position].dtype == "string" and taken == [0, 1]:  # messages, which come in batches
                taken = [1]
            if len(taken) == 1:
                found[position] = (None,) * taken[0]
        if not found:
            raise ConversionError(_way_out(model, possible))
        model = with_shapes(model, found)
        left = [position for position in left if position not in found]
    return model


def _way_out(model: Model, possible: Mapping[int, Sequence[int]]) -> str:
    """What to say about inputs of unknown rank: which ranks each may have, and the option with its value."""
    said, shapes = [], {}
    for position, ranks in possible.items():
        name = model.inputs[position].name
        shapes[position] = f"[{','.join(['-1'] * ranks[0])}]" if ranks and 2 not in ranks else "[-1,3]"
        limited = f" (what reads it takes {_numbers(ranks)} dimensions)" if 0 < len(ranks) < len(_RANKS) else ""
        said.append(
            f"input {name} has no known rank; say its shape with its name, such as {name}{shapes[position]}{limited}"
        )
    if len(model.inputs) > 1:
        named = (f"{port.name}{shapes.get(position, '')}" for position, port in enumerate(model.inputs))
        said.append(f"with all inputs: --inputs '{','.join(named)}'")
    return "; ".join(said)


def _numbers(ranks: Sequence[int]) -> str:
    """Ranks in words: `2 to 8`, `1, 2 or 4`."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return " or ".join(filter(None, (", ".join(map(str, ranks[:-1])), str(ranks[-1]))))


def _taken(model: Model, position: int, convert: Callable[[Model], object]) -> list[int]:
    """The ranks of an input with which the model is converted, or would be if more shapes were known.

    Raises:
        ConversionError: It is converted with none, for a reason that is not the rank.
    """
    taken, errors = [], []
    for rank in _RANKS:
        try:
            convert(with_shapes(model.fresh(), {position: (None,) * rank}))
        except ConversionError as error:
            if not error.unsupported or not all(node.lacks_shape for node in error.unsupported):
                errors.append(error)
                continue
        except (IndexError, ValueError):  # of a pass: TensorFlow would not take such a graph either
            continue
        taken.append(rank)
    reason = next((error for error in errors if not _OF_RANKS.search(str(error))), None)
    if not taken and reason is not None:
        raise reason
    return taken
