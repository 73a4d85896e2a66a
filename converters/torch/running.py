"""Runs a program in torch as often as is asked, always from the state in which it was exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from onnx_sparse.converters.torch.lazy_imports import require
from onnx_sparse.converters.torch.state import State, is_norm_in_training

#: What leaves it open which of equal elements comes first.
_ORDERING = re.compile(r"aten\.(topk|sort|argsort|msort|kthvalue|(nan)?median|mode)\.")


class Runner:
    """A program that runs on copies of what it changes.

    Of equal elements torch may say the place of any. Here topk, sort, kthvalue, median and mode say the first, as ONNX
    demands: so that a model that says another place than torch is not taken for wrong, and one that says a place of
    another element is. Norms in training refuse a single value per channel, as the module does.

    Args:
        program: A `torch.export.ExportedProgram`.
        state: What its calls change.
        guarded: Whether batches are refused for which its conditions on sizes do not hold.
    """

    def __init__(self, program: Any, state: State, *, guarded: bool = False) -> None:
        self._module = program.module(check_guards=guarded)
        calls = [node for node in self._module.graph.nodes if node.op == "call_function"]
        self._is_special = any(is_norm_in_training(node) or _ORDERING.match(str(node.target)) for node in calls)
        self._changed = [(*_owner(self._module, name), name) for name in state.names]
        self._initial = [getattr(owner, leaf) for owner, leaf, _ in self._changed]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs; gradients are not recorded, and the random state stays."""
        with self._started():
            return self._module(*args, **kwargs)

    def contradiction(self, *args: Any, sizes: bool, **kwargs: Any) -> str:
        """Which tensor has another type or rank than when it was traced, in one line; empty if none has.

        torch squeezes a size that is 1 and keeps it otherwise, which a model of ONNX cannot.

        Args:
            args, kwargs: The arguments.
            sizes: Whether another constant size counts, too, as where the first two elements are taken of one.
        """
        interpreter = _interpreter(self._module, sizes)
        with self._started():
            interpreter.run(*args, **kwargs)
        return str(interpreter.contradiction)

    @contextmanager
    def _started(self) -> Iterator[None]:
        torch = require("torch")
        for (owner, leaf, _), initial in zip(self._changed, self._initial, strict=True):
            copy = initial.detach().clone()
            setattr(owner, leaf, torch.nn.Parameter(copy, False) if isinstance(initial, torch.nn.Parameter) else copy)
        replaced = _replaced_calls() if self._is_special else nullcontext()
        with torch.no_grad(), torch.random.fork_rng(devices=()), replaced:
            yield


def _owner(module: Any, name: str) -> tuple[Any, str]:
    path, _, leaf = name.rpartition(".")
    return module.get_submodule(path), leaf


def _interpreter(module: Any, sizes: bool) -> Any:
    torch = require("torch")

    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc,name-defined]
        contradiction = ""

        def run_node(self, n: Any) -> Any:
            result, traced = super().run_node(n), n.meta.get("val")
            if isinstance(result, torch.Tensor) and isinstance(traced, torch.Tensor):
                is_one = result.dtype == traced.dtype and result.dim() == traced.dim()
                known = zip(result.shape, traced.shape, strict=is_one)
                if not is_one or (sizes and any(isinstance(size, int) and size != own for own, size in known)):
                    self.contradiction = (
                        f"{n.name} of torch's program is {_form(result)}, and {_form(traced)} otherwise"
                    )
            return result

    interpreter = Interpreter(module)
    interpreter.extra_traceback = False
    return interpreter


def _form(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{[str(size) for size in tensor.shape]}".replace("'", "")


def _replaced_calls() -> Any:
    """A mode in which operators that leave it open say the first of equal elements, and norms refuse what has no
    variance."""
    torch = require("torch")
    aten = torch.ops.aten

    def at(x: Any, place: Any, dim: int, keepdim: bool) -> Any:
        ordered = torch.sort(x, dim=dim, stable=True)
        found = [part.gather(dim, place) for part in ordered]
        return tuple(found if keepdim else (part.squeeze(dim) for part in found))

    def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        if not x.dim():
            return aten.topk.default(x, k, dim, largest, sorted)
        return tuple(part.narrow(dim, 0, k) for part in sort(x, dim, largest))

    def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
        return tuple(torch.sort(x, dim=dim, descending=descending, stable=True))

    def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        if not x.dim() or not 0 < k <= x.shape[dim]:
            return aten.kthvalue.default(x, k, dim, keepdim)
        return at(x, torch.full_like(x.narrow(dim, 0, 1), k - 1, dtype=torch.int64), dim, keepdim)

    def median(overload: Any, skips_nan: bool) -> Callable[..., Any]:
        def call(x: Any, dim: int, keepdim: bool = False) -> Any:
            if not x.dim() or not x.shape[dim]:
                return overload(x, dim, keepdim)
            numbers, count = (x == x).sum(dim, keepdim=True), x.shape[dim]
            if skips_nan:
                place = (numbers.clamp(1) - 1) // 2
            else:
                place = torch.where(numbers < count, numbers, (count - 1) // 2)
            return at(x, place, dim, keepdim)

        return call

    def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
        value, place = aten.mode.default(x, dim, True)
        if x.dim():
            place = torch.where(value == value, (x == value).to(torch.int8).argmax(dim, True), place)
        return (value, place) if keepdim or not x.dim() else (value.squeeze(dim), place.squeeze(dim))

    def norm(overload: Any) -> Callable[..., Any]:
        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            if args[4] and x.numel() == x.shape[1]:
                raise ValueError("expected more than one value per channel in training")
            return overload(x, *args, **kwargs)

        return call

    norms = (aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
    others: dict[Any, Callable[..., Any]] = {
        aten.topk.default: topk,
        aten.sort.default: sort,
        aten.kthvalue.default: kthvalue,
        aten.median.dim: median(aten.median.dim, skips_nan=False),
        aten.nanmedian.dim: median(aten.nanmedian.dim, skips_nan=True),
        aten.mode.default: mode,
        **{overload: norm(overload) for overload in norms},
    }

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
            return others.get(func, func)(*args, **(kwargs or {}))

    return Mode()
