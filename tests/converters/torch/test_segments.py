"""segment_reduce, repeat_interleave, bincount and masked_fill, against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

REDUCTIONS = ("sum", "mean", "prod", "max", "min")
#: Segments of which one is empty: in the middle, first, last; all; only one.
LENGTHS = [[2, 0, 1], [0, 3], [1, 2, 0], [0, 0], [4]]


def data(count: int) -> Any:
    rows = torch.randn((count, 3), generator=torch.Generator().manual_seed(count))
    if count == 3:
        rows[1] = torch.tensor([math.nan, -math.inf, math.inf])
        rows[2] = torch.tensor([1, -math.inf, math.inf])
    return rows


def reductions(name: str) -> dict[str, Any]:
    def call(reduction: str, initial: float | None) -> Any:
        return lambda _, rows, given: torch.segment_reduce(rows, reduction, initial=initial, **{name: given})

    return {
        f"{reduction} from {initial}": call(reduction, initial) for reduction in REDUCTIONS for initial in (None, 0.5)
    }


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_lengths(agree, dtype: Any) -> None:
    agree(reductions("lengths"), [(data(sum(lengths)), torch.tensor(lengths, dtype=dtype)) for lengths in LENGTHS])


def test_offsets(agree) -> None:
    """The last one may leave rows at the end, which belong to no segment."""
    offsets = [np.concatenate([[0], np.cumsum(lengths)]) for lengths in LENGTHS]
    batches = [(data(int(o[-1]) + more), torch.tensor(o)) for o in offsets for more in (0, 2)]
    agree(reductions("offsets"), batches)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_other_floats(agree, dtype: Any) -> None:
    agree(reductions("lengths"), [(data(3).to(dtype), torch.tensor([1, 0, 2]))])


def test_segments_of_a_vector(agree) -> None:
    agree(reductions("lengths"), [(data(3)[:, 0], torch.tensor(lengths)) for lengths in LENGTHS[:3]])


@pytest.mark.parametrize("form", ["lengths", "offsets"])
def test_another_axis(agree, form: str) -> None:
    calls = {
        f"{reduction} {initial}": lambda _, rows, given, reduction=reduction, initial=initial: torch.segment_reduce(
            rows, reduction, axis=1, initial=initial, **{form: given}
        )
        for reduction in REDUCTIONS
        for initial in (None, 2.0)
    }

    def batch(lengths: list[list[int]]) -> Any:
        given = torch.tensor(lengths)
        rows = torch.randn((len(lengths), sum(lengths[0]), 2))
        if form == "offsets":
            given = torch.nn.functional.pad(given.cumsum(1), (1, 0))
        return rows, given

    agree(calls, [batch([[1, 2], [3, 0]]), batch([[0, 2, 2], [4, 0, 0], [1, 1, 2]])])


@pytest.mark.parametrize(
    ("kind", "message"),
    [("sum", r"offsets\[\d\] = \d (is out of range|is less than)"), ("min", "ScatterElements|must be sorted")],
)
def test_lengths_that_do_not_add_up_are_refused(kind: str, message: str) -> None:
    class Sums(torch.nn.Module):
        def forward(self, rows: Any, lengths: Any) -> Any:
            return torch.segment_reduce(rows, kind, lengths=lengths)

    dims = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    session = onnx_sparse.InferenceSession(export(Sums(), (data(4), torch.tensor([1, 3])), dynamic_shapes=dims))
    for lengths in ([1, 2], [1, 4], [5, -1], [1, -1, 4]):
        with pytest.raises(Exception, match=message):
            session.run(None, {"rows": data(4).numpy(), "lengths": np.array(lengths)})


def test_values_and_offsets_of_a_jagged_tensor(agree) -> None:
    """The two tensors of a nested tensor as inputs: its sum, mean and maximum over the ragged dimension."""

    def pooled(reduction: str) -> Any:
        return lambda _, values, offsets: torch.segment_reduce(values * 2, reduction, offsets=offsets)

    offsets = [torch.tensor(o) for o in ([0, 2, 3], [0, 0, 4], [0, 1, 1, 5])]
    agree({r: pooled(r) for r in ("sum", "mean", "max")}, [(torch.randn(int(o[-1]), 3), o) for o in offsets])


def test_repeat_interleave(agree) -> None:
    calls = {
        "positions": lambda _, x, counts: torch.repeat_interleave(counts),
        "rows": lambda _, x, counts: torch.repeat_interleave(x, counts, dim=0),
        "columns": lambda _, x, counts: torch.repeat_interleave(x.T, counts, dim=1),
        "elements": lambda _, x, counts: torch.repeat_interleave(x[:, 0], counts),
        "of a known size": lambda _, x, counts: torch.repeat_interleave(x, counts, dim=0, output_size=x.shape[0]),
    }
    agree(calls, [(torch.randn(len(c), 2), torch.tensor(c)) for c in ([1, 0, 2], [0, 2], [2, 2, 0, 0])])


def test_bincount(agree) -> None:
    calls = {
        "counts": lambda _, ids, weights, integers: torch.bincount(ids),
        "at least 7": lambda _, ids, weights, integers: torch.bincount(ids, minlength=7),
        "weights": lambda _, ids, weights, integers: torch.bincount(ids, weights),
        "double weights": lambda _, ids, weights, integers: torch.bincount(ids, weights.double(), minlength=2),
        "integer weights": lambda _, ids, weights, integers: torch.bincount(ids, integers),
    }
    batches = [(torch.tensor(i), torch.randn(len(i)), torch.arange(len(i))) for i in ([1, 5, 1], [0, 0], [9])]
    none = torch.zeros(0, dtype=torch.int64)
    agree(calls, batches)
    # Without ids, torch's sums of weights are int64.
    unweighted = {name: calls[name] for name in ("counts", "at least 7")}
    agree(unweighted, [*batches, (none, torch.zeros(0), none)])


def test_masked_fill(agree) -> None:
    calls = {
        "number": lambda _, x, mask: x.masked_fill(mask, -math.inf),
        "tensor": lambda _, x, mask: x.masked_fill(mask, torch.tensor(2)),
        "a row of the mask": lambda _, x, mask: x.masked_fill(mask[:1], 3),
        "a smaller tensor": lambda _, x, mask: x[0].masked_fill(mask, 3),
        "integers": lambda _, x, mask: x.long().masked_fill(mask, 3),
    }
    batches = [(torch.randn(n, 3), torch.arange(3 * n).reshape(n, 3) % 2 == 0) for n in (2, 4, 1)]
    dynamic = [{0: torch.export.Dim.DYNAMIC}] * 2
    model = agree(calls, batches, dynamic=dynamic, masked_fill=True)
    assert sum(node.op_type == "MaskedFill" for node in model.graph.node) == len(calls)
    model = agree(calls, batches, dynamic=dynamic)
    assert not any(node.op_type == "MaskedFill" for node in model.graph.node)
