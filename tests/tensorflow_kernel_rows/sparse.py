"""Operators of sparse and ragged tensors, and those that count."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from support.tensorflow_kernels import constant, each, given, numbers, places, row, shape_of, splits

_SETS = each("intersection", "union", "a-b", "b-a")
_WEIGHTS = each(numbers("k"), constant([]))


def _sparse(
    sizes: str = "mn", prefix: str = "", names: str = "indices values shape", count: str = "k"
) -> dict[str, Any]:
    """The three inputs of a sparse tensor."""
    indices, values, shape = (prefix + name for name in names.split())
    return {indices: places(count, sizes), values: numbers(count), shape: shape_of(sizes)}


_INPUT = _sparse(prefix="input_")
_TWO = {**_sparse(prefix="a_"), **_sparse(prefix="b_", count="l")}

SPARSE = (
    row("SparseAdd", **_TWO, thresh=each(constant(0), constant(2), given(0)), tied={"Treal": "T"}),
    row(
        "SparseConcat",
        indices=[places("k", "mn"), places("l", "mn")],
        values=[numbers("k"), numbers("l")],
        shapes=[shape_of("mn"), shape_of("mn")],
        concat_dim=each(0, 1, -1),
    ),
    *(
        row(
            f"SparseDenseCwise{kind}",
            **_sparse(prefix="sp_"),
            dense=each(numbers("mn", 1, 5), numbers("n", 1, 5), numbers("1n", 1, 5)),
        )
        for kind in ("Add", "Mul", "Div")
    ),
    row(
        "SparseFillEmptyRows",
        indices=places("k", "mn"),
        values=numbers("k"),
        dense_shape=shape_of("mn"),
        default_value=each(given(7), constant(0)),
    ),
    *(
        row(
            op, **_INPUT, reduction_axes=each(constant([0]), constant([-1]), constant([0, 1]), constant([]), given([1]))
        )
        for op in ("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse")
    ),
    row(
        "SparseReorder",
        input_indices=given([[1, 0], [0, 2], [0, 1]]),
        input_values=given([3, 1, 2]),
        input_shape=each(constant([2, 3]), given([9, 9])),
    ),
    row(
        "SparseReshape",
        input_indices=places("k", "mn"),
        input_shape=shape_of("mn"),
        new_shape=each(constant([-1]), given([-1, 1]), constant([1, -1])),
    ),
    row(
        "SparseSlice",
        **_sparse(),
        start=each(constant([0, 1]), given([1, 0])),
        size=each(constant([2, 2]), given([9, 1])),
    ),
    row("SparseSoftmax", **_sparse(prefix="sp_")),
    row("SparseSparseMaximum", **_TWO),
    row("SparseSparseMinimum", **_TWO),
    row("SparseSplit", split_dim=each(constant(0), constant(1), given(1)), **_sparse(), num_split=each(2, 1)),
    row("SparseTensorDenseAdd", **_sparse(prefix="a_"), b=numbers("mn")),
    row("SparseTensorDenseMatMul", **_sparse(prefix="a_"), b=each(numbers("nq"), numbers("qn"), numbers("mq"))),
    row(
        "SparseToDense",
        sparse_indices=places("k", "mn"),
        output_shape=shape_of("mn"),
        sparse_values=each(numbers("k"), numbers("")),
        default_value=each(given(0), constant(3)),
    ),
    row(
        "SparseToSparseSetOperation",
        **_sparse(prefix="set1_"),
        **_sparse(prefix="set2_", count="l"),
        set_operation=_SETS,
        validate_indices=each(True, False),
    ),
    row("DenseToSparseSetOperation", set1=numbers("mn"), **_sparse(prefix="set2_"), set_operation=_SETS),
    row("DenseToDenseSetOperation", set1=numbers("mn"), set2=numbers("mq"), set_operation=_SETS),
    row("SetSize", **_sparse(prefix="set_")),
    row(
        "SparseBincount",
        indices=places("k", "mn"),
        values=numbers("k", 0, 5),
        dense_shape=shape_of("mn"),
        size=each(constant(6), given(3)),
        weights=_WEIGHTS,
    ),
    row(
        "SparseCountSparseOutput",
        indices=places("k", "mn"),
        values=numbers("k", 0, 5),
        dense_shape=shape_of("mn"),
        weights=_WEIGHTS,
        minlength=each(-1, 3),
        maxlength=each(-1, 4),
        binary_output=each(False, True),
    ),
    row(
        "DenseBincount",
        input=each(numbers("k", 0, 5), numbers("mk", 0, 5)),
        size=each(constant(6), given(3)),
        weights=each(constant([]), numbers("k"), numbers("mk")),
    ),
    row(
        "DenseCountSparseOutput",
        values=each(numbers("k", 0, 5), numbers("mk", 0, 5)),
        weights=each(constant([]), numbers("k"), numbers("mk")),
        minlength=each(-1, 3),
        maxlength=each(-1, 4),
        binary_output=each(False, True),
    ),
    row(
        "RaggedBincount",
        splits=splits("m", "k"),
        values=numbers("k", 0, 5),
        size=each(constant(6), given(3)),
        weights=_WEIGHTS,
    ),
    row(
        "RaggedCountSparseOutput",
        splits=splits("m", "k"),
        values=numbers("k", 0, 5),
        weights=_WEIGHTS,
        minlength=each(-1, 3),
        maxlength=each(-1, 4),
        binary_output=each(False, True),
    ),
    row(
        "RaggedFillEmptyRows",
        value_rowids=numbers("k", 0, 4, is_sorted=True),
        values=numbers("k"),
        nrows=given(4),
        default_value=each(given(7), constant(0)),
    ),
    row(
        "RaggedGather",
        params_nested_splits=[splits("m", "k")],
        params_dense_values=each(numbers("k"), numbers("kn")),
        indices=each(numbers("l", 0, "m"), numbers("lq", 0, "m")),
        OUTPUT_RAGGED_RANK=each(1, 2),
    ),
    row(
        "RaggedRange",
        starts=each(numbers("m", -4, 4), numbers("", -4, 4)),  # from the ends of types, rows have gigabytes
        limits=numbers("m", -9, 9),
        deltas=each(constant(1), numbers("m", 1, 4), constant(-2)),
    ),
    row(
        "RaggedRange",
        starts=each(numbers("m", -(2**31), 2**31 - 1), numbers("m")),
        limits=numbers("m", -(2**31), 2**31 - 1),
        deltas=each(constant(2**30), given(-(2**30))),
        T=each(tf.int32, tf.int64),
    ),
    row(
        "RaggedRange",
        starts=given(2**63 - 1),
        limits=given([-1, -5]),
        deltas=each(constant([1, 3]), constant(1)),
        T=each(tf.int64),
    ),
    row("RaggedTensorToSparse", rt_nested_splits=[splits("m", "k")], rt_dense_values=each(numbers("k"), numbers("kn"))),
    row("RaggedTensorToSparse", rt_nested_splits=[splits("l", "m"), splits("m", "k")], rt_dense_values=numbers("k")),
    row(
        "RaggedTensorToTensor",
        shape=each(constant([-1, -1]), given([2, -1]), constant([-1, 3])),
        values=numbers("k"),
        default_value=each(given(0), constant(5)),
        row_partition_tensors=[splits("m", "k")],
        row_partition_types=["ROW_SPLITS"],
    ),
    row(
        "RaggedTensorToTensor",
        shape=each(constant([-1, -1]), given([3, -1])),
        values=each(numbers("k"), numbers("kn")),
        default_value=given(0),
        row_partition_tensors=[given(3), numbers("k", 0, 3, is_sorted=True)],
        row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
    ),
    row(
        "SparseCross",
        indices=[places("k", "mn"), places("l", "mn")],
        values=[numbers("k"), numbers("l")],
        shapes=[shape_of("mn"), shape_of("mn")],
        dense_inputs=[],
        hashed_output=each(True, False),
        num_buckets=each(0, 7),
        hash_key=each(956888297470, 5),
        out_type=each(tf.int64, tf.string),
        internal_type=each(tf.int64, tf.string),
        sparse_types=each([tf.int64, tf.int64], [tf.string, tf.string]),
        dense_types=[],
    ),
    row(
        "SparseCrossV2",
        indices=[places("k", "mn"), places("l", "mn")],
        values=[numbers("k"), numbers("l")],
        shapes=[shape_of("mn"), shape_of("mn")],
        dense_inputs=[],
        sep=each(constant("_X_"), constant("-")),
        sparse_types=each([tf.string, tf.string]),
        dense_types=[],
    ),
    row(
        "ParallelDynamicStitch",
        indices=[given([0, 2]), given([[1, 3]])],
        data=[numbers("2k"), numbers("12k")],
        zeros="k",
    ),
    row(
        "MatrixSetDiagV2",
        input=numbers("lmn"),
        diagonal=numbers("ln"),
        k=each(constant(0), given(0)),
        sizes={"m": 4, "n": 3},
    ),
    row(
        "HistogramFixedWidth",
        values=numbers("mn"),
        value_range=each(constant([-2, 3]), given([0, 2])),
        nbins=each(constant(4), constant(1), given(5)),
    ),
    row(
        "HistogramFixedWidth",
        values=given([2**31 - 1, -(2**31), 0, 3, -2]),
        value_range=constant([-2, 3]),
        nbins=constant(5),
        T=each(tf.int32, tf.float32, tf.float64),
    ),
)
