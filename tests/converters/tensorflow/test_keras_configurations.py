"""Keras files whose configuration no model has: whatever Keras raises is one line, and what it asks for is limited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
h5py = pytest.importorskip("h5py")
pytest.importorskip("tensorflow")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import keras_source, load  # noqa: E402
from onnx_sparse.converters.tensorflow.keras_limits import time_within  # noqa: E402

VALUES = ["%s%n", "", "string", "no_such", -1, 0, 2**31, 2**62, 1e300, None, [], {}, [2**31, 2**31]]


def saved(path: Path, package: Any = keras) -> Path:
    """A small model in a file."""
    x = package.Input([4], name="ids", dtype="int32")
    rows = package.layers.Embedding(5, 3, name="rows")(x)
    state = package.layers.GRU(2, name="state")(package.layers.LayerNormalization(name="normal")(rows))
    package.Model(x, package.layers.Dense(2, "relu", name="dense")(state)).save(path)
    return path


def configuration(path: Path) -> Any:
    """What a file says of its model."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return json.loads(file.attrs["model_config"])
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("config.json"))


def configure(path: Path, config: Any) -> None:
    """Let a file say something else of its model."""
    text = json.dumps(config)
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            del file.attrs["model_config"]
            file.attrs["model_config"] = text
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in (parts | {"config.json": text.encode()}).items():
            archive.writestr(name, part)


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a configuration: what holds it, and its key or index there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from entries(value[key])


def layer(config: Any, name: str) -> Any:
    """What a configuration says of one of the layers."""
    return next(entry for entry in config["config"]["layers"] if entry["config"]["name"] == name)


def reason(path: Path) -> str:
    with pytest.raises(ConversionError) as caught:
        load(path)
    (line,) = str(caught.value).splitlines()
    assert "Exception encountered" not in line
    assert "\x1b" not in line
    raised: BaseException | None = caught.value
    chain = []
    while raised is not None and raised not in chain:
        chain.append(raised)
        raised = raised.__cause__ or raised.__context__
    assert raised is None, "errors that are raised from each other"
    return line


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_each_entry_of_a_configuration_replaced(tmp_path, monkeypatch, package, suffix, one_of):
    """A model or one line; by day, of some entries, which are others in each kind of file."""
    path = saved(tmp_path / f"model{suffix}", pytest.importorskip(package))
    monkeypatch.setattr(keras_source, "_SECONDS", 2)
    held = keras_source._examined_hdf5(path)
    monkeypatch.setattr(keras_source, "_examined_hdf5", lambda path: held)  # a process for each of many files
    sound = configuration(path)
    step = one_of(4)
    numbers = range((suffix == ".h5") * step // 2, len(list(entries(sound))), step)
    refusals = []
    for number in numbers:
        config = deepcopy(sound)
        holder, key = list(entries(config))[number]
        holder[key] = VALUES[number % len(VALUES)]
        configure(path, config)
        try:
            load(path)
        except ConversionError as error:
            refusals.append(str(error))
    assert 20 // step < len(refusals) < len(numbers) - 20 // step
    assert not [text for text in refusals if len(text.splitlines()) != 1]


def test_what_fails_when_the_model_runs(tmp_path):
    path = saved(tmp_path / "model.keras")
    config = configuration(path)
    layer(config, "normal")["config"]["epsilon"] = "x:0"
    configure(path, config)
    assert "type string" in reason(path)


def test_a_layer_whose_name_is_no_scope(tmp_path):
    path = saved(tmp_path / "model.keras")
    config = configuration(path)
    layer(config, "rows")["config"]["name"] = "%s%n"
    configure(path, config)
    assert "'%s%n' is not a valid scope name" in reason(path)


def test_a_model_in_memory_that_does_not_run():
    class Fails(keras.layers.Layer):
        def call(self, x):
            raise LookupError("not today")

        def compute_output_spec(self, x):
            return keras.KerasTensor(x.shape, x.dtype)

    x = keras.Input([3], name="x")
    with pytest.raises(ConversionError) as caught:
        load(keras.Model(x, Fails()(x), name="model"))
    assert str(caught.value) == "Keras cannot run the model model: not today"
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.pairwise
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(("name", "size"), [("rows", "input_dim"), ("state", "units"), ("dense", "units")])
def test_weights_that_the_file_does_not_hold(tmp_path, package, suffix, name, size):
    path = saved(tmp_path / f"model{suffix}", pytest.importorskip(package))
    config = configuration(path)
    layer(config, name)["config"][size] = 2**31 - 1
    configure(path, config)
    assert " weights or more, but it holds " in reason(path)


def test_weights_of_a_shape_to_build_with(tmp_path):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input([4], name="x"), keras.layers.LayerNormalization(name="normal")]).save(path)
    config = configuration(path)
    layer(config, "normal")["build_config"] = {"input_shape": [None, 2**31]}
    configure(path, config)
    assert " weights or more, but it holds 8; " in reason(path)


@pytest.mark.pairwise
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(
    "config", [{}, {"a": 1}, "dense", {"class_name": "Dense", "config": {"units": 2}}, [1], None, 1.5]
)
def test_what_is_no_model(tmp_path, package, suffix, config):
    path = saved(tmp_path / f"model{suffix}", pytest.importorskip(package))
    configure(path, config)
    assert reason(path).startswith(f"{path} cannot be read as a Keras model: ")


def waits_for_itself(config: Any) -> None:
    """Let a layer take what another makes of its own."""
    text = json.dumps(layer(config, "normal")["inbound_nodes"]).replace('"rows"', '"dense"')
    layer(config, "normal")["inbound_nodes"] = json.loads(text)


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_layers_that_wait_for_each_other(tmp_path, monkeypatch, package, suffix):
    monkeypatch.setattr(keras_source, "_SECONDS", 1)
    path = saved(tmp_path / f"model{suffix}", pytest.importorskip(package))
    config = configuration(path)
    waits_for_itself(config)
    configure(path, config)
    if package == "tf_keras":
        assert " Keras takes more than 1 seconds of the processor for it; " in reason(path)
    else:
        assert reason(path)
    done = time.monotonic() + 1.5
    while time.monotonic() < done:  # nothing comes afterwards
        pass


def test_time_that_is_up_where_everything_is_caught(tmp_path):
    def stubborn() -> None:
        with suppress(BaseException):
            circle()
        circle()

    def circle() -> None:
        end = time.thread_time() + 10
        while time.thread_time() < end:
            pass

    with pytest.raises(ConversionError, match="more than 0 seconds"), time_within(0.1, tmp_path):
        stubborn()


def test_time_that_is_up_at_the_end(tmp_path):
    """Comes in the block, or not at all."""
    for _ in range(5):
        begun = time.monotonic()
        with suppress(ConversionError), time_within(0, tmp_path):
            while time.monotonic() < begun + 1:
                pass


@pytest.mark.parametrize("seconds", [0, 100])
def test_the_thread_can_be_traced_afterwards(seconds):
    """As by a debugger or for coverage, which can hang Python when exceptions are raised in a thread from outside."""
    program = f"""
import sys, time
from contextlib import suppress
from pathlib import Path
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.tensorflow.keras_limits import time_within
end = time.monotonic() + 1.5
with suppress(ConversionError), time_within({seconds}, Path()):
    while time.monotonic() < end:
        pass
calls = []
sys.settrace(lambda frame, event, argument: calls.append(frame.f_code.co_name))
(lambda: None)()
sys.settrace(None)
assert calls == ["<lambda>"]
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("metadata", ["[]", "1", "null", '{"keras_version": null}', "[" * 50_000, '"\\udc80"'])
def test_metadata_of_no_file(tmp_path, metadata):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", metadata)
    assert reason(path).startswith(f"{path} ")


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_code_in_a_file_is_not_run(tmp_path, package, suffix):
    package = pytest.importorskip(package)
    done = tmp_path / "done"
    path = tmp_path / f"model{suffix}"
    code = package.layers.Lambda(lambda x, done=str(done): (os.mkdir(done), x)[1], output_shape=(3,))
    x = package.Input([3], name="x")
    package.Model(x, code(x)).save(path)
    if done.exists():  # Keras 2 has called it
        done.rmdir()
    assert reason(path).endswith(
        ": it holds code, as a Lambda layer does; if you trust it, load it with Keras and pass the model to convert()"
    )
    assert not done.exists()


def with_layer(path: Path, entry: dict[str, Any]) -> Path:
    """A file of Keras 2 with a layer more, which nothing needs."""
    package = pytest.importorskip("tf_keras")
    x = package.Input([3], name="x")
    package.Model(x, package.layers.Dense(2, name="dense")(x)).save(path)
    config = configuration(path)
    config["config"]["layers"].append({"name": "more", **entry, "config": {"name": "more", **entry["config"]}})
    configure(path, config)
    return path


@pytest.mark.pairwise
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(
    "function",
    [
        "io.gfile.remove",
        "compat.v1.gfile.Remove",
        "io.write_file",
        "raw_ops.WriteFile",
        "load_op_library",
        "py_function",
    ],
)
@pytest.mark.parametrize("kind", ["TFOpLambda", "SlicingOpLambda"])
def test_a_function_that_does_not_compute_is_not_called(tmp_path, kind, function, suffix):
    """Keras 2 would call it with the constants that the file gives."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    calls = [["_CONSTANT_VALUE", -1, str(kept), {}]]
    entry = {"class_name": kind, "config": {"function": function}, "inbound_nodes": calls}
    path = with_layer(tmp_path / f"model{suffix}", entry)
    assert f": {function} is not part of Keras" in reason(path)
    assert kept.read_text() == "kept"


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(
    "entry",
    [
        {"class_name": "function", "module": "os", "config": "mkdir", "registered_name": "mkdir"},
        {"class_name": "function", "module": "builtins", "config": "exec", "registered_name": "exec"},
        {"class_name": "function", "module": "keras.utils", "config": "get_file", "registered_name": "get_file"},
        {"class_name": "Popen", "module": "subprocess", "config": {}, "registered_name": None},
        {"class_name": "__typespec__", "module": "subprocess", "spec_name": "Popen", "config": ["true"]},
        {"class_name": "ClassMethod", "config": {"cls_symbol": "io.TFRecordWriter", "method_name": "write"}},
        {"class_name": "TensorFlowOpLayer", "config": {"node_def": '{"name": "w", "op": "WriteFile"}'}},
        {"class_name": "TensorFlowOpLayer", "config": {"node_def": 'name: "w"\nop: "ReadFile"'}},
        {"class_name": "StringLookup", "config": {"vocabulary": "/etc/hostname"}},
    ],
    ids=lambda entry: f"{entry['class_name']} {entry.get('module', '')}",
)
def test_what_is_named_that_is_not_part_of_keras(tmp_path, entry, suffix):
    """Anywhere in a configuration, for either Keras."""
    for package in (keras, pytest.importorskip("tf_keras")):
        path = saved(tmp_path / f"model{suffix}", package)
        config = configuration(path)
        layer(config, "dense")["config"]["kernel_initializer"] = entry
        configure(path, config)
        assert "is not part of Keras" in reason(path)


def test_functions_that_compute(tmp_path):
    package = pytest.importorskip("tf_keras")
    tf = pytest.importorskip("tensorflow")
    x = package.Input([3], name="x")
    y = tf.concat([tf.math.sin(x) + 1.0, x[:, 1:], tf.reshape(tf.nn.relu(x), [-1, 3])], axis=1)
    model = package.Model(x, tf.reduce_sum(tf.where(y > 0, y, tf.zeros_like(y)), axis=1))
    value = np.float32([[1, -2, 3]])
    for suffix in (".keras", ".h5"):
        path = tmp_path / f"model{suffix}"
        model.save(path)
        np.testing.assert_allclose(load(path).run({"x": value})[0], model(value), rtol=1e-6)


def test_more_weights_than_are_harmless(tmp_path):
    """What a file holds is not refused, however large."""
    path = tmp_path / "model.keras"
    model = keras.Sequential([keras.Input([1], name="ids", dtype="int32"), keras.layers.Embedding(1 << 22, 2)])
    model.save(path)
    assert load(path).run({"ids": np.zeros([1, 1], np.int32)})[0].shape == (1, 1, 2)
