"""The classes and functions that a Keras file uses and a user's modules define."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError


def definitions_of(modules: Sequence[str]) -> dict[str, Any]:
    """What modules define, which are imported; the current directory is searched, too.

    Raises:
        ConversionError: A module cannot be imported.
    """
    found: dict[str, Any] = {}
    sys.path.insert(0, str(Path.cwd()))
    try:
        for name in modules:
            module = importlib.import_module(name)
            own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
            found |= {value.__name__: value for value in own if callable(value)}
    except Exception as error:  # whatever the module raises
        raise ConversionError(f"--import {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return found
