"""Running a session of ONNX Runtime on inputs that are bound once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def bound_run(session: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A run that returns its binding, whose outputs are new.

    An input is an array, whose memory is used, or an OrtValue. `run_with_ort_values` would do the same, but takes 30 us
    more for its outputs, of which the end is an exception in C++.
    """
    import onnxruntime as ort

    binding = session.io_binding()
    values = {
        name: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
        for name, value in inputs.items()
    }
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    names = [output.name for output in session.get_outputs()]

    def run(_held: Any = values) -> Any:  # the binding does not hold the arrays
        binding.clear_binding_outputs()
        for name in names:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return binding

    return run
