"""What an operation that differs equals: each known mistake, made in the dump, is named."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, bin_bytes
from support.ascend_layers import Layer, attend, llama, wide
from support.ascend_plants import examples

from onnx_sparse.converters.ascend.atb.collectives import COLLECTIVES
from onnx_sparse.converters.ascend.atb.conversion import written
from onnx_sparse.converters.ascend.atb.graph import AtbNode, with_unique_writes
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS, Choices
from onnx_sparse.converters.ascend.atb.mistakes import variants
from onnx_sparse.converters.ascend.atb.mistakes.operands import DECLARED, declared
from onnx_sparse.converters.ascend.atb.mistakes.trial import Trial
from onnx_sparse.converters.ascend.atb.operation import DoesNotRunError, OperationRunner
from onnx_sparse.converters.ascend.atb.records import OperationRecord
from onnx_sparse.converters.ascend.atb.replay import replay
from onnx_sparse.converters.ascend.atb.runs import find_runs
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.errors import Unsupported

F16 = np.float16
#: Mistakes of each operation that are made in a dump.
MOST_PLANTED = 6
LAYERS = {
    "prefill": lambda: llama("Prefill_layer_2", F16, prefill=True),
    "decode": lambda: llama("Decoder_layer_2", BFLOAT16, prefill=False),
}


@pytest.fixture(scope="module")
def runner():
    return OperationRunner(Choices(None, None), "auto")


def outcomes(root, runner):
    found = find_runs(root).runs
    return {o.operation: o for run in found for o in replay(run, runner, others=found).outcomes}


def first(found):
    """That of the first operation; that of the layer comes after all."""
    return next(iter(found.values()))


def written_mistakes(runner, node, record, right, files):
    """The words of some mistakes of an operation, after what each makes of the right call is written into the files."""
    known = list(variants(node.kind, right))
    for place in np.random.default_rng(len(known)).permutation(len(known))[:MOST_PLANTED]:
        words, trial = known[place]
        own = runner if trial.saturates is None else runner.with_overflow(saturates=trial.saturates)
        try:
            made = trial.written(own.run(node, trial.param, record, list(trial.inputs)))
        except (Unsupported, DoesNotRunError, ValueError, IndexError):
            continue
        for file, array in zip(files, made, strict=True):
            file.write_bytes(bin_bytes(array))
        yield words


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_each_mistake_of_each_operation(tmp_path, runner, make):
    """Where a mistake changes the result at all, it is among what the operation equals."""
    layer, outputs = make()
    folder = layer.write(tmp_path, outputs)
    (run,) = find_runs(tmp_path).runs
    graph, records = with_unique_writes(run.graph, written), run.records()
    named = 0
    seen = set()
    for node in graph.nodes:
        if node.kind in seen:
            continue
        seen.add(node.kind)
        record = records.of(node.path, node.name)
        inputs = [read_tensor(tensor.file, tmp_path) for tensor in record.inputs]
        place = folder.joinpath(*(f"{index}_{kind}" for index, kind in node.path), "after")
        files = [place / f"outtensor{i}.bin" for i in range(len(node.outputs))]
        right = [file.read_bytes() for file in files]
        right_call = Trial(dict(node.param), tuple(inputs))
        for words in written_mistakes(runner, node, record, right_call, files):
            outcome = outcomes(tmp_path, runner)[node.name]
            if outcome.verdict == "DIFFERS":
                assert words in outcome.resembles, node.name
                named += 1
            for file, data in zip(files, right, strict=True):
                file.write_bytes(data)
    assert named > 15


EXAMPLES = examples()
IDS = [f"{place}-{example.kind}" for place, example in enumerate(EXAMPLES)]


def test_each_operation_is_declared():
    """An operation without names of its inputs, or without an example here, would have no known mistakes."""
    kinds = {kind for kind in HANDLERS if kind not in COLLECTIVES}
    assert kinds <= set(DECLARED)
    assert kinds <= {example.kind for example in EXAMPLES}
    for example in EXAMPLES:
        trial = Trial(dict(example.param or {}), tuple(example.inputs))
        assert len(declared(example.kind, trial)) == len(example.inputs), example.kind
        assert len(set(declared(example.kind, trial))) == len(example.inputs), example.kind


def test_large_inputs_have_few_mistakes():
    """Each mistake runs the operation again: of large inputs only those with words of their own do."""
    small, large = (
        {
            words
            for words, _ in variants("RmsNorm", Trial({"layerType": 2}, (x, x, np.ones((8,), F16))))
            if "residual" in words or "with the sign of x" in words
        }
        for x in (np.zeros((4, 8), F16), np.zeros((2**16, 8), F16))
    )
    assert large == {"the norm with zeros as residual"}
    assert large < small


class Planted:
    """A dump of one example and of an operation that reads its first result."""

    def __init__(self, root, runner, example):
        self.root, self.runner, self.example = root, runner, example
        names = [f"in{i}" for i in range(len(example.inputs))]
        outputs = tuple(map(str, range(self.results)))
        kind = example.kind
        self.node = AtbNode(kind, f"{kind}Operation", example.param, tuple(names), outputs, ((0, kind),))
        self.right = runner.run(self.node, example.param, OperationRecord(), example.inputs)

    @property
    def results(self):
        return self.example.outputs or len(HANDLERS[self.example.kind].writes)

    def outcomes(self, results):
        """Those of the operation and of the one that reads its result, where these are the results."""
        layer = Layer("Layer_0", F16, 0)
        names = [layer.given(array) for array in self.example.inputs]
        onto = [] if self.example.outputs else [names[place] for place in HANDLERS[self.example.kind].writes]
        made = layer.op(f"{self.example.kind}Operation", names, self.example.param, *results, onto=onto)
        outputs = [made] if isinstance(made, str) else list(made)
        if results[0].dtype == F16:  # the wrong result is carried on
            outputs.append(layer.op("ElewiseOperation", outputs[:1], {"elewiseType": 5}, -results[0]))
        layer.write(self.root, outputs)
        return outcomes(self.root, self.runner)

    def made(self):
        """What each known mistake makes of the operation."""
        for words, trial in variants(
            self.example.kind, Trial(dict(self.example.param or {}), tuple(self.example.inputs))
        ):
            runner = self.runner if trial.saturates is None else self.runner.with_overflow(saturates=trial.saturates)
            try:
                made = trial.written(runner.run(self.node, trial.param, OperationRecord(), list(trial.inputs)))
            except (Unsupported, DoesNotRunError, ValueError, IndexError):
                continue
            if [(a.shape, a.dtype) for a in made] == [(a.shape, a.dtype) for a in self.right]:
                yield words, made


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_each_kind_of_mistake(tmp_path, runner, example):
    """A known mistake is named, by all words whose results it has; and nothing else differs."""
    planted = Planted(tmp_path, runner, example)
    assert {o.verdict for o in planted.outcomes(planted.right).values()} == {"equal"}
    assert not any(o.resembles for o in planted.outcomes(planted.right).values())
    made = list(planted.made())
    random = np.random.default_rng(1)
    for place in random.permutation(len(made))[:MOST_PLANTED]:
        words, results = made[place]
        found = planted.outcomes(results)
        outcome, *others = found.values()
        assert {o.verdict for o in others[:-1]} <= {"equal"}, words
        if outcome.verdict != "DIFFERS":
            continue
        equal = {other for other, same in made if all(map(same_bits, same, results))}
        assert {words} <= equal <= set(outcome.resembles)


def same_bits(one, other):
    return one.tobytes() == other.tobytes()


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_faults_that_nobody_knows(tmp_path, runner, example):
    """Noise of one step is no fault, and of larger noise no mistake is to blame."""
    planted = Planted(tmp_path, runner, example)
    random = np.random.default_rng(2)
    for size in (1, 100):
        results = []
        for array in planted.right:
            if array.dtype.kind in "iub":
                results.append(array)
                continue
            step = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[str(array.dtype)] * size
            # A step of the largest element: sums of elements that cancel are as far off.
            unit = np.minimum(np.abs(wide(array)).max(initial=0), 60000)
            results.append((wide(array) + step * unit * random.standard_normal(array.shape)).astype(array.dtype))
        found = first(planted.outcomes(results))
        assert not found.resembles, (size, found.resembles)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_mistakes_made_by_numpy(tmp_path, runner, example):
    """The operation that has made a mistake differs, what has read its result does not, and the mistake is named."""
    planted = Planted(tmp_path, runner, example)
    for words, wrong in example.wrong.items():
        results = wrong(list(planted.right))
        assert [a.shape for a in results] == [a.shape for a in planted.right], words
        outcome, *others = planted.outcomes(results).values()
        assert outcome.verdict == "DIFFERS", words
        assert {o.verdict for o in others[:-1]} <= {"equal"}, words
        assert any(re.search(words, equal) for equal in outcome.resembles), (words, outcome.resembles)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("the rotation in the other direction", lambda cos, sin: (cos, -sin)),
        ("the rotation with cos and sin exchanged", lambda cos, sin: (sin, cos)),
        ("the product with cos alone", lambda cos, sin: (cos, 0 * sin)),
        ("the rotation at the position before", lambda cos, sin: (np.roll(cos, 1, 0), np.roll(sin, 1, 0))),
    ],
)
def test_rotations_of_few_key_heads(tmp_path, runner, heads, words, wrong):
    """The cosines are found by their place: keys of one head have their shape, and so have queries of one."""
    rng = np.random.default_rng(5)
    angle = np.tile(np.arange(1, 5)[:, None] * 10.0 ** -np.arange(4), 2)
    q, k = (rng.standard_normal((4, 8 * n)).astype(F16) for n in (max(1, 2 * heads - 2), heads))

    def rope(x, cos, sin):
        by_head = x.astype(float).reshape(4, -1, 8)
        turned = np.concatenate([-by_head[..., 4:], by_head[..., :4]], -1)
        return (by_head * cos[:, None] + turned * sin[:, None]).reshape(x.shape).astype(F16)

    layer = Layer("Layer_0", F16, 0)
    cos, sin = (f(angle).astype(F16) for f in (np.cos, np.sin))
    names = [layer.given(array) for array in (q, k, cos, sin, np.array([4], np.int32))]
    made = [rope(x, *wrong(cos.astype(float), sin.astype(float))) for x in (q, k)]
    layer.write(tmp_path, layer.op("RopeOperation", names, {"cosFormat": 0, "rotaryCoeff": 2}, *made))
    outcome = first(outcomes(tmp_path, runner))
    assert outcome.verdict == "DIFFERS"
    assert words in outcome.resembles


class TestMistakesOfTheirOwn:
    """Made here by plain numpy, not by the operation itself."""

    HEADS, GROUPS, SIZE, TOKENS = 4, 2, 8, 6

    def attention(self, tmp_path, wrong):
        """A prefill of one sequence whose result is what `wrong` makes of q, k, v and the mask."""
        layer = Layer("Prefill_layer_0", F16, 1)
        q, k, v = (layer.weight(self.TOKENS, n, self.SIZE, scale=1.0) for n in (self.HEADS, self.GROUPS, self.GROUPS))
        mask = layer.given(np.triu(np.full((self.TOKENS, self.TOKENS), -10000.0), 1).astype(F16))
        lengths = layer.given(np.array([self.TOKENS], np.int32))
        arrays = [layer.values[name] for name in (q, k, v)]
        param = {"headNum": self.HEADS, "kvHeadNum": self.GROUPS, "qkScale": 0.25, "calcType": 3, "maskType": 1}
        y = layer.op(
            "SelfAttentionOperation", [q, k, v, mask, lengths], param,
            layer.rounded(wrong(*arrays, wide(layer.values[mask]))),
        )  # fmt: skip
        layer.write(tmp_path, [y])

    @pytest.mark.parametrize(
        ("words", "wrong"),
        [
            ("", lambda q, k, v, mask: attend(q, k, v, 0.25, mask)),
            ("attention without the mask", lambda q, k, v, mask: attend(q, k, v, 0.25)),
            ("attention without the scale", lambda q, k, v, mask: attend(q, k, v, 1.0, mask)),
            ("attention with the scale applied twice", lambda q, k, v, mask: attend(q, k, v, 0.0625, mask)),
            ("attention with keys and values exchanged", lambda q, k, v, mask: attend(q, v, k, 0.25, mask)),
            (
                "attention in which head h reads the keys of group h mod kvHeadNum",
                lambda q, k, v, mask: attend(q, np.tile(k, (1, 2, 1)), np.tile(v, (1, 2, 1)), 0.25, mask),
            ),
            (
                "attention of the neighboring heads",
                lambda q, k, v, mask: np.roll(attend(q, k, v, 0.25, mask), 1, 1),
            ),
        ],
    )
    def test_attention(self, tmp_path, runner, words, wrong):
        self.attention(tmp_path, wrong)
        found = next(iter(outcomes(tmp_path, runner).values()))
        assert found.verdict == ("DIFFERS" if words else found.verdict)
        assert (found.resembles[0] if words else found.resembles) == (words or ())

    @pytest.mark.parametrize(
        ("words", "wrong"),
        [
            ("the product without the bias", lambda x, w, b: x @ w.T),
            ("the product with a weight that is not transposed", lambda x, w, b: x @ w.reshape(w.shape[::-1]) + b),
            ("2 times the result", lambda x, w, b: 2 * (x @ w.T + b)),
            ("zeros: nothing was written", lambda x, w, b: 0 * (x @ w.T + b)),
            (
                "the result with 2 of 5 rows lost, from row 3 on",
                lambda x, w, b: (x @ w.T + b) * (np.arange(5) < 3)[:, None],
            ),
            ("the result moved along axis 0 to the place after", lambda x, w, b: np.roll(x @ w.T + b, 1, 0)),
        ],
    )
    def test_products(self, tmp_path, runner, words, wrong):
        layer = Layer("Layer_0", F16, 2)
        x, weight, bias = layer.weight(5, 16, scale=1.0), layer.weight(8, 16), layer.weight(8)
        arrays = [wide(layer.values[name]) for name in (x, weight, bias)]
        param = {"transposeA": False, "transposeB": True, "hasBias": True, "outDataType": -1}
        y = layer.op("LinearOperation", [x, weight, bias], param, layer.rounded(wrong(*arrays)))
        layer.write(tmp_path, [y])
        found = next(iter(outcomes(tmp_path, runner).values()))
        assert found.verdict == "DIFFERS"
        assert words in found.resembles

    def test_the_result_of_another_round(self, tmp_path, runner):
        total = None
        for round_ in ("0", "1"):
            layer = Layer("Layer_0", F16, int(round_))
            x, y = layer.weight(3, 4), layer.weight(3, 4)
            total = layer.values[x] + layer.values[y] if total is None else total
            z = layer.op("ElewiseOperation", [x, y], {"elewiseType": 8}, total)
            layer.write(tmp_path, [z], round_=round_)
        found = find_runs(tmp_path).runs
        first, second = (replay(run, runner, others=found).outcomes[0] for run in found)
        assert first.verdict == "equal"
        assert second.resembles == ("the result of round 0",)

    def test_a_fault_that_nobody_knows(self, tmp_path, runner):
        self.attention(tmp_path, lambda q, k, v, mask: wide(q) + 1)
        assert next(iter(outcomes(tmp_path, runner).values())).resembles == ()
