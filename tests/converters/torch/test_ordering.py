"""sort, searchsorted and cdist, which torch's exporter does not write, and the ways of tracing that are tried."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC
NAN = float("nan")


def assert_agrees(call: Any, *batches: Any, **options: Any) -> None:
    """Export a function on the first batch, with any number of rows, and compare on all."""

    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return call(*given)

    shapes = (tuple({0: MANY} for _ in batches[0]),)
    session = InferenceSession(export(Module(), batches[0], dynamic_shapes=shapes, **options))
    names = [given.name for given in session.get_inputs()]
    for batch in batches:
        wanted = call(*batch)
        got = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, batch, strict=True)})
        for want, answer in zip(wanted if isinstance(wanted, tuple) else (wanted,), got, strict=True):
            torch.testing.assert_close(torch.from_numpy(answer), want, equal_nan=True)


@pytest.mark.pairwise
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8])
def test_stable_sorts(dtype: Any, dim: int, descending: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    batches = [(torch.randint(0, 4, (rows, 3), generator=draw).to(dtype),) for rows in (5, 1, 0, 40)]
    assert_agrees(lambda x: tuple(torch.sort(x, dim=dim, stable=True, descending=descending)), *batches)


def test_numbers_come_before_nan() -> None:
    batch = torch.tensor([1.0, NAN, 2.0, NAN, 1.0, float("inf")])
    for descending in (False, True):
        assert_agrees(lambda x, d=descending: tuple(torch.sort(x, stable=True, descending=d)), (batch,))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("kinds", list(itertools.product([torch.int64, torch.float32], repeat=2)), ids=str)
def test_places_of_values(kinds: tuple[Any, Any], right: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    batches = []
    for count, rows in ((5, 4), (1, 6), (0, 3), (4, 0), (30, 50)):
        sequence = torch.randint(0, 9, (count,), generator=draw).sort()[0].to(kinds[0])
        batches.append((sequence, torch.randint(-1, 10, (rows, 2), generator=draw).to(kinds[1])))
    assert_agrees(lambda s, v: torch.searchsorted(s, v, right=right), *batches)


def test_places_in_sequences_of_rows() -> None:
    sequences = torch.tensor([[1, 3, 5], [2, 2, 9]])
    values = torch.tensor([[0, 3, 9, 5], [2, 3, 1, 10]])
    order = torch.tensor([[2, 0, 1], [1, 2, 0]])
    for side in ("left", "right"):
        assert_agrees(lambda s, v, side=side: torch.searchsorted(s, v, side=side, out_int32=True), (sequences, values))
    unsorted = torch.tensor([[3, 5, 1], [9, 2, 2]])
    assert_agrees(lambda s, v, o: torch.searchsorted(s, v, sorter=o), (unsorted, values, order))


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances(power: float) -> None:
    draw = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(m, 3, generator=draw), torch.randn(n, 3, generator=draw)) for m, n in ((4, 5), (1, 2), (0, 3))
    ]
    assert_agrees(lambda x, y: torch.cdist(x, y, p=power), *batches)


def test_one_number_at_places() -> None:
    places = torch.tensor([[0, 3], [1, 1]])
    assert_agrees(lambda x, i: x.scatter(1, i, 9.0), (torch.zeros(2, 4), places), (torch.ones(5, 4), places[:1]))


class TestWaysOfTracing:
    def test_an_example_of_one_row(self) -> None:
        ids = [torch.tensor(values) for values in ([0], [0, 1, 1, 2], [])]
        batches = [(torch.randn(len(i), 2), i.to(torch.int64)) for i in ids]
        assert_agrees(lambda x, i: torch.zeros(3, x.shape[1]).index_add(0, i, x), *batches)

    def test_a_size_from_data(self) -> None:
        def pool(x: Any, batch: Any) -> Any:
            count = int(batch.max()) + 1 if batch.numel() > 0 else 0
            return x.new_zeros(count, x.shape[1]).index_add_(0, batch, x)

        batches = [(torch.randn(len(i), 3), torch.tensor(i)) for i in ([0, 0, 2], [0], [1, 4, 1, 0])]
        assert_agrees(pool, *batches)

    def test_what_no_way_exports_is_said_whole(self) -> None:
        def wrong(x: Any) -> Any:
            return x.numpy().tolist()

        with pytest.raises(ConversionError, match=r"torch.export cannot export Module: .{20}"):
            assert_agrees(wrong, (torch.ones(3),))


def test_so_far():
    """Of equal elements the last; NaN stays."""
    floats = ([1.0, 3.0, 2.0, 3.0, NAN, 5.0], [2.0], [2.0, 2.0, -float("inf")], [])
    batches = [(torch.tensor(values),) for values in floats]
    assert_agrees(lambda x: (*torch.cummax(x, 0), *torch.cummin(x, 0)), *batches)
    whole = [(torch.randint(-3, 3, (rows, 7)),) for rows in (4, 1, 0)]
    assert_agrees(lambda x: (*torch.cummax(x, 1), *torch.cummin(x, -1), *torch.cummin(x, 0)), *whole)


def test_jagged():
    """To padded rows and back; longer rows are cut off."""
    aten = torch.ops.aten
    jagged = [
        (torch.randn(9, 2), torch.tensor([0, 3, 3, 9])),
        (torch.randn(1, 2), torch.tensor([0, 1])),
        (torch.randn(0, 2), torch.tensor([0, 0, 0])),
        (torch.randn(0, 2), torch.tensor([0])),
    ]
    assert_agrees(lambda v, o: aten._jagged_to_padded_dense_forward(v, [o], [4], 0.5), *jagged)
    padded = [(torch.randn(3, 4, 2), torch.tensor([0, 3, 3, 7])), (torch.randn(1, 4, 2), torch.tensor([0, 1]))]
    assert_agrees(lambda d, o: aten._padded_dense_to_jagged_forward(d, [o]), *padded)


def test_jagged_offsets_beyond_the_values_are_an_error():
    class Padded(torch.nn.Module):
        def forward(self, values: Any, offsets: Any) -> Any:
            return torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [4], 0.5)

    example = torch.randn(9, 2), torch.tensor([0, 3, 9])
    session = InferenceSession(export(Padded(), example, dynamic_shapes=({0: MANY}, {0: MANY})))
    with pytest.raises(Exception, match="out of"):
        session.run(None, {"values": example[0].numpy(), "offsets": torch.tensor([0, 8, 11]).numpy()})


def test_placed():
    """put, index_copy and index_fill, with any number of ids."""
    x, none = torch.randn(3, 4), torch.tensor([], dtype=torch.int64)
    ids = [(torch.tensor([1, 2, -1]), torch.randn(3)), (none, torch.randn(0)), (torch.tensor([5]), torch.randn(1))]
    assert_agrees(lambda i, v: (x.put(i, v), x.put(i, v, accumulate=True)), *ids)
    assert_agrees(lambda i, v: x.put(i, v, accumulate=True), (torch.tensor([1, 1, 1]), torch.ones(3)))
    rows = [
        (torch.tensor([2, 0]), torch.randn(2, 4)),
        (none, torch.randn(0, 4)),
        (torch.tensor([1]), torch.randn(1, 4)),
    ]
    assert_agrees(lambda i, v: (x.index_copy(0, i, v), x.index_fill(0, i, 2.0), x.index_fill(1, i, v.sum())), *rows)
