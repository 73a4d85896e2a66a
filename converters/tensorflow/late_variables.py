"""Large variables of a SavedModel that TensorFlow does not read: conversion takes them from the checkpoint's files.

TensorFlow reads every variable when it loads a model. A large one gets memory here that nobody has touched, which the
system provides only when it is used, and in its first bytes a mark by which its true value is found.
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from onnx_sparse.converters.tensorflow.checkpoint_index import StoredTensor, large_tensors
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.writing.tensor import Array

#: Variables of fewer bytes are read by TensorFlow.
LEAST = 1 << 26

#: The keys of variables end like this; those of lookup tables, which TensorFlow needs when it loads, do not.
_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"

_MARK = 32


class LateVariables:
    """The variables whose values are not in memory."""

    def __init__(self, stored: Mapping[str, StoredTensor]) -> None:
        self._stored = stored
        self._marks: dict[bytes, StoredTensor] = {}

    def stand_in(self, key: str) -> Any:
        """A tensor of TensorFlow of a variable's type and shape that takes no memory."""
        stored = self._stored[key]
        mark = secrets.token_bytes(_MARK)
        self._marks[mark] = stored
        memory = mmap.mmap(-1, stored.nbytes)
        memory[:_MARK] = mark
        array = np.frombuffer(memory, stored.dtype).reshape(stored.shape)
        return require("tensorflow").experimental.dlpack.from_dlpack(array.__dlpack__())

    def value(self, array: Array) -> Array | None:
        """The true value of a variable; None if the array is that."""
        if not self._marks or array.nbytes < LEAST:
            return None
        stored = self._marks.get(array.reshape(-1)[: _MARK // array.itemsize].tobytes())
        return None if stored is None else stored.mapped()

    def read(self, handles: Sequence[Any]) -> None:
        """Read the values of the variables among the tensors that a function captures: TensorFlow can use them then."""
        operators = require("tensorflow").raw_ops
        for handle in handles if self._marks else ():
            data = getattr(handle, "_handle_data", None)
            if data is None or not data.is_set:
                continue
            dtype = data.shape_and_type[0].dtype
            value = self.value(np.asarray(operators.ReadVariableOp(resource=handle, dtype=dtype)))
            if value is not None:
                operators.AssignVariableOp(resource=handle, value=value)


@contextmanager
def left_on_disk(prefix: Path) -> Iterator[LateVariables]:
    """While a SavedModel is loaded, do not read its large variables.

    Args:
        prefix: Its checkpoint: `.../variables/variables`.
    """
    found = large_tensors(prefix, LEAST)
    stored = {key: tensor for key, tensor in found.items() if key.endswith(_VARIABLE) and _can_stand_in(tensor)}
    late = LateVariables(stored)
    if not stored:
        yield late
        return
    io_ops = require("tensorflow.python.ops.io_ops")
    executing_eagerly = require("tensorflow").executing_eagerly
    restore = io_ops.restore_v2

    def restore_small(file_prefix: Any, names: Any, slices: Any, dtypes: Any, name: Any = None) -> Any:
        keys = [key.decode() if isinstance(key, bytes) else key for key in _strings(names)]
        whole = [not part for part in _strings(slices)]
        late_ones = [is_whole and key in stored for key, is_whole in zip(keys, whole, strict=True)]
        if not executing_eagerly() or _text(file_prefix) != str(prefix) or not any(late_ones):
            return restore(file_prefix, names, slices, dtypes, name)
        rest = [place for place, is_late in enumerate(late_ones) if not is_late]
        read = iter(())
        if rest:
            some = [[list(given)[place] for place in rest] for given in (keys, _strings(slices), dtypes)]
            read = iter(restore(file_prefix, *some, name))
        return [late.stand_in(key) if is_late else next(read) for key, is_late in zip(keys, late_ones, strict=True)]

    with mock.patch.object(io_ops, "restore_v2", restore_small):
        yield late


def _can_stand_in(tensor: StoredTensor) -> bool:
    """Whether numpy can hand over such an array: not the types that it does not know itself."""
    return tensor.dtype.isbuiltin == 1 and tensor.dtype.kind in "fiu"


def _strings(given: Any) -> list[Any]:
    return list(given.numpy()) if hasattr(given, "numpy") else list(given)


def _text(given: Any) -> str:
    value = given.numpy() if hasattr(given, "numpy") else given
    return value.decode() if isinstance(value, bytes) else str(value)
