"""A TensorFlow model that runs, to be compared with its conversion."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.errors_in_order import run_in_order
from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require
from onnx_sparse.converters.tensorflow.source import Source
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.reference import Reference

#: Where TensorFlow's errors name the operator.
_NODE = re.compile(r"\{\{node (\S+?)\}\}")

#: Headings in TensorFlow's errors, which come before the line that says what is wrong, and the function at its end.
_HEADING = re.compile(
    r"^(Graph execution error:.*|Detected at node .*|<stack traces unavailable>|File .*|\{\{function_node .*?\}\})"
    r"| \[Op:[^\]]*\]$"
)


class TensorFlowReference(Reference):
    """A model that runs in TensorFlow.

    Args:
        loaded: The model.
        run: Runs it on inputs, or in steps on a list of them.
        described: What it was converted to, before that was lowered.
    """

    program = "TensorFlow"
    convolves_no_rows = False

    def __init__(self, loaded: Source, run: Callable[[Any], list[Array]], described: ModelProto) -> None:
        self.inputs = [port.name for port in loaded.inputs]
        self.outputs = {port.name: port.dtype for port in loaded.outputs}
        self.shapes = {port.name: port.shape for port in loaded.outputs}
        self.specs = loaded.specs
        self._run, self._differences = run, IntendedDifferences.of(described)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs."""
        return self._run(_taken(feeds))

    def run_steps(self, steps: Sequence[Mapping[str, Array]]) -> list[Array]:
        """The outputs of several runs."""
        return self._run([_taken(feeds) for feeds in steps])

    def refusal(self, error: Exception) -> Refused:
        """What TensorFlow said, with the node that said it."""
        if isinstance(error, ConversionError):  # TensorFlow does not load it
            raise error
        place = _NODE.search(str(error))
        reason = f"{_reason(error)}{self._differences.of_error(error)}"
        return Refused(self.program, reason, place[1] if place else "")


@contextmanager
def reference(loaded: Source, described: ModelProto) -> Iterator[TensorFlowReference]:
    """A model in TensorFlow.

    It runs in a process of its own if this one has not imported TensorFlow, and one can be forked (Linux). Inputs
    that end that process count as refused.

    Args:
        loaded: The model.
        described: What it was converted to, before that was lowered.

    Raises:
        MissingPackageError: TensorFlow is not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        require("tensorflow")  # raises
    with quietly(), isolated(loaded) as run:
        yield TensorFlowReference(loaded, run, described)


@contextmanager
def isolated(source: Source) -> Iterator[Callable[[Any], list[Array]]]:
    """Run a source in a process of its own; not where TensorFlow is already: its threads are not forked with it."""

    def run_any(feeds: Any) -> list[Array]:
        return source.run_steps(feeds) if isinstance(feeds, list) else source.run(feeds)

    if "tensorflow" in sys.modules:
        yield partial(run_in_order, run_any)
        return

    def run(feeds: Any) -> list[Array]:
        try:
            return run_in_order(run_any, feeds)
        except ConversionError:
            raise
        except Exception as error:  # whatever TensorFlow raises; to receive its exceptions is to import it
            raise RuntimeError(str(error)) from error

    with Isolated(lambda: run) as isolated:
        yield isolated


def _taken(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Inputs as TensorFlow takes them."""
    return {name: _as_bytes(array) for name, array in feeds.items()}


def _as_bytes(array: Array) -> Array:
    """Strings as TensorFlow takes them, of any bytes; a surrogate in text stands for a byte that is not UTF-8."""
    if array.dtype.type is np.void:
        return array.astype(object)
    if array.dtype.kind not in "OU":
        return array
    strings = np.empty(array.shape, object)
    strings.reshape(-1)[:] = [s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s for s in array.flat]
    return strings


def _reason(error: BaseException) -> str:
    """The line of an exception that says what is wrong; TensorFlow puts headings before it."""
    lines = [_HEADING.sub("", line.strip()).strip() for line in str(error).strip().splitlines()]
    return next(filter(None, lines), type(error).__name__)
