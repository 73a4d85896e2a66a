"""Recommenders and other models of bags and segments that need torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from zoo.inputs import Dense, Ragged, floats, ids
from zoo.torch_sources import EDGES, GRAPHS, NODES, WIDTH, Bags, calling, module

_ROWS = 50  # of a table

_ITEMS = Bags("items", ids(_ROWS))
_WEIGHTED = Bags("items", ids(_ROWS), weighted=True)
_SPLITS = Ragged("items", ids(_ROWS))
_DENSE = Dense("dense", floats(), ("rows", 4))
_FIELDS = Dense("fields", ids(_ROWS), ("rows", 3))
_TARGET = Dense("target", ids(_ROWS), ("rows",))
_HISTORY = Dense("history", ids(_ROWS), ("rows", "steps"))
_STEPS = Dense("history", ids(_ROWS), ("rows", 6))
_LENGTHS = Dense("lengths", ids(7), ("rows",))
_PRICES = Dense("prices", floats(scale=3), ("rows",))


def _bags(mode: str, **options: Any) -> Any:
    import torch

    return torch.nn.EmbeddingBag(_ROWS, WIDTH, mode=mode, **options)


def _weighted(mode: str = "sum") -> Any:
    return calling(_bags(mode), lambda bags, values, offsets, weights: bags(values, offsets, weights))


for _mode in ("sum", "mean", "max"):
    module(f"torch/EmbeddingBag {_mode}", lambda m=_mode: _bags(m), _ITEMS, quick=True)
    module(f"torch/EmbeddingBag {_mode}, padded", lambda m=_mode: _bags(m, padding_idx=0), _ITEMS)
    module(f"torch/EmbeddingBag {_mode} of splits", lambda m=_mode: _bags(m, include_last_offset=True), _SPLITS)
    module(f"torch/EmbeddingBag {_mode} of a matrix", lambda m=_mode: _bags(m), _HISTORY)
module("torch/EmbeddingBag weighted", _weighted, _WEIGHTED, quick=True)


def _linear(*sizes: int) -> Any:
    from torch.nn import Linear, ReLU, Sequential

    pairs = pairwise(sizes)
    return Sequential(*(part for pair in pairs for part in (Linear(*pair), ReLU())), Linear(sizes[-1], 1))


def _tables(count: int = 3) -> Any:
    import torch

    return torch.nn.ModuleList(torch.nn.Embedding(_ROWS, WIDTH) for _ in range(count))


def _looked_up(tables: Any, fields: Any) -> Any:
    import torch

    return torch.stack([table(column) for table, column in zip(tables, fields.unbind(1), strict=True)], 1)


def _dlrm() -> Any:
    import torch

    def call(parts: Any, dense: Any, values: Any, offsets: Any, others: Any, other_offsets: Any) -> Any:
        rows = [parts["dense"](dense), parts["rows"](values, offsets), parts["places"](others, other_offsets)]
        features = torch.stack(rows, 1)
        products = features @ features.transpose(1, 2)
        first, second = torch.tril_indices(3, 3, -1)
        return parts["top"](torch.cat([features[:, 0], products[:, first, second]], 1)).sigmoid()

    tables = {"rows": _bags("sum"), "places": _bags("mean")}
    return calling({**tables, "dense": torch.nn.Linear(4, WIDTH), "top": _linear(WIDTH + 3, 8)}, call)


module("torch/DLRM", _dlrm, _DENSE, _ITEMS, Bags("places", ids(_ROWS)), quick=True)


def _deep_fm() -> Any:
    import torch

    def call(parts: Any, dense: Any, fields: Any) -> Any:
        rows = _looked_up(parts["tables"], fields)
        pairs = 0.5 * (rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1, keepdim=True)
        first = _looked_up(parts["weights"], fields).sum(2).sum(1, keepdim=True)
        return (parts["deep"](torch.cat([rows.flatten(1), dense], 1)) + pairs + first).sigmoid()

    return calling({"tables": _tables(), "weights": _tables(), "deep": _linear(3 * WIDTH + 4, 16)}, call)


module("torch/DeepFM", _deep_fm, _DENSE, _FIELDS, quick=True)


def _cross() -> Any:
    import torch

    width = 3 * WIDTH + 4

    def call(parts: Any, dense: Any, fields: Any) -> Any:
        first = torch.cat([_looked_up(parts["tables"], fields).flatten(1), dense], 1)
        crossed = first
        for layer in parts["layers"]:
            crossed = first * layer(crossed) + crossed
        return parts["top"](crossed)

    layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(2))
    return calling({"tables": _tables(), "layers": layers, "top": _linear(width, 8)}, call)


module("torch/DCN", _cross, _DENSE, _FIELDS, quick=True)


def _compressed_interactions() -> Any:
    import torch

    def call(parts: Any, fields: Any) -> Any:
        rows = _looked_up(parts["tables"], fields)
        products = torch.einsum("bhd,bmd->bhmd", rows, rows).flatten(1, 2)
        return parts["top"](parts["filters"](products).relu().sum(2))

    filters = torch.nn.Conv1d(9, 6, 1)
    return calling({"tables": _tables(), "filters": filters, "top": _linear(6, 8)}, call)


module("torch/xDeepFM", _compressed_interactions, _FIELDS, quick=True)


def _interest() -> Any:
    """Deep interest: attention of a target over a history that is padded with 0."""
    import torch

    def call(parts: Any, history: Any, target: Any) -> Any:
        steps, wanted = parts["rows"](history), parts["rows"](target)
        repeated = wanted.unsqueeze(1).expand_as(steps)
        scores = parts["attention"](torch.cat([steps, repeated, steps * repeated], 2)).squeeze(2)
        weights = scores.masked_fill(history == 0, -1e9).softmax(1)
        pooled = (weights.unsqueeze(1) @ steps).squeeze(1)
        return parts["top"](torch.cat([pooled, wanted], 1)).sigmoid()

    attention = _linear(3 * WIDTH, 8)
    items = torch.nn.Embedding(_ROWS, WIDTH, padding_idx=0)
    return calling({"rows": items, "attention": attention, "top": _linear(2 * WIDTH, 8)}, call)


module("torch/DIN", _interest, _STEPS, _TARGET, quick=True)


def _experts() -> Any:
    import torch

    def call(parts: Any, dense: Any, values: Any, offsets: Any) -> Any:
        features = torch.cat([dense, parts["rows"](values, offsets)], 1)
        made = torch.stack([expert(features) for expert in parts["experts"]], 1)
        mixed = [(gate(features).softmax(1).unsqueeze(2) * made).sum(1) for gate in parts["gates"]]
        return tuple(tower(rows) for tower, rows in zip(parts["towers"], mixed, strict=True))

    width, several = WIDTH + 4, torch.nn.ModuleList
    parts = {
        "rows": _bags("mean"),
        "experts": several(torch.nn.Linear(width, 8) for _ in range(3)),
        "gates": several(torch.nn.Linear(width, 3) for _ in range(2)),
        "towers": several(_linear(8, 4) for _ in range(2)),
    }
    return calling(parts, call)


module("torch/MMoE", _experts, _DENSE, _ITEMS, quick=True)


def _towers() -> Any:
    def call(parts: Any, values: Any, offsets: Any, target: Any) -> Any:
        from torch.nn.functional import normalize

        return normalize(parts["user"](values, offsets)), normalize(parts["item"](target))

    import torch

    return calling({"user": _bags("mean"), "item": torch.nn.Embedding(_ROWS, WIDTH)}, call)


module("torch/two towers", _towers, _ITEMS, _TARGET, quick=True)


def _retrieval() -> Any:
    def call(parts: Any, values: Any, offsets: Any) -> Any:
        return parts["goods"](parts["user"](values, offsets)).topk(5)

    import torch

    # The bias of each row makes the scores of an empty bag different, whose order is torch's own otherwise.
    return calling({"user": _bags("sum"), "goods": torch.nn.Linear(WIDTH, _ROWS)}, call)


module("torch/retrieval of the best", _retrieval, _ITEMS)


def _encoder(pooled: Callable[..., Any]) -> Any:
    import torch

    layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True)
    parts = {"rows": torch.nn.Embedding(_ROWS, WIDTH, padding_idx=0), "encoder": layer}
    return calling(parts, pooled)


def _attended(parts: Any, history: Any) -> Any:
    import torch

    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return parts["encoder"](parts["rows"](history), src_mask=mask)[:, -1]


module("torch/SASRec", lambda: _encoder(_attended), _STEPS, quick=True)


def _recurrent(kind: str) -> Any:
    import torch

    def call(parts: Any, history: Any, lengths: Any) -> Any:
        steps = parts["cell"](parts["rows"](history))[0]
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, WIDTH)
        return steps.gather(1, last).squeeze(1)

    cell = getattr(torch.nn, kind)(WIDTH, WIDTH, batch_first=True)
    return calling({"rows": torch.nn.Embedding(_ROWS, WIDTH), "cell": cell}, call)


for _kind in ("GRU", "LSTM"):
    module(f"torch/{_kind}4Rec", lambda k=_kind: _recurrent(k), _STEPS, _LENGTHS, rows=1)


def _buckets() -> Any:
    import torch

    def call(parts: Any, prices: Any, values: Any, offsets: Any) -> Any:
        places = torch.bucketize(prices, torch.tensor([-1.0, 0.0, 2.0]))
        return torch.cat([parts["prices"](places), parts["rows"](values, offsets)], 1)

    return calling({"prices": torch.nn.Embedding(4, WIDTH), "rows": _bags("sum")}, call)


module("torch/buckets and bags", _buckets, _PRICES, _ITEMS, quick=True)


def _hashed() -> Any:
    """The quotient and the remainder of an id have a table each."""

    def call(parts: Any, values: Any, offsets: Any) -> Any:
        return parts["high"](values // 7, offsets) * parts["low"](values % 7, offsets)

    import torch

    high, low = torch.nn.EmbeddingBag(8, WIDTH, mode="sum"), torch.nn.EmbeddingBag(7, WIDTH, mode="sum")
    return calling({"high": high, "low": low}, call)


module("torch/quotients and remainders", _hashed, _ITEMS)


def _half() -> Any:
    import torch

    bags = torch.nn.EmbeddingBag(_ROWS, WIDTH, mode="sum", dtype=torch.bfloat16)
    return calling(bags, lambda bags, values, offsets: bags(values, offsets).float())


module("torch/bags in bfloat16", _half, _ITEMS)


def _jagged() -> Any:
    import torch

    def call(table: Any, values: Any, splits: Any) -> Any:
        rows = torch.nested.nested_tensor_from_jagged(table(values), splits)
        return rows.to_padded_tensor(0.0).sum(1)

    return calling(torch.nn.Embedding(_ROWS, WIDTH), call)


module("torch/jagged rows", _jagged, _SPLITS, quick=True)


def _propagation(layout: str) -> Any:
    import torch

    class Propagation(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            places = torch.randint(0, 2 * _ROWS, (2, 300))
            matrix = torch.sparse_coo_tensor(places, torch.rand(300), (2 * _ROWS, 2 * _ROWS)).coalesce()
            self.register_buffer("adjacency", matrix if layout == "COO" else matrix.to_sparse_csr())
            self.rows = torch.nn.Parameter(torch.randn(2 * _ROWS, WIDTH))

        def forward(self, users: Any, items: Any) -> Any:
            layers = [self.rows]
            for _ in range(2):
                layers.append(torch.sparse.mm(self.adjacency, layers[-1]))
            made = torch.stack(layers).mean(0)
            return (made[users] * made[items + _ROWS]).sum(1)

    return Propagation()


for _layout in ("COO", "CSR"):
    _users = Dense("users", ids(_ROWS), ("rows",))
    module(f"torch/LightGCN {_layout}", lambda x=_layout: _propagation(x), _users, _TARGET, quick=_layout == "COO")


#: Networks of graphs by hand, as without PyTorch Geometric.
_REDUCTIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "index_add": lambda x, source, target, zeros: zeros.index_add(0, target, x[source]),
    "scatter_add": lambda x, source, target, zeros: zeros.scatter_add(0, _expanded(target, x), x[source]),
    "scatter_reduce mean": lambda x, source, target, zeros: zeros.scatter_reduce(
        0, _expanded(target, x), x[source], "mean", include_self=False
    ),
    "scatter_reduce amax": lambda x, source, target, zeros: zeros.scatter_reduce(
        0, _expanded(target, x), x.index_select(0, source), "amax", include_self=False
    ),
    "index_put": lambda x, source, target, zeros: zeros.index_put((target,), x[source], accumulate=True),
    "index_reduce amin": lambda x, source, target, zeros: zeros.index_reduce(
        0, target, x[source], "amin", include_self=False
    ),
}


def _expanded(target: Any, x: Any) -> Any:
    return target.view(-1, 1).expand(-1, x.shape[1])


def _messages(reduce: Callable[..., Any]) -> Any:
    import torch

    def call(layer: Any, x: Any, edges: Any) -> Any:
        return layer(x + reduce(x, edges[0], edges[1], torch.zeros_like(x))).relu()

    return calling(torch.nn.Linear(WIDTH, WIDTH), call)


for _name, _reduce in _REDUCTIONS.items():
    module(f"torch/messages by {_name}", lambda r=_reduce: _messages(r), NODES, EDGES, quick=True)


def _pooled(parts: Any, x: Any, graphs: Any) -> Any:
    import torch

    counts = torch.bincount(graphs, minlength=3)
    sums = torch.zeros(3, WIDTH).index_add(0, graphs, x)
    return sums / counts.clamp(min=1).unsqueeze(1), torch.segment_reduce(x, "max", lengths=counts, initial=0.0)


module("torch/pooled graphs", lambda: calling(_linear(2, 2), _pooled), NODES, GRAPHS)


def _dynamic_size(parts: Any, x: Any, graphs: Any) -> Any:
    """As many rows as the data says."""
    import torch

    return torch.zeros(int(graphs.max()) + 1, WIDTH).index_add(0, graphs, x)


module("torch/sizes of the data", lambda: calling(_linear(2, 2), _dynamic_size), NODES, GRAPHS, quick=True)


def _several(names: Sequence[str]) -> Any:
    def call(parts: Any, *given: Any) -> Any:
        import torch

        bags = [parts[name](*given[2 * k : 2 * k + 2]) for k, name in enumerate(names)]
        return torch.cat(bags, 1)

    return calling({name: _bags("mean") for name in names}, call)


_NAMES = [f"feature {k}" for k in range(8)]
module("torch/eight bags", lambda: _several(_NAMES), *(Bags(name, ids(_ROWS)) for name in _NAMES))
