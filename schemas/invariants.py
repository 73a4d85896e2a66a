"""ValidateSparseIndices and ValidateRowSplits: what sparse and ragged tensors must be made of, checked at run time."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import INDEX
from onnx_sparse.schemas.function_body import Body


def _passed_on(name: str) -> str:
    return f"`output` is `{name}`, unchanged. Put it between a model's input and what relies on it."


def _validate_sparse_indices_body(b: Body) -> None:
    b.output("output", b.Identity("indices"))


def _validate_row_splits_body(b: Body) -> None:
    b.output("output", b.Identity("row_splits"))


VALIDATE_SPARSE_INDICES = Op(
    name="ValidateSparseIndices",
    summary="Passes the coordinates of a sparse tensor on, or reports that they are illegal.",
    semantics=_passed_on("indices")
    + """

- A coordinate outside its dimension is an error: negative ones do not count from the end. So is a negative dimension.
- `order` = `row_major` also requires that the entries are in row-major order, and none of them twice, as TensorFlow's
  `validate_indices` does; `any` takes them in any order.
- The function body passes the coordinates on without a check.""",
    source="tf.raw_ops.SparseToDense and other operators on tf.sparse.SparseTensor, which check their inputs",
    inputs=(
        Input(
            "indices",
            "I",
            "N, R",
            "The coordinates of the entries.",
            Values("coordinates", of="dense_shape"),
            values_under={("order", "row_major"): Values("row_major", of="dense_shape")},
        ),
        Input("dense_shape", "I", "R", "The shape of the dense tensor.", Values("size")),
    ),
    outputs=(Output("output", "I", "N, R", "The coordinates of the entries."),),
    types={"I": INDEX},
    attributes=(Attribute("order", ("any", "row_major"), "Which order the entries must have.", default="any"),),
    body=_validate_sparse_indices_body,
    examples=(
        Example(
            "entries in any order",
            {"I": TensorProto.INT64},
            {"indices": [[2, 0], [0, 1]], "dense_shape": [3, 2]},
            {"output": [[2, 0], [0, 1]]},
            {"order": "any"},
        ),
        Example(
            "entries in row-major order",
            {"I": TensorProto.INT32},
            {"indices": [[0, 1], [2, 0], [2, 1]], "dense_shape": [3, 2]},
            {"output": [[0, 1], [2, 0], [2, 1]]},
            {"order": "row_major"},
        ),
    ),
)

VALIDATE_ROW_SPLITS = Op(
    name="ValidateRowSplits",
    summary="Passes the row splits of a ragged tensor on, or reports that they are illegal.",
    semantics=_passed_on("row_splits")
    + """

- `row_splits` has at least one element. It must begin with 0, not decrease, and end with `num_values`.
- The function body passes the splits on without a check.""",
    source="tf.RaggedTensor.from_row_splits with validate=True",
    inputs=(
        Input(
            "row_splits",
            "I",
            "L",
            "Where the rows begin in the values, and where the last one ends.",
            Values("row_splits", of="num_values"),
        ),
        Input("num_values", "I", "", "The number of values.", Values("size")),
    ),
    outputs=(Output("output", "I", "L", "The row splits."),),
    types={"I": INDEX},
    body=_validate_row_splits_body,
    examples=(
        Example(
            "three rows, one of them empty",
            {"I": TensorProto.INT64},
            {"row_splits": [0, 2, 2, 5], "num_values": 5},
            {"output": [0, 2, 2, 5]},
        ),
    ),
)

FAMILY = Family(
    "invariants",
    (VALIDATE_SPARSE_INDICES, VALIDATE_ROW_SPLITS),
    origin="`tf.sparse`, `tf.RaggedTensor`: illegal input is an error",
)
