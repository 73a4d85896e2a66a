"""Tables that are constants, and large outputs, are kept in huge pages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

_ROWS = 500_000

#: Prints the change of the process's memory in huge pages, in MB, and a row that was looked up.
_LOOKUP = """
import re, sys
import numpy as np, onnx_sparse
from onnx import TensorProto, helper, numpy_helper

def in_huge_pages():
    with open("/proc/self/smaps_rollup") as lines:
        return int(re.search(r"AnonHugePages:\\s+(\\d+) kB", lines.read())[1]) // 1024

rows = int(sys.argv[1])
table = np.arange(rows * 32, dtype=np.float32).reshape(rows, 32)
node = helper.make_node("EmbeddingBagOffsetsSum", ["table", "indices", "offsets"], ["sums"], domain="onnx_sparse")
inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n"]) for name in ("indices", "offsets")]
output = helper.make_tensor_value_info("sums", TensorProto.FLOAT, None)
graph = helper.make_graph([node], "g", inputs, [output], [numpy_helper.from_array(table, "table")])
imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", onnx_sparse.OPSET_VERSION)]
model = helper.make_model(graph, ir_version=10, opset_imports=imports)
before = in_huge_pages()
session = onnx_sparse.InferenceSession(model, backend="native")
after = in_huge_pages()
(sums,) = session.run(None, {"indices": np.array([rows - 1]), "offsets": np.array([0])})
print(after - before, np.array_equal(sums, table[-1:]))
"""

#: Prints in how many MB of huge pages the memory of a run's output is, of 64 MB.
_FILL = """
import re
import numpy as np, onnx_sparse
from onnx import TensorProto, helper

node = helper.make_node("Fill", ["dims", "value"], ["filled"], domain="onnx_sparse")
inputs = [
    helper.make_tensor_value_info("dims", TensorProto.INT64, ["r"]),
    helper.make_tensor_value_info("value", TensorProto.FLOAT, []),
]
graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("filled", TensorProto.FLOAT, None)])
imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", onnx_sparse.OPSET_VERSION)]
session = onnx_sparse.InferenceSession(helper.make_model(graph, ir_version=10, opset_imports=imports), backend="native")
(filled,) = session.run(None, {"dims": np.array([16 << 20]), "value": np.array(3, np.float32)})
assert (filled == 3).all()
with open("/proc/self/smaps_rollup") as lines:
    print(int(re.search(r"AnonHugePages:\\s+(\\d+) kB", lines.read())[1]) // 1024)
"""

#: Whether the system makes huge pages at once: Linux 6.1 and later, where they are not turned off.
_PROBE = """
import ctypes, mmap
size = 4 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(bytes(size))
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
page = -(-address >> 21) << 21
choices = open("/sys/kernel/mm/transparent_hugepage/enabled").read()
failed = ctypes.CDLL(None).madvise(ctypes.c_void_p(page), ctypes.c_size_t(2 << 20), 25)
raise SystemExit("[never]" in choices or failed != 0)
"""


def _python(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # The memory of numpy's arrays is not counted, nor what malloc gives to ONNX Runtime.
    own = {"NUMPY_MADVISE_HUGEPAGE": "0", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=0", **environment}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)


def _lookup(rows: int, **environment: str) -> int:
    done = _python(_LOOKUP, str(rows), **environment)
    assert done.returncode == 0, done.stderr
    change, is_equal = done.stdout.split()
    assert is_equal == "True"
    return int(change)


@pytest.fixture(scope="module", autouse=True)
def _makes_huge_pages() -> None:
    if _python(_PROBE).returncode != 0:
        pytest.skip("this system does not make huge pages at once")


def test_a_large_constant_table_is_moved_to_them() -> None:
    # Of 61 MB. The library stops after a time, so a busy machine moves fewer: one of three attempts is enough.
    assert any(_lookup(_ROWS) >= 30 for _ in range(3))


def test_a_small_table_stays_where_it_is() -> None:
    assert _lookup(_ROWS // 10) <= 4


def test_it_can_be_turned_off() -> None:
    assert _lookup(_ROWS, ONNX_SPARSE_HUGE_PAGES="0") <= 4


@pytest.mark.parametrize(("wanted", "least", "most"), [("1", 58, 70), ("0", 0, 4)])
def test_a_large_output_is_written_to_them(wanted: str, least: int, most: int) -> None:
    done = _python(_FILL, ONNX_SPARSE_HUGE_PAGES=wanted)
    assert done.returncode == 0, done.stderr
    assert least <= int(done.stdout) <= most
