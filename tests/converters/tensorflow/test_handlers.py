"""Every handler gives TensorFlow's results, for every element type that TensorFlow's operator takes."""

import numpy as np
import onnx
import pytest
from onnx import helper

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import FLOATS, NUMBERS, VALUES, by_name, function, values  # noqa: E402

from onnx_sparse.converters.tensorflow import coverage  # noqa: E402
from onnx_sparse.converters.tensorflow.importing.handler import Handler  # noqa: E402
from onnx_sparse.schemas import DOMAIN, OPS  # noqa: E402

# Rows 3, 0, 2, 0 of five: neither sorted nor complete, and the columns of row 0 descend.
INDICES = np.array([[3, 1], [0, 3], [2, 0], [0, 1]])
DENSE_SHAPE = np.array([5, 4])


def domain_nodes(model):
    return [node for node in model.graph.node if node.domain == DOMAIN]


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_sparse_fill_empty_rows(agree, dtype):
    @function(([None, 2], tf.int64), ([None], dtype), ([2], tf.int64), ([], dtype))
    def fill(indices, vals, dense_shape, default):
        return tf.raw_ops.SparseFillEmptyRows(
            indices=indices, values=vals, dense_shape=dense_shape, default_value=default
        )[:4]

    given = values(dtype, 5)
    model = agree(fill, INDICES, given[:4], DENSE_SHAPE, given[4])
    (node,) = domain_nodes(model)
    assert node.op_type == "SparseFillEmptyRows"
    assert helper.get_node_attr_value(node, "order") == b"row_stable"


@pytest.mark.parametrize("rows", [0, 3])
def test_sparse_fill_empty_rows_without_entries(agree, rows):
    @function(([None, 2], tf.int64), ([None], tf.float32), ([2], tf.int64))
    def fill(indices, vals, dense_shape):
        return tf.raw_ops.SparseFillEmptyRows(
            indices=indices, values=vals, dense_shape=dense_shape, default_value=np.float32("nan")
        )[:4]

    agree(fill, np.zeros((0, 2), np.int64), np.zeros(0, np.float32), np.array([rows, 4]))


def test_unused_outputs_are_named_as_well(agree):
    @function(([None, 2], tf.int64), ([None], tf.float32), ([2], tf.int64))
    def empty_rows(indices, vals, dense_shape):
        return tf.sparse.fill_empty_rows(tf.SparseTensor(indices, vals, dense_shape), 0.0)[1]

    (node,) = domain_nodes(agree(empty_rows, INDICES, np.ones(4, np.float32), DENSE_SHAPE))
    assert len(node.output) == 4
    assert all(node.output)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bool, tf.string, tf.uint16], ids=by_name)
def test_ragged_fill_empty_rows(agree, dtype):
    @function(([None], tf.int64), ([None], dtype), ([], tf.int64), ([], dtype))
    def fill(rowids, vals, nrows, default):
        return tf.raw_ops.RaggedFillEmptyRows(value_rowids=rowids, values=vals, nrows=nrows, default_value=default)[:4]

    given = values(dtype, 4)
    agree(fill, np.array([0, 0, 2]), given[:3], np.int64(4), given[3])


@pytest.mark.parametrize(
    ("indices", "shape", "new_shape"),
    [
        ([[0, 0], [0, 2], [1, 1]], [2, 3], [3, -1]),
        ([[0, 1, 1], [1, 0, 2]], [2, 2, 3], [12]),
        (np.zeros((0, 2)), [4, 5], [-1, 5, 2]),
        (np.zeros((0, 2)), [0, 5], [-1, 5]),
    ],
)
def test_sparse_reshape(agree, indices, shape, new_shape):
    @function(([None, len(shape)], tf.int64), ([len(shape)], tf.int64), ([len(new_shape)], tf.int64))
    def reshape(indices, shape, new_shape):
        return tuple(tf.raw_ops.SparseReshape(input_indices=indices, input_shape=shape, new_shape=new_shape))

    agree(reshape, *(np.asarray(x, np.int64) for x in (indices, shape, new_shape)))


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_fill(agree, dtype):
    @function(([2], tf.int32), ([], dtype))
    def fill(dims, value):
        return tf.fill(dims, value)

    agree(fill, np.array([2, 3], np.int32), values(dtype, 1)[0])


REDUCTIONS = {
    "sum": (tf.sparse.segment_sum, "EmbeddingSegmentsSum", NUMBERS),
    "mean": (tf.sparse.segment_mean, "EmbeddingSegmentsMean", FLOATS),
    "sqrtn": (tf.sparse.segment_sqrt_n, "EmbeddingSegmentsSqrtN", FLOATS),
}
CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype.name}") for name, (*_, types) in REDUCTIONS.items() for dtype in types
]


@pytest.mark.parametrize(("reduction", "dtype"), CASES)
def test_sparse_segment(agree, reduction, dtype):
    """The last id gives the number of segments; segment 1, a gap, is 0."""
    operator, name, _ = REDUCTIONS[reduction]

    @function(([6, 3], dtype), ([None], tf.int32), ([None], tf.int32))
    def reduce(table, ids, segments):
        return operator(table, ids, segments)

    table = values(dtype, 18).reshape(6, 3)
    model = agree(reduce, table, np.array([5, 0, 1, 1], np.int32), np.array([0, 0, 2, 2], np.int32))
    assert [node.op_type for node in domain_nodes(model)] == [name]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("size", [0, 2, 5])
def test_sparse_segment_with_num_segments(agree, reduction, size):
    operator, name, _ = REDUCTIONS[reduction]

    @function(([6, 3], tf.float32), ([None], tf.int64), ([None], tf.int64), ([], tf.int32))
    def reduce(table, ids, segments, count):
        return operator(table, ids, segments, num_segments=count)

    table = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    taken = slice(0, None if size else 0)
    model = agree(reduce, table, np.array([5, 0, 1])[taken], np.array([0, 0, 1])[taken], np.int32(size))
    assert [node.op_type for node in domain_nodes(model)] == [name]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sparse_segment_without_ids_has_no_segments(agree, reduction):
    operator, *_ = REDUCTIONS[reduction]

    @function(([6, 3], tf.float32), ([None], tf.int64), ([None], tf.int32))
    def reduce(table, ids, segments):
        return operator(table, ids, segments)

    agree(reduce, np.ones((6, 3), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int32))


@pytest.mark.parametrize("rows", [1, 7, 9, 10, 100])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_long_segments_have_the_bits_of_tensorflow(agree, reduction, rows):
    operator, *_ = REDUCTIONS[reduction]

    @function(([50, 4], tf.float32), ([None], tf.int64), ([None], tf.int64))
    def reduce(table, ids, segments):
        return operator(table, ids, segments)

    rng = np.random.default_rng(rows)
    agree(reduce, rng.standard_normal((50, 4)).astype(np.float32), rng.integers(0, 50, rows), np.zeros(rows, np.int64))


@pytest.mark.parametrize("index", [tf.int32, tf.int64], ids=by_name)
@pytest.mark.parametrize("segment", [tf.int32, tf.int64], ids=by_name)
def test_one_index_type_for_all_and_the_wider_one_when_mixed(agree, index, segment):
    @function(([4, 2], tf.float32), ([None], index), ([None], segment), ([], tf.int64))
    def reduce(table, ids, segments, count):
        return tf.sparse.segment_sum(table, ids, segments, num_segments=count)

    model = agree(
        reduce,
        np.ones((4, 2), np.float32),
        np.array([3, 1], index.as_numpy_dtype),
        np.array([0, 2], segment.as_numpy_dtype),
        np.int64(3),
    )
    (node,) = domain_nodes(model)
    types = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.value_info, *model.graph.input)}
    wider = helper.np_dtype_to_tensor_dtype(np.promote_types(index.as_numpy_dtype, segment.as_numpy_dtype))
    assert {types[name] for name in node.input[1:4]} == {wider}


def test_tables_of_rank_one_and_three(agree):
    @function(([4], tf.float32), ([4, 2, 2], tf.float32), ([None], tf.int64))
    def reduce(flat, deep, ids):
        return tf.sparse.segment_sum(flat, ids, ids), tf.sparse.segment_mean(deep, ids, ids)

    agree(reduce, np.arange(4, dtype=np.float32), np.ones((4, 2, 2), np.float32), np.array([0, 2, 3]))


def test_unused_options_are_written_as_their_sentinels(agree):
    @function(([4, 2], tf.float64), ([None], tf.int64))
    def reduce(table, ids):
        return tf.sparse.segment_sum(table, ids, ids)

    model = agree(reduce, np.ones((4, 2)), np.array([0, 2]))
    (node,) = domain_nodes(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    default_index, weights = (constants[name] for name in node.input[4:])
    assert (default_index.dims, np.frombuffer(default_index.raw_data, np.int64)) == ([], [-1])
    assert weights.dims == [0]
    assert weights.data_type == helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))


def test_operators_with_only_constant_inputs_still_run(agree):
    """TensorFlow folds most of these away, but not operators with several outputs."""

    @tf.function(input_signature=[])
    def constant():
        return tf.raw_ops.SparseFillEmptyRows(
            indices=INDICES, values=[1.0, 2.0, 3.0, 4.0], dense_shape=DENSE_SHAPE, default_value=7.0
        )[:4]

    assert len(domain_nodes(agree(constant))) == 1


def test_types_of_the_page_have_one_name_each():
    handler = Handler("Xlog1py", lambda node, emit: node["x"], to="Log", dtypes=("float32", "float64", "float16"))
    assert handler.dtypes == ("float", "double", "float16")


def test_coverage_lists_each_handler():
    rows = {row.source: row for row in coverage()}
    assert list(rows) == sorted(rows)
    assert {"SparseFillEmptyRows", "SparseReshape", "SparseSegmentMeanWithNumSegments", "Fill"} <= set(rows)
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")}
    known = {*OPS, *standard}
    unknown = {row.source: row.target for row in rows.values() if not known.issuperset(row.target.split(", "))}
    assert not unknown, f"`to` lists operators of ONNX or of the domain, separated by commas: {unknown}"
    assert rows["SparseSegmentMean"].dtypes == ("float16", "bfloat16", "float", "double")
    assert rows["SparseReshape"].dtypes == ("int64",)
