"""numpy files: read without pickles, which can run any code, and written whole or not at all."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.guarded_files import require_harmless_archive
from onnx_sparse.files.new_file import new_file

Array = np.ndarray[Any, Any]

#: Files of more bytes are mapped into memory, if at all; an empty array cannot be.
_LARGE = 2**20


def read_npz(path: Path) -> Iterator[tuple[str, Array]]:
    """The arrays of an `.npz` archive by name.

    Raises:
        CommandError: It cannot be read, or holds a pickle.
    """
    archive = _load(path)
    if isinstance(archive, np.ndarray):
        raise CommandError(f"{path} is a single array, not an .npz archive: give it as NAME=FILE.npy")
    with archive:
        for name in archive.files:
            try:
                array = archive[name]
            except Exception as error:  # numpy raises whatever its parsers raise
                raise _unreadable(f"{path}, array {printable(name)},", error) from error
            if not isinstance(array, np.ndarray):  # numpy returns the bytes of a member that is not an array
                raise CommandError(f"{path}: {printable(name)} is not a numpy array")
            _require_characters(f"{path}, array {printable(name)},", array)
            yield name, array


def read_npy(path: Path, *, mapped: bool = False) -> Array:
    """The array of an `.npy` file.

    Args:
        path: The file.
        mapped: Whether a large one is read only where it is used.

    Raises:
        CommandError: It cannot be read, or holds a pickle.
    """
    array = _load(path, mapped=mapped)
    if not isinstance(array, np.ndarray):
        array.close()
        raise CommandError(f"{path} is an .npz archive, not a single array: name it .npz and give it without NAME=")
    _require_characters(str(path), array)
    return array


def _require_characters(what: str, array: Array) -> None:
    """Python has no strings with the numbers beyond those of characters that a damaged file may hold.

    Raises:
        CommandError: Strings of an array have such numbers.
    """
    if array.dtype.kind == "U" and array.nbytes:
        numbers = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if (most := int(numbers.max())) > sys.maxunicode:
            raise CommandError(f"{what} is damaged: a string has the character {most:#x}; the last one is 0x10ffff")


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an `.npz` archive. `np.savez` takes names as keywords, so it cannot write an array named `file`.

    Raises:
        CommandError: It cannot be written.
    """
    with new_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _load(path: Path, *, mapped: bool = False) -> Any:
    if path.is_dir():
        raise CommandError(f"{path} is a directory, not a numpy file")
    try:
        require_harmless_archive(path)
        return np.load(path, allow_pickle=False, mmap_mode="r" if mapped and path.stat().st_size > _LARGE else None)
    except FileNotFoundError as error:
        raise CommandError(f"{path}: no such file") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise _unreadable(str(path), error) from error


def _unreadable(what: str, error: Exception) -> CommandError:
    if "allow_pickle" in str(error):
        return CommandError(
            f"{what} is a pickle or no numpy file at all, and is not loaded: a pickle can run any code. "
            "Strings are saved without one by np.save(file, array.astype(str))"
        )
    return CommandError(f"{what} cannot be read: {error}")
