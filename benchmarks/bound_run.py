"""Running a session of ONNX Runtime on inputs that are bound once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class BoundRun:
    """A run that leaves its outputs, which are new each time, in its binding.

    `run_with_ort_values` would do the same, but takes 30 us more for its outputs, of which the end is an exception in
    C++.
    """

    def __init__(self, session: Any, inputs: Mapping[str, Any]) -> None:
        """Bind the inputs: arrays, whose memory is used, or OrtValues."""
        import onnxruntime as ort

        self._session = session
        self._binding = session.io_binding()
        self._held = {  # the binding does not hold the arrays
            name: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
            for name, value in inputs.items()
        }
        for name, value in self._held.items():
            self._binding.bind_ortvalue_input(name, value)
        self._names = [output.name for output in session.get_outputs()]

    def __call__(self) -> None:
        """Run the model."""
        self._binding.clear_binding_outputs()
        for name in self._names:
            self._binding.bind_output(name)
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[Array]:
        """Run the model and return copies of its outputs, in their order."""
        self()
        copies: list[Array] = self._binding.copy_outputs_to_cpu()
        return copies
