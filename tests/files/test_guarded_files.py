"""The one opener of readers: what it refuses, and that all roads read through it.

Each road runs in a process with limits of time and memory: what is found here may hang or take gigabytes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.converters import ConversionError, convert
from onnx_sparse.converters.tensorflow.reading.messages import SavedModel
from onnx_sparse.errors import CommandError
from onnx_sparse.files import guarded_files
from onnx_sparse.files.array_file import read_npy, read_npz
from onnx_sparse.files.checksum import masked_crc32c, masked_crc32c_of_file
from onnx_sparse.files.guarded_files import RefusedFileError, open_file, read_file, require_harmless_archive

if sys.platform == "win32":
    pytest.skip("POSIX links, pipes and limits", allow_module_level=True)

SECRET = b"TOP_SECRET_LINE"
_PATIENCE, _MOST_MEMORY = 100, 6 << 30  # the memory is address space, of which libraries reserve much


# --- The opener -------------------------------------------------------------------------------------------------------


def test_links_are_followed_inside_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(SECRET)
    links = {
        "to_inside": "deep/file",
        "around": "deep/../deep/file",
        "out": "../secret",
        "absolute": tmp_path / "secret",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "linked_folder").symlink_to(tmp_path)
    for name in ("to_inside", "around", "deep/file"):
        assert read_file(folder / name, folder) == b"inside"
    for name in ("out", "absolute", "linked_folder/secret", "../secret", "deep/../../secret"):
        with pytest.raises(RefusedFileError, match="leads out of the folder"):
            read_file(folder / name, folder)
    (tmp_path / "elsewhere").symlink_to(folder)  # what the caller names may be a link
    assert read_file(tmp_path / "elsewhere" / "deep" / "file", tmp_path / "elsewhere") == b"inside"


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(RefusedFileError, match="not a regular file"):
            open_file(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    for name in ("a\0b", "a" * 5000):
        with pytest.raises(OSError, match=r"no file can have|too long"):
            open_file(tmp_path / name)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match=r"Too many levels|No such file"):
        open_file(tmp_path / "round")


def test_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    assert read_file(tmp_path / "file", most=10) == bytes(10)
    with pytest.raises(RefusedFileError, match="it has 10 bytes; a file of this kind is read up to 9"):
        read_file(tmp_path / "file", most=9)


@pytest.mark.parametrize("size", [0, 1, 9, 4096, 100_001])
def test_checksum(size: int) -> None:
    """The one of CRC-32C's definition, bit by bit; `123456789` has a known one."""

    def masked(data: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32

    data = np.random.default_rng(size).bytes(size)
    assert masked_crc32c(data) == masked_crc32c_of_file(io.BytesIO(data + b"rest"), size) == masked(data)
    assert ((masked_crc32c(b"123456789") - 0xA282EAD8) % 2**32) == (0xE3069283 >> 15 | 0xE3069283 << 17) % 2**32


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_files, "_HARMLESS_SIZE", 1 << 20)
    for name, size in (("sound", 1 << 20), ("bomb", (1 << 24) + 1)):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a", bytes(size))
    (tmp_path / "no archive").write_bytes(b"PK\x05\x06".ljust(100))
    require_harmless_archive(tmp_path / "no archive")
    require_harmless_archive(tmp_path / "sound")
    with pytest.raises(RefusedFileError, match="members have 16,777,217 bytes"):
        require_harmless_archive(tmp_path / "bomb")


@pytest.mark.parametrize(
    "name", ["m.onnx", "m.textproto", "m.xml", "m.json", "m.air", "m.pb", "m.h5", "m.keras", "m.pt2"]
)
def test_models_that_are_pipes(name: str, tmp_path: Path) -> None:
    if name == "m.pt2":
        pytest.importorskip("torch")
    os.mkfifo(tmp_path / name)
    with pytest.raises((ConversionError, OSError), match="not a regular file"):
        convert(tmp_path / name)


@pytest.mark.parametrize("read", [read_npy, lambda path: list(read_npz(path))])
def test_arrays_that_are_pipes(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CommandError, match="not a regular file"):
        read(tmp_path / "pipe")


# --- The roads --------------------------------------------------------------------------------------------------------


def _onnx(folder: Path) -> tuple[Path, Path]:
    weight = numpy_helper.from_array(np.arange(40, dtype=np.float32), "w")
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [40])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", *ports, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    return folder / "m.onnx", folder / "w.bin"


_IR = """<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/><output>
<port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="2" offset="0" size="8"/><output>
<port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="2" name="y" type="Add" version="opset1"><input><port id="0"><dim>2</dim></port><port id="1"><dim>2</dim>
</port></input><output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="r" type="Result" version="opset1"><input><port id="0"><dim>2</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"""


def _openvino(folder: Path) -> tuple[Path, Path]:
    (folder / "m.xml").write_text(_IR)
    (folder / "m.bin").write_bytes(np.ones(2, np.float32).tobytes())
    return folder / "m.xml", folder / "m.bin"


def _saved_model(folder: Path) -> Path:
    """A lookup in a table that an asset fills, without TensorFlow."""
    saved = SavedModel()
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    nodes = meta.graph_def.node
    add = lambda name, op, *inputs: nodes.add(name=name, op=op, input=inputs)  # noqa: E731
    add("words", "Placeholder").attr["dtype"].type = 7
    nodes[0].attr["shape"].shape.dim.add(size=-1)
    for name, dtype, value in (("file", 7, b"words.txt"), ("default", 9, -1)):
        constant = add(name, "Const")
        constant.attr["dtype"].type = constant.attr["value"].tensor.dtype = dtype
        tensor = constant.attr["value"].tensor
        (tensor.string_val if dtype == 7 else tensor.int64_val).append(value)
    table = add("table", "HashTableV2")
    table.attr["key_dtype"].type, table.attr["value_dtype"].type = 7, 9
    filler = add("fill", "InitializeTableFromTextFileV2", "table", "file")
    filler.attr["key_index"].i, filler.attr["value_index"].i, filler.attr["vocab_size"].i = -2, -1, -1
    filler.attr["delimiter"].s = b"\t"
    found = add("find", "LookupTableFindV2", "table", "words", "default")
    found.attr["Tin"].type, found.attr["Tout"].type = 7, 9
    asset = meta.asset_file_def.add(filename="words.txt")
    asset.tensor_info.name = "file:0"
    signature = meta.signature_def["serving_default"]
    for ports, name, tensor_name, dtype in (
        (signature.inputs, "words", "words:0", 7),
        (signature.outputs, "ids", "find:0", 9),
    ):
        ports[name].name, ports[name].dtype = tensor_name, dtype
        ports[name].tensor_shape.dim.add(size=-1)
    (folder / "assets").mkdir()
    (folder / "variables").mkdir()
    (folder / "assets" / "words.txt").write_bytes(b"a\nb\n")
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return folder


def _asset(folder: Path) -> tuple[Path, Path]:
    return _saved_model(folder), folder / "assets" / "words.txt"


def _graph(folder: Path) -> tuple[Path, Path]:
    return _saved_model(folder), folder / "saved_model.pb"


def _index(folder: Path) -> tuple[Path, Path]:
    index = folder / "variables" / "variables.index"
    _saved_model(folder)
    index.write_bytes(bytes(48))
    return folder, index


#: By road: writes a model, and returns it and the file in it that is replaced.
ROADS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "ONNX external data": _onnx,
    "OpenVINO": _openvino,
    "TensorFlow's asset": _asset,
    "TensorFlow's graph": _graph,
    "TensorFlow's index": _index,
}


def _hostile(root: Path, make: Callable[[Path], tuple[Path, Path]]) -> dict[str, Path]:
    """A road's model with another thing in place of a file of it, by what that is."""
    sources = {}
    for kind in ("sound", "link", "folder link", "pipe", "device", "folder"):
        (root / kind / "model").mkdir(parents=True)
        sources[kind], file = make(root / kind / "model")
        elsewhere = root / kind / "elsewhere"
        elsewhere.mkdir()
        secret = elsewhere / file.name
        secret.write_bytes(SECRET.ljust(file.stat().st_size))
        if kind == "folder link":
            if file.parent.name == "model":
                del sources[kind]
                continue
            shutil.rmtree(file.parent)
            file.parent.symlink_to(elsewhere)
        elif kind != "sound":
            file.unlink()
            make_other = {
                "link": lambda file=file, secret=secret: file.symlink_to(secret),
                "pipe": lambda file=file: os.mkfifo(file),
                "device": lambda file=file: file.symlink_to("/dev/zero"),
                "folder": lambda file=file: file.mkdir(),
            }
            make_other[kind]()
    return sources


#: Converts each file that it is given, and writes what became of it; one that hangs ends the process.
_PROGRAM = """
import json, resource, signal, sys
import onnx_sparse.converters as converters
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
outcomes = {}
for kind, source in json.load(sys.stdin).items():
    signal.alarm(%d)
    try:
        outcomes[kind] = ["converted", repr(converters.convert(source).SerializeToString())]
    except converters.ConversionError as error:
        outcomes[kind] = ["refused", str(error)]
    except Exception as error:
        outcomes[kind] = [type(error).__name__, str(error)]
print(json.dumps(outcomes))
"""


@pytest.mark.parametrize("road", ROADS)
def test_no_road_leaves_its_folder(road: str, tmp_path: Path) -> None:
    """What is outside is in no message and no model, and no pipe is waited for."""
    sources = _hostile(tmp_path, ROADS[road])
    program = _PROGRAM % (_MOST_MEMORY, _MOST_MEMORY, _PATIENCE)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps({kind: str(source) for kind, source in sources.items()}),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    sound, _ = outcomes.pop("sound")
    assert sound == ("refused" if road == "TensorFlow's index" else "converted"), outcomes
    for kind, (outcome, text) in outcomes.items():
        assert outcome == "refused", (kind, outcome, text)
        assert SECRET.decode() not in text
        assert len(text) < 1000
