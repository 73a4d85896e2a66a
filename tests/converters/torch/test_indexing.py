"""x[ids] and x[mask], against torch."""

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
