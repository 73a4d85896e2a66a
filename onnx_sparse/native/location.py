"""Where the shared library is."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import metadata
from pathlib import Path

#: The environment variable that names another build of the library, for development: one with sanitizers, say.
LIBRARY_VARIABLE = "ONNX_SPARSE_LIBRARY"

_NAMES = ("libonnx_sparse_native.so", "libonnx_sparse_native.dylib", "libonnx_sparse_native.dll")


def library_path() -> Path | None:
    """The path of the native kernels' shared library; None where this installation has none.

    Raises:
        FileNotFoundError: The environment names a library that is not there.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise FileNotFoundError(f"{LIBRARY_VARIABLE} names {named}, which is not a file")
        return Path(named)
    for folder in _folders():
        for name in _NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def _folders() -> list[Path]:
    """This module's folder; in an editable installation, also the folder where the build put the library."""
    folders = [Path(__file__).parent]
    with suppress(metadata.PackageNotFoundError):  # run from a source tree that is not installed
        folders.append(Path(str(metadata.distribution("onnx_sparse").locate_file("onnx_sparse/native"))))
    return folders
