"""What can be converted: a model that has been read, and a way to run it in TensorFlow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.lazy_imports import require
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

    def reset(self) -> None:  # noqa: B027 - most sources have no states
        """Give the variables that a run assigns the values that they had before the first one."""

    def run_steps(self, steps: Sequence[Mapping[str, Array]]) -> list[Array]:
        """Run the source several times, from its first values on: the outputs of all steps."""
        self.reset()
        try:
            return [array for feeds in steps for array in self.run(feeds)]
        finally:
            self.reset()


class CapturedVariables:
    """The variables that a function of TensorFlow captures, as they are now.

    Args:
        concrete: The function.
    """

    def __init__(self, concrete: Any) -> None:
        tf = require("tensorflow")
        self._values = []
        for handle in concrete.captured_inputs:
            held = getattr(handle, "_handle_data", None)
            if handle.dtype == tf.resource and held is not None and held.is_set and held.shape_and_type:
                dtype = held.shape_and_type[0].dtype
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
                self._values.append((handle, tf.identity(value)))

    def restore(self) -> None:
        """Assign these values."""
        tf = require("tensorflow")
        for handle, value in self._values:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def as_array(value: Any) -> Array:
    """What TensorFlow returns: an array, a numpy scalar, or bytes for a scalar string."""
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
