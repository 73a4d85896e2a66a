"""A torch model as the converter and its verification see it."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.lazy_imports import quietly, require
from onnx_sparse.files.guarded_files import open_file, require_harmless_archive


@dataclass(frozen=True)
class Source:
    """A program of torch, and what runs it.

    Attributes:
        program: The `torch.export.ExportedProgram`.
        module: Runs it in torch: the module that was exported, or the program itself.
        name: Its name in messages.
    """

    program: Any
    module: Callable[..., Any]
    name: str

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are tensors, or numbers with a dynamic value, in order."""
        return [argument.name for argument in self.arguments if not hasattr(argument, "value")]

    @property
    def dynamic_sizes(self) -> list[tuple[str, int]]:
        """The input and axis of each size that is not constant."""
        values = {node.name: node.meta.get("val") for node in self.program.graph.nodes if node.op == "placeholder"}
        return [
            (name, axis)
            for name in self.inputs
            for axis, size in enumerate(getattr(values.get(name), "shape", ()))
            if not isinstance(size, int) and not size.node.expr.is_number
        ]

    @property
    def output_dtypes(self) -> list[int | None]:
        """ONNX's number of the element type of each output, in order; None for one that is no tensor but a number."""
        torch, program = require("torch"), self.program
        kinds = require("torch.export.graph_signature").OutputKind
        results = zip(program.graph_signature.output_specs, program.graph.output_node().args[0], strict=True)
        values = [node.meta["val"] for spec, node in results if spec.kind == kinds.USER_OUTPUT and node is not None]
        return [
            np_dtype_to_tensor_dtype(to_numpy(torch.empty(0, dtype=value.dtype)).dtype)
            if isinstance(value, torch.Tensor)
            else None
            for value in values
        ]

    @property
    def arguments(self) -> list[Any]:
        """The arguments of the program; those with a value have that value whenever it runs."""
        kinds = require("torch.export.graph_signature").InputKind
        return [spec.arg for spec in self.program.graph_signature.input_specs if spec.kind == kinds.USER_INPUT]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs, in order, for a batch of inputs.

        Raises:
            Exception: Whatever torch raises if it refuses the batch.
        """
        return self._run(self.module, feeds)

    def guard(self, feeds: Mapping[str, Array]) -> str:
        """Why the program refuses a batch that the module takes, in one line; empty if it takes it."""
        try:
            self._run(self.program.module(), feeds)
        except Exception as error:  # whatever torch raises
            return first_line(error)
        return ""

    def _run(self, module: Callable[..., Any], feeds: Mapping[str, Array]) -> list[Array]:
        torch = require("torch")
        pytree = torch.utils._pytree
        given = [
            argument.value if hasattr(argument, "value") else to_torch(feeds[argument.name])
            for argument in self.arguments
        ]
        positional, named = pytree.tree_unflatten(given, self.program.call_spec.in_spec)
        with torch.no_grad():
            made = module(*positional, **named)
        # Numbers that depend on the inputs are outputs, too: sizes, which are int64, and elements, float32 or bool.
        return [to_numpy(torch.as_tensor(value)) for value in pytree.tree_leaves(made) if value is not None]


def load(source: Any) -> Source:
    """A program from a file or in memory.

    Args:
        source: A `.pt2` file that `torch.export.save` wrote, or an ExportedProgram.

    Raises:
        ConversionError: torch is not installed, the file cannot be read, or the program is a draft with guesses.
    """
    torch = require("torch")
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            _require_whole(path)
            with quietly():
                program = torch.export.load(path)
                return Source(program, program.module(), path.name)
        except ConversionError:
            raise
        except Exception as error:  # whatever torch raises for a file that is not one
            raise ConversionError(f"{path} cannot be read as an ExportedProgram: {first_line(error)}") from error
    if isinstance(source, torch.export.ExportedProgram):
        _refuse_guesses(source)
        return Source(source, source.module(), "the program")
    raise ConversionError(
        f"an object of type {type(source).__name__} is not a path or ExportedProgram; `export` takes a Module"
    )


def _require_whole(path: Path) -> None:
    """Refuse an archive of which a member does not have its checksum: torch does not compare them.

    Raises:
        ConversionError: A member is damaged.
        OSError: The file is not read, or would fill the memory.
    """
    require_harmless_archive(path)
    with open_file(path) as file:
        if zipfile.is_zipfile(file):
            try:
                damaged = zipfile.ZipFile(file).testzip()
            except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, zlib.error) as error:
                raise ConversionError(f"{path} is damaged: {first_line(error)}") from error
            if damaged is not None:
                raise ConversionError(f"{path} is damaged: {damaged} does not have its checksum")


def _refuse_guesses(program: Any) -> None:
    """Refuse a draft that is right only for inputs whose values decide as the example's do.

    Raises:
        ConversionError: torch.export.draft_export could not know a value that the module branches on.
    """
    failures = getattr(getattr(program, "_report", None), "failures", ())
    guesses = [str(f.data.get("expr", "")) for f in failures if f.failure_type.name == "DATA_DEPENDENT_ERROR"]
    if guesses:
        raise ConversionError(
            f"the program is a draft that takes {', '.join(guesses)} of the example for that of every input; state it "
            "with torch._check, or branch with torch.cond, and export with torch.export.export"
        )


def to_torch(array: Array) -> Any:
    """An array as a tensor of its own memory."""
    torch = require("torch")
    copy = np.array(array)
    if copy.dtype.name == "bfloat16":
        return torch.from_numpy(copy.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(copy)


def to_numpy(tensor: Any) -> Array:
    """A tensor as an array."""
    torch = require("torch")
    found = tensor.detach().cpu()
    if found.dtype == torch.bfloat16:
        from ml_dtypes import bfloat16

        array: Array = found.contiguous().view(torch.uint16).numpy().view(bfloat16)
        return array
    result: Array = found.numpy()
    return result
