"""Models of one operator of OpenVINO each, with attributes and inputs that vary; each module has those of a kind."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from support.openvino_models import Case

#: All cases by name: `Gather-8 i32 axis -1, dynamic`.
CASES: dict[str, Case] = {}
#: The functions of OpenVINO's Python API that cases call, as `opset8.gather`.
CALLED: set[str] = set()

F = np.float32


class Opset:
    """An operator set of OpenVINO, which notes what is called."""

    def __init__(self, version: int) -> None:
        self._version = version

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(f"openvino.opset{self._version}")
        CALLED.add(f"opset{self._version}.{name}")
        return getattr(module, name)


def declare(
    op: str, variant: object, build: Callable[..., Any], *inputs: Any, static: Collection[tuple[int, int]] = ()
) -> None:
    """Declare a case with static and one with dynamic shapes.

    Args:
        op: The operator with its version, `Gather-8`.
        variant: What tells the case from others of the operator.
        build: Makes a node of the inputs' parameters.
        inputs: The inputs.
        static: The axes, as (input, axis), whose sizes OpenVINO demands of the model also with dynamic shapes.
    """
    for dynamic in (False, True):
        name = f"{op} {variant}{', dynamic' if dynamic else ''}"
        if name in CASES:
            raise ValueError(f"two cases are named {name}")
        CASES[name] = Case(op, build, *inputs, dynamic=dynamic, static=static)


def variants(**choices: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    """All combinations of choices, by name."""
    made: list[dict[str, Any]] = [{}]
    for name, values in choices.items():
        made = [{**one, name: value} for one in made for value in values]
    return made


def spelled(variant: Mapping[str, Any]) -> str:
    """A variant as part of a name."""
    return " ".join(f"{name}={np.asarray(value).tolist()}" for name, value in variant.items())


def normal(*shape: int, seed: int = 0, dtype: Any = F) -> Any:
    """Random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def whole(low: int, high: int, *shape: int, seed: int = 0, dtype: Any = np.int64) -> Any:
    """Random integers from low to high - 1."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def cases() -> Mapping[str, Case]:
    """All cases; OpenVINO is imported."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return CASES
