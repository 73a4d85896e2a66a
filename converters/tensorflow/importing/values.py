"""What a tensor of TensorFlow is while its graph is converted: a tensor, or a handle of something that is none."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.writing.lowering.keyed_lookup import KeyedTable
from onnx_sparse.schemas.declaration import DType


@dataclass(frozen=True)
class Resource:
    """A variable or a lookup table: the node that makes it.

    Attributes:
        scope: The scope of the node.
        node: The node.
    """

    scope: Scope
    node: NodeDef


@dataclass(frozen=True)
class ListOfTensors:
    """A list of tensors of one element type, as a tensor with one row for each.

    Attributes:
        rows: The elements, `[n, ...]`; None where the list has been reserved only, and all elements are zeros.
        size: The number of elements, an int64 scalar.
        dtype: The element type.
        element_shape: The shape of each element, as far as it is known.
    """

    rows: Tensor | None
    size: Tensor
    dtype: DType
    element_shape: Shape | None


@dataclass(frozen=True)
class ListOfPieces:
    """A list of the pieces of a tensor, which differ in length.

    Attributes:
        whole: The tensor.
        lengths: The rows of each piece, int64 `[n]`.
    """

    whole: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class RaggedRows:
    """A ragged tensor as one variant, or as a vector of variants, one for each of its rows.

    Attributes:
        splits: The row splits, int64, the outermost first; none of one variant that is a dense tensor.
        values: The flat values.
        is_vector: Whether it is a vector of variants.
    """

    splits: tuple[Tensor, ...]
    values: Tensor
    is_vector: bool


@dataclass(frozen=True)
class ListOfRows:
    """A list of variants, each of which is a ragged or dense tensor.

    Attributes:
        rows: The elements, a vector; None where the list has been reserved only.
        size: The number of elements, an int64 scalar.
    """

    rows: RaggedRows | None
    size: Tensor


#: The types of complex numbers as TensorFlow counts types, and the types of their parts.
COMPLEX = {NUMBERS["complex64"]: TensorProto.FLOAT, NUMBERS["complex128"]: TensorProto.DOUBLE}


@dataclass(frozen=True)
class ComplexTensor:
    """A tensor of complex numbers.

    Attributes:
        parts: Their real and imaginary parts, `[..., 2]`.
    """

    parts: Tensor


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix (CSRSparseMatrix).

    Attributes:
        indices: The coordinates of the entries, int64 `[n, 2]`, row by row.
        values: The entries.
        shape: The numbers of rows and columns, int64 `[2]`.
    """

    indices: Tensor
    values: Tensor
    shape: Tensor


@dataclass(frozen=True)
class VariantOfBranch:
    """A variant that a branch returns, such as an optional tensor that only a gradient reads: nothing else can."""


#: What a tensor of TensorFlow is.
Value = (
    Tensor
    | Resource
    | ListOfTensors
    | ListOfPieces
    | RaggedRows
    | ListOfRows
    | ComplexTensor
    | SparseMatrix
    | VariantOfBranch
)

#: A lookup table.
Table = KeyedTable
