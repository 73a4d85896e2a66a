"""Models in memory beyond 2 GiB, which protobuf cannot serialize: their large tensors are handled apart."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from onnx_sparse.models.model_files import model_of
from onnx_sparse.schemas.declaration import numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.models.model_files import ModelSource

Array = np.ndarray[Any, Any]
Options = ParamSpec("Options")

#: A model whose initializers take more bytes is split; well below 2 GiB, because the rest of the model counts, too.
_LARGE = 2**30
#: Tensors of fewer bytes stay in the model.
_SMALL = 2**20


def detach_large_tensors(model: ModelProto, large: int = _LARGE) -> tuple[ModelProto, dict[str, Array]]:
    """Split a large model into one that can be serialized and the data of its large initializers.

    Args:
        model: Any model; it is not changed.
        large: How many bytes of initializers make a model large.

    Returns:
        The model itself and no arrays when it is not large. Otherwise a copy whose large initializers are marked as
        external data, and their data as arrays by name, for `SessionOptions.add_external_initializers`.

    Raises:
        ValueError: An initializer has an element type that ONNX lacks.
    """
    sizes = {t.name: _bytes(t) for t in model.graph.initializer if t.HasField("raw_data")}
    if sum(sizes.values()) < large:
        return model, {}
    light = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _copy(light, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _copy(light.graph, field.name, value)
    arrays = {}
    for tensor in model.graph.initializer:
        size = sizes.get(tensor.name, 0)
        data = tensor.raw_data if size >= _SMALL else b""
        if data and len(data) == size:  # elements of less than a byte take fewer; they stay
            arrays[tensor.name] = np.frombuffer(data, numpy_dtype(tensor.data_type)).reshape(tensor.dims)
            add_stub(light.graph, tensor, size)
        else:
            light.graph.initializer.append(tensor)
    return light, arrays


def around_large_tensors(
    rewrite: Callable[Concatenate[ModelProto, Options], ModelProto],
) -> Callable[Concatenate[ModelSource, Options], ModelProto]:
    """Rewrite a model, however it is handed over.

    A large model is rewritten without its large tensors, which onnx's tools cannot take; the result has them again.
    """

    @functools.wraps(rewrite)
    def wrapped(model: ModelSource, *args: Options.args, **kwargs: Options.kwargs) -> ModelProto:
        whole = model_of(model)
        light, arrays = detach_large_tensors(whole)
        result = rewrite(light, *args, **kwargs)
        if arrays:
            tensors = {tensor.name: tensor for tensor in whole.graph.initializer}
            for tensor in result.graph.initializer:
                if tensor.name in arrays:
                    tensor.CopyFrom(tensors[tensor.name])
        return result

    # Its first parameter has a name, too, of which the type does not tell.
    return cast("Callable[Concatenate[ModelSource, Options], ModelProto]", wrapped)


def _bytes(tensor: TensorProto) -> int:
    try:
        itemsize = numpy_dtype(tensor.data_type).itemsize
    except ValueError as error:
        raise ValueError(f"tensor {tensor.name!r} has {error}") from None
    return int(math.prod(tensor.dims)) * itemsize


def _copy(message: Any, field: str, value: Any) -> None:
    if isinstance(value, (int, str)):
        setattr(message, field, value)
    else:
        getattr(message, field).MergeFrom(value)


def add_stub(graph: GraphProto, tensor: TensorProto, size: int) -> None:
    """Add an initializer of a tensor's name, type and shape whose data, of so many bytes, is not in the model."""
    stub = graph.initializer.add()
    stub.name, stub.data_type, stub.data_location = tensor.name, tensor.data_type, TensorProto.EXTERNAL
    stub.dims.extend(tensor.dims)
    for key, value in (("location", "memory"), ("offset", "0"), ("length", str(size))):
        entry = stub.external_data.add()
        entry.key, entry.value = key, value
