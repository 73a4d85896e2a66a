"""Whether `export` leaves a caller's module as it is: over every operator of the census, and over random programs.

    python -m census.untouched --shard 1/4     (in the folder tests)

Each call is made by a module that holds its operands as parameters and buffers, normalizes in training, drops
elements, counts its calls and averages what it sees. The module, the example and what is global in torch are compared
bit by bit before and after an export, whether that is refused or not. Exit 0: nothing has changed.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from support.program import parser
from support.torch_exports import read_torchlib_once
from zoo.isolated_cases import Suite, Tell

from census.cases import Case, cases, operators
from census.programs import program
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.torch import export

UNTOUCHED, REFUSED, NOT_OURS, TOUCHED, DIES = OUTCOMES = ("untouched", "refused", "torch refuses", "touched", "dies")


def holder(case: Case) -> Any:
    """A module that makes a call with what it is given, and with what it holds; each call changes it."""
    import torch

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)
            self.dropout = torch.nn.Dropout(0.5)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.register_buffer("average", torch.full((3,), torch.nan))
            self.cache = {"rows": torch.ones(2, 3)}
            for place, tensor in enumerate(case.tensors):
                if tensor.is_floating_point():
                    setattr(self, f"held_{place}", torch.nn.Parameter(tensor.clone()))
                else:
                    self.register_buffer(f"held_{place}", tensor.clone(), persistent=bool(place % 2))

        def forward(self, rows: Any, *given: Any) -> Any:
            self.calls.add_(1)
            normal = self.norm(rows)
            self.average.lerp_(self.dropout(normal).mean(0), 0.1)  # no output is random, which takes longer to compare
            held = [getattr(self, f"held_{place}") for place in range(len(given))]
            return normal, *case.call(*given), *case.call(*held)

    module = Holder().train()
    module.norm.weight.grad = torch.ones(3)
    return module


def bits(tensor: Any) -> tuple[Any, ...]:
    """What tells a tensor from any other: its bits, where they are, and what is known of them."""
    import torch

    flat = tensor.detach().contiguous().reshape(-1)
    grad = bits(tensor.grad) if tensor.is_leaf and tensor.grad is not None else None
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return (
        id(tensor),
        tensor.data_ptr(),
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.requires_grad,
        content,
        grad,
    )


def state(module: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """All of a module, of the example, and of what is global: by a name for each part."""
    import torch

    parts: dict[str, Any] = {}
    for path, each in module.named_modules():
        parts[f"{path}.training"] = each.training
        for name, value in (*vars(each).items(), *each._parameters.items(), *each._buffers.items()):
            is_whole = name in ("_parameters", "_buffers", "_modules")
            parts[f"{path}.{name}"] = (id(value), [*value]) if is_whole else _content(value)
    parts["the example"] = [bits(tensor) for tensor in args]
    parts["torch's random state"] = torch.get_rng_state().numpy().tobytes()
    parts["numpy's random state"] = str(np.random.get_state())
    parts["Python's random state"] = random.getstate()
    parts["gradients"] = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    parts["defaults"] = torch.get_default_dtype(), torch.get_num_threads(), torch.is_autocast_enabled()
    parts["decompositions"] = {key: id(value) for key, value in torch._decomp.decomposition_table.items()}
    return parts


def _content(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return bits(value)
    if isinstance(value, Mapping):
        return {key: _content(each) for key, each in value.items()}
    return (id(value), repr(value)) if isinstance(value, (int, float, str, list, tuple, set, type(None))) else id(value)


def changes(case: Case) -> tuple[str, list[str]]:
    """What became of an export by default of a module that makes a call, and what that has changed."""
    import torch

    module, args = holder(case), (torch.randn(4, 3), *case.tensors)
    axes = tuple(dict.fromkeys(range(t.dim()), torch.export.Dim.AUTO) for t in args[1:])
    shapes = {"rows": {0: torch.export.Dim.DYNAMIC}, "given": axes}
    before, outcome = state(module, args), UNTOUCHED
    try:
        export(module, args, dynamic_shapes=shapes)
    except ConversionError:
        outcome = REFUSED
    after = state(module, args)
    return outcome, [name for name in {**before, **after} if before.get(name) != after.get(name)]


def take(chosen: Mapping[str, Case]) -> Iterator[tuple[str, str, str]]:
    """What became of calls: their names, outcomes and what was changed. Some may end their process."""
    import torch.onnx._internal.exporter._registration  # noqa: F401  # once, instead of in each process

    read_torchlib_once()

    def examine(case: Case, tell: Tell) -> tuple[str, str]:
        tell(DIES, case.name)
        try:
            if not case.call(*case.tensors):
                return NOT_OURS, ""
        except Exception:  # whatever torch raises: its samples include calls that are errors
            return NOT_OURS, ""
        outcome, changed = changes(case)
        return (TOUCHED if changed else outcome), ", ".join(changed)

    yield from Suite("", "", dict, examine, OUTCOMES, DIES, (), ()).run(chosen, [*chosen])


def drawn(seed: int, programs: int) -> dict[str, Case]:
    """A call of each operator, and so many programs."""
    calls = [case for info in operators().values() for case in itertools.islice(cases(info, 1, seed, 1), 1)]
    return {case.name: case for case in (*calls, *(program(seed, index) for index in range(programs)))}


def main() -> int:
    import torch

    torch.set_num_threads(1)  # a forked process waits for others' threads for ever
    parsed = parser(__doc__, "python -m census.untouched", seed=0, programs=100, shard="1/1")
    options = parsed.parse_args()
    place, count = map(int, options.shard.split("/"))
    chosen = drawn(options.seed, options.programs)
    counts: Counter[str] = Counter()
    for name, outcome, text in take({each: chosen[each] for each in [*chosen][place - 1 :: count]}):
        counts[outcome] += 1
        if outcome in (TOUCHED, DIES):
            print(f"{outcome}: {name}: {text}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES))
    return int(bool(counts[TOUCHED]))


if __name__ == "__main__":
    sys.exit(main())
