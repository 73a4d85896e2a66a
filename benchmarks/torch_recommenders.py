"""The whole models of torch that `whole_models.py` times: recommenders of embedding bags, and a graph network.

Weights are random. Bags have ten ids each; the features of DLRM have one id. The graph network's mean is written with
index_add, as PyTorch Geometric's scatter does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from sessions import Array, Subject

from onnx_sparse.converters.torch import export

VOCABULARY, WIDTH, DENSE, IDS = 100_000, 32, 13, 10
ONE_HOT = 26
EDGES = 10  # of each node

_MANY = torch.export.Dim.DYNAMIC


def dense(*sizes: int) -> torch.nn.Sequential:
    """Dense layers, with Relu between them."""
    layers: list[torch.nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def bags(count: int, width: int = WIDTH, mode: str = "mean") -> torch.nn.ModuleList:
    """Embedding bags."""
    return torch.nn.ModuleList(torch.nn.EmbeddingBag(VOCABULARY, width, mode=mode) for _ in range(count))


class WideAndDeep(torch.nn.Module):
    """Eight features of bags, each in a table of width 1 and in one of embeddings under dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.wide = bags(8), bags(8, 1, "sum")
        self.top = dense(8 * WIDTH + DENSE, 256, 128, 1)

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Probabilities; the ids [8, entries] of the features have the same offsets."""
        embedded = [bag(ids[k], offsets) for k, bag in enumerate(self.deep)]
        linear = [bag(ids[k], offsets) for k, bag in enumerate(self.wide)]
        return torch.sigmoid(self.top(torch.cat([*embedded, numbers], 1)) + sum(linear))


class Dlrm(torch.nn.Module):
    """26 features of one id each, whose embeddings are multiplied by each other."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(VOCABULARY, WIDTH) for _ in range(ONE_HOT))
        self.bottom, self.top = dense(DENSE, 128, WIDTH), dense(27 * 27 + WIDTH, 256, 1)

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Probabilities, of a matrix of ids."""
        bottom = torch.relu(self.bottom(numbers))
        vectors = torch.stack([bottom, *(table(ids[:, k]) for k, table in enumerate(self.tables))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([products, bottom], 1)))


class TwoTowers(torch.nn.Module):
    """The cosine of a user's vector and an item's."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = bags(6, 64)
        self.user, self.item = dense(3 * 64, 128, 64), dense(3 * 64, 128, 64)

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Cosines; the ids [6, entries] of the features have the same offsets."""
        found = [bag(ids[k], offsets) for k, bag in enumerate(self.bags)]
        user, item = self.user(torch.cat(found[:3], 1)), self.item(torch.cat(found[3:], 1))
        return (torch.nn.functional.normalize(user) * torch.nn.functional.normalize(item)).sum(1)


class Sage(torch.nn.Module):
    """Two layers of a graph network: each node's own vector, and the mean of those that edges lead from."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = (
            torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(2)) for _ in range(2)
        )

    def forward(self, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Vectors of the nodes."""
        ones = torch.ones_like(targets, dtype=nodes.dtype)
        for own, others in zip(self.own, self.others, strict=True):
            total = torch.zeros_like(nodes).index_add(0, targets, nodes.index_select(0, sources))
            count = nodes.new_zeros(nodes.shape[0]).index_add(0, targets, ones)
            nodes = torch.relu(own(nodes) + others(total / count.clamp(min=1)[:, None]))
        return nodes


def _random(rows: int) -> torch.Generator:
    return torch.Generator().manual_seed(rows)


def _bagged(features: int, *, numbers: bool) -> Callable[[int], tuple[torch.Tensor, ...]]:
    def batch(rows: int) -> tuple[torch.Tensor, ...]:
        random = _random(rows)
        ids = torch.randint(0, VOCABULARY, (features, IDS * rows), generator=random)
        given = (ids, torch.arange(0, IDS * rows, IDS))
        return (torch.randn(rows, DENSE, generator=random), *given) if numbers else given

    return batch


def _one_hot(rows: int) -> tuple[torch.Tensor, ...]:
    random = _random(rows)
    return torch.randn(rows, DENSE, generator=random), torch.randint(0, VOCABULARY, (rows, ONE_HOT), generator=random)


def _graph(rows: int) -> tuple[torch.Tensor, ...]:
    random, count = _random(rows), 40 * rows
    ends = torch.randint(0, count, (2, EDGES * count), generator=random)
    return torch.randn(count, 64, generator=random), ends[0], ends[1]


#: Each model, its batches, and the dynamic dimension of each input.
_MODELS: dict[str, tuple[type[torch.nn.Module], Callable[[int], tuple[torch.Tensor, ...]], tuple[int, ...]]] = {
    "wide & deep": (WideAndDeep, _bagged(8, numbers=True), (0, 1, 0)),
    "DLRM, one id": (Dlrm, _one_hot, (0, 0)),
    "two towers": (TwoTowers, _bagged(6, numbers=False), (1, 0)),
    "SAGE": (Sage, _graph, (0, 0, 0)),
}


def subjects(threads: int, rows: Sequence[int], only: str) -> Iterator[Subject]:
    """The models with batches; a graph has 40 nodes for each row."""
    torch.set_num_threads(threads)
    for name, (kind, batch, dynamic) in _MODELS.items():
        if only.lower() not in name.lower():
            continue
        torch.manual_seed(0)
        module = kind().eval()
        model = export(module, batch(7), dynamic_shapes=tuple({axis: _MANY} for axis in dynamic))
        for count in rows:
            given = batch(count)
            feeds: dict[str, Array] = {
                value.name: tensor.numpy() for value, tensor in zip(model.graph.input, given, strict=True)
            }

            def run(module: Any = module, given: Any = given) -> Any:
                with torch.inference_mode():
                    return module(*given).numpy()

            yield Subject(f"{name}, {count * (40 if name == 'SAGE' else 1):,}", model, feeds, run)
