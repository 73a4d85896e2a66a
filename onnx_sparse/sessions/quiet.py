"""Sessions that log nothing: what fails raises an exception, and is reported once."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from onnx_sparse.sessions.runtime import InferenceSession
from onnx_sparse.settings import Backend


def quiet_options(threads: int = 0) -> ort.SessionOptions:
    """Session options for which ONNX Runtime logs nothing.

    Args:
        threads: How many threads an operator may use; 0 lets ONNX Runtime choose.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return options


def quiet_session(model: Any, threads: int = 0, backend: Backend = "auto") -> InferenceSession:
    """A session of a model, as `InferenceSession` takes it, that logs nothing.

    Raises:
        Exception: ONNX Runtime's, of a model that it refuses; its exceptions have no common base class.
    """
    return InferenceSession(model, quiet_options(threads), backend=backend)
