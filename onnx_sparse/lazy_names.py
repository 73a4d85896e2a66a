"""Modules that may be missing from a package, and names that are imported when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def is_there(module: str) -> bool:
    """Whether a module or package can be imported, without its import. Packages around it are imported."""
    return importlib.util.find_spec(module) is not None


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package, whose `dir` has its public names from then on.

    Args:
        package: The package's name.
        homes: The module of each name; one that begins with a dot is in the package. No module of the package may have
            a name that is one of these.
    """

    module: Any = sys.modules[package]
    module.__dir__ = lambda: sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})

    def imported(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name], package), name)
        setattr(module, name, value)
        return value

    return imported
