"""torchvision beside a torch without CUDA: PyPI has its compiled operators for torch with CUDA only."""

from __future__ import annotations

import importlib
from typing import Any


def import_torchvision() -> None:
    """Import torchvision; where its operators do not load, non-maximum suppression is defined in Python."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl("nms", _suppressed, "CPU")
        importlib.import_module("torchvision")
        extension = importlib.import_module("torchvision.extension")
        extension._has_ops = _has_ops
        extension.library = library  # which forgets its operators when it is deleted


def _has_ops() -> bool:  # is compiled with what calls it, which a lambda is not
    return True


def _suppressed(boxes: Any, scores: Any, threshold: float) -> Any:
    import torch

    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    left, kept = scores.argsort(descending=True), []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(best)
        low, high = torch.maximum(boxes[best, :2], boxes[left, :2]), torch.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        left = left[shared / (areas[best] + areas[left] - shared) <= threshold]
    return torch.stack(kept) if kept else left
