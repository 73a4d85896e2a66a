"""Verification against torch: inputs that fit the program, and its four verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import conversion, convert, export, load, verify  # noqa: E402
from onnx_sparse.converters.torch.road import ROAD  # noqa: E402

F = torch.nn.functional
MANY = torch.export.Dim.DYNAMIC


def program(call: Callable[..., Any], *args: Any, dynamic: Any) -> Any:
    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return call(*given)

    return torch.export.export(Module(), args, dynamic_shapes=(tuple(dynamic),))


TABLE = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def bags() -> Any:
    def call(ids: Any, offsets: Any, weights: Any, other: Any) -> Any:
        sums = F.embedding_bag(ids, TABLE, offsets, mode="sum", per_sample_weights=weights)
        return sums, F.embedding_bag(other, TABLE[:9], mode="max")

    args = torch.tensor([3, 1]), torch.tensor([0, 1]), torch.randn(2), torch.tensor([[1, 2], [3, 4], [5, 6]])
    return program(call, *args, dynamic=[{0: MANY}] * 4)


def test_bags(bags) -> None:
    records = verify(bags, convert(bags))
    assert [(record.verdict, record.batches) for record in records] == [("ok", 3), ("ok", 3)]


def test_sizes_and_ids_of_a_graph() -> None:
    """Edges index nodes, whose number another input has; the features of both have one size."""

    def call(nodes: Any, edges: Any, weights: Any) -> Any:
        return torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]] * weights[:, None])

    args = torch.randn(4, 2), torch.tensor([[0, 1, 3], [1, 1, 2]]), torch.randn(3)
    graph = program(call, *args, dynamic=[{0: MANY}, {1: MANY}, {0: MANY}])
    (record,) = verify(graph, convert(graph), batch_count=2)
    assert (record.verdict, record.batches) == ("ok", 2), record


def test_edges_that_are_no_coordinates() -> None:
    """Weights of self loops are placed by a row of the edges [2, E], as PyTorch Geometric does before it normalizes."""

    def call(nodes: Any, edges: Any, weights: Any) -> Any:
        loops = edges[0] == edges[1]
        own = weights.new_full((nodes.shape[0],), 1.0)
        own[edges[0][loops]] = weights[loops]
        return nodes * own[:, None]

    args = torch.randn(4, 2), torch.tensor([[0, 1, 3], [1, 1, 2]]), torch.randn(3)
    graph = program(call, *args, dynamic=[{0: MANY}, {1: MANY}, {0: MANY}])
    (record,) = verify(graph, convert(graph))
    assert record.verdict == "ok", record
    assert record.batches >= 3


def test_lengths_and_offsets() -> None:
    def call(rows: Any, lengths: Any, offsets: Any) -> Any:
        return torch.segment_reduce(rows, "max", lengths=lengths), torch.segment_reduce(rows, "sum", offsets=offsets)

    args = torch.randn(5, 2), torch.tensor([2, 0, 3]), torch.tensor([0, 1, 1, 5])
    segments = program(call, *args, dynamic=[{0: MANY}] * 3)
    records = verify(segments, convert(segments), batch_count=2)
    assert [record.verdict for record in records] == ["ok", "ok"], records


def test_a_wrong_model_differs(bags) -> None:
    model = convert(bags)
    (table,) = (t for t in model.graph.initializer if list(t.dims) == [50, 3])
    table.CopyFrom(onnx.numpy_helper.from_array(TABLE.numpy() + 1, table.name))
    sums, most = verify(bags, model)
    assert (sums.verdict, most.verdict) == ("differs", "ok")


def test_given_inputs(bags) -> None:
    feeds = {"given_0": [1, 2], "given_1": [0], "given_2": np.float32([1, 2]), "given_3": [[1, 2]]}
    names = [value.name for value in convert(bags).graph.input]
    given = {name: np.asarray(value) for name, value in zip(names, feeds.values(), strict=True)}
    assert [record.verdict for record in verify(bags, convert(bags), feeds=given)] == ["ok", "ok"]
    given[names[0]] = np.array([1, 99])
    assert [record.verdict for record in verify(bags, convert(bags), feeds=given)] == ["refused", "refused"]


class OneMore(torch.nn.EmbeddingBag):
    def forward(self, ids: Any, offsets: Any) -> Any:
        return super().forward(ids, offsets) + 1


def test_export_writes_only_what_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, other = (kind(5, 2, mode="sum") for kind in (torch.nn.EmbeddingBag, OneMore))
    example = torch.tensor([1, 2]), torch.tensor([0, 1])
    dims = ({0: MANY}, {0: MANY})
    export(right, example, tmp_path / "right.onnx", dynamic_shapes=dims, verify=True)
    wrong = export(other, example, dynamic_shapes=dims)
    monkeypatch.setattr(type(ROAD), "convert", lambda *given, **options: wrong)
    with pytest.raises(ConversionError, match="verification fails"):
        export(right, example, tmp_path / "wrong.onnx", dynamic_shapes=dims, verify=True)
    assert [path.name for path in tmp_path.iterdir()] == ["right.onnx"]


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"no zip")
    for source, words in ((path, "cannot be read"), (tmp_path / "missing.pt2", "cannot be read"), (3, "type int")):
        with pytest.raises(ConversionError, match=words):
            load(source)


def test_what_torch_cannot_export_is_refused() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(ConversionError, match=r"torch\.export cannot export Branches"):
        export(Branches(), (torch.randn(2),))


def test_all_operators_without_translation_are_named() -> None:
    class Unknown(torch.nn.Module):
        def forward(self, x: Any, ids: Any) -> Any:
            counted = torch.zeros(3, dtype=torch.bool).scatter_reduce(0, ids, ids > 0, "mean")
            return torch.linalg.qr(x)[0] + torch.linalg.qr(x + 1)[1], torch.geqrf(x)[1], counted

    with pytest.raises(ConversionError, match="3 nodes cannot be converted") as caught:
        export(Unknown(), (torch.randn(2, 2), torch.tensor([0, 1])))
    failed = [(node.op_type, node.reason) for node in caught.value.unsupported]
    assert [op_type for op_type, _ in failed] == [
        "aten.scatter_reduce.two",
        "aten.linalg_qr.default",
        "aten.geqrf.default",
    ]
    assert "is bool" in failed[0][1]
    assert "neither onnx_sparse nor torch's exporter" in failed[1][1]


class TestBatchOnTheSecondAxis:
    """torch's recurrent layers take [steps, rows, features] unless told otherwise."""

    @pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
    @pytest.mark.parametrize("batch_first", [False, True])
    def test_layers_of_no_rows(self, kind, batch_first):
        layer = getattr(torch.nn, kind)(4, 5, batch_first=batch_first).eval()
        rows = 0 if batch_first else 1
        shape = (2, 3, 4) if batch_first else (3, 2, 4)
        model = export(layer, (torch.randn(shape),), dynamic_shapes=({rows: MANY},), verify=True)
        empty = [0 if axis == rows else size for axis, size in enumerate(shape)]
        (output, *_) = InferenceSession(model).run(None, {model.graph.input[0].name: np.zeros(empty, np.float32)})
        assert output.shape == (*empty[:2], 5)

    def test_what_ends_the_process_is_found(self, monkeypatch):
        """Without its guard, the model of an LSTM ends the process on a batch of no rows."""
        unguarded = [step for step in conversion.passes() if step.name != "guard"]
        monkeypatch.setattr(conversion, "passes", lambda **_: unguarded)
        lstm, example, shapes = torch.nn.LSTM(4, 5).eval(), (torch.randn(3, 2, 4),), ({1: MANY},)
        with pytest.raises(ConversionError, match="ends on the batch 'ordinary, dimension 1 of"):
            export(lstm, example, dynamic_shapes=shapes, verify=True, run=False)
        with pytest.raises(ConversionError, match=r"the example with input.shape\[1\] = 0: the process ends by SIG"):
            export(lstm, example, dynamic_shapes=shapes)


@pytest.mark.parametrize("features", [2, 3])
def test_lengths_of_bags_of_several_features(features: int) -> None:
    """As torchrec has them: feature by feature, in one vector, which adds up to the number of ids."""

    def call(ids: Any, lengths: Any) -> Any:
        by_feature = lengths.view(features, -1)
        sizes = [size.item() for size in by_feature.sum(1).unbind()]
        parts = torch.split_with_sizes(ids, sizes)
        ends = F.pad(by_feature.cumsum(1), (1, 0)).unbind()
        pairs = zip(parts, ends, strict=True)
        return torch.cat([F.embedding_bag(ids, TABLE, end, include_last_offset=True) for ids, end in pairs], 1)

    args = torch.tensor([3, 1, 4, 1]), torch.tensor([2, 0, 1, 1, 0, 0])
    bags = program(call, *args, dynamic=[{0: MANY}] * 2)
    (record,) = verify(bags, convert(bags))
    assert record.ok, record
    assert record.batches >= 3
