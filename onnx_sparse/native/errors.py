"""The errors of native kernels, which come through ONNX Runtime with its words around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.law import KernelError

_LAW = re.compile(rf"(?:Status Message: |^|: )((?:{'|'.join(OPS)}): (?!.*Status Message: ).*)", re.DOTALL)


def law_message(text: str) -> str | None:
    """What a kernel of ours has said, without what ONNX Runtime has put around it; None where none has."""
    if "[ONNXRuntimeError]" not in text and "Non-zero status code" not in text:
        return None
    found = _LAW.search(text)
    return found[1].strip() if found else None


@contextmanager
def law_errors_raised() -> Iterator[None]:
    """Raise a native kernel's error as `onnx_sparse.KernelError`; other errors stay."""
    try:
        yield
    except Exception as error:
        message = law_message(str(error))
        if message is None:
            raise
        raise KernelError(message) from None
