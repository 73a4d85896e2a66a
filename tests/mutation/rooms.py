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
        (_FAULTS, f"{_TESTS}/kernels/test_refusals.py", f"{_TESTS}/test_emitter.py"),
    ),
    "rules": Room(
        ("converters/rewriting/*.py", "converters/rewriting/rules/*.py"),
        (
            *(f"{_TESTS}/test_fuse_{name}.py" for name in ("bags", "scatters", "tf2onnx", "tf2onnx_reshape")),
            *(f"{_TESTS}/test_{name}.py" for name in ("checked_ids", "lost_rows", "simplification", "ragged_lookups")),
            *(f"{_TESTS}/test_tensorflow_{name}.py" for name in ("rewriting", "reduced_lookups", "gathered_rows")),
            "tests/test_fusing.py",
        ),
        needs=("tensorflow",),
    ),
    "verification": Room(
        ("converters/verification/*.py", "onnx_sparse/comparison.py"),
        (
            "tests/test_comparison.py",
            f"{_TESTS}/test_verification.py",
            f"{_TESTS}/test_verified_inputs.py",
            "tests/test_planted_faults.py",
        ),
    ),
    "conversion": Room(
        ("converters/pipeline/*.py", "converters/writing/*.py", "converters/*.py", "converters/onnx/*.py"),
        (
            *(f"{_TESTS}/test_{name}.py" for name in ("emitter", "folding", "operator_types", "errors", "sources")),
            *(f"{_TESTS}/test_{name}.py" for name in ("ascend_npu", "openvino_inference", "varint", "entry_points")),
            "tests/test_fusing.py",
        ),
    ),
    "rows": Room(
        ("onnx_sparse/rows/*.py", "onnx_sparse/batching.py", "onnx_sparse/arrow.py"),
        tuple(f"tests/test_{name}.py" for name in ("input_roles", "batching", "arrow", "features", "example_arrays")),
    ),
    "serving": Room(
        ("onnx_sparse/serving/*.py",),
        ("tests/serving/test_requests.py", "tests/serving/test_served_model.py", "tests/serving/test_server.py"),
    ),
    "native": Room(("onnx_sparse/native/**/*.cc", "onnx_sparse/native/**/*.h"), ()),
}
