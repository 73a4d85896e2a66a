"""List the embedding tables of a model, with their data and the nodes that read them, or replace tables.

`replace` swaps tables for retrained ones of the same shape, without another conversion. A float32 array can also
replace a table of half floats or of 8-bit or 4-bit integers: it is rounded as `convert --tables` does. The model is
replaced whole or not at all. With -o, a new model in the same folder shares the other tables with the old model, on
disk and in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.named_values import named_values

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]

NAME = "tables"
SUMMARY = "list a model's embedding tables, or replace them"
EXAMPLES = """
onnx-sparse tables model.onnx
onnx-sparse tables model.onnx --check
onnx-sparse tables model.onnx replace items_table=retrained.npy
onnx-sparse tables model.onnx replace items_table=retrained.npy users_table=users.npy -o new.onnx
"""

#: How often tables are replaced again in a model that other processes replace meanwhile.
_ATTEMPTS = 100


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument("action", nargs="?", choices=["replace"], metavar="replace", help="replace tables")
    parser.add_argument(
        "replacements", nargs="*", metavar="NAME=FILE.npy", help="with replace: a table and its new values"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT.onnx",
        help="with replace: the model to write (default: MODEL)",
    )
    parser.add_argument(
        "--check", action="store_true", help="verify the checksums of the model's data files, if it has them"
    )


def run(arguments: argparse.Namespace) -> int:
    """List or replace tables."""
    from onnx_sparse.cli.files.model_file import load_model

    if arguments.action is None and arguments.output is not None:
        raise output.UsageError("-o is for replace")
    if arguments.action is not None and not arguments.replacements:
        raise output.UsageError("replace needs NAME=FILE.npy")
    path: Path = arguments.model
    if arguments.action is not None:
        path = arguments.output or path
        named = named_values(arguments.replacements, "NAME=FILE.npy", at_last=True)
        _replace(arguments.model, path, {name: Path(file) for name, file in named.items()})
    model = load_model(path)
    if arguments.check:
        check_files(model, path)
    rows = [describe(table, path) for table in tables_of(model)]
    if arguments.json:
        output.write_json({"model": str(path), "tables": rows})
    else:
        _show(path, rows)
    return output.DONE


def tables_of(model: ModelProto) -> list[Table]:
    """The tables of the main graph: what our lookups read as `emb_table`, and matrices that Gather reads."""
    from onnx_sparse.cli.model_graph import nodes
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


def _replace(source: Path, path: Path, files: dict[str, Path]) -> None:
    """Write a model with the arrays of files for some of its tables.

    Where another process replaces the model meanwhile, what it has written is read and changed: neither loses a table.
    """
    from onnx_sparse.cli.files.model_file import load_model
    from onnx_sparse.cli.files.new_file import ChangedError, check_writable, state_of

    load_model(source)  # first its faults, then those of the paths
    check_writable(path, keep=files.values())
    in_place = path.exists() and path.samefile(source)
    for attempt in range(_ATTEMPTS):
        state = state_of(source)
        try:
            _write_replaced(load_model(source), source, path, files, state if in_place else None)
        except ChangedError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _write_replaced(
    model: ModelProto, source: Path, path: Path, files: dict[str, Path], made_from: tuple[int, ...] | None
) -> None:
    from onnx_sparse.cli.files.external_data import location, write_model
    from onnx_sparse.cli.files.model_file import serializer

    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    tables = {table.tensor.name: table for table in tables_of(model)}
    moved: list[tuple[TensorProto, Any]] = []
    for name, file in files.items():
        if name not in initializers:
            there = ", ".join(map(output.printable, tables)) or "none"
            raise output.CommandError(f"{source} has no table {output.printable(name)}; its tables are {there}")
        table = tables.get(name, Table(initializers[name]))
        for tensor_name, content in _contents(table, file, initializers).items():
            tensor = initializers[tensor_name]
            if location(tensor):
                moved.append((tensor, content))
            else:
                _put(tensor, content)
    read_from = source if made_from is None else None
    write_model(model, path, serializer(path), contents=moved or None, read_from=read_from, made_from=made_from)


def _put(tensor: TensorProto, content: Any) -> None:
    for typed in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"):
        tensor.ClearField(typed)
    tensor.raw_data = bytes(content)


def _contents(table: Table, file: Path, initializers: dict[str, TensorProto]) -> dict[str, Any]:
    """The new bytes of a table, and of its scales and biases, by the names of their tensors.

    Raises:
        CommandError: The file has an array of another type or shape.
    """
    import numpy as np

    from onnx_sparse.cli.files.array_file import read_npy
    from onnx_sparse.models.quantization import quantized_rows, rounded_rows
    from onnx_sparse.schemas.declaration import numpy_dtype

    tensor, array = table.tensor, np.asarray(read_npy(file, mapped=True), order="C")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    name, dtype, shape = tensor.name, np.dtype(numpy_dtype(tensor.data_type)), tuple(tensor.dims)
    types = [dtype.name]
    try:
        if table.bits:
            whole = (shape[0], shape[1] * 8 // table.bits)
            types.append(f"float32 {list(whole)}")
            scale_bias = initializers.get(table.scale_bias)
            if array.dtype == np.float32 and array.shape == whole:
                if scale_bias is None or tuple(scale_bias.dims) != (shape[0], 1, 2):
                    raise output.CommandError(
                        f"table {output.printable(name)} has no scale and bias for each row, into which it could be "
                        "quantized: replace its integers, scales and biases"
                    )
                integers, scales = quantized_rows(name, array, table.bits)
                return {name: _bytes(integers), table.scale_bias: _bytes(scales)}
        elif dtype.name in ("float16", "bfloat16"):
            types.append("float32")
            if array.dtype == np.float32 and array.shape == shape:
                return {name: _bytes(rounded_rows(name, array, dtype))}
    except ValueError as error:
        raise output.CommandError(f"{file}: {error}") from error
    if (array.dtype, array.shape) != (dtype, shape):
        raise output.CommandError(
            f"{file} is {array.dtype.name} {list(array.shape)}; table {output.printable(name)} is {types[0]} "
            f"{list(shape)}{f', and also takes {types[1]}' if types[1:] else ''}"
        )
    return {name: _bytes(array)}


def _bytes(array: Array) -> memoryview:
    import numpy as np

    return memoryview(array.tobytes() if not array.size else array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def check_files(model: ModelProto, path: Path) -> None:
    """Compare the checksums of the files beside a model.

    Raises:
        CommandError: A file has another one, or cannot be read.
    """
    from onnx_sparse.cli.files.external_data import data_file, location
    from onnx_sparse.models.graphs import all_tensors

    checksums = {data_file(path, tensor): location(tensor).get("checksum") for tensor in all_tensors(model)}
    for file, checksum in checksums.items():
        if file is None or checksum is None:
            continue
        try:
            with output.progress(f"reading {file}"), file.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha1").hexdigest()
        except OSError as error:
            raise output.CommandError(f"{file}: cannot be read: {error.strerror or error}") from error
        if found != checksum.lower():
            raise output.CommandError(
                f"{file} is not what {path} was written with: its SHA-1 is {found}, not {checksum}"
            )


def describe(table: Table, path: Path) -> dict[str, Any]:
    """What `--json` says of a table."""
    from onnx_sparse.cli.files.external_data import location
    from onnx_sparse.cli.model_graph import type_name
    from onnx_sparse.schemas.declaration import numpy_dtype

    tensor = table.tensor
    where = location(tensor)
    offset = where.get("offset", "0")
    try:
        itemsize = numpy_dtype(tensor.data_type).itemsize
    except ValueError as error:
        raise output.CommandError(f"{path}: tensor {output.printable(tensor.name)!r} has {error}") from None
    return {
        "name": output.printable(tensor.name),
        "shape": list(tensor.dims),
        "type": type_name(tensor.data_type),
        "bits": table.bits or None,
        "bytes": math.prod(tensor.dims) * itemsize,
        "file": output.printable(where["location"]) if "location" in where else path.name,
        "offset": int(offset) if where and offset.isdecimal() else None,
        "checksum": where.get("checksum"),
        "used_by": [{"operator": operator, "node": node} for operator, node in table.readers],
    }


def _show(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from onnx_sparse.cli.files.model_file import size_text

    output.heading(str(path))
    if not rows:
        output.write_line("no tables: neither our lookups nor Gather read an initializer")
        return
    cells = []
    for row in rows:
        kind = f"{row['type']}, {row['bits']} bits" if row["bits"] else row["type"]
        place = row["file"] if row["offset"] is None else f"{row['file']} at {row['offset']}"
        counts = Counter(reader["operator"] for reader in row["used_by"])
        readers = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
        shape = f"[{', '.join(map(str, row['shape']))}]"
        cells.append([row["name"], shape, kind, size_text(row["bytes"]), place, readers])
    output.table(["table", "shape", "type", ">bytes", "file", "read by"], cells)
