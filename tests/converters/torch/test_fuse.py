"""Fusing files of torch's own exporters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import onnx  # noqa: E402
from support.fused_models import Pair  # noqa: E402

TABLE = torch.arange(80, dtype=torch.float32).reshape(5, 16) - 30
OTHER = TABLE * 2


class Bags(torch.nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag.from_pretrained(TABLE, mode=mode)

    def forward(self, ids: Any, offsets: Any) -> Any:
        return self.bag(ids, offsets)


class Messages(torch.nn.Module):
    """What graph networks do: rows of a table are added to others."""

    def forward(self, ids: Any, start: Any) -> tuple[Any, Any, Any]:
        rows = TABLE[ids % 5]
        column = ids.view(-1, 1).expand_as(rows)
        return (
            start.scatter_add(0, column, rows),
            start.index_add(0, ids, OTHER[ids % 5]),
            start.scatter_reduce(0, column, rows.abs(), "amax", include_self=True),
        )


def exported(module: Any, arguments: tuple[Any, ...], path: Path, *, dynamo: bool, opset_version: int = 18) -> Pair:
    names = ["first", "second"]
    sizes = [{0: f"size_{k}"} for k in range(len(arguments))]
    options: dict[str, Any] = {"input_names": names, "dynamo": dynamo}
    if dynamo:
        options["dynamic_shapes"] = tuple({0: torch.export.Dim.DYNAMIC} for _ in arguments)
        options["external_data"] = False
    else:
        options["dynamic_axes"] = dict(zip(names, sizes, strict=True))
        options["opset_version"] = opset_version
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), arguments, path, **options)
    return Pair(onnx.load(path))


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, dynamo: bool, tmp_path: Path):
    ids, offsets = torch.tensor([0, 3, 3, 1]), torch.tensor([0, 2, 2])
    fused = exported(Bags(mode), (ids, offsets), tmp_path / "bags.onnx", dynamo=dynamo)
    assert fused.ours == [f"EmbeddingBagOffsets{mode.title()}"]
    for some, starts in [([0, 3, 3, 1], [0, 2, 2]), ([4], [0, 0, 1]), ([2, 2], [0])]:
        fused.agree({"first": np.array(some), "second": np.array(starts)})


@pytest.mark.slow
def test_messages(tmp_path: Path):
    arguments = torch.tensor([0, 3, 3, 1]), torch.ones(6, 16)
    fused = exported(Messages(), arguments, tmp_path / "messages.onnx", dynamo=True)
    assert sorted(fused.ours) == ["EmbeddingSegmentsSum", "UnsortedSegmentMax", "UnsortedSegmentSum"]
    for size in (1, 7):
        ids = np.arange(size) * 2 % 5
        fused.agree({"first": ids, "second": np.ones((5, 16), np.float32)})


_REDUCED: dict[str, Any] = {
    "sum": lambda x, into, rows: torch.zeros_like(x).scatter_add(0, into, rows),
    "largest": lambda x, into, rows: x.scatter_reduce(0, into, rows * 2, "amax"),
    "product": lambda x, into, rows: x.scatter_reduce(0, into, rows, "prod"),
}


class Expanded(torch.nn.Module):
    """Ids that are expanded to a width that the module asks for, as old graph networks do."""

    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, ids: Any, x: Any) -> Any:
        return _REDUCED[self.reduction](x, ids.view(-1, 1).expand(-1, x.shape[1]), x[ids])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("reduction", _REDUCED)
def test_expanded_ids_in_a_torchscript_file(reduction: str, opset: int, tmp_path: Path):
    """The nodes that compute the sizes are no longer needed, nor the branches for scalars."""
    arguments = torch.tensor([0, 3, 3, 1]), torch.randn(5, 3)
    fused = exported(Expanded(reduction), arguments, tmp_path / "old.onnx", dynamo=False, opset_version=opset)
    assert len(fused.ours) == 1
    assert fused.ours[0].startswith(("UnsortedSegment", "EmbeddingSegments"))
    assert fused.explanation.nodes < fused.explanation.nodes_before / 1.5
    assert all(node.op_type != "If" for node in fused.new.graph.node)
    for ids in ([0, 3, 3, 1], [2], [0, 1, 1, 1, 1, 0]):
        fused.agree({"first": np.array(ids), "second": np.arange(18, dtype=np.float32).reshape(6, 3)})
