"""Operators that move elements."""

from __future__ import annotations

import tensorflow as tf
from support.tensorflow_kernels import constant, each, given, numbers, row, weights

_BANDS = each(
    constant(0), constant(1), constant(-1), constant([-1, 1]), constant([0, 2]), given(0), given(1), given([-1, 1])
)

SHAPES = (
    row("Shape", input=numbers("lmn")),
    row("ShapeN", input=[numbers("lmn"), numbers("m")]),
    row("Size", input=numbers("lmn")),
    row("Rank", input=numbers("lmn")),
    row("ExpandDims", input=numbers("mn"), dim=each(constant(0), constant(-1), given(1))),
    row("Squeeze", input=numbers("omn"), squeeze_dims=each([0], [], [-3]), sizes={"o": 1}),
    row(
        "Reshape",
        tensor=numbers("mn"),
        shape=each(constant([3, -1]), given([3, 2]), constant([-1])),
        sizes={"m": 2, "n": 3},
    ),
    row("Transpose", x=numbers("lmn"), perm=each(constant([2, 0, 1]), given([2, 0, 1]), constant([-1, 0, 1]))),
    row("Tile", input=numbers("mn"), multiples=each(constant([2, 3]), given([1, 2]), constant([0, 1]))),
    row("BroadcastTo", input=numbers("mn"), shape=each(constant([4, 2, 3]), given([1, 2, 3])), sizes={"m": 2, "n": 3}),
    row("ConcatV2", values=[numbers("mn"), numbers("mn")], axis=each(constant(0), constant(-1))),
    row("Concat", concat_dim=each(constant(0), constant(-1)), values=[numbers("mn"), numbers("mn")]),
    row("Pack", values=each([numbers("mn"), numbers("mn")], [numbers("")]), axis=each(0, -1, 1)),
    row("Unpack", value=numbers("mn"), num=2, axis=each(0, -2), sizes={"m": 2}),
    row("Split", split_dim=each(constant(0), constant(-2)), value=numbers("mn"), num_split=2, sizes={"m": 4}),
    row(
        "SplitV",
        Tlen=each(tf.int64, tf.int32),
        value=numbers("mn"),
        size_splits=each(constant([1, -1]), given([3, 1])),
        split_dim=constant(0),
        num_split=2,
        sizes={"m": 4},
    ),
    row(
        "GatherV2",
        params=numbers("lmn"),  # of other sizes: TensorFlow does not look at indices where the result is empty
        indices=numbers("k", 0, 2),
        axis=each(constant(0), constant(-1), constant(1)),
        batch_dims=0,
        sizes={"l": 2, "m": 2, "n": 2},
    ),
    row(
        "GatherV2",
        params=numbers("bmm"),
        indices=numbers("bk", 0, "m"),
        axis=each(constant(1), constant(-1), constant(2)),
        batch_dims=each(1, -1),
    ),
    row("Gather", params=numbers("mn"), indices=each(numbers("k", 0, "m"), numbers("", 0, "m"), numbers("kl", 0, "m"))),
    row(
        "GatherNd",
        params=numbers("mmn"),
        indices=each(numbers("k2", 0, "m"), numbers("k1", 0, "m"), numbers("k0", 0, "m")),
    ),
    row(
        "StridedSlice",
        input=numbers("mn"),
        begin=each(given([0, 1]), constant([-1, 0])),
        end=each(constant([9, 3]), given([2, 2])),
        strides=each(constant([1, 1]), constant([1, 2]), given([1, 1])),
        begin_mask=each(0, 1, 3),
        end_mask=each(0, 2),
        shrink_axis_mask=each(0, 1),
        new_axis_mask=each(0, 2),
        ellipsis_mask=each(0, 1),
    ),
    row(
        "StridedSlice", input=numbers("mn"), begin=constant([-1, 2]), end=constant([0, -9]), strides=constant([-1, -2])
    ),
    row(
        "Slice",
        input=numbers("mn"),
        begin=each(constant([0, 1]), given([1, 0])),
        size=each(constant([-1, 1]), given([1, 2])),
    ),
    row("Where", input=numbers("mn", -1, 2)),
    row("ReverseV2", tensor=numbers("lmn"), axis=each(constant([0]), constant([-1, 1]), constant([]))),
    row("Reverse", tensor=numbers("mn"), dims=each(constant([True, False]), constant([True, True]))),
    row("Reverse", tensor=numbers("mn"), dims=each(given([False, True]), given([True, True]))),
    row("ReverseSequence", input=numbers("mnk"), seq_lengths=numbers("m", 0, "n"), seq_dim=1, batch_dim=0),
    row("ReverseSequence", input=numbers("nmk"), seq_lengths=numbers("m", 0, "n"), seq_dim=0, batch_dim=1),
    row("Pad", input=numbers("mn"), paddings=each(constant([[1, 0], [2, 3]]), given([[0, 0], [0, 1]]))),
    row("Pad", input=numbers("mn"), paddings=given([[1, 0], [2, 3]]), T=each(tf.string)),
    row(
        "PadV2",
        input=numbers("m"),
        paddings=constant([[1, 2]]),
        constant_values=each(given("a"), constant("é")),
        T=each(tf.string),
    ),
    row(
        "PadV2",
        input=numbers("mn"),
        paddings=each(constant([[1, 0], [2, 3]]), given([[0, 0], [0, 1]])),
        constant_values=each(given(1), constant(1)),
    ),
    row(
        "MirrorPad",
        input=numbers("mn"),
        paddings=each(constant([[1, 0], [2, 1]]), given([[1, 1], [0, 1]])),
        mode=each("REFLECT", "SYMMETRIC"),
        sizes={"n": 4},
    ),
    row("DynamicPartition", data=numbers("mn"), partitions=numbers("m", 0, 3), num_partitions=3),
    row("DynamicPartition", data=numbers("mnk"), partitions=numbers("mn", 0, 2), num_partitions=2),
    row(
        "DynamicStitch",
        indices=[given([0, 2]), given([[1, 3]])],
        data=[numbers("ok"), numbers("pok")],
        sizes={"o": 2, "p": 1},
        zeros="k",
    ),
    row(
        "OneHot",
        indices=numbers("mn", -1, 4),
        depth=each(constant(3), given(3), constant(0)),
        on_value=given(1),
        off_value=given(0),
        axis=each(-1, 0, 1),
    ),
    row("Fill", dims=each(constant([2, 3]), given([2, 0])), value=numbers("")),
    row("Range", start=given(0), limit=given(9), delta=each(given(2), constant(3))),
    row("LinSpace", start=given(0), stop=given(1), num=each(constant(5), constant(1), given(3))),
    row("Unique", x=numbers("n", 0, 3), sizes={"n": 6}),
    row("UniqueV2", x=numbers("n", 0, 3), axis=constant([0]), sizes={"n": 6}),
    row(
        "UniqueV2", x=numbers("nm", 0, 2), axis=each(constant([0]), constant([-1]), given([1])), sizes={"n": 6, "m": 2}
    ),
    row("UniqueV2", x=numbers("n", 0, 3), axis=given([0]), sizes={"n": 6}),
    row(
        "UniqueWithCountsV2", x=numbers("mnk", 0, 2), axis=each(given([1]), given([-3])), sizes={"n": 6, "m": 2, "k": 2}
    ),
    row("NthElement", input=numbers("n", -90, 90), n=each(constant(1), given(0)), sizes={"n": 4}, zeros=""),
    row("NthElement", input=numbers("mkn", -90, 90), n=each(constant(1), given(2)), sizes={"n": 4}, zeros="mk"),
    *(
        row("ListDiff", x=x, y=y, sizes={"n": 6})
        for x, y in (
            (numbers("n", 0, 3), numbers("m", 0, 2)),
            (constant([3, 1, 3, 2]), each(constant([3]), given([1]))),
        )
    ),
    row("UniqueWithCounts", x=numbers("n", 0, 3), sizes={"n": 6}),
    row("UniqueWithCountsV2", x=numbers("n", 0, 3), axis=constant([0]), sizes={"n": 6}),
    row("InvertPermutation", x=given([2, 0, 1])),
    row(
        "ScatterNd",
        indices=numbers("kd", 0, 2),
        updates=numbers("kn"),
        shape=each(constant([2, 3]), given([2, 3])),
        sizes={"d": 1, "n": 3},
    ),
    row(
        "TensorScatterUpdate",
        tensor=numbers("mn"),
        indices=given([[1], [0]]),
        updates=numbers("kn"),
        sizes={"k": 2, "m": 3},
    ),
    *(
        row(
            f"TensorScatter{kind}",
            tensor=numbers("mn"),
            indices=given([[1], [1]]),
            updates=numbers("kn"),
            sizes={"k": 2, "m": 3},
        )
        for kind in ("Add", "Sub", "Max", "Min")
    ),
    row("MatMul", a=numbers("mk"), b=numbers("kn"), transpose_a=False, transpose_b=False),
    row("MatMul", a=numbers("km"), b=numbers("nk"), transpose_a=True, transpose_b=True),
    row("BatchMatMul", x=numbers("bmk"), y=numbers("bkn"), adj_x=False, adj_y=False),
    row("BatchMatMulV2", x=numbers("bmk"), y=numbers("kn"), adj_x=False, adj_y=False),
    row("BatchMatMulV2", x=numbers("bkm"), y=numbers("bnk"), adj_x=True, adj_y=True),
    row("BatchMatMulV3", x=numbers("bmk"), y=numbers("kn"), adj_x=False, adj_y=False),
    row("Einsum", inputs=[numbers("mk"), numbers("kn")], equation="mk,kn->nm"),
    row("Einsum", inputs=[numbers("m")], equation=each("i->ii", "i->iii")),
    row("Einsum", inputs=[numbers("mn")], equation=each("ij->iji", "ij->jiij", "...i->i...i")),
    row("Einsum", inputs=[numbers("mm")], equation=each("ii->ii", "ij->jij")),
    row("Einsum", inputs=[numbers("mk"), numbers("kn")], equation=each("ik,kj->iij", "ik,kj->kiki")),
    # What NaN and infinities give is on the page of differences.
    row("MatrixSolve", matrix=constant([[2, 1, 9], [1, 3, 1], [-2, 1, 4]]), rhs=numbers("3k", -3, 5)),
    row("MatrixSolve", matrix=constant([[[0, 1], [1, 3]], [[-2, 1], [4, 1]]]), rhs=numbers("22k", -3, 5)),
    row("MatrixSolve", matrix=weights("n33", -3, 5), rhs=numbers("n3k", -3, 5)),
    row("MatrixSolve", matrix=numbers("m33", -3, 5), rhs=numbers("m3k", -3, 5), known="m"),
    row("MatrixInverse", input=constant([[[2, 1], [1, 3]]])),
    *(row("Cholesky", input=constant([[[4, x, y], [1, 5, z], [2, -1, 6]]])) for x, y, z in ((1, 2, -1), (9, 9, 9))),
    row("Cholesky", input=given([[4.0]])),
    row("MatrixTriangularSolve", matrix=constant([[2, 1, 9], [1, 3, 1], [-2, 1, 4]]), rhs=numbers("3k")),
    row(
        "MatrixTriangularSolve",
        matrix=given([[[2, 1], [1, 3]], [[4, 0.5], [1, -1]]]),
        rhs=each(numbers("22k"), numbers("2k")),
    ),
    row("MatrixDeterminant", input=given([[[2, 1], [1, 3]]])),
    row(
        "MatrixBandPart",
        input=numbers("lmn"),
        num_lower=each(constant(1), constant(-1), given(0)),
        num_upper=each(constant(0), given(-1)),
        sizes={"m": 4, "n": 5},
    ),
    row("MatrixDiag", diagonal=numbers("mn")),
    row("MatrixDiagPart", input=numbers("lmn")),
    row("MatrixSetDiag", input=numbers("lmn"), diagonal=numbers("ln"), sizes={"m": 4, "n": 3}),
    *(
        row(f"MatrixDiagPart{v}", input=numbers("lmn"), k=_BANDS, padding_value=given(1), sizes={"m": 4, "n": 3})
        for v in ("V2", "V3")
    ),
    row(
        "MatrixDiagV2",
        diagonal=numbers("mn"),
        k=each(constant(0), constant(1), given(0), given(-2)),
        num_rows=each(constant(-1), given(-1), constant(4)),
        num_cols=constant(-1),
        padding_value=given(1),
    ),
    row(
        "MatrixDiagV3",
        diagonal=numbers("mn"),
        k=each(constant(0), constant(1), given(0), given(-2)),
        num_rows=each(constant(-1), given(-1)),
        num_cols=each(constant(-1), given(6)),
        padding_value=given(1),
    ),
    row(
        "MatrixDiagV3",
        diagonal=numbers("lmn"),
        k=each(constant([-1, 1]), given([-1, 1]), constant([0, 2]), given([0, 2]), constant([-3, -1])),
        num_rows=constant(-1),
        num_cols=constant(-1),
        padding_value=given(1),
        sizes={"m": 3, "n": 4},
        known="m",
    ),
    row(
        "MatrixSetDiagV3",
        input=numbers("lmn"),
        diagonal=numbers("ln"),
        k=each(constant(0), given(0)),
        sizes={"m": 4, "n": 3},
    ),
    row(
        "MatrixSetDiagV3",
        input=numbers("lmn"),
        diagonal=numbers("lkn"),
        k=each(constant([-1, 1]), given([-1, 1])),
        sizes={"m": 4, "n": 3, "k": 3},
    ),
    *(
        row(
            kind,
            input=numbers("bhwc"),
            block_size=2,
            data_format=each("NHWC", "NCHW"),
            sizes={"h": 4, "w": width, "c": 4},
        )
        for kind, width in (("SpaceToDepth", 6), ("DepthToSpace", 3))
    ),
    row(
        "SpaceToBatchND",
        input=numbers("bhwc"),
        block_shape=constant([2, 1]),
        paddings=each(constant([[1, 1], [0, 0]]), given([[1, 1], [0, 2]])),
        sizes={"h": 4},
    ),
    row(
        "BatchToSpaceND",
        input=numbers("bhwc"),
        block_shape=constant([2, 1]),
        crops=each(constant([[1, 0], [0, 0]]), given([[1, 0], [0, 1]])),
        sizes={"b": 4},
    ),
    row(
        "SpaceToBatch", input=numbers("bhwc"), paddings=constant([[1, 1], [0, 0]]), block_size=2, sizes={"h": 4, "w": 2}
    ),
    row("BatchToSpace", input=numbers("bhwc"), crops=constant([[1, 1], [0, 0]]), block_size=2, sizes={"b": 4}),
    *(
        row(f"Segment{kind}", data=numbers("mn", 1, 5), segment_ids=given([0, 0, 2]), sizes={"m": 3})
        for kind in ("Sum", "Mean", "Max", "Min", "Prod")
    ),
    *(
        row(
            f"UnsortedSegment{kind}",
            data=numbers("mn", 1, 5),
            segment_ids=given([3, -1, 0]),
            num_segments=each(constant(4), given(5)),
            sizes={"m": 3},
        )
        for kind in ("Sum", "Max", "Min", "Prod")
    ),
    *(
        row(
            f"SparseSegment{kind}",
            data=numbers("mn", 1, 5),
            indices=given([1, 0, 1]),
            segment_ids=given([0, 0, 2]),
            sizes={"m": 3},
        )
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        row(
            f"SparseSegment{kind}WithNumSegments",
            data=numbers("mn", 1, 5),
            indices=given([1, 0, 1]),
            segment_ids=given([0, 0, 2]),
            num_segments=given(4),
            sizes={"m": 3},
        )
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    row(
        "SparseToDense",
        sparse_indices=given([[0, 1], [1, 0]]),
        output_shape=constant([2, 3]),
        sparse_values=given([1, 2]),
        default_value=given(0),
    ),
    row("Bucketize", input=numbers("mn"), boundaries=each([-1.0, 0.5, 2.0], [])),
    row("LowerBound", sorted_inputs=given([[1, 2, 2, 3]]), values=given([[0, 2, 5]])),
    row("UpperBound", sorted_inputs=given([[1, 2, 2, 3]]), values=given([[0, 2, 5]])),
    row(
        "Roll",
        input=numbers("mn"),
        shift=each(constant(1), given(-2), constant(7)),
        axis=each(constant(0), constant(-1)),
    ),
    row("BroadcastArgs", s0=given([2, 1, 3]), s1=given([4, 1])),
    row("UnravelIndex", indices=given([5, 0]), dims=constant([2, 3])),
    row("EnsureShape", input=numbers("mn"), shape=each([2, 3], [None, 3]), sizes={"m": 2, "n": 3}),
    row("StopGradient", input=numbers("mn")),
    row("Snapshot", input=numbers("mn")),
)
