"""Attaches large tables to a model that has been converted without their values.

A constant that a file holds as one value and a shape may be thousands of times as large as the file; the model gets a
ConstantOfShape for it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from onnx_sparse.converters.tensor import Array
from onnx_sparse.models.data.references import state_place, tensor_of
from onnx_sparse.models.graphs import names_of

#: A model with more bytes of tables is near or beyond the limit of a protocol buffers message.
LARGE_MODEL = 1 << 30


def is_repeated(array: Array) -> bool:
    """Whether an array has one value, which is repeated without taking memory."""
    return array.size > 1 and not any(array.strides)


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
    is_large = sum(array.nbytes for array in tables.values() if not is_repeated(array)) >= LARGE_MODEL
    names = names_of(model)
    for name, array in tables.items():
        if is_repeated(array):
            shape = numpy_helper.from_array(np.array(array.shape), names.fresh(f"{name}_shape"))
            one = numpy_helper.from_array(array.flat[:1])
            model.graph.initializer.append(shape)
            made = helper.make_node("ConstantOfShape", [shape.name], [name], name=name, value=one)
            model.graph.node.insert(0, made)
            continue
        if beside is None or not is_large:
            model.graph.initializer.append(tensor_of(array, name))
        else:
            beside[name] = array
            tensor = model.graph.initializer.add(name=name, dims=array.shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            state_place(tensor, "memory", 0, array.nbytes)
