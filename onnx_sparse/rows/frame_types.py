"""Frames and tables of other libraries for type checkers: by what only they have, as no library is imported."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Answer = TypeVar("Answer", covariant=True)


class _PandasFrame(Protocol):
    """A `pandas.DataFrame`."""

    @property
    def iloc(self) -> Any: ...
    @property
    def columns(self) -> Any: ...


class _PolarsFrame(Protocol):
    """A `polars.DataFrame`, which its lazy frames are not."""

    @property
    def height(self) -> int: ...
    @property
    def columns(self) -> Any: ...
    def to_arrow(self) -> Any: ...


class _ArrowTable(Protocol):
    """A `pyarrow.Table`, which its record batches are not."""

    @property
    def num_rows(self) -> int: ...
    def combine_chunks(self) -> Any: ...


class LazyFrame(Protocol[Answer]):
    """A `polars.LazyFrame`, whose answers are a frame of what it collects."""

    def collect(self) -> Answer:
        """Compute it."""

    def sink_parquet(self, path: Any, /) -> Any:
        """Compute it into a file."""


Frame = TypeVar("Frame", bound=_PandasFrame | _PolarsFrame | _ArrowTable)
