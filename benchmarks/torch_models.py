"""Exported torch modules in ONNX Runtime against torch itself, timed in one run.

    python benchmarks/torch_models.py [--threads 1 2] [--only WORD] [--json FILE] [--save]

Every line is a case: the median time of a run of the exported model, torch's, and the first divided by the second
(below 1 is faster). The answers are compared before anything is timed. Layers of PyTorch Geometric are timed if that is
installed. It all takes five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from contest import contest
from machine import this_machine
from onnx import ModelProto
from records import Line
from runner import finish, parse, parser, progress, show
from sessions import session_options

import onnx_sparse
from onnx_sparse.converters.torch import export

_MANY = torch.export.Dim.DYNAMIC


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        name: The name of the case.
        module: The module.
        inputs: Makes its inputs, whose first dimensions are dynamic.
        columns: The inputs whose second dimension is dynamic instead.
    """

    name: str
    module: torch.nn.Module
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    columns: tuple[int, ...] = ()

    def exported(self) -> ModelProto:
        """The module as a model."""
        given = self.inputs()
        shapes = tuple({int(place in self.columns): _MANY} for place in range(len(given)))
        return export(self.module.eval(), given, dynamic_shapes=shapes)

    def contenders(self, model: ModelProto, threads: int) -> dict[str, Callable[[], object]]:
        """The exported model and torch, both on these threads."""
        given = self.inputs()
        session = onnx_sparse.InferenceSession(model, session_options(threads))
        feeds = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), given, strict=True)}
        torch.set_num_threads(threads)

        def run_torch() -> Any:
            with torch.inference_mode():
                return self.module(*given)

        (got,) = session.run(None, feeds)
        np.testing.assert_allclose(got, run_torch().numpy(), rtol=1e-3, atol=1e-3)
        return {"onnx_sparse": lambda: session.run(None, feeds), "torch": run_torch}


def _bags(
    count: int,
    each: int,
    mode: str,
    table: tuple[int, int],
    weighted: bool = False,
    matrix: bool = False,
    **options: Any,
) -> Case:
    class Bags(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = torch.nn.EmbeddingBag(*table, mode=mode, **options)

        def forward(self, ids: Any, offsets: Any = None, weights: Any = None) -> Any:
            return self.bags(ids, offsets, weights)

    def inputs() -> tuple[torch.Tensor, ...]:
        random = torch.Generator().manual_seed(0)
        ids = torch.randint(0, table[0], (count * each,), generator=random)
        if matrix:
            return (ids.view(count, each),)
        offsets = torch.arange(0, count * each, each)
        return (ids, offsets, torch.rand(count * each, generator=random)) if weighted else (ids, offsets)

    more = "".join([", weighted" * weighted, ", a matrix" * matrix, ", padded" * bool(options)])
    return Case(f"bags {mode}, {count:,} of {each} from {table[0]:,} x {table[1]}{more}", Bags(), inputs)


def _scatter(name: str, call: Callable[..., Any], rows: int = 100_000, entries: int = 500_000, width: int = 64) -> Case:
    class Scatter(torch.nn.Module):
        def forward(self, x: torch.Tensor, ids: torch.Tensor, src: torch.Tensor) -> Any:
            return call(x, ids, src)

    def inputs() -> tuple[torch.Tensor, ...]:
        random = torch.Generator().manual_seed(0)
        ids = torch.randint(0, rows, (entries,), generator=random)
        return torch.zeros(rows, width), ids, torch.randn(entries, width, generator=random)

    return Case(f"{name}, {entries:,} x {width} into {rows:,}", Scatter(), inputs)


def _columns(ids: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    return ids.view(-1, 1).expand(-1, src.shape[1])


def _graph_layers(nodes: int = 20_000, edges: int = 200_000, width: int = 64) -> list[Case]:
    """Layers of PyTorch Geometric, if that is installed."""
    try:
        from torch_geometric import nn
    except ModuleNotFoundError:
        return []

    def inputs() -> tuple[torch.Tensor, ...]:
        random = torch.Generator().manual_seed(0)
        return torch.randn(nodes, width, generator=random), torch.randint(0, nodes, (2, edges), generator=random)

    layers = {
        "SAGE mean": nn.SAGEConv(width, width),
        "SAGE max": nn.SAGEConv(width, width, aggr="max"),
        "GAT": nn.GATConv(width, width, add_self_loops=False),
        "GATv2": nn.GATv2Conv(width, width, add_self_loops=False),
        "GIN": nn.GINConv(torch.nn.Linear(width, width)),
        "GCN": nn.GCNConv(width, width),
        "Edge": nn.EdgeConv(torch.nn.Linear(2 * width, width)),
        "Transformer": nn.TransformerConv(width, width),
    }
    size = f"{nodes:,} nodes, {edges:,} edges"
    return [Case(f"PyG {name}, {size}", layer, inputs, columns=(1,)) for name, layer in layers.items()]


def _sparse_matrices(rows: int = 20_000, count: int = 200_000, width: int = 64) -> list[Case]:
    """Products of a sparse matrix that the module holds."""

    class Product(torch.nn.Module):
        def __init__(self, csr: bool) -> None:
            super().__init__()
            random = torch.Generator().manual_seed(0)
            places = torch.randint(0, rows, (2, count), generator=random)
            matrix = torch.sparse_coo_tensor(places, torch.rand(count, generator=random), (rows, rows)).coalesce()
            self.register_buffer("matrix", matrix.to_sparse_csr() if csr else matrix)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.sparse.mm(self.matrix, x)

    def inputs() -> tuple[torch.Tensor, ...]:
        return (torch.randn(rows, width, generator=torch.Generator().manual_seed(0)),)

    size = f"{count:,} elements, {rows:,} x {rows:,} by {width}"
    return [Case(f"torch.sparse.mm {form}, {size}", Product(form == "CSR"), inputs, (0,)) for form in ("CSR", "COO")]


def cases() -> list[Case]:
    """The table's lines."""
    large, small = (1_000_000, 64), (10_000, 16)
    reduce_lengths = torch.full((100_000,), 5)
    return [
        *(_bags(100_000, 5, mode, large) for mode in ("sum", "mean", "max")),
        _bags(100_000, 5, "sum", large, weighted=True),
        *(_bags(count, 20, "sum", small) for count in (128, 2_048)),
        _bags(128, 20, "sum", small, padding_idx=0),
        *(_bags(count, 20, "sum", small, matrix=True) for count in (128, 2_048)),
        *(_bags(count, 5, "sum", small) for count in (100, 1_000, 4_000, 8_000)),
        _scatter("index_add", lambda x, ids, src: x.index_add(0, ids, src)),
        _scatter("scatter_add", lambda x, ids, src: x.scatter_add(0, _columns(ids, src), src)),
        *(
            _scatter(
                f"scatter_reduce {kind}",
                lambda x, ids, src, kind=kind: x.scatter_reduce(0, _columns(ids, src), src, kind, include_self=False),
            )
            for kind in ("mean", "amax")
        ),
        _scatter(
            "scatter_add of elements", lambda x, ids, src: x.scatter_add(0, _columns(ids, src) + 0, src), 1000, 50_000
        ),
        _scatter("segment_reduce max", lambda x, ids, src: torch.segment_reduce(src, "max", lengths=reduce_lengths)),
        *_sparse_matrices(),
        *_graph_layers(),
    ]


def main() -> None:
    """Time the cases."""
    made = parser(__doc__, threads=[1, 2])
    made.add_argument("--only", default="", metavar="WORD", help="only the cases with this in their name")
    arguments = parse(made)
    here = this_machine()
    chosen = [case for case in cases() if arguments.only in case.name]
    results: dict[int, list[Line]] = {threads: [] for threads in arguments.threads}
    for case in chosen:
        progress(case.name)
        model = case.exported()
        for threads, so_far in results.items():
            so_far.append(contest(case.name, case.contenders(model, threads), seconds=1.5, threads=threads))
    for threads, timed in results.items():
        show(f"torch, {threads} thread{'s' * (threads > 1)}", here, timed)
    finish("torch_models", here, [line for timed in results.values() for line in timed], arguments)


if __name__ == "__main__":
    main()
