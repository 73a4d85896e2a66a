"""Which tests are the nearest to a room's sources: those that must notice a fault there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TESTS = "tests/converters"
_FAULTS = f"{_TESTS}/onnxruntime"


@dataclass(frozen=True)
class Room:
    """Some source files and their tests.

    Attributes:
        sources: Patterns of the files, from the root.
        tests: What pytest is given.
        needs: Packages that the tests import, and that take seconds to import.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()

    def files(self) -> Iterator[Path]:
        """The source files, from the root."""
        for pattern in self.sources:
            yield from (path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern)) if path.name != "__init__.py")


ROOMS = {
    "guards": Room(
        ("converters/onnxruntime/*.py",),
        (_FAULTS, f"{_TESTS}/kernels/test_refusals.py", f"{_TESTS}/writing/test_emitter.py"),
    ),
    "rules": Room(
        ("converters/rewriting/*.py", "converters/rewriting/rules/*.py"),
        (
            f"{_TESTS}/onnx",
            f"{_TESTS}/rewriting",
            *(
                f"{_TESTS}/tensorflow/test_{name}.py"
                for name in ("ragged_lookups", "rewriting", "reduced_lookups", "gathered_rows")
            ),
        ),
        needs=("tensorflow",),
    ),
    "verification": Room(
        ("converters/verification/*.py", "onnx_sparse/comparison.py"),
        (
            "tests/test_comparison.py",
            *(
                f"{_TESTS}/verification/test_{name}.py"
                for name in ("verification", "verified_inputs", "planted_faults")
            ),
        ),
    ),
    "conversion": Room(
        ("converters/pipeline/*.py", "converters/writing/*.py", "converters/*.py", "converters/onnx/*.py"),
        (
            *(f"{_TESTS}/writing/test_{name}.py" for name in ("emitter", "folding", "entry_points")),
            *(f"{_TESTS}/test_{name}.py" for name in ("operator_types", "errors", "varint")),
            f"{_TESTS}/roads/test_sources.py",
            f"{_TESTS}/ascend/test_npu.py",
            f"{_TESTS}/openvino/test_inference.py",
            f"{_TESTS}/onnx/test_fusing.py",
        ),
    ),
    "rows": Room(
        ("onnx_sparse/rows/*.py", "onnx_sparse/batching.py", "onnx_sparse/arrow.py"),
        (
            *(f"tests/test_{name}.py" for name in ("batching", "arrow")),
            *(f"tests/rows/test_{name}.py" for name in ("input_roles", "features", "example_arrays")),
        ),
    ),
    "serving": Room(
        ("onnx_sparse/serving/*.py",),
        ("tests/serving/test_requests.py", "tests/serving/test_served_model.py", "tests/serving/test_server.py"),
    ),
    "native": Room(("onnx_sparse/native/**/*.cc", "onnx_sparse/native/**/*.h"), ()),
}
