"""The files beside a checkpoint in which TensorFlow Recommenders Addons' FileSystemSaver saves tables of keys."""

from __future__ import annotations

import re
from pathlib import Path

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.files.key_files import read_keys, read_rows
from onnx_sparse.schemas.declaration import numpy_dtype

#: The operators that make tables of rows by keys.
HASH_KEYED = frozenset({"TFRA>CuckooHashTableOfTensors", "TFRA>HkvHashTableOfTensors", "KvVarHandleOp"})

#: The folder of a SavedModel that has the files.
KEY_FILES = Path("variables") / "TFRADynamicEmbedding"
#: The name of a table: that of its variable, its number and how many tables the variable has.
_TABLE = re.compile(r"(.*_mht_)(\d+)of(\d+)")
_FILE = re.compile(r"(.*_mht_)(\d+)of(\d+)_rank(\d+)_size(\d+)-keys")


def keys_and_rows(model: Model, table: NodeDef) -> list[tuple[Array, Array]]:
    """The keys and rows of a table in the files of a model, in one or several parts; none if it has no files.

    Args:
        model: The model.
        table: The node that makes the table.

    Raises:
        Unsupported: The files cannot be read, or are those of other tables.
    """
    named = _TABLE.fullmatch(table.name.rpartition("/")[2])
    if model.folder is None or named is None or not (model.folder / KEY_FILES).is_dir():
        return []
    variable, number, count = named[1], int(named[2]), int(named[3])
    found = [match for file in (model.folder / KEY_FILES).iterdir() if (match := _FILE.fullmatch(file.name))]
    found = sorted((match for match in found if match[1] == variable), key=lambda match: (int(match[4]), int(match[2])))
    if not found:
        return []
    saved = {(int(match[3]), int(match[5])) for match in found}
    tables, processes = saved.pop()
    if saved or len(found) != tables * processes:
        raise Unsupported(f"{KEY_FILES} holds {len(found)} files of the table, which are not all files of one save")
    if (tables, processes) == (count, 1):
        found = [match for match in found if int(match[2]) == number]
    elif count != 1:
        raise Unsupported(f"{processes} processes saved the table in {tables} parts, and the model has {count} parts")
    key_type, row_type = (onnx_type(table.attr[name].type) for name in ("key_dtype", "value_dtype"))
    if TensorProto.STRING in (key_type, row_type):
        raise Unsupported(f"text is not read from the files in {KEY_FILES}; save the table in the checkpoint")
    width = shape_of(table.attr["value_shape"].shape)
    if width is None or len(width) != 1 or width[0] is None:
        raise Unsupported("the shape of its rows is not known")
    parts = []
    for match in found:
        name = match[0].removesuffix("-keys")
        try:
            keys = read_keys(model.folder / KEY_FILES / match[0], numpy_dtype(key_type), model.folder)
            path = model.folder / KEY_FILES / f"{name}-values"
            parts.append((keys, read_rows(path, numpy_dtype(row_type), len(keys), width[0], model.folder)))
        except OSError as error:
            raise Unsupported(f"{error.filename} cannot be read: {error.strerror}") from error
    return parts
