"""A model whose tables are changed: its tables, what they hold and where they lie, and what writes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from onnx_sparse.commands.description.embedding_tables import Table, table_named, tables_of
from onnx_sparse.commands.inputs.model_graph import other_domains
from onnx_sparse.commands.table_updates.keys import Keys
from onnx_sparse.converters.rewriting.well_formed import lacks_inputs
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.new_file import state_of
from onnx_sparse.files.ranges import FileRange, StoredFile, bytes_of
from onnx_sparse.models.data.references import byte_size, data_of, is_reference
from onnx_sparse.models.data.wire_format import write_whole
from onnx_sparse.models.files.data_parts import location, parts_of
from onnx_sparse.models.files.external_data import data_file, is_used_by_another
from onnx_sparse.models.files.load_and_save import load_model, writer
from onnx_sparse.models.graphs import all_tensors, array_of, graphs, names_of
from onnx_sparse.models.tables.key_flows import ModelReads, integer_of
from onnx_sparse.models.tables.live_tables import LiveTable, live_table, newer_positions
from onnx_sparse.models.tools.opsets import default_opset
from onnx_sparse.schemas.declaration import element_type, numpy_dtype

if TYPE_CHECKING:
    from onnx_sparse.models.files.external_data import Write

Array = np.ndarray[Any, Any]


class OpenedModel:
    """A model whose tables are changed.

    Attributes:
        path: Its file.
        model: It; its tables stay where they lie.
        state: The `state_of` the file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.state, self.model = path, state_of(path), load_model(path)
        try:
            opset = default_opset(self.model)
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from error
        for graph in graphs(self.model.graph):
            for node in graph.node:
                if not node.output or lacks_inputs(node, opset):
                    raise CommandError(f"{path}: a node of type {printable(node.op_type)} lacks inputs or outputs")
                for name in (node.op_type, node.domain, node.name, *node.input, *node.output):
                    if not isinstance(name, str):
                        raise CommandError(f"{path}: the name {printable(name)} is not UTF-8")
        self._tensors = {tensor.name: tensor for tensor in self.model.graph.initializer}

    def live(self, name: str) -> tuple[Table, LiveTable]:
        """A table, and how its rows are found.

        Raises:
            CommandError: There is no such table, or it cannot be updated.
        """
        table = table_named(self.model, self.path, name)
        return table, self._live(table)

    @cached_property
    def _reads(self) -> ModelReads:
        return ModelReads(self.model)

    def _live(self, table: Table) -> LiveTable:
        more = [table.scale_bias] if table.bits else []
        if table.bits and table.scale_bias not in self._tensors:
            raise CommandError(
                f"table {printable(table.tensor.name)} cannot be updated: its scales and biases are computed"
            )
        return live_table(self._reads, [table.tensor, *(self._tensors[each] for each in more)])

    def tables(self) -> Iterator[LiveTable]:
        """The tables that can be updated."""
        for table in tables_of(self.model):
            with contextlib.suppress(CommandError):  # another one holds what its file does
                yield self._live(table)

    def updated(self) -> list[LiveTable]:
        """The tables that were updated since they were written as a whole."""
        newer = newer_positions(self.model)
        named = [table for table in tables_of(self.model) if table.tensor.name in newer]
        return [live for live in map(self._live, named) if live.is_updated]

    def file_range(self, tensor: TensorProto, *, checked: bool = False) -> FileRange | None:
        """Where the data of a tensor are in a file next to the model; None if they are in the model.

        A file that is `checked` is compared with its checksums when its data are written elsewhere.

        Raises:
            CommandError: The file is missing or too short.
        """
        file = data_file(self.path, tensor)
        if file is None:
            return None
        offset, size = self.place(tensor)
        try:
            parts = parts_of(self.model).get(location(tensor)["location"], ()) if checked else ()
            stored = StoredFile.of(file, parts=parts)
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror or error}") from None
        if offset > stored.size - size:
            raise CommandError(f"{file} is too short for tensor {printable(tensor.name)}")
        return FileRange(stored, offset, size)

    def place(self, tensor: TensorProto) -> tuple[int, int]:
        """Where the data of a tensor begin in their file, and how many bytes these are.

        Raises:
            CommandError: The model says no such place.
        """
        size, offset = byte_size(tensor), location(tensor).get("offset", "0")
        if size is None or not (offset.isascii() and offset.isdecimal()):
            raise CommandError(f"{self.path}: tensor {printable(tensor.name)} has no legal offset or type")
        return int(offset), size

    def content(self, tensor: TensorProto) -> Any:
        """The data of a tensor, to be written elsewhere."""
        found = self.file_range(tensor, checked=True)
        if found is not None:
            return found
        return data_of(tensor) if is_reference(tensor) else bytes_of(self._value(tensor))

    def _value(self, tensor: TensorProto) -> Array:
        try:
            return array_of(tensor)
        except Exception as error:  # it raises whatever numpy does
            raise CommandError(f"{self.path}: tensor {printable(tensor.name)} is malformed: {error}") from None

    def array(self, name: str) -> Array:
        """The value of an initializer, mapped if it is in a file."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise CommandError(f"{self.path}: {printable(name)} is not an initializer")
        found = self.file_range(tensor)
        if found is None:
            return self._value(tensor)
        shape, dtype = tuple(tensor.dims), numpy_dtype(tensor.data_type)
        return found.mapped(dtype, shape) if found.length else np.zeros(shape, dtype)

    def put(self, name: str, array: Array) -> TensorProto:
        """Give an initializer a value."""
        tensor: TensorProto = next(each for each in self.model.graph.initializer if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(array), name))
        return tensor

    def newer(self, live: LiveTable) -> tuple[Keys, Array]:
        """The newer keys of a table, and where their rows are; -1 of keys that are deleted.

        Raises:
            CommandError: There are not as many of both, or rows that the table does not have.
        """
        *names, _, positions = live.newer
        keys, rows = self.keys(names), np.asarray(self.array(positions))
        rows = np.where(rows < 0, -1, rows + live.shift)
        if rows.shape != (len(keys),) or (rows >= live.tensors[0].dims[0]).any():
            raise CommandError(f"{self.path}: {printable(positions)} are not the rows of the newer keys of {live.name}")
        return keys, rows

    def declare(self, name: str, array: Array) -> TensorProto:
        """Give an initializer the type and shape of an array, but no value."""
        tensor = self.put(name, np.empty(0, array.dtype))
        tensor.dims[:] = array.shape
        return tensor

    def add(self, name: str, array: Array) -> str:
        """Add an initializer, under that name or one like it."""
        fresh = str(names_of(self.model).fresh(name))
        self.model.graph.initializer.append(numpy_helper.from_array(array, fresh))
        return fresh

    def integer(self, name: str) -> int | None:
        """The value of an initializer of one integer."""
        return integer_of(name, self._tensors)

    def keys(self, names: Sequence[str]) -> Keys:
        """Keys, by the names of their tensors."""
        return Keys(tuple(map(self.array, names)))

    def is_growing(self, tensor: TensorProto) -> bool:
        """Whether rows can be added to a tensor where it is: it is the last one in a file of this model only."""
        found = self.file_range(tensor)
        if found is None:
            return False
        name, end = location(tensor)["location"], found.offset + found.length
        for other in all_tensors(self.model):
            if other is not tensor and location(other).get("location") == name:
                first, size = self.place(other)
                if first >= end or first + size > end:
                    return False
        # Another model may have a checksum of the whole file, which would no longer be true.
        return "checksum" not in location(tensor) or not is_used_by_another(Path(found.file.path), self.path)


def opening_writer(path: Path) -> Write:
    """What writes a model into such a file, and refuses it, before it has its name, if no session opens it.

    Raises:
        CommandError: ONNX Runtime's error, with which the command ends.
    """
    write = writer(path)

    def written(model: ModelProto, file: BinaryIO) -> int:
        from onnx_sparse.sessions.quiet import quiet_options
        from onnx_sparse.sessions.runtime import InferenceSession

        size = write(model, file)
        file.flush()
        if write is write_whole and not other_domains(model):  # whose operators need a library that only the user knows
            try:
                InferenceSession(
                    file.name, quiet_options(), ["CPUExecutionProvider"]
                )  # without another try, and its words
            except Exception as error:  # ONNX Runtime's have no common class
                raise CommandError(f"{path} cannot be changed: the new model does not open: {error}") from error
        return size

    return written


def key_type(opened: OpenedModel, live: LiveTable) -> int:
    """The element type of the keys of a table, or of its row numbers."""
    if not live.finds:
        return int(TensorProto.INT64)
    keys = opened.keys(live.keys[:-1])
    return int(TensorProto.STRING) if keys.is_text else element_type(keys.arrays[0].dtype)
