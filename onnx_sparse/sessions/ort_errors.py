"""What ONNX Runtime's errors say to users."""

from __future__ import annotations

import re

from onnx_sparse.errors import about_data, one_line


def ort_message(error: Exception) -> str:
    """An exception's message without the parts that only ONNX Runtime's developers can use."""
    message = about_data(one_line(error))
    for noise in (
        r"^\[ONNXRuntimeError\] : \d+ : \w+ : ",
        r"^Load model from .*? failed: ?",
        r"\S+\.(cc|h):\d+ [\w:~<>&*, ]*\([^\"]*?\)( const)? ",  # where in its source, with the function's signature
    ):
        message = re.sub(noise, "", message, count=1)
    return message
