"""`convert --tables`: smaller tables, and how far from the source's answers they lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict

from onnx_sparse.errors import CommandError

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.verification.comparison import Record
    from onnx_sparse.models.tables.quantization import TableChange


class Distance(TypedDict):
    """How far the answers of one output are apart."""

    output: str
    max_abs: float | None
    max_rel: float | None
    rms: float | None


class Tables(TypedDict):
    """The tables that became smaller, and what difference that makes; None if that was not tried."""

    format: str
    changed: Sequence[Mapping[str, Any]]
    distance: Sequence[Distance] | None


class SmallerTables:
    """A model whose tables are smaller.

    Attributes:
        model: The model.
        changes: What became of each table.
        distances: What a verification says about it, which is no failure: its answers differ.
    """

    def __init__(self, model: ModelProto, format: str) -> None:
        """Make the tables of a model smaller.

        Raises:
            CommandError: A table cannot be.
        """
        from onnx_sparse.models.tables.quantization import quantize_tables

        self._format = format
        self.changes: list[TableChange] = []
        try:
            self.model = quantize_tables(model, format, explain=self.changes.append)
        except ValueError as error:
            raise CommandError(error) from error
        self.distances: Sequence[Record] | None = None

    def document(self) -> Tables:
        """A part of `--json`'s document."""
        distances = self.distances
        return {
            "format": self._format,
            "changed": [asdict(change) for change in self.changes],
            "distance": None if distances is None else [self.distance(record) for record in distances],
        }

    @staticmethod
    def distance(record: Record) -> Distance:
        """How far the answers of one output are apart."""
        return {"output": record.output, "max_abs": record.max_abs, "max_rel": record.max_rel, "rms": record.rms}
