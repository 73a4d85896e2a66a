"""The form of a node of a graph: what the table of kernels is asked for."""

from __future__ import annotations

from onnx import NodeProto

from onnx_sparse.converters.kernels.forms import ranks, resized
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.sizes import shape_sizes, sizes
from onnx_sparse.models.graphs import attribute

#: Operators whose kernels depend on the rank of their first input.
BY_RANK = frozenset(
    {"AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool",
     "InstanceNormalization", "LRN", "LpPool", "MaxPool"}
)  # fmt: skip
#: Operators whose kernels also depend on their mode, and what the mode is by default.
BY_MODE = {"GridSample": b"linear", "Pad": b"constant"}
RECURRENT = ("LSTM", "GRU", "RNN")
#: Names of modes in older operator sets.
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def form_of(graph: Graph, node: NodeProto) -> tuple[str, str] | None:
    """The form of a node, if its kernels depend on one and it is known."""
    if node.op_type in RECURRENT:
        return f"{node.op_type} layout", str(attribute(node, "layout", 0))
    rank = graph.rank(node.input[0]) if node.input else None
    if rank is None:
        return None
    if node.op_type in BY_RANK:
        return ranks(node.op_type, rank)
    if node.op_type in BY_MODE:
        return ranks(node.op_type, rank, mode_of(node, BY_MODE[node.op_type]))
    if node.op_type == "Resize":
        antialias = bool(attribute(node, "antialias", 0))
        return resized(rank, mode_of(node, b"nearest"), resized_axes(graph, node), antialias=antialias)
    return None


def mode_of(node: NodeProto, default: bytes = b"linear") -> str:
    """A node's mode, by its name in the newest operator set."""
    mode: str = attribute(node, "mode", default).decode()
    return _MODES.get(mode, mode)


def given_axes(graph: Graph, node: NodeProto) -> list[int]:
    """The axes that the sizes or scales of a Resize are for."""
    rank = graph.rank(node.input[0]) or 0
    return [axis % rank for axis in attribute(node, "axes", None) or range(rank)]


def resized_axes(graph: Graph, node: NodeProto) -> list[int]:
    """The axes that a Resize changes, as far as it is known.

    Of sizes that are not known at all, the axes of batch and channels are taken to stay as they are.
    """
    data, axes = node.input[0], given_axes(graph, node)
    by_scales = len(node.input) < 4 or not node.input[3]
    if by_scales:
        factors = graph.constant(node.input[1 if len(node.input) == 2 else 2])
        changed = None if factors is None else [float(factor) != 1 for factor in factors.ravel()]
    else:
        wanted, own = sizes(graph, node.input[3]), shape_sizes(graph, data)
        has_all = wanted is not None and own is not None and len(wanted) == len(axes)
        changed = [w != own[axis] for w, axis in zip(wanted or (), axes, strict=True)] if has_all and own else None
    if attribute(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize" and changed is not None:
        window = graph.constant(node.input[1])
        ends = None if window is None else window.ravel()
        is_whole = [
            ends is not None and len(ends) == 2 * len(axes) and (ends[k], ends[k + len(axes)]) == (0, 1)
            for k in range(len(axes))
        ]
        changed = [is_changed or not whole for is_changed, whole in zip(changed, is_whole, strict=True)]
    if changed is None or len(changed) != len(axes):
        return [axis for axis in axes if axis > 1 or len(axes) < 3]
    return [axis for axis, is_changed in zip(axes, changed, strict=True) if is_changed]
