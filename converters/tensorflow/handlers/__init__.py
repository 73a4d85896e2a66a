"""One handler per TensorFlow operator or family of operators. Importing this package fills the registry."""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.handlers import (  # noqa: F401 - imported for what they register
    arithmetic,
    counting,
    crossing,
    dense,
    diagonals,
    einsum,
    embedding,
    example_parsing,
    fill,
    inverse,
    lookup,
    quantization,
    ragged,
    random,
    ranges,
    reductions,
    scatter,
    segment,
    selection,
    sequence_parsing,
    sets,
    shaping,
    sparse,
    sparse_counts,
    sparse_layout,
    sparse_math,
    sparse_sums,
    strings,
    text,
)
from onnx_sparse.converters.tensorflow.handlers.registry import HANDLERS, Handler

__all__ = ["HANDLERS", "Handler"]
