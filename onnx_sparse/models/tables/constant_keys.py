"""Lookups whose keys are constants, and whether their indexes are those of these keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.models.domain_nodes import DomainNode, domain_nodes
from onnx_sparse.models.files.large_models import resolve
from onnx_sparse.models.graphs import array_of
from onnx_sparse.schemas.keyed_tables import FIND_KEYS, FIND_STRINGS
from onnx_sparse.schemas.validation import KernelError

Array = np.ndarray[Any, Any]

_CHECK = "ONNX_SPARSE_CHECK_INDEX"


@dataclass(frozen=True)
class ConstantKeys:
    """A lookup whose keys are constants.

    Attributes:
        found: The node of FindKeys or FindStrings.
        keys: The keys, or the bytes and offsets of text.
        index: The index, uint8[B]; None if it is computed, or there is none.
        index_name: Its name; "" if there is none.
    """

    found: DomainNode
    keys: list[Array]
    index: Array | None
    index_name: str


def constant_keys(model: ModelProto) -> Iterator[ConstantKeys]:
    """The lookups of a model whose keys are constants.

    Raises:
        ValueError: As `domain_nodes`.
    """
    for found in domain_nodes(model):
        if found.op not in (FIND_KEYS, FIND_STRINGS):
            continue
        names = dict(zip((i.name for i in found.op.inputs), found.node.input, strict=False))
        arrays = {n: array_of(found.constants[value]) for n, value in names.items() if value in found.constants}
        if all(name in arrays for name in found.op.read_by_body):
            keys = [arrays[name] for name in found.op.read_by_body]
            yield ConstantKeys(found, keys, arrays.get("index"), names.get("index", ""))


@contextmanager
def checking_indexes() -> Iterator[None]:
    """Sessions that start in this block read all keys and indexes, and refuse damaged ones."""
    before = os.environ.get(_CHECK)
    os.environ[_CHECK] = "1"
    try:
        yield
    finally:
        del os.environ[_CHECK]
        if before is not None:
            os.environ[_CHECK] = before


def require_indexes(model: ModelProto, folder: str) -> None:
    """Refuse damaged indexes, if the environment has `ONNX_SPARSE_CHECK_INDEX=1`: native kernels do so themselves.

    Args:
        model: The model; it is not changed.
        folder: The folder of its external data; "" if it has none, or none that can be read.

    Raises:
        KernelError: An index is damaged, or an index of other keys.
        ValueError: The external data cannot be read.
    """
    if os.environ.get(_CHECK, "") in ("", "0"):
        return
    from onnx_sparse.reference.keyed_tables import require_index  # no session that is not told so needs it

    if folder:
        resolved = ModelProto()
        resolved.CopyFrom(model)
        resolve(resolved, Path(folder) / "model")
        model = resolved
    for lookup in constant_keys(model):
        if lookup.index is not None and lookup.index.size:
            try:
                require_index(lookup.index, *lookup.keys)
            except KernelError as error:
                raise KernelError(
                    f"{lookup.found.op.name}: {lookup.index_name}: {error}; copy its file again, or build the index "
                    "anew with onnx_sparse.keyed_tables"
                ) from None
