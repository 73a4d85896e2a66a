"""Files of arrays that are damaged, or of another kind: refused in one line, whatever numpy or zipfile raises."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.tensorflow.lookup_table_files import read
from onnx_sparse.errors import CommandError
from onnx_sparse.files.array_file import read_npy, read_npz


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _archive(method: int, damage: slice = slice(0)) -> bytes:
    """An archive with keys and values; some of its bytes are other ones."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in ("keys", "values"):
            archive.writestr(f"{name}.npy", _npy(np.arange(100)))
    content = bytearray(stream.getvalue())
    content[damage] = bytes(byte ^ 0xFF for byte in content[damage])
    return bytes(content)


def _encrypted() -> bytes:
    content = bytearray(_archive(zipfile.ZIP_STORED))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.index(signature)
        content[at + flags] |= 1
    return bytes(content)


DAMAGED = {
    "no archive": b"this is text",
    "array": _npy(np.arange(3)),
    "cut": _archive(zipfile.ZIP_STORED)[:-10],
    "encrypted": _encrypted(),
    **{f"method {method}": _archive(method, slice(80, 100)) for method in (0, 8, 12, 14)},
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_archives(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    path.write_bytes(content)
    for reading in (lambda: list(read_npz(path)), lambda: read({"words": str(path)})):
        with pytest.raises((CommandError, ConversionError), match=r"arrays\.npz"):
            reading()


def test_archives_without_the_arrays_of_a_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", keys=np.arange(3), other=np.arange(3))
    with pytest.raises(ConversionError, match="there is no array 'values' in it; its arrays are keys, other"):
        read({"words": tmp_path / "table.npz"})


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("number", [0x110000, 0xA202020, 0xFFFFFFFF])
@pytest.mark.parametrize("place", range(4))
def test_numbers_that_are_no_characters_are_refused(tmp_path: Path, place: int, number: int, order: str) -> None:
    """numpy ends such strings in a SystemError wherever they are used."""
    texts = np.array([["aé", "\U0010ffff"]]).astype(f"{order}U2")
    np.save(tmp_path / "a.npy", texts)
    np.savez(tmp_path / "a.npz", words=texts)
    assert read_npy(tmp_path / "a.npy").tolist() == dict(read_npz(tmp_path / "a.npz"))["words"].tolist()
    texts.view(f"{order}u4").reshape(-1)[place] = number
    np.save(tmp_path / "a.npy", texts)
    np.savez(tmp_path / "a.npz", words=texts)
    for opened in (lambda: read_npy(tmp_path / "a.npy"), lambda: list(read_npz(tmp_path / "a.npz"))):
        with pytest.raises(CommandError, match=f"is damaged: a string has the character {number:#x}"):
            opened()


@pytest.mark.parametrize("kind", ["U0", "<U0", ">U3", "U3", "S3"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_strings_of_any_shape_are_read(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    array = np.full(shape, "abé" if "U" in kind else "ab").astype(kind)
    np.save(tmp_path / "a.npy", array.T)
    assert read_npy(tmp_path / "a.npy").tolist() == array.T.tolist()
