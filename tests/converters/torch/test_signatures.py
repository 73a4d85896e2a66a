"""What modules take and return: arguments that are no tensors, inputs that are returned, numbers as outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import convert, export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


class Module(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Any, ids: Any) -> Any:
        return self.call(x, ids)


EXAMPLE = torch.randn(3, 2), torch.tensor([2, 0])
DYNAMIC = [{0: MANY}, {0: MANY}]

#: Results with the number of outputs that these have.
RETURNED: dict[str, tuple[Callable[..., Any], int]] = {
    "an input": (lambda x, ids: ids, 1),
    "inputs and a result": (lambda x, ids: {"score": x[ids], "ids": ids, "x": x}, 3),
    "an input twice": (lambda x, ids: (ids, ids, x + 1), 3),
    "a part of an input": (lambda x, ids: (ids[:1], ids), 2),
    "nothing and a result": (lambda x, ids: (None, x[ids]), 1),
    "a size": (lambda x, ids: (x[ids], x.shape[0], ids.shape[0] * 2), 3),
    "an element": (lambda x, ids: (ids.sum().item(), x.sum().item()), 2),
    "a comparison": (lambda x, ids: (x, x.shape[0] > 4), 2),
}


@pytest.mark.parametrize("name", RETURNED)
def test_returned(name: str) -> None:
    call, count = RETURNED[name]
    model = export(Module(call), EXAMPLE, dynamic_shapes=tuple(DYNAMIC), verify=True)
    assert [value.name for value in model.graph.input] == ["x", "ids"]
    session = onnx_sparse.InferenceSession(model)
    given = torch.randn(5, 2), torch.tensor([4])
    results = session.run(None, {"x": given[0].numpy(), "ids": given[1].numpy()})
    leaves = torch.utils._pytree.tree_leaves(call(*given))
    wanted = [torch.as_tensor(value) for value in leaves if value is not None]
    assert len(results) == len(wanted) == count
    for got, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want)


@pytest.mark.parametrize("value", [3, "a", 0.5, True])
def test_constant_outputs_are_refused(value: Any) -> None:
    with pytest.raises(ConversionError, match=f"output 1 is always {value!r}"):
        export(Module(lambda x, ids: (x[ids], value)), EXAMPLE)


@pytest.mark.parametrize("value", ["sum", "x", 3, 1.5, True, None])
def test_arguments_that_are_no_tensors(value: Any) -> None:
    """They have the value of the example, also a word that is the name of an input."""

    class ThreeArguments(torch.nn.Module):
        def forward(self, x: Any, ids: Any, mode: Any) -> Any:
            return x[ids].sum(0) if isinstance(mode, str) else x[ids] * (mode or 2)

    model = export(ThreeArguments(), (*EXAMPLE, value), dynamic_shapes=(*DYNAMIC, None), verify=True)
    assert [found.name for found in model.graph.input] == ["x", "ids"]


def test_a_number_with_a_dynamic_value() -> None:
    class First(torch.nn.Module):
        def forward(self, x: Any, count: int) -> Any:
            return x[:count] * count

    model = export(First(), (EXAMPLE[0], 2), dynamic_shapes=({0: MANY}, MANY), verify=True)
    assert [found.name for found in model.graph.input] == ["x", "count"]


def steps() -> tuple[Any, tuple[Any, ...], Any]:
    def call(x: Any, ids: Any) -> Any:
        return torch.stack([x[:, k] for k in range(x.shape[1])]), ids

    return Module(call), EXAMPLE, ({0: MANY, 1: MANY}, {0: MANY})


def reads_a_maximum() -> tuple[Any, tuple[Any, ...], Any]:
    def call(x: Any, ids: Any) -> Any:
        return x if int(ids.max()) < 7 else x + 1

    return Module(call), EXAMPLE, None


def quantized_bags() -> tuple[Any, tuple[Any, ...], Any]:
    bags = torch.ao.nn.quantized.EmbeddingBag(10, 4, mode="sum", dtype=torch.quint8)
    return bags, (torch.tensor([3, 1]), torch.tensor([0, 1])), ({0: MANY}, {0: MANY})


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (quantized_bags, r"before it is quantized.*quantize_tables"),
        (steps, r"size\(\)\[1\] is declared dynamic, but its code makes it always 2"),
        (reads_a_maximum, r"ids\.max\(\)"),
    ],
    ids=["a quantized module", "a constant size", "a value of a tensor"],
)
def test_why_torch_refuses_is_said_in_one_line(case: Callable[[], Any], reason: str, capfd: Any) -> None:
    module, example, dynamic = case()
    with pytest.raises(ConversionError, match=reason) as caught:
        export(module, example, dynamic_shapes=dynamic)
    assert len(str(caught.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")


def test_a_draft_with_guesses_is_refused() -> None:
    """It would answer as if every input took the branch of the example."""

    def call(x: Any, ids: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    draft = torch.export.draft_export(Module(call), EXAMPLE, dynamic_shapes=DYNAMIC)
    with pytest.raises(ConversionError, match=r"the program is a draft.*torch\._check"):
        convert(draft)


def test_a_draft_without_guesses_converts() -> None:
    draft = torch.export.draft_export(Module(lambda x, ids: x[ids]), EXAMPLE, dynamic_shapes=DYNAMIC)
    assert len(convert(draft).graph.input) == 2
