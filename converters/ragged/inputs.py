"""Ragged features: values and row splits in place of the coordinates, values and dense shape of sparse tensors."""

from __future__ import annotations

import warnings

from onnx import ModelProto

from onnx_sparse.converters.ragged.features import make_ragged
from onnx_sparse.models.files.large_models import around_large_tensors
from onnx_sparse.models.forms.function_bodies import embed_functions
from onnx_sparse.models.tools.inlining import without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import as_value_errors
from onnx_sparse.schemas import DOMAIN


@around_large_tensors
def to_ragged(model: ModelProto) -> ModelProto:
    """Make the sparse features of a model ragged: each takes its values and one vector of row splits.

        ragged = onnx_sparse.to_ragged(onnx.load("model.onnx"))

    The rows are the same, and so are the results. The values keep their input; `<feature>_row_splits`, int64 of one
    element more than there are rows, takes the place of the coordinates and the dense shape. Lookups take the splits
    as they are. A feature stays sparse where the model uses the position of a value in its row: then a UserWarning
    names the node that does.

    Args:
        model: A model that records its features, as the converters from TensorFlow write it; it is not changed.

    Returns:
        A new model, which records its features as ragged. A copy where there is no sparse feature.

    Raises:
        ValueError: The model is malformed, or its record is.
    """
    with as_value_errors(model):
        made = make_ragged(without_calls_of_functions(model))
    for name, reason in made.reasons.items():
        warnings.warn(f"feature {name!r} stays sparse: {reason}", stacklevel=3)
    if not made.ragged:
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy
    return embed_functions(made.model) if any(f.domain == DOMAIN for f in model.functions) else made.model
