"""Embeddings that are keyed by hashes: models of TensorFlow Recommenders Addons, with what TensorFlow answered.

`tests/zoo/tfra_models.py` recorded them; TFRA_MODELS names a folder of others.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.tensorflow import convert, load, verify
from onnx_sparse.converters.tensorflow.reading.messages import SavedModel

RECORDED = sorted(Path(os.environ.get("TFRA_MODELS") or Path(__file__).parents[2] / "data" / "tfra").glob("*.zip"))
#: Where a root of a sum of squares of weights is computed in one operator: the last bit may differ.
ROUNDED = {"safe_weighted_bag_of_shards"}


def extracted(name, folder):
    """The model of a recorded name, and its batches: what was given, what was answered."""
    (archive,) = (path for path in RECORDED if path.stem == name)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    batches = []
    for file in sorted(folder.glob("*.npz")):
        arrays = {name: _as_objects(array) for name, array in np.load(file).items()}
        parts = ({n.removeprefix(kind): a for n, a in arrays.items() if n.startswith(kind)} for kind in KINDS)
        batches.append(tuple(parts))
    return folder / "saved_model", batches


KINDS = ("given ", "answer ")


def _as_objects(array):
    return array.astype(object) if array.dtype.kind == "S" else array


def ops(model):
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("name", [path.stem for path in RECORDED])
def test_recorded_models(name, tmp_path, run):
    """Bags, unique ids, safe lookups, sequences; one and four shards; keys in checkpoints and in files of their own."""
    source, batches = extracted(name, tmp_path)
    model = convert(source)
    assert len(batches) == 3
    for given, answered in batches:
        found = run(model, **given)
        for output, expected in answered.items():
            assert found[output].dtype == expected.dtype
            if name in ROUNDED:
                np.testing.assert_allclose(found[output], expected, rtol=1e-6, atol=1e-7)
            else:
                np.testing.assert_array_equal(found[output], expected)
    # One pass over the ids, in one table, whatever the number of shards.
    made = ops(model)
    assert (made["FindKeys"] + made["FindStrings"], made["Unique"], made["Compress"] > 3) == (1, 0, False)


def test_verification_needs_the_package(tmp_path):
    pytest.importorskip("tensorflow")
    source, _ = extracted("bag_of_means", tmp_path)
    with pytest.raises(ConversionError, match="where tensorflow-recommenders-addons is installed"):
        verify(load(source), convert(source))


def test_bags_are_one_lookup(tmp_path):
    model = convert(extracted("bag_of_means", tmp_path)[0])
    assert ops(model)["EmbeddingSegmentsMean"] == 1


def _files(source):
    folder = source / "variables" / "TFRADynamicEmbedding"
    return {file.name.partition("_mht_")[2][:4] + file.name.rpartition("-")[2]: file for file in folder.iterdir()}


def test_keys_in_other_shards_than_those_they_are_looked_up_in(tmp_path, run):
    """The source never finds them there, so the shards stay apart."""
    source, ((given, answered), *_) = extracted("layer_of_shards_in_files", tmp_path)
    files = _files(source)
    one, other = (np.fromfile(files[f"{k}of4keys"], np.int64) for k in (1, 2))
    one[0], other[0] = other[0], one[0]
    for k, keys in ((1, one), (2, other)):
        keys.tofile(files[f"{k}of4keys"])
    model = convert(source)
    assert ops(model)["FindKeys"] == 4
    moved = np.array([[one[0], other[0], 12345]])
    found = run(model, ids=moved)["answer"]
    np.testing.assert_array_equal(found[0, 0], found[0, 2])  # the row of keys that are absent
    np.testing.assert_array_equal(found[0, 1], found[0, 2])
    kept = ~np.isin(given["ids"], moved)
    np.testing.assert_array_equal(run(model, **given)["answer"][kept], answered["answer"][kept])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda files: files["3of4keys"].unlink(), "holds 3 files of the table, which are not all"),
        (lambda files: files["2of4values"].unlink(), "2of4_rank0_size1-values cannot be read"),
        (lambda files: files["2of4values"].write_bytes(b"\0" * 40), "has 40 bytes, which are not 12 rows of 4 of type"),
        (lambda files: files["2of4keys"].write_bytes(b"\0" * 12), "has 12 bytes, and a key of type int64 has 8"),
    ],
    ids=["a shard without keys", "no rows", "too few rows", "half a key"],
)
def test_damaged_files_are_refused(damage, message, tmp_path):
    source, _ = extracted("layer_of_shards_in_files", tmp_path)
    damage(_files(source))
    with pytest.raises(ConversionError, match=message):
        convert(source)


def test_files_that_lead_out_of_the_model_are_refused(tmp_path):
    source, _ = extracted("half_in_files", tmp_path / "model")
    keys = _files(source)["1of1keys"]
    keys.rename(tmp_path / "keys")
    keys.symlink_to(tmp_path / "keys")
    with pytest.raises(ConversionError, match="leads out of the folder"):
        convert(source)


def test_tables_whose_files_are_elsewhere_are_refused(tmp_path):
    source, _ = extracted("half_in_files", tmp_path)
    for file in _files(source).values():
        file.unlink()
    with pytest.raises(ConversionError, match="variables/TFRADynamicEmbedding"):
        convert(source)


def test_tables_in_redis_are_refused(tmp_path):
    source, _ = extracted("layer", tmp_path)
    file = source / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    graph = saved.meta_graphs[0].graph_def
    for node in [*graph.node, *(node for function in graph.library.function for node in function.node_def)]:
        node.op = node.op.replace("CuckooHashTable", "RedisTable")
    file.write_bytes(saved.SerializeToString())
    with pytest.raises(ConversionError, match="in a Redis server; save them with save_to_file_system"):
        convert(source)


class TestDeepRec:
    """Graphs written after DeepRec's documents and the declarations of its operators, with a checkpoint beside."""

    KEYS = np.array([-(2**63), 5, 2**62, 0], np.int64)
    ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
    ASKED = np.array([5, 6, 2**62, 0, 1, -(2**63)], np.int64)

    @pytest.fixture
    def saved(self, tmp_path):
        """`saved(first_rows, **attributes)` saves a model that gathers rows; `parts` holds some of the keys each."""
        tf = pytest.importorskip("tensorflow")

        def save(first, *, default=None, name="a/embedding", parts=None, **attributes):
            saver = tf.raw_ops.SaveV2
            (tmp_path / "variables").mkdir()
            parts = {"a/embedding": slice(None)} if parts is None else parts
            saver(
                prefix=str(tmp_path / "variables" / "variables"),
                tensor_names=[f"{part}-{what}" for part in parts for what in ("keys", "values")],
                shape_and_slices=["", ""] * len(parts),
                tensors=[tf.constant(array[some]) for some in parts.values() for array in (self.KEYS, self.ROWS)],
            )
            saved = SavedModel()
            meta = saved.meta_graphs.add()
            meta.meta_info_def.tags.append("serve")
            nodes = meta.graph_def.node

            def add(op, name, *inputs, **types):
                node = nodes.add(op=op, name=name, input=inputs)
                for key, number in types.items():
                    node.attr[key].type = number
                return node

            for const, array, number in (("first", first, 1), ("empty", np.int64(-1), 9), ("rows", default, 1)):
                if array is not None:
                    node = add("Const", const, dtype=number)
                    node.attr["value"].tensor.ParseFromString(tf.make_tensor_proto(array).SerializeToString())
            add("Placeholder", "ids", dtype=9)
            add("KvVarHandleOp", name, dtype=1, Tkeys=9)
            made = add("InitializeKvVariableV2Op", "make", name, name, "first", "empty", dtype=1)
            for key, value in attributes.items():
                setattr(made.attr[key], "f" if isinstance(value, float) else "i", value)
            found = add("KvResourceGather", "found", name, "ids", "rows" if default is not None else "first")
            found.attr["dtype"].type, found.attr["Tkeys"].type = 1, 9
            found.attr["is_use_default_value_tensor"].b = default is not None
            signature = meta.signature_def["serving_default"]
            for ports, port, tensor, number in (
                (signature.inputs, "ids", "ids:0", 9),
                (signature.outputs, "rows", "found:0", 1),
            ):
                ports[port].name, ports[port].dtype = tensor, number
                ports[port].tensor_shape.dim.add(size=-1)
                if port == "rows":
                    ports[port].tensor_shape.dim.add(size=3)
            (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
            return tmp_path

        return save

    def expected(self, absent):
        known = {int(key): row for key, row in zip(self.KEYS, self.ROWS, strict=True)}
        return np.array([known.get(int(key), absent(k, int(key))) for k, key in enumerate(self.ASKED)], np.float32)

    def test_one_row_for_absent_keys(self, saved, run):
        model = convert(saved(np.full((8, 3), 0.5, np.float32), default_value_dim=8))
        np.testing.assert_array_equal(run(model, ids=self.ASKED)["rows"], self.expected(lambda k, key: [0.5] * 3))
        assert ops(model) == {"FindKeys": 1, "Add": 1, "Gather": 1}

    @pytest.mark.parametrize("name", ["a/embedding", "a/embedding/part_0"])
    def test_parts_of_another_partition_are_joined(self, name, saved, run):
        """A graph with fewer parts than the checkpoint; else a key of another part would be absent."""
        parts = {
            "a/embedding/part_0": slice(0, 1),
            "a/embedding/part_1": slice(1, 3),
            "a/embedding/part_2": slice(3, 4),
        }
        model = convert(saved(np.full(3, 0.5, np.float32), name=name, parts=parts))
        np.testing.assert_array_equal(run(model, ids=self.ASKED)["rows"], self.expected(lambda k, key: [0.5] * 3))

    def test_parts_that_are_missing(self, saved):
        parts = {"a/embedding/part_0": slice(0, 1), "a/embedding/part_2": slice(1, 4)}
        with pytest.raises(ConversionError, match=r"has the parts \[0, 2\] of a/embedding, which are not all"):
            convert(saved(np.zeros(3, np.float32), parts=parts))

    def test_rows_of_absent_keys_by_remainder(self, saved, run):
        first = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
        model = convert(saved(first, default_value_dim=4))
        np.testing.assert_array_equal(run(model, ids=self.ASKED)["rows"], self.expected(lambda k, key: first[key % 4]))

    def test_rows_that_are_given(self, saved, run):
        given = np.random.default_rng(1).standard_normal((len(self.ASKED), 3)).astype(np.float32)
        model = convert(saved(np.zeros(3, np.float32), default=given))
        np.testing.assert_array_equal(run(model, ids=self.ASKED)["rows"], self.expected(lambda k, key: given[k]))

    def test_keys_that_a_filter_has_not_admitted(self, saved, run):
        first = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
        model = convert(saved(first, default_value_dim=4, filter_freq=3, default_value_no_permission=0.25))
        np.testing.assert_array_equal(run(model, ids=self.ASKED)["rows"], self.expected(lambda k, key: [0.25] * 3))
