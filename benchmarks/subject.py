"""A model that is timed against the framework that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Subject:
    """A model and a batch for it.

    Attributes:
        name: The name of the line.
        model: The converted model.
        feeds: A batch, by the names of the model's inputs.
        run: The framework's run of the batch; gives one array.
    """

    name: str
    model: Any
    feeds: Mapping[str, Array]
    run: Callable[[], Any]
