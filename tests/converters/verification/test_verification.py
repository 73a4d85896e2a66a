"""What the verifications of all converters share: what counts as compared, sizes that are solved for."""

import itertools
import math
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_sparse.comparison import magnitude_of
from onnx_sparse.converters.onnx import verify as verify_onnx
from onnx_sparse.converters.verification import rounding_noise
from onnx_sparse.converters.verification.batches import Attempt, Attempts, Refused, compare_batches
from onnx_sparse.converters.verification.comparison import Verdict, compare, merge
from onnx_sparse.converters.verification.isolation import CAN_FORK, Isolated
from onnx_sparse.converters.verification.layout import GUESSED, ROWS
from onnx_sparse.converters.verification.ragged_inputs import ragged_guesses
from onnx_sparse.converters.verification.rounding_noise import RoundingNoise, quantizes, with_moved_weights
from onnx_sparse.converters.verification.sample_inputs import (
    KINDS,
    PROBE,
    Batch,
    CompositeSpecs,
    RaggedInput,
    Sampler,
    SparseInput,
    sample,
)
from onnx_sparse.converters.verification.solving import solve

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(**inputs):
    """A model with these inputs, given as (element type, *dimensions), that does nothing."""
    values = [
        helper.make_tensor_value_info(name, dtype, [f"{name}_{k}" if d is None else d for k, d in enumerate(dims)])
        for name, (dtype, *dims) in inputs.items()
    ]
    return helper.make_model(helper.make_graph([], "empty", values, []))


def verified(run_source, run_model, **inputs):
    (record,) = compare_batches(
        Attempts(Sampler(model_of(**inputs)), run_source, seed=0).some(len(KINDS)),
        {"y": "float32"},
        run_model,
    )
    return record


def test_distances_of_all_batches():
    """The root mean square is that of all elements, however many a batch has."""
    first = compare("y", np.float32([1, 2, np.inf]), np.float32([1, 2.5, np.inf]), "first")
    second = compare("y", np.float32([[4]]), np.float32([[3]]), "second")
    empty = compare("y", np.float32([]), np.float32([]), "empty")
    assert (first.rms, first.elements) == (math.sqrt(0.25 / 2), 2)
    both = merge(merge(first, empty), second)
    assert (both.max_abs, both.max_rel, both.worst) == (1, 0.25, "second")
    assert (both.rms, both.elements) == (pytest.approx(math.sqrt(1.25 / 3)), 3)


class TestVerdict:
    def test_states_how_many_batches_with_rows_were_compared(self):
        record = verified(lambda kind, feeds: [feeds["x"]], lambda feeds: [feeds["x"]], x=(FLOAT, None, 3))
        assert (record.verdict, record.batches) == (Verdict.EQUAL, 4)

    @pytest.mark.parametrize(("most", "expected"), [(0, None), (1, "1 batch of up to 1 row"), (99, "")])
    def test_few_rows_limit_what_equality_says(self, most, expected):
        """What a source refuses is not compared; given inputs are what users asked for."""

        def run(kind, feeds):
            if len(feeds["x"]) > most:
                raise Refused("The source", "too many rows")
            return [feeds["x"]]

        record = verified(run, lambda feeds: [feeds["x"]], x=(FLOAT, None, 3))
        if expected is None:
            assert (record.verdict, record.limited) == (Verdict.NOT_COMPARED, "")
        else:
            assert (record.verdict, record.limited) == (Verdict.EQUAL, expected)
            assert record.most_rows == (1 if most == 1 else 5)

    def test_a_model_of_one_row_has_no_batch_of_several(self):
        record = verified(lambda kind, feeds: [feeds["x"]], lambda feeds: [feeds["x"]], x=(FLOAT, 1, 3))
        assert (record.ok, record.most_rows, record.status) == (True, 1, "ok (no batch of several rows)")

    def test_an_empty_batch_proves_nothing(self):
        def run(kind, feeds):
            if kind != "of no rows":
                raise Refused("The source", "too many rows")
            return [feeds["x"]]

        record = verified(run, lambda feeds: [feeds["x"]], x=(FLOAT, None, 3))
        assert (record.verdict, record.batches, record.ok) == (Verdict.NOT_COMPARED, 0, False)
        assert record.note.startswith("no batch with rows was compared; The source refuses the batches 'ordinary', ")

    def test_an_output_that_is_always_empty_proves_nothing(self):
        record = verified(lambda kind, feeds: [feeds["x"][:0]], lambda feeds: [feeds["x"][:0]], x=(FLOAT, None, 3))
        assert record.verdict == Verdict.NOT_COMPARED
        assert record.note == "the output is empty in every batch"

    def test_rows_without_entries_prove_nothing_about_entries(self):
        def run(kind, feeds):
            if len(feeds["ids"]):
                raise Refused("The source", "no entries, please")
            return [np.zeros(len(feeds["ids_splits"]) - 1, np.float32)]

        record = verified(run, lambda feeds: run("", feeds), ids=(INT64, None), ids_splits=(INT64, None))
        assert record.verdict == Verdict.NOT_COMPARED

    def test_a_source_that_refuses_everything(self):
        def run(kind, feeds):
            raise Refused("The source", "never")

        record = verified(run, lambda feeds: [feeds["x"]], x=(FLOAT, None, 3))
        assert record.verdict == Verdict.REFUSED
        batches = ", ".join(map(repr, KINDS))
        assert record.note == f"The source refuses the batches {batches}: never"

    def test_a_difference_in_a_batch_without_rows_counts(self):
        def run(feeds):
            return [feeds["x"] if len(feeds["x"]) else np.zeros((0, 4), np.float32)]

        record = verified(lambda kind, feeds: [feeds["x"]], run, x=(FLOAT, None, 3))
        assert (record.verdict, record.batches) == (Verdict.DIFFERENT, 4)


class TestComposites:
    """The parts of sparse and ragged tensors fit together, whatever their names."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_ragged(self, kind, depth):
        splits = [f"s{k}" for k in range(depth)]
        model = model_of(v=(FLOAT, None, 2), **dict.fromkeys(splits, (INT64, None)))
        inputs = sample(model, seed=1, kind=kind, specs=CompositeSpecs(ragged=(RaggedInput("v", tuple(splits)),)))
        for outer, inner in zip(splits, [*splits[1:], None], strict=True):
            length = len(inputs["v"]) if inner is None else len(inputs[inner]) - 1
            assert inputs[outer][0] == 0
            assert inputs[outer][-1] == length
            assert (np.diff(inputs[outer]) >= 0).all()
        assert (len(inputs["v"]) > 0) == (kind in ("ordinary", "with empty rows", "of one row"))

    def test_ragged_of_a_fixed_number_of_rows(self):
        specs = CompositeSpecs(ragged=(RaggedInput("v", ("s",)),))
        assert len(sample(model_of(v=(FLOAT, None), s=(INT64, 8)), seed=0, kind="ordinary", specs=specs)["s"]) == 8

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("shape", [None, (None, 5), (None, 1), (None, 4, 3)])
    def test_sparse(self, kind, shape):
        rank = len(shape or "ab")
        model = model_of(a=(INT64, None, rank), b=(FLOAT, None), c=(INT64, rank))
        inputs = sample(model, seed=1, kind=kind, specs=CompositeSpecs((SparseInput("a", "b", "c", shape),)))
        assert len(inputs["a"]) == len(inputs["b"])
        assert (inputs["a"] < inputs["c"]).all()
        assert all(size in (None, given) for size, given in zip(shape or (), inputs["c"], strict=False))


def product(a, b):
    if a.shape[-1] != b.shape[0]:
        text = f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}"
        raise Refused("The source", text.replace(", ", ","))
    return a @ b


def lookup(table, ids):
    for position, value in enumerate(ids.ravel()):
        if value >= len(table):
            raise Refused("The source", f"indices[{position}] = {value} is not in [0, {len(table)})")
    return table[ids]


def together(*arrays):
    if len({array.shape for array in arrays}) > 1:
        raise Refused("The source", " vs. ".join(str(list(array.shape)) for array in arrays))
    return sum(arrays)


def ones(*shape):
    return np.ones(shape, np.float32)


class TestSolving:
    """Sizes that a source states only in its refusals, as TensorFlow phrases them."""

    @pytest.mark.parametrize(
        ("inputs", "run"),
        [
            ({"x": (FLOAT, None, None)}, lambda x: product(x, ones(16, 4))),
            ({"x": (FLOAT, None, None), "a": (FLOAT, None, None)}, lambda x, a: product(a, product(x, ones(8, 4)))),
            (
                {"x": (FLOAT, None, None), "y": (FLOAT, None, None)},
                lambda x, y: together(product(x, ones(12, 4)), product(y, ones(7, 4))),
            ),
            ({"x": (FLOAT, None, None), "y": (FLOAT, None, None)}, lambda x, y: together(x, y, x)),
            (
                {"x": (FLOAT, None, None), "y": (FLOAT, None, None)},
                lambda x, y: product(np.concatenate([x, y], 1), ones(20, 3)),
            ),
            ({"ids": (INT64, None, None)}, lambda ids: lookup(ones(3, 2), ids)),
            ({"x": (FLOAT, None, 4), "ids": (INT64, None)}, lambda x, ids: lookup(x, ids)),
            (
                {"x": (FLOAT, None, None), "ids": (INT64, None, 2), "w": (FLOAT, None)},
                lambda x, ids, w: lookup(product(x, ones(5, 4)), ids) + w[:, None, None],
            ),
        ],
    )
    def test_what_the_source_accepts_is_found(self, inputs, run):
        def run_source(kind, feeds):
            return [run(**feeds)]

        model = model_of(**inputs)
        attempts = Attempts(Sampler(model), run_source, seed=0).some(len(KINDS))
        with_rows = [entry for entry in attempts if entry.batch.has_rows]
        assert len(with_rows) >= 4
        assert [str(entry.refusal) for entry in with_rows if entry.refusal] == []

    def test_any_two_sizes_may_be_the_same(self):
        """Those of a sparse tensor, of its dense shape, of a table and of ids in it."""
        model = model_of(i=(INT64, None, 2), v=(FLOAT, None), s=(INT64, 2), t=(FLOAT, None, None), ids=(INT64, None))
        model.graph.node.append(
            helper.make_node("SparseFillEmptyRows", ["v", "s", "i", "d"], ["a"], domain="onnx_sparse")
        )
        sampler = Sampler(model)
        assert sampler.roles.shapes == {"s"}
        axes = [("i", 0), ("v", 0), ("s", 0), ("s", 1), ("t", 0), ("t", 1), ("ids", 0), ROWS]
        for one, other, bound in itertools.product(axes, axes, [("v", 0), ("t", 0), ("t", 1), 0]):
            for kind in (*KINDS, PROBE):
                layout = GUESSED.with_bound("ids", bound)
                layout = layout if one == other else layout.with_size(one, other)
                feeds = sampler.batch(kind, 0, layout).feeds
                limit = feeds[bound[0]].shape[bound[1]] if bound else 0
                assert (feeds["ids"] < limit).all()

    @pytest.mark.parametrize(
        "message", ["", "no", "3 vs. 3", "[1,2] vs. [3,4]", "= 99999999999999999999 is not in [0, 0)"]
    )
    def test_a_source_that_cannot_be_pleased(self, message):
        asked = []
        sampler = Sampler(model_of(x=(FLOAT, None, None), ids=(INT64, None)))
        assert solve(sampler, 0, lambda batch: asked.append(batch) or message) is None
        assert len(asked) <= 80


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kinds", [("sizes",), ("sizes", "sizes"), ("splits",), ("splits", "splits")], ids="+".join)
def test_rows_that_other_inputs_delimit(kinds, dense):
    """Sizes that sum to the number of values, or row splits that end with it, and a dense input of as many rows."""
    inputs = {"q": (FLOAT, None, 4)} if dense else {}
    for k, kind in enumerate(kinds):
        inputs |= {f"x{k}": (FLOAT, None), f"{kind}_{k}": (INT64, None)}

    def run(batch, feeds):
        rows = {len(feeds["q"])} if dense else set()
        for k, kind in enumerate(kinds):
            given, values = feeds[f"{kind}_{k}"], feeds[f"x{k}"]
            lengths = np.diff(given) if kind == "splits" else given
            if (lengths < 0).any() or (kind == "splits" and given[:1] != [0]) or lengths.sum() != len(values):
                raise Refused("The source", f"Incompatible shapes: [{lengths.sum()}] vs. [{len(values)}]")
            rows.add(len(lengths))
        if len(rows) > 1:
            raise Refused("The source", f"Incompatible shapes: {' vs. '.join(f'[{size}]' for size in sorted(rows))}")
        return [feeds["x0"]]

    sampler = Sampler(model_of(**inputs))
    assert sampler.roles.splits == {name for name in inputs if name.startswith("splits")}
    guesses = (Attempts(Sampler(sampler.model, specs), run, seed=0) for specs in ragged_guesses(sampler))
    tries = next((guess.some(len(KINDS)) for guess in guesses if guess.of_rows(None).is_compared), [])
    compared = [attempt.batch.feeds for attempt in tries if attempt.is_compared]
    assert len(compared) >= 3
    assert max(len(feeds[f"{kinds[0]}_0"]) for feeds in compared) > 2


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_an_end_is_a_difference():
    def run(feeds):
        if not len(feeds["x"]):
            os.abort()
        return [feeds["x"]]

    with Isolated(lambda: run) as isolated:
        record = verified(lambda kind, feeds: [feeds["x"]], isolated, x=(FLOAT, None, 3))
    assert (record.verdict, record.batches) == (Verdict.DIFFERENT, 4)
    assert record.note == "ONNX Runtime ends on the batch 'of no rows': the process ends by SIGABRT"


class TestNarrowDimensions:
    """Each dimension of no known size is tried at 0 and at 1, wherever it stands."""

    @staticmethod
    def seen(shape, refuses=lambda shape: False, **more):
        """The shapes of an input on which a source was run, and those that count."""
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "narrow", inputs, outputs)
        shapes = []

        def run(kind, feeds):
            shapes.append(feeds["x"].shape)
            if refuses(feeds["x"].shape):
                raise Refused("the source", "it does not fit")
            return [-feeds["x"]]

        model = helper.make_model(graph)
        attempts = Attempts(Sampler(model), run, seed=0, **more).some(len(KINDS))
        return shapes, [attempt.batch.feeds["x"].shape for attempt in attempts if attempt.refusal is None]

    def test_every_free_dimension(self):
        shapes, _ = self.seen(["rows", None, 4, "length"])
        for axis in (0, 1, 3):
            sizes = {shape[axis] for shape in shapes}
            assert {0, 1} < sizes
        assert {shape[2] for shape in shapes} == {4}

    def test_refused_ones_do_not_count(self):
        shapes, counted = self.seen([None, None], refuses=lambda shape: shape[1] == 0)
        assert any(shape[1] == 0 for shape in shapes)
        assert counted
        assert all(shape[1] for shape in counted)

    def test_many_dimensions_together(self):
        shapes, _ = self.seen([None] * 12)
        assert any(shape[1:] == (0,) * 11 for shape in shapes)
        assert any(shape[1:] == (1,) * 11 for shape in shapes)


class TestTolerances:
    """They are parts of a value and of its output's magnitude, at any magnitude."""

    @pytest.mark.parametrize("scale", [1e-30, 1e-7, 1, 1e6])
    @pytest.mark.parametrize(("dtype", "part"), [("float32", 1e-5), ("float64", 1e-5), ("float16", 4e-3)])
    def test_at_every_magnitude(self, scale, dtype, part):
        if dtype == "float16" and scale != 1:
            scale = 16
        want = np.linspace(1, 2, 7)
        for off, ok in ((0.5 * part, True), (3 * part, False)):
            got = want * (1 + off)
            assert compare("y", (scale * want).astype(dtype), (scale * got).astype(dtype), "").ok == ok
        for wrong in (0 * want, -want, want[::-1]):
            assert not compare("y", (scale * want).astype(dtype), (scale * wrong).astype(dtype), "").ok

    def test_a_column_of_large_numbers_hides_no_other(self):
        want = np.array([[1e8, 0.5], [2e8, 0.25]], np.float32)
        magnitude = magnitude_of([want, 2 * want])
        assert not compare("y", want, want * np.float32([1, 1.01]), "", magnitude=magnitude).ok
        assert compare("y", want, want * np.float32([1, 1.000005]), "", magnitude=magnitude).ok

    def test_one_huge_number_hides_no_other(self):
        magnitude = magnitude_of([np.float32([1, 2, 3]), np.float32([1e20, 2, np.inf])])
        assert magnitude == 10 * 2

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), ()])
    def test_nothing_has_no_magnitude(self, shape):
        assert (magnitude_of([np.zeros(shape, np.float32)]) == 0).all()


def noise_of(source, model, x, batches=3):
    """The record of a model whose input is a list of numbers."""
    attempts = [Attempt(Batch(f"{k}", {"x": x + np.float32(k)}), [source(x + np.float32(k))]) for k in range(batches)]
    noise = RoundingNoise(lambda feeds: [source(feeds["x"])], lambda feeds: [model(feeds["x"])])
    (record,) = compare_batches(attempts, {"y": "float32"}, lambda feeds: [model(feeds["x"])], noise=noise)
    return record


class TestRoundingNoise:
    """What is left of numbers that cancel may differ by as much as their last digits move it."""

    X = np.random.default_rng(0).standard_normal(50).astype(np.float32) + np.float32(1000)

    def test_of_numbers_that_cancel(self):
        def source(x):
            return x - x.mean(dtype=np.float32)

        def other_order(x):
            return (x - x[0]) - (x - x[0]).mean(dtype=np.float32)

        record = noise_of(source, other_order, self.X)
        assert record.ok
        assert 0 < record.noise < 1e-2
        assert "rounding noise of" in record.note

    @pytest.mark.parametrize("wrong", [lambda y: y[::-1], lambda y: y * 1.05, lambda y: 0 * y, lambda y: y + 0.02])
    def test_hides_no_fault(self, wrong):
        def source(x):
            return x - x.mean(dtype=np.float32)

        assert not noise_of(source, lambda x: wrong(source(x)).astype(np.float32), self.X).ok

    @staticmethod
    def of_peaks(seed, wrong=lambda scores: scores):
        """The record of distributions with peaks, of sums of halves that two programs round to other neighbors."""
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal((16, 32)).astype(np.float32)
        batches = [{"x": rng.standard_normal((rows, 16)).astype(np.float16)} for rows in (5, 1, 4, 20)]

        def softmax(feeds, last_digit):
            logits = (feeds["x"].astype(np.float32) @ weights * (1 + last_digit)).astype(np.float16)
            powers = np.exp(logits.astype(np.float32) - logits.max(1, keepdims=True))
            return powers / powers.sum(1, keepdims=True)

        def source(feeds):
            return [softmax(feeds, 2.0**-12).astype(np.float16)]

        def model(feeds):
            return [wrong(softmax(feeds, 0)).astype(np.float16)]

        noise = RoundingNoise(source, model, computed=("float16",))
        attempts = [Attempt(Batch(f"{k}", feeds), source(feeds)) for k, feeds in enumerate(batches)]
        (record,) = compare_batches(attempts, {"y": "float16"}, model, noise=noise, computed=("float16",))
        return record

    @pytest.mark.parametrize("seed", range(8))
    def test_peaks_of_halves_are_as_exact_as_they_are(self, seed):
        """The median of such a distribution is next to nothing, which its peak's noise is not."""
        assert self.of_peaks(seed).ok

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda scores: scores * 1.03,
            lambda scores: scores[:, ::-1],
            lambda scores: np.where(scores > 0.5, 1, scores),
            lambda scores: np.where(scores < 0.1, 0, scores) + 0.02 * (scores > 0.1),
            lambda scores: scores**1.1,
        ],
    )
    def test_peaks_hide_no_fault(self, wrong):
        assert not self.of_peaks(0, wrong).ok

    def test_weights_stored_in_fewer_bits_are_moved_as_floats(self):
        """A unit in their own last place would be a thousand times as far, and one of a float's would be lost."""
        text = """<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y)
        <float16[2] wide = {15462, 16538}, float16[2] half = {15872, 16640}>
        { w = Cast <to = 1> (wide) h = Cast <to = 10> (half) g = Cast <to = 1> (h) v = Mul (x, w) y = Add (v, g) }"""
        model = onnx.parser.parse_model(text)
        before = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        for other in with_moved_weights(model):
            onnx.checker.check_model(other, full_check=True)
            after = {t.name: onnx.numpy_helper.to_array(t) for t in other.graph.initializer}
            assert after["wide"].dtype == np.float32
            np.testing.assert_allclose(after["wide"], before["wide"].astype(np.float32), rtol=2.0**-22)
            np.testing.assert_array_equal(after["half"], before["half"])

    def test_moved_weights_show_how_far_each_element_moves(self):
        """Elements of which no draw shows much would be refused for what all others may differ by."""
        rng = np.random.default_rng(0)
        x, weights = rng.standard_normal((5, 100)), rng.standard_normal((100, 200)).astype(np.float32)
        text = (
            """<ir_version: 10, opset_import: ["" : 18]> g (float[n,100] x) => (float[n,200] y) { y = MatMul (x, w) }"""
        )
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        others = [onnx.numpy_helper.to_array(other.graph.initializer[0]) for other in with_moved_weights(model)]
        seen = np.max([abs(x @ (other.astype(np.float64) - weights)) for other in others], axis=0)
        typical = 2.0**-23 * np.sqrt(2 / 3 * np.square(x) @ np.square(weights.astype(np.float64)))
        assert (seen / typical).min() > 0.5

    @pytest.mark.parametrize("length", [1 << 10, 1 << 25, 1 << 26])
    def test_copies_of_large_models_are_few(self, monkeypatch, length):
        weights = onnx.numpy_helper.from_array(np.ones(1 << 10, np.float32), "w")
        model = helper.make_model(helper.make_graph([], "g", [], [], [weights]))
        monkeypatch.setattr(rounding_noise, "whole_size", lambda model: 4 * length)
        assert len(with_moved_weights(model)) == {1 << 10: 8, 1 << 25: 4, 1 << 26: 0}[length]

    @staticmethod
    def of_steps(x, wrong=lambda y: y, has_steps=True):
        """The record of a model that rounds to steps of 1/64, with another order of rounding than its source."""

        def stepped(up, faulty=lambda y: y):
            return lambda feeds: [faulty(np.rint(feeds["x"] * 64 * np.float32(1 + up * 2.0**-20)) / 64)]

        source, model = stepped(-1), stepped(1, wrong)
        others = [stepped(up, wrong) for up in (1, -1, 2, -2)]
        noise = RoundingNoise(source, model, lambda: others, has_steps=has_steps)
        (record,) = compare_batches(
            [Attempt(Batch("steps", {"x": x}), source({"x": x}))], {"y": "float32"}, model, noise=noise
        )
        return record

    #: Numbers of which every eighth is between two steps.
    STEPPED = np.float32([(k + 0.5 * (k % 8 == 0)) / 64 for k in range(64)])

    @pytest.mark.parametrize("has_steps", [False, True])
    def test_steps_of_models_that_quantize_are_noise(self, has_steps):
        """A number between two steps becomes either; a model that does not quantize has no such excuse."""
        assert self.of_steps(self.STEPPED, has_steps=has_steps).ok == has_steps

    @pytest.mark.parametrize(("digits", "ok"), [(3, True), (300, False)])
    def test_steps_between_sums_in_another_order(self, digits, ok):
        """Such sums differ by more than their last digit: no move by one digit crosses the middle between two steps."""

        def stepped(up):
            return lambda feeds: [np.rint(feeds["x"].astype(np.float64) * 64 * (1 + up * 2.0**-23)) / 64]

        x = np.float32([(k + 0.5 * (k % 8 == 0)) / 64 * (1 - digits * 2.0**-24) for k in range(64)])
        noise = RoundingNoise(stepped(0), stepped(digits), list, has_steps=True)
        batch = Attempt(Batch("steps", {"x": x}), stepped(0)({"x": x}))
        (record,) = compare_batches([batch], {"y": "float64"}, stepped(digits), noise=noise)
        assert record.ok == ok

    @pytest.mark.parametrize(
        "wrong",
        [lambda y: y * np.float32(1.03), lambda y: y + np.float32(1 / 64), lambda y: np.where(y > 0.5, y - 1 / 64, y)],
    )
    def test_steps_hide_no_fault(self, wrong):
        """Faults as large as a step are in all elements, or many."""
        assert not self.of_steps(self.STEPPED, lambda y: wrong(y).astype(np.float32)).ok

    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            ("y = Round (x)", False),
            ("a = Mul (x, s) y = Round (a)", False),
            ("a = Round (x) y = Mul (a, s)", False),
            ("a = Mul (x, s) b = Round (a) y = Neg (b)", False),
            ("a = Div (x, s) b = Add (a, s) c = Round (b) d = Clip (c) y = Mul (d, s)", True),
            ("a = QuantizeLinear (x, s) y = DequantizeLinear (a, s)", True),
        ],
    )
    def test_what_quantizes(self, nodes, expected):
        text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y)
        <float s = {{0.5}}> {{ {nodes} }}"""
        assert quantizes(onnx.parser.parse_model(text)) == expected

    def test_a_fault_of_a_few_percent_in_a_model_that_rounds(self, tmp_path):
        """Its numbers cancel, so that it moves by more than the fault with its last digits."""
        text = """<ir_version: 10, opset_import: ["" : 18]> g (float[n,50] x) => (float[n,50] y)
        <float far = {30000}, float off = {OFF}> { a = Mul (x, far) r = Round (a) f = Sub (a, r) y = Add (f, off) }"""
        right, wrong = (onnx.parser.parse_model(text.replace("OFF", off)) for off in ("0.0", "0.0075"))
        onnx.save(right, tmp_path / "right.onnx")
        (record,) = verify_onnx(tmp_path / "right.onnx", wrong)
        assert record.verdict is Verdict.DIFFERENT
        (record,) = verify_onnx(tmp_path / "right.onnx", right)
        assert record.ok

    def test_a_step_is_none(self):
        """A number at which the answer changes is not moved, and a jump is not taken for noise."""
        x = np.float32([0.3, 0.7, 0.1])
        record = noise_of(lambda x: (x > 0.3).astype(np.float32), lambda x: (x >= 0.3).astype(np.float32), x)
        assert not record.ok


def test_segments_are_several_one_empty_and_one_long():
    """Also if the model finds their number in the data (-1)."""
    text = """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[n,2] x, int64[n] ids) => (float[s,2] y) <int64 open = {-1}>
    { y = onnx_sparse.SegmentSum (x, ids, open) }"""
    sampler = Sampler(onnx.parser.parse_model(text))
    assert sampler.roles.most_segments is None
    for seed in range(20):
        assert len({*sampler.batch("ordinary", seed).feeds["ids"].tolist()}) >= 3
        sizes = np.bincount(sampler.batch("with empty rows", seed).feeds["ids"])
        assert len(sizes) >= 3
        assert sizes.min() == 0
        assert sizes.max() >= 5
