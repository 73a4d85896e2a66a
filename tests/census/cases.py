"""The calls of operators that the census makes."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: The element types, those for which most calls are drawn first.
DTYPES = ("float32", "int64", "float16", "bool", "int32", "bfloat16", "float64", "uint8", "int16", "int8")

#: How many of torch's own samples are looked at, of which some are drawn.
_SAMPLES = 300

#: Samples with more elements take long and show no more.
_MOST_ELEMENTS = 20_000

#: The rows of the input whose size stands for a number are so many more than the number.
_MORE_ROWS = 3


@dataclass(frozen=True)
class Case:
    """A call of an operator.

    Attributes:
        operator: torch's name of it.
        label: What tells the call from others of the operator: the element type, and the number of the sample.
        function: What is called.
        leaves: The arguments without their structure; tensors among them are inputs.
        structure: The structure of the arguments: those by place, and those by name.
        sized: Which leaf is the size of an input, if one is.
    """

    operator: str
    label: str
    function: Callable[..., Any]
    leaves: Sequence[Any]
    structure: Any
    sized: int | None = None

    @property
    def name(self) -> str:
        """The call's name."""
        return f"{self.operator} {self.label}"

    @property
    def tensors(self) -> list[Any]:
        """The inputs."""
        import torch

        found = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        if self.sized is not None:
            found.append(torch.zeros(self.leaves[self.sized] + _MORE_ROWS))
        return found

    def call(self, *tensors: Any) -> list[Any]:
        """The results that are tensors; complex numbers as pairs."""
        import torch
        from torch.utils import _pytree as pytree

        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        if self.sized is not None:
            leaves[self.sized] = tensors[-1].shape[0] - _MORE_ROWS
        positional, named = pytree.tree_unflatten(leaves, self.structure)
        made = self.function(*positional, **named)
        results = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        return [torch.view_as_real(result.resolve_conj()) if result.is_complex() else result for result in results]


def cases(info: Any, draws: int, seed: int, types: int = len(DTYPES)) -> Iterator[Case]:
    """Calls of an operator of torch's own tests, and each whole number of one of them as a size.

    Args:
        info: The operator: torch's OpInfo.
        draws: How many samples are drawn in the first element type; of others one for three of these.
        seed: What is drawn.
        types: In how many element types, those of `DTYPES` that the operator takes.
    """
    import torch

    taken = [name for name in DTYPES[:types] if getattr(torch, name) in info.dtypes]
    for place, name in enumerate(taken):
        rng = np.random.default_rng([seed, zlib.crc32(f"{info.formatted_name} {name}".encode())])
        torch.manual_seed(int(rng.integers(2**31)))
        count = draws if place == 0 else -(-draws // 3)
        found = list(_samples(info, name))
        chosen = sorted(rng.permutation(len(found))[:count])
        for k in chosen:
            yield found[k]
        if place == 0:
            yield from _sized(found, rng)


def _samples(info: Any, dtype: str) -> Iterator[Case]:
    import torch
    from torch.utils import _pytree as pytree

    try:
        samples = list(itertools.islice(info.sample_inputs("cpu", getattr(torch, dtype)), _SAMPLES))
    except Exception:  # whatever torch's own tests raise for a type that they do not draw
        return
    for k, sample in enumerate(samples):
        arguments = ((sample.input, *sample.args), sample.kwargs)
        leaves, structure = pytree.tree_flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if all(map(_is_plain, tensors)) and sum(t.numel() for t in tensors) <= _MOST_ELEMENTS:
            leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            yield Case(info.formatted_name, f"{dtype} {k}", info.op, leaves, structure)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor can be an input of a model."""
    import torch

    is_dense = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
    return is_dense and type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_complex()


def _sized(samples: Sequence[Case], rng: np.random.Generator) -> Iterator[Case]:
    """A sample for each place of a whole number, which is the size of an input."""
    met = set()
    for k in rng.permutation(len(samples)):
        case = samples[k]
        for place, leaf in enumerate(case.leaves):
            key = (place, len(case.leaves))
            if type(leaf) is int and 0 <= leaf < 1000 and key not in met:
                met.add(key)
                yield replace(case, label=f"{case.label}, argument {place} a size", sized=place)


@functools.cache
def operators() -> dict[str, Any]:
    """The operators of torch's own tests, by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {info.formatted_name: info for info in op_db}
