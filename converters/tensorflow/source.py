"""What can be converted: a model that has been read, and a way to run it in TensorFlow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs


class Source(ABC):
    """A loaded TensorFlow model.

    Attributes:
        model: The model as it was read; `fresh` before each conversion.
    """

    model: Model

    @property
    def name(self) -> str:
        """A name for it."""
        return self.model.name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Its inputs, in order."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Its outputs, in order."""
        return self.model.outputs

    @property
    def specs(self) -> CompositeSpecs:
        """What the specs of sparse and ragged tensors say about their parts."""
        return self.model.specs

    @abstractmethod
    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the source in TensorFlow: one array per output. Strings are bytes."""


def as_array(value: Any) -> Array:
    """What TensorFlow returns: an array, a numpy scalar, or bytes for a scalar string."""
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
