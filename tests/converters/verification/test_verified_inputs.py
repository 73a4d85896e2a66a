"""Inputs that are found from what the operators of a model demand of them, and differences that are explained."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from support.random_parsing import PARTITIONS, outcome

from onnx_sparse.comparison import TOLERANCES
from onnx_sparse.converters.onnx import verify
from onnx_sparse.converters.tensorflow.reference import TensorFlowReference, isolated
from onnx_sparse.converters.verification.comparison import Verdict
from onnx_sparse.converters.verification.constraints import find_constraints
from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences
from onnx_sparse.converters.verification.isolation import CAN_FORK, EndedError
from onnx_sparse.converters.verification.layout import GUESSED
from onnx_sparse.converters.verification.number_ranges import find_ranges
from onnx_sparse.converters.verification.sample_inputs import KINDS, CompositeSpecs, Sampler, SparseInput
from onnx_sparse.converters.verification.verify import example_inputs
from onnx_sparse.rows.input_roles import find_roles

FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL


def model(nodes, inputs, outputs, **constants) -> ModelProto:
    """A model; inputs and outputs are element types and shapes by name."""
    given = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
    made = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in outputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", given, made, tensors)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def lookup(rows=50, raised=0):
    """Ids that are declared as floats, raised and looked up."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["whole"], to=INT64),
        helper.make_node("Add", ["whole", "by"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["y"]),
    ]
    table = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    return model(nodes, {"ids": (FLOAT, ["b", 21])}, {"y": (FLOAT, None)}, table=table, by=np.int64(raised))


def window(kernel=400, dilation=1):
    """A convolution over samples."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["channel"]),
        helper.make_node("Conv", ["channel", "w"], ["y"], dilations=[dilation]),
    ]
    weight = np.ones((2, 1, kernel), np.float32)
    return model(nodes, {"x": (FLOAT, ["b", "n"])}, {"y": (FLOAT, None)}, one=np.array([1]), w=weight)


def chosen(constant=777):
    """The places at which an id is one constant."""
    nodes = [helper.make_node("Equal", ["ids", "wanted"], ["at"]), helper.make_node("NonZero", ["at"], ["y"])]
    return model(nodes, {"ids": (INT64, ["b", "n"])}, {"y": (INT64, None)}, wanted=np.int64(constant))


def compared(operator="GreaterOrEqual", constant=12.5):
    return model(
        [helper.make_node(operator, ["x", "limit"], ["y"])],
        {"x": (FLOAT, ["b", "n"])},
        {"y": (BOOL, None)},
        limit=np.float32(constant),
    )


def from_the_end(rows=9, by=9):
    """A lookup of ids that count from the end if they are negative, as the layer Embedding of Keras 3 does."""
    nodes = [
        helper.make_node("Less", ["ids", "zero"], ["is_negative"]),
        helper.make_node("Add", ["ids", "by"], ["raised"]),
        helper.make_node("Where", ["is_negative", "raised", "ids"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["y"]),
    ]
    table = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    constants = {"table": table, "by": np.int64(by), "zero": np.int64(0)}
    return model(nodes, {"ids": (INT64, ["b", 4])}, {"y": (FLOAT, None)}, **constants)


def clipped(unknown=3, rows=9):
    """A lookup of ids of which those beyond the table are replaced."""
    nodes = [
        helper.make_node("GreaterOrEqual", ["ids", "rows"], ["is_unknown"]),
        helper.make_node("Where", ["is_unknown", "unknown", "ids"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["y"]),
    ]
    table = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    constants = {"table": table, "rows": np.int64(rows), "unknown": np.int64(unknown)}
    return model(nodes, {"ids": (INT64, ["b", 4])}, {"y": (FLOAT, None)}, **constants)


def masked_table(masked=0):
    """A table of keys, and another result for the id 0."""
    nodes = [
        helper.make_node("Equal", ["ids", "zero"], ["is_masked"]),
        helper.make_node(
            "LabelEncoder",
            ["ids"],
            ["found"],
            domain="ai.onnx.ml",
            keys_int64s=[5, 7],
            values_int64s=[2, 3],
            default_int64=1,
        ),
        helper.make_node("Where", ["is_masked", "masked", "found"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "masked": np.int64(masked)}
    return model(nodes, {"ids": (INT64, ["b", 4])}, {"y": (INT64, None)}, **constants)


@pytest.mark.parametrize("make", [lookup, window, chosen, compared, from_the_end, clipped, masked_table])
def test_a_right_model_is_compared_and_equal(make):
    (record,) = verify(make(), make())
    assert record.ok, record
    assert record.batches


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint32", "uint8"])
@pytest.mark.parametrize("operator", ["Greater", "Equal", "Add", "Mod"])
def test_integers_near_the_ends_of_their_type(dtype, operator):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    found = BOOL if operator in ("Greater", "Equal") else kind
    powers = (1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
    ends = {f"end{end}": np.array(end, dtype) for end in powers if end <= np.iinfo(dtype).max}
    nodes = [helper.make_node(operator, [f"x{end}", end], [f"y{end}"]) for end in ends]
    given, results = ({f"{name}{end}": (of, ["n"]) for end in ends} for name, of in (("x", kind), ("y", found)))
    made = model(nodes, given, results, **ends)
    records = verify(made, made)
    assert len(records) == len(ends)
    assert [record for record in records if not record.ok] == []


def test_rows_that_a_loop_cuts_out_are_of_row_splits():
    """As `tf.map_fn` of a ragged tensor reads its rows, one in each round."""
    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["i", "vector"], ["at"]),
            helper.make_node("Add", ["at", "vector"], ["after"]),
            helper.make_node("Gather", ["splits", "at"], ["first"]),
            helper.make_node("Gather", ["splits", "after"], ["last"]),
            helper.make_node("Slice", ["values", "first", "last"], ["row"]),
            helper.make_node("ReduceSum", ["row"], ["sum"], keepdims=0),
            helper.make_node("Identity", ["goes_on"], ["still"]),
        ],
        "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("goes_on", BOOL, [])],
        [helper.make_tensor_value_info("still", BOOL, []), helper.make_tensor_value_info("sum", FLOAT, [])],
    )
    nodes = [
        helper.make_node("Size", ["splits"], ["count"]),
        helper.make_node("Sub", ["count", "scalar"], ["rows"]),
        helper.make_node("Loop", ["rows", ""], ["y"], body=body),
    ]
    inputs = {"values": (FLOAT, ["n"]), "splits": (INT64, ["m"])}
    made = model(nodes, inputs, {"y": (FLOAT, ["rows"])}, vector=np.array([1]), scalar=np.int64(1))
    roles = find_roles(made)
    assert (roles.splits, roles.entries) == ({"splits"}, {"values"})
    batch = example_inputs(made)
    assert batch["splits"][-1] == len(batch["values"])


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (lookup, {"raised": 1, "rows": 51}),
        (window, {"kernel": 399}),
        (chosen, {"constant": 778}),
        (compared, {"operator": "Greater"}),
        (compared, {"constant": 12.4}),
        (from_the_end, {"by": 8}),
        (clipped, {"unknown": 2}),
        (masked_table, {"masked": 1}),
    ],
)
def test_a_wrong_model_is_found(make, changed):
    (record,) = verify(make(), make(**changed))
    assert record.verdict is Verdict.DIFFERENT


def one_of(constants, rows):
    """Which of some constants each id is."""
    nodes = [
        helper.make_node("Unsqueeze", ["ids", "last"], ["column"]),
        helper.make_node("Equal", ["column", "c"], ["y"]),
    ]
    return model(
        nodes, {"ids": (INT64, [rows])}, {"y": (BOOL, None)}, last=np.array([1]), c=np.array(constants, np.int64)
    )


@pytest.mark.parametrize("rows", ["b", 7])
@pytest.mark.parametrize("changed", range(12))
def test_every_constant_is_tried(changed, rows):
    """More constants than an ordinary batch has ids."""
    constants = [100 * k for k in range(12)]
    wrong = [constant + (k == changed) for k, constant in enumerate(constants)]
    right = one_of(constants, rows)
    (equal,), (different,) = verify(right, right), verify(right, one_of(wrong, rows))
    assert equal.ok, equal
    assert different.verdict is Verdict.DIFFERENT


def test_one_id_is_now_a_constant_and_now_another_number():
    drawn = {int(example_inputs(one_of([777], 1), seed=seed)["ids"].item()) for seed in range(20)}
    assert 777 in drawn
    assert drawn - {777}


def test_ids_reach_both_ends_of_the_table():
    (ids,) = example_inputs(lookup(rows=90, raised=-5)).values()
    assert (ids.min(), ids.max(), ids.dtype) == (5, 94, np.float32)
    assert (ids == np.rint(ids)).all()


def test_ids_that_may_be_negative_are_of_the_whole_table():
    drawn = np.concatenate([example_inputs(from_the_end(), seed=seed)["ids"].ravel() for seed in range(9)])
    assert set(range(-1, 9)) | {-9} <= set(drawn.tolist()) <= set(range(-9, 9))


def test_windows_are_read_from_the_model():
    assert find_constraints(window(kernel=5, dilation=3)).least_sizes == [13]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [2, 3])
def test_coordinates_of_a_square_are_inside_it(rank, kind):
    """As of the edges of a graph: all coordinates are checked against the number of nodes."""
    nodes = [
        helper.make_node("Gather", ["shape", "first"], ["nodes"]),
        helper.make_node("Concat", ["nodes"] * rank, ["square"], axis=0),
        helper.make_node("ValidateSparseIndices", ["places", "square"], ["y"], domain="onnx_sparse"),
    ]
    inputs = {"places": (INT64, ["n", rank]), "shape": (INT64, [rank])}
    made = model(nodes, inputs, {"y": (INT64, None)}, first=np.array([0]))
    specs = CompositeSpecs(sparse=(SparseInput("places", "values", "shape"),))
    sampler = Sampler(made, specs)
    for seed in range(5):
        feeds = sampler.batch(kind, seed).feeds
        assert len({*feeds["shape"].tolist()}) == 1
        assert (feeds["places"] < feeds["shape"]).all()
        assert (len(feeds["places"]) > 0) == (kind not in ("without entries", "of no rows"))


def test_what_counts_the_rows_of_a_square_has_sizes_of_its_own():
    """Of an input that is no dense shape, one element may be the size."""
    nodes = [
        helper.make_node("GatherND", ["counts", "first"], ["nodes"]),
        helper.make_node("Concat", ["nodes", "nodes"], ["square"], axis=0),
        helper.make_node("ValidateSparseIndices", ["places", "square"], ["y"], domain="onnx_sparse"),
    ]
    inputs = {"places": (INT64, ["n", 2]), "counts": (INT64, ["a", "b"])}
    made = model(nodes, inputs, {"y": (INT64, None)}, first=np.array([[0, 0]]))
    shapes = {Sampler(made).batch("ordinary", seed).feeds["counts"].shape for seed in range(8)}
    assert any(rows != columns for rows, columns in shapes)


def test_an_open_dimension_may_be_written_as_minus_one():
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, [-1, 3, -1])}, {"y": (FLOAT, None)})
    (record,) = verify(relu, relu)
    assert record.ok, record


def test_words_that_a_pattern_wants():
    nodes = [helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=r"user-[0-9]{3}(a|b)+")]
    constraints = find_constraints(model(nodes, {"x": (STRING, [None])}, {"y": (BOOL, None)}))
    assert constraints.words[Origin("x")] == ["user-000a", "user-000aa"]


@pytest.mark.parametrize("by", [-5, 0, 3])
def test_segment_ids_with_a_number_added_are_sorted_and_not_negative(by):
    """They are the rows of a table, too, as in `segment_sum(table, ids, ids - 5)`."""
    made = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (float[64, 2] table, int64[n] ids) => (float[k, 2] y) <int64 by = {{{by}}}, int64 count = {{80}}> {{
            segments = Add (ids, by)
            y = onnx_sparse.EmbeddingSegmentsSum (table, ids, segments, count)
        }}"""
    )
    (record,) = verify(made, made)
    assert record.verdict is Verdict.EQUAL, record.note
    ids = example_inputs(made)["ids"]
    assert len(ids) > 1
    assert (np.diff(ids) >= 0).all()
    assert ids[0] + by >= 0


def test_what_an_input_was_taken_for():
    lines: dict[str, str] = {}
    verify(lookup(), lookup(), input_lines=lines)
    assert lines == {"ids": "ids from 0 to 49"}


def test_the_allowed_difference_is_that_of_the_table():
    (record,) = verify(window(), window())
    assert 0 < record.tolerance <= TOLERANCES["float32"] * 400


class TestDifferencesThatAreExplained:
    """Only where the tensor in which they arise shows it."""

    @staticmethod
    def differences(operator, inside, **attributes):
        nodes = [helper.make_node(operator, ["x"], ["y"], **attributes)]
        dtype = TensorProto.UINT8 if operator == "Cast" else FLOAT
        made = model(nodes, {"x": (FLOAT, [None])}, {"y": (dtype, [None])})
        return IntendedDifferences.of(made, lambda names, feeds: [np.float32(inside) for _ in names])

    def test_nan_behind_a_relu(self):
        want, got = np.float32([0, 1, 2]), np.float32([np.nan, 1, 2])
        explained = self.differences("Relu", [np.nan, 1, 2]).explain("y", want, got, {})
        assert explained.count == 1
        np.testing.assert_array_equal(explained.want, got)
        assert self.differences("Relu", [-1, 1, 2]).explain("y", want, got, {}).count == 0

    def test_halves_that_are_rounded_either_way(self):
        want, got = np.uint8([3, 7, 9]), np.uint8([2, 7, 9])
        explained = self.differences("Cast", [2.99999, 7, 9], to=TensorProto.UINT8).explain("y", want, got, {})
        assert explained.count == 1
        assert self.differences("Cast", [2.7, 7, 9], to=TensorProto.UINT8).explain("y", want, got, {}).count == 0
        assert self.differences("Cast", [3, 7, 9], to=TensorProto.UINT8).explain("y", want, got + 2, {}).count == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [*((kind,) for kind in PARTITIONS), ("ValueRowIds", "UniformRowLength")], ids="+".join
)
def test_messages_whose_features_form_rows(kinds, tmp_path: Path):
    pytest.importorskip("tensorflow")
    verdicts = [outcome(seed, tmp_path, kinds) for seed in range(3, 5)]
    assert [verdict for verdict, _ in verdicts] == ["ok", "ok"], verdicts


class TestAssertedNumbers:
    """What a source asserts of floats is found, although its converted model does not check it."""

    LIMITS = (
        ({"x": (0, 1)}),
        ({"x": (18, 99)}),
        ({"x": (0.2, 0.3)}),
        ({"x": (-273.15, 60)}),
        ({"x": (0, 1), "y": (-90, -10)}),
        ({"x": (2, 3), "y": (5, 9)}),
    )

    @staticmethod
    def refusal(limits, layout):
        for name, (low, high) in limits.items():
            known = layout.ranges.get(Origin(name), (-2.0, 2.0))
            for number in known:
                sign, limit = (">", low) if number < low else ("<", high)
                if not low <= number <= high:
                    return (
                        f"assertion failed: [Condition x {sign}= y] [x ({name}:0) = ] [{number}] [y (c:0) = ] [{limit}]"
                    )
        return None

    @pytest.mark.parametrize("limits", LIMITS)
    def test_ranges_are_found(self, limits):
        found = find_ranges(GUESSED, [Origin(name) for name in limits], partial(self.refusal, limits))
        assert found is not None

    def test_another_refusal_has_no_ranges(self):
        calls = []
        assert (
            find_ranges(GUESSED, [Origin("x")], lambda layout: calls.append(layout) or "shapes [2,3] and [4]") is None
        )
        assert len(calls) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("in_messages", [False, True])
    def test_with_tensorflow(self, in_messages, tmp_path: Path):
        tf = pytest.importorskip("tensorflow")
        from onnx_sparse.converters.tensorflow import convert
        from onnx_sparse.converters.tensorflow import verify as verify_with_tensorflow

        def logit(x):
            tf.debugging.assert_less(x, 1.0)
            tf.debugging.assert_positive(x)
            return {"y": tf.math.log(x / (1 - x))}

        def of_messages(examples):
            return logit(tf.io.parse_example(examples, {"p": tf.io.FixedLenFeature([2], tf.float32)})["p"])

        module = tf.Module()
        spec = tf.TensorSpec([None], tf.string, "examples") if in_messages else tf.TensorSpec([None, 2], name="x")
        module.serve = tf.function(of_messages if in_messages else logit, input_signature=[spec], autograph=False)
        tf.saved_model.save(module, str(tmp_path), {"serving_default": module.serve})
        (record,) = verify_with_tensorflow(tmp_path, convert(tmp_path))
        assert record.ok, record
        assert record.batches >= 2


@pytest.mark.slow
def test_sequences_of_one_length_with_several_values_a_step(tmp_path: Path):
    """As the layer SequenceFeatures joins numbers of shape [2] and ids."""
    tf = pytest.importorskip("tensorflow")
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.tensorflow import verify as verify_with_tensorflow

    spec = {"ids": tf.io.VarLenFeature(tf.int64), "pairs": tf.io.VarLenFeature(tf.float32)}
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")], autograph=False)
    def serve(examples):
        parsed = tf.io.parse_example(examples, spec)
        ids, pairs = tf.sparse.to_dense(parsed["ids"]), tf.sparse.to_dense(parsed["pairs"])
        steps = tf.reshape(pairs, tf.concat([tf.shape(pairs)[:1], [-1], [2]], 0))
        return {"y": tf.concat([tf.one_hot(ids, 3), steps], 2)}

    module.serve = serve
    tf.saved_model.save(module, str(tmp_path), {"serving_default": serve})
    (record,) = verify_with_tensorflow(tmp_path, convert(tmp_path))
    assert record.ok, record
    assert record.batches >= 2


@pytest.mark.skipif(not CAN_FORK, reason="processes are forked on Linux only")
class TestAProgramOfItsOwn:
    """TensorFlow runs in another process where this one has not imported it."""

    class Source:
        inputs = outputs = specs = ()

        def __init__(self, run):
            self.run = run

    @pytest.fixture(autouse=True)
    def without_tensorflow(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)

    def test_inputs_that_end_it_are_refused(self):
        with isolated(self.Source(lambda feeds: os.abort())) as run:
            refused = TensorFlowReference(self.Source(run), run, ModelProto())
            with pytest.raises(EndedError) as ended:
                refused.run({})
        assert "SIGABRT" in str(refused.refusal(ended.value))

    def test_its_errors_come_over_as_text(self):
        def refuse(feeds):
            raise ZeroDivisionError("{{node here}} no")

        with isolated(self.Source(refuse)) as run, pytest.raises(RuntimeError, match="node here") as error:
            run({})
        assert TensorFlowReference(self.Source(run), run, ModelProto()).refusal(error.value).place == "here"
