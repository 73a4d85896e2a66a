"""Large variables are not read when a SavedModel is loaded: conversion maps the checkpoint's files."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, large_tables, late_variables, load, verify  # noqa: E402
from onnx_sparse.converters.tensorflow.checkpoint_index import large_tensors  # noqa: E402
from onnx_sparse.models import arrays_on_disk  # noqa: E402

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


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of a megabyte stay on disk."""
    monkeypatch.setattr(late_variables, "LEAST", 1 << 20)


FEEDS = {"ids": np.array([0, 4999, 7, 7, 1234])}


def answers(model: Any) -> list[np.ndarray]:
    return InferenceSession(model).run(None, FEEDS)


def test_the_same_model(saved: Path, late: None) -> None:
    model = convert(saved)
    late_variables.LEAST = 1 << 40
    assert model == convert(saved)


def test_what_is_on_disk(saved: Path, late: None) -> None:
    """All but the words, and numbers that numpy does not know."""
    loaded = load(saved)
    stored = [tensor.dtype.name for tensor in loaded._late._marks.values()]
    assert sorted(stored) == ["float32"] * 6 + ["float64", "int64"]
    loaded.run(FEEDS)
    for handle in loaded._concrete.captured_inputs:
        if handle._handle_data.is_set:
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=handle._handle_data.shape_and_type[0].dtype)
            assert loaded._late.value(np.asarray(value)) is None


def test_tables_are_never_in_memory(saved: Path, late: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "LARGE_MODEL", 1)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 1)
    tables: dict[str, Any] = {}
    convert(saved, tables=tables)
    assert sorted(table.shape for table in tables.values()) == [(5000, 64)] * 3 + [(20000, 64)]
    assert all(isinstance(table, np.memmap) for table in tables.values())


def test_verification_reads_them(saved: Path, late: None) -> None:
    """TensorFlow runs the model with the true values, as it does without any of this."""
    loaded = load(saved)
    model = convert(loaded)
    assert all(record.ok for record in verify(loaded, model))
    expected = tf.saved_model.load(str(saved)).signatures["serving_default"](ids=tf.constant(FEEDS["ids"]))
    for value, got in zip(loaded.run(FEEDS), answers(model), strict=True):
        assert any(np.allclose(value, want, rtol=1e-6) for want in expected.values() if want.shape == value.shape)
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)


def test_verification_first(saved: Path, late: None) -> None:
    loaded = load(saved)
    before = loaded.run(FEEDS)
    for value, got in zip(before, answers(convert(loaded)), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)


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
        reader = tf.train.load_checkpoint(str(checkpoint))
        found = large_tensors(checkpoint, 1)
        names = {name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name}
        assert {name for name in found if "VARIABLE_VALUE" in name} == names
        assert len(names) >= 900
        for name in names:
            expected, mapped = reader.get_tensor(name), found[name].mapped()
            assert (mapped.dtype, mapped.shape) == (expected.dtype, expected.shape)
            assert (mapped == expected).all()

    def test_damaged_ones_are_left_to_tensorflow(self, checkpoint: Path, tmp_path: Path) -> None:
        content = bytearray(checkpoint.with_name("values.index").read_bytes())
        shard = checkpoint.with_name("values.data-00000-of-00001").read_bytes()
        (tmp_path / "values.data-00000-of-00001").write_bytes(shard)
        index = tmp_path / "values.index"
        for cut in (0, 10, 47, 48, len(content) // 2, len(content) - 1):
            index.write_bytes(content[:cut])
            assert large_tensors(tmp_path / "values", 1) == {}
        rng = np.random.default_rng(1)
        for _ in range(300):
            changed = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 4)):
                changed[place] ^= 1 << int(rng.integers(8))
            index.write_bytes(changed)
            for tensor in large_tensors(tmp_path / "values", 1).values():
                assert tensor.mapped().nbytes <= len(shard)

    def test_a_shard_that_is_cut_off(self, checkpoint: Path, tmp_path: Path) -> None:
        (tmp_path / "values.index").write_bytes(checkpoint.with_name("values.index").read_bytes())
        (tmp_path / "values.data-00000-of-00001").write_bytes(b"")
        assert large_tensors(tmp_path / "values", 1) == {}


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, where writing to a mapped file would end the process."""
    assert not isinstance(arrays_on_disk.empty_array((10, 10), F), np.memmap)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 100)
    array = arrays_on_disk.empty_array((10, 10), F)
    assert isinstance(array, np.memmap)
    array[:] = 3
    with pytest.raises(arrays_on_disk.NoRoomError, match=r"no room for a table of \d+ bytes in this folder"):
        arrays_on_disk.empty_array((1 << 40, 1 << 10), F)


def test_a_full_disk_while_parts_are_joined(saved: Path, late: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is named, and nothing is said against the model."""
    monkeypatch.setattr(large_tables, "LARGE_MODEL", 1)
    monkeypatch.setattr(arrays_on_disk, "LEAST", 1)
    monkeypatch.setattr(os, "posix_fallocate", _full_disk)
    with pytest.raises(arrays_on_disk.NoRoomError) as error:
        convert(saved, tables={})
    assert error.value.filename == tempfile.gettempdir()


def _full_disk(*_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
