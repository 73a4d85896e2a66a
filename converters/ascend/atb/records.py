"""A dump's records of the tensors of operations: element types, formats, shapes and the files with the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from onnx_sparse.converters.ascend.atb.graph import NodePath
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.schemas.declaration import DType


@dataclass(frozen=True)
class TensorPlace:
    """A tensor by the operation that read or wrote it.

    Attributes:
        ids: The ids of the enclosing layer and graphs, outermost first, then of the operation.
        side: `in` or `out`.
        index: Its position among the operation's inputs or outputs.
    """

    ids: tuple[int, ...]
    side: str
    index: int


@dataclass(frozen=True)
class TensorRecord:
    """One tensor; None for whatever the dump does not say.

    Attributes:
        dtype: Its element type.
        format: Its format: `ND`, `FRACTAL_NZ`.
        shape: Its shape.
        file: The file with its data.
        copy_of: The tensor under which the tool has saved the data, if that is not this one.
        error: Why its file cannot be read.
    """

    dtype: DType | None = None
    format: str | None = None
    shape: Shape | None = None
    file: Path | None = None
    copy_of: TensorPlace | None = None
    error: str = ""


@dataclass(frozen=True)
class OperationRecord:
    """The tensors of one operation.

    Attributes:
        inputs: The tensors it read, before it ran.
        outputs: The tensors it wrote, after it ran.
        soc: The chip, from `SocVersion` in a csv.
        param: Its parameters from op_param.json.
        updated: The tensors it read, after it ran; some tools write them for operations that write in place.
        param_error: Why its op_param.json cannot be read.
    """

    inputs: tuple[TensorRecord | None, ...] = ()
    outputs: tuple[TensorRecord | None, ...] = ()
    soc: str = ""
    param: object = None
    updated: tuple[TensorRecord | None, ...] = ()
    param_error: str = ""

    @property
    def errors(self) -> Iterator[str]:
        """What cannot be read."""
        for tensor in (*self.inputs, *self.outputs, *self.updated):
            if tensor is not None and tensor.error:
                yield tensor.error
        if self.param_error:
            yield self.param_error


@dataclass
class Records:
    """The operations of a dump, by their position in the graph and by name.

    Attributes:
        by_path: From the folders of tensors.
        by_name: From a csv, by `opName`.
        root: The folder from which files may be read.
    """

    by_path: dict[NodePath, OperationRecord] = field(default_factory=dict)
    by_name: dict[str, OperationRecord] = field(default_factory=dict)
    root: Path | None = None

    def of(self, path: NodePath, name: str) -> OperationRecord:
        """The record of an operation from its folder, completed from the csv."""
        there, listed = self.by_path.get(path, OperationRecord()), self.by_name.get(name, OperationRecord())
        return OperationRecord(
            _merged(there.inputs, listed.inputs),
            _merged(there.outputs, listed.outputs),
            there.soc or listed.soc,
            there.param if there.param is not None else listed.param,
            there.updated,
            there.param_error,
        )


def _merged(
    first: tuple[TensorRecord | None, ...], second: tuple[TensorRecord | None, ...]
) -> tuple[TensorRecord | None, ...]:
    longest = max(len(first), len(second))
    pairs = zip(first + (None,) * (longest - len(first)), second + (None,) * (longest - len(second)), strict=True)
    return tuple(one if one is not None else other for one, other in pairs)
