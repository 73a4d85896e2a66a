"""scatter_add, scatter_reduce, index_add and index_reduce, against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

INF = math.inf
DYNAMIC = torch.export.Dim.DYNAMIC
ROWS = [{0: DYNAMIC}] * 3
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")


def random(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def batches(dtype: Any = torch.float32, index: Any = torch.int64) -> list[Any]:
    """Rows to reduce into, ids and rows: some ids occur twice and some not at all; one id, one row, no ids."""

    def batch(rows: int, ids: list[int]) -> Any:
        return (
            random(rows, 3, dtype=dtype),
            torch.tensor(ids, dtype=index),
            random(len(ids), 3, dtype=dtype, seed=1),
        )

    return [batch(5, [1, 0, 1, 4]), batch(4, [2, 2, 2]), batch(3, [2]), batch(1, [0, 0]), batch(3, [])]


def specials() -> list[Any]:
    """NaN before and after numbers, and segments of infinities only."""
    rows = torch.tensor([[math.nan, 1, -INF], [0, math.nan, -INF], [-INF, INF, 2], [-INF, INF, 3], [1, -INF, INF]])
    start = torch.tensor([[-INF, INF, 0.0], [1, -INF, INF], [-INF, INF, math.nan], [-INF, INF, -INF]])
    return [(start, torch.tensor([0, 0, 1, 1, 2]), rows)]


def columns(ids: Any, src: Any) -> Any:
    return ids.view(-1, 1).expand_as(src)


#: Ways to write one index for all elements of a row, and ones that are not known to be that.
INDICES = {
    "view and expand": columns,
    "unsqueeze and expand": lambda ids, src: ids.unsqueeze(1).expand(-1, src.shape[1]),
    "repeat": lambda ids, src: ids.unsqueeze(1).repeat(1, 3),
    "element by element": lambda ids, src: ids.view(-1, 1) + torch.zeros_like(src).to(ids.dtype),
}


def scatter(reduction: str, include_self: bool, index: Any = columns) -> Any:
    return lambda _, x, ids, src: x.scatter_reduce(0, index(ids, src), src, reduction, include_self=include_self)


def both(reductions: Any = REDUCTIONS, **options: Any) -> dict[str, Any]:
    return {
        f"{r} {'with' if s else 'without'} self": scatter(r, s, **options) for r in reductions for s in (True, False)
    }


def by_rows(model: Any) -> bool:
    """Whether no place of an element is computed, of which each must be checked from both sides."""
    return not any(node.op_type == "GreaterOrEqual" for node in model.graph.node)


@pytest.mark.slow
@pytest.mark.parametrize("index", INDICES)
def test_scatter_reduce(agree, index: str) -> None:
    model = agree(both(index=INDICES[index]), batches() + specials(), dynamic=ROWS)
    assert by_rows(model) == (index != "element by element")
    assert not any(node.op_type.startswith("Scatter") for node in model.graph.node)


def test_indices_of_rows_are_not_repeated_for_each_element(agree) -> None:
    """Also where torch leaves open whether src has more rows than there are indices: these are dropped."""

    def expands(index: Any) -> int:
        call = {"": lambda _, x, ids, src: x.scatter_add(0, index(ids, src), src)}
        return [node.op_type for node in agree(call, batches(), dynamic=ROWS).graph.node].count("Expand")

    assert expands(columns) == 0
    assert expands(lambda ids, src: ids.view(-1, 1).expand(-1, 3)) == 1  # of the id that drops a row


@pytest.mark.slow
def test_the_number_of_columns_may_be_dynamic(agree) -> None:
    """Rows are known to be whole where the sizes have one name; where not, elements are reduced one by one."""
    size = torch.export.Dim("columns")
    named = agree(both(["sum"]), batches(), dynamic=[{0: DYNAMIC, 1: size}, {0: DYNAMIC}, {0: DYNAMIC, 1: size}])
    assert by_rows(named)
    assert not by_rows(agree(both(), batches()))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_scatter_reduce_of_other_floats(agree, dtype: Any) -> None:
    agree(both(), batches(dtype) + [(a.to(dtype), i, b.to(dtype)) for a, i, b in specials()], dynamic=ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
def test_scatter_reduce_of_integers(agree, dtype: Any) -> None:
    """Means round down."""
    calls = both() | {"index_add": lambda _, x, ids, src: x.index_add(0, ids, src)}
    agree(calls, batches(dtype), dynamic=ROWS)


def test_booleans(agree) -> None:
    calls = {
        "scatter_add": lambda _, x, ids, src: (x > 0).scatter_add(0, columns(ids, src), src > 0),
        "index_add": lambda _, x, ids, src: (x > 0).index_add(0, ids, src > 0),
        "amin": lambda _, x, ids, src: (x > 0).scatter_reduce(
            0, columns(ids, src), src > 0, "amin", include_self=False
        ),
    }
    agree(calls, batches(), dynamic=ROWS)


def test_into_zeros(agree) -> None:
    """What graph networks do."""
    zeros = lambda x: torch.zeros(x.shape[0], x.shape[1])  # noqa: E731
    calls = {
        f"{r} {s}": lambda _, x, ids, src, r=r, s=s: zeros(x).scatter_reduce(
            0, columns(ids, src), src, r, include_self=s
        )
        for r in ("sum", "mean", "amax")
        for s in (True, False)
    }
    calls["scatter_add"] = lambda _, x, ids, src: zeros(x).scatter_add(0, columns(ids, src), src)
    calls["index_add"] = lambda _, x, ids, src: zeros(x).index_add(0, ids, src)
    agree(calls, batches() + specials(), dynamic=ROWS)


@pytest.mark.parametrize("reduction", ["sum", "amax"])
def test_zeros_to_reduce_into_are_not_made(agree, reduction: str) -> None:
    calls = {
        name: lambda _, x, ids, src, zeros=zeros: zeros(x).scatter_reduce(
            0, columns(ids, src), src, reduction, include_self=reduction == "sum"
        )
        for name, zeros in {
            "zeros": lambda x: torch.zeros(x.shape[0], x.shape[1]),
            "of a tensor": lambda x: x.new_zeros(x.shape),
            "like it": torch.zeros_like,
        }.items()
    }
    kinds = [node.op_type for node in agree(calls, batches(), dynamic=ROWS).graph.node]
    assert "ConstantOfShape" not in kinds
    assert kinds.count("Expand") == (reduction == "amax")  # ones, to count rows


def test_scatter_add_and_index_add(agree) -> None:
    calls = {
        "scatter_add": lambda _, x, ids, src: x.scatter_add(0, columns(ids, src), src),
        "index_add": lambda _, x, ids, src: x.index_add(0, ids, src),
        "index_add with a factor": lambda _, x, ids, src: x.index_add(0, ids, src, alpha=2.5),
        "a negative dimension": lambda _, x, ids, src: x.index_add(-2, ids, src),
        "scatter with add": lambda _, x, ids, src: x.scatter(0, columns(ids, src), src, reduce="add"),
        "scatter with multiply": lambda _, x, ids, src: x.scatter(0, columns(ids, src), src, reduce="multiply"),
        "scatter of a number": lambda _, x, ids, src: x.scatter(0, columns(ids, src), 2.0, reduce="add"),
        "the last dimension": lambda _, x, ids, src: x.T.contiguous().index_add(1, ids, src.T),
        "elements": lambda _, x, ids, src: x[:, 0].scatter_add(0, ids, src[:, 1]),
        "elements of index_add": lambda _, x, ids, src: x[:, 0].index_add(0, ids, src[:, 1]),
    }
    agree(calls, batches())


def test_indices_of_int32(agree) -> None:
    agree({"index_add": lambda _, x, ids, src: x.index_add(0, ids, src)}, batches(index=torch.int32))


def test_index_reduce(agree) -> None:
    calls = {
        f"{r} {s}": lambda _, x, ids, src, r=r, s=s: x.index_reduce(0, ids, src, r, include_self=s)
        for r in ("prod", "mean", "amax", "amin")
        for s in (True, False)
    }
    calls["dim 1"] = lambda _, x, ids, src: x.T.contiguous().index_reduce(1, ids, src.T.contiguous(), "amax")
    agree(calls, batches())


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_dimension(agree, dim: int) -> None:
    """Rows of several dimensions, and indices of elements along any of them."""
    shape = [2, 3, 4]
    indices = list(shape)
    indices[dim] = 5
    row = [1, 1, 1]
    row[dim] = 5
    calls = {
        f"{r} {s} {way}": lambda _, x, rows, ids, src, r=r, s=s, way=way: x.scatter_reduce(
            dim, rows.expand_as(src) if way == "rows" else ids, src, r, include_self=s
        )
        for r in ("sum", "mean", "amax")
        for s in (True, False)
        for way in ("rows", "elements")
    }

    def batch(seed: int) -> Any:
        torch.manual_seed(seed)
        ids = [torch.randint(0, shape[dim], size) for size in (row, indices)]
        return random(*shape), *ids, random(*indices, seed=seed)

    dynamic = [{}, {dim: DYNAMIC}, {dim: DYNAMIC}, {dim: DYNAMIC}]
    empty = [t.narrow(dim, 0, 0) for t in batch(2)[1:]]
    agree(calls, [batch(1), (batch(1)[0], *empty)], dynamic=dynamic)


def test_an_index_smaller_than_the_source(agree) -> None:
    calls = {
        "scatter_add": lambda _, x, ids, src: x.scatter_add(0, ids, src),
        "scatter_reduce": lambda _, x, ids, src: x.scatter_reduce(0, ids, src, "amax", include_self=False),
        "along the other dimension": lambda _, x, ids, src: x.scatter_add(1, ids, src),
        "fewer rows": lambda _, x, ids, src: x.scatter_add(0, ids[:, :1].expand(-1, 4), src[:, :4]),
    }
    indices = [torch.tensor([[0, 1], [1, 0], [2, 1]]), torch.zeros((0, 2), dtype=torch.int64)]
    agree(calls, [(random(6, 4), ids, random(5, 4)) for ids in indices], dynamic=ROWS)


def test_scalars(agree) -> None:
    calls = {
        "scatter_add": lambda _, x, ids, src: x.scatter_add(0, ids, src),
        "index_add": lambda _, x, ids, src: x.reshape(1).index_add(0, ids, src.reshape(1)),
    }
    agree(calls, [(torch.tensor(2.0), torch.tensor(0), torch.tensor(3.0))])


def whole(ids: Any, src: Any) -> Any:
    return ids.view(-1, 1) + torch.zeros_like(src).to(ids.dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, ids, src: x.index_add(0, ids, src),
        lambda x, ids, src: x.scatter_add(0, whole(ids, src), src),
        lambda x, ids, src: x.scatter_add(1, whole(ids, src), src),
    ],
    ids=["rows", "elements", "elements along the last dimension"],
)
def test_ids_out_of_range_are_refused(call: Any) -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: Any, ids: Any, src: Any) -> Any:
            return call(x, ids, src)

    session = onnx_sparse.InferenceSession(export(Sum(), batches()[0], dynamic_shapes=tuple(ROWS)))
    x, _, src = (t.numpy() for t in batches()[1])
    for wrong in (-1, 4):
        with pytest.raises(onnx_sparse.KernelError, match="out of range"):
            session.run(None, {"x": x, "ids": np.array([0, wrong, 1]), "src": src})


#: Ways to look rows up.
LOOKUPS = {
    "index_select": lambda table, ids: table.index_select(0, ids),
    "embedding": lambda table, ids: torch.nn.functional.embedding(ids, table),
    "brackets": lambda table, ids: table[ids],
}
#: Rows of `PRODUCTS` that have one factor each.
WEIGHTED = {
    "column": lambda rows, table, weights: weights.view(-1, 1) * rows,
    "column behind": lambda rows, table, weights: rows * weights.unsqueeze(-1),
}
#: Products [entries, 3] of looked up rows [entries, 3], given the table [7, 3] and weights [entries].
PRODUCTS = WEIGHTED | {
    "row": lambda rows, table, weights: rows * table[:1],
    "column and row": lambda rows, table, weights: rows * (weights.view(-1, 1) * table[:1]),
    "with themselves": lambda rows, table, weights: rows * rows,
    "one row for all": lambda rows, table, weights: table.index_select(0, torch.tensor([3])) * weights.view(-1, 1),
    "a vector for all": lambda rows, table, weights: (
        table[0].index_select(0, torch.tensor([2, 1, 1])) * weights[:, None]
    ),
}


def lookups(dtype: Any = torch.float32) -> list[Any]:
    """A table [7, 3], ids of it, weights and the rows that each is reduced into: in any order, twice, and none."""

    def batch(ids: list[int], into: list[int]) -> Any:
        places, rows = (torch.tensor(numbers, dtype=torch.int64) for numbers in (ids, into))
        return random(7, 3, dtype=dtype), places, random(len(ids), dtype=dtype), rows

    return [
        batch([6, 0, 1, 1, 3], [2, 0, 4, 2, 2]),
        batch([5], [3]),
        batch([], []),
        batch(list(range(7)) * 4, [0, 4, 2, 1] * 7),
    ]


LOOKED_UP = [{}, {0: DYNAMIC}, {0: DYNAMIC}, {0: DYNAMIC}]


def domain_operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == "onnx_sparse"]


def sums(look_up: Any, dtype: Any) -> dict[str, Any]:
    def add(_, table, ids, weights, into):
        return table.new_zeros(5, 3).index_add(0, into, look_up(table, ids))

    def scatter_add(_, table, ids, weights, into):
        rows = look_up(table, ids)
        return table.new_ones(5, 3).scatter_add(0, columns(into, rows), rows)

    def of_a_vector(_, table, ids, weights, into):
        return table.new_zeros(5).index_add(0, into, look_up(table[:, 0], ids))

    def mean(_, table, ids, weights, into):
        return table.new_zeros(5, 3).index_reduce(0, into, look_up(table, ids), "mean", include_self=False)

    every = {"index_add": add, "scatter_add": scatter_add}
    if look_up is not LOOKUPS["embedding"]:
        every["of a vector"] = of_a_vector
    return every | {"mean": mean} if dtype.is_floating_point else every


def products(look_up: Any) -> dict[str, Any]:
    return {
        name: lambda _, t, ids, weights, into, product=product: t.new_zeros(5, 3).index_add(
            0, into, product(look_up(t, ids), t, weights)
        )
        for name, product in PRODUCTS.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", LOOKUPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_sums_of_rows_that_are_looked_up(agree, dtype: Any, way: str) -> None:
    """Neither rows nor their products with weights are stored; those with other factors are, and those of halves."""
    batches = lookups(dtype) if way != "brackets" else [*lookups(dtype), *from_the_end(dtype)]
    plain = sums(LOOKUPS[way], dtype)
    kinds = domain_operators(agree(plain | products(LOOKUPS[way]), batches, dynamic=LOOKED_UP))
    weighted = len(WEIGHTED) if dtype == torch.float32 else 0
    assert kinds.count("EmbeddingSegmentsSum") == len(plain.keys() - {"mean"}) + weighted, kinds
    assert kinds.count("EmbeddingSegmentsMean") == int("mean" in plain), kinds


def from_the_end(dtype: Any) -> list[Any]:
    """The same with ids that count from the end."""
    return [(table, ids - 7, weights, into) for table, ids, weights, into in lookups(dtype)]


@pytest.mark.slow
def test_lookups_of_more_rows_than_have_an_id(agree) -> None:
    """Rows without an id are dropped."""
    calls = {
        "": lambda _, t, ids, weights, into: t.new_zeros(5, 3).scatter_add(
            0, into[:2].view(-1, 1).expand(-1, 3), t.index_select(0, ids)
        )
    }
    agree(calls, [batch for batch in lookups() if len(batch[1]) > 1], dynamic=LOOKED_UP)


@pytest.mark.slow
@pytest.mark.parametrize(("ids", "into"), [([0, 7], [0, 1]), ([0, 1], [0, 5]), ([0, 1], [-1, 0])])
def test_ids_of_lookups_that_are_out_of_range(ids: list[int], into: list[int]) -> None:
    class Model(torch.nn.Module):
        def forward(self, table: Any, ids: Any, into: Any) -> Any:
            return table.new_zeros(5, 3).index_add(0, into, table.index_select(0, ids))

    given = (random(7, 3), torch.tensor(ids), torch.tensor(into))
    legal = (given[0], torch.tensor([0, 1]), torch.tensor([1, 0]))
    model = export(Model(), legal, dynamic_shapes=({}, {0: DYNAMIC}, {0: DYNAMIC}))
    session = onnx_sparse.InferenceSession(model)
    names = [value.name for value in session.get_inputs()]
    with pytest.raises(Exception, match="is out of range"):
        session.run(None, {name: tensor.numpy() for name, tensor in zip(names, given, strict=True)})
