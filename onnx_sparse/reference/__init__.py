"""The operators as plain numpy functions: a readable definition, and the code that the Python kernels run.

`FUNCTIONS` maps an operator's name to its function, which checks its arguments and raises `onnx_sparse.KernelError`.
"""

from onnx_sparse.reference import (
    csv_parsing,
    embedding,
    embedding_bag,
    encodings,
    example_parsing,
    fill,
    formatting,
    hashing,
    invariants,
    keyed_tables,
    quantized_embedding,
    regular_expressions,
    segment,
    sparse,
    strings,
    tensor_messages,
    unsorted_segment,
)
from onnx_sparse.reference.implementation import FUNCTIONS, evaluate

__all__ = [
    "FUNCTIONS",
    "csv_parsing",
    "embedding",
    "embedding_bag",
    "encodings",
    "evaluate",
    "example_parsing",
    "fill",
    "formatting",
    "hashing",
    "invariants",
    "keyed_tables",
    "quantized_embedding",
    "regular_expressions",
    "segment",
    "sparse",
    "strings",
    "tensor_messages",
    "unsorted_segment",
]
