"""embedding_bag in all its forms, against torch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

F = torch.nn.functional
ROWS = 7
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
TABLES = {name: torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1)).to(d) for name, d in DTYPES.items()}


def batch(lengths: list[int], ids: list[int] | None = None, dtype: Any = torch.int64, offsets: Any = None) -> Any:
    """Ids, where each bag begins, and weights."""
    total = sum(lengths)
    random = torch.Generator().manual_seed(total)
    given = torch.randint(0, ROWS, (total,), generator=random) if ids is None else torch.tensor(ids)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])[: len(lengths)].astype(np.int64)
    return given.to(dtype), torch.tensor(starts).to(offsets or dtype), torch.randn(total, generator=random)


#: Ordinary bags; an empty one first, in the middle, last, two in a row; no ids; no bags; only padding; one bag.
LENGTHS = [[2, 3, 1], [0, 2, 1], [2, 0, 1], [2, 1, 0], [1, 0, 0, 2], [0, 0, 0, 0], [], [4], [0]]


def batches(**types: Any) -> list[Any]:
    padded = [batch([2, 3, 1], [3, 3, 2, 3, 6, 3], **types), batch([1, 2], [6, 6, 6], **types)]
    return [batch(lengths, **types) for lengths in LENGTHS] + padded


def bag(mode: str, table: str = "f32", *, weighted: bool = False, **options: Any) -> Any:
    def call(module: Any, ids: Any, offsets: Any, weights: Any) -> Any:
        rows = getattr(module, table)
        given = {"per_sample_weights": weights.to(rows.dtype)} if weighted else {}
        return F.embedding_bag(ids, rows, offsets, mode=mode, **given, **options)

    return call


FORMS = {
    "sum": bag("sum"),
    "mean": bag("mean"),
    "max": bag("max"),
    "weighted": bag("sum", weighted=True),
    **{f"{mode} padded with {k}": bag(mode, padding_idx=k) for mode in ("sum", "mean", "max") for k in (0, 3, -1)},
    "weighted and padded": bag("sum", weighted=True, padding_idx=3),
}


def test_sum_mean_max_weights_and_padding(agree) -> None:
    model = agree(FORMS, batches(), tables=TABLES)
    assert all(node.op_type.startswith("EmbeddingBagOffsets") for node in model.graph.node)


@pytest.mark.slow
def test_indices_of_int32(agree) -> None:
    agree(FORMS, batches(dtype=torch.int32), tables=TABLES)


@pytest.mark.slow
def test_indices_of_both_types(agree) -> None:
    few = {name: FORMS[name] for name in ("sum", "max", "weighted and padded")}
    agree(few, batches(dtype=torch.int32, offsets=torch.int64), tables=TABLES)
    agree(few, batches(dtype=torch.int64, offsets=torch.int32), tables=TABLES)


@pytest.mark.slow
def test_every_floating_type(agree) -> None:
    calls = {f"{mode} {table}": bag(mode, table) for mode in ("sum", "mean", "max") for table in TABLES}
    calls |= {f"weighted {table}": bag("sum", table, weighted=True) for table in TABLES}
    agree(calls, batches(), tables=TABLES)


def test_the_last_offset_included(agree) -> None:
    def with_end(lengths: list[int]) -> Any:
        ids, starts, weights = batch(lengths)
        return ids, torch.cat([starts, torch.tensor([len(ids)])]), weights

    calls = {mode: bag(mode, include_last_offset=True) for mode in ("sum", "mean", "max")}
    calls["weighted and padded"] = bag("sum", weighted=True, padding_idx=3, include_last_offset=True)
    agree(calls, [with_end(lengths) for lengths in LENGTHS], tables=TABLES)


@pytest.mark.slow
def test_a_matrix_of_indices(agree) -> None:
    def rows(mode: str, weighted: bool = False, **options: Any) -> Any:
        def call(module: Any, ids: Any, weights: Any) -> Any:
            given = {"per_sample_weights": weights} if weighted else {}
            return F.embedding_bag(ids, module.f32, mode=mode, **given, **options)

        return call

    calls = {f"{mode} {k}": rows(mode, padding_idx=k) for mode in ("sum", "mean", "max") for k in (None, 2)}
    calls["weighted"] = rows("sum", weighted=True)
    shapes = [(3, 2), (2, 5), (4, 1), (1, 3), (0, 3)]
    given = [(torch.randint(0, ROWS, shape), torch.randn(shape)) for shape in shapes]
    agree(calls, given, tables=TABLES)
    static = [(ids[:, :2], weights[:, :2]) for ids, weights in given if ids.shape[1] > 1]
    agree(calls, static, tables=TABLES, dynamic=[{0: torch.export.Dim.DYNAMIC}] * 2)


def test_offsets_at_equal_distances(agree) -> None:
    """They look like the rows of a matrix, but the last bag may be shorter."""

    def call(module: Any, ids: Any) -> Any:
        return F.embedding_bag(ids, module.f32, torch.arange(0, ids.shape[0], 3), mode="sum")

    def of_a_matrix(module: Any, ids: Any) -> Any:
        rows = torch.cat([ids, ids]).reshape(2, -1)
        return F.embedding_bag(rows.reshape(-1), module.f32, torch.arange(0, rows.numel(), 1), mode="sum")

    given = [(torch.randint(0, ROWS, (count,)),) for count in (6, 7, 2)]
    agree({"a vector": call, "a matrix": of_a_matrix}, given, tables=TABLES)


def test_the_table_as_an_input(agree) -> None:
    calls = {mode: lambda module, t, i, o, mode=mode: F.embedding_bag(i, t, o, mode=mode) for mode in ("sum", "mean")}
    ids, starts, _ = batch([2, 0, 3])
    agree(calls, [(torch.randn(rows, 4), ids, starts) for rows in (7, 9)])


def test_the_module(agree) -> None:
    module = torch.nn.EmbeddingBag(ROWS, 3, mode="mean", padding_idx=3)
    agree({"": lambda _, ids, offsets: module(ids, offsets)}, [entry[:2] for entry in batches()])


@pytest.mark.slow
def test_a_decomposed_program(agree) -> None:
    """The operators that `run_decompositions` leaves."""

    class Bags(torch.nn.Module):
        def forward(self, ids: Any, offsets: Any) -> Any:
            return [F.embedding_bag(ids, TABLES["f32"], offsets, mode="mean", padding_idx=k) for k in (None, -1)]

    program = torch.export.export(Bags(), batch([2, 0, 3])[:2]).run_decompositions()
    assert "_embedding_bag" in str(program.graph)
    session = onnx_sparse.InferenceSession(export(program))
    given = batch([2, 0, 3], [6, 1, 6, 6, 2])[:2]
    feeds = dict(zip(["ids", "offsets"], [t.numpy() for t in given], strict=True))
    for got, want in zip(session.run(None, feeds), Bags()(*given), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


WRONG = {
    "a negative id": ([0, -1], [0, 1], "indices[1] = -1 is out of range [0, 7)"),
    "an id beyond the table": ([0, ROWS], [0, 1], "indices[1] = 7 is out of range [0, 7)"),
    "a first offset that is not 0": ([0, 1], [1, 2], "offsets[0] = 1 must be 0"),
    "an offset beyond the ids": ([0, 1], [0, 3], "offsets[1] = 3 is out of range [0, 3)"),
    "offsets that decrease": ([0, 1, 2], [0, 2, 1], "offsets[2] = 1 is less than offsets[1] = 2"),
    "a negative offset": ([0, 1], [0, -1], "offsets[1] = -1 must be >= 0"),
}


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_what_torch_refuses_is_refused(mode: str) -> None:
    class Bags(torch.nn.Module):
        def forward(self, ids: Any, offsets: Any) -> Any:
            return F.embedding_bag(ids, TABLES["f32"], offsets, mode=mode)

    dims = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    session = onnx_sparse.InferenceSession(export(Bags(), batch([2, 3])[:2], dynamic_shapes=dims))
    for ids, offsets, message in WRONG.values():
        with pytest.raises(onnx_sparse.KernelError, match=re.escape(message)):
            session.run(None, {"ids": np.array(ids), "offsets": np.array(offsets)})


def test_results_for_the_gradient_are_refused() -> None:
    class Bags(torch.nn.Module):
        def forward(self, ids: Any, offsets: Any) -> Any:
            return torch.ops.aten.embedding_bag(TABLES["f32"], ids, offsets)[:2]

    with pytest.raises(ConversionError, match=r"embedding_bag.*only its first result"):
        export(Bags(), batch([2, 3])[:2])
