"""torch's exporter reads the source of its whole library at each export, which is half of the time: once is enough."""

from __future__ import annotations

import functools
import sys


def read_torchlib_once() -> None:
    """Let torch's exporter keep what it reads, in this process, if it has been imported."""
    exporter = sys.modules.get("torch.onnx._internal.exporter._registration")
    library = getattr(exporter, "onnxscript_apis", None)
    if library is not None and not hasattr(library.get_torchlib_ops, "cache_info"):
        library.get_torchlib_ops = functools.cache(library.get_torchlib_ops)
