"""What onnxruntime-extensions can pass on: text without zero bytes."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_sparse.schemas.validation import KernelError


def require_text(name: str, strings: Iterable[str | bytes]) -> None:
    """Refuse strings that onnxruntime-extensions would cut, or that would end the process.

    Args:
        name: What the strings are, for the message.
        strings: Text, in which a surrogate stands for a byte that is not UTF-8, or bytes.

    Raises:
        KernelError: A string has a zero byte, or is not UTF-8.
    """
    for k, string in enumerate(strings):
        if not isinstance(string, str | bytes):
            continue  # ONNX Runtime refuses it, or takes its text
        has_zero = b"\0" in string if isinstance(string, bytes) else "\0" in string
        if has_zero or not _is_utf8(string):
            what = "a zero byte" if has_zero else "bytes that are not UTF-8"
            raise KernelError(
                f"{name}: string {k} has {what}; onnxruntime-extensions cannot pass it on, but the native kernels can"
            )


def _is_utf8(string: str | bytes) -> bool:
    try:
        string.decode() if isinstance(string, bytes) else string.encode()
    except UnicodeError:
        return False
    return True
