"""What is exported is loaded and run before it is returned: wrong translations of torch's library are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import conversion, export, translation_table  # noqa: E402

MANY = torch.export.Dim.DYNAMIC


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
