"""Masks of torch's transformers, whose values torch looks at to choose a kernel: torch.export knows no values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from onnx_sparse.converters.torch.lazy_imports import require

_DETECT = "_detect_is_causal_mask"


@contextmanager
def causal_masks_unread() -> Iterator[None]:
    """Let nn.TransformerEncoder and -Decoder apply the mask that they are given, causal or not.

    Where the caller does not say whether a mask is causal, torch compares it with a causal one and may leave it to a
    kernel that makes its own; the answer is the same.
    """
    home = require("torch.nn.modules.transformer")
    detect = getattr(home, _DETECT, None)
    if detect is None:  # then nothing is looked at
        yield
        return

    def hinted(mask: Any, is_causal: bool | None = None, size: int | None = None) -> Any:
        return detect(mask, bool(is_causal), size)

    with patch.object(home, _DETECT, hinted):
        yield
