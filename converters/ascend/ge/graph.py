"""GE graphs in the form that every reader returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.schemas.declaration import DType

#: The types of nodes that hold a constant in the file itself.
CONSTANTS = ("Const", "Constant")

#: Formats whose data are in the order of their dimensions; others are the NPU's own.
PLAIN_FORMATS = frozenset({"", "ND", "NCHW", "NHWC", "NCDHW", "NDHWC", "HWCN", "NC", "N", "DHWCN", "RESERVED"})


@dataclass(frozen=True)
class Description:
    """A graph's description of a tensor; None for whatever the graph does not say.

    Attributes:
        dtype: Its element type.
        shape: Its shape.
        layout: Its format.
    """

    dtype: DType | None
    shape: Shape | None
    layout: str = ""


@dataclass(frozen=True)
class Source:
    """A result of a node, by position."""

    node: str
    position: int


@dataclass(frozen=True)
class GeNode:
    """A node.

    Attributes:
        name: Its name, unique in the graph.
        op_type: Its type.
        inputs: The results it reads; None is an optional input that is omitted. Control edges are not listed.
        attributes: Its attributes: numbers, texts, lists, and arrays for tensors.
        results: The graph's descriptions of its results.
        without_data: Whether it is a constant whose data are not in the file.
    """

    name: str
    op_type: str
    inputs: tuple[Source | None, ...]
    attributes: Mapping[str, Any]
    results: tuple[Description, ...]
    without_data: bool = False


@dataclass(frozen=True)
class GeGraph:
    """A graph.

    Attributes:
        name: Its name.
        nodes: Its nodes, each after those that it reads.
        outputs: The graph's results, if there is no NetOutput.
    """

    name: str
    nodes: tuple[GeNode, ...]
    outputs: tuple[Source, ...] = field(default=())


def shape_of(dims: list[int]) -> Shape | None:
    """A shape from GE's dimensions: -1 is an unknown dimension, [-2] an unknown rank."""
    return None if dims == [-2] else tuple(dim if dim >= 0 else None for dim in dims)


def source_of(text: str) -> Source | None:
    """The result that an input names: `node:1`; None for nothing and for control edges, `node:-1`.

    Raises:
        ConversionError: The text has another form.
    """
    if not text:
        return None
    node, colon, position = text.rpartition(":")
    if not colon or not node or not position.lstrip("-").isdecimal():
        raise ConversionError(f"input {text[:80]!r} is not of the form node:0")
    return Source(node, int(position)) if int(position) >= 0 else None


def is_control(text: str) -> bool:
    """Whether an input is a control edge."""
    return text.endswith(":-1")


def in_order(name: str, nodes: list[GeNode], outputs: tuple[Source, ...] = ()) -> GeGraph:
    """The graph with its nodes in an order in which each comes after those that it reads.

    Raises:
        ConversionError: A name is missing or occurs twice, or nodes read each other in a circle.
    """
    by_name: dict[str, GeNode] = {}
    for node in nodes:
        if node.name in by_name:
            raise ConversionError(f"{name}: two nodes have the name {node.name}")
        by_name[node.name] = node
    waiting = {node.name: {source.node for source in node.inputs if source is not None} for node in nodes}
    readers: dict[str, list[str]] = {}
    for reader, sources in waiting.items():
        for source in sources:
            if source not in by_name:
                raise ConversionError(f"{reader} reads {source}, which is not a node of {name}")
            readers.setdefault(source, []).append(reader)
    ready = [node.name for node in nodes if not waiting[node.name]]
    ordered: list[GeNode] = []
    for made in ready:  # grows while it is walked
        ordered.append(by_name[made])
        for reader in readers.get(made, ()):
            waiting[reader].discard(made)
            if not waiting[reader]:
                ready.append(reader)
    if len(ordered) < len(nodes):
        stuck = next(node.name for node in nodes if waiting[node.name])
        raise ConversionError(f"{name}: {stuck} and others read each other in a circle")
    return GeGraph(name, tuple(ordered), outputs)


def array_of(dtype: np.dtype[Any], shape: Shape | None, data: bytes, where: str) -> np.ndarray[Any, Any]:
    """A constant.

    Raises:
        ConversionError: The data do not have the size of the shape.
    """
    dims = [-1 if dim is None else dim for dim in shape or ()]
    if min(dims, default=0) < 0 or math.prod(dims) * dtype.itemsize != len(data):
        raise ConversionError(f"{where}: {len(data)} bytes are not a tensor {dtype} {dims}")
    return np.frombuffer(data, dtype).reshape(dims)
