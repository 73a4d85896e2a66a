"""Keeps large embedding tables, and large constants of one value, out of the conversion.

TensorFlow, Grappler and tf2onnx copy each constant dozens of times (a table of 200 MB costs 10 GB and most of a minute)
and fail beyond 2 GB. A table that is only looked up plays no part in their work: a placeholder of its type and shape
stands in for it, and the model gets the values at the very end. So it is with a constant that a file holds as one value
and a shape, which may be thousands of times as large as the file; the model gets a ConstantOfShape for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.source import MOST_ELEMENTS
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.graphs import names_of

#: The least number of bytes worth the detour; smaller constants may be worth folding.
_LARGE = 1 << 20

#: A model with more bytes of tables is near or beyond the limit of a protocol buffers message.
LARGE_MODEL = 1 << 30

#: Operators that only look up rows of their first input.
_LOOKUPS = frozenset(
    ["Gather", "GatherV2", "GatherNd"]
    + [f"SparseSegment{how}{form}" for how in ("Sum", "Mean", "SqrtN") for form in ("", "WithNumSegments")]
)


def is_large(array: Array) -> bool:
    """Whether an array is worth setting aside."""
    return array.nbytes >= _LARGE and array.dtype.hasobject is False


def set_aside(graph_def: Any, values: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
    """Replace large constants that are only looked up, or have one value, by placeholders, in place.

    Their number of rows is left unknown, because Grappler feeds each placeholder with zeros; `with_rows` restores it.

    Args:
        graph_def: A graph.
        values: The values, by node name, of constants whose contents are not in the graph. Constants that do not become
            placeholders get their contents back.
        outputs: The tensors that are fetched from the graph.

    Returns:
        The values by placeholder; those of constants of one value take no memory.

    Raises:
        ConversionError: A constant has rows that are too large for Grappler.
    """
    tf = require("tensorflow")
    consumers = _consumers(graph_def)
    fetched = {tensor.partition(":")[0] for tensor in outputs}
    tables: dict[str, Array] = {}
    for node in graph_def.node:
        if node.op != "Const":
            continue
        dtype, shape = tf.dtypes.as_dtype(node.attr["dtype"].type), node.attr["value"].tensor.tensor_shape
        numeric = dtype.is_floating or dtype.is_integer
        size = math.prod(d.size for d in shape.dim) * dtype.size if numeric else 0
        known = values.get(node.name)
        if size >= _LARGE and known is None and node.name not in fetched:
            known = _repeated(node.attr["value"].tensor)
        is_repeated = known is not None and _is_repeated(known)
        if size >= _LARGE and (is_repeated or _is_only_looked_up(node.name, consumers, fetched)):
            if math.prod(d.size for d in shape.dim[1:]) > MOST_ELEMENTS:
                dims = [d.size for d in shape.dim]
                raise ConversionError(
                    f"the constant {node.name} has shape {dims}: rows of more than {MOST_ELEMENTS} elements"
                )
            tables[node.name] = tf.make_ndarray(node.attr["value"].tensor) if known is None else known
            node.op = "Placeholder"
            node.attr["shape"].shape.CopyFrom(shape)
            node.attr["shape"].shape.dim[0].size = -1
            del node.attr["value"]
        elif known is not None:
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(known))
    return tables


def _repeated(tensor: Any) -> Array | None:
    """The array of a tensor that is stored as one value, without memory for more; None for any other tensor."""
    if tensor.tensor_content or sum(len(v) for f, v in tensor.ListFields() if f.name.endswith("_val")) > 1:
        return None
    one = type(tensor)()
    one.CopyFrom(tensor)
    one.tensor_shape.Clear()
    value = require("tensorflow").make_ndarray(one)
    return np.broadcast_to(value, [d.size for d in tensor.tensor_shape.dim]) if value.dtype.kind in "fiu" else None


def _is_repeated(array: Array) -> bool:
    """Whether an array has one value, which is repeated without taking memory."""
    return array.size > 1 and not any(array.strides)


def with_rows(graph_def: Any, tables: Mapping[str, Array]) -> Any:
    """Give the placeholders that stand in for tables their full shapes, in place; returns the graph."""
    for node in graph_def.node:
        if node.name in tables:
            node.attr["shape"].shape.dim[0].size = tables[node.name].shape[0]
    return graph_def


def attach(model: ModelProto, tables: Mapping[str, Array], beside: MutableMapping[str, Array] | None = None) -> None:
    """Turn inputs of a model that stand in for tables into initializers, or nodes where one value fills a table.

    Args:
        model: The model.
        tables: The values, by input name.
        beside: Receives the values if the model would be too large for one message with them; its initializers then
            say that their data is external. When omitted, everything goes into the model.
    """
    inputs = [value for value in model.graph.input if value.name not in tables]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    is_large = sum(array.nbytes for array in tables.values() if not _is_repeated(array)) >= LARGE_MODEL
    names = names_of(model)
    for name, array in tables.items():
        if _is_repeated(array):
            shape = numpy_helper.from_array(np.array(array.shape), names.fresh(f"{name}_shape"))
            one = numpy_helper.from_array(array.flat[:1])
            model.graph.initializer.append(shape)
            made = helper.make_node("ConstantOfShape", [shape.name], [name], name=name, value=one)
            model.graph.node.insert(0, made)
            continue
        # Filled in place: appending a finished tensor would copy it once more.
        tensor = model.graph.initializer.add(name=name, dims=array.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        if beside is not None and is_large:
            beside[name] = array
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "memory"), ("offset", "0"), ("length", str(array.nbytes))):
                tensor.external_data.add(key=key, value=value)
        else:
            tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _consumers(graph_def: Any) -> dict[str, list[tuple[Any, int]]]:
    """The nodes that take a node's first output, with the position at which they do."""
    consumers: dict[str, list[tuple[Any, int]]] = {}
    for node in graph_def.node:
        for position, name in enumerate(node.input):
            if not name.startswith("^"):  # a control dependency, not a tensor
                consumers.setdefault(name.removesuffix(":0"), []).append((node, position))
    return consumers


def _is_only_looked_up(name: str, consumers: Mapping[str, list[tuple[Any, int]]], fetched: Collection[str]) -> bool:
    """Whether a tensor goes only into lookups, directly or through Identity nodes."""
    if name in fetched:
        return False
    return all(
        _is_only_looked_up(node.name, consumers, fetched)
        if node.op == "Identity"
        else node.op in _LOOKUPS and position == 0
        for node, position in consumers.get(name, ())
    )
