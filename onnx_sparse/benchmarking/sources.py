"""The model that a model came from, opened to be timed: it is given numpy arrays and returns them, as the model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import ConversionError, require
from onnx_sparse.rows.columns import Array
from onnx_sparse.settings import Backend

Run = Callable[[Mapping[str, Array]], object]

#: What runs each source, as it is called in results.
PROGRAMS = {"tensorflow": "TensorFlow", "torch": "torch", "openvino": "OpenVINO", "onnx": "the ONNX file"}


def open_source(
    path: str, origin: str, threads: int, names: Sequence[str], options: Mapping[str, Any]
) -> tuple[list[str], Run]:
    """The names of a source's inputs, and what runs it.

    Args:
        path: Its file or folder.
        origin: What it is: a key of `PROGRAMS`.
        threads: The number of threads that it may use. TensorFlow takes it once in a process.
        names: The inputs of the converted model but for its states; those of an IR are in the same order.
        options: What TensorFlow's `load` is given: a `signature`, for example.

    Raises:
        ConversionError: It cannot be opened, or a package that it needs is not installed.
    """
    if origin == "openvino":
        return list(names), _openvino(path, threads, names)
    if origin == "tensorflow":
        return _tensorflow(path, threads, options)
    openers = {"torch": _torch, "onnx": _onnx}
    if origin not in openers:
        raise ConversionError(f"{path}: no program here runs models of the source {origin}")
    return openers[origin](path, threads)


def _tensorflow(path: str, threads: int, options: Mapping[str, Any]) -> tuple[list[str], Run]:
    tf = require("tensorflow", "tensorflow")
    from onnx_sparse.converters.tensorflow.load import load

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    loaded = load(path, **options)
    return [port.name for port in loaded.inputs], lambda feeds: loaded.run(_as_objects(feeds))


def _as_objects(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Messages as objects, which TensorFlow takes."""
    return {name: value.astype(object) if value.dtype.type is np.void else value for name, value in feeds.items()}


def _torch(path: str, threads: int) -> tuple[list[str], Run]:
    torch = require("torch", "torch")
    from onnx_sparse.converters.torch.source import load

    torch.set_num_threads(threads)
    loaded = load(path)
    return loaded.inputs, loaded.run


def _openvino(path: str, threads: int, names: Sequence[str]) -> Run:
    openvino = require("openvino", "openvino")
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": str(threads)})
    request = compiled.create_infer_request()

    def run(feeds: Mapping[str, Array]) -> object:
        given = (feeds[name] for name in names)  # by position: OpenVINO may know a tensor by several names
        try:
            return request.infer([v.astype(str) if v.dtype == object else v for v in given], share_inputs=True)
        except RuntimeError as error:  # where it was raised comes first, what is wrong last
            raise RuntimeError(str(error).strip().splitlines()[-1]) from error

    return run


def _onnx(path: str, threads: int) -> tuple[list[str], Run]:
    session = open_model(path, threads, "auto")
    names = [value.name for value in session.get_inputs()]
    return names, lambda feeds: session.run(None, dict(feeds))


def open_model(path: str, threads: int, backend: Backend) -> Any:
    """A session of a model that uses so many threads."""
    import onnxruntime

    from onnx_sparse.sessions.runtime import InferenceSession

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # a failure raises an exception and is reported once
    return InferenceSession(path, options, backend=backend)
