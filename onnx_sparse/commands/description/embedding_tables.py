"""The embedding tables of a model, and other values for them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from onnx_sparse.commands import Progress
from onnx_sparse.errors import CommandError, printable

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]

#: How often tables are replaced again in a model that other processes replace meanwhile.
_ATTEMPTS = 100


class Reader(TypedDict):
    """A node that reads a table."""

    operator: str
    node: str


class TableDescription(TypedDict):
    """A table for machines: `bits` of a quantized one, `offset` of one in a file with others."""

    name: str
    shape: list[int]
    type: str
    bits: int | None
    bytes: int
    file: str
    offset: int | None
    checksum: str | None
    used_by: list[Reader]


@dataclass
class Table:
    """An initializer that lookups read.

    Attributes:
        tensor: It.
        readers: The operators and names of the nodes that read it.
        bits: The size of its integers, if it is quantized.
        scale_bias: The name of the tensor with their scales and biases.
    """

    tensor: TensorProto
    readers: list[tuple[str, str]] = field(default_factory=list)
    bits: int = 0
    scale_bias: str = ""


def tables_of(model: ModelProto) -> list[Table]:
    """The tables of the main graph: what our lookups read as `emb_table`, and matrices that Gather reads."""
    from onnx_sparse.commands.inputs.model_graph import nodes
    from onnx_sparse.schemas import quantized_embedding

    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    found: dict[str, Table] = {}
    for placed in nodes(model):
        name = placed.node.input[0] if placed.node.input else ""
        tensor = initializers.get(name)
        if tensor is None:
            continue
        is_lookup = placed.op is not None and placed.op.inputs[0].name == "emb_table"
        if is_lookup or (placed.node.op_type == "Gather" and not placed.is_ours and len(tensor.dims) > 1):
            table = found.setdefault(name, Table(tensor))
            table.readers.append((placed.operator, placed.label))
            if placed.op is not None and placed.op.name in quantized_embedding.FAMILY.names:
                table.bits, table.scale_bias = _bits(placed.node), placed.node.input[1]
    return list(found.values())


def _bits(node: NodeProto) -> int:
    return next((int(a.s) for a in node.attribute if a.name == "bits"), 8)


def replace_tables(source: Path, path: Path, given: Mapping[str, Any]) -> None:
    """Write a model with arrays, or those of files, for some of its tables.

    Where another process replaces the model meanwhile, what it has written is read and changed: neither loses a table.
    """
    from onnx_sparse.files.new_file import ChangedError, check_writable, state_of
    from onnx_sparse.models.data.references import holding_arrays
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.models.files.suffixes import WRITTEN_SUFFIXES

    load_model(source)  # first its faults, then those of the paths
    files = [Path(table) for table in given.values() if isinstance(table, (str, os.PathLike))]
    in_place = path.exists() and path.samefile(source)
    check_writable(path, *(() if in_place else WRITTEN_SUFFIXES), keep=files)
    for attempt in range(_ATTEMPTS):
        state = state_of(source)
        try:
            with holding_arrays():
                _write_replaced(load_model(source), source, path, given, state if in_place else None)
        except ChangedError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _write_replaced(
    model: ModelProto, source: Path, path: Path, given: Mapping[str, Any], made_from: tuple[int, ...] | None
) -> None:
    import numpy as np

    from onnx_sparse.files.array_file import read_npy
    from onnx_sparse.models.data.references import refer
    from onnx_sparse.models.files.data_parts import location
    from onnx_sparse.models.files.external_data import clear_data, write_model
    from onnx_sparse.models.files.load_and_save import writer

    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    moved: list[tuple[TensorProto, Any]] = []
    for name, new in given.items():
        table = table_named(model, source, name)
        is_file = isinstance(new, (str, os.PathLike))
        array = read_npy(Path(new), mapped=True) if is_file else new
        for tensor_name, content in contents_of(model, table, array, new if is_file else "the array").items():
            tensor = initializers[tensor_name]
            if location(tensor):
                moved.append((tensor, content))
            else:
                clear_data(tensor)
                refer(tensor, np.frombuffer(content, np.uint8))
    read_from = source if made_from is None else None
    write_model(model, path, writer(path), contents=moved or None, read_from=read_from, made_from=made_from)


def table_named(model: ModelProto, path: Path, name: str) -> Table:
    """A table of a model, or another initializer.

    Raises:
        CommandError: There is none.
    """
    tables = {table.tensor.name: table for table in tables_of(model)}
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return tables.get(name, Table(tensor))
    there = ", ".join(map(printable, tables)) or "none"
    raise CommandError(f"{path} has no table {printable(name)}; its tables are {there}")


def contents_of(
    model: ModelProto, table: Table, new: Any, what: object, *, rows: int | None = None
) -> dict[str, memoryview]:
    """The new bytes of a table, and of its scales and biases, by the names of their tensors.

    Args:
        model: The model.
        table: Its table.
        new: The array.
        what: What it is from, for messages.
        rows: How many rows it has; those of the table when omitted.

    Raises:
        CommandError: The array has another type or shape.
    """
    import numpy as np

    from onnx_sparse.models.tables.quantization import quantized_rows, rounded_rows
    from onnx_sparse.schemas.declaration import numpy_dtype

    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    tensor, array = table.tensor, np.asarray(new, order="C")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    name, dtype, shape = tensor.name, np.dtype(numpy_dtype(tensor.data_type)), tuple(tensor.dims)
    shape = shape if rows is None else (rows, *shape[1:])
    types = [dtype.name]
    try:
        if table.bits:
            whole = (shape[0], shape[1] * 8 // table.bits)
            types.append(f"float32 {list(whole)}")
            scale_bias = initializers.get(table.scale_bias)
            if array.dtype == np.float32 and array.shape == whole:
                if scale_bias is None or tuple(scale_bias.dims) != (tensor.dims[0], 1, 2):
                    raise CommandError(
                        f"table {printable(name)} has no scale and bias for each row, into which it could be "
                        "quantized: replace its integers, scales and biases"
                    )
                integers, scales = quantized_rows(name, array, table.bits)
                return {name: _bytes(integers), table.scale_bias: _bytes(scales)}
        elif dtype.name in ("float16", "bfloat16"):
            types.append("float32")
            if array.dtype == np.float32 and array.shape == shape:
                return {name: _bytes(rounded_rows(name, array, dtype))}
    except ValueError as error:
        raise CommandError(f"{what}: {error}") from error
    if (array.dtype, array.shape) != (dtype, shape):
        raise CommandError(
            f"{what} is {array.dtype.name} {list(array.shape)}; table {printable(name)} is {types[0]} "
            f"{list(shape)}{f', and also takes {types[1]}' if types[1:] else ''}"
        )
    return {name: _bytes(array)}


def _bytes(array: Array) -> memoryview:
    import numpy as np

    return memoryview(array.tobytes() if not array.size else array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def check_files(model: ModelProto, path: Path, progress: Progress = lambda stage: None) -> None:
    """Compare the checksums of the files beside a model.

    Raises:
        CommandError: A file has another one, or cannot be read.
    """
    from onnx_sparse.files.ranges import damage
    from onnx_sparse.models.files.data_parts import location, parts_of
    from onnx_sparse.models.files.external_data import file_beside
    from onnx_sparse.models.graphs import all_tensors

    holders = {location(tensor).get("location"): tensor.name for tensor in all_tensors(model)}
    parts = parts_of(model)
    for name in parts:
        file = file_beside(path, name, holders[name])
        progress(f"reading {file}")
        try:
            found = next(filter(None, (damage(file, part) for part in parts[name])), None)
        except OSError as error:
            raise CommandError(f"{file}: cannot be read: {error.strerror or error}") from error
        if found is not None:
            raise CommandError(f"{file} is not what {path} was written with: {found}")


def describe(table: Table, path: Path) -> TableDescription:
    """What is said of a table."""
    from onnx_sparse.commands.inputs.model_graph import type_name
    from onnx_sparse.models.files.data_parts import location
    from onnx_sparse.schemas.declaration import numpy_dtype

    tensor = table.tensor
    where = location(tensor)
    offset = where.get("offset", "0")
    try:
        itemsize = numpy_dtype(tensor.data_type).itemsize
    except ValueError as error:
        raise CommandError(f"{path}: tensor {printable(tensor.name)!r} has {error}") from None
    return {
        "name": printable(tensor.name),
        "shape": list(tensor.dims),
        "type": type_name(tensor.data_type),
        "bits": table.bits or None,
        "bytes": math.prod(tensor.dims) * itemsize,
        "file": printable(where["location"]) if "location" in where else path.name,
        "offset": int(offset) if where and offset.isdecimal() else None,
        "checksum": where.get("checksum"),
        "used_by": [{"operator": operator, "node": node} for operator, node in table.readers],
    }
