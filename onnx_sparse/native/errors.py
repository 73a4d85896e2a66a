"""The errors of native kernels, which ONNX Runtime wraps in text of its own."""

from __future__ import annotations

import re

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.validation import KernelError

_KERNEL_ERROR = re.compile(rf"(?:Status Message: |^|: )((?:{'|'.join(OPS)}): (?!.*Status Message: ).*)", re.DOTALL)


def kernel_error_message(text: str) -> str | None:
    """The message of a kernel of ours without ONNX Runtime's text around it; None where there is none."""
    if "[ONNXRuntimeError]" not in text and "Non-zero status code" not in text:
        return None
    found = _KERNEL_ERROR.search(text)
    return found[1].strip() if found else None


def raise_kernel_error(error: Exception) -> None:
    """Raise `onnx_sparse.KernelError` if a native kernel's error caused ONNX Runtime's."""
    message = kernel_error_message(str(error))
    if message is not None:
        raise KernelError(message) from None
