"""Layers, pooling and functions of PyTorch Geometric, against torch; also without edges."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
nn = pytest.importorskip("torch_geometric.nn")

from torch_geometric.utils import degree, scatter, segment, softmax  # noqa: E402

WIDTH = 4
MANY = torch.export.Dim.DYNAMIC


def perceptron(width: int = WIDTH) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(width, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))


LAYERS = {
    "GCN": lambda: nn.GCNConv(WIDTH, WIDTH),
    "GCN, bare": lambda: nn.GCNConv(WIDTH, WIDTH, add_self_loops=False, normalize=False),
    "GAT": lambda: nn.GATConv(WIDTH, WIDTH, heads=2, add_self_loops=False),
    "GAT with self loops": lambda: nn.GATConv(WIDTH, WIDTH, heads=2),
    "GATv2": lambda: nn.GATv2Conv(WIDTH, WIDTH, heads=2, add_self_loops=False),
    "GATv2 with self loops": lambda: nn.GATv2Conv(WIDTH, WIDTH, heads=2),
    "SAGE mean": lambda: nn.SAGEConv(WIDTH, WIDTH),
    "SAGE max": lambda: nn.SAGEConv(WIDTH, WIDTH, aggr="max"),
    "SAGE normalized": lambda: nn.SAGEConv(WIDTH, WIDTH, normalize=True, project=True),
    "GIN": lambda: nn.GINConv(perceptron()),
    "Edge": lambda: nn.EdgeConv(perceptron(2 * WIDTH)),
    "Transformer": lambda: nn.TransformerConv(WIDTH, WIDTH, heads=2, beta=True),
    "Graph": lambda: nn.GraphConv(WIDTH, WIDTH),
    "SG": lambda: nn.SGConv(WIDTH, WIDTH, K=2),
    "TAG": lambda: nn.TAGConv(WIDTH, WIDTH, K=2),
    "ResGatedGraph": lambda: nn.ResGatedGraphConv(WIDTH, WIDTH),
    "GENConv": lambda: nn.GENConv(WIDTH, WIDTH),
    "Cheb": lambda: nn.ChebConv(WIDTH, WIDTH, K=2),
    "LEConv": lambda: nn.LEConv(WIDTH, WIDTH),
    "GatedGraph": lambda: nn.GatedGraphConv(WIDTH, 2),
    "PNA": lambda: nn.PNAConv(
        WIDTH, WIDTH, ["mean", "min", "max", "std"], ["identity", "amplification"], deg=torch.tensor([1, 3, 2])
    ),
}


def graph(nodes: int, edges: list[list[int]], parts: list[int]) -> Any:
    """Nodes, edges, and the part of the batch that each node belongs to, in order."""
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(nodes)), pairs, torch.tensor(parts)


GRAPHS = [
    graph(5, [[0, 1], [1, 0], [3, 1], [4, 4], [0, 1]], [0, 0, 1, 1, 1]),
    graph(3, [[0, 1], [0, 1]], [0, 1, 1]),
    graph(4, [], [0, 0, 0, 2]),
    graph(2, [[1, 1], [0, 0], [0, 1]], [1, 2]),
]
DYNAMIC = [{0: MANY}, {1: MANY}, {0: MANY}]


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers(agree, name: str) -> None:
    torch.manual_seed(0)
    first, second = LAYERS[name]().eval(), LAYERS[name]().eval()
    calls = {
        "one layer": lambda _, x, edges, parts: first(x, edges),
        "two layers": lambda _, x, edges, parts: second(first(x, edges).reshape(x.shape[0], -1)[:, :WIDTH], edges),
    }
    agree(calls, GRAPHS, dynamic=DYNAMIC)


@pytest.mark.slow
def test_one_graph_with_several_features(agree) -> None:
    """A dimension before that of the nodes."""
    torch.manual_seed(0)
    layers = {name: LAYERS[name]().eval() for name in ("GCN", "SAGE mean", "SAGE max", "GIN")}
    calls = {
        name: lambda _, x, edges, parts, layer=layer: layer(torch.stack([x, 2 * x]), edges)
        for name, layer in layers.items()
    }
    agree(calls, GRAPHS, dynamic=DYNAMIC)


def functions() -> dict[str, Any]:
    """Pooling, reductions and the like, of graphs [nodes, edges, parts] of which there are three."""
    pools = {"add": nn.global_add_pool, "mean": nn.global_mean_pool, "max": nn.global_max_pool}
    calls: dict[str, Any] = {
        f"global {kind} pool": lambda _, x, edges, parts, pool=pool: pool(x, parts, 3) for kind, pool in pools.items()
    }
    for kind in ("sum", "mean", "mul", "max", "min"):
        calls[f"scatter {kind}"] = lambda _, x, edges, parts, kind=kind: scatter(x, parts, 0, 3, reduce=kind)
        calls[f"scatter {kind} of columns"] = lambda _, x, edges, parts, kind=kind: scatter(
            x.t(), parts, 1, 3, reduce=kind
        )
        if kind != "mul":
            calls[f"segment {kind}"] = lambda _, x, edges, parts, kind=kind: segment(
                x, torch.nn.functional.pad(degree(parts, 3, torch.int64).cumsum(0), (1, 0)), reduce=kind
            )
    calls["softmax"] = lambda _, x, edges, parts: softmax(x, parts, num_nodes=3)
    calls["degree"] = lambda _, x, edges, parts: degree(edges[1], x.shape[0])
    return calls


@pytest.mark.slow
def test_pooling_and_functions(agree) -> None:
    agree(functions(), GRAPHS, dynamic=DYNAMIC)
