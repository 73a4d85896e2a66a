"""Convolutions of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import EDGES, GRAPHS, NODES, WIDTH, calling, module

ENVIRONMENT = "torch-packages"

WEIGHTS = Dense("weights", floats(scale=0.5), ("edges",))
ATTRIBUTES = Dense("attributes", floats(), ("edges", 3))
KINDS_OF_EDGES = Dense("kinds", ids(3), ("edges",))
KINDS_OF_NODES = Dense("kinds of nodes", ids(2), ("nodes",))
PLACES = Dense("places", floats(), ("nodes", 3))
NORMALS = Dense("normals", floats(), ("nodes", 3))
FIRST = Dense("first", floats(), ("nodes", WIDTH))
OTHER_EDGES = Dense("other edges", ids("nodes"), (2, "edges"))
COLORS = Dense("colors", ids(4), ("nodes",))
HYPEREDGES = Dense("hyperedges", ids("nodes"), (2, "edges"))


def perceptron(width: int, made: int = WIDTH) -> Any:
    """A perceptron with one hidden layer."""
    from torch.nn import Linear, ReLU, Sequential

    return Sequential(Linear(width, WIDTH), ReLU(), Linear(WIDTH, made))


Build = Callable[[Any], Any]

#: Layers of nodes and edges.
_PLAIN: dict[str, Build] = {
    "AGNNConv": lambda nn: nn.AGNNConv(),
    "AntiSymmetricConv": lambda nn: calling(nn.AntiSymmetricConv(WIDTH), lambda layer, x, edges: layer(x, edges)),
    "APPNP": lambda nn: nn.APPNP(3, 0.1),
    "ARMAConv": lambda nn: nn.ARMAConv(WIDTH, 4, num_stacks=2, num_layers=2),
    "ChebConv": lambda nn: nn.ChebConv(WIDTH, 4, K=3),
    "ClusterGCNConv": lambda nn: nn.ClusterGCNConv(WIDTH, 4),
    "DirGNNConv": lambda nn: nn.DirGNNConv(nn.SAGEConv(WIDTH, 4)),
    "EGConv": lambda nn: nn.EGConv(WIDTH, 8, aggregators=["sum", "mean", "symnorm", "max", "var"]),
    "EdgeConv": lambda nn: nn.EdgeConv(perceptron(2 * WIDTH)),
    "FeaStConv": lambda nn: nn.FeaStConv(WIDTH, 4, heads=2),
    "FiLMConv": lambda nn: nn.FiLMConv(WIDTH, 4),
    "GATConv": lambda nn: nn.GATConv(WIDTH, 4, heads=2),
    "GATConv without self loops": lambda nn: nn.GATConv(WIDTH, 4, heads=2, add_self_loops=False),
    "GATv2Conv": lambda nn: nn.GATv2Conv(WIDTH, 4, heads=2),
    "GATv2Conv without self loops": lambda nn: nn.GATv2Conv(WIDTH, 4, add_self_loops=False),
    "GCNConv": lambda nn: nn.GCNConv(WIDTH, 4),
    "GENConv": lambda nn: nn.GENConv(WIDTH, 4),
    "GENConv powermean": lambda nn: nn.GENConv(WIDTH, 4, aggr="powermean"),
    "GINConv": lambda nn: nn.GINConv(perceptron(WIDTH)),
    "GatedGraphConv": lambda nn: nn.GatedGraphConv(WIDTH, 2),
    "GeneralConv": lambda nn: nn.GeneralConv(WIDTH, 4, heads=2, attention=True),
    "GraphConv": lambda nn: nn.GraphConv(WIDTH, 4),
    "GraphConv max": lambda nn: nn.GraphConv(WIDTH, 4, aggr="max"),
    "LEConv": lambda nn: nn.LEConv(WIDTH, 4),
    "LGConv": lambda nn: nn.LGConv(),
    "MFConv": lambda nn: nn.MFConv(WIDTH, 4, max_degree=3),
    "MixHopConv": lambda nn: nn.MixHopConv(WIDTH, 4, powers=[0, 1, 2]),
    "ResGatedGraphConv": lambda nn: nn.ResGatedGraphConv(WIDTH, 4),
    "SAGEConv": lambda nn: nn.SAGEConv(WIDTH, 4),
    "SAGEConv max, projected": lambda nn: nn.SAGEConv(WIDTH, 4, aggr="max", project=True, normalize=True),
    "SAGEConv median": lambda nn: nn.SAGEConv(WIDTH, 4, aggr="median"),
    "SAGEConv several": lambda nn: nn.SAGEConv(WIDTH, 4, aggr=["mean", "max", "std"]),
    "SAGEConv softmax": lambda nn: nn.SAGEConv(WIDTH, 4, aggr="softmax"),
    "SGConv": lambda nn: nn.SGConv(WIDTH, 4, K=2),
    "SSGConv": lambda nn: nn.SSGConv(WIDTH, 4, alpha=0.1, K=2),
    "SimpleConv mul": lambda nn: nn.SimpleConv(aggr="mul"),
    "SimpleConv": lambda nn: nn.SimpleConv(combine_root="cat"),
    "SuperGATConv": lambda nn: nn.SuperGATConv(WIDTH, 4, heads=2),
    "TAGConv": lambda nn: nn.TAGConv(WIDTH, 4, K=2),
    "TransformerConv": lambda nn: nn.TransformerConv(WIDTH, 4, heads=2, beta=True),
    "WLConvContinuous": lambda nn: nn.WLConvContinuous(),
}

#: Layers of nodes, edges and what these have.
_WITH_EDGES: dict[str, tuple[Build, Dense]] = {
    "APPNP weighted": (lambda nn: nn.APPNP(2, 0.2), WEIGHTS),
    "CGConv": (lambda nn: nn.CGConv(WIDTH, dim=3), ATTRIBUTES),
    "ChebConv weighted": (lambda nn: nn.ChebConv(WIDTH, 4, K=2), WEIGHTS),
    "FastRGCNConv": (lambda nn: nn.FastRGCNConv(WIDTH, 4, 3, num_bases=2), KINDS_OF_EDGES),
    "FiLMConv of relations": (lambda nn: nn.FiLMConv(WIDTH, 4, num_relations=3), KINDS_OF_EDGES),
    "GATConv with edges": (lambda nn: nn.GATConv(WIDTH, 4, heads=2, edge_dim=3), ATTRIBUTES),
    "GATv2Conv with edges": (lambda nn: nn.GATv2Conv(WIDTH, 4, edge_dim=3, add_self_loops=False), ATTRIBUTES),
    "GCNConv weighted": (lambda nn: nn.GCNConv(WIDTH, 4), WEIGHTS),
    "GENConv with edges": (lambda nn: nn.GENConv(WIDTH, 4, edge_dim=3), ATTRIBUTES),
    "GINEConv": (lambda nn: nn.GINEConv(perceptron(WIDTH), edge_dim=3), ATTRIBUTES),
    "GMMConv": (lambda nn: nn.GMMConv(WIDTH, 4, dim=3, kernel_size=2), ATTRIBUTES),
    "GraphConv weighted": (lambda nn: nn.GraphConv(WIDTH, 4), WEIGHTS),
    "NNConv": (lambda nn: nn.NNConv(WIDTH, 4, perceptron(3, 4 * WIDTH)), ATTRIBUTES),
    "PDNConv": (lambda nn: nn.PDNConv(WIDTH, 4, edge_dim=3, hidden_channels=4), ATTRIBUTES),
    "RGATConv": (lambda nn: nn.RGATConv(WIDTH, 4, 3), KINDS_OF_EDGES),
    "RGCNConv": (lambda nn: nn.RGCNConv(WIDTH, 4, 3), KINDS_OF_EDGES),
    "RGCNConv of blocks": (lambda nn: nn.RGCNConv(WIDTH, 4, 3, num_blocks=2), KINDS_OF_EDGES),
    "ResGatedGraphConv with edges": (lambda nn: nn.ResGatedGraphConv(WIDTH, 4, edge_dim=3), ATTRIBUTES),
    "SignedConv": (lambda nn: nn.SignedConv(WIDTH, 4, first_aggr=True), OTHER_EDGES),
    "TransformerConv with edges": (lambda nn: nn.TransformerConv(WIDTH, 4, edge_dim=3), ATTRIBUTES),
}

#: Layers of nodes, where these are, and edges.
_WITH_PLACES: dict[str, Build] = {
    "PointGNNConv": lambda nn: nn.PointGNNConv(perceptron(WIDTH, 3), perceptron(WIDTH + 3), perceptron(WIDTH)),
    "PointNetConv": lambda nn: nn.PointNetConv(perceptron(WIDTH + 3)),
    "PointTransformerConv": lambda nn: nn.PointTransformerConv(WIDTH, 4),
}


def _made(build: Build) -> Callable[[], Any]:
    def made() -> Any:
        import torch_geometric.nn as nn

        return build(nn)

    return made


for _name, _build in _PLAIN.items():
    module(f"pyg/{_name}", _made(_build), NODES, EDGES, environment=ENVIRONMENT)
for _name, (_build, _edges) in _WITH_EDGES.items():
    module(f"pyg/{_name}", _made(_build), NODES, EDGES, _edges, environment=ENVIRONMENT)
for _name, _build in _WITH_PLACES.items():
    module(f"pyg/{_name}", _made(_build), NODES, PLACES, EDGES, environment=ENVIRONMENT)
for _name, _build in {
    "GCN2Conv": lambda nn: nn.GCN2Conv(WIDTH, alpha=0.1, theta=0.5, layer=1),
    "FAConv": lambda nn: nn.FAConv(WIDTH),
}.items():
    module(f"pyg/{_name}", _made(_build), NODES, FIRST, EDGES, environment=ENVIRONMENT)

module(
    "pyg/DNAConv",
    _made(lambda nn: nn.DNAConv(WIDTH, heads=2)),
    Dense("x", floats(), ("nodes", 3, WIDTH)),
    EDGES,
    environment=ENVIRONMENT,
)
module("pyg/WLConv", _made(lambda nn: nn.WLConv()), COLORS, EDGES, environment=ENVIRONMENT)
module(
    "pyg/HypergraphConv",
    _made(lambda nn: nn.HypergraphConv(WIDTH, 4)),
    NODES,
    HYPEREDGES,
    environment=ENVIRONMENT,
)
module(
    "pyg/PPFConv",
    _made(lambda nn: nn.PPFConv(perceptron(WIDTH + 4))),
    NODES,
    PLACES,
    NORMALS,
    EDGES,
    environment=ENVIRONMENT,
)
module(
    "pyg/HEATConv",
    _made(lambda nn: nn.HEATConv(WIDTH, 4, 2, 3, 5, 3, 4, heads=2)),
    NODES,
    EDGES,
    KINDS_OF_NODES,
    KINDS_OF_EDGES,
    ATTRIBUTES,
    environment=ENVIRONMENT,
)


@_made
def _gps(nn: Any) -> Any:
    layer = nn.GPSConv(WIDTH, nn.GINConv(perceptron(WIDTH)), heads=2)
    return calling(layer, lambda layer, x, edges, graphs: layer(x, edges, graphs))


module("pyg/GPSConv", _gps, NODES, EDGES, GRAPHS, environment=ENVIRONMENT)


@_made
def _principal(nn: Any) -> Any:
    import torch

    kinds = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation", "linear"]
    return nn.PNAConv(WIDTH, WIDTH, *kinds, deg=torch.tensor([1, 3, 2]), towers=2)


module("pyg/PNAConv", _principal, NODES, EDGES, environment=ENVIRONMENT)

_KINDS = (["user", "item"], [("user", "buys", "item"), ("item", "bought by", "user")])
_HETERO: dict[str, Build] = {
    "HGTConv": lambda nn: nn.HGTConv(WIDTH, 4, _KINDS, heads=2),
    "HANConv": lambda nn: nn.HANConv(WIDTH, 4, _KINDS, heads=2),
    "HeteroConv": lambda nn: nn.HeteroConv(
        {_KINDS[1][0]: nn.SAGEConv(WIDTH, 4), _KINDS[1][1]: nn.GATConv((WIDTH, WIDTH), 4, add_self_loops=False)}
    ),
}


def _hetero(build: Build) -> Any:
    import torch_geometric.nn as nn

    def call(layer: Any, x: Any, edges: Any, first: Any, other: Any) -> Any:
        made = layer({"user": x, "item": first}, {_KINDS[1][0]: edges, _KINDS[1][1]: other})
        return made["user"], made["item"]

    return calling(build(nn), call)


for _name, _build in _HETERO.items():
    module(f"pyg/{_name}", lambda b=_build: _hetero(b), NODES, EDGES, FIRST, OTHER_EDGES, environment=ENVIRONMENT)
