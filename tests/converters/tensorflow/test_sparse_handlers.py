"""Operators on sparse tensors that become standard ONNX around one operator of the domain give TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import INTEGERS, NUMBERS, VALUES, by_name, function, values  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

INDICES = np.array([[0, 1], [0, 3], [2, 0], [3, 2]])
UNSORTED = INDICES[[2, 0, 3, 1]]
SHAPE = np.array([5, 4])
NONE = np.zeros((0, 2), np.int64)


def triple(dtype, rank=2):
    return ([None, rank], tf.int64), ([None], dtype), ([rank], tf.int64)


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_sparse_reorder(agree, dtype):
    @function(*triple(dtype))
    def reorder(indices, vals, shape):
        return tuple(tf.raw_ops.SparseReorder(input_indices=indices, input_values=vals, input_shape=shape))

    agree(reorder, UNSORTED, values(dtype, 4), SHAPE)
    agree(reorder, NONE, values(dtype, 0), SHAPE)


@pytest.mark.parametrize("rank", [1, 3])
def test_sparse_reorder_of_other_ranks(agree, rank):
    @function(*triple(tf.float32, rank))
    def reorder(indices, vals, shape):
        return tuple(tf.raw_ops.SparseReorder(input_indices=indices, input_values=vals, input_shape=shape))

    indices = np.random.default_rng(0).permutation(np.argwhere(np.ones([4] * rank)))
    agree(reorder, indices, values(tf.float32, len(indices)), np.array([4] * rank))


@pytest.mark.parametrize(("index", "dtype"), [(tf.int32, tf.float32), *((tf.int64, dtype) for dtype in VALUES)])
def test_sparse_to_dense(agree, index, dtype):
    @function(([None, 2], index), ([None], dtype), ([2], index), ([], dtype))
    def dense(indices, vals, shape, default):
        return tf.raw_ops.SparseToDense(
            sparse_indices=indices, output_shape=shape, sparse_values=vals, default_value=default
        )

    numbers, given = index.as_numpy_dtype, values(dtype, 5)
    agree(dense, INDICES.astype(numbers), given[:4], SHAPE.astype(numbers), given[4])
    agree(dense, NONE.astype(numbers), given[:0], SHAPE.astype(numbers), given[4])


def test_sparse_to_dense_of_vectors_and_scalars(agree):
    @function(([None], tf.int64), ([1], tf.int64), ([], tf.int64))
    def dense(indices, shape, one):
        vector = tf.raw_ops.SparseToDense(
            sparse_indices=indices, output_shape=shape, sparse_values=7.0, default_value=-1.0
        )
        return vector, tf.raw_ops.SparseToDense(
            sparse_indices=one, output_shape=shape, sparse_values=7.0, default_value=-1.0
        )

    agree(dense, np.array([1, 3]), np.array([5]), np.int64(2))


@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.bfloat16], ids=by_name)
def test_sparse_tensor_dense_mat_mul(agree, dtype, adjoint_a, adjoint_b):
    @function(*triple(dtype), ([None, None], dtype))
    def product(indices, vals, shape, dense):
        sparse = tf.SparseTensor(indices, vals, shape)
        return tf.sparse.sparse_dense_matmul(sparse, dense, adjoint_a=adjoint_a, adjoint_b=adjoint_b)

    inner = 5 if adjoint_a else 4
    size = (3, inner) if adjoint_b else (inner, 3)
    dense = np.random.default_rng(0).integers(-8, 8, size).astype(dtype.as_numpy_dtype)
    agree(product, UNSORTED, values(dtype, 4), SHAPE, dense)
    agree(product, NONE, values(dtype, 0), SHAPE, dense)


def test_a_product_of_many_entries(run):
    """Each product is rounded before it is added, unlike in TensorFlow's fused kernels: a few ulp for 30 summands."""

    @function(*triple(tf.float32), ([100, 8], tf.float32))
    def product(indices, vals, shape, dense):
        return tf.sparse.sparse_dense_matmul(tf.SparseTensor(indices, vals, shape), dense)

    rng = np.random.default_rng(1)
    indices = np.argwhere(rng.random((30, 100)) < 0.3)
    vals, dense = (rng.standard_normal(size).astype(np.float32) for size in (len(indices), (100, 8)))
    feeds = (indices, vals, np.array([30, 100]), dense)
    names = ("indices", "vals", "shape", "dense")
    (actual,) = run(convert(product), **dict(zip(names, feeds, strict=True))).values()
    sizes = np.zeros((30, 8), np.float32)
    np.add.at(sizes, indices[:, 0], np.abs(vals[:, None] * dense[indices[:, 1]]))
    error = np.abs(actual - product(*map(tf.constant, feeds)).numpy())
    assert (error <= 4 * np.finfo(np.float32).eps * sizes).all()


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_sparse_slice(agree, dtype):
    @function(*triple(dtype), ([2], tf.int64), ([2], tf.int64))
    def cut(indices, vals, shape, start, size):
        return tuple(tf.raw_ops.SparseSlice(indices=indices, values=vals, shape=shape, start=start, size=size))

    for start, size in (([0, 1], [3, 2]), ([2, 0], [9, 9]), ([0, 0], [5, 4]), ([4, 0], [1, 4]), ([5, 4], [2, 2])):
        agree(cut, INDICES, values(dtype, 4), SHAPE, np.array(start), np.array(size))


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_sparse_split(agree, dtype):
    """Entries in any order, a rest that makes the first parts longer, dimensions counted from the end."""

    @function(*triple(dtype), ([], tf.int64))
    def split(indices, vals, shape, axis):
        parts = tf.raw_ops.SparseSplit(split_dim=axis, indices=indices, values=vals, shape=shape, num_split=3)
        return tuple(tensor for kind in parts for tensor in kind)

    for axis in (0, 1, -1, -2):
        agree(split, UNSORTED, values(dtype, 4), SHAPE, np.int64(axis))
    agree(split, NONE, values(dtype, 0), SHAPE, np.int64(1))


@pytest.mark.parametrize(("axis", "dtype"), [(0, tf.float32), (-1, tf.float32), *((1, dtype) for dtype in VALUES)])
def test_sparse_concat(agree, axis, dtype):
    @function(*triple(dtype), ([None], dtype))
    def joined(indices, vals, shape, others):
        first, second = tf.SparseTensor(indices, vals, shape), tf.SparseTensor(indices, others, shape)
        both = tf.sparse.concat(axis, [first, second, first])
        return both.indices, both.values, both.dense_shape

    given = values(dtype, 8)
    agree(joined, INDICES, given[:4], SHAPE, given[4:])
    agree(joined, NONE, given[:0], SHAPE, given[:0])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2], [0, 1, 2]], ids=str)
def test_sparse_reduce_sum(agree, axis, keepdims):
    @function(*triple(tf.float32, 3))
    def total(indices, vals, shape):
        return tf.sparse.reduce_sum(tf.SparseTensor(indices, vals, shape), axis, keepdims)

    indices = np.array([[0, 0, 1], [0, 2, 1], [1, 0, 0], [1, 1, 1], [1, 2, 1]])
    agree(total, indices, values(tf.float32, 5), np.array([2, 3, 2]))
    agree(total, np.zeros((0, 3), np.int64), values(tf.float32, 0), np.array([2, 3, 2]))


@pytest.mark.parametrize("dtype", NUMBERS, ids=by_name)
def test_sparse_reduce_sum_of_every_type(agree, dtype):
    @function(*triple(dtype))
    def total(indices, vals, shape):
        return tf.sparse.reduce_sum(tf.SparseTensor(indices, vals, shape), 1)

    agree(total, INDICES, values(dtype, 4), SHAPE)


@pytest.mark.parametrize("dense", [(5, 4), (1, 4), (5, 1), (4,), (1,), ()], ids=str)
@pytest.mark.parametrize("kind", ["Mul", "Div", "Add"])
def test_sparse_dense_elementwise(agree, kind, dense):
    @function(*triple(tf.float32), (dense, tf.float32))
    def elementwise(indices, vals, shape, other):
        operator = getattr(tf.raw_ops, f"SparseDenseCwise{kind}")
        return operator(sp_indices=indices, sp_values=vals, sp_shape=shape, dense=other)

    other = np.random.default_rng(0).standard_normal(dense).astype(np.float32)
    agree(elementwise, INDICES, values(tf.float32, 4), SHAPE, other)


@pytest.mark.parametrize("dtype", [t for t in NUMBERS if t not in (tf.uint32, tf.uint64)], ids=by_name)
def test_sparse_dense_mul_of_every_type(agree, dtype):
    @function(*triple(dtype), ([1, 4], dtype))
    def product(indices, vals, shape, other):
        return tf.raw_ops.SparseDenseCwiseMul(sp_indices=indices, sp_values=vals, sp_shape=shape, dense=other)

    agree(product, INDICES, values(dtype, 4), SHAPE, values(dtype, 4)[None])


class TestCounting:
    NUMBERS = np.array([1, 3, 3, 0, 7, 3])

    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=by_name)
    def test_bincount(self, agree, dtype):
        @function(([None], tf.int32), ([], tf.int32), ([6], dtype))
        def count(numbers, size, weights):
            plain = tf.raw_ops.Bincount(arr=numbers, size=size, weights=tf.constant([], dtype))
            return plain, tf.raw_ops.Bincount(arr=numbers, size=size, weights=weights)

        for size in (0, 5, 8):
            agree(count, self.NUMBERS.astype(np.int32), np.int32(size), values(dtype, 6))

    def test_weights_that_are_fed(self, agree):
        """TensorFlow counts ones if there are none."""

        @function(([None], tf.int32), ([None], tf.float32), ([2, None], tf.int32))
        def count(numbers, weights, rows):
            dense = tf.raw_ops.DenseBincount(input=rows, size=5, weights=weights, binary_output=False)
            return tf.raw_ops.Bincount(arr=numbers, size=5, weights=weights), dense

        numbers = self.NUMBERS.astype(np.int32)
        agree(count, numbers, np.float32([]), numbers.reshape(2, 3))
        agree(count, numbers[:0], np.float32([]), numbers.reshape(2, 3)[:, :0])

    @pytest.mark.parametrize("binary", [False, True])
    @pytest.mark.parametrize("shape", [(6,), (2, 3)], ids=str)
    def test_dense_bincount(self, agree, shape, binary):
        @function(([None] * len(shape), tf.int64), ([], tf.int64))
        def count(numbers, size):
            none = tf.constant([], tf.float32)
            return tf.raw_ops.DenseBincount(input=numbers, size=size, weights=none, binary_output=binary)

        for size in (2, 8):
            agree(count, self.NUMBERS.reshape(shape), np.int64(size))

    @pytest.mark.parametrize("binary", [False, True])
    def test_sparse_bincount(self, agree, binary):
        @function(([None, 2], tf.int64), ([None], tf.int64), ([2], tf.int64), ([None], tf.float32))
        def count(indices, numbers, shape, weights):
            if binary:
                weights = tf.constant([], tf.float32)
            return tf.raw_ops.SparseBincount(
                indices=indices, values=numbers, dense_shape=shape, size=5, weights=weights, binary_output=binary
            )

        agree(count, INDICES, np.array([4, 0, 3, 3]), SHAPE, np.float32([1, 2, 3, 4]))
        agree(count, INDICES, np.array([4, 0, 3, 3]), SHAPE, np.float32([]))

    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=by_name)
    def test_bucketize(self, agree, dtype):
        @function(([2, None], dtype))
        def bucket(ages):
            return tf.raw_ops.Bucketize(input=ages, boundaries=[0.1, 1, 18, 18, 65.5])

        numbers = [[-1, 0, 1], [18, 65, 66]] if dtype.is_integer else [[-np.inf, 0.1, 1], [18, np.nan, 65.5]]
        agree(bucket, np.array(numbers, dtype.as_numpy_dtype))

    def test_integers_are_compared_with_boundaries_as_floats(self, agree):
        @function(([None], tf.int32))
        def bucket(numbers):
            return tf.raw_ops.Bucketize(input=numbers, boundaries=[float(2**24)]), tf.raw_ops.Bucketize(
                input=numbers, boundaries=[]
            )

        agree(bucket, np.array([2**24 - 1, 2**24, 2**24 + 1], np.int32))


class TestOneHot:
    INDICES = np.array([[0, -1, 3], [2, 4, -5]])

    @pytest.mark.parametrize("axis", [-1, 0, 1, 2])
    def test_indices_out_of_range_are_off_everywhere(self, agree, axis):
        @function(([None, 3], tf.int64), ([], tf.int32))
        def hot(indices, depth):
            return tf.one_hot(indices, depth, axis=axis), tf.one_hot(indices, 4, on_value=2.0, off_value=-1.0)

        agree(hot, self.INDICES, np.int32(4))

    @pytest.mark.parametrize("dtype", VALUES, ids=by_name)
    def test_every_type(self, agree, dtype):
        @function(([None], tf.int32), ([2], dtype))
        def hot(indices, ends):
            return tf.raw_ops.OneHot(indices=indices, depth=3, on_value=ends[0], off_value=ends[1])

        agree(hot, np.array([1, -1, 2], np.int32), values(dtype, 2))

    @pytest.mark.parametrize("dtype", [tf.uint8, tf.int8, tf.int32, tf.int64], ids=by_name)
    def test_every_type_of_index(self, agree, dtype):
        agree(function(([], dtype))(lambda index: tf.one_hot(index, 3)), dtype.as_numpy_dtype(2))


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_zeros_and_ones_like(agree, dtype):
    @function(([2, None], dtype))
    def filled(x):
        zeros = tf.raw_ops.ZerosLike(x=x)
        return zeros if dtype == tf.string else (zeros, tf.raw_ops.OnesLike(x=x))

    agree(filled, values(dtype, 6).reshape(2, 3))


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_select(agree, dtype):
    @function(([None], tf.bool), ([None, 2], dtype), ([None, 2], dtype))
    def chosen(rows, left, right):
        whole = tf.raw_ops.Select(condition=rows, x=left, y=right)
        return whole, tf.raw_ops.SelectV2(condition=rows[:, None], t=left, e=right[:1])

    given = values(dtype, 12).reshape(6, 2)
    agree(chosen, np.array([True, False, True]), given[:3], given[3:])


def test_what_is_not_chosen_does_not_matter(agree):
    @function(([None], tf.bool), ([None, 1], tf.float32))
    def chosen(rows, x):
        return tf.raw_ops.Select(condition=rows, x=x, y=tf.zeros_like(x)), tf.where(rows[:, None], 0.0, x)

    agree(chosen, np.array([True, False]), np.float32([[np.nan], [np.inf]]))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, *INTEGERS], ids=by_name)
def test_comparisons(agree, dtype):
    @function(([3], dtype), ([3], dtype))
    def compared(x, y):
        return x < y, x <= y, x > y, x >= y

    agree(compared, values(dtype, 3), values(dtype, 3)[::-1])


def test_large_integers_are_not_compared_as_floats(agree):
    agree(function(([2], tf.int64))(lambda x: x < x[::-1]), np.array([2**53, 2**53 + 1]))


def test_complex_numbers_and_variants_are_refused_by_name():
    @function(*triple(tf.float32))
    def complex_product(indices, vals, shape):
        sparse = tf.SparseTensor(indices, tf.complex(vals, vals), shape)
        return tf.math.real(tf.sparse.reduce_sum(sparse))

    with pytest.raises(
        ConversionError, match=r"SparseReduceSum \(SparseReduceSum\): it is not converted for complex numbers"
    ):
        convert(complex_product)
