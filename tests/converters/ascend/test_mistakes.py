"""What an operation that differs equals: each known mistake, made in the dump, is named."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, bin_bytes
from support.ascend_layers import Layer, attend, llama, wide

from onnx_sparse.converters.ascend.atb.collectives import COLLECTIVES
from onnx_sparse.converters.ascend.atb.conversion import written
from onnx_sparse.converters.ascend.atb.graph import with_unique_writes
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS, Choices
from onnx_sparse.converters.ascend.atb.mistakes import _MISTAKES, Trial, variants
from onnx_sparse.converters.ascend.atb.operation import DoesNotRunError, OperationRunner
from onnx_sparse.converters.ascend.atb.replay import replay
from onnx_sparse.converters.ascend.atb.runs import find_runs
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.errors import Unsupported

F16 = np.float16
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
    """The words of each mistake of an operation, after what it makes of the right call is written into the files."""
    for words, trial in variants(node.kind, right):
        own = runner if trial.saturates is None else runner.with_overflow(saturates=trial.saturates)
        try:
            made = own.run(node, trial.param, record, list(trial.inputs))
        except (Unsupported, DoesNotRunError):
            continue
        for file, array in zip(files, trial.written(made), strict=True):
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
        for words in written_mistakes(runner, node, record, Trial(dict(node.param), tuple(inputs)), files):
            outcome = outcomes(tmp_path, runner)[node.name]
            if outcome.verdict == "DIFFERS":
                assert words in outcome.resembles, node.name
                named += 1
            for file, data in zip(files, right, strict=True):
                file.write_bytes(data)
    assert named > 20


def _single():
    """An operation of each kind that stands in no layer above: its inputs, its parameters and the right results."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((4, 6)).astype(F16)
    y = rng.standard_normal((4, 6)).astype(F16)
    mask = (np.arange(24).reshape(4, 6) % 3 == 0).astype(np.int8)
    order = np.argsort(-x.astype(float), -1, kind="stable")[:, :3]
    places = np.array([2, 0, 3], np.int32)
    one, zero = np.array([5], np.int32), np.array([-1], np.int32)
    row = x[0]
    yield "Fill", [x, mask], {"withMask": True, "value": [2.5]}, [np.where(mask, F16(2.5), x)]
    yield "Where", [mask, x, y], {}, [np.where(mask, x, y)]
    yield "Split", [x], {"splitDim": 1, "splitNum": 2, "splitSizes": []}, np.split(x, 2, 1)
    yield "Split", [x], {"splitDim": 1, "splitNum": 2, "splitSizes": [2, 4]}, np.split(x, [2], 1)
    yield "Split", [x], {"splitDim": 1, "splitNum": 3, "splitSizes": []}, np.split(x, 3, 1)
    yield "Sort", [x], {"num": [3]}, [np.take_along_axis(x, order, -1), order.astype(np.int32)]
    yield "Slice", [x], {"offsets": [1, 2], "size": [2, 3]}, [x[1:3, 2:5]]
    yield "Cumsum", [x], {"axes": [1]}, [np.cumsum(x.astype(np.float32), 1).astype(F16)]
    marks = np.where(np.arange(4) == places[:, None], 5, -1).astype(np.int32)
    yield "Onehot", [places, one, zero], {"axis": 1, "depth": 4}, [marks]
    yield "Repeat", [x], {"multiples": [2, 1]}, [np.tile(x, (2, 1))]
    yield (
        "AsStrided",
        [x],
        {"size": [3, 2], "stride": [2, 5], "offset": [4]},
        [np.lib.stride_tricks.as_strided(x.reshape(-1)[4:], (3, 2), (4, 10)).copy()],
    )
    ids = np.arange(4)[:, None] * np.ones((1, 6), int)
    yield (
        "Pad",
        [x, ids[:1].astype(np.int32), np.array([[1], [3]], np.int32), ids[:2].astype(np.int64)],
        {},
        [x[[0, 3]]],
    )
    yield "Elewise", [x, row], {"elewiseType": 8}, [x + row]
    yield "Elewise", [x, row], {"elewiseType": 9}, [x * row]


SINGLE = list(_single())
#: Kinds of which there is nothing that somebody has been seen to do wrong.
WITHOUT_MISTAKES = {"Nonzero", "Transdata"}


def test_each_operation_has_known_mistakes():
    missing = {kind for kind in HANDLERS if kind not in COLLECTIVES and kind not in _MISTAKES}
    assert missing == WITHOUT_MISTAKES


@pytest.mark.parametrize("case", SINGLE, ids=[f"{place}-{kind}" for place, (kind, *_) in enumerate(SINGLE)])
def test_mistakes_of_single_operations(tmp_path, runner, case):
    """The right result is equal; each mistake that changes it is named, and none is by the words of another."""
    kind, inputs, param, right = case
    layer = Layer("Layer_0", F16, 0)
    names = [layer.given(array) for array in inputs]
    outputs = layer.op(f"{kind}Operation", names, param, *right)
    folder = layer.write(tmp_path, [outputs] if isinstance(outputs, str) else outputs)
    outcome = first(outcomes(tmp_path, runner))
    assert (outcome.verdict, outcome.reason) == ("equal", "")
    (run,) = find_runs(tmp_path).runs
    (node,) = with_unique_writes(run.graph, written).nodes
    record = run.records().of(node.path, node.name)
    files = [folder / f"0_{kind}Operation" / "after" / f"outtensor{place}.bin" for place in range(len(right))]
    named = []
    for words in written_mistakes(runner, node, record, Trial(dict(param), tuple(inputs)), files):
        outcome = first(outcomes(tmp_path, runner))
        if outcome.verdict == "DIFFERS":
            assert words in outcome.resembles
            named.append(words)
    assert named


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
