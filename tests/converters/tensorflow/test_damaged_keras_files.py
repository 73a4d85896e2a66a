"""Keras files that claim more than there is are refused, before HDF5's library believes them in this process."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

keras = pytest.importorskip("keras")
h5py = pytest.importorskip("h5py")
pytest.importorskip("tensorflow")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import load  # noqa: E402


@pytest.fixture(params=[".h5", ".keras"])
def path(request, tmp_path):
    """A sound file, of both kinds."""
    made = tmp_path / f"model{request.param}"
    keras.Sequential([keras.Input([3], name="x"), keras.layers.Dense(2, name="dense")]).save(made)
    return made


def hdf5(path: Path) -> bytes:
    """The HDF5 file that is, or is in, a Keras file."""
    if path.suffix == ".h5":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read("model.weights.h5")


def replace(path: Path, content: bytes, part: str = "model.weights.h5") -> None:
    """Write a file anew with another part."""
    if path.suffix == ".h5":
        path.write_bytes(content)
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()} | {part: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def edited(path: Path, edit) -> None:
    """Change a file with h5py."""
    content = io.BytesIO(hdf5(path))
    with h5py.File(content, "r+") as file:
        edit(file)
    replace(path, content.getvalue())


def remove_kernel(file) -> str:
    """Remove the weights of the layer; returns their name."""
    name = file.visititems(lambda name, held: name if getattr(held, "shape", None) == (3, 2) else None)
    del file[name]
    return str(name)


def reason(path: Path) -> str:
    with pytest.raises(ConversionError) as caught:
        load(path)
    (line,) = str(caught.value).splitlines()
    return line.removeprefix(f"{path} cannot be read as a Keras model: ")


def test_a_sound_file(path):
    assert load(path).run({"x": np.zeros([1, 3], np.float32)})[0].shape == (1, 2)


def test_compressed_numbers(path):
    def compress(file):
        file.create_dataset(remove_kernel(file), data=np.ones((3, 2), np.float32), compression="gzip")

    edited(path, compress)
    assert load(path).run({"x": np.ones([1, 3], np.float32)})[0].tolist() == [[3, 3]]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test_a_text_that_claims_gigabytes(path):
    text = "a text of a length that nothing else has"
    edited(path, lambda file: file.attrs.create("note", text, dtype=h5py.string_dtype()))
    content = bytearray(hdf5(path))
    at = content.index(struct.pack("<I", len(text)), content.index(b"note\0"))
    content[at : at + 4] = struct.pack("<I", 3 << 30)
    replace(path, bytes(content))
    assert "allocation failed" in reason(path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of time")
def test_a_heap_in_which_the_library_goes_round_in_a_circle(path):
    edited(path, lambda file: file.attrs.create("note", "a text of some length", dtype=h5py.string_dtype()))
    content = bytearray(hdf5(path))
    at = content.index(b"a text of some length") - 16
    content[at : at + 80] = bytes(80)
    replace(path, bytes(content))
    assert reason(path) == "it is damaged, and HDF5's library does not get to its end"


@pytest.mark.parametrize("chunks", [None, (1 << 20,)])
def test_numbers_that_are_not_there(path, chunks):
    def claim(file):  # less than what Keras itself refuses
        file.create_dataset(remove_kernel(file), [3 << 28], "float32", chunks=chunks)

    edited(path, claim)
    assert reason(path).endswith(f" claims {3 << 30} bytes, but the file holds 0")


def test_chunks_that_grow(path):
    """What their compression cannot give is refused before it is read."""

    def claim(file):
        file.create_dataset(remove_kernel(file), [1 << 26], "float32", chunks=(1 << 10,), compression="gzip")[:5] = 1

    edited(path, claim)
    assert f" claims {1 << 28} bytes, but the file holds " in reason(path)


@pytest.mark.parametrize("link", [h5py.SoftLink("/elsewhere"), h5py.ExternalLink("other.h5", "/numbers")])
def test_links(path, link):
    edited(path, lambda file: file.__setitem__("there", link))
    assert reason(path) == "/ has a link, there, which no Keras file has"


def test_numbers_in_another_file(path, tmp_path):
    (tmp_path / "numbers").write_bytes(bytes(24))

    def move(file):
        file.create_dataset(remove_kernel(file), [3, 2], "float32", external=[(str(tmp_path / "numbers"), 0, 24)])

    edited(path, move)
    assert reason(path).endswith(" is in other files")


def test_groups_that_hold_each_other(path):
    edited(path, lambda file: file.__setitem__("itself", file["/"]))
    assert load(path).inputs[0].name == "x"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
@pytest.mark.parametrize("part", ["model.weights.h5", "config.json"])
def test_a_part_that_is_compressed_a_thousand_times(tmp_path, part):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input([3]), keras.layers.Dense(2)]).save(path)
    replace(path, b" " * (1 << 30), part)
    assert "archives of its size have up to 1,073,741,824" in reason(path)
