"""The contract: what every operator of the `onnx_sparse` domain is.

Each operator is one `Op` declaration in the module of its family; `OPS` maps names to all of them. Needs onnx and numpy
only. Schemas, shape inference, function bodies and documentation are derived here; kernels and converters import this.
"""

from __future__ import annotations

from onnx_sparse.schemas import (
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
    unsorted_segment,
)
from onnx_sparse.schemas.declaration import DOMAIN, OPSET_VERSION, Attribute, Example, Family, Input, Op, Output
from onnx_sparse.schemas.registration import op_schema, register

__all__ = [
    "DOMAIN",
    "FAMILIES",
    "FAMILY_OF",
    "OPS",
    "OPSET_VERSION",
    "STRING_FAMILIES",
    "Attribute",
    "Example",
    "Family",
    "Input",
    "Op",
    "Output",
    "op_schema",
    "register",
]

#: The families in the order of the documentation.
FAMILIES: tuple[Family, ...] = tuple(
    module.FAMILY
    for module in (
        sparse,
        invariants,
        embedding,
        embedding_bag,
        quantized_embedding,
        segment,
        unsorted_segment,
        fill,
        keyed_tables,
        hashing,
        strings,
        regular_expressions,
        formatting,
        example_parsing,
        csv_parsing,
        encodings,
    )
)

#: The families whose operators look at the bytes of strings, which neither standard ONNX nor OpenVINO can.
STRING_FAMILIES: tuple[Family, ...] = tuple(
    module.FAMILY
    for module in (hashing, strings, regular_expressions, formatting, example_parsing, csv_parsing, encodings)
)

#: The family of each operator, by its name.
FAMILY_OF: dict[str, Family] = {op.name: family for family in FAMILIES for op in family.ops}

#: Every operator by name.
OPS: dict[str, Op] = {op.name: op for family in FAMILIES for op in family.ops}
