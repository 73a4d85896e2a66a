"""The errors of native kernels, which ONNX Runtime wraps in text of its own."""

from __future__ import annotations

import re

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.law import KernelError

_LAW = re.compile(rf"(?:Status Message: |^|: )((?:{'|'.join(OPS)}): (?!.*Status Message: ).*)", re.DOTALL)


def law_message(text: str) -> str | None:
    """The message of a kernel of ours without ONNX Runtime's text around it; None where there is none."""
    if "[ONNXRuntimeError]" not in text and "Non-zero status code" not in text:
        return None
    found = _LAW.search(text)
    return found[1].strip() if found else None


def raise_law_error(error: Exception) -> None:
    """Raise `onnx_sparse.KernelError` if a native kernel's error caused ONNX Runtime's."""
    message = law_message(str(error))
    if message is not None:
        raise KernelError(message) from None
