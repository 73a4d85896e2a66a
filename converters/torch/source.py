"""A torch model as the converter and its verification see it."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.lazy_imports import quietly, require
from onnx_sparse.converters.torch.running import Runner
from onnx_sparse.converters.torch.state import State, state_of
from onnx_sparse.converters.verification.isolation import CAN_FORK, Isolated
from onnx_sparse.files.guarded_files import open_file, require_harmless_archive


@dataclass(frozen=True)
class Source:
    """A program of torch.

    It is what runs in torch, and never the module that was exported: that belongs to the caller.

    Attributes:
        program: The `torch.export.ExportedProgram`.
        name: Its name in messages.
    """

    program: Any
    name: str

    @cached_property
    def state(self) -> State:
        """What its calls change."""
        return state_of(self.program)

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
        """The outputs, in order, for a batch of inputs, also where the program's conditions on sizes do not hold.

        Raises:
            Exception: Whatever torch raises if it refuses the batch.
        """
        positional, named = self._given(feeds)
        made = self._runner(*positional, **named)
        # Numbers that depend on the inputs are outputs, too: sizes, which are int64, and elements, float32 or bool.
        torch = require("torch")
        leaves = torch.utils._pytree.tree_leaves(made)
        return [to_numpy(torch.as_tensor(value)) for value in leaves if value is not None]

    def guard(self, feeds: Mapping[str, Array]) -> str:
        """Why the program does not hold for a batch with which its model fails, in one line; empty if it does.

        Its conditions refuse the sizes, or a tensor has another form than when it was traced; see `Runner`.
        """
        return self._guard(feeds, sizes=True)

    def guard_of_answer(self, feeds: Mapping[str, Array]) -> str:
        """As `guard`, for a batch of which the model has another answer: constant sizes are no excuse for that."""
        return self._guard(feeds, sizes=False)

    def _guard(self, feeds: Mapping[str, Array], *, sizes: bool) -> str:
        positional, named = self._given(feeds)
        try:
            Runner(self.program, self.state, guarded=True)(*positional, **named)
            return self._runner.contradiction(*positional, sizes=sizes, **named)
        except Exception as error:  # whatever torch raises
            return first_line(error)

    @contextmanager
    def isolated(self) -> Iterator[IsolatedSource]:
        """The source, running in a process of its own: it may end that, and fill its memory.

        Where processes cannot be forked, it runs in this one.
        """
        with Isolated(self._serve) as run:
            yield IsolatedSource(self, run)

    def _serve(self) -> Any:
        if CAN_FORK:  # the threads of the parent are not there
            require("torch").set_num_threads(1)
        return lambda call: getattr(self, call[0])(call[1])

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.program, self.state)

    def _given(self, feeds: Mapping[str, Array]) -> Any:
        given = [
            argument.value if hasattr(argument, "value") else to_torch(feeds[argument.name])
            for argument in self.arguments
        ]
        return require("torch").utils._pytree.tree_unflatten(given, self.program.call_spec.in_spec)


@dataclass(frozen=True)
class IsolatedSource:
    """A source, and what calls it in its process."""

    source: Source
    call: Isolated

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """As `Source.run`; a process that has ended is an error like others."""
        results: list[Array] = self.call(("run", feeds))
        return results

    def guard(self, feeds: Mapping[str, Array]) -> str:
        """As `Source.guard`."""
        return str(self.call(("guard", feeds)))

    def guard_of_answer(self, feeds: Mapping[str, Array]) -> str:
        """As `Source.guard_of_answer`."""
        return str(self.call(("guard_of_answer", feeds)))


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
                return Source(program, path.name)
        except ConversionError:
            raise
        except OSError as error:
            raise ConversionError(f"{path} cannot be read: {error.strerror or error}") from error
        except Exception as error:  # whatever torch raises for a file that is not one
            raise ConversionError(f"{path} cannot be read as an ExportedProgram: {first_line(error)}") from error
    if isinstance(source, torch.export.ExportedProgram):
        _refuse_guesses(source)
        return Source(source, "the program")
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
