"""The inputs of a benchmark: drawn, or made of given rows, in batches of each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_sparse.batching import join
from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.model_features import Features, features
from onnx_sparse.schemas.features import Feature, splits_role

if TYPE_CHECKING:
    from onnx import ModelProto


def batches_of(
    path: Path, rows: Mapping[str, Array] | None, sizes: Sequence[int], seed: int = 0
) -> dict[int, dict[str, Array]]:
    """The batches of a benchmark, by number of rows: of given rows, or drawn ones.

    Args:
        path: The model's file.
        rows: The inputs of a run, or rows as `Features.feeds` takes them; None to draw rows.
        sizes: The numbers of rows.
        seed: The same seed draws the same rows.

    Raises:
        ValueError: The given inputs are no rows.
        ConversionError: The model does not run.
    """
    from onnx_sparse.models.files.large_models import load

    proto = load(path)
    if rows is not None:
        known = features(proto)
        inputs = {name for feature in known.values() for name in feature.inputs.values()}
        is_run = isinstance(rows, Mapping) and inputs <= rows.keys()
        batches = given_batches(known, rows if is_run else known.feeds(rows), sizes)
    else:
        try:
            batches = drawn_batches(proto, sizes, seed)
        except ConversionError:
            raise
        except Exception as error:  # whatever ONNX Runtime raises for a model that does not load
            raise ConversionError(f"no rows can be generated for {path}: {first_line(error)}") from error
    return {count: _with_states(proto, feeds) for count, feeds in batches.items()}


def _with_states(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs as sessions take them, with the values of states before the first run."""
    from onnx_sparse.rows.example_arrays import example_array
    from onnx_sparse.rows.input_roles import find_roles
    from onnx_sparse.schemas.declaration import numpy_dtype
    from onnx_sparse.schemas.states import states_of

    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    begun = {state.past: state.initial(numpy_dtype(types[state.past])) for state in states_of(model)}
    messages = find_roles(model).examples
    made = {
        name: example_array(value.tolist()) if name in messages and value.dtype == np.dtype(object) else value
        for name, value in feeds.items()
    }
    return {**begun, **made}


def drawn_batches(model: ModelProto, sizes: Sequence[int], seed: int) -> dict[int, dict[str, Array]]:
    """Batches of these numbers of rows, drawn as verification draws them: ids in range, rows of one to three values.

    Args:
        model: The model with its tensors.
        sizes: The numbers of rows.
        seed: The same seed gives the same rows.

    Returns:
        The inputs by the number of rows that the batch has, which a model may state.
    """
    from onnx_sparse.converters.verification.verify import example_batches

    known = features(model)
    batches: dict[int, dict[str, Array]] = {}
    for size, feeds in zip(sizes, example_batches(model, list(sizes), seed=seed), strict=True):
        batches.setdefault(rows_of(known, feeds, size), feeds)
    return batches


def rows_of(known: Features, feeds: Mapping[str, Array], otherwise: int) -> int:
    """The number of rows of a batch; `otherwise` if its features have different numbers, and therefore are no rows."""
    counts = {*known.counts(feeds).values()}
    return counts.pop() if len(counts) == 1 else otherwise


def given_batches(known: Features, feeds: Mapping[str, Array], sizes: Sequence[int]) -> dict[int, dict[str, Array]]:
    """Batches of these numbers of rows, of given rows that are repeated as often as needed.

    Args:
        known: The features of the model.
        feeds: The inputs of a run. Without sizes, they are the only batch.
        sizes: The numbers of rows.

    Raises:
        ValueError: There are no rows, or features have different numbers of them.
    """
    counts = known.counts(feeds)
    count = rows_of(known, feeds, 0)
    if not sizes:
        return {count or 1: dict(feeds)}
    if not count:
        have = ", ".join(f"{name!r} has {rows}" for name, rows in counts.items()) or "there are none"
        raise ValueError(f"the given inputs cannot be repeated as rows: {have}; omit the batch sizes to run them")
    found = {}
    for size in sizes:
        whole, _ = join([feeds] * -(-size // count), known)
        found[size] = first_rows(known, whole, size)
    return found


def first_rows(known: Features, feeds: Mapping[str, Array], count: int) -> dict[str, Array]:
    """The inputs of the first rows of a batch."""
    cut: dict[str, Array] = {}
    for feature in known.values():
        parts: dict[str, Any] = {role: np.asarray(feeds[name]) for role, name in feature.inputs.items()}
        cut |= {feature.inputs[role]: array for role, array in _cut(feature, parts, count).items()}
    return cut


def _cut(feature: Feature, parts: dict[str, Array], count: int) -> dict[str, Array]:
    if feature.kind == "sparse":
        kept = parts["indices"][:, 0] < count
        shape = parts["dense_shape"].copy()
        shape[0] = count
        return {"indices": parts["indices"][kept], "values": parts["values"][kept], "dense_shape": shape}
    if feature.kind == "ragged":
        for depth in range(len(feature.row_splits)):
            role = splits_role(depth)
            parts[role] = parts[role][: count + 1]
            count = int(parts[role][-1])
        parts["values"] = parts["values"][:count]
        return parts
    return {role: array[:count] if array.ndim else array for role, array in parts.items()}
