"""Tables larger than memory: the system is told that their files are read here and there."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from onnx_sparse.models.files.data_parts import locations
from onnx_sparse.models.files.model_files import read_model

#: Of <sys/mman.h> on Linux.
_MADV_RANDOM = 1


def data_files(model: str | os.PathLike[str]) -> set[Path]:
    """The files beside a model with the data of its tensors.

    Raises:
        ValueError: There are none.
    """
    files = {Path(model).absolute().parent / name for name in locations(read_model(model))}
    if not files:
        raise ValueError(
            f"random_access needs tables in a file next to the model, and {os.fspath(model)} has none: "
            "onnx-sparse convert MODEL -o MODEL --external-data writes one"
        )
    return files


def expect_random_reads(files: set[Path]) -> None:
    """Tell the system that files which this process has mapped into memory are read at random.

    A page that is missing is then read alone, not with those around it, which would take the place of others.
    Only Linux is told so.
    """
    if sys.platform != "linux" or not files:  # looking at what is mapped takes milliseconds
        return
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in _mappings({os.path.realpath(file) for file in files}):
        if madvise(begin, end - begin, _MADV_RANDOM):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _mappings(paths: set[str]) -> Iterator[tuple[int, int]]:
    """Where files are in this process's memory."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            addresses, _, _, _, _, *path = line.rstrip("\n").split(None, 5)
            if path and path[0].replace("\\012", "\n") in paths:
                begin, end = addresses.split("-")
                yield int(begin, 16), int(end, 16)
