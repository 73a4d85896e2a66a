"""Arrow tables as the inputs of a model, and a scorer of tables for any engine that holds Arrow batches.

Needs pyarrow: `pip install onnx_sparse[score]`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnxruntime as ort
import pyarrow as pa
from onnx import ModelProto

from onnx_sparse.rows.answers import chosen_outputs, require_rows
from onnx_sparse.rows.arrow_columns import arrow_column, column_of_output
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.foreign_rows import columns_of, table_of, without_iterators
from onnx_sparse.rows.model_features import Features, features
from onnx_sparse.rows.row_independence import compare, try_rows
from onnx_sparse.schemas.features import listed
from onnx_sparse.sessions.quiet import quiet_session
from onnx_sparse.sessions.runtime import InferenceSession
from onnx_sparse.settings import Backend
from onnx_sparse.sharding.manifest import is_split
from onnx_sparse.shown import Shown

if TYPE_CHECKING:
    from onnx_sparse.sharding.session import SplitModel

#: A part of a table.
Batch: TypeAlias = "pa.Table | pa.RecordBatch"


def feeds(
    rows: Any, model: ort.InferenceSession | Features, columns: Mapping[str, str] | None = None
) -> dict[str, Array]:
    """The inputs of a run on the rows of a table.

        inputs = onnx_sparse.arrow.feeds(pyarrow.table({"items": [[0, 1], [], [2]]}), session)

    Rows of sparse and ragged features are lists: Arrow's list, large_list, fixed_size_list, list_view and
    large_list_view, of numbers or strings, also as dictionaries. A null list is an empty one. Numbers of the model's
    element type are not copied where no list is null and a column has one chunk.

    Args:
        rows: A Table or RecordBatch, whose slices and chunks are taken as they are; or what `Features.feeds` takes.
        model: A session, or what `onnx_sparse.features` returned.
        columns: The column of each feature that has another name.

    Raises:
        ValueError: A column is missing, has another type, or has a null or a number that does not fit, with its row.
    """
    known = model if isinstance(model, Features) else features(model)
    named = {name: (columns or {}).get(name, name) for name in known}
    if unknown := [name for name in columns or {} if name not in known]:
        raise ValueError(f"the model has no feature {unknown[0]!r}; it has {listed(map(repr, known))}")
    held = _held(known, rows, named.values(), columns)
    return known.feeds(
        {name: _only_column(held, column, f"feature {name!r}: no column {column!r}") for name, column in named.items()}
    )


def _held(
    known: Features, rows: Any, wanted: Iterable[str], named: Mapping[str, str] | None
) -> Batch | Mapping[str, Any]:
    """Rows as a table, or as columns if they are not in Arrow's memory.

    Args:
        known: The features that are read.
        rows: What `Features.feeds` takes.
        wanted: The columns that are read, perhaps twice: a feature's may be kept. Their iterators become lists.
        named: The column of each feature that has another name.
    """
    rows = known.rows_in_memory(rows, named)
    if (table := table_of(rows)) is not None:
        return table
    columns = columns_of(rows)
    return {**columns, **{name: without_iterators(columns[name]) for name in {*wanted} if name in columns}}


def _only_column(batch: Batch | Mapping[str, Any], name: str, missing: str) -> Any:
    """The column of that name.

    Raises:
        ValueError: There is none, or there are several; the message begins with `missing`.
    """
    if isinstance(batch, Mapping):
        if name not in batch:
            raise ValueError(f"{missing}; columns are {_listed([*map(str, batch)])}")
        return batch[name]
    at = batch.schema.get_field_index(name)
    if at < 0:
        found = "there are several" if name in batch.schema.names else f"columns are {_listed(batch.schema.names)}"
        raise ValueError(f"{missing}; {found}")
    return batch.column(at)


class Scorer(Shown):
    """Runs a model on tables: each call returns the outputs of its rows as a table.

        scores = onnx_sparse.arrow.Scorer("model.onnx", keep=["uid"])(pyarrow.table({"uid": [7], "items": [[0, 1]]}))

    A scorer can be pickled; its session is opened where it is first called, with a thread of its own: the engine counts
    cores. `ray.data.Dataset.map_batches(scorer, batch_format="pyarrow")`, pyspark's
    `mapInArrow(scorer.map_in_arrow, schema)`, `pyarrow.dataset` and polars' `map_batches` take it as it is.

    Args:
        model: A path, also of the folder of a model that is split; the bytes of a model; a ModelProto; or
            an `onnx_sparse.ray.ShardedModel`.
        columns: The column of each feature that has another name.
        keep: The columns to keep in addition to the outputs.
        outputs: The outputs; all when omitted.
        threads: The threads of the session.
        backend: As in `onnx_sparse.InferenceSession`.
        mapping: As in `onnx_sparse.features`, for a model that does not record its features.
        check_rows: Whether to try, when the session is opened, if the answers of rows depend on the other rows of a
            batch, as engines form them; then there is a warning.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | ModelProto | SplitModel,
        *,
        columns: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        threads: int = 1,
        backend: Backend = "auto",
        mapping: Mapping[str, Mapping[str, str]] | None = None,
        check_rows: bool = True,
    ) -> None:
        for word, names in (("keep", keep), ("outputs", outputs)):
            if isinstance(names, str):
                raise TypeError(f"{word} is a list of names, not the name {names!r}")
        if isinstance(model, ModelProto):
            model = model.SerializeToString()
        self._model = str(Path(model).absolute()) if isinstance(model, (str, os.PathLike)) else model
        self._columns, self._keep = dict(columns or {}), tuple(keep)
        self._outputs, self._threads, self._backend, self._mapping = outputs, threads, backend, mapping
        self._check_rows = check_rows
        self._session: InferenceSession | SplitModel | None = None
        self._features: Features | None = None

    @property
    def _title(self) -> str:
        model = f"a model of {len(self._model):,} bytes" if isinstance(self._model, bytes) else self._model
        return f"of {model}, keeps {', '.join(self._keep)}" if self._keep else f"of {model}"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_features": None}

    def __call__(self, rows: Any) -> pa.Table:
        """The kept columns and the outputs of the rows of a table, or of what else `Features.feeds` takes.

        Raises:
            ValueError: As `feeds`; or a column to keep is missing or has the name of an output; or an output has not
                one element for each row.
            onnx_sparse.KernelError: The rows violate an operator's semantics.
        """
        session, known = self._opened()
        shapes = {output.name: output.shape for output in session.get_outputs()}
        names = chosen_outputs(self._outputs, list(shapes))
        held = _held(known, rows, [*self._keep, *self.columns.values()], self._columns)
        kept = {name: _kept(held, name, names) for name in self._keep}
        fed = feeds(held, known, self._columns)
        count = max(known.counts(fed).values(), default=1) if isinstance(held, Mapping) else held.num_rows
        results = session.run(names, fed)
        columns = {}
        for name, result in zip(names, results, strict=True):
            require_rows(name, result, count)
            columns[name] = column_of_output(result, shapes[name])
        return pa.table(kept | columns)

    @property
    def features(self) -> Features:
        """The features of the model."""
        return self._opened()[1]

    @property
    def columns(self) -> dict[str, str]:
        """The column of each feature."""
        return {name: self._columns.get(name, name) for name in self.features}

    def dependence(self, rows: Batch | None = None) -> str | None:
        """Why the answers of a row depend on the other rows of its batch; None if no generated row shows that.

        Args:
            rows: A few rows to try in addition to the generated ones.
        """
        session, known = self._opened()
        # Others are refused by the call.
        there = [value.name for value in session.get_outputs()]
        outputs = [name for name in self._outputs or there if name in there]
        if not outputs:
            return None
        reason = try_rows(session, known, outputs)[1]
        if reason is None and rows is not None and rows.num_rows > 1:
            alone = [self._named(rows.slice(row, 1)) for row in range(rows.num_rows)]
            reason = compare(session, known, self._named(rows), alone, outputs)[1]
        return reason

    def _named(self, rows: Batch) -> dict[str, Any]:
        return {name: _only_column(rows, column, "no such column") for name, column in self.columns.items()}

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The kept columns and outputs of each batch."""
        for batch in batches:
            yield from self(batch).to_batches()

    def map_in_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `batches`, for Spark's `mapInArrow`, which takes no lists of a fixed size and no large ones."""
        for batch in batches:
            scored = self(batch)
            fields = [pa.field(field.name, _with_plain_lists(field.type)) for field in scored.schema]
            yield from scored.cast(pa.schema(fields)).to_batches()

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the results for tables of a schema: found by scoring a table without rows."""
        return self(schema.empty_table()).schema

    def _open(self) -> InferenceSession | SplitModel:
        if not isinstance(self._model, (str, bytes)):
            return self._model
        if isinstance(self._model, str) and is_split(Path(self._model)):
            from onnx_sparse.sharding.session import local_session  # with all that routes, which others do not need

            return local_session(self._model, self._threads, self._backend)
        return quiet_session(self._model, self._threads, self._backend)

    def _opened(self) -> tuple[InferenceSession | SplitModel, Features]:
        if self._session is None or self._features is None:
            self._session = self._open()
            self._features = features(self._session, self._mapping)
            if self._check_rows and (reason := self.dependence()) is not None:
                warnings.warn(f"{reason}: scores depend on how rows are split into batches", stacklevel=3)
        return self._session, self._features


def _kept(held: Batch | Mapping[str, Any], name: str, outputs: Sequence[str]) -> Any:
    if name in outputs:
        raise ValueError(f"the column {name!r} has the name of an output")
    column = _only_column(held, name, f"no column {name!r} to keep")
    return arrow_column(f"column {name!r}", column) if isinstance(held, Mapping) else column


def _with_plain_lists(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_plain_lists(kind.value_type))
    return kind


def _listed(names: Sequence[str]) -> str:
    return listed(map(repr, names))
