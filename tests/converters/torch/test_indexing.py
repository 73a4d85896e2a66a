"""x[ids], x[mask] and x[ids, ids] = y, against torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

MANY = torch.export.Dim.DYNAMIC

#: What is taken of x [rows, 3, 4] by ids [entries], which count from both ends, and a mask [rows].
CALLS: dict[str, Any] = {
    "rows": lambda x, ids, mask: x[ids],
    "int32": lambda x, ids, mask: x[ids.int()],
    "a matrix of ids": lambda x, ids, mask: x[torch.stack([ids, ids * 0])],
    "one id": lambda x, ids, mask: x[torch.tensor(-1)],
    "columns": lambda x, ids, mask: x[:, ids],
    "the last dimension, a matrix": lambda x, ids, mask: x[:, :, torch.stack([ids, -1 - ids * 0])],
    "rows by a mask": lambda x, ids, mask: x[mask],
    "columns by a mask": lambda x, ids, mask: x.transpose(0, 1)[:, mask],
    "elements by a mask": lambda x, ids, mask: x[:, :, 0][x[:, :, 0] > 0],
    "rows and columns": lambda x, ids, mask: x[ids, ids],
    "rows and the last dimension": lambda x, ids, mask: x[ids, :, ids],
    "a matrix of rows, and columns": lambda x, ids, mask: x[ids.unsqueeze(1), ids],
    "of integers": lambda x, ids, mask: ids[ids],
    "of booleans": lambda x, ids, mask: mask[ids],
}


def batch(ids: list[int], mask: list[bool]) -> Any:
    x = torch.randn(len(mask), 3, 4, generator=torch.Generator().manual_seed(len(mask)))
    return x, torch.tensor(ids, dtype=torch.int64), torch.tensor(mask, dtype=torch.bool)


BATCHES = [
    batch([0, -1, 2, -3], [True, False, True, True, False]),
    batch([1, 1, -2, 2, 0], [False, False, False]),
    batch([-3, 2, 0], [True, True, True]),
]


@pytest.mark.slow
def test_ids_and_masks(agree) -> None:
    calls = {name: lambda _, *given, call=call: call(*given) for name, call in CALLS.items()}
    model = agree(calls, BATCHES, dynamic=[{0: MANY}] * 3)
    kinds = [node.op_type for node in model.graph.node]
    assert (kinds.count("Gather") >= 8, kinds.count("Compress"), kinds.count("GatherND")) == (True, 2, 4), kinds


def test_no_ids(agree) -> None:
    calls = {name: lambda _, *given, name=name: CALLS[name](*given) for name in ("rows", "columns", "rows by a mask")}
    agree(calls, [BATCHES[0], batch([], [True, False]), batch([], [False] * 4)], dynamic=[{0: MANY}] * 3)


def assigned(x: Any, place: Any, value: Any) -> Any:
    y = x.clone()
    y[place] = value
    return y


#: How elements of x [5, 5, 3] are set by rows i and columns j, which are broadcast.
PAIRS: dict[str, Any] = {
    "a number": lambda x, i, j: assigned(x, (i[:, None], j[None]), 100.0),
    "values": lambda x, i, j: assigned(x, (i[:, None], j[None]), x[i][:, j] * 2),
    "added": lambda x, i, j: x.index_put((i[:, None], j[None]), x[0, 0], accumulate=True),
    "int32": lambda x, i, j: x.index_put((i[:, None].int(), j[None].int()), x[0, 0]),
    "one row": lambda x, i, j: x.index_put((torch.tensor([0]), j), x[0, 0]),
    "a row that is a number": lambda x, i, j: x.index_put((torch.tensor(1), j), x[0, 0]),
    "a dimension between": lambda x, i, j: assigned(x, (i[:, None], slice(None), j[None] % 3), 100.0),
    "the last dimensions": lambda x, i, j: assigned(x, (slice(None), i[:, None], j[None] % 3), 100.0),
    "one vector": lambda x, i, j: x.index_put((i, i), x[0, 0]),
    "read": lambda x, i, j: x[i[:, None], j[None]],
    "read, one row": lambda x, i, j: x[torch.tensor([0]), j],
}


@pytest.mark.slow
def test_pairs_that_are_broadcast(agree) -> None:
    """No rows and one column are no places, as one row and no columns are."""
    x = torch.randn(5, 5, 3, generator=torch.Generator().manual_seed(0))
    vectors = [torch.tensor(ids, dtype=torch.int64) for ids in ([0, 2], [1], [])]
    batches = [(x, i, j) for i in vectors for j in (torch.tensor([0, 1, 4]), *vectors[1:])]
    calls = {name: lambda _, *given, call=call: call(*given) for name, call in PAIRS.items()}
    agree(calls, batches, dynamic=[{}, {0: MANY}, {0: MANY}])
