"""Faults in the loops and bounds of the native kernels, written by hand; each is built in a scratch folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutation.planting import Mutant
from mutation.rooms import ROOT
from mutation.running import KILLED, SURVIVED, TIMED_OUT

_FOLDER = Path("onnx_sparse/native")
_CONTRACT = "tests/contract/test_errors.py tests/contract/test_corners.py tests/contract/test_examples.py"
_INDEX = "tests/contract/test_keyed_tables.py"

#: File, what it says, what it says with the fault, and which tests must find it: an expression for `-k`, and files.
_WRITTEN: tuple[tuple[str, str, str, str, str], ...] = (
    ("operators/requirements.cc", "first == 0 ? Id{0} : ids[first - 1]", "Id{0}", "", _CONTRACT),
    ("operators/requirements.cc", "if (!holds(first, static_cast<size_t>(end - first)))",
     "if (!holds(first, static_cast<size_t>(end - first - 1)))", "Segment", _CONTRACT),
    ("operators/requirements.cc", "if (at(0) != 0)", "if (at(0) < 0)", "Splits or Offsets or Ragged", _CONTRACT),
    ("operators/requirements.cc", "if (at(k) < at(k - 1)) throw", "if (false) throw",
     "Splits or Offsets or Ragged", _CONTRACT),
    ("operators/requirements.cc", "if (at(count - 1) != size) {", "if (at(count - 1) > size) {",
     "Splits or Offsets or Ragged", _CONTRACT),
    ("operators/requirements.cc", "if (id < 0) throw InvalidArgument{element(name, k) + \" = \" + std::to_string(id) "
     "+ \" must be >= 0\"};", "", "Segment", _CONTRACT),
    ("operators/requirements.cc", "if (offsets.integer() != 0) {", "if (offsets.integer() > 1) {",
     "Offsets", _CONTRACT),
    ("operators/requirements.cc", "> count) require_in_range(name, offsets, size, count + 1)",
     "> count + 1) require_in_range(name, offsets, size, count + 1)", "Offsets", _CONTRACT),
    ("operators/requirements.cc", "value >= high", "value > high", "Segment or Embedding", _CONTRACT),
    ("operators/requirements.cc", "for (int64_t k = 1; k < count; ++k) {", "for (int64_t k = 2; k < count; ++k) {",
     "Splits or Offsets or Ragged", _CONTRACT),
    ("operators/keyed_tables.cc", "slots % KeyPlaces::kBucketSlots != 0 || ", "", "buckets_that", _INDEX),
    ("operators/keyed_tables.cc", "buckets_ < places_.homes()", "buckets_ == 0", "buckets_that", _INDEX),
    ("operators/keyed_tables.cc", " || longest_ > buckets_", "", "buckets_that", _INDEX),
    ("operators/key_index.h", "{\"most buckets of a search\", {word64(index + 32), longest_}},", "", "told_so", _INDEX),
    ("operators/key_index.h", "checksum_of(index + KeyIndex::kHeaderBytes, slots)", "word64(index + 48)", "told_so",
     _INDEX),
    ("operators/json_lists.cc", "if (++depth == kDeepest) return 0;", "++depth;", "lists_so_deep",
     "tests/serving/test_long_lists.py"),
    ("operators/json_lists.cc", "return mantissa == std::floor(mantissa) && digits ==", "return digits ==",
     "every_value", "tests/serving/test_long_lists.py"),
    ("operators/json_lists.cc", " && digits == std::string_view(exact, write_integer(to, exact))", "",
     "every_value", "tests/serving/test_long_lists.py"),
)  # fmt: skip


def written() -> Iterator[tuple[Mutant, str]]:
    """The faults, each with the expression that selects its tests and their files.

    Raises:
        ValueError: A file no longer says what a fault changes, or says it more than once.
    """
    for file, old, new, chosen, tests in _WRITTEN:
        source = (ROOT / _FOLDER / file).read_text("utf-8")
        if source.count(old) != 1:
            raise ValueError(f"{_FOLDER / file} says {old!r} {source.count(old)} times, not once")
        at = source.index(old)
        yield Mutant(_FOLDER / file, source.count("\n", 0, at) + 1, old, new, at, tuple(tests.split())), chosen


def native_outcomes(only: str, limit: float) -> Iterator[tuple[Mutant, str]]:
    """Build and test each fault; between them only the changed file is compiled."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        copy = scratch / _FOLDER
        shutil.copytree(ROOT / _FOLDER, copy)
        shutil.copy(ROOT / _FOLDER.parent / "version.py", copy.parent)
        build = scratch / "build"
        configured = ["cmake", "-S", str(copy), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run(configured, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
        (library,) = build.glob("libonnx_sparse_native.*")
        for mutant, chosen in written():
            if only not in str(mutant):
                continue
            source = (ROOT / mutant.path).read_text("utf-8")
            (scratch / mutant.path).write_text(mutant.applied(source), "utf-8")
            built = subprocess.run(["cmake", "--build", str(build)], check=False, capture_output=True, text=True)
            if built.returncode != 0:
                raise ValueError(f"{mutant} does not compile:\n{built.stdout[-2000:]}")
            yield mutant, _verdict(library, mutant.tests, chosen, limit)
            (scratch / mutant.path).write_text(source, "utf-8")


def _verdict(library: Path, tests: Sequence[str], chosen: str, limit: float) -> str:
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *(["-k", f"({chosen}) and native"] if chosen else ["-k", "native"]),
    ]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        ran = subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd=ROOT,
            env=os.environ | {"ONNX_SPARSE_LIBRARY": str(library)},
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    return SURVIVED if ran.returncode == 0 else KILLED
