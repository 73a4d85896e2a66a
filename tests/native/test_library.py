"""The shared library as seen by the system, ONNX Runtime and other programs."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contract.models import SEGMENT_SUM, model

import onnx_sparse
from onnx_sparse import InferenceSession, KernelError
from onnx_sparse.reference.encodings import decode_compressed

FEEDS = {"data": np.array([[1, 2], [3, 4], [5, 6]], np.float32), "ids": np.array([0, 0, 2])}
SUMS = [[4, 6], [0, 0], [5, 6]]


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("nm") is None, reason="needs nm of Linux")
def test_it_exports_eight_symbols() -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", onnx_sparse.get_library_path()], capture_output=True, text=True, check=True
    ).stdout
    symbols = [line.split()[-1] for line in listed.splitlines()]
    of_tests = ("__asan", "__ubsan", "__tsan", "onnx_sparse_allocations_", "onnx_sparse_work")
    assert [s for s in symbols if not s.startswith(of_tests)] == [
        "OnnxSparseFindLongList",
        "OnnxSparseFindNumbers",
        "OnnxSparseFindTexts",
        "OnnxSparseReadNumbers",
        "OnnxSparseReadTexts",
        "OnnxSparseSettings",
        "RegisterCustomOps",
        "onnx_sparse_version",
    ]


def test_it_knows_its_version() -> None:
    version = ctypes.CDLL(onnx_sparse.get_library_path()).onnx_sparse_version
    version.restype = ctypes.c_char_p
    assert version().decode() == onnx_sparse.__version__


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, {}),
        ({"ONNX_SPARSE_INSTRUCTIONS": "baseline"}, {"instructions": "baseline"}),
        ({"ONNX_SPARSE_PREFETCH_ROWS": "7"}, {"rows_prefetched_ahead": {"32": 7, "64": 7, "256": 7, "1024": 7}}),
        ({"ONNX_SPARSE_HUGE_PAGES": "0"}, {"huge_pages": False}),
    ],
)
def test_it_says_what_it_has_chosen(environment: dict[str, str], chosen: dict[str, Any]) -> None:
    settings = json.loads(
        subprocess.run(
            [sys.executable, "-m", "onnx_sparse.cli.smoke", "native"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert settings["instructions"] in ("baseline", "avx2", "avx512")
    assert settings | chosen == settings


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd")
def test_it_links_to_nothing_but_the_system() -> None:
    listed = subprocess.run(["ldd", onnx_sparse.get_library_path()], capture_output=True, text=True, check=True).stdout
    assert "onnxruntime" not in listed
    assert "python" not in listed


def test_a_plain_session_runs_it_and_reports_errors() -> None:
    options = ort.SessionOptions()
    options.register_custom_ops_library(onnx_sparse.get_library_path())
    session = ort.InferenceSession(SEGMENT_SUM.SerializeToString(), options)
    assert session.run(None, FEEDS)[0].tolist() == SUMS
    with pytest.raises(Exception, match=r"SegmentSum: segment_ids\[1\] = 0 is less than") as raised:
        session.run(None, FEEDS | {"ids": np.array([1, 0, 2])})
    assert type(raised.value).__name__ == "InvalidArgument"
    assert session.run(None, FEEDS)[0].tolist() == SUMS


def test_both_backends_in_one_process() -> None:
    sessions = [InferenceSession(SEGMENT_SUM, backend=backend) for backend in ("native", "python") * 3]
    for session in (*sessions, *reversed(sessions)):
        assert session.run(None, FEEDS)[0].tolist() == SUMS
        with pytest.raises(KernelError, match="ids must be sorted"):
            session.run(None, FEEDS | {"ids": np.array([1, 0, 2])})


_MANY_SESSIONS = """
import ctypes, gc, sys
import onnxruntime as ort
import onnx_sparse
from contract.models import SEGMENT_SUM
from native.test_library import FEEDS

class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena a b c mapped d e used f g".split()]

statistics = ctypes.CDLL(None).mallinfo2
statistics.restype = Statistics
kept = onnx_sparse.session_options("native") if sys.argv[1] == "kept" else None

def sessions(count):
    for _ in range(count):
        options = kept or onnx_sparse.session_options("native")
        ort.InferenceSession(SEGMENT_SUM.SerializeToString(), options).run(None, FEEDS)
        del options  # now nothing of the session is left
    gc.collect()
    found = statistics()
    return found.used + found.mapped

count = 200
before = sessions(50)
print((sessions(count) - before) / count)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs the statistics of glibc's malloc")
@pytest.mark.parametrize("options", ["new", "kept"])
def test_sessions_leave_no_memory_behind(options: str) -> None:
    """Also where no session and no options are left, so that ONNX Runtime closes the library."""
    done = subprocess.run(
        [sys.executable, "-c", _MANY_SESSIONS, options],
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parent.parent)},  # without what other tests put into sys.path
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 500, "bytes per session; ONNX Runtime itself leaves some 50"


def test_what_onnx_runtime_says_is_passed_on() -> None:
    session = InferenceSession(SEGMENT_SUM, backend="native")
    binding = session.io_binding()
    for name, array in FEEDS.items():
        binding.bind_cpu_input(name, array)
    wrong = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 2), np.float32))
    binding.bind_ortvalue_output("y", wrong)
    with pytest.raises(KernelError, match=r"^SegmentSum: segment_ids\[2\] = 2: an output of shape \[3, 2\]: .*\{2,2\}"):
        session.run_with_iobinding(binding)


@pytest.mark.slow
def test_many_session_options_and_sessions() -> None:
    for _ in range(50):
        options = onnx_sparse.session_options("native")
        sessions = [ort.InferenceSession(SEGMENT_SUM.SerializeToString(), options) for _ in range(2)]
        assert sessions[0].run(None, FEEDS)[0].tolist() == SUMS


def test_element_types_reach_the_operators_behind() -> None:
    """Even if the model says neither the rank of the inputs nor the type of the value in between."""
    m = model("g (float16[k,2] data, int64[k] ids) => (z) { y = onnx_sparse.SegmentSum (data, ids)  z = Abs (y) }")
    m.graph.input[0].type.tensor_type.ClearField("shape")
    (z,) = InferenceSession(m, backend="native").run(None, FEEDS | {"data": -FEEDS["data"].astype(np.float16)})
    assert z.dtype == np.float16
    assert z.tolist() == SUMS


def test_the_rank_of_an_output_is_left_to_the_run() -> None:
    m = model(
        "g (float[k,2] data, int64[k] ids) => (z) "
        "{ y = onnx_sparse.SegmentSum (data, ids)  z = Transpose <perm = [1, 0]> (y) }"
    )
    m.graph.input[0].type.tensor_type.ClearField("shape")
    assert InferenceSession(m, backend="native").run(None, FEEDS)[0].T.tolist() == SUMS


@pytest.mark.parametrize("outputs", [["oi", "ov", "d", "r"], ["oi", "ov", "d", ""], ["oi", "ov", "d"]])
def test_the_output_that_may_be_omitted(outputs: list[str]) -> None:
    m = model(
        "g (float[n] v, int64[2] s, int64[n,2] i, float x) => (oi, ov, d, r) "
        "{ oi, ov, d, r = onnx_sparse.SparseFillEmptyRows (v, s, i, x) }"
    )
    m.graph.node[0].output[:] = outputs
    if "r" not in outputs:
        m.graph.output.pop()
    inputs = {
        "v": np.array([5], np.float32),
        "s": np.array([2, 2]),
        "i": np.array([[1, 1]]),
        "x": np.array(7, np.float32),
    }
    expected = [[[0, 0], [1, 1]], [7, 5], [True, False], [1]]
    results = InferenceSession(m, backend="native").run(None, inputs)
    assert [r.tolist() for r in results] == expected[: len(results)]


def test_strings_with_zeros_in_them() -> None:
    m = model("g (int64[r] dims, string value) => (y) { y = onnx_sparse.Fill (dims, value) }")
    m.graph.input.pop()
    m.graph.initializer.append(onnx_sparse_string("a\0b"))
    length = InferenceSession(m, backend="native").run(None, {"dims": np.array([2])})[0].tolist()
    assert length == ["a\0b", "a\0b"]


def onnx_sparse_string(text: str) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor("value", TensorProto.STRING, [], [text.encode()])


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_decompressed_strings_have_a_bound(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all strings of a run together, in the library and in the definition."""
    monkeypatch.setenv("ONNX_SPARSE_DECOMPRESSED_MIB", "1")
    pack = {"ZLIB": zlib.compress, "GZIP": gzip.compress}[compression]
    text = f"""<ir_version: 10, opset_import: ["" : 21, "onnx_sparse" : 1]> g (string[n] x) => (string[n] y) {{
      y = onnx_sparse.DecodeCompressed <compression = "{compression}"> (x) }}"""
    session = InferenceSession(onnx.parser.parse_model(text), backend="native")
    half = pack(b"a" * (1 << 19))

    def strings(count: int) -> np.ndarray:
        return np.array([np.void(half)] * count, f"V{len(half)}")

    assert [len(each) for each in session.run(None, {"x": strings(2)})[0]] == [1 << 19] * 2
    assert len(decode_compressed(strings(2), compression=compression)) == 2
    message = r"the strings decompress to more than 1048576 bytes, up to input\[2\]"
    with pytest.raises(KernelError, match=message):
        session.run(None, {"x": strings(3)})
    with pytest.raises(KernelError, match=message):
        decode_compressed(strings(3), compression=compression)


def test_a_version_of_onnx_runtime_that_is_too_old_is_refused() -> None:
    """`GetApi` returns null for an unknown version; then only the first slot of version 1's table can be relied on."""
    messages = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def create_status(code: int, message: bytes) -> int:
        messages.append(message.decode())
        return 1

    table = (ctypes.c_void_p * 4)(ctypes.cast(create_status, ctypes.c_void_p))

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def get_api(version: int) -> int | None:
        return ctypes.addressof(table) if version == 1 else None

    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p))
    register = ctypes.CDLL(onnx_sparse.get_library_path()).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, ctypes.byref(base)) == 1
    assert messages == ["onnx_sparse needs ONNX Runtime 1.18 or later"]


@pytest.mark.parametrize("version", ["1.18.0", "1.21.1", "1.24.0", "1.32.0", "2.0.0"])
def test_it_asks_for_no_table_that_onnx_runtime_lacks(version: str) -> None:
    """ONNX Runtime would write a message to stderr for each session."""
    asked: list[int] = []
    entries: list[tuple[bytes, bytes]] = []
    succeeds = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: None)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    def add_entry(options: int, key: bytes, value: bytes) -> None:
        entries.append((key, value))

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def get_api(number: int) -> int:
        asked.append(number)
        return ctypes.addressof(table)

    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(text))
    text = ctypes.create_string_buffer(version.encode())
    # HasSessionConfigEntry leaves its answer at 0; the others register the operators.
    table = (ctypes.c_void_p * 500)(*[ctypes.cast(succeeds, ctypes.c_void_p)] * 500)
    table[130] = ctypes.cast(add_entry, ctypes.c_void_p)
    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p), ctypes.cast(get_version, ctypes.c_void_p))
    register = ctypes.CDLL(onnx_sparse.get_library_path()).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, ctypes.byref(base)) is None
    assert asked == [18]
    assert entries == [(b"onnx_sparse.backend", b"native")]
    _KEPT.extend((table, succeeds, add_entry))  # the library keeps the table's address


_KEPT: list[Any] = []


def test_a_library_that_the_environment_names_must_be_there() -> None:
    program = "import onnx_sparse; onnx_sparse.get_library_path()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"ONNX_SPARSE_LIBRARY": "/nowhere/lib.so"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ONNX_SPARSE_LIBRARY names /nowhere/lib.so, which is not a file" in done.stderr
