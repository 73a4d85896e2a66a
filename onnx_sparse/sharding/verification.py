"""Whether a model that is split answers what the whole model answers: compared on drawn rows and inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.comparison import difference, is_float, magnitude_of, noise_of_order
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.models.files.large_models import load
from onnx_sparse.models.files.model_files import read_model
from onnx_sparse.models.graphs import array_of, half_floats
from onnx_sparse.rows.model_features import features
from onnx_sparse.rows.sample_rows import Draws
from onnx_sparse.sharding.manifest import SHARD, read_manifest
from onnx_sparse.sharding.session import local_session, opened
from onnx_sparse.sharding.tables import Table

_ROWS = 10_000
#: The lengths of the rows of drawn batches.
_BATCHES: tuple[tuple[int, ...], ...] = ((3, 1, 0, 5, 2), (1,), (0, 0, 0), (30, 40), ())


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
    return f"{compared:,} random rows are equal"


def compare_answers(model: Path, folder: Path) -> str:
    """Compare answers to drawn inputs; returns what was compared.

    Raises:
        CommandError: An answer differs, or only one of both refuses an input.
    """
    whole, split = opened(model, 0, "auto"), local_session(folder)
    known = features(whole)
    read = read_model(model)
    draws, exact, computed = Draws.of(known, read), read_manifest(folder).exact, half_floats(read)
    answers: list[tuple[list[Any], list[Any]]] = []
    for texts in draws.texts():
        for lengths in _BATCHES:
            columns = draws.columns(lengths, texts)
            if columns is None:
                return "no inputs could be generated, so answers were not compared"
            feeds = known.feeds(columns)
            expected, got = _answered(whole, feeds), _answered(split, feeds)
            if isinstance(expected, Exception) != isinstance(got, Exception):
                raise CommandError(f"for rows of {list(lengths)} values the whole model: {expected}; split: {got}")
            if isinstance(expected, list) and isinstance(got, list):
                answers.append((expected, got))
        if answers:
            break
    for position, value in enumerate(whole.get_outputs()):
        wanted = [expected[position] for expected, _ in answers]
        for one, (_, got) in zip(wanted, answers, strict=True):
            _require_equal(value.name, one, got[position], exact, wanted, computed)
    return (
        f"the answers to {len(answers)} generated batches are equal"
        if answers
        else "the model took no generated inputs"
    )


def _answered(session: Any, feeds: Any) -> list[Any] | Exception:
    try:
        return list(session.run(None, feeds))
    except Exception as error:  # of ONNX Runtime, which have no common base class
        return error


def _require_equal(
    name: str,
    one: Any,
    other: Any,
    exact: bool,
    answers: Sequence[Any] | None = None,
    computed: Collection[str] = (),
) -> None:
    """Refuse a difference of an output.

    Args:
        name: The output's name.
        one: What the whole model answers.
        other: What the split model answers.
        exact: Whether floats must be equal, too: shards have sent rows, never sums.
        answers: What the whole model answers in all batches; this one if omitted.
        computed: The half-float types that the model computes with.
    """
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        answers = [one] if answers is None else answers
        magnitude = magnitude_of(answers) if is_float(one) else None
        floor = noise_of_order(answers, computed)
        reason = difference(one, other, computed, magnitude=magnitude, floor=floor, exact=exact).reason.rstrip(",")
    else:
        reason = "" if one == other else "values differ"
    if reason:
        raise CommandError(
            f"output {printable(name)} of the model that is split is not that of the whole one: {reason}"
        )
