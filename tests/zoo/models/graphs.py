"""Layers of the packages for graph neural networks: spektral, tf-geometric and tensorflow-gnn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Adjacency, Dense, floats, ids
from zoo.registry import Built, model

NODES = Dense("x", floats(), ("nodes", 4))
EDGES = Dense("edges", ids("nodes", "int32"), (2, "edges"))
WEIGHTS = Dense("weights", floats(scale=0.5), ("edges",))
GRAPH_OF_NODE = Dense("graph", ids(3, "int32"), ("nodes",), ordered=True)

#: Layers of spektral on node features and a sparse adjacency matrix.
_SPEKTRAL: dict[str, Callable[[Any], Any]] = {
    "AGNNConv": lambda layers: layers.AGNNConv(),
    "APPNPConv": lambda layers: layers.APPNPConv(3),
    "ARMAConv": lambda layers: layers.ARMAConv(3, order=2, iterations=2, share_weights=True),
    "ChebConv": lambda layers: layers.ChebConv(3, K=2),
    "EdgeConv": lambda layers: layers.EdgeConv(3),
    "GATConv": lambda layers: layers.GATConv(3, attn_heads=2, dropout_rate=0.0),
    "GCNConv": lambda layers: layers.GCNConv(3, activation="relu"),
    "GCSConv": lambda layers: layers.GCSConv(3),
    "GINConv": lambda layers: layers.GINConv(3),
    "GatedGraphConv": lambda layers: layers.GatedGraphConv(5, 2),
    "GeneralConv": lambda layers: layers.GeneralConv(3),
    "GraphSageConv": lambda layers: layers.GraphSageConv(3, aggregate="mean"),
    "TAGConv": lambda layers: layers.TAGConv(3),
}


def _spektral(name: str) -> Built:
    from spektral import layers

    made = _SPEKTRAL[name](layers)
    return Built(lambda x, a: made([x, a]), [NODES, Adjacency("a")])


for _name in _SPEKTRAL:
    model(f"spektral/{_name}", "keras2")(lambda name=_name: _spektral(name))  # type: ignore[misc]

for _name in ("GlobalSumPool", "GlobalAvgPool", "GlobalMaxPool", "GlobalAttentionPool"):

    @model(f"spektral/{_name}", "keras2")
    def _pool(name: str = _name) -> Built:
        from spektral import layers

        made = getattr(layers, name)(*([3] if name == "GlobalAttentionPool" else []))
        return Built(lambda x, graph: made([x, graph]), [NODES, GRAPH_OF_NODE])


#: Layers of tf-geometric on node features, edges and their weights.
_GEOMETRIC: dict[str, tuple[dict[str, Any], bool]] = {
    "ChebyNet": ({"units": 3, "k": 2}, True),
    "GAT": ({"units": 4, "num_heads": 2}, False),
    "LEConv": ({"units": 3}, True),
    "MaxPoolGraphSage": ({"units": 4}, True),
    "MeanGraphSage": ({"units": 4}, True),
    "SumGraphSage": ({"units": 4}, True),
}


def _geometric(name: str) -> Built:
    from tf_geometric import layers

    arguments, weighted = _GEOMETRIC[name]
    made = getattr(layers, name)(**arguments)
    if not weighted:
        return Built(lambda x, edges: made([x, edges]), [NODES, EDGES])
    return Built(lambda x, edges, weights: made([x, edges, weights]), [NODES, EDGES, WEIGHTS])


for _name in _GEOMETRIC:
    model(f"tf-geometric/{_name}", "keras2")(lambda name=_name: _geometric(name))  # type: ignore[misc]


@model("tf-geometric/GIN", "keras2")
def gin() -> Built:
    import tf_keras
    from tf_geometric import layers

    made = layers.GIN(tf_keras.Sequential([tf_keras.layers.Dense(3, activation="relu"), tf_keras.layers.Dense(3)]))
    return Built(lambda x, edges: made([x, edges]), [NODES, EDGES])


def _graph(x: Any, edges: Any, **edge_features: Any) -> Any:
    """A GraphTensor of one graph."""
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    nodes, links = tf.shape(x)[:1], tf.shape(edges)[1:]
    adjacency = tfgnn.Adjacency.from_indices(("nodes", edges[0]), ("nodes", edges[1]))
    return tfgnn.GraphTensor.from_pieces(
        node_sets={"nodes": tfgnn.NodeSet.from_fields(features={"hidden_state": x}, sizes=nodes)},
        edge_sets={"links": tfgnn.EdgeSet.from_fields(features=edge_features, sizes=links, adjacency=adjacency)},
    )


for _reduce in ("sum", "mean", "max"):

    @model(f"tensorflow-gnn/pooled messages, {_reduce}", "keras2")
    def _pooled(reduce: str = _reduce) -> Built:
        import tensorflow_gnn as tfgnn

        def call(x: Any, edges: Any) -> Any:
            graph = _graph(x, edges)
            messages = tfgnn.broadcast_node_to_edges(graph, "links", tfgnn.SOURCE, feature_name="hidden_state")
            return tfgnn.pool_edges_to_node(graph, "links", tfgnn.TARGET, reduce, feature_value=messages)

        return Built(call, [NODES, EDGES])


@model("tensorflow-gnn/softmax of edges", "keras2")
def edge_softmax() -> Built:
    import tensorflow_gnn as tfgnn

    def call(x: Any, edges: Any, weights: Any) -> Any:
        return tfgnn.softmax(_graph(x, edges), tfgnn.TARGET, edge_set_name="links", feature_value=weights[:, None])

    return Built(call, [NODES, EDGES, WEIGHTS])


@model("tensorflow-gnn/message passing", "keras2")
def message_passing() -> Built:
    import tensorflow_gnn as tfgnn
    import tf_keras

    update = tfgnn.keras.layers.GraphUpdate(
        node_sets={
            "nodes": tfgnn.keras.layers.NodeSetUpdate(
                {"links": tfgnn.keras.layers.SimpleConv(tf_keras.layers.Dense(4), "mean", receiver_tag=tfgnn.TARGET)},
                tfgnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(4)),
            )
        }
    )
    return Built(lambda x, edges: update(_graph(x, edges)).node_sets["nodes"]["hidden_state"], [NODES, EDGES])
