"""Tables of many keys: in files of other converters, and the vocabularies of TensorFlow and Keras."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.lowering.keyed_lookup import MOST_ENCODED, KeyedTable
from onnx_sparse.keyed_tables import join_text, key_index, text_index

pytestmark = pytest.mark.pins("LargeDictionary")

COUNT = MOST_ENCODED + 200
WORDS = [f"w{k}" for k in range(COUNT - 2)] + ["", "ä"]
IDS = np.random.default_rng(0).permutation(10**6)[:COUNT]
VALUES = {
    "strings": (TensorProto.STRING, np.array([f"v{k % 9}" for k in range(COUNT)], object), "other"),
    "int64s": (TensorProto.INT64, np.arange(COUNT), 77),
    "floats": (TensorProto.FLOAT, np.random.default_rng(1).standard_normal(COUNT).astype(np.float32), 2.5),
}
KEYS = {"strings": (TensorProto.STRING, np.array(WORDS, object)), "int64s": (TensorProto.INT64, IDS)}


def ops(model):
    return Counter(node.op_type for node in model.graph.node)


def dictionary(keys, values, version=2, **attributes):
    """A model of one LabelEncoder."""
    given = helper.make_tensor_value_info("x", keys, ["n", 2])
    made = helper.make_tensor_value_info("y", values, ["n", 2])
    node = helper.make_node("LabelEncoder", ["x"], ["y"], name="enc", domain="ai.onnx.ml", **attributes)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(helper.make_graph([node], "g", [given], [made]), ir_version=10, opset_imports=imports)


def queries(keys):
    """Keys, the first and the last among them, and what is none."""
    absent = "?" if keys.dtype == object else -5
    return np.array([keys[0], keys[-1], absent, keys[COUNT // 2]], keys.dtype).reshape(2, 2)


def same(model, keys):
    """Fuse a model, and compare what it finds."""
    fused = onnx_sparse.fuse(model)
    expected, found = (onnx_sparse.InferenceSession(m).run(None, {"x": queries(keys)})[0] for m in (model, fused))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    return fused


@pytest.mark.parametrize("has_default", [False, True])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_large_dictionaries_with_lists(keys, values, has_default):
    """As skl2onnx and tf2onnx write them."""
    (key_type, known), (value_type, held, default) = KEYS[keys], VALUES[values]
    attributes = {f"keys_{keys}": known.tolist(), f"values_{values}": held.tolist()}
    if has_default:
        attributes[f"default_{values[:-1]}"] = default
    fused = same(dictionary(key_type, value_type, **attributes), known)
    assert ops(fused)["FindStrings" if keys == "strings" else "FindKeys"] == 1
    assert ops(fused)["Gather"] == (values != "int64s")  # a value that is the position needs no table


@pytest.mark.parametrize("held", [np.float32(0.5), np.int64(3), np.float64(0.25)], ids=lambda v: str(v.dtype))
@pytest.mark.parametrize("keys", KEYS)
def test_large_dictionaries_with_tensors(keys, held):
    key_type, known = KEYS[keys]
    tensors = {"keys": known, "values": np.arange(COUNT).astype(held.dtype) * held, "default": np.array([held])}
    attributes = {f"{name}_tensor": numpy_helper.from_array(array) for name, array in tensors.items()}
    value_type = helper.np_dtype_to_tensor_dtype(held.dtype)
    assert "LabelEncoder" not in ops(same(dictionary(key_type, value_type, 4, **attributes), known))


@pytest.mark.parametrize("change", ["small", "a key twice", "keys of floats"])
def test_dictionaries_that_stay(change):
    known, held = IDS.copy(), np.arange(COUNT)
    if change == "small":
        known, held = known[:MOST_ENCODED], held[:MOST_ENCODED]
    if change == "a key twice":
        known[7] = known[3]
    if change == "keys of floats":
        model = dictionary(1, 7, keys_floats=known.astype(np.float32).tolist(), values_int64s=held.tolist())
    else:
        model = dictionary(7, 7, keys_int64s=known.tolist(), values_int64s=held.tolist())
    assert ops(onnx_sparse.fuse(model)) == {"LabelEncoder": 1}


class TestVocabulariesOfTensorFlow:
    """To the bit as TensorFlow, and without a table of values where these are positions."""

    @pytest.fixture(autouse=True)
    def tensorflow(self):
        self.tf = pytest.importorskip("tensorflow")

    def table(self, keys, values, default):
        return self.tf.lookup.StaticHashTable(self.tf.lookup.KeyValueTensorInitializer(keys, values), default)

    def compared(self, agree, look_up, *batches):
        tf = self.tf
        dtype = tf.string if batches[0].dtype == object else tf.as_dtype(batches[0].dtype)
        function = tf.function(look_up, input_signature=[tf.TensorSpec([None], dtype)])
        return [ops(agree(function, batch)) for batch in batches][-1]

    ASKED = np.array(["w0", "nothing", WORDS[-1], "", "w7"], object)

    @pytest.mark.parametrize(
        ("first", "default", "expected"),
        [(0, -1, {"FindStrings": 1}), (2, 1, {"FindStrings": 1, "Add": 1}), (2, 9, {"Add": 1, "Less": 1, "Where": 1})],
    )
    def test_positions(self, agree, first, default, expected):
        table = self.table(WORDS, np.arange(COUNT) + first, default)
        assert self.compared(agree, table.lookup, self.ASKED) >= Counter(expected)

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    def test_other_values(self, agree, dtype):
        held = np.random.default_rng(2).standard_normal(COUNT).astype(np.float32)
        table = self.table(IDS.astype(dtype), held if dtype == "int64" else np.arange(COUNT, dtype=dtype), 7)
        asked = np.array([IDS[0], -1, IDS[-1]], dtype)
        assert self.compared(agree, table.lookup, asked)["FindKeys"] == 1

    def test_buckets_of_absent_words(self, agree):
        initializer = self.tf.lookup.KeyValueTensorInitializer(WORDS, np.arange(COUNT))
        table = self.tf.lookup.StaticVocabularyTable(initializer, 5)
        assert self.compared(agree, table.lookup, self.ASKED)["FindStrings"] == 1

    @pytest.mark.parametrize("held", ["counted", "floats", "words"])
    def test_defaults_that_are_computed(self, agree, held):
        tf = self.tf
        values = {"counted": np.arange(COUNT) + 5, "floats": VALUES["floats"][1], "words": WORDS}[held]
        table = self.table(IDS, values, values[0])
        dtype = table._value_dtype

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([], dtype)])
        def look_up(keys, default):
            return tf.raw_ops.LookupTableFindV2(
                table_handle=table.resource_handle, keys=keys, default_value=tf.identity(default)
            )

        asked, default = np.array([IDS[0], -1, IDS[-1]]), np.array(values[7], object if held == "words" else None)
        made = ops(agree(look_up, asked, default))
        assert (made["FindKeys"], made["Concat"]) == (1, 0)  # the table is not copied in each call

    def test_layers(self, agree):
        layers = self.tf.keras.layers
        words = layers.StringLookup(vocabulary=WORDS[:-2], num_oov_indices=2)
        ids = layers.IntegerLookup(vocabulary=IDS.tolist())
        texts = layers.TextVectorization(vocabulary=WORDS[:-2])
        assert self.compared(agree, lambda x: words(x), self.ASKED)["FindStrings"] == 1
        assert self.compared(agree, lambda x: ids(x), np.array([IDS[3], 5, IDS[-1]]))["FindKeys"] == 1
        assert self.compared(agree, lambda x: texts(x), np.array(["w1 no W7", ""], object))["FindStrings"] == 1

    def test_a_table_that_several_nodes_read_is_there_once(self, agree):
        table = self.table(IDS, np.random.default_rng(3).standard_normal(COUNT).astype(np.float32), 0.5)
        model = agree(
            self.tf.function(
                lambda x: table.lookup(x) + table.lookup(x + 1), input_signature=[self.tf.TensorSpec([None], "int64")]
            ),
            np.array([IDS[0], IDS[1] - 1]),
        )
        assert ops(model)["FindKeys"] == 2
        assert [list(t.dims) for t in model.graph.initializer].count([COUNT]) == 1


@pytest.mark.parametrize("count", [4, COUNT])
def test_keys_that_are_there_twice(count):
    """With one value they are one key; with two there is no answer that all runtimes give."""
    keys, values = IDS[:count].copy(), np.random.default_rng(4).standard_normal(count).astype(np.float32)
    keys[3], values[3] = keys[1], values[1]
    assert len(self_contained(keys, values)) == count - 1
    values[3] += 1
    with pytest.raises(Unsupported, match=rf"the key {keys[1]} at 1 and, with another value, at 3"):
        self_contained(keys, values)


def self_contained(keys, values):
    """A table that has been looked up once."""
    emit = TensorFlowEmitter()
    table = KeyedTable(emit, keys, values)
    table.looked_up(emit, Tensor("x", TensorProto.INT64, (None,)), emit.constant(np.float32(0)))
    return table


@pytest.mark.parametrize("count", [0, 1, COUNT])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "text"])
def test_forms_without_kernels(dtype, count):
    """The keys of an initializer become attributes of a LabelEncoder, in any ONNX runtime."""
    if dtype == "text":
        keys = np.array(WORDS[::-1][:count], object)
        *inputs, index = (*(held := join_text(keys)), text_index(*held))
        queries = np.array([*keys[:3], "?"], object)
    else:
        info = np.iinfo(dtype)
        keys = np.unique(np.array([info.max, info.min, *range(1, COUNT - 1)], dtype))[::-1][:count].copy()
        *inputs, index = keys, key_index(keys)
        queries = np.array([*keys[:3], info.max // 3], dtype)
    names = [f"key_{k}" for k in range(len(inputs))]
    constants = [numpy_helper.from_array(a, n) for a, n in zip((*inputs, index), (*names, "index"), strict=True)]
    op_type = "FindStrings" if dtype == "text" else "FindKeys"
    node = helper.make_node(op_type, [*names, "index", "x"], ["y"], domain="onnx_sparse", name="find")
    element = TensorProto.STRING if dtype == "text" else helper.np_dtype_to_tensor_dtype(keys.dtype)
    values = [helper.make_tensor_value_info("x", element, ["n"]), helper.make_tensor_value_info("y", 7, ["n"])]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    graph = helper.make_graph([node], "g", values[:1], values[1:], constants)
    model = helper.make_model(graph, ir_version=10, opset_imports=imports)
    (expected,) = onnx_sparse.InferenceSession(model).run(None, {"x": queries})
    assert expected.tolist() == [*range(min(count, 3)), -1]
    for form in (onnx_sparse.embed_functions(model), onnx_sparse.lower(model)):
        (found,) = ort.InferenceSession(form.SerializeToString()).run(None, {"x": queries})
        np.testing.assert_array_equal(found, expected)
    assert not {t.name for t in form.graph.initializer} & {*names, "index"}
