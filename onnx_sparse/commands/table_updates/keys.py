"""The keys of a table: integers, or texts as one run of bytes and where each begins."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from onnx_sparse.errors import CommandError
from onnx_sparse.keyed_tables import join_text, key_index, split_text, text_index
from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import element_type
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.sessions.ort_errors import ort_message

if TYPE_CHECKING:
    from onnx_sparse.sessions.runtime import InferenceSession

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Keys:
    """Keys in the form of the inputs of the operator that finds them.

    Attributes:
        arrays: Integers; or the bytes of texts and the offsets of each.
    """

    arrays: tuple[Array, ...]

    @classmethod
    def of(cls, keys: Array) -> Keys:
        """Keys of an array of integers, or of objects that are bytes."""
        return cls(join_text(keys) if keys.dtype == object else (keys,))

    @property
    def is_text(self) -> bool:
        """Whether they are texts."""
        return len(self.arrays) == 2

    def __len__(self) -> int:
        return len(self.arrays[-1]) - self.is_text

    def values(self, some: Any = slice(None)) -> Array:
        """Some of them: integers, or objects that are bytes."""
        if not self.is_text:
            return np.asarray(self.arrays[0][some])
        content, offsets = self.arrays
        if isinstance(some, slice):
            begin, end, _ = some.indices(len(self))
            offsets = offsets[begin : max(begin, end) + 1]
            content, some = content[offsets[0] : offsets[-1]], slice(None)
            offsets = offsets - offsets[0]
        found = np.empty(len(offsets) - 1, object)
        found[:] = split_text(content, offsets)
        return np.asarray(found[some])

    def where(self, is_kept: Array, more: Keys) -> Keys:
        """Those that are marked, and more."""
        if not self.is_text:
            (old,), (new,) = self.arrays, more.arrays
            joined = empty_array((int(is_kept.sum()) + len(new),), old.dtype)
            at = 0
            for rows in row_ranges(old):
                part = old[rows][is_kept[rows]]
                joined[at : at + len(part)] = part
                at += len(part)
            joined[at:] = new
            return Keys((joined,))
        lengths = np.diff(self.arrays[1])
        kept = self.arrays[0][np.repeat(is_kept, lengths)]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([lengths[is_kept], np.diff(more.arrays[1])]))])
        return Keys((np.concatenate([kept, more.arrays[0]]), offsets))

    def index(self) -> Array:
        """Their index.

        Raises:
            CommandError: A key is there twice.
        """
        try:
            return text_index(*self.arrays) if self.is_text else key_index(*self.arrays)
        except KernelError as error:
            raise CommandError(error) from None

    def positions(self, index: Array, queries: Array) -> Array:
        """The position of each query among the keys, or -1."""
        if self.is_text:
            names = ["key_bytes", "key_offsets", "index", "queries"]
            return _found("FindStrings", names, [*self.arrays, index, queries])
        return _found("FindKeys", ["keys", "index", "queries"], [*self.arrays, index, queries])


def _found(op_type: str, names: Sequence[str], arrays: Sequence[Array]) -> Array:
    given = [np.asarray(array) for array in arrays]
    types = tuple(int(TensorProto.STRING) if array.dtype == object else element_type(array.dtype) for array in given)
    try:
        (found,) = _session(op_type, tuple(names), types).run(None, dict(zip(names, given, strict=True)))
    except Exception as error:  # of keys or an index of another type or rank: ONNX Runtime's have no common class
        raise CommandError(ort_message(error)) from None
    return np.asarray(found)


@functools.cache
def _session(op_type: str, names: tuple[str, ...], types: tuple[int, ...]) -> InferenceSession:
    """A session of one node."""
    from onnx_sparse.sessions.runtime import InferenceSession

    inputs = [helper.make_tensor_value_info(n, t, [None]) for n, t in zip(names, types, strict=True)]
    output = helper.make_empty_tensor_value_info("found")
    output.type.tensor_type.elem_type = TensorProto.INT64
    node = helper.make_node(op_type, names, ["found"], domain=DOMAIN)
    graph = helper.make_graph([node], op_type, inputs, [output])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return InferenceSession(helper.make_model(graph, ir_version=10, opset_imports=imports))
