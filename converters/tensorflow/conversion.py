"""From a TensorFlow model that has been read to a draft of a model, before the passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.pipeline import Draft
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.explanation import Explanation
from onnx_sparse.converters.tensorflow.importing import input_shapes
from onnx_sparse.converters.tensorflow.importing.conversion import to_onnx
from onnx_sparse.converters.tensorflow.passes import passes
from onnx_sparse.converters.tensorflow.reading.model import Model


@dataclass
class TensorFlowDraft(Draft):
    """A draft of a TensorFlow model.

    Attributes:
        tables: The values of the inputs that stand in for large tables.
        source_nodes: How many nodes of the source computed something.
    """

    tables: Mapping[str, Array] = field(default_factory=dict)
    source_nodes: int = 0

    def rewriting(self) -> Explanation:
        """What rules and guards have done."""
        told = super().rewriting()
        return Explanation(
            source_nodes=self.source_nodes, nodes_before=told.nodes_before, nodes=told.nodes, attempts=told.attempts
        )


def draft_of(model: Model) -> TensorFlowDraft:
    """A draft of a model, in which large tables are inputs.

    Raises:
        ConversionError: Nodes cannot be converted: the error lists all of them.
    """
    try:
        imported = to_onnx(model)
    except Unsupported as reason:
        raise ConversionError(f"{model.name} cannot be converted: {reason}") from None
    splits = frozenset(name for ragged in model.specs.ragged for name in ragged.splits)
    return TensorFlowDraft(
        imported.model, splits, [*imported.attempts], tables=imported.tables, source_nodes=imported.source_nodes
    )


def with_ranks(model: Model) -> Model:
    """The model, whose inputs have ranks: the least ranks with which it can be converted, where it states none."""
    return input_shapes.with_ranks(model, _try)


def _try(model: Model) -> None:
    """Convert a model as far as the ranks of its inputs are known."""
    draft = draft_of(model)
    if all(port.shape is not None for port in model.inputs):
        pipeline.run(draft, passes())
