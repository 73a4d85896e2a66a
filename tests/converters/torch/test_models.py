"""Whole models as their frameworks write them: graph networks, pooling, a recommender; also without edges or ids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import convert, export, verify  # noqa: E402

WIDTH = 4
MANY = torch.export.Dim.DYNAMIC


def scatter(messages: Any, target: Any, size: int, kind: str) -> Any:
    """As PyTorch Geometric reduces messages."""
    index = target.view([-1] + [1] * (messages.dim() - 1)).expand_as(messages)
    shape = (size, *messages.shape[1:])
    if kind == "sum":
        return messages.new_zeros(shape).scatter_add_(0, index, messages)
    if kind == "counted mean":
        counts = messages.new_zeros(size).scatter_add_(0, target, messages.new_ones(target.shape[0])).clamp(min=1)
        return messages.new_zeros(shape).scatter_add_(0, index, messages) / counts.view(-1, *[1] * (messages.dim() - 1))
    return messages.new_zeros(shape).scatter_reduce_(0, index, messages, kind, include_self=False)


def softmax(score: Any, target: Any, size: int) -> Any:
    index = target.view(-1, 1).expand_as(score)
    largest = score.new_full((size, *score.shape[1:]), -math.inf).scatter_reduce(0, index, score, "amax")
    weight = (score - largest.index_select(0, target)).exp()
    return weight / (scatter(weight, target, size, "sum").index_select(0, target) + 1e-16)


class Layer(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.own, self.other = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.edge, self.score = torch.nn.Linear(2 * WIDTH, WIDTH), torch.nn.Linear(WIDTH // 2, 1)

    def forward(self, x: Any, edges: Any) -> Any:
        source, target, size = edges[0], edges[1], x.shape[0]
        if self.kind == "gcn":
            degree = torch.zeros(size).scatter_add(0, target, torch.ones(target.shape[0])) + 1
            norm = degree.pow(-0.5)
            messages = self.other(x).index_select(0, source) * (norm[source] * norm[target]).view(-1, 1)
            return scatter(messages, target, size, "sum") + self.own(x) / degree.view(-1, 1)
        if self.kind == "gat":  # two heads
            values = self.other(x).view(-1, 2, WIDTH // 2)
            scores = torch.nn.functional.leaky_relu(self.score(values).squeeze(-1), 0.2)
            weight = softmax(scores.index_select(0, source) + scores.index_select(0, target), target, size)
            messages = values.index_select(0, source) * weight.unsqueeze(-1)
            return scatter(messages, target, size, "sum").reshape(-1, WIDTH)
        if self.kind == "edges":
            own = x.index_select(0, target)
            messages = self.edge(torch.cat([own, x.index_select(0, source) - own], 1)).relu()
            return scatter(messages, target, size, "amax")
        kind = {"gin": "sum", "sage mean": "counted mean", "sage max": "amax"}.get(self.kind, "mean")
        return self.own(x) + self.other(scatter(x.index_select(0, source), target, size, kind))


LAYERS = ("gcn", "gat", "gin", "sage mean", "sage max", "mean", "edges")


def graph(nodes: int, edges: list[list[int]], parts: list[int]) -> Any:
    """Nodes, edges, and the part of the batch that each node belongs to."""
    torch.manual_seed(nodes)
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return torch.randn(nodes, WIDTH), pairs, torch.tensor(parts)


GRAPHS = [
    graph(5, [[0, 1], [1, 0], [3, 1], [4, 4], [0, 1]], [0, 0, 1, 1, 1]),
    graph(3, [[0, 1], [0, 1]], [0, 1, 1]),
    graph(4, [], [0, 0, 0, 2]),
    graph(2, [[1, 1], [0, 0], [0, 1]], [1, 2]),
]


@pytest.mark.slow
def test_graph_networks(agree) -> None:
    """One layer of each kind, two of one, and the pooling of nodes of several graphs."""
    torch.manual_seed(0)
    layers = {kind: Layer(kind).eval() for kind in LAYERS}
    calls: dict[str, Any] = {kind: lambda _, x, edges, parts, k=kind: layers[k](x, edges) for kind in LAYERS}
    calls["two layers"] = lambda _, x, edges, parts: layers["gat"](layers["gcn"](x, edges).relu(), edges)
    for kind in ("sum", "mean", "amax"):
        calls[f"pooling {kind}"] = lambda _, x, edges, parts, k=kind: scatter(x, parts, 3, k)
    model = agree(calls, GRAPHS, dynamic=[{0: MANY}, {1: MANY}, {0: MANY}])
    kinds = [node.op_type for node in model.graph.node if node.op_type.startswith(("Unsorted", "Scatter", "Loop"))]
    assert {kind.removeprefix("UnsortedSegment") for kind in kinds} == {"Sum", "Max", "Mean"}


class Recommender(torch.nn.Module):
    """A table for each feature, whose bags interact with each other and with dense features."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(rows, WIDTH, mode="sum") for rows in (5, 40, 9))
        self.dense = torch.nn.Linear(3, WIDTH)
        self.top = torch.nn.Linear(WIDTH + 6, 1)

    def forward(self, dense: Any, ids: list[Any], offsets: list[Any]) -> Any:
        bags = [table(i, o) for table, i, o in zip(self.tables, ids, offsets, strict=True)]
        every = torch.stack([self.dense(dense), *bags], 1)
        products = torch.bmm(every, every.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([every[:, 0], products[:, rows, columns]], 1)).sigmoid()


@pytest.mark.slow
def test_a_recommender() -> None:
    many = {0: MANY}
    example = torch.randn(2, 3), [torch.tensor([1, 2, 3])] * 3, [torch.tensor([0, 2])] * 3
    program = torch.export.export(Recommender().eval(), example, dynamic_shapes=(many, [many] * 3, [many] * 3))
    model = convert(program)
    assert sum(node.op_type == "EmbeddingBagOffsetsSum" for node in model.graph.node) == 3
    (record,) = verify(program, model, batch_count=3)
    assert (record.verdict, record.batches) == ("ok", 2), record


@pytest.mark.slow
def test_a_layer_is_verified() -> None:
    export(Layer("gat").eval(), GRAPHS[0][:2], dynamic_shapes=({0: MANY}, {1: MANY}), verify=True)


@pytest.mark.slow
def test_an_encoder_of_no_rows(agree) -> None:
    """torch's encoder takes them in the fast path, which is not the one that is exported."""
    layer = torch.nn.TransformerEncoderLayer(2 * WIDTH, 2, WIDTH, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    for parameter in encoder.parameters():
        parameter.requires_grad_(False)
    calls = {"masked": lambda _, x, mask: encoder(x, src_key_padding_mask=mask)}
    batches = [(torch.randn(rows, 3, 2 * WIDTH), torch.tensor([[False, False, True]] * rows)) for rows in (2, 1)]
    none = torch.zeros(0, 3, 2 * WIDTH), torch.zeros(0, 3, dtype=torch.bool)
    agree(calls, [*batches, none], dynamic=[{0: MANY, 1: MANY}] * 2)


@pytest.mark.slow
def test_reductions_of_no_rows(agree) -> None:
    """Along axes counted from either end: ONNX Runtime takes those from the back for none if there are no rows."""
    calls: dict[str, Any] = {}
    for name in ("sum", "mean", "amax", "prod", "logsumexp", "argmax"):
        for axis in (-1, -2, 1):
            for keep in (False, True):
                calls[f"{name} along {axis}, {'kept' if keep else 'dropped'}"] = lambda _, x, n=name, a=axis, k=keep: (
                    getattr(x, n)(a, keepdim=k)
                )
    agree(calls, [(torch.randn(rows, 3, 4),) for rows in (2, 0)], dynamic=[{0: MANY}])


class Interactions(torch.nn.Module):
    """Products of looked-up features, of which each has a column of ids."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.tables = torch.nn.ModuleList([torch.nn.Embedding(9, WIDTH) for _ in range(3)])

    def forward(self, ids: Any) -> Any:
        stacked = torch.stack([table(ids[:, k]) for k, table in enumerate(self.tables)], self.axis)
        return stacked @ stacked.transpose(1, 2)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stacked_features_are_joined_and_reshaped_once(axis: int) -> None:
    """Along the last axis they cannot be, and along the first one not without their number."""
    ids = torch.tensor([[1, 2, 3], [8, 0, 4], [5, 5, 5]])
    module = Interactions(axis).eval()
    model = export(module, (ids,), dynamic_shapes={"ids": {0: MANY}})
    assert ("Unsqueeze" in [node.op_type for node in model.graph.node]) == (axis != 1)
    session = onnx_sparse.InferenceSession(model)
    for count in (0, 1, 3):
        (got,) = session.run(None, {"ids": ids[:count].numpy()})
        want = module(ids[:count]).detach().numpy()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
