"""Errors about a session's model that are both Python's and ONNX Runtime's, so that either handler catches them."""

from __future__ import annotations

from onnx_sparse.sessions.onnxruntime_packages import require_whole_installation

require_whole_installation()  # half an installation has no such errors

from onnxruntime.capi.onnxruntime_pybind11_state import Fail, NoSuchFile  # noqa: E402


class NoModelFileError(FileNotFoundError, NoSuchFile):  # type: ignore[misc]  # ONNX Runtime has no types
    """There is no such model file. The message is ONNX Runtime's."""

    def __str__(self) -> str:
        failed = f"Load model {self.filename} failed. File doesn't exist"
        return f"[ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from {self.filename} failed:{failed}"


class NoModelFolderError(ValueError, Fail):  # type: ignore[misc]  # ONNX Runtime has no types
    """A model in memory has data in another file, and nothing names the folder of that file."""
