"""Reads FileConstants: weights that GE keeps in files beside a graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.ge.graph import GeNode
from onnx_sparse.converters.ascend.source import is_file_inside
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import shape_text
from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.schemas.declaration import numpy_dtype


def file_constant(node: GeNode, folder: Path) -> np.ndarray[Any, Any]:
    """The tensor of a FileConstant: `file_path` (or `location`), `offset`, `length`, and the description of its result.

    Only files in the folder of the graph and its subfolders are read; paths and symbolic links that lead elsewhere are
    not followed.

    Raises:
        Unsupported: There is no such file in the folder, or it is too short.
    """
    described = node.results[0] if node.results else None
    if described is None or described.dtype is None or described.shape is None or None in described.shape:
        raise Unsupported("the graph does not say its element type and shape")
    text = next((v for k in ("file_path", "location") if isinstance(v := node.attributes.get(k), str) and v), "")
    if not text:
        raise Unsupported("it names no file (file_id alone is known only to the program that wrote the graph)")
    # Graphs have the path at which the file was written; beside a copy of the graph, only the file's name still holds.
    path = next((p for p in (folder / text, folder / Path(text).name) if is_file_inside(p, folder)), None)
    if path is None:
        raise Unsupported(f"its file {text!r} is not in the folder {folder}; nothing else is read")
    dtype = numpy_dtype(described.dtype)
    size = math.prod(dim for dim in described.shape if dim is not None) * dtype.itemsize
    offset, length = (_whole(node, name) for name in ("offset", "length"))
    there = path.stat().st_size - offset
    if size > there or offset < 0 or length not in (0, size):
        raise Unsupported(
            f"{path} has {there} bytes from {offset} on; {dtype} {shape_text(described.shape)} is {size} bytes"
        )
    with open_file(path, folder) as stream:
        stream.seek(offset)
        data = stream.read(size)
    return np.frombuffer(data, dtype).reshape([dim or 0 for dim in described.shape])


def _whole(node: GeNode, name: str) -> int:
    value = node.attributes.get(name, 0)
    return value if isinstance(value, int) else 0
