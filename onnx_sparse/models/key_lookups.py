"""Nodes that look keys up in a table, and some of their keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.models.data.references import is_known, is_reference
from onnx_sparse.models.graphs import Names, array_of, every_node, graphs, names_of, read_names
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import numpy_dtype

#: The operators that look up keys, and which of their inputs has what is looked up.
LOOKUPS = {"LabelEncoder": 0, "FindKeys": 2, "FindStrings": 3}

#: The most keys of a dictionary, and their most characters: a model in one message has up to 2 GB.
_MOST_KEYS, _MOST_TEXT = 1 << 26, 1 << 30

_LISTS = ("keys_strings", "keys_int64s", "keys_tensor")


def some_keys(node: NodeProto, constants: Mapping[str, TensorProto], most: int) -> list[int | str]:
    """The first keys of a lookup, integers or text; none where they are not in the model, or are no whole numbers.

    Args:
        node: The lookup.
        constants: The constants of the model, by name.
        most: How many.
    """
    if node.op_type == "LabelEncoder":
        found: list[Any] = next((_of(a, most) for a in node.attribute if a.name in _LISTS), [])
    elif node.op_type == "FindKeys":
        found = _first(constants.get(node.input[0]), most).tolist()
    else:
        ends = _first(constants.get(node.input[1]), most + 1).tolist()
        content = _first(constants.get(node.input[0]), ends[-1] if ends else 0).tobytes()
        found = [content[begin:end] for begin, end in itertools.pairwise(ends)]
    texts = [key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key for key in found]
    return [key if isinstance(key, str) else int(key) for key in texts if isinstance(key, str) or key == int(key)]


def _of(attribute: Any, most: int) -> list[Any]:
    if attribute.name == "keys_tensor":
        return list(_first(attribute.t, most).tolist())
    return [*attribute.strings[:most], *attribute.ints[:most]]


def _first(tensor: TensorProto | None, count: int) -> np.ndarray[Any, Any]:
    """The first elements of a constant, whose other elements are not read."""
    if tensor is None or not is_known(tensor) or count < 0:
        return np.zeros(0, np.int64)
    if is_reference(tensor) or not tensor.HasField("raw_data"):
        return array_of(tensor).reshape(-1)[:count]
    dtype = numpy_dtype(tensor.data_type)
    content = tensor.raw_data[: count * dtype.itemsize]
    return np.frombuffer(content[: len(content) // dtype.itemsize * dtype.itemsize], dtype.newbyteorder("<"))


def use_dictionaries(model: ModelProto) -> None:
    """Let LabelEncoders look up the keys of FindStrings, which has no body, in place, where these are in the model.

    Raises:
        ValueError: The keys are more than an attribute can hold.
    """
    constants = {tensor.name: tensor for graph in graphs(model.graph) for tensor in graph.initializer}
    given = {value.name for graph in graphs(model.graph) for value in graph.input}
    names, dropped = names_of(model), set[str]()
    for graph in graphs(model.graph):
        nodes: list[NodeProto] = []
        for node in graph.node:
            held = node.input[:2] if node.domain == DOMAIN and node.op_type == "FindStrings" else ()
            tensors = [constants.get(name) for name in held if name not in given]
            if not held or len(tensors) < len(held) or not all(t is not None and is_known(t) for t in tensors):
                nodes.append(node)
                continue
            nodes += _dictionary(node, some_keys(node, constants, _MOST_KEYS + 1), names)
            dropped |= set(node.input[: LOOKUPS[node.op_type]])
        if dropped:
            del graph.node[:]
            graph.node.extend(nodes)
    if dropped:
        dropped -= read_names(every_node(model)) | {value.name for value in model.graph.output}
        for graph in graphs(model.graph):
            kept = [tensor for tensor in graph.initializer if tensor.name not in dropped]
            del graph.initializer[:]
            graph.initializer.extend(kept)
        imported = next((entry for entry in model.opset_import if entry.domain == "ai.onnx.ml"), None)
        imported = imported or model.opset_import.add(domain="ai.onnx.ml")
        imported.version = max(imported.version, 2)


def _dictionary(node: NodeProto, keys: Sequence[int | str], names: Names) -> Iterator[NodeProto]:
    """The nodes that look up the keys of a node."""
    queries = node.input[LOOKUPS[node.op_type]]
    if len(keys) > _MOST_KEYS or sum(len(key) for key in keys if isinstance(key, str)) > _MOST_TEXT:
        raise ValueError(
            f'{node.op_type} node "{node.name}": standard ONNX holds its keys in an attribute, and these are too many'
        )
    if not keys:  # a LabelEncoder has some
        yield helper.make_node("Shape", [queries], [shape := names.fresh(f"{node.name}/shape")])
        none = numpy_helper.from_array(np.array([-1]))
        yield helper.make_node("ConstantOfShape", [shape], [node.output[0]], name=node.name, value=none)
        return
    texts = [str(key).encode("utf-8", "surrogateescape") for key in keys]
    listed: dict[str, Any] = {"keys_strings": texts, "values_int64s": range(len(keys)), "default_int64": -1}
    yield helper.make_node("LabelEncoder", [queries], [node.output[0]], name=node.name, domain="ai.onnx.ml", **listed)
