"""Whether a model that is split answers what the whole model answers: compared on drawn rows and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.models.graphs import array_of
from onnx_sparse.models.large_models import load
from onnx_sparse.models.model_files import read_model
from onnx_sparse.rows.model_features import features
from onnx_sparse.rows.sample_rows import Draws
from onnx_sparse.sharding.manifest import SHARD, read_manifest
from onnx_sparse.sharding.session import local_session, opened
from onnx_sparse.sharding.tables import Table

_ROWS = 10_000
#: The lengths of the rows of drawn batches.
_BATCHES: tuple[tuple[int, ...], ...] = ((3, 1, 0, 5, 2), (1,), (0, 0, 0), (30, 40), ())
#: By how much sums of sums may differ, as a part of the largest answer.
_RELATIVE = 1e-5


def compare_rows(tables: Sequence[Table], folder: Path) -> str:
    """Compare drawn rows of each table with those of its shards, bit for bit; returns what was compared.

    Raises:
        CommandError: A row differs.
    """
    random, manifest = np.random.default_rng(0), read_manifest(folder)
    shards = [load(folder / f"shard-{number}" / SHARD) for number in range(manifest.shards)]
    held = [{tensor.name: array_of(tensor) for tensor in model.graph.initializer} for model in shards]
    compared = 0
    for table, place in zip(tables, manifest.tables, strict=True):
        for tensor in table.tensors:
            whole, count = array_of(tensor), len(place.shards)
            last = [table.rows - 1] if table.rows else []
            for row in np.unique([*random.integers(0, table.rows, min(_ROWS, table.rows)), *last]).astype(int):
                part = held[place.shards[row % count]][tensor.name]
                if whole[row].tobytes() != part[row // count].tobytes():
                    raise CommandError(f"row {row} of {printable(tensor.name)} is not what shard {row % count} has")
                compared += 1
    return f"{compared:,} drawn rows are equal"


def compare_answers(model: Path, folder: Path) -> str:
    """Compare answers to drawn inputs; returns what was compared.

    Raises:
        CommandError: An answer differs, or only one of both refuses an input.
    """
    whole, split = opened(model, 0, "auto"), local_session(folder)
    known = features(whole)
    draws, exact = Draws.of(known, read_model(model)), read_manifest(folder).exact
    compared = 0
    for texts in draws.texts():
        for lengths in _BATCHES:
            columns = draws.columns(lengths, texts)
            if columns is None:
                return "no inputs could be drawn, so answers were not compared"
            feeds = known.feeds(columns)
            expected, got = _answered(whole, feeds), _answered(split, feeds)
            if isinstance(expected, Exception) != isinstance(got, Exception):
                raise CommandError(f"for rows of {list(lengths)} values the whole model: {expected}; split: {got}")
            if isinstance(expected, list) and isinstance(got, list):
                for value, one, other in zip(whole.get_outputs(), expected, got, strict=True):
                    _require_equal(value.name, one, other, exact)
                compared += 1
        if compared:
            break
    return f"the answers to {compared} drawn batches are equal" if compared else "the model took no drawn inputs"


def _answered(session: Any, feeds: Any) -> list[Any] | Exception:
    try:
        return list(session.run(None, feeds))
    except Exception as error:  # of ONNX Runtime, which have no common base class
        return error


def _require_equal(name: str, one: Any, other: Any, exact: bool) -> None:
    if not isinstance(one, np.ndarray) or exact or one.dtype.kind not in "fV":
        equal = np.array_equal(one, other, equal_nan=getattr(one, "dtype", np.dtype(int)).kind == "f")
    else:
        a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
        scale = np.abs(a[np.isfinite(a)]).max(initial=1)
        equal = a.shape == b.shape and np.allclose(a, b, rtol=_RELATIVE, atol=_RELATIVE * scale, equal_nan=True)
    if not equal:
        raise CommandError(f"output {printable(name)} of the model that is split is not that of the whole one")
