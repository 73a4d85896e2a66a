"""What PyTorch Geometric does with whole graphs: aggregations, pooling, normalization, functions and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from zoo.inputs import Batch, Dense, ids
from zoo.torch_modules.geometric_layers import ATTRIBUTES, ENVIRONMENT, PLACES, WEIGHTS, perceptron
from zoo.torch_sources import EDGES, GRAPHS, NODES, WIDTH, calling, module

Build = Callable[[Any], Any]

_COUNT = 3  # graphs in a batch: the last ones may have no nodes


def _sorted_edges(batch: Batch) -> Any:
    made = EDGES.parts(batch)[0]
    return made[:, np.argsort(made[1], kind="stable")]


_SORTED_EDGES = Dense("edges", ids("nodes"), (2, "edges"), made=_sorted_edges)
_ATOMS = Dense("atoms", ids(9, low=1), ("nodes",))

_AGGREGATIONS: dict[str, Build] = {
    "AttentionalAggregation": lambda nn: nn.AttentionalAggregation(perceptron(WIDTH, 1)),
    "DeepSetsAggregation": lambda nn: nn.DeepSetsAggregation(perceptron(WIDTH), perceptron(WIDTH)),
    "MaxAggregation": lambda nn: nn.MaxAggregation(),
    "MeanAggregation": lambda nn: nn.MeanAggregation(),
    "MedianAggregation": lambda nn: nn.MedianAggregation(),
    "MinAggregation": lambda nn: nn.MinAggregation(),
    "MulAggregation": lambda nn: nn.MulAggregation(),
    "MultiAggregation": lambda nn: nn.MultiAggregation(
        ["mean", "max", "var"], mode="proj", mode_kwargs={"in_channels": WIDTH, "out_channels": 4}
    ),
    "PowerMeanAggregation": lambda nn: nn.PowerMeanAggregation(learn=True),
    "QuantileAggregation": lambda nn: nn.QuantileAggregation([0.25, 0.75]),
    "Set2Set": lambda nn: nn.Set2Set(WIDTH, 2),
    "SoftmaxAggregation": lambda nn: nn.SoftmaxAggregation(learn=True),
    "StdAggregation": lambda nn: nn.StdAggregation(),
    "SumAggregation": lambda nn: nn.SumAggregation(),
    "VarAggregation": lambda nn: nn.VarAggregation(),
    "VariancePreservingAggregation": lambda nn: nn.VariancePreservingAggregation(),
}

#: Aggregations of graphs with at most so many nodes as dense tensors.
_DENSE: dict[str, Build] = {
    "EquilibriumAggregation": lambda nn: nn.EquilibriumAggregation(WIDTH, 4, [8], grad_iter=2),
    "GRUAggregation": lambda nn: nn.GRUAggregation(WIDTH, 4),
    "GraphMultisetTransformer": lambda nn: nn.GraphMultisetTransformer(WIDTH, k=2, heads=2),
    "LCMAggregation": lambda nn: nn.LCMAggregation(WIDTH, 4),
    "LSTMAggregation": lambda nn: nn.LSTMAggregation(WIDTH, 4),
    "MLPAggregation": lambda nn: nn.MLPAggregation(
        WIDTH, 4, max_num_elements=40, num_layers=2, hidden_channels=8, norm=None
    ),
    "SetTransformerAggregation": lambda nn: nn.SetTransformerAggregation(WIDTH, heads=2),
    "SortAggregation": lambda nn: nn.SortAggregation(k=3),
}

#: Pooling and functions of nodes, edges and graphs.
_FUNCTIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "coalesce": lambda u, x, edges, graphs: u.coalesce(edges, num_nodes=x.shape[0]),
    "contains_self_loops": lambda u, x, edges, graphs: (edges[0] == edges[1]).any(),
    "degree": lambda u, x, edges, graphs: u.degree(edges[0], x.shape[0]),
    "get_laplacian": lambda u, x, edges, graphs: u.get_laplacian(edges, normalization="sym", num_nodes=x.shape[0]),
    "global_add_pool": lambda u, x, edges, graphs: u.pool.global_add_pool(x, graphs),
    "global_max_pool": lambda u, x, edges, graphs: u.pool.global_max_pool(x, graphs),
    "global_mean_pool": lambda u, x, edges, graphs: u.pool.global_mean_pool(x, graphs),
    "global_mean_pool of known size": lambda u, x, edges, graphs: u.pool.global_mean_pool(x, graphs, _COUNT),
    "group_argsort": lambda u, x, edges, graphs: u.group_argsort(x[:, 0], graphs, num_groups=_COUNT, stable=True),
    "one_hot": lambda u, x, edges, graphs: u.one_hot(graphs, _COUNT),
    "remove_self_loops": lambda u, x, edges, graphs: u.remove_self_loops(edges)[0],
    "scatter": lambda u, x, edges, graphs: tuple(
        u.scatter(x[edges[0]], edges[1], 0, x.shape[0], kind) for kind in ("sum", "mean", "max", "min", "mul")
    ),
    "scatter of graphs in any order": lambda u, x, edges, graphs: u.scatter(x, graphs.flip(0), 0, _COUNT, "mean"),
    "softmax": lambda u, x, edges, graphs: u.softmax(x[edges[0]], edges[1], num_nodes=x.shape[0]),
    "subgraph": lambda u, x, edges, graphs: u.subgraph(graphs == 0, edges, num_nodes=x.shape[0])[0],
    "to_dense_adj": lambda u, x, edges, graphs: u.to_dense_adj(edges, graphs, batch_size=_COUNT, max_num_nodes=40),
    "to_dense_batch": lambda u, x, edges, graphs: u.to_dense_batch(x, graphs),
    "to_dense_batch of known size": lambda u, x, edges, graphs: u.to_dense_batch(x, graphs, 0.0, 40, _COUNT),
    "to_undirected": lambda u, x, edges, graphs: u.to_undirected(edges, num_nodes=x.shape[0]),
    "unbatched degrees": lambda u, x, edges, graphs: u.degree(graphs, _COUNT, dtype=edges.dtype),
}

#: Pooling that chooses nodes or clusters.
_CHOOSING: dict[str, Build] = {
    "ASAPooling": lambda nn: nn.ASAPooling(WIDTH, ratio=0.5),
    "EdgePooling": lambda nn: nn.EdgePooling(WIDTH),
    "MemPooling": lambda nn: nn.MemPooling(WIDTH, 4, heads=2, num_clusters=2),
    "SAGPooling": lambda nn: nn.SAGPooling(WIDTH, ratio=0.5),
    "TopKPooling": lambda nn: nn.TopKPooling(WIDTH, ratio=0.5),
    "TopKPooling by score": lambda nn: nn.TopKPooling(WIDTH, min_score=0.1),
}

_NORMS: dict[str, Build] = {
    "BatchNorm": lambda nn: nn.BatchNorm(WIDTH),
    "DiffGroupNorm": lambda nn: nn.DiffGroupNorm(WIDTH, 3),
    "GraphNorm": lambda nn: nn.GraphNorm(WIDTH),
    "GraphSizeNorm": lambda nn: nn.GraphSizeNorm(),
    "InstanceNorm": lambda nn: nn.InstanceNorm(WIDTH),
    "LayerNorm": lambda nn: nn.LayerNorm(WIDTH),
    "MeanSubtractionNorm": lambda nn: nn.MeanSubtractionNorm(),
    "PairNorm": lambda nn: nn.PairNorm(),
}

_MODELS: dict[str, Build] = {
    "EdgeCNN": lambda nn: nn.EdgeCNN(WIDTH, 8, 2, 4),
    "GAT": lambda nn: nn.GAT(WIDTH, 8, 2, 4, heads=2),
    "GCN": lambda nn: nn.GCN(WIDTH, 8, 2, 4, norm="batch", jk="cat"),
    "GIN": lambda nn: nn.GIN(WIDTH, 8, 2, 4, jk="max"),
    "GraphSAGE": lambda nn: nn.GraphSAGE(WIDTH, 8, 3, 4, jk="lstm"),
    "GraphUNet": lambda nn: nn.GraphUNet(WIDTH, 8, 4, 2, pool_ratios=0.5),
    "PMLP": lambda nn: nn.PMLP(WIDTH, 8, 4, 2, norm=False),
}


def _in_torch_geometric(build: Build) -> Any:
    import torch_geometric.nn as nn

    return build(nn)


def _of_graphs(build: Build) -> Any:
    return calling(_in_torch_geometric(build), lambda part, x, graphs: part(x, graphs, dim_size=_COUNT))


def _function(call: Callable[..., Any]) -> Any:
    import torch
    import torch_geometric.nn
    import torch_geometric.utils as u

    u.pool = torch_geometric.nn.pool
    return calling(torch.nn.Identity(), lambda _, x, edges, graphs: call(u, x, edges, graphs))


def _choosing(build: Build) -> Any:
    def call(part: Any, x: Any, edges: Any, graphs: Any) -> Any:
        made = part(x, edges, None, graphs) if type(part).__name__ in ("SAGPooling", "TopKPooling") else None
        if made is None:
            made = part(x, graphs) if type(part).__name__ == "MemPooling" else part(x, edges, batch=graphs)
        return [value for value in made if hasattr(value, "dtype")]

    return calling(_in_torch_geometric(build), call)


def _norm(build: Build) -> Any:
    import inspect

    part = _in_torch_geometric(build)
    if "batch" in inspect.signature(part.forward).parameters:
        return calling(part, lambda part, x, graphs: part(x, graphs))
    return calling(part, lambda part, x, graphs: part(x))


for _name, _build in {**_AGGREGATIONS, **_DENSE}.items():
    module(f"pyg/{_name}", lambda b=_build: _of_graphs(b), NODES, GRAPHS, environment=ENVIRONMENT)
for _name, _call in _FUNCTIONS.items():
    module(f"pyg/{_name}", lambda c=_call: _function(c), NODES, EDGES, GRAPHS, environment=ENVIRONMENT)
for _name, _build in _CHOOSING.items():
    module(f"pyg/{_name}", lambda b=_build: _choosing(b), NODES, EDGES, GRAPHS, environment=ENVIRONMENT)
for _name, _build in _NORMS.items():
    module(f"pyg/{_name}", lambda b=_build: _norm(b), NODES, GRAPHS, environment=ENVIRONMENT)
for _name, _build in _MODELS.items():
    module(
        f"pyg/model {_name}",
        lambda b=_build: calling(_in_torch_geometric(b), lambda part, x, edges: part(x, edges)),
        NODES,
        EDGES,
        environment=ENVIRONMENT,
    )

module(
    "pyg/SAGEConv lstm",
    lambda: _in_torch_geometric(lambda nn: nn.SAGEConv(WIDTH, 4, aggr="lstm")),
    NODES,
    _SORTED_EDGES,
    environment=ENVIRONMENT,
)
module(
    "pyg/model AttentiveFP",
    lambda: calling(
        _in_torch_geometric(lambda nn: nn.AttentiveFP(WIDTH, 8, 4, 3, 2, 2)),
        lambda part, x, edges, attributes, graphs: part(x, edges, attributes, graphs),
    ),
    NODES,
    EDGES,
    ATTRIBUTES,
    GRAPHS,
    environment=ENVIRONMENT,
)
module(
    "pyg/model LightGCN",
    lambda: calling(
        _in_torch_geometric(lambda nn: nn.LightGCN(40, 8, 2)), lambda part, edges, weights: part(edges, edges, weights)
    ),
    Dense("edges", ids(40), (2, "edges")),
    WEIGHTS,
    environment=ENVIRONMENT,
)
module(
    "pyg/model NeuralFingerprint",
    lambda: calling(
        _in_torch_geometric(lambda nn: nn.NeuralFingerprint(WIDTH, 8, 4, 2)),
        lambda part, x, edges, graphs: part(x, edges, graphs, _COUNT),
    ),
    NODES,
    EDGES,
    GRAPHS,
    environment=ENVIRONMENT,
)


def _schnet() -> Any:
    """SchNet with given pairs of atoms, as torch-cluster is no part of the environment."""
    import torch
    from torch_geometric.nn import SchNet

    class Pairs(torch.nn.Module):
        def forward(self, places: Any, graphs: Any) -> Any:
            distances = torch.cdist(places, places)
            near = (distances < 3) & (graphs[:, None] == graphs) & (distances > 0)
            rows, columns = near.nonzero(as_tuple=True)
            return torch.stack([rows, columns]), distances[rows, columns]

    made = SchNet(16, 16, 2, 8, cutoff=3.0, interaction_graph=Pairs())
    return calling(made, lambda part, atoms, places, graphs: part(atoms, places, graphs))


module("pyg/model SchNet", _schnet, _ATOMS, PLACES, GRAPHS, environment=ENVIRONMENT)


def _neighbors(count: int) -> Any:
    import torch

    def call(_: Any, places: Any) -> Any:
        """The graph of the nearest neighbors, without torch-cluster."""
        distances = torch.cdist(places, places)
        nearest = distances.topk(count + 1, largest=False).indices[:, 1:]
        targets = torch.arange(places.shape[0]).view(-1, 1).expand_as(nearest)
        return torch.stack([nearest.reshape(-1), targets.reshape(-1)])

    return calling(torch.nn.Identity(), call)


module("pyg/nearest neighbors", lambda: _neighbors(3), PLACES, environment=ENVIRONMENT, nodes=4)
module(
    "pyg/InnerProductDecoder",
    lambda: calling(_in_torch_geometric(lambda nn: nn.InnerProductDecoder()), lambda part, x, edges: part(x, edges)),
    NODES,
    EDGES,
    environment=ENVIRONMENT,
)
module(
    "pyg/graphs of the highest scores",
    lambda: _function(lambda u, x, edges, graphs: u.scatter(x, graphs, 0, _COUNT, "max").topk(2, 0)),
    NODES,
    EDGES,
    Dense("graphs", ids(_COUNT), ("nodes",)),
    environment=ENVIRONMENT,
)
