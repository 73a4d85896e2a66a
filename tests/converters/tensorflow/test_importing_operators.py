"""Operators that are converted without TensorFlow and tf2onnx, against TensorFlow's kernels.

Each row of the table is an operator with attributes, and inputs; it is tried with the inputs' sizes known and unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import Row, answers, assert_equal, imported, named, traced
from support.tensorflow_operators import TABLE, lines

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

RAW = tf.raw_ops

FLOATS = (np.float16, np.float32, np.float64)
SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)

X = np.float32([[1.5, -2, 0], [3, 4.25, -6]])
CUBE = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.random.default_rng(1).normal(size=(2, 7, 6, 3)).astype(np.float32)
WORDS = np.array([[b"a", b"b"], [b"", "é".encode()]], object)
NONE = np.zeros((0, 3), np.float32)


def call_of(op: str, *arguments: Any) -> Any:
    """Call an operator: the names of its inputs, then the inputs."""
    names, tensors = arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]
    return getattr(RAW, op)(**dict(zip(names, tensors, strict=True)))


def of_types(name: str, call: Callable[..., Any], types: Sequence[Any], *inputs: Any) -> list[Row]:
    """A row that calls an operator with inputs of each element type, and with inputs of no elements."""
    count = len(inputs)
    arrays = [np.array(x).astype(t) for t in types for x in inputs] + [np.zeros((0, 3), types[0])] * count

    def calls(*given: Any) -> Any:
        return [call(*given[k : k + count]) for k in range(0, len(given), count)]

    return [(name, calls, arrays)]


def elementwise() -> list[Row]:
    """Operators that compute each element by itself."""
    rows: list[Row] = []
    a, b = [[5, 3, 0], [7, 1, 2]], [[2, 3, 1], [4, 1, 3]]
    for op in ("AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"):
        types = (*FLOATS, np.int32, np.int64) if op == "SquaredDifference" else NUMBERS
        types = [t for t in types if not (op in ("Maximum", "Minimum") and t in (np.uint32, np.uint64))]
        rows += of_types(op, partial(call_of, op, "x", "y"), types, a, b)
    rows += of_types("RealDiv", lambda x, y: RAW.RealDiv(x=x, y=y), FLOATS, a, b)
    rows += of_types("Div", lambda x, y: RAW.Div(x=x, y=y), (*FLOATS, *SIGNED), a, b)
    rows += of_types("TruncateDiv", lambda x, y: RAW.TruncateDiv(x=x, y=y), (np.int32, np.int64, np.uint8), a, b)
    rows += of_types("Pow", lambda x, y: RAW.Pow(x=x, y=y), (*FLOATS, np.int32, np.int64), a, b)
    rows += of_types("DivNoNan", lambda x, y: RAW.DivNoNan(x=x, y=y), FLOATS, a, [[2, 0, 0], [4, 1, 0]])
    for op in ("Neg", "Abs", "Sign", "Square"):
        types = [t for t in (*FLOATS, *SIGNED) if not (op in ("Sign",) and t in (np.int8, np.int16))]
        rows += of_types(op, partial(call_of, op, "x"), types, [[5, -3, 0], [7, -1, 2]])
    for op in ("Sqrt", "Rsqrt", "Exp", "Log", "Sigmoid", "Tanh", "Ceil", "Floor", "Reciprocal"):
        rows += of_types(op, partial(call_of, op, "x"), FLOATS, [[0.5, 2.5, 1.25], [3.5, 1, 0.1]])
    rows += of_types("Rint", lambda x: RAW.Rint(x=x), FLOATS[1:], [[0.5, -2.5, 1.5, 1.25]])
    for op in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Erf"):
        types = (np.float16, np.float32) if op != "Sin" else FLOATS
        rows += of_types(op, partial(call_of, op, "x"), types, [[0.5, -2.5, 1.25], [3.5, 1, 0.1]])
    for op in ("Asin", "Acos", "Atanh"):
        rows += of_types(op, partial(call_of, op, "x"), (np.float32,), [[0.5, -0.25, 0]])
    rows += of_types("Acosh", lambda x: RAW.Acosh(x=x), (np.float32,), [[1.5, 3.25, 1]])
    rows += of_types("Round", lambda x: RAW.Round(x=x), FLOATS, [[0.5, -2.5, 1.5, 1.25]])
    for op in ("Relu", "Relu6"):
        types = [t for t in NUMBERS if t is not np.float16 or op == "Relu"]
        rows += of_types(op, partial(call_of, op, "features"), types, [[0, 5, 100], [1, 6, 7]])
        rows.append((f"{op} of negative numbers", partial(call_of, op, "features"), [X]))
    for op in ("Elu", "Selu", "Softplus", "Softsign"):
        rows += of_types(op, partial(call_of, op, "features"), FLOATS, [[0.5, -2.5, 1.25], [-9, 40, 0.1]])
    for alpha in (0.2, 0.0, 1.0):
        rows += of_types(f"LeakyRelu {alpha}", lambda x, alpha=alpha: RAW.LeakyRelu(features=x, alpha=alpha), FLOATS, X)
    rows += of_types("Softmax", lambda x: RAW.Softmax(logits=x), FLOATS, X)
    rows += of_types("LogSoftmax", lambda x: RAW.LogSoftmax(logits=x), FLOATS, X)
    special = np.float32([np.nan, np.inf, -np.inf, 0, 1])
    for op in ("IsNan", "IsInf", "IsFinite"):
        rows += of_types(op, partial(call_of, op, "x"), FLOATS, special)
    flags = [np.array([True, False, True]), np.array([[True], [False]])]
    rows += [
        ("LogicalAnd", lambda x, y: RAW.LogicalAnd(x=x, y=y), flags),
        ("LogicalOr", lambda x, y: RAW.LogicalOr(x=x, y=y), flags),
        ("LogicalNot", lambda x: RAW.LogicalNot(x=x), flags[:1]),
        ("AddN", lambda x, y: RAW.AddN(inputs=[x, y, x]), [X, X]),
        ("AddN of one", lambda x: RAW.AddN(inputs=[x]), [X]),
        ("AddV2 of strings", lambda x, y: RAW.Add(x=x, y=y), [WORDS, WORDS]),
        ("broadcast", lambda x, y: RAW.Mul(x=x, y=y), [CUBE, np.float32([[2], [3], [4]])]),
        ("Equal of strings", lambda x, y: RAW.Equal(x=x, y=y), [WORDS, WORDS[:1]]),
        ("NotEqual of flags", lambda x, y: RAW.NotEqual(x=x, y=y), flags),
        ("ClipByValue", lambda x: RAW.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=2.0), [X]),
        ("BiasAdd NHWC", lambda x, b: RAW.BiasAdd(value=x, bias=b), [IMAGE, np.float32([1, 2, 3])]),
        ("BiasAdd NCHW", lambda x, b: RAW.BiasAdd(value=x, bias=b, data_format="NCHW"), [IMAGE, np.float32(range(7))]),
        ("BiasAdd matrix", lambda x, b: RAW.BiasAdd(value=x, bias=b), [X, np.float32([1, 2, 3])]),
    ]  # fmt: skip
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        rows += of_types(op, partial(call_of, op, "x", "y"), (*SIGNED, *UNSIGNED), a, b)
    rows += of_types("Invert", lambda x: RAW.Invert(x=x), (*SIGNED, *UNSIGNED), a)
    for op in ("LeftShift", "RightShift"):
        rows += of_types(op, partial(call_of, op, "x", "y"), UNSIGNED[:1], a, b)
        rows += of_types(op, partial(call_of, op, "x", "y"), UNSIGNED[:1], [[5, 3, 130]], [[7], [8], [9], [100]])
    rows += of_types("Equal", lambda x, y: RAW.Equal(x=x, y=y), NUMBERS, a, b)
    return rows


def casts() -> list[Row]:
    """Every pair of types."""
    rows: list[Row] = []
    for source in (*NUMBERS, np.bool_):
        numbers = np.array([0, 1, 2, 100]).astype(source)
        rows.append(
            (
                f"Cast {np.dtype(source).name}",
                lambda x: [RAW.Cast(x=x, DstT=tf.as_dtype(t)) for t in (*NUMBERS, np.bool_)],
                [numbers],
            )
        )
    rows.append(("Cast is cut off", lambda x: tf.cast(x, tf.int32), [np.float32([1.9, -1.9, -0.5, 7])]))
    return rows


def shaping() -> list[Row]:
    """Operators about shapes."""
    rows: list[Row] = []
    for out in (tf.int32, tf.int64):
        rows += [
            (f"Shape {out.name}", lambda x, out=out: RAW.Shape(input=x, out_type=out), [CUBE]),
            (f"Shape of a scalar {out.name}", lambda x, out=out: RAW.Shape(input=x, out_type=out), [np.float32(1)]),
            (f"Size {out.name}", lambda x, out=out: RAW.Size(input=x, out_type=out), [CUBE]),
            (f"ShapeN {out.name}", lambda x, y, out=out: RAW.ShapeN(input=[x, y], out_type=out), [CUBE, X]),
        ]
    for axis in (0, 1, -1, -2):
        rows += [
            (f"ExpandDims {axis}", lambda x, axis=axis: RAW.ExpandDims(input=x, axis=axis), [X]),
            (f"Pack {axis}", lambda x, y, axis=axis: RAW.Pack(values=[x, y], axis=axis), [X, X + 1]),
            (f"Pack words {axis}", lambda x, axis=axis: RAW.Pack(values=[x, x], axis=axis), [WORDS]),
            (f"ConcatV2 {axis}", lambda x, y, axis=axis: RAW.ConcatV2(values=[x, y, x], axis=axis), [X, X + 1]),
            (f"Unpack {axis}", lambda x, axis=axis: RAW.Unpack(value=x, num=x.shape[axis] or 3, axis=axis),
             [np.arange(27).reshape(3, 3, 3)]),
            (f"Split {axis}", lambda x, axis=axis: RAW.Split(axis=axis, value=x, num_split=2),
             [np.arange(64).reshape(4, 4, 4)]),
        ]  # fmt: skip
    rows += [
        ("Rank", lambda x: RAW.Rank(input=x), [CUBE]),
        ("Concat", lambda x: RAW.Concat(concat_dim=1, values=[x, x]), [X]),
        ("ConcatV2 with nothing", lambda x, y: RAW.ConcatV2(values=[x, y], axis=0), [X, NONE]),
        ("Squeeze", lambda x: RAW.Squeeze(input=x, axis=[]), [CUBE[:1, :, :1]]),
        ("Squeeze axes", lambda x: RAW.Squeeze(input=x, axis=[0, -1]), [CUBE[:1, :, :1]]),
        ("Squeeze of nothing", lambda x: RAW.Squeeze(input=x, axis=[1]), [np.zeros((0, 1, 2), np.int64)]),
        ("Transpose", lambda x: RAW.Transpose(x=x, perm=[2, 0, 1]), [CUBE]),
        ("Transpose as it is", lambda x: RAW.Transpose(x=x, perm=[0, 1]), [WORDS]),
        ("Transpose negative", lambda x: RAW.Transpose(x=x, perm=[-1, 0, 1]), [CUBE]),
        ("Tile", lambda x, m: RAW.Tile(input=x, multiples=m), [X, np.int32([2, 1])]),
        ("Tile none", lambda x, m: RAW.Tile(input=x, multiples=m), [X, np.int64([0, 2])]),
        ("Tile words", lambda x, m: RAW.Tile(input=x, multiples=m), [WORDS, np.int64([1, 2])]),
        ("BroadcastTo", lambda x, s: RAW.BroadcastTo(input=x, shape=s), [X, np.int32([4, 2, 3])]),
        ("BroadcastTo a scalar", lambda x: RAW.BroadcastTo(input=x, shape=[0, 2]), [np.int64(3)]),
        ("EnsureShape", lambda x: RAW.EnsureShape(input=x, shape=[None, 3]), [X]),
        ("SplitV", lambda x: RAW.SplitV(value=x, size_splits=[1, 0, 2], axis=-1, num_split=3), [X]),
        ("SplitV rest", lambda x: RAW.SplitV(value=x, size_splits=[1, -1], axis=1, num_split=2), [CUBE]),
        ("SplitV fed", lambda x, s: RAW.SplitV(value=x, size_splits=s, axis=1, num_split=2), [CUBE, np.int64([2, 1])]),
        ("SplitV of one", lambda x: RAW.SplitV(value=x, size_splits=[3], axis=1, num_split=1), [X]),
        ("Split of one", lambda x: RAW.Split(axis=0, value=x, num_split=1), [X]),
        ("Split of nothing", lambda x: RAW.Split(axis=0, value=x, num_split=3), [NONE]),
        ("IdentityN", lambda x, y: RAW.IdentityN(input=[x, y]), [X, WORDS]),
    ]
    return rows


def slices() -> list[Row]:
    """StridedSlice as Python writes it, with fed bounds and all masks."""
    cuts: dict[str, Callable[[Any], Any]] = {
        "x[1:]": lambda x: x[1:], "x[:-1]": lambda x: x[:-1], "x[::2]": lambda x: x[::2], "x[::-1]": lambda x: x[::-1],
        "x[-1]": lambda x: x[-1], "x[0, 1]": lambda x: x[0, 1], "x[..., 0]": lambda x: x[..., 0],
        "x[..., tf.newaxis]": lambda x: x[..., tf.newaxis],
        "x[tf.newaxis, ..., 1:2]": lambda x: x[tf.newaxis, ..., 1:2],
        "x[0, ..., -1]": lambda x: x[0, ..., -1], "x[:, 1:3, ::-2]": lambda x: x[:, 1:3, ::-2],
        "x[5:9]": lambda x: x[5:9], "x[2:0:-1]": lambda x: x[2:0:-1],
        "x[:, tf.newaxis, 0]": lambda x: x[:, tf.newaxis, 0],
        "x[1, tf.newaxis, 1:]": lambda x: x[1, tf.newaxis, 1:], "x[-1:]": lambda x: x[-1:], "x[:]": lambda x: x[:],
        "x[-2:-1, -1]": lambda x: x[-2:-1, -1], "x[3:1]": lambda x: x[3:1], "x[..., 1:2, :]": lambda x: x[..., 1:2, :],
    }  # fmt: skip
    rows: list[Row] = [(text, cut, [CUBE]) for text, cut in cuts.items()]
    for k in (-1, 0, 1):
        rows += [
            (f"x[{k}] fed", lambda x, k: x[k], [CUBE, np.int32(k)]),
            (f"x[{k}:] fed", lambda x, k: x[k:], [CUBE, np.int32(k)]),
            (f"x[:{k}] fed", lambda x, k: x[:k], [CUBE, np.int64(k)]),
            (f"x[:, {k}, 1:] fed", lambda x, k: x[:, k, 1:], [CUBE, np.int32(k)]),
        ]
    rows += [
        ("slice of a shape", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), [CUBE]),
        ("slice of words", lambda x: x[:, 0], [WORDS]),
        ("slice of nothing", lambda x: x[:, 1:], [NONE]),
    ]
    return rows


def indexing() -> list[Row]:
    """Operators that pick and move elements."""
    ids = np.int64([[0, 2], [1, 0]])
    rows: list[Row] = []
    for axis in (0, 1, 2, -1):
        rows.append(
            (
                f"GatherV2 axis {axis}",
                lambda x, i, axis=axis: tf.gather(x, i, axis=axis),
                [np.arange(27.0).reshape(3, 3, 3), ids],
            )
        )
    for axis, batch in ((1, 1), (2, 1), (2, 2), (-1, 1), (1, -1)):

        def call(x: Any, i: Any, axis: int = axis, batch: int = batch) -> Any:
            return RAW.GatherV2(params=x, indices=i, axis=axis, batch_dims=batch)

        rows.append(
            (
                f"GatherV2 axis {axis} batch {batch}",
                call,
                [np.arange(16.0).reshape(2, 2, 4), np.int32([[0, 1], [1, 0]])],
            )
        )
    rows += [
        ("Gather", lambda x, i: RAW.Gather(params=x, indices=i), [X, ids[:, 0] % 2]),
        ("GatherV2 of words", lambda x, i: tf.gather(x, i), [WORDS, np.int32([1, 1, 0])]),
        ("GatherV2 scalar", lambda x, i: tf.gather(x, i), [X, np.int32(1)]),
        ("GatherV2 of nothing", lambda x, i: tf.gather(x, i), [X, np.zeros((0, 2), np.int64)]),
        ("Where flags", lambda x: tf.where(x), [np.array([[True, False], [True, True]])]),
        ("Where nothing", lambda x: tf.where(x), [np.zeros((0, 2), bool)]),
        ("ReverseV2", lambda x: RAW.ReverseV2(tensor=x, axis=[0, -1]), [CUBE]),
        ("ReverseV2 no axis", lambda x: RAW.ReverseV2(tensor=x, axis=np.zeros(0, np.int32)), [CUBE]),
        ("ReverseV2 words", lambda x: RAW.ReverseV2(tensor=x, axis=[1]), [WORDS]),
        ("ReverseSequence", lambda x, n: RAW.ReverseSequence(input=x, seq_lengths=n, seq_dim=1, batch_dim=0),
         [CUBE, np.int64([1, 3])]),
        ("ReverseSequence last", lambda x, n: RAW.ReverseSequence(input=x, seq_lengths=n, seq_dim=0, batch_dim=2),
         [CUBE, np.int32([1, 2, 0, 2])]),
        ("Pad fed", lambda x, p: RAW.Pad(input=x, paddings=p), [X, np.int32([[1, 0], [0, 2]])]),
        ("PadV2", lambda x: RAW.PadV2(input=x, paddings=[[0, 1], [2, 0]], constant_values=7.0), [X]),
        ("Pad of nothing", lambda x: RAW.Pad(input=x, paddings=[[1, 0], [0, 0]]), [NONE]),
        ("DynamicPartition", lambda x, p: RAW.DynamicPartition(data=x, partitions=p, num_partitions=3),
         [CUBE, np.int32([2, 0])]),
        ("DynamicPartition matrix", lambda x, p: RAW.DynamicPartition(data=x, partitions=p, num_partitions=2),
         [CUBE, np.int32([[1, 0, 1], [0, 0, 1]])]),
        ("DynamicPartition of nothing", lambda x, p: RAW.DynamicPartition(data=x, partitions=p, num_partitions=2),
         [NONE, np.zeros(0, np.int32)]),
        ("DynamicStitch", lambda i, j, x, y: RAW.DynamicStitch(indices=[i, j], data=[x, y]),
         [np.int32([3, 0]), np.int32([[1], [2]]), X, X[:, None] + 1]),
        ("DynamicStitch of words", lambda i, x: RAW.ParallelDynamicStitch(indices=[i], data=[x]),
         [np.int32([1, 0]), WORDS]),
        ("DynamicStitch of nothing", lambda i, x: RAW.DynamicStitch(indices=[i], data=[x]),
         [np.zeros(0, np.int32), NONE]),
        ("Range", lambda n: RAW.Range(start=2, limit=n, delta=3), [np.int32(12)]),
        ("Range down", lambda n: RAW.Range(start=n, limit=0.5, delta=-0.75), [np.float32(3)]),
        ("Range of nothing", lambda n: RAW.Range(start=np.int64(5), limit=n, delta=np.int64(1)), [np.int64(5)]),
        ("LinSpace", lambda a, n: RAW.LinSpace(start=a, stop=2.0, num=n), [np.float32(-1), np.int32(4)]),
        ("LinSpace of one", lambda a, n: RAW.LinSpace(start=a, stop=2.0, num=n), [np.float32(-1), np.int32(1)]),
    ]  # fmt: skip
    for mode, widths in (
        ("REFLECT", [[1, 0], [2, 1]]),
        ("SYMMETRIC", [[2, 1], [0, 3]]),
        ("SYMMETRIC", [[0, 0], [1, 1]]),
    ):
        rows.append(
            (f"MirrorPad {mode} {widths}", lambda x, m=mode, w=widths: RAW.MirrorPad(input=x, paddings=w, mode=m), [X])
        )
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
        rows.append(
            (f"Where {np.dtype(dtype).name}", lambda x: tf.where(x), [np.array([[0, 1], [2, 0]]).astype(dtype)])
        )
    for op in ("ArgMax", "ArgMin"):
        for out in (tf.int32, tf.int64):
            for axis in (0, -1):
                rows.append((f"{op} {axis} {out.name}", lambda x, op=op, out=out, axis=axis: getattr(RAW, op)(
                    input=x, dimension=axis, output_type=out), [np.float32([[1, 3, 3], [4, 0, 0]])]))  # fmt: skip
        arrays = [np.array([[1, 3, 3], [4, 0, 0]]).astype(dtype) for dtype in NUMBERS]
        rows.append((f"{op} of types", lambda *xs, op=op: [getattr(RAW, op)(input=x, dimension=1) for x in xs], arrays))
    for exclusive in (False, True):
        for reverse in (False, True):
            for axis in (0, -1):
                name, flags = f"Cumsum {axis} {exclusive} {reverse}", {"exclusive": exclusive, "reverse": reverse}
                rows.append((name, lambda x, a=axis, flags=flags: RAW.Cumsum(x=x, axis=a, **flags), [X]))
    rows += of_types("Cumsum", lambda x: RAW.Cumsum(x=x, axis=1), NUMBERS, [[1, 3, 3], [4, 0, 0]])
    return rows


def products() -> list[Row]:
    """Products of matrices."""
    a, b = CUBE[0], CUBE[1]
    rows: list[Row] = []
    for ta in (False, True):
        for tb in (False, True):
            x, y = (a.T if ta else a), (b if tb else b.T)
            rows.append(
                (
                    f"MatMul {ta} {tb}",
                    lambda x, y, ta=ta, tb=tb: RAW.MatMul(a=x, b=y, transpose_a=ta, transpose_b=tb),
                    [x, y],
                )
            )
            x, y = np.stack([x, x + 1]), np.stack([y, y - 1])
            rows.append(
                (
                    f"BatchMatMulV2 {ta} {tb}",
                    lambda x, y, ta=ta, tb=tb: RAW.BatchMatMulV2(x=x, y=y, adj_x=ta, adj_y=tb),
                    [x, y],
                )
            )
    for dtype in (*FLOATS, np.int32, np.int64):
        rows.append(
            (f"MatMul {np.dtype(dtype).name}", lambda x, y: RAW.MatMul(a=x, b=y), [a.astype(dtype), b.T.astype(dtype)])
        )
    rows += [
        (
            "MatrixDeterminant",
            lambda x: RAW.MatrixDeterminant(input=x),
            [np.float32([[[1, 2], [3, 4]], [[0, 2], [5, 1]]])],
        ),
        ("CheckNumerics", lambda x: RAW.CheckNumerics(tensor=x, message="not finite"), [X]),
        ("MatMul of nothing", lambda x, y: RAW.MatMul(a=x, b=y), [NONE, np.float32(np.ones((3, 2)))]),
        ("MatMul over nothing", lambda x, y: RAW.MatMul(a=x, b=y), [NONE.T, NONE]),
        ("BatchMatMulV2 broadcast", lambda x, y: RAW.BatchMatMulV2(x=x, y=y), [CUBE, b.T]),
        (
            "BatchMatMulV3",
            lambda x, y: RAW.BatchMatMulV3(x=x, y=y, Tout=tf.int32),
            [np.int8([[[1, 2]]]), np.int8([[[3], [-4]]])],
        ),
    ]
    return rows


def images() -> list[Row]:
    """Convolutions, pooling and normalization."""
    draw = np.random.default_rng(2)
    weight, depthwise = (draw.normal(size=s).astype(np.float32) for s in ((3, 2, 3, 4), (3, 2, 3, 2)))
    rows: list[Row] = []
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            step = [1, stride, stride, 1]
            rows += [
                (f"Conv2D {padding} {stride}", lambda x, p=padding, s=step: RAW.Conv2D(
                    input=x, filter=weight, strides=s, padding=p), [IMAGE]),
                (f"DepthwiseConv2dNative {padding} {stride}", lambda x, p=padding, s=step: RAW.DepthwiseConv2dNative(
                    input=x, filter=depthwise, strides=s, padding=p), [IMAGE]),
                (f"MaxPool {padding} {stride}", lambda x, p=padding, s=step: RAW.MaxPool(
                    input=x, ksize=[1, 3, 2, 1], strides=s, padding=p), [IMAGE]),
                (f"AvgPool {padding} {stride}", lambda x, p=padding, s=step: RAW.AvgPool(
                    value=x, ksize=[1, 3, 2, 1], strides=s, padding=p), [IMAGE]),
            ]  # fmt: skip
    statistics = [np.float32(v) for v in ([1, 2, 3], [0, 1, -1], [0.5, 0, 1], [1, 2, 0.25])]
    rows += [
        ("Conv2D dilated", lambda x: RAW.Conv2D(input=x, filter=weight, strides=[1] * 4, padding="SAME",
            dilations=[1, 2, 2, 1]), [IMAGE]),
        ("Conv2D explicit", lambda x: RAW.Conv2D(input=x, filter=weight, strides=[1] * 4, padding="EXPLICIT",
            explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0]), [IMAGE]),
        ("FusedBatchNormV3", lambda x, s, o, m, v: RAW.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v,
            epsilon=0.01, is_training=False)[0], [IMAGE, *statistics]),
    ]  # fmt: skip
    return rows


ROWS = [*elementwise(), *casts(), *products()]
ROWS_WITH_SIZES = [*shaping(), *slices(), *indexing(), *images()]


@pytest.mark.parametrize(("call", "arrays"), **named(ROWS))
def test_equals_tensorflow(call, arrays):
    assert_equal(call, arrays, sizes_known=[False])


@pytest.mark.parametrize(("call", "arrays"), **named(ROWS_WITH_SIZES))
def test_equals_tensorflow_with_known_and_unknown_sizes(call, arrays):
    assert_equal(call, arrays, sizes_known=[False, True])


def test_table_of_operators_is_that_of_tensorflow():
    assert TABLE.read_text("utf-8").splitlines() == lines()  # python -m tests.support.tensorflow_operators


REFUSED: list[tuple[str, Callable[..., Any], Sequence[Any], str]] = [
    ("Cast truncates", lambda x: RAW.Cast(x=x, DstT=tf.float16, Truncate=True), [X], "Truncate = True"),
    ("double", lambda x: RAW.Erf(x=x), [np.float64([1])], "no Erf of double"),
    ("complex", lambda x: tf.math.angle(tf.cast(x, tf.complex64)), [X], "complex"),
    ("unknown", lambda x: RAW.BesselI0e(x=x), [np.float32(np.eye(2))], "no converter for this operator"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "arrays", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(call, arrays, reason):
    with pytest.raises(ConversionError, match=reason):
        imported(traced(call, arrays, sizes_known=False))


def test_attribute_that_nobody_reads_is_refused_with_its_value():
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = graph.node.add(name="y", op="Sqrt", input=["x"])
    node.attr["T"].type, node.attr["precision"].i = 1, 3
    with pytest.raises(ConversionError, match=r"y \(Sqrt\): its attribute precision = 3 is not supported"):
        convert(from_graph(graph, name="graph"))


def test_constant_sliced_by_a_size() -> None:
    """A size that is known only when the model runs is no end beyond all short constants."""

    def call(x: Any) -> Any:
        count = tf.shape(x)[0]
        table = tf.constant([10.0, 20, 30, 40])
        return table[:count], tf.slice(table, [1], [count]), tf.zeros([2, 3])[:, :count]

    assert_equal(call, [np.float32([1, 2])], sizes_known=[False, True])


#: Operators of complex numbers, of rank 3.
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "sum": lambda z: z + z[:, ::-1] - 2.0,
    "product": lambda z: z * z[:1],
    "quotient": lambda z: z / (z + tf.constant(1j, tf.complex64)),
    "exponential": lambda z: tf.exp(-z),
    "matrix product": lambda z: tf.matmul(z, z, adjoint_b=True),
    "moved": lambda z: tf.concat([tf.transpose(z)[..., None], tf.reverse(tf.transpose(z), [0])[..., None]], 3)[1:],
    "chosen": lambda z: tf.where(tf.math.real(z) > 0, z, tf.square(z)),
    "reduced": lambda z: tf.reduce_sum(tf.pad(z, [[1, 0], [0, 0], [0, 2]]), 1),
}


def _of_complex(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The real and imaginary parts of a function of complex numbers, one after the other."""

    def parts(x: Any) -> Any:
        made = call(tf.complex(x, 1 - x))
        return tf.concat([tf.math.real(made), tf.math.imag(made)], 0)

    return parts


SPECTRA: list[Row] = [
    ("amplitudes of real numbers", lambda x: tf.abs(tf.signal.rfft(x)), [np.float32([[1, 2, -3, 5, 0.5]])]),
    ("of doubles", lambda x: tf.abs(tf.signal.rfft(x)), [np.float64([1, 2, -3, 5])]),
    ("cropped", lambda x: tf.math.imag(tf.signal.rfft(x, [3])), [np.float32([[1, 2, -3, 5, 0.5]])]),
    ("padded", lambda x: tf.math.real(tf.signal.rfft(x, [8])), [np.float32([[1, 2, -3, 5, 0.5]])]),
    ("in two dimensions", lambda x: tf.abs(tf.signal.rfft2d(x)), [CUBE]),
    ("in two dimensions, padded", lambda x: tf.abs(tf.signal.rfft2d(x, [5, 3])), [CUBE]),
    ("complex", lambda x: tf.math.real(tf.signal.ifft(tf.signal.fft(tf.complex(x, -x)))), [CUBE]),
    ("complex in two dimensions", lambda x: tf.abs(tf.signal.fft2d(tf.cast(x, tf.complex64))), [CUBE]),
    ("conjugate", lambda x: tf.math.imag(tf.math.conj(tf.signal.fft(tf.cast(x, tf.complex64)))), [CUBE]),
    ("in sound", lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4), [np.float32(np.sin(np.arange(40)))]),
    *(
        (f"real of the half, {length}", lambda x, n=length: tf.signal.irfft(tf.complex(x, -x), n), [CUBE])
        for length in ([1], [4], [5], [9])
    ),
    ("real in two dimensions", lambda x: tf.signal.irfft2d(tf.complex(x, -x), [5, 3]), [CUBE]),
    *((f"cosine, {kind}", lambda x, k=kind: tf.signal.dct(x, k, norm="ortho"), [CUBE]) for kind in (2, 3, 4)),
    *((f"{name} of complex numbers", _of_complex(call), [CUBE]) for name, call in COMPLEX.items()),
    ("of sound", lambda x: tf.abs(tf.signal.stft(x, 8, 4)), [np.float32(np.sin(np.arange(40)))]),
]


@pytest.mark.parametrize(("call", "arrays"), **named(SPECTRA))
def test_spectra(call: Callable[..., Any], arrays: Sequence[Any]) -> None:
    for known in (True, False):
        concrete = traced(call, arrays, sizes_known=known)
        (got,), want = answers(imported(concrete), arrays), concrete(*map(tf.constant, arrays)).numpy()
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("turned", [{}, {"transpose_a": True}, {"adjoint_b": True}])
def test_sparse_matrices(turned: dict[str, bool]) -> None:
    def call(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        a = RAW.SparseTensorToCSRSparseMatrix(indices=indices, values=values, dense_shape=shape)
        squared = RAW.SparseMatrixSparseMatMul(a=a, b=a, type=tf.float32, **turned)
        return (
            *RAW.CSRSparseMatrixToSparseTensor(sparse_matrix=squared, type=tf.float32),
            RAW.CSRSparseMatrixToDense(sparse_input=squared, type=tf.float32),
            RAW.SparseMatrixMatMul(a=a, b=dense, **turned),
            RAW.SparseMatrixMatMul(a=a, b=dense, transpose_output=True, **turned),
        )

    dense = np.arange(9, dtype=np.float32).reshape(3, 3)
    indices, shape = np.int64([[0, 1], [1, 0], [1, 2], [2, 0]]), np.int64([3, 3])
    assert_equal(call, [indices, np.float32([1, 2, -1, 2]), shape, dense], sizes_known=[True])
    assert_equal(call, [indices[:0], np.float32([]), shape, dense], sizes_known=[True])
