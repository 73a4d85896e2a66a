"""The errors of native kernels, which come through ONNX Runtime with its words around them."""

from __future__ import annotations

import re

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.law import KernelError

_LAW = re.compile(rf"(?:Status Message: |^|: )((?:{'|'.join(OPS)}): (?!.*Status Message: ).*)", re.DOTALL)


def law_message(text: str) -> str | None:
    """What a kernel of ours has said, without what ONNX Runtime has put around it; None where none has."""
    if "[ONNXRuntimeError]" not in text and "Non-zero status code" not in text:
        return None
    found = _LAW.search(text)
    return found[1].strip() if found else None


def raise_law_error(error: Exception) -> None:
    """Raise `onnx_sparse.KernelError` where a native kernel's error is behind what ONNX Runtime has raised."""
    message = law_message(str(error))
    if message is not None:
        raise KernelError(message) from None
