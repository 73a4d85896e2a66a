"""Differences between a source and its model that are meant, or that rounding explains. They are counted apart.

Whether a difference is one of these is not guessed: the tensor of the model at which it arises is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from onnx_sparse.converters.tensor import Shape
from onnx_sparse.converters.verification.settling import Probe
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN, OPS, embedding

Array = np.ndarray[Any, Any]

#: What is counted apart, for the documentation.
EXPLAINED = (
    "NaN propagates in maxima and minima by segment. In TensorFlow the result depends on the position of the NaN in "
    "its segment, and on the processor.",
    "NaN propagates in Relu. TensorFlow's and OpenVINO's kernels that multiply and apply Relu in one step turn NaN "
    "into 0.",
    "A number that is halfway between two integers, except for its last digits, may be rounded to either.",
    "A convolution of no rows, or of rows shorter than its window, has the shape of its result. TensorFlow's kernels "
    "of oneDNN return that of its input.",
    "A result without elements has the shape that the source declares for it. TensorFlow's kernels may return another, "
    "as after a convolution of inputs that were cropped to nothing.",
    "The EmbeddingSegments operators drop entries of segments >= num_segments if segment_ids_order is sorted; "
    "TensorFlow raises.",
)

_OUT_OF_RANGE = ("out of range", "must be < num_segments", "is invalid")

#: What an output with rounded numbers may have passed since.
_AFTER_ROUNDING = frozenset(["Cast", "Clip", "Identity", "Max", "Min", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_ROUNDING = frozenset(["Cast", "Ceil", "Floor", "Round"])

#: How near to a boundary a number is that rounding may bring across it, as a part of its size.
_NEAR = 1e-4


@dataclass(frozen=True)
class Explained:
    """What is left of a difference.

    Attributes:
        want, got: Both values, made equal where the difference is explained.
        count: How many elements that are.
        note: The explanation; empty if nothing was explained.
    """

    want: Array
    got: Array
    count: int = 0
    note: str = ""


@dataclass(frozen=True)
class IntendedDifferences:
    """Which differences a model may have.

    Attributes:
        extremes: What it takes the maxima and minima of segments of.
        activated: What it applies Relu to.
        rounded: The tensors that are rounded to make an output, by its name.
        drops_entries: Whether it looks up rows by segment and drops those of segments that do not exist.
        takes_shape_of_input: Whether the source gives a convolution without a result the shape of its input.
        declared: The shapes of outputs that the source itself declares, None where it leaves a size open.
        probe: Computes tensors of the model.
    """

    extremes: tuple[str, ...] = ()
    activated: tuple[str, ...] = ()
    rounded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drops_entries: bool = False
    takes_shape_of_input: bool = False
    declared: Mapping[str, Shape | None] = field(default_factory=dict)
    probe: Probe | None = None

    @classmethod
    def of(
        cls,
        model: ModelProto,
        probe: Probe | None = None,
        *,
        convolves_no_rows: bool = True,
        declared: Mapping[str, Shape | None] = MappingProxyType({}),
    ) -> IntendedDifferences:
        """The differences that a model's operators allow, its source's convolutions of no rows, and its own shapes."""
        every = [node for graph in graphs(model.graph) for node in graph.node]
        used = [node for node in every if node.domain == DOMAIN]
        producers = {name: node for node in model.graph.node for name in node.output}
        main = {name for node in model.graph.node for name in node.input}
        return cls(
            extremes=tuple(n.input[0] for n in used if _is_extreme(n) and n.input[0] in main),
            activated=tuple(n.input[0] for n in model.graph.node if n.op_type == "Relu"),
            rounded={value.name: _rounded(producers, value.name) for value in model.graph.output},
            drops_entries=any(node.op_type in embedding.FAMILY.names and not _takes_any(node) for node in used),
            takes_shape_of_input=not convolves_no_rows and any(node.op_type == "Conv" for node in every),
            declared=declared,
            probe=probe,
        )

    def explain(self, output: str, want: Array, got: Array, feeds: Mapping[str, Array]) -> Explained:
        """Both values of an output, made equal where a difference is explained."""
        same = Explained(want, got)
        is_of_no_rows = want.shape[:1] == got.shape[:1] == (0,)
        # Rows shorter than the window have no result. Of a later operator's result the shape is not that of an input.
        is_input = got.size == 0 and any(want.shape == value.shape for value in feeds.values())
        if (
            want.shape != got.shape
            and want.ndim == got.ndim
            and self.takes_shape_of_input
            and (is_of_no_rows or is_input)
        ):
            note = "by design: a convolution without a result has its shape; TensorFlow's has that of its input"
            return Explained(np.empty(got.shape, want.dtype), got, 0, note)
        shape = self.declared.get(output)
        if want.shape != got.shape and not want.size and not got.size and fits(got, shape) and not fits(want, shape):
            open_sizes = ", ".join("?" if size is None else str(size) for size in shape or ())
            note = f"the source's result without elements is {list(want.shape)}, against its own shape [{open_sizes}]"
            return Explained(np.empty(got.shape, want.dtype), got, 0, note)
        if want.shape != got.shape or want.dtype != got.dtype or self.probe is None:
            return same
        if want.dtype.kind == "f" or want.dtype.name == "bfloat16":
            return self._nan(want, got, feeds) or same
        if want.dtype.kind in "iu":
            return self._rounding(output, want, got, feeds) or same
        return same

    def _nan(self, want: Array, got: Array, feeds: Mapping[str, Array]) -> Explained | None:
        ours = np.isnan(got.astype(np.float64)) & ~np.isnan(want.astype(np.float64))
        if not ours.any():
            return None
        for sites, note in (
            (
                self.extremes,
                "by design: NaN propagates in maxima and minima; in the source that depends on its position",
            ),
            (self.activated, "by design: NaN propagates in Relu; the source's product with a Relu makes 0 of it"),
        ):
            if any(value.dtype.kind == "f" and np.isnan(value).any() for value in self._looked_at(sites, feeds)):
                return Explained(np.where(ours, got, want).astype(want.dtype), got, int(ours.sum()), note)
        return None

    def _rounding(self, output: str, want: Array, got: Array, feeds: Mapping[str, Array]) -> Explained | None:
        apart = want != got
        steps = np.abs(want.astype(np.float64) - got.astype(np.float64))
        sites = self.rounded.get(output, ())
        if not apart.any() or (steps > 1).any() or not sites:
            return None
        for value in self._looked_at(sites, feeds):
            if value.dtype.kind != "f" or value.size != want.size:
                continue
            exact = value.astype(np.float64).reshape(want.shape) if value.shape != want.shape else value
            doubled = 2 * exact  # whole at integers and halfway between them
            if (np.abs(doubled - np.rint(doubled)) <= _NEAR * np.maximum(np.abs(doubled), 1))[apart].all():
                note = "rounded from numbers halfway between integers, but for the last digits"
                return Explained(np.where(apart, got, want), got, int(apart.sum()), note)
        return None

    def _looked_at(self, names: tuple[str, ...], feeds: Mapping[str, Array]) -> list[Array]:
        if not names or self.probe is None:
            return []
        try:
            return [np.asarray(value) for value in self.probe(names, feeds)]
        except Exception:  # a tensor that cannot be looked at explains nothing
            return []

    def of_error(self, error: BaseException) -> str:
        """What to add to the message of a TensorFlow error that the model does not raise."""
        if self.drops_entries and any(text in str(error) for text in _OUT_OF_RANGE):
            return " (by design: the model drops entries of segments that do not exist)"
        return ""


def fits(value: Array, shape: Shape | None) -> bool:
    """Whether an array has a shape that leaves some sizes open, or is not known at all."""
    if shape is None:
        return True
    sizes = zip(value.shape, shape, strict=False)
    return value.ndim == len(shape) and all(known in (None, size) for size, known in sizes)


def _is_extreme(node: NodeProto) -> bool:
    return node.op_type in OPS and OPS[node.op_type].reduction in ("max", "min")


def _takes_any(node: NodeProto) -> bool:
    """Whether segment ids may be in any order, and must be in range."""
    return any(a.name == "segment_ids_order" and a.s == b"any" for a in node.attribute)


def _rounded(producers: Mapping[str, NodeProto], name: str) -> tuple[str, ...]:
    """The tensors that may have been rounded to make a tensor, the nearest first."""
    found = []
    while (node := producers.get(name)) is not None and node.op_type in _AFTER_ROUNDING | _ROUNDING:
        name = node.input[0]
        if node.op_type in _ROUNDING:
            found.append(name)
    return tuple(found)
