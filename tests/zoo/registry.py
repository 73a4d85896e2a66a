"""The models of the zoos: each module of `models`, `irs` and `torch_modules` declares those of one package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from zoo.inputs import Input

#: The environment without any package but the project's extras.
EXTRAS = "extras"

#: What the environments need beside their packages.
VARIABLES = {"keras2": {"TF_USE_LEGACY_KERAS": "1"}, "transformers": {"TF_USE_LEGACY_KERAS": "1"}}


@dataclass(frozen=True)
class Built:
    """A model that has been built.

    Attributes:
        call: The function that is saved; it takes the inputs by name.
        inputs: Its inputs.
        owner: What holds its lookup tables. Variables are saved wherever they are.
        least: The smallest sizes that the model is made for, by name ("rows", "nodes", "edges", "steps").
    """

    call: Callable[..., Any]
    inputs: Sequence[Input]
    owner: Any = None
    least: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A model of the zoo.

    Attributes:
        name: The package and the model, `"deepctr/DeepFM"`.
        environment: The environment that it needs: `EXTRAS`, or the name of a file in `requirements/`.
        build: Builds it: a `Built`, a `BuiltIr`, or a `BuiltModule`.
        quick: Whether it is one of those that every test run examines.
    """

    name: str
    environment: str
    build: Callable[[], Any]
    quick: bool = False


Build = TypeVar("Build", bound=Callable[[], Any])

#: The models of TensorFlow, those that OpenVINO converts to IRs, and the modules of torch.
ENTRIES: dict[str, Entry] = {}
IRS: dict[str, Entry] = {}
MODULES: dict[str, Entry] = {}


def model(
    name: str, environment: str = EXTRAS, *, quick: bool = False, among: dict[str, Entry] = ENTRIES
) -> Callable[[Build], Build]:
    """Register a builder under the name of its model."""

    def register(build: Build) -> Build:
        if name in among:
            raise ValueError(f"two models are named {name}")
        among[name] = Entry(name, environment, build, quick)
        return build

    return register


def with_dict(model: Any, inputs: Sequence[Input], **least: int) -> Built:
    """A model that takes a dictionary of its inputs."""
    return Built(lambda **features: model(features), inputs, model, least)


def with_list(model: Any, inputs: Sequence[Input], **least: int) -> Built:
    """A model or layer that takes a list of its inputs, or its only input."""
    if len(inputs) == 1:
        return Built(lambda **features: model(*features.values()), inputs, model, least)
    return Built(lambda **features: model([features[i.name] for i in inputs]), inputs, model, least)


def entries() -> dict[str, Entry]:
    """All models of TensorFlow, by name. No package is imported before a model is built."""
    _import_all("models")
    return ENTRIES


def irs() -> dict[str, Entry]:
    """All models that OpenVINO converts, by name."""
    _import_all("irs")
    return IRS


def modules() -> dict[str, Entry]:
    """All modules of torch, by name."""
    _import_all("torch_modules")
    return MODULES


def _import_all(package: str) -> None:
    for module in pkgutil.iter_modules([str(Path(__file__).parent / package)]):
        importlib.import_module(f"zoo.{package}.{module.name}")
