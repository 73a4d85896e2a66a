"""A program that reads a Keras file's HDF5 as Keras will, but within limits that follow from the size of the file.

HDF5's library believes what a file says of itself: a damaged one makes it take gigabytes, go round in a circle, or end
the process. So `keras_source.py` runs this first, in a process of its own: `python hdf5_examination.py FILE`. It writes
one line that goes on after the file's name, or how many numbers the file holds. It imports nothing of this package: it
has to start quickly.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import zipfile
from typing import Any

#: What deflate makes of a byte at most. Chunks may be compressed by it; numbers that are not in chunks never are.
_MOST_EXPANSION = 1032


class _NotHdf5Error(Exception):
    """A file that is not what its name says."""


def main(path: str) -> int:
    """Examine a `.keras` or HDF5 file; 1 if something is wrong with it."""
    try:
        import h5py
    except ImportError:  # the converter tells how to install it
        return 0
    _limit(os.path.getsize(path))
    try:
        numbers = _numbers(h5py, path)
    except _NotHdf5Error:
        wrong = "is not an HDF5 file: it is damaged, cut short, or something else"
    except MemoryError:
        wrong = "cannot be read as a Keras model: more memory is needed than a file of its size can fill"
    except Exception as error:  # h5py raises whatever fits the number that HDF5 gives
        wrong = "cannot be read as a Keras model: " + " ".join(str(error).split())
    else:
        sys.stdout.write(str(numbers))
        return 0
    sys.stdout.write(wrong)
    return 1


def _numbers(h5py: Any, path: str) -> int:
    """How many numbers, and other elements of arrays, a file holds; 0 for an archive without HDF5.

    Raises:
        _NotHdf5Error, MemoryError: It is no HDF5 file, or one that says too much of itself; others for other faults.
    """
    content: Any = path
    if path.endswith(".keras"):
        try:
            content = io.BytesIO(_weights(path))
        except (zipfile.BadZipFile, KeyError):  # the converter or Keras tells
            return 0
    try:
        file = h5py.File(content, "r")
    except OSError as error:
        raise _NotHdf5Error from error
    with file:
        return _examine(h5py, file, os.path.getsize(path) if content is path else len(content.getbuffer()))


def _weights(path: str) -> bytes:
    """The HDF5 file in a `.keras` file, whose other parts must be small enough to be read, too.

    Raises:
        zipfile.BadZipFile, KeyError: It is no `.keras` file; others if a part is damaged or too large.
    """
    with zipfile.ZipFile(path) as archive:
        for name in ("metadata.json", "config.json"):
            with contextlib.suppress(ValueError):
                json.loads(archive.read(name))
        return archive.read("model.weights.h5")


def _limit(size: int) -> None:
    """Limit this process to the memory and the time of the processor that a file of a size can need."""
    if sys.platform == "win32":  # where only the time is limited, by who runs this
        return
    import resource

    seconds = 10 + size // (20 << 20)
    for limit, most in (resource.RLIMIT_AS, (1 << 30) + 4 * size), (resource.RLIMIT_CPU, seconds):
        _, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(limit, (most, hard))


def _examine(h5py: Any, file: Any, size: int) -> int:
    """Read everything but numbers that lie there as they are, of which HDF5 knows nothing to be wrong about.

    Returns:
        How many elements the file's arrays have.

    Raises:
        ValueError: Something claims more than there is, or is elsewhere; h5py also raises others.
    """
    numbers, seen, left = 0, set(), [file]
    while left:
        here = left.pop()
        address = h5py.h5o.get_info(here.id).addr
        if address in seen:  # groups can hold each other
            continue
        seen.add(address)
        for name in here.attrs:
            here.attrs[name]
        if isinstance(here, h5py.Dataset):
            _examine_dataset(here, size)
            numbers += here.size or 0  # None where there are no dimensions
        elif isinstance(here, h5py.Group):
            for name in here:
                if not isinstance(here.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{here.name} has a link, {name}, which no Keras file has")
                left.append(here[name])
    return numbers


def _examine_dataset(dataset: Any, size: int) -> None:
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"{dataset.name} is in other files")
    if not dataset.size:
        return
    held = min(dataset.id.get_storage_size(), size)
    if dataset.nbytes > held * (1 if dataset.chunks is None else _MOST_EXPANSION):
        raise ValueError(f"{dataset.name} claims {dataset.nbytes} bytes, but the file holds {held}")
    if dataset.chunks is not None:
        for part in dataset.iter_chunks():
            dataset[part]
    elif dataset.dtype.hasobject:
        dataset[()]


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1]))
