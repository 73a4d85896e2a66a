"""Checkpoints are read, large variables mapped from their files, without TensorFlow."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.errors import ConversionError, Unsupported  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, large_tables, load, verify  # noqa: E402
from onnx_sparse.converters.tensorflow.reading import checkpoint as checkpoint_reader  # noqa: E402
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint  # noqa: E402
from onnx_sparse.models.data import arrays_on_disk  # noqa: E402

F = np.float32
RNG = np.random.default_rng(0)


class Recommender(tf.Module):
    """Lookups in whole tables and in one of four parts, a dense layer, and a lookup table."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = tf.Variable(RNG.standard_normal((5000, 64)).astype(F))
        self.twice = tf.Variable(RNG.standard_normal((5000, 64)))
        self.counts = tf.Variable(RNG.integers(0, 9, (5000, 64)), dtype=tf.int64)
        self.halves = tf.Variable(RNG.standard_normal((5000, 64)).astype(F), dtype=tf.bfloat16)
        self.parts = [tf.Variable(RNG.standard_normal((5000, 64)).astype(F)) for _ in range(4)]
        self.dense = tf.Variable(RNG.standard_normal((64, 5000)).astype(F))
        keys = tf.constant([f"item {k}" for k in range(3000)])
        self.words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.words.insert(keys, tf.range(3000, dtype=tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids")])
    def score(self, ids: Any) -> dict[str, Any]:
        rows = tf.nn.embedding_lookup(self.whole, ids)
        parts = tf.compat.v1.nn.embedding_lookup(self.parts, ids, partition_strategy="mod")
        return {
            "scores": (rows + parts) @ self.dense,
            "twice": tf.nn.embedding_lookup(self.twice, ids),
            "counts": tf.nn.embedding_lookup(self.counts, ids),
            "halves": tf.cast(tf.nn.embedding_lookup(self.halves, ids), tf.float32),
        }


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    model = Recommender()
    tf.saved_model.save(model, path, signatures=model.score.get_concrete_function())
    return path


FEEDS = {"ids": np.array([0, 4999, 7, 7, 1234])}


def test_tables_are_never_in_memory(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parts of the checkpoint's files, or of a temporary one where parts are joined."""
    monkeypatch.setattr(large_tables, "LARGE_MODEL", 1)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 1)
    monkeypatch.setattr(checkpoint_reader, "MAPPED", 1)
    tables: dict[str, Any] = {}
    convert(saved, tables=tables)
    assert sorted(table.shape for table in tables.values()) == [(5000, 64)] * 3 + [(20000, 64)]
    assert all(isinstance(table, np.memmap) for table in tables.values())


def test_the_same_answers_as_tensorflow(saved: Path) -> None:
    loaded = load(saved)
    model = convert(loaded)
    assert all(record.ok for record in verify(loaded, model))
    expected = tf.saved_model.load(str(saved)).signatures["serving_default"](ids=tf.constant(FEEDS["ids"]))
    got = dict(zip([v.name for v in model.graph.output], InferenceSession(model).run(None, FEEDS), strict=True))
    assert got.keys() == expected.keys()
    for name, value in got.items():
        np.testing.assert_allclose(value, expected[name].numpy(), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many names that the index has several blocks."""
    values = {
        f"layer {k % 7}/{'w' * (k % 50)} {k}": tf.Variable(RNG.integers(0, 99, (k % 5 + 1, 3)), dtype=dtype)
        for k in range(900)
        for dtype in [[tf.float32, tf.int64, tf.float64, tf.int8, tf.float16][k % 5]]
    }
    prefix = tmp_path_factory.mktemp("checkpoint") / "values"
    tf.train.Checkpoint(**values).write(str(prefix))
    return prefix


class TestIndex:
    def test_every_tensor(self, checkpoint: Path) -> None:
        reader, found = tf.train.load_checkpoint(str(checkpoint)), Checkpoint(checkpoint)
        names = {name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name}
        assert len(names) >= 900
        assert set(found.object_keys().values()) == names
        for name in names:
            expected, stored = reader.get_tensor(name), found.read(name)
            assert (stored.dtype, stored.shape) == (expected.dtype, expected.shape)
            assert (stored == expected).all()

    def test_damaged_ones_are_refused(self, checkpoint: Path, tmp_path: Path) -> None:
        content = bytearray(checkpoint.with_name("values.index").read_bytes())
        shard = checkpoint.with_name("values.data-00000-of-00001").read_bytes()
        (tmp_path / "values.data-00000-of-00001").write_bytes(shard)
        index = tmp_path / "values.index"
        for cut in (0, 10, 47, 48, len(content) // 2, len(content) - 1):
            index.write_bytes(content[:cut])
            with pytest.raises(ConversionError, match=r"values\.index is damaged"):
                Checkpoint(tmp_path / "values")
        rng = np.random.default_rng(1)
        for _ in range(300):
            changed = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 4)):
                changed[place] ^= 1 << int(rng.integers(8))
            index.write_bytes(changed)
            with suppress(ConversionError, Unsupported):
                found = Checkpoint(tmp_path / "values")
                for key in found.object_keys().values():
                    assert found.read(key).nbytes <= len(shard)

    def test_a_shard_that_is_cut_off(self, checkpoint: Path, tmp_path: Path) -> None:
        (tmp_path / "values.index").write_bytes(checkpoint.with_name("values.index").read_bytes())
        (tmp_path / "values.data-00000-of-00001").write_bytes(b"")
        with pytest.raises(Unsupported, match="is cut off before the end of "):
            Checkpoint(tmp_path / "values").object_keys()


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, where writing to a mapped file would end the process."""
    assert not isinstance(arrays_on_disk.empty_array((10, 10), F), np.memmap)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 100)
    array = arrays_on_disk.empty_array((10, 10), F)
    assert isinstance(array, np.memmap)
    array[:] = 3
    with pytest.raises(arrays_on_disk.NoRoomError, match=r"no room for a table of \d+ bytes in this folder"):
        arrays_on_disk.empty_array((1 << 40, 1 << 10), F)


def test_a_full_disk_while_parts_are_joined(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is named, and nothing is said against the model."""
    monkeypatch.setattr(large_tables, "LARGE_MODEL", 1)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 1)
    monkeypatch.setattr(os, "posix_fallocate", _full_disk)
    with pytest.raises(arrays_on_disk.NoRoomError) as error:
        convert(saved, tables={})
    assert error.value.filename == tempfile.gettempdir()


def _full_disk(*_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
