"""Tables that are looked up by key: indexes of keys, and text as bytes and offsets, from Python.

Keys are inputs of FindKeys and FindStrings; the index that these search is built here, once, and becomes an
initializer beside the keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from onnx_sparse.reference import evaluate
from onnx_sparse.reference import keyed_tables as reference
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION, keyed_tables
from onnx_sparse.schemas.declaration import Op, element_type
from onnx_sparse.sessions.runtime import InferenceSession, available_backends

Array = np.ndarray[Any, Any]

#: Fewer keys are indexed by numpy before a session would have started.
_FEW = 10_000


def key_index(keys: Array) -> Array:
    """The index of integers for `FindKeys`, uint8[B]. The same keys give the same bytes on every machine.

    Args:
        keys: int32, int64 or uint64[N], none of them twice.

    Raises:
        KernelError: The keys are of another type or rank, or one is there twice; the message names both positions.
    """
    return _built(keyed_tables.INDEX_KEYS, keys)


def text_index(key_bytes: Array, key_offsets: Array) -> Array:
    """The index of text for `FindStrings`, uint8[B]; see `join_text` for its arguments.

    Args:
        key_bytes: The bytes of all keys, uint8[M].
        key_offsets: Where each key begins, and where the last one ends, int64[N + 1].

    Raises:
        KernelError: The offsets are not those of these bytes, or a key is there twice.
    """
    return _built(keyed_tables.INDEX_STRINGS, key_bytes, key_offsets)


def join_text(texts: Iterable[bytes | str]) -> tuple[Array, Array]:
    """Texts as `FindStrings` takes its keys: their bytes, uint8[M], and offsets, int64[N + 1].

    Args:
        texts: Bytes of any kind, or text, which becomes UTF-8; a surrogate in it stands for another byte.
    """
    encoded = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def split_text(key_bytes: Array, key_offsets: Array) -> list[bytes]:
    """The texts that `join_text` has joined."""
    data, offsets = key_bytes.tobytes(), key_offsets.tolist()
    return [data[begin:end] for begin, end in itertools.pairwise(offsets)]


def require_index(index: Array | None, *keys: Array) -> None:
    """Compare an index with all of its keys and slots. Without an index, only the keys are checked.

    Args:
        index: The index, uint8[B], or None. One without bytes is none.
        keys: The keys, or the bytes and offsets of text.

    Raises:
        KernelError: It is damaged, or an index of other keys; the offsets are not those of these bytes; without an
            index, a key is a duplicate.
    """
    if index is None or not index.size:
        _built(keyed_tables.INDEX_KEYS if len(keys) == 1 else keyed_tables.INDEX_STRINGS, *keys)
        return
    reference.require_index(index, *keys)


def _built(op: Op, *inputs: Array) -> Array:
    arrays = [np.asarray(array) for array in inputs]
    if arrays[-1].size < _FEW or "native" not in available_backends():
        return evaluate(op, arrays, {})[0]
    values = [
        helper.make_tensor_value_info(declared.name, element_type(array.dtype), [None] * array.ndim)
        for declared, array in zip(op.inputs, arrays, strict=True)
    ]
    names = [value.name for value in values]
    output = helper.make_tensor_value_info("index", TensorProto.UINT8, [None])
    graph = helper.make_graph([helper.make_node(op.name, names, ["index"], domain=DOMAIN)], "index", values, [output])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    session = InferenceSession(helper.make_model(graph, ir_version=10, opset_imports=imports), backend="native")
    built: Array = session.run(None, dict(zip(names, arrays, strict=True)))[0]
    return built
