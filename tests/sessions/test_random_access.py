"""`InferenceSession(..., random_access=True)`: tables larger than memory."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models.test_quantization import FEEDS, model, table

import onnx_sparse

FEED = {name: FEEDS[name] for name in ("indices", "offsets", "default_index", "per_sample_weights")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    proto = model("EmbeddingBagOffsetsSum", table(50_000))
    onnx.save(proto, tmp_path / "model.onnx", save_as_external_data=True, location="tables of it.data")
    return tmp_path / "model.onnx"


def flags(path: Path) -> list[str]:
    """What the system knows of each mapping of the table's file."""
    maps = Path("/proc/self/smaps").read_text()
    return re.findall(rf" {re.escape(str(path.parent))}/tables of it\.data\n(?:.*\n)*?VmFlags:(.*)", maps)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is told")
def test_only_what_is_asked_for_is_read_at_random(path: Path) -> None:
    ordinary = onnx_sparse.InferenceSession(path)
    assert flags(path)
    assert not any("rr" in flag.split() for flag in flags(path))
    session = onnx_sparse.InferenceSession(path, random_access=True)
    assert any("rr" in flag.split() for flag in flags(path))
    assert (session.run(None, FEED)[0] == ordinary.run(None, FEED)[0]).all()


def test_it_survives_pickling(path: Path) -> None:
    session = pickle.loads(pickle.dumps(onnx_sparse.InferenceSession(path, random_access=True)))
    assert np.isfinite(session.run(None, FEED)[0]).all()


def test_models_without_such_tables(tmp_path: Path) -> None:
    proto = model("EmbeddingBagOffsetsSum", table())
    with pytest.raises(ValueError, match="pass the model's path"):
        onnx_sparse.InferenceSession(proto, random_access=True)
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"model\.onnx has none: onnx-sparse convert"):
        onnx_sparse.InferenceSession(tmp_path / "model.onnx", random_access=True)
