"""A source that cannot be converted is refused with one clear message that names every reason."""

import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from onnx_sparse.installation import install_command

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
h5py = pytest.importorskip("h5py")

from google.protobuf import text_format  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError, UnsupportedNode  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.converters.tensorflow.loading import load  # noqa: E402

GRAPH = """
node { name: "age" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: -1 } } } } }
node { name: "gamma" op: "BesselI0e" input: "age" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "whole" op: "Cast" input: "gamma"
       attr { key: "SrcT" value { type: DT_FLOAT } } attr { key: "DstT" value { type: DT_INT64 } } }
node { name: "text" op: "AsString" input: "whole" attr { key: "T" value { type: DT_INT64 } } }
node { name: "hash" op: "StringToHashBucket" input: "text" attr { key: "num_buckets" value { i: 7 } } }
"""


@pytest.fixture
def hashed(tmp_path):
    """A graph with several operators that nothing converts."""
    path = tmp_path / "wide.pbtxt"
    path.write_text(GRAPH)
    return path


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "two"
    module = tf.Module()
    spec = [tf.TensorSpec([2], name="features")]
    module.double = tf.function(lambda features: {"double": features * 2.0}, input_signature=spec)
    module.half = tf.function(lambda features: {"half": features / 2.0}, input_signature=spec)
    tf.saved_model.save(module, str(path), signatures={"double": module.double, "half": module.half})
    return path


def refusal(*args, **kwargs):
    with pytest.raises(ConversionError) as caught:
        convert(*args, **kwargs)
    assert "Traceback" not in str(caught.value)
    return caught.value


def line(*args, **kwargs):
    """The message of a refusal, which must be one line."""
    message = str(refusal(*args, **kwargs))
    assert "\n" not in message
    return message


def test_every_unsupported_node_is_listed(hashed):
    error = refusal(hashed)
    found = {(n.node, n.op_type) for n in error.unsupported}
    assert found == {("gamma", "BesselI0e"), ("hash", "StringToHashBucket")}
    assert str(error).startswith("2 nodes cannot be converted:\n")
    assert "gamma (BesselI0e): no converter for this operator" in str(error)
    assert "hash (StringToHashBucket): TensorFlow may change its hash from version to version" in str(error)


def test_only_what_leads_to_the_outputs_must_be_supported(hashed):
    assert [n.op_type for n in refusal(hashed, outputs=["gamma"]).unsupported] == ["BesselI0e"]
    assert convert(hashed, inputs=["gamma[-1]"], outputs=["text:0"]).graph.output[0].name == "text:0"


def test_unsupported_nodes_in_branches_are_listed():
    @tf.function(input_signature=[tf.TensorSpec([2]), tf.TensorSpec([], tf.bool)])
    def branches(x, left):
        if left:
            return tf.math.bessel_i0e(x)
        return tf.cast(tf.strings.to_hash_bucket(tf.as_string(tf.cast(x, tf.int64)), 3), tf.float32)

    assert {n.op_type for n in refusal(branches).unsupported} == {"BesselI0e", "StringToHashBucket"}


def test_a_handler_says_why():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None])])
    def complex_values(indices, x):
        z = tf.complex(x, x)
        filled = tf.raw_ops.SparseFillEmptyRows(indices=indices, values=z, dense_shape=[3, 2], default_value=z[0])
        return tf.math.real(filled.output_values)

    reasons = {n.op_type: n.reason for n in refusal(complex_values).unsupported}
    assert reasons["SparseFillEmptyRows"] == "it is not converted for complex numbers"


def test_a_saved_model_whose_signatures_are_something_else(saved_model, tmp_path):
    """TensorFlow fails where they are used; they are not needed to convert one of them."""
    path = tmp_path / "odd"
    shutil.copytree(saved_model, path)
    model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    nodes = model.meta_graphs[0].object_graph_def.nodes
    (signatures,) = (child.node_id for child in nodes[0].children if child.local_name == "signatures")
    nodes[signatures].user_object.identifier = "odd"
    (path / "saved_model.pb").write_bytes(model.SerializeToString())
    model = convert(path, signature="half")
    with pytest.raises(ConversionError, match=f"{path} cannot be loaded by TensorFlow: "):
        verify(path, model, signature="half")


@pytest.mark.parametrize("rest", ["", "dim { size: -1 }", "dim { size: 2 }"])
def test_an_input_that_takes_all_memory(tmp_path, rest):
    path = tmp_path / "huge.pbtxt"
    graph = GRAPH.split('node { name: "whole"')[0].replace("BesselI0e", "Abs")
    path.write_text(graph.replace("dim { size: -1 }", f"dim {{ size: 2147483647 }} {rest}"))
    assert re.match(
        r"input age has shape \[2147483647.*\], of more than 134217728 elements; give its TensorSpec", line(path)
    )


def test_a_constant_that_claims_all_memory(tmp_path):
    path = tmp_path / "huge.pbtxt"
    path.write_text("""
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "ones" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT float_val: 1.0
                                            tensor_shape { dim { size: 3 } dim { size: 2147483647 } } } } } }
node { name: "sum" op: "Add" input: "x" input: "ones" attr { key: "T" value { type: DT_FLOAT } } }
""")
    assert "ones (Const): a constant of shape [3, 2147483647] is too large" in str(refusal(path))


@pytest.mark.parametrize("transform", ["fft3d", "ifft3d", "irfft3d"])
def test_transforms_of_complex_numbers_say_why(transform):
    spec = [tf.TensorSpec([2, 3, 4, 4], tf.float32, "x")]

    @tf.function(input_signature=spec)
    def spectrum(x):
        return tf.math.real(getattr(tf.signal, transform)(tf.complex(x, x)))

    (node,) = [each for each in refusal(spectrum).unsupported if each.op_type.lower() == transform]
    assert "has no complex tensors" in node.reason


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128, tf.variant], ids=lambda t: t.name)
def test_ends_of_a_type_that_onnx_runtime_lacks(dtype):
    function = tf.function(lambda x: {"y": tf.identity(x)}, input_signature=[tf.TensorSpec([2], dtype, "x")])
    assert line(function) == f"input x is {dtype.name}, which ONNX Runtime cannot take or give"


def test_an_input_of_unknown_rank():
    function = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec(None, name="x")])
    assert line(function) == "input x has no known rank; say its shape with its name, such as x[-1,3]"


def test_inputs_of_unknown_rank_next_to_others():
    """`--inputs` takes all inputs: the line has the value to type, and the ranks that convert."""
    specs = [tf.TensorSpec(None, name="x"), tf.TensorSpec([None, 3], name="y"), tf.TensorSpec(None, name="images")]

    @tf.function(input_signature=specs, autograph=False)
    def both(x, y, images):
        return {"sum": x + y, "transposed": tf.raw_ops.Roll(input=images, shift=[1, 2], axis=[2, 3])}

    assert line(both) == (
        "input x has no known rank; say its shape with its name, such as x[-1,3]; input images has no known rank; say "
        "its shape with its name, such as images[-1,-1,-1,-1] (what reads it takes 4 to 8 dimensions); with all "
        "inputs: --inputs 'x[-1,3],y,images[-1,-1,-1,-1]'"
    )
    model = convert(both, inputs=["x[-1,3]", "y", "images[-1,-1,-1,-1]"])
    assert [len(value.type.tensor_type.shape.dim) for value in model.graph.input] == [2, 2, 4]


def test_a_path_that_does_not_exist(tmp_path):
    assert line(tmp_path / "nothing.pb") == f"no such file or directory: {tmp_path / 'nothing.pb'}"


def test_a_directory_that_is_not_a_saved_model(tmp_path):
    assert line(tmp_path) == f"{tmp_path} is not a SavedModel: it holds no saved_model.pb"


def test_a_damaged_saved_model(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    path = tmp_path / "saved_model.pb"
    assert line(tmp_path) == f"{path} holds no SavedModel: it is damaged, cut short, or something else"
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert line(tmp_path) == f"{tmp_path} is not a SavedModel: its saved_model.pb is empty"


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"")
    assert line(path) == (
        f"{path} is not a SavedModel directory, Keras file (.keras, .h5), GraphDef (.pb, .pbtxt) or graph of a "
        "checkpoint (.meta)"
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(b"")
    assert line(path).startswith(f"{path} is a model of TensorFlow Lite, which is not read; convert the SavedModel ")


class TestCheckpoints:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("checkpoint", "model.ckpt.index", "model.ckpt.data-00000-of-00001"):
            (tmp_path / name).write_bytes(b"")
        return tmp_path

    @pytest.mark.parametrize("name", ["model.ckpt", "model.ckpt.index", "model.ckpt.data-00000-of-00001"])
    def test_by_their_files(self, folder, name):
        path = folder / name
        assert line(path).startswith(f"{path} is a checkpoint; it has values without a graph, so convert ")
        (folder / "model.ckpt.meta").write_bytes(b"")
        assert line(path) == f"{path} is a checkpoint; give {folder / 'model.ckpt.meta'}, which has its graph"

    def test_by_their_folder(self, folder):
        assert line(folder).startswith(f"{folder} is a folder of checkpoints; it has values without a graph, ")
        meta = folder / "model.ckpt-7.meta"
        meta.write_bytes(b"")
        assert line(folder) == f"{folder} is a folder of checkpoints; give its .meta file, such as {meta}"


def test_a_truncated_graph_def(tmp_path):
    path = tmp_path / "cut.pb"
    graph_def = text_format.Parse(GRAPH, tf.compat.v1.GraphDef())
    path.write_bytes(graph_def.SerializeToString()[:-5])
    assert line(path) == f"{path} holds no GraphDef: it is damaged, cut short, or something else"


def test_a_graph_def_that_lacks_nodes(tmp_path):
    path = tmp_path / "lacking.pbtxt"
    path.write_text(GRAPH[GRAPH.index('node { name: "gamma"') :])
    assert "gamma (BesselI0e): it reads age, which nothing makes" in str(refusal(path))


@pytest.mark.parametrize("name", ["empty.pb", "empty.pbtxt"])
def test_an_empty_graph_def(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    assert line(tmp_path / name) == f"{tmp_path / name} is empty"


def test_a_pbtxt_that_is_not_text(tmp_path):
    path = tmp_path / "binary.pbtxt"
    path.write_bytes(b"\xff\xfe\x00")
    assert line(path) == f"{path} holds no GraphDef: it is damaged, cut short, or something else"


def test_a_file_that_is_not_a_keras_model(tmp_path):
    path = tmp_path / "model.keras"
    for content in (b"", b"no zip"):
        path.write_bytes(content)
        assert line(path) == f"{path} is not a Keras file: it is damaged, cut short, or something else"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no model")
    assert line(path) == f"{path} is not a Keras file: it is damaged, cut short, or something else"


def test_a_file_that_is_not_hdf5(tmp_path):
    for name in ("model.h5", "model.hdf5"):
        path = tmp_path / name
        for content in (b"", b"\x89HDF\r\n\x1a\n"):
            path.write_bytes(content)
            assert line(path) == f"{path} is not an HDF5 file: it is damaged, cut short, or something else"


def test_a_file_of_weights(tmp_path):
    path = tmp_path / "model.weights.h5"
    keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)]).save_weights(path)
    assert line(path) == f"{path} holds weights without a model; give the model itself to convert()"


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_file_of_keras_2_without_it(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"model{suffix}"
    if suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.attrs.update(model_config="{}", keras_version="2.15.0")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("metadata.json", '{"keras_version": "2.15.0"}')
            archive.writestr("config.json", "{}")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert line(path) == f"{path} cannot be read as a Keras model: Keras 2.15.0 saved it; run: pip install tf-keras"


def test_a_keras_file_with_a_custom_layer(tmp_path):
    class Doubled(keras.layers.Layer):
        def call(self, x):
            return x * 2

    path = tmp_path / "model.keras"
    keras.Sequential([keras.layers.Input((3,)), Doubled()]).save(path)
    assert "Doubled is not part of Keras; name the module that defines it with --import, or load" in line(path)


def test_the_file_inside_a_saved_model(saved_model):
    assert line(saved_model / "saved_model.pb") == (
        f"{saved_model / 'saved_model.pb'} belongs to a SavedModel; give its directory, {saved_model}"
    )


def test_an_unknown_signature(saved_model):
    program = f"""
import sys
sys.modules["tensorflow"] = None
from onnx_sparse.converters.tensorflow import load
try:
    load({str(saved_model)!r}, signature="third")
except Exception as error:
    print(error)
"""
    without_tensorflow = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert without_tensorflow.stdout == f"{saved_model} has no signature 'third'; it has double, half\n"
    assert line(saved_model, signature="third") == f"{saved_model} has no signature 'third'; it has double, half"


def test_several_signatures_and_none_of_them_the_default(saved_model):
    assert line(saved_model) == f"{saved_model} has several signatures, choose one: double, half"


def test_a_signature_of_a_source_without_signatures(hashed):
    assert line(hashed, signature="double") == (f"{hashed} has no signatures; only a SavedModel directory has")


def test_a_saved_model_without_signatures(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    assert line(tmp_path).startswith(f"{tmp_path} has no signatures; save it with ")


@pytest.fixture
def unsigned(tmp_path):
    """A SavedModel of TensorFlow 1 with a variable, and with neither signatures nor tags."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.float32, [None, 2], "image")
        weight = tf.compat.v1.get_variable("weight", initializer=3.0)
        tf.multiply(image, weight, name="scores")
        session.run(tf.compat.v1.global_variables_initializer())
        builder = tf.compat.v1.saved_model.builder.SavedModelBuilder(str(tmp_path / "old"))
        builder.add_meta_graph_and_variables(session, [])
        builder.save()
    return tmp_path / "old"


def test_a_saved_model_without_signatures_by_its_tensors(unsigned):
    with pytest.raises(ConversionError) as refused:
        load(unsigned)
    suggested = "choose tensors of its graph, as in --inputs=image:0 --outputs=scores:0"
    assert str(refused.value) == f"{unsigned} has no signatures; {suggested}"
    model, image = load(unsigned, inputs=["image:0"], outputs=["scores:0"]), np.ones((3, 2), np.float32)
    assert model.run({"image:0": image})[0].tolist() == [[3.0, 3.0]] * 3
    converted = onnx_sparse.convert(unsigned, inputs=["image:0"], outputs=["scores:0"], verify=True).model
    session = onnx_sparse.InferenceSession(converted)
    assert session.run(None, {session.get_inputs()[0].name: image})[0].tolist() == [[3.0, 3.0]] * 3
    with pytest.raises(ConversionError, match="no tensor named 'score:0'; did you mean scores"):
        load(unsigned, outputs=["score:0"])


def test_unknown_names_of_tensors(hashed):
    assert line(hashed, outputs=["gamm:0"]) == "no tensor named 'gamm:0'; did you mean gamma?"
    assert line(hashed, inputs=["xyz"]).startswith("no tensor named 'xyz'; there is age, gamma, ")
    assert line(hashed, outputs=["text:1"]) == "no tensor named 'text:1'; did you mean text?"


def test_unknown_names_of_a_signature(saved_model):
    wanted = {"signature": "double"}
    assert line(saved_model, outputs=["duoble"], **wanted) == "no output named 'duoble'; did you mean double?"
    assert line(saved_model, inputs=["feature"], **wanted) == "no input named 'feature'; did you mean features?"


def test_an_input_that_the_model_needs_is_omitted(saved_model, hashed):
    assert line(saved_model, signature="half", inputs=[]) == "the model needs every input: features was omitted"
    assert line(hashed, inputs=[]) == "the model needs every input: age was omitted"


def test_a_name_given_twice(hashed):
    assert line(hashed, inputs=["age", "age:0"]) == "input age:0 is given twice"


def test_a_function_without_a_signature():
    def free(x):
        return x

    assert line(tf.function(free)).startswith("free has no input_signature; give it one, or convert ")


def test_a_keras_model_that_does_not_know_its_inputs():
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    assert line(Subclassed(name="mine")).startswith("mine does not know its inputs; call it on a batch, or convert ")


def test_something_else_altogether():
    assert line(42) == "an object of type int is not a path, Keras model, tf.function or ConcreteFunction of TensorFlow"


def test_tensorflow_is_not_installed(monkeypatch, tmp_path):
    path = tmp_path / "model.h5"
    path.write_bytes(b"\x89HDF")
    real = importlib.import_module

    def missing(name, *args):
        if name == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert line(path) == f"tensorflow is not installed; run: {install_command('tensorflow')}"


def test_the_package_is_imported_without_tensorflow():
    code = "import sys, onnx_sparse.converters.tensorflow as c; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_nothing_is_written_to_the_terminal(tmp_path, hashed):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
    code = (
        "import sys; from onnx_sparse.converters import ConversionError\n"
        "from onnx_sparse.converters.tensorflow import convert\n"
        "try: convert(sys.argv[1])\n"
        "except ConversionError: pass\n"
        "convert(sys.argv[1], inputs=['gamma[-1]'], outputs=['text'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(hashed)], env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_loggers_are_left_as_they_were(hashed):
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl")]
    loggers[1].setLevel(logging.INFO)
    before = [logger.level for logger in loggers]
    refusal(hashed)
    assert [logger.level for logger in loggers] == before


def test_numpy_is_left_as_it_was(hashed):
    names = set(dir(np))
    refusal(hashed)
    assert set(dir(np)) == names


def test_messages_of_the_error():
    nodes = [UnsupportedNode("a", "Foo", "because"), UnsupportedNode("b", "Bar", "why not")]
    assert str(ConversionError(unsupported=nodes[:1])) == "1 node cannot be converted:\n  a (Foo): because"
    assert str(ConversionError(unsupported=nodes)) == (
        "2 nodes cannot be converted:\n  a (Foo): because\n  b (Bar): why not"
    )
    assert str(ConversionError("plain")) == "plain"
    assert ConversionError("plain").unsupported == ()


def damaged(graph_def):
    """The constants of a graph and its functions, whose tensors get another type than they say."""
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    constants = [node for node in nodes if node.op == "Const"]
    for constant in constants:
        constant.attr["value"].tensor.dtype = tf.uint64.as_datatype_enum
    return [constant.name for constant in constants]


def test_a_damaged_constant_of_a_graph(tmp_path):
    """TensorFlow would end the process."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None], "x")
        tf.concat([x, x], 0, name="twice")
    definition = graph.as_graph_def()
    (name,) = damaged(definition)
    (tmp_path / "a.pb").write_bytes(definition.SerializeToString())
    assert f"{name} (Const): it holds uint64, not the int32 that it says" in str(refusal(tmp_path / "a.pb"))


def test_a_damaged_constant_of_a_saved_model(saved_model, tmp_path):
    path = shutil.copytree(saved_model, tmp_path / "damaged")
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    names = damaged(saved.meta_graphs[0].graph_def)
    (path / "saved_model.pb").write_bytes(saved.SerializeToString())
    error = str(refusal(path, signature="double"))
    assert any(f"{name} (Const): it holds uint64" in error for name in names)
