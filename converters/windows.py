"""Windows of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def least_sizes(attributes: Mapping[str, Any], kernel: Sequence[int]) -> list[int]:
    """The size from which on a window fits into each padded axis.

    Args:
        attributes: Those of the node: `dilations` and `pads`, which count only without `auto_pad`.
        kernel: The size of the window along each axis.
    """
    dilations = attributes.get("dilations") or [1] * len(kernel)
    pads = attributes.get("pads") or [0] * 2 * len(kernel)
    if attributes.get("auto_pad", b"NOTSET") == b"VALID":
        pads = [0] * 2 * len(kernel)
    return [
        dilation * (size - 1) + 1 - pads[k] - pads[k + len(kernel)]
        for k, (size, dilation) in enumerate(zip(kernel, dilations, strict=False))
    ]
