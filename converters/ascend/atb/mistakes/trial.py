"""An operation as it is run, and with other inputs and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.atb.parameters import Parameters, camel_case

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Trial:
    """An operation as it is run.

    Attributes:
        param: Its parameters.
        inputs: The tensors that it reads.
        saturates: Whether values beyond float16 saturate, against what was chosen.
        change: What is done with the results.
        names: The names of the inputs in the operation's declaration.
    """

    param: dict[str, Any]
    inputs: tuple[Array, ...]
    saturates: bool | None = None
    change: Callable[[list[Array]], list[Array]] | None = None
    names: tuple[str, ...] = ()

    @property
    def settings(self) -> Parameters:
        """The parameters, whatever form the dump's tool gives them."""
        return Parameters(self.param)

    def written(self, made: Sequence[Array]) -> list[Array]:
        """What is written of the results of the operation."""
        return list(made) if self.change is None else self.change(list(made))

    def place(self, *names: str) -> int | None:
        """The position of the first of these inputs that the operation has."""
        return next((self.names.index(name) for name in names if name in self.names), None)

    def with_param(self, **values: Any) -> Trial:
        """With other parameters, in whichever case the dump's tool writes them."""
        kept = {key: value for key, value in self.param.items() if camel_case(key) not in values}
        return replace(self, param={**kept, **values})

    def with_setting(self, path: str, value: Any) -> Trial:
        """With another parameter, `normParam.epsilon`: nested, or with a dot as msit's .onnx has it."""
        group, _, key = path.rpartition(".")
        if not group or path in self.param:
            return self.with_param(**{path: value})
        return self.with_param(**{group: {**(self.param.get(group) or {}), key: value}})

    def with_input(self, position: int, array: Array) -> Trial:
        """With another tensor at a position."""
        return replace(self, inputs=(*self.inputs[:position], array, *self.inputs[position + 1 :]))

    def without_input(self, position: int) -> Trial:
        """With one tensor less."""
        return replace(self, inputs=(*self.inputs[:position], *self.inputs[position + 1 :]))

    def changed(self, function: Callable[[list[Array]], list[Array]]) -> Trial:
        """With something done to the results."""
        return replace(self, change=function)

    def then(self, function: Callable[[Array], Array]) -> Trial:
        """With something done to each result."""
        return self.changed(lambda made: [function(array) for array in made])

    def instead(self, function: Callable[[], Array]) -> Trial:
        """With another result, of the element type of the right one."""
        return self.then(lambda array: function().astype(array.dtype))

    def ordered(self, *order: int) -> Trial:
        """With the results in another order."""
        return self.changed(lambda made: [made[place] for place in order])

    def swapped(self, first: int, second: int) -> Trial:
        """With two tensors exchanged."""
        return self.with_input(first, self.inputs[second]).with_input(second, self.inputs[first])


def wide(array: Array) -> Array:
    """A tensor in float64."""
    return array.astype(np.float64)


#: Mistakes: what the operation then computes, in words after "equals", and how it is run.
Variants = Iterator[tuple[str, Trial]]


def is_float(array: Array) -> bool:
    """Whether a tensor is of a floating-point type, bfloat16 included."""
    return array.dtype.kind not in "iub"
