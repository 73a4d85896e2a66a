"""What is exported is loaded and run before it is returned: wrong translations of torch's library are refused."""

from __future__ import annotations

import copy
import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx  # noqa: E402
from torch import nn  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import conversion, convert, export, load, translation_table  # noqa: E402
from onnx_sparse.converters.torch.trial import require_run  # noqa: E402
from onnx_sparse.converters.verification.isolation import EndedError  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


class Calls(nn.Module):
    """Gives a function its parts: modules, and buffers for tensors."""

    def __init__(self, call: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.call = call
        for name, part in parts.items():
            if isinstance(part, torch.Tensor):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *given: Any) -> Any:
        return self.call(self, *given)


def exported(call: Callable[..., Any], *args: Any, **options: Any) -> onnx.ModelProto:
    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return call(*given)

    return export(Module(), args, dynamic_shapes=(tuple({0: MANY} for _ in args),), **options)


#: Calls and their examples, the overload of which torch's own translation is wrong, and what is said of it.
WRONG: dict[str, Any] = {
    "no rows": (
        lambda x: x.roll(1, 0),
        torch.randn(3, 2),
        "aten.roll.default",
        "fails on the example with given_0.shape[0] = 0",
    ),
    "the example": (
        lambda x: torch.arange(3).repeat_interleave(x.shape[0]),
        torch.randn(3, 2),
        "aten.repeat_interleave.self_int",
        "is not torch's on the example",
    ),
    "loading": (
        lambda x: torch.unique_consecutive(x, return_counts=True)[1],
        torch.tensor([1, 1, 2], dtype=torch.int32),
        "aten.unique_consecutive.default",
        "does not load the converted model",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_translations_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, example, overload, message = WRONG[name]
    ours = translation_table()
    theirs = {key: value for key, value in ours.items() if str(key) != overload}
    assert len(theirs) == len(ours) - 1, f"{overload} has a handler"
    monkeypatch.setattr(conversion, "translation_table", lambda **_: theirs)
    with pytest.raises(ConversionError, match=message.replace("[", r"\[")):
        exported(call, example)
    exported(call, example, run=False)


def test_ties_and_random_numbers_are_no_faults() -> None:
    """Frameworks choose different ones of equal elements; noise is different in every run."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exported(lambda x: x.topk(2, 0), torch.zeros(4, 3))
        exported(lambda x: (x + torch.rand_like(x)) * 2, torch.zeros(4, 3))


def test_sizes_that_the_program_refuses_are_passed_over() -> None:
    def call(x: Any) -> Any:
        torch._check(x.shape[0] > 1)
        return x[1] + x.sum(0)

    exported(call, torch.randn(3, 2))


#: What a call may change of its module, and the buffers on which an output of the next call depends.
CHANGING: dict[str, tuple[Callable[[], nn.Module], list[str]]] = {
    "batch norm": (lambda: nn.BatchNorm1d(4), []),
    "instance norm": (
        lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True)),
        [],
    ),
    "counter": (lambda: Calls(lambda m, x: (m.calls.add_(1), x * 2)[1], calls=torch.zeros((), dtype=torch.int64)), []),
    "counter that is read": (lambda: Calls(lambda m, x: x + m.calls.add_(1), calls=torch.zeros(())), ["calls"]),
    "moving average": (
        lambda: Calls(lambda m, x: x - m.average.lerp_(x.mean(0), 0.1), average=torch.zeros(4)),
        ["average"],
    ),
    "cache": (lambda: Calls(cached, keys=torch.zeros(32, 4)), ["keys"]),
    "part of a buffer": (
        lambda: Calls(lambda m, x: (m.b[0].view(-1)[:2].copy_(x[0, :2]), x)[1], b=torch.ones(2, 4)),
        [],
    ),
    "in a part": (
        lambda: Calls(
            lambda m, x: m.norm(m.bags(x.long().abs() % 9)), bags=nn.EmbeddingBag(9, 3), norm=nn.BatchNorm1d(3)
        ),
        [],
    ),
    "by way of another": (lambda: chained(), ["seen", "total"]),
    "parameter": (
        lambda: Calls(lambda m, x: m.linear(x) + m.linear.bias.detach().add_(1), linear=nn.Linear(4, 4)),
        ["linear.bias"],
    ),
}


def cached(module: Any, x: Any) -> Any:
    module.keys[: x.shape[0]] = x
    return module.keys.sum(0)


def chained() -> nn.Module:
    def call(module: Any, x: Any) -> Any:
        module.seen.add_(x.sum(0))
        module.total.add_(module.seen)
        return x + module.total

    return Calls(call, seen=torch.zeros(4), total=torch.zeros(4))


def state(module: nn.Module) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in (*module.named_parameters(), *module.named_buffers())}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_the_callers_module_and_random_numbers_stay(name: str, training: bool, verify: bool) -> None:
    make, read = CHANGING[name]
    module = make().train(training)
    x = 5 * torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    kept, flags = state(module), [each.training for each in module.modules()]
    held = [id(tensor) for tensor in (*module.parameters(), *module.buffers())]
    random_states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate(), torch.is_grad_enabled()
    message = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            export(
                module,
                (x,),
                dynamic_shapes={"given": ({0: MANY},)} if isinstance(module, Calls) else ({0: MANY},),
                verify=verify,
            )
        except ConversionError as error:
            message = str(error)
    after = state(module)
    assert [key for key in kept if not torch.equal(kept[key], after[key])] == []
    assert (flags, held) == (
        [m.training for m in module.modules()],
        [id(t) for t in (*module.parameters(), *module.buffers())],
    )
    assert torch.equal(random_states[0], torch.get_rng_state())
    assert random_states[1:] == (np.random.get_state()[1].tolist(), random.getstate(), torch.is_grad_enabled())
    assert ", ".join(read) in message if read else not message, message
    changes = training or not ("norm" in name or name == "in a part")
    assert any("changes" in str(each.message) for each in warned) == (changes and not read)


def test_without_a_run_state_is_that_of_the_export() -> None:
    make, _ = CHANGING["moving average"]
    with pytest.raises(ConversionError, match=r"changes average in each call.*run=False"):
        export(make(), (torch.ones(3, 4),))
    export(make(), (torch.ones(3, 4),), run=False)


#: What torch's faster kernels answer otherwise than its program, or where it says any of equal elements.
RIGHT: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "attention": (
        lambda: Calls(lambda m, x: m.a(x, x, x), a=nn.MultiheadAttention(8, 2, batch_first=True)),
        (torch.randn(2, 5, 8),),
    ),
    "encoder with a mask": (
        lambda: Calls(
            lambda m, x, mask: m.layers(x, src_key_padding_mask=mask),
            layers=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        ),
        (torch.randn(2, 5, 8), torch.arange(10).reshape(2, 5) == 4),
    ),
    "first step": (lambda: Calls(lambda m, x: x[:, :1].squeeze(1)), (torch.randn(2, 5, 3),)),
    "last step": (lambda: Calls(lambda m, x: x[:, -1:].squeeze(1) * 2), (torch.randn(2, 5, 3),)),
    "best of relu": (lambda: Calls(lambda m, x: torch.relu(x).topk(8, 1)), (torch.randn(3, 12),)),
    "best not seen": (lambda: Calls(lambda m, x: x.masked_fill(x > -1, -torch.inf).topk(4, 1)), (torch.randn(3, 12),)),
    "sorted ties": (lambda: Calls(lambda m, x: x.round().sort(1)), (torch.randn(3, 40),)),
    "chosen rows": (
        lambda: Calls(lambda m, x: x[torch.relu(x[:, 0]).topk(2)[1]]),
        (-torch.arange(20.0).reshape(5, 4),),
    ),
    "kth": (lambda: Calls(lambda m, x: x.round().kthvalue(2, 1)), (torch.randn(3, 30),)),
    "median": (lambda: Calls(lambda m, x: (x.round().median(1), x.round().nanmedian(0))), (torch.randn(4, 30),)),
    "mode": (lambda: Calls(lambda m, x: x.round().mode(1)), (torch.randn(3, 30),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name: str) -> None:
    make, args = RIGHT[name]
    axes = dict.fromkeys(range(2 if name not in ("best of relu", "best not seen", "kth", "chosen rows") else 1), MANY)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        export(make().eval(), args, dynamic_shapes={"given": (axes,) * len(args)}, verify=True)


def model_of(call: Callable[..., Any], example: Any) -> tuple[Any, onnx.ModelProto]:
    program = torch.export.export(Calls(lambda m, x: call(x)), (example,), dynamic_shapes={"given": ({0: MANY},)})
    return load(program), convert(program, run=False)


def planted(model: onnx.ModelProto, op_type: str, *operands: Any) -> onnx.ModelProto:
    """The model with one more node before its last output."""
    wrong = copy.deepcopy(model)
    last = wrong.graph.output[-1].name
    maker = next(node for node in wrong.graph.node if last in node.output)
    maker.output[list(maker.output).index(last)] = "whole"
    for k, operand in enumerate(operands):
        wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(operand), f"planted_{k}"))
    names = [f"planted_{k}" for k in range(len(operands))]
    wrong.graph.node.append(onnx.helper.make_node(op_type, ["whole", *names], [last]))
    return wrong


#: Faults that a second look at other inputs would overlook: what the program is, its example, and what is planted.
FAULTS: dict[str, Any] = {
    "cut off above 100": (lambda x: x * 2, torch.tensor([1e3, 5e4, 7e5]), ("Min", np.float32(100))),
    "infinity is lost": (lambda x: x * 2, torch.tensor([1.0, torch.inf, 3.0]), ("Min", np.float32(1e9))),
    "places beside ties": (
        lambda x: torch.relu(x).topk(2, 0),
        torch.tensor([0.0, 3.0, 0.0, 2.0]),
        ("Add", np.int64(1)),
    ),
    "another tie's element": (lambda x: x.round().sort(0), torch.tensor([1.1, 0.9, 3.0]), ("Sub", np.int64([0, 0, 1]))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_examples_verdict_is_final(name: str) -> None:
    call, example, (op_type, *operands) = FAULTS[name]
    source, model = model_of(call, example)
    require_run(source, model, {})
    with pytest.raises(ConversionError, match="is not torch's on the example"):
        require_run(source, planted(model, op_type, *operands), {})


def test_nothing_excuses_a_failure_on_the_example() -> None:
    """torch infers another shape for windows of no rows than it then has: an excuse for other batches only."""
    module = Calls(lambda m, x: nn.functional.pixel_unshuffle(x[:, :, :0], 2).sum())
    with pytest.raises(ConversionError, match="fails on the example"):
        export(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes={"given": ({0: MANY, 2: MANY, 3: MANY},)})


def test_a_module_with_bags_is_tried_with_other_sizes() -> None:
    """Where only the example is looked at, a fault of empty batches goes out with each module that has a bag."""
    program = torch.export.export(
        Calls(lambda m, ids, offsets, x: (m.bags(ids, offsets), x * 2), bags=nn.EmbeddingBag(9, 5, mode="sum")),
        (torch.arange(4), torch.tensor([0, 2]), torch.randn(3, 2)),
        dynamic_shapes={"given": ({0: MANY}, {0: MANY}, {0: MANY})},
    )
    model = convert(program, run=False)
    require_run(load(program), model, {})
    wrong = planted(model, "Concat", np.zeros((1, 2), np.float32))
    wrong.graph.node[-1].attribute.append(onnx.helper.make_attribute("axis", 0))
    limit = onnx.helper.make_node("Slice", ["longer", "zero", "count", "zero"], [wrong.graph.output[-1].name])
    wrong.graph.node[-1].output[0] = "longer"
    for name, value in (("zero", [0]), ("least", [1])):
        wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.int64), name))
    wrong.graph.node.append(onnx.helper.make_node("Shape", ["whole"], ["sizes"], start=0, end=1))
    wrong.graph.node.append(onnx.helper.make_node("Max", ["sizes", "least"], ["count"]))
    wrong.graph.node.append(limit)  # at least one row
    with pytest.raises(ConversionError, match=r"shape\[0\] = 0"):
        require_run(load(program), wrong, {})


def test_a_batch_that_ends_torchs_process_is_refused() -> None:
    source, model = model_of(lambda x: x * 2, torch.randn(3, 2))

    def end(*given: Any, **named: Any) -> Any:
        os.abort()

    source.__dict__["_runner"] = end
    with source.isolated() as program, pytest.raises(EndedError):
        program.run({source.inputs[0]: np.ones((3, 2), np.float32)})
    with pytest.warns(UserWarning, match="torch refuses the example.*the process ends by SIGABRT"):
        require_run(source, model, {})


def test_sizes_that_must_be_equal_are_changed_together() -> None:
    """torch refuses ids and values of different numbers, which nothing says must be the same."""
    program = torch.export.export(
        Calls(lambda m, x, ids, values: x.index_put((torch.tensor([0]), ids), values)),
        (torch.randn(2, 5), torch.tensor([0, 4, 3]), torch.randn(3)),
        dynamic_shapes={"given": ({0: MANY}, {0: MANY}, {0: MANY})},
    )
    model = convert(program, run=False)
    require_run(load(program), model, {})
    wrong = copy.deepcopy(model)
    reads = [node for node in wrong.graph.node for name in node.input if name == model.graph.input[1].name]
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "more"))
    wrong.graph.node.insert(0, onnx.helper.make_node("Concat", [model.graph.input[1].name, "more"], ["m"], axis=0))
    wrong.graph.node.insert(1, onnx.helper.make_node("Shape", [model.graph.input[1].name], ["n"]))
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "one"))
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "none"))
    wrong.graph.node.insert(2, onnx.helper.make_node("Max", ["n", "one"], ["c"]))
    wrong.graph.node.insert(3, onnx.helper.make_node("Slice", ["m", "none", "c", "none"], ["kept"]))
    for node in reads:
        node.input[:] = ["kept" if name == model.graph.input[1].name else name for name in node.input]
    with pytest.raises(
        ConversionError, match=r"ids.shape\[0\] = given_2.shape\[0\] = 0|given_1.shape\[0\] = given_2.shape\[0\] = 0"
    ):
        require_run(load(program), wrong, {})
