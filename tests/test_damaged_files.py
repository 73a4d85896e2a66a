"""A file with a flipped bit is refused, with its name, or converted to the same tables.

`ONNX_SPARSE_FLIPS=2000 pytest tests/test_damaged_files.py` flips more bits. Checkpoints have a test of their own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.converters.errors import ConversionError

_FLIPS = int(os.environ.get("ONNX_SPARSE_FLIPS", "0")) or 24


def tables(model: ModelProto) -> list[bytes]:
    return sorted(numpy_helper.to_array(tensor).tobytes() for tensor in model.graph.initializer)


def flips(path: Path, read: Callable[[], list[bytes]], names: tuple[str, ...]) -> int:
    """How many of the flipped bits are refused."""
    content, expected, refused = path.read_bytes(), read(), 0
    for seed in range(_FLIPS):
        place = random.Random(seed).randrange(len(content) * 8)
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        said = _refusal(lambda: read() == expected)
        assert said is None or all(name in said for name in names), f"bit {place} of {path.name}: {said}"
        refused += said is not None
    path.write_bytes(content)
    return refused


def _refusal(equals: Callable[[], bool]) -> str | None:
    """What a refusal says; None if the tables are equal."""
    try:
        return None if equals() else "a table has changed"
    except ConversionError as error:
        return str(error)


@pytest.mark.parametrize("options", [{}, {"external_data": False}, {"fuse": True}], ids=str)
def test_external_data(tmp_path: Path, options: dict[str, bool]) -> None:
    """Data that this package has written have a checksum: that of the file."""
    graph = onnx.parser.parse_graph(
        "g (int64[k] i, int64[k] s, int64 n) => (float[n, 8] y, float[k, 8] z)"
        "{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) z = Gather (u, i) }"
    )
    for name in "tu":
        table = np.random.default_rng(0).standard_normal((4000, 8)).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(table, name))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    made = onnx_sparse.convert(helper.make_model(graph, opset_imports=imports, ir_version=10))
    made.save(tmp_path / "model.onnx", external_data=True)

    def read() -> list[bytes]:
        onnx_sparse.convert(tmp_path / "model.onnx", tmp_path / "out.onnx", **options)  # type: ignore[arg-type]
        return tables(onnx.load(tmp_path / "out.onnx"))

    assert flips(tmp_path / "model.onnx.data", read, ("model.onnx.data", "tensor ")) == _FLIPS


def test_archives_of_torch(tmp_path: Path) -> None:
    """A member has a checksum, and torch does not compare it."""
    torch = pytest.importorskip("torch")
    from onnx_sparse.converters.torch.source import load

    module = torch.nn.Embedding(500, 8)
    program = torch.export.export(module, (torch.arange(4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "model.pt2")

    def read() -> list[bytes]:
        return [value.detach().numpy().tobytes() for value in load(tmp_path / "model.pt2").program.state_dict.values()]

    assert flips(tmp_path / "model.pt2", read, ("model.pt2",)) > _FLIPS / 2
