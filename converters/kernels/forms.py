"""The forms of nodes that ONNX Runtime's CPU kernels lack: ranks, modes and axes.

A form is what a model says of a node before it runs. Its subject is the operator with its mode; what distinguishes it
is a rank, or the axes that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx_sparse.converters.kernels.table import lacking
from onnx_sparse.schemas.declaration import DType, dtype_name

#: The highest rank that is probed; what it lacks, higher ranks lack as well.
HIGHEST_RANK = 7
#: The highest rank of Resize that is probed, whose forms are many; beyond, it takes what takes all axes of this one.
HIGHEST_RESIZED = 5


#: Operators that ONNX allows on matrices: the others have an axis of space.
_OF_MATRICES = ("BatchNormalization", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization",
                "LRN")  # fmt: skip


def ranks(op_type: str, rank: int, mode: str = "") -> tuple[str, str]:
    """The form of a node whose kernel depends on the rank of its first input."""
    return " ".join(filter(None, (op_type, mode, "rank"))), str(min(rank, HIGHEST_RANK))


def resized(rank: int, mode: str, axes: Iterable[int], *, antialias: bool = False) -> tuple[str, str]:
    """The form of a Resize that changes some axes."""
    kind = f"{mode} antialias" if antialias else mode
    if rank > HIGHEST_RESIZED:
        rank, axes = HIGHEST_RESIZED, range(HIGHEST_RESIZED)
    return f"Resize {kind} rank {rank} axes", ",".join(map(str, sorted(axes)))


def one_hot(values: DType) -> tuple[str, str]:
    """The form of a OneHot of int64 positions and depth; the kernels with other types of these are few."""
    return "OneHot values", dtype_name(values)


def has_kernel(form: tuple[str, str]) -> bool:
    """Whether every supported version runs nodes of a form."""
    subject, what = form
    return what not in lacking(subject)


def is_refused(form: tuple[str, str]) -> bool:
    """Whether no supported version runs nodes of a form."""
    subject, what = form
    return lacking(subject).get(what, False)


def known_ranks(kind: str) -> list[int]:
    """The ranks that the kernels of an operator, with its mode, take."""
    least = 1 if kind.startswith("Pad") else 2 if kind in _OF_MATRICES else 3
    return [rank for rank in range(least, HIGHEST_RANK) if has_kernel((f"{kind} rank", str(rank)))]
