"""Embedding tables in fewer bits: `quantize_tables`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto, helper

from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.models.data.references import is_known, state_place, tensor_of
from onnx_sparse.models.domain_nodes import DomainNode, domain_nodes
from onnx_sparse.models.files.large_models import around_large_tensors
from onnx_sparse.models.graphs import Names, array_of, graphs, names_of
from onnx_sparse.schemas import OPS

Array = np.ndarray[Any, Any]

#: What a table can be made.
FORMATS = ("float16", "bfloat16", "int8", "int4")

#: Tables of fewer bytes are left as they are, unless they are named.
SMALL = 2**16

#: The bytes of a row's scale and bias.
_SCALE_BIAS = 8

_HALF_FLOATS: dict[str, Any] = {"float16": np.float16, "bfloat16": bfloat16}


@dataclass(frozen=True)
class TableChange:
    """What `quantize_tables` did with a table.

    Attributes:
        name: The initializer's name in the given model.
        shape: Its shape.
        format: What it was made.
        before: Its size in bytes.
        after: The new size, with scales and biases.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    before: int
    after: int


@around_large_tensors
def quantize_tables(
    model: ModelProto,
    format: str,
    *,
    names: Iterable[str] | None = None,
    arrays: MutableMapping[str, Array] | None = None,
    explain: Callable[[TableChange], None] | None = None,
) -> ModelProto:
    """Make the float32 tables of lookups smaller.

        smaller = onnx_sparse.quantize_tables(onnx.load("model.onnx"), "int8")

    - `int8` and `int4`: each row has integers of 8 or 4 bits without a sign, a scale and a bias, both float32, as in
      torch's and FBGEMM's quantized embedding bags: `round((x - min) * (2^bits - 1) / (max - min))`. Lookups become
      QuantizedEmbeddingSegments* and QuantizedEmbeddingBagOffsets*, whose answers equal lookups in the rounded rows.
    - `float16` and `bfloat16`: rows, weights and answers are rounded to them; sums are computed in float32.

    Args:
        model: Any model; it is not changed.
        format: One of `FORMATS`.
        names: The tables, by the names of their initializers; all of at least 64 KiB when omitted.
        arrays: Data of initializers that is not in the model, by their names. That of quantized ones is replaced.
        explain: Gets what was done with each table.

    Returns:
        A new model. A table is not changed if nodes other than lookups (EmbeddingSegments*, EmbeddingBagOffsets* but
        -Max) read it, if it is an input, or if it does not have two dimensions. Neither are tables of odd width with
        `int4`, and tables whose rows are so narrow that a scale and a bias would make them larger.

    Raises:
        ValueError: The format is unknown; a table that is named cannot be quantized, the message says why; one has
            values that are not finite; or its data is in another file.
    """
    if format not in FORMATS:
        raise ValueError(f"format {format!r} is not one of {FORMATS}")
    if isinstance(names, str):
        raise TypeError(f"names is a list of names, not the name {names!r}")
    result = ModelProto()
    result.CopyFrom(model)
    data = {} if arrays is None else arrays
    uses = _uses(result)
    tables = {tensor.name: tensor for tensor in result.graph.initializer}
    wanted = (
        [name for name in uses if name in tables and _size(tables[name]) >= SMALL] if names is None else list(names)
    )
    fresh = names_of(result)
    for name in wanted:
        if name not in tables:
            raise ValueError(f"the model has no initializer {name!r}")
        reason = _reason(result, tables[name], uses.get(name, []), format)
        if reason and names is not None:
            raise ValueError(f"table {name!r} cannot be {format}: {reason}")
        if not reason:
            change = _replace(result, tables[name], uses[name], format, fresh, data)
            if explain is not None:
                explain(change)
    return result


def _uses(model: ModelProto) -> dict[str, list[DomainNode]]:
    """The lookups that read each table."""
    uses: dict[str, list[DomainNode]] = {}
    for found in domain_nodes(model):
        if f"Quantized{found.op.name}" in OPS:
            uses.setdefault(found.node.input[0], []).append(found)
    return uses


def _reason(model: ModelProto, tensor: TensorProto, lookups: list[DomainNode], format: str) -> str:
    """Why a table cannot be quantized; empty if it can."""
    name = tensor.name
    if not lookups:
        return "no lookup reads it"
    if tensor.data_type != TensorProto.FLOAT:
        return "it is not float32"
    if len(tensor.dims) != 2:
        return f"it has {len(tensor.dims)} dimensions; 2 expected"
    bits = {"int8": 8, "int4": 4}.get(format, 16)
    if bits < 16 and tensor.dims[1] * bits // 8 + _SCALE_BIAS >= tensor.dims[1] * 4:
        return f"rows of {tensor.dims[1]} would not become smaller: each gets a scale and a bias"
    if format == "int4" and tensor.dims[1] % 2:
        return f"its rows have {tensor.dims[1]} elements, and a byte holds two"
    every_graph = list(graphs(model.graph))
    if any(value.name == name for graph in every_graph for value in (*graph.input, *graph.output)):
        return "it is an input or an output of a graph"
    readers = sum(list(node.input).count(name) for graph in every_graph for node in graph.node)
    if readers > len(lookups):
        return "other nodes than lookups read it"
    return ""


def _replace(
    model: ModelProto,
    tensor: TensorProto,
    lookups: list[DomainNode],
    format: str,
    names: Names,
    arrays: MutableMapping[str, Array],
) -> TableChange:
    name, shape, before = tensor.name, tuple(tensor.dims), _size(tensor)
    table, is_apart = _data(tensor, arrays), name in arrays
    if format in _HALF_FLOATS:
        parts = {"emb_table": rounded_rows(name, table, _HALF_FLOATS[format])}
    else:
        integers, scale_bias = quantized_rows(name, table, 8 if format == "int8" else 4)
        parts = {"emb_table": integers, "scale_bias": scale_bias}
    new_names = {
        part: names.fresh(f"{name}_{format}" + ("" if part == "emb_table" else "_scale_bias")) for part in parts
    }
    after = sum(array.nbytes for array in parts.values())
    model.graph.initializer.remove(tensor)
    arrays.pop(name, None)
    for part, array in parts.items():
        if is_apart:
            stub = model.graph.initializer.add(name=new_names[part], dims=array.shape)
            stub.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            state_place(stub, "memory", 0, array.nbytes)
            arrays[new_names[part]] = array
        else:
            model.graph.initializer.append(tensor_of(array, new_names[part]))
    for found in lookups:
        if format in _HALF_FLOATS:
            _look_up_half_floats(found, new_names["emb_table"], _HALF_FLOATS[format], names)
        else:
            _look_up_integers(found, new_names, format)
    return TableChange(name, shape, format, before, after)


def _look_up_integers(found: DomainNode, names: dict[str, str], format: str) -> None:
    """Make a lookup one in a quantized table."""
    quantized = OPS[f"Quantized{found.op.name}"]
    given = dict(zip((i.name for i in found.op.inputs), found.node.input, strict=False)) | names
    found.node.op_type = quantized.name
    del found.node.input[:]
    found.node.input.extend(given.get(i.name, "") for i in quantized.inputs)
    found.node.attribute.append(helper.make_attribute("bits", "8" if format == "int8" else "4"))


def _look_up_half_floats(found: DomainNode, table: str, dtype: Any, names: Names) -> None:
    """Make a lookup one in a table of half floats, between nodes that cast its weights and its answer."""
    node, nodes = found.node, found.graph.node
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    position = list(nodes).index(node)
    answer = node.output[0]
    node.input[0] = table
    node.output[0] = names.fresh(f"{answer}_{np.dtype(dtype).name}")
    nodes.insert(position + 1, helper.make_node("Cast", [node.output[0]], [answer], to=TensorProto.FLOAT))
    weights = [i.name for i in found.op.inputs].index("per_sample_weights")
    if weights < len(node.input) and node.input[weights]:
        cast = names.fresh(f"{node.input[weights]}_{np.dtype(dtype).name}")
        nodes.insert(position, helper.make_node("Cast", [node.input[weights]], [cast], to=element))
        node.input[weights] = cast


def _data(tensor: TensorProto, arrays: MutableMapping[str, Array]) -> Array:
    if tensor.name in arrays:
        return arrays[tensor.name]
    if not is_known(tensor):
        raise ValueError(f"the data of table {tensor.name!r} is in another file; load the model with it")
    return array_of(tensor)


def _size(tensor: TensorProto) -> int:
    size = 4 if tensor.data_type == TensorProto.FLOAT else 0
    for dim in tensor.dims:
        size *= dim
    return size


def rounded_rows(name: str, table: Array, dtype: Any) -> Array:
    """Half floats.

    Raises:
        ValueError: A finite value is beyond the largest of them.
    """
    rounded = empty_array(table.shape, dtype)
    for rows in row_ranges(table):
        with np.errstate(over="ignore"):
            rounded[rows] = table[rows]
        overflows = np.isinf(rounded[rows]) & np.isfinite(table[rows])
        if overflows.any():
            row, *column = map(int, np.argwhere(overflows)[0])
            place = ",".join(map(str, [rows.start + row, *column]))
            raise ValueError(
                f"table {name!r} cannot be {np.dtype(dtype).name}: [{place}] = {table[rows][row, *column]} is beyond it"
            )
    return rounded


def quantized_rows(name: str, table: Array, bits: int) -> tuple[Array, Array]:
    """Integers [V, E] without a sign, and scales and biases [V, 1, 2].

    Raises:
        ValueError: A value is not finite.
    """
    width = table.shape[1]
    integers = empty_array((len(table), width * bits // 8), np.uint8)
    scale_bias = empty_array((len(table), 1, 2), np.float32)
    steps = 2**bits - 1
    for rows in row_ranges(table):
        some = table[rows].astype(np.float64)
        if not np.isfinite(some).all():
            row, column = np.argwhere(~np.isfinite(some))[0]
            raise ValueError(
                f"table {name!r} cannot be quantized: [{rows.start + row},{column}] = {some[row, column]} is not finite"
            )
        if not width:
            scale_bias[rows] = 0
            continue
        low, high = some.min(axis=1, keepdims=True), some.max(axis=1, keepdims=True)
        scale = ((high - low) / steps).astype(np.float32)
        steps_of = np.divide(some - low, scale, out=np.zeros_like(some), where=scale > 0)
        whole = np.clip(np.rint(steps_of), 0, steps).astype(np.uint8)
        integers[rows] = whole if bits == 8 else whole[:, ::2] | whole[:, 1::2] << 4
        scale_bias[rows, 0, :1], scale_bias[rows, 0, 1:] = scale, low
    return integers, scale_bias
