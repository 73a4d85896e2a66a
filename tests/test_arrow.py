"""Arrow columns become the inputs of a model, whatever their layout; a scorer takes tables in any engine."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pa = pytest.importorskip("pyarrow")

import onnx_sparse  # noqa: E402
from onnx_sparse.arrow import Scorer, feeds  # noqa: E402
from onnx_sparse.schemas.features import Feature, write_features  # noqa: E402

IDS = [[5, 7], None, [], [3]]


def model() -> onnx.ModelProto:
    """Sums of looked-up rows, for a sparse feature; the values of others as they are."""
    text = """
    <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (int64[n,2] items_i, int64[n] items_v, int64[2] items_s, string[m] words_v, int64[r] words_r, float[b,2] box,
       int32[b] age)
      => (float[s,2] sums, int32[b] ages, string[m] words, int64[n] ids, int64[r] rows, float[b,2] boxes,
          int64[2] shape)
      <float[9,2] table = {0,0, 1,10, 2,20, 3,30, 4,40, 5,50, 6,60, 7,70, 8,80}, int64 zero = {0}>
    {
      segments = Gather <axis = 1> (items_i, zero)
      count = Gather (items_s, zero)
      sums = onnx_sparse.EmbeddingSegmentsSum (table, items_v, segments, count)
      ages = Identity (age)
      words = Identity (words_v)
      ids = Identity (items_v)
      rows = Identity (words_r)
      boxes = Identity (box)
      shape = Identity (items_s)
    }"""
    made = onnx_sparse.canonicalize(onnx.parser.parse_model(text))
    write_features(
        made,
        [
            Feature("items", "sparse", {"indices": "items_i", "values": "items_v", "dense_shape": "items_s"}),
            Feature("words", "ragged", {"values": "words_v", "row_splits": "words_r"}),
            Feature("box", "dense", {"values": "box"}),
            Feature("age", "dense", {"values": "age"}),
        ],
    )
    return made


FEATURES = onnx_sparse.features(model())
PER_ROW = ["sums", "ages", "boxes"]


def table(**changed: Any) -> Any:
    return pa.table(
        {
            "items": pa.array(IDS, pa.list_(pa.int64())),
            "words": pa.array([["a"], None, ["ß", "b"], []], pa.list_(pa.string())),
            "box": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.float32(), 2)),
            "age": pa.array([1, 2, 3, 4], pa.int32()),
            "uid": pa.array(["u1", "u2", "u3", None]),
        }
        | changed
    )


EXPECTED = feeds(table(), FEATURES)


def chunked(array: Any, *cuts: int) -> Any:
    ends = [0, *cuts, len(array)]
    return pa.chunked_array([array.slice(a, b - a) for a, b in itertools.pairwise(ends)], array.type)


def embedded(array: Any) -> Any:
    """The same rows as a slice in the middle of others."""
    return pa.concat_arrays([array[2:], array, array[:2]])[len(array) - 2 : 2 * len(array) - 2]


ITEMS = pa.array(IDS, pa.list_(pa.int64()))
HIDDEN = pa.ListArray.from_arrays(
    pa.array([0, 2, 4, 4, 5], pa.int32()), pa.array([5, 7, 98, 99, 3]), mask=pa.array([False, True, False, False])
)
ITEM_COLUMNS = {
    "large lists": pa.array(IDS, pa.large_list(pa.int64())),
    "list views": pa.array(IDS, pa.list_view(pa.int64())),
    "large list views": pa.array(IDS, pa.large_list_view(pa.int64())),
    "list views out of order": pa.ListViewArray.from_arrays(
        pa.array([1, 0, 0, 0], pa.int32()),
        pa.array([2, 0, 0, 1], pa.int32()),
        pa.array([3, 5, 7]),
        mask=pa.array([False, True, False, False]),
    ),
    "int32": pa.array(IDS, pa.list_(pa.int32())),
    "uint64": pa.array(IDS, pa.list_(pa.uint64())),
    "dictionaries": pa.ListArray.from_arrays(ITEMS.offsets, ITEMS.flatten().dictionary_encode(), mask=ITEMS.is_null()),
    "a slice": embedded(ITEMS),
    "a slice of large lists": embedded(pa.array(IDS, pa.large_list(pa.int64()))),
    "a slice of list views": embedded(pa.array(IDS, pa.list_view(pa.int64()))),
    "chunks": chunked(ITEMS, 1, 1, 3),
    "chunks of slices": chunked(embedded(ITEMS), 2),
    "values under a null": HIDDEN,
    "values under a null, in a slice": embedded(HIDDEN),
}


def same(got: dict[str, np.ndarray[Any, Any]]) -> None:
    for name, expected in EXPECTED.items():
        assert got[name].dtype == expected.dtype, name
        assert got[name].shape == expected.shape, name
        assert got[name].tolist() == expected.tolist(), name


def test_what_a_table_becomes():
    assert EXPECTED["items_i"].tolist() == [[0, 0], [0, 1], [3, 0]]
    assert EXPECTED["items_v"].tolist() == [5, 7, 3]
    assert EXPECTED["items_s"].tolist() == [4, 2]
    assert EXPECTED["words_v"].tolist() == ["a", "ß", "b"]
    assert EXPECTED["words_r"].tolist() == [0, 1, 1, 3, 3]
    assert EXPECTED["box"].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert EXPECTED["age"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("column", ITEM_COLUMNS.values(), ids=ITEM_COLUMNS)
def test_lists_of_ids(column):
    same(feeds(table(items=column), FEATURES))


@pytest.mark.parametrize("dtype", ["string", "large_string", "string_view", "binary", "binary_view"])
@pytest.mark.parametrize("in_dictionary", [False, True])
def test_lists_of_strings(dtype, in_dictionary):
    values = pa.array(["a", "ß", "b"], pa.string()).cast(getattr(pa, dtype)())
    values = values.dictionary_encode() if in_dictionary else values
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 3], pa.int32()), values)
    same(feeds(table(words=lists), FEATURES))
    same(feeds(table(words=embedded(lists)), FEATURES))


def test_a_dictionary_that_arrow_cannot_read():
    views = pa.array([["a"], ["b"]], pa.list_(pa.string_view()))
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], pa.int32()), views)
    with pytest.raises(ValueError, match=r"^feature 'words': .* a dictionary of list<item: string_view>, which cannot"):
        feeds(table(words=column), FEATURES)


@pytest.mark.parametrize("dtype", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)])
def test_rows_of_one_length(dtype):
    """Engines give lists of any length where the file has lists of a fixed one."""
    column = pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], dtype)
    for made in (column, embedded(column), chunked(column, 1)):
        same(feeds(table(box=made), FEATURES))


def test_lists_of_a_fixed_size_with_nulls():
    """Arrow has values under a null there, too."""
    column = pa.array([[5, 7], None, [1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    got = feeds(table(items=column), FEATURES)
    assert got["items_v"].tolist() == [5, 7, 1, 2, 3, 4]
    assert got["items_i"][:, 0].tolist() == [0, 0, 2, 2, 3, 3]


def test_a_column_of_nulls():
    got = feeds(table(items=pa.nulls(4)), FEATURES)
    assert got["items_v"].shape == (0,)
    assert got["items_s"].tolist() == [4, 0]


def test_values_are_not_copied():
    given = table(items=embedded(pa.array([[5, 7], [], [], [3]], pa.list_(pa.int64()))))
    got = feeds(given, FEATURES)
    memory = given["items"].chunk(0).values.to_numpy()
    assert np.shares_memory(got["items_v"], memory)
    assert np.shares_memory(got["age"], given["age"].chunk(0).to_numpy())


def test_ids_beyond_doubles():
    """A null among ids would make doubles of them in numpy."""
    many = [[2**53 + 1], [], [2**63 - 1], None]
    got = feeds(table(items=pa.array(many, pa.list_(pa.int64()))), FEATURES)
    assert got["items_v"].tolist() == [2**53 + 1, 2**63 - 1]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            {"items": pa.array([[1], [2, None], [], []], pa.list_(pa.int64()))},
            "'items', row 1, position 1 has no value",
        ),
        ({"items": pa.array([1, 2, 3, 4])}, "'items': the column is int64; lists expected"),
        ({"items": pa.array([[[1]], [], [], []])}, "'items': the values are list"),
        ({"items": pa.array([["a"], [], [], []])}, "'items', row 0, position 0: 'a' does not fit into int64"),
        ({"items": pa.array([[1.0], [], [], []])}, "'items' has values of the type float64; the model expects int64"),
        (
            {"items": pa.array([[1], [], [2**64 - 1], []], pa.list_(pa.uint64()))},
            "'items', row 2, position 0: 18446744073709551615 does not fit into int64",
        ),
        ({"words": pa.array([["a"], [None], [], []])}, "'words', row 1, position 0 has no value"),
        ({"words": pa.array([[1], [], [], []])}, "'words'"),
        ({"box": pa.array([[1, 2], None, [5, 6], [7, 8]], pa.list_(pa.float32(), 2))}, "'box', row 1 has no value"),
        ({"box": pa.array([[1, 2], [3, None], [5, 6], [7, 8]], pa.list_(pa.float32()))}, "'box', row 1, position 1"),
        (
            {"box": pa.array([[1, 2], [3, 4], [5], [7, 8]], pa.list_(pa.float32()))},
            "'box', row 2 has 1 values; the first has 2",
        ),
        ({"box": pa.array([[1], [3], [5], [7]], pa.list_(pa.float32()))}, "shape [4, 1]; the model expects [?, 2]"),
        ({"age": pa.array([1, None, 3, 4], pa.int32())}, "'age', row 1 has no value"),
        ({"age": pa.array([1, 2**31, 3, 4])}, "'age', row 1: 2147483648 does not fit into int32"),
        ({"age": pa.array([1, 2, 3, 4], pa.timestamp("s"))}, "'age' has values of the type datetime64[s]"),
    ],
)
def test_columns_that_do_not_fit(column, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        feeds(table(**column), FEATURES)
    assert reason in str(caught.value)


@pytest.mark.parametrize("rows", [None, 3, [1]])
def test_what_is_no_table(rows):
    with pytest.raises(TypeError, match="expected columns by feature, a table or a list of records "):
        feeds(rows, FEATURES)


@pytest.mark.parametrize("option", ["keep", "outputs"])
def test_a_name_for_a_list_of_names(option):
    with pytest.raises(TypeError, match=f"{option} is a list of names, not the name 'uid'"):
        Scorer(model(), **{option: "uid"})


def test_columns_of_other_names():
    given = table().rename_columns(["basket", "words", "box", "age", "uid"])
    same(feeds(given, FEATURES, {"items": "basket"}))
    with pytest.raises(ValueError, match="feature 'items': no column 'items'; columns are 'basket', 'words'"):
        feeds(given, FEATURES)
    with pytest.raises(ValueError, match="the model has no feature 'item'"):
        feeds(given, FEATURES, {"item": "basket"})
    with pytest.raises(ValueError, match="feature 'items': no column 'items'; there are several"):
        feeds(table().append_column("items", pa.nulls(4)), FEATURES)


def test_scorer():
    scorer = Scorer(model(), keep=["uid"], outputs=PER_ROW)
    scored = scorer(table())
    assert scored.column_names == ["uid", *PER_ROW]
    assert scored["sums"].to_pylist() == [[12, 120], [0, 0], [0, 0], [3, 30]]
    assert scored["ages"].to_pylist() == [1, 2, 3, 4]
    assert scored["uid"].to_pylist() == ["u1", "u2", "u3", None]
    assert scored.schema == scorer.schema(table().schema)
    batches = table().to_batches(max_chunksize=3)
    assert pa.Table.from_batches(scorer.batches(batches)).equals(scored)


def test_batches_for_spark():
    """Spark has lists of any length only."""
    scorer = Scorer(model(), keep=["uid"], outputs=PER_ROW)
    scored, given = scorer(table()), pa.Table.from_batches(scorer.map_in_arrow(table().to_batches(max_chunksize=3)))
    assert pa.types.is_fixed_size_list(scored["sums"].type)
    assert given["sums"].type == pa.list_(pa.float32())
    assert given.to_pylist() == scored.to_pylist()


def test_a_scorer_without_rows():
    scored = Scorer(model(), outputs=PER_ROW)(table()[:0])
    assert scored.num_rows == 0
    assert scored.schema == Scorer(model(), outputs=PER_ROW)(table()).schema


def test_a_scorer_can_be_pickled(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    for given in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), model(), model().SerializeToString()):
        scorer = Scorer(given, keep=["uid"], outputs=PER_ROW)
        first = scorer(table())
        assert pickle.loads(pickle.dumps(scorer))(table()).equals(first)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"keep": ["user"], "outputs": PER_ROW}, "no column 'user' to keep; columns are 'items'"),
        ({"outputs": ["shape"]}, "output 'shape' has the shape [2]; the batch has 4 rows"),
        ({"columns": {"items": "ids"}, "outputs": PER_ROW}, "feature 'items': no column 'ids'"),
    ],
)
def test_scorers_that_do_not_fit(options, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        Scorer(model(), **options)(table())
    assert reason in str(caught.value)


def test_a_kept_column_with_the_name_of_an_output():
    with pytest.raises(ValueError, match="the column 'ages' has the name of an output"):
        Scorer(model(), keep=["ages"], outputs=PER_ROW)(table().append_column("ages", pa.nulls(4)))


@pytest.mark.parametrize("dtype", [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16])
def test_outputs_of_every_type(dtype):
    x = helper.make_tensor_value_info("x", dtype, [None, 2])
    y = helper.make_tensor_value_info("y", dtype, [None, 2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    values: list[list[Any]] = [[0, 1], [1, 0], [1, 1]]
    if dtype == TensorProto.STRING:
        values = [["a", "b"], ["", "ß"], ["c", "d"]]
    elif dtype == TensorProto.BOOL:
        values = [[bool(v) for v in row] for row in values]
    scored = Scorer(made)(pa.table({"x": pa.array(values)}))
    assert scored["y"].to_pylist() == values
