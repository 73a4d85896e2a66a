"""Strings of any bytes in and out of ONNX Runtime, whose Python binding takes and gives text.

Left alone, it takes the bytes `b"ab"` for the text `"b'ab'"`, reads arrays of numpy's type `S` beyond the end of each
string, and returns no string that is not UTF-8.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

Array = np.ndarray[Any, Any]

#: What reads strings as their bytes; see `bytes_of_value`.
_ENCODER = "EncodeBase64"


def string_inputs(session: ort.InferenceSession) -> frozenset[str]:
    """The names of the inputs that are strings."""
    return frozenset(value.name for value in session.get_inputs() if value.type == "tensor(string)")


def has_string_outputs(session: ort.InferenceSession) -> bool:
    """Whether the model gives strings."""
    return any(value.type == "tensor(string)" for value in session.get_outputs())


def as_text(value: Any) -> Any:
    """An array of strings as text, if there are bytes in it which are UTF-8; otherwise as an array of bytes objects.

    Args:
        value: What is fed: an array, or whatever numpy makes one of. Other values, and arrays of numpy's type `void`,
            which ONNX Runtime reads as they are, are returned as they are.
    """
    if isinstance(value, ort.OrtValue):
        return value
    array = np.asarray(value)
    if array.dtype.kind != "S" and (array.dtype != object or all(type(item) is str for item in array.flat)):
        return value
    items = list(array.flat)
    if not any(isinstance(item, bytes) for item in items):
        return value
    try:
        return _shaped([item.decode() if isinstance(item, bytes) else item for item in items], array.shape)
    except UnicodeDecodeError:
        return _shaped([_bytes(item) for item in items], array.shape)


def is_text(value: Any) -> bool:
    """Whether ONNX Runtime's Python binding takes what `as_text` has returned."""
    is_array = isinstance(value, np.ndarray) and value.dtype == object
    return not (is_array and any(isinstance(item, bytes) for item in value.flat))


def require_takeable(feed: Mapping[str, Any]) -> None:
    """Refuse strings that cannot be read while a run goes on.

    Raises:
        ValueError: There are strings that are not UTF-8.
    """
    for name, value in feed.items():
        if not is_text(value):
            raise ValueError(f"input {name} has strings that are not UTF-8: run() takes them, run_async() does not")


def strings_of(value: Any) -> Iterable[str | bytes]:
    """The strings in what `as_text` has returned."""
    if isinstance(value, ort.OrtValue):
        return []
    return [item.tobytes() if isinstance(item, np.void) else item for item in np.asarray(value).flat]


def _bytes(item: Any) -> bytes:
    """The bytes of a string; a surrogate in text stands for a byte that is not UTF-8."""
    if isinstance(item, np.void):
        return item.tobytes()
    return item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")


def to_ort_value(array: Array) -> ort.OrtValue:
    """Strings as an OrtValue, which the Python binding makes only as the result of a session.

    Args:
        array: Text or bytes; a surrogate in text stands for a byte that is not UTF-8.
    """
    tensor = numpy_helper.from_array(_shaped([_bytes(item) for item in array.flat], array.shape), "strings")
    node = helper.make_node("Constant", [], ["strings"], value=tensor)
    result = helper.make_tensor_value_info("strings", TensorProto.STRING, array.shape)
    graph = helper.make_graph([node], "strings", [], [result])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # no pool of threads to start
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_output("strings")
    session.run_with_iobinding(binding)
    value = binding.get_outputs()[0]
    value.session = session  # which may own the memory
    return value


def to_numpy(value: ort.OrtValue, open_session: Callable[[ModelProto], ort.InferenceSession]) -> Any:
    """An output as an array: strings as text, or as bytes where one of them is not UTF-8.

    Args:
        value: The output.
        open_session: Opens a session on a model with the native kernels.
    """
    try:
        return value.numpy()
    except UnicodeDecodeError:
        session = open_session(_encoding_model())
        (encoded,) = session.run_with_ort_values(["text"], {"bytes": value})
        return _shaped([base64.urlsafe_b64decode(text) for text in encoded.numpy().flat], value.shape())


def _encoding_model() -> ModelProto:
    """A model that writes strings in base64, which is text."""
    node = helper.make_node(_ENCODER, ["bytes"], ["text"], domain=DOMAIN, padding="EQUALS")
    bytes_in, text_out = (helper.make_tensor_value_info(name, TensorProto.STRING, None) for name in ("bytes", "text"))
    graph = helper.make_graph([node], "bytes", [bytes_in], [text_out])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def _shaped(items: list[Any], shape: Iterable[int]) -> Array:
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(tuple(shape))
