"""An IOBinding that knows which inputs it holds, which ONNX Runtime's does not tell."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from onnx_sparse.sessions.onnxruntime_packages import require_whole_installation

require_whole_installation()  # half an installation has no such class


class Binding(ort.IOBinding):  # type: ignore[misc]  # ONNX Runtime has no types
    """As ONNX Runtime's."""

    def __init__(self, session: ort.InferenceSession) -> None:
        super().__init__(session)
        self._bound: set[str] = set()

    def bind_cpu_input(self, name: str, *args: Any, **kwargs: Any) -> None:
        """As ONNX Runtime's."""
        super().bind_cpu_input(name, *args, **kwargs)
        self._bound.add(name)

    def bind_input(self, name: str, *args: Any, **kwargs: Any) -> None:
        """As ONNX Runtime's."""
        super().bind_input(name, *args, **kwargs)
        self._bound.add(name)

    def bind_ortvalue_input(self, name: str, *args: Any, **kwargs: Any) -> None:
        """As ONNX Runtime's."""
        super().bind_ortvalue_input(name, *args, **kwargs)
        self._bound.add(name)

    def clear_binding_inputs(self) -> None:
        """As ONNX Runtime's."""
        super().clear_binding_inputs()
        self._bound.clear()

    def bound_inputs(self) -> list[str]:
        """The names of the inputs that have values."""
        return sorted(self._bound)
