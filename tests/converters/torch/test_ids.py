"""Ids that torch refuses are refused, and those that it counts from the end are counted so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

F = torch.nn.functional


def rows(ids: Any) -> Any:
    return torch.ones(ids.shape[0], 4)


#: Everything in torch that takes ids, of a table [6, 4].
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "embedding": lambda x, ids: F.embedding(ids, x),
    "embedding with padding": lambda x, ids: F.embedding(ids, x, padding_idx=0),
    "embedding_bag": lambda x, ids: F.embedding_bag(ids, x, torch.zeros(1, dtype=torch.int64)),
    "index_select": lambda x, ids: x.index_select(0, ids),
    "index_select, dim 1": lambda x, ids: x.t().index_select(1, ids),
    "gather": lambda x, ids: x.gather(0, ids[:, None]),
    "index": lambda x, ids: x[ids],
    "index of two": lambda x, ids: x[ids, ids % 4],
    "take": lambda x, ids: torch.take(x, ids),
    "take_along_dim": lambda x, ids: torch.take_along_dim(x, ids[:, None], 0),
    "scatter": lambda x, ids: x.scatter(0, ids[:, None], rows(ids)),
    "scatter of a number": lambda x, ids: x.scatter(0, ids[:, None], 2.0),
    "scatter_add": lambda x, ids: x.scatter_add(0, ids[:, None].expand(-1, 4), rows(ids)),
    "scatter_reduce": lambda x, ids: x.scatter_reduce(0, ids[:, None].expand(-1, 4), rows(ids), "amax"),
    "index_add": lambda x, ids: x.index_add(0, ids, rows(ids)),
    "index_copy": lambda x, ids: x.index_copy(0, ids, rows(ids)),
    "index_fill": lambda x, ids: x.index_fill(0, ids, 3.0),
    "index_reduce": lambda x, ids: x.index_reduce(0, ids, rows(ids), "amax"),
    "index_put": lambda x, ids: x.index_put((ids,), rows(ids)),
    "index_put, accumulate": lambda x, ids: x.index_put((ids,), rows(ids), accumulate=True),
    "put": lambda x, ids: x.put(ids, torch.ones(ids.shape[0])),
    "one_hot": lambda _, ids: F.one_hot(ids, 6),
    "bincount": lambda _, ids: torch.bincount(ids, minlength=7),
    "sum of looked up": lambda x, ids: torch.zeros(2, 4).index_add(0, ids % 2, x.index_select(0, ids)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_as_torch(name: str):
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.arange(24.0).reshape(6, 4))

        def forward(self, ids: Any) -> Any:
            return CALLS[name](self.x, ids)

    module = Module()
    model = export(module, (torch.tensor([3, 1, 2]),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    session = onnx_sparse.InferenceSession(model)
    for ids in ([3, 1, 2], [5], [0, -1, 2], [0, 6, 2], [-6, 0, 1], [-7, 0, 2], []):
        given = torch.tensor(ids, dtype=torch.int64)
        try:
            want = module(given)
        except (IndexError, RuntimeError):
            with pytest.raises(Exception, match=r"."):
                session.run(None, {"ids": given.numpy()})
        else:
            np.testing.assert_array_equal(session.run(None, {"ids": given.numpy()})[0], want.numpy(), err_msg=str(ids))


def test_all_lookups_on_request():
    """Also those of which torch counts ids from the end."""

    class Module(torch.nn.Module):
        def forward(self, x: Any, ids: Any) -> Any:
            return x[ids]

    example = torch.randn(6, 4), torch.tensor([3, 1, 2])
    sessions = [onnx_sparse.InferenceSession(export(Module(), example, check_ids=all_of)) for all_of in (False, True)]
    feeds = {"x": example[0].numpy(), "ids": np.array([0, -1, 2])}
    assert sessions[0].run(None, feeds)[0].shape == (3, 4)
    with pytest.raises(Exception, match="out of"):
        sessions[1].run(None, feeds)
