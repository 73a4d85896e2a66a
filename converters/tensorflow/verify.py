"""`verify`: runs a TensorFlow model and its conversion on the same inputs and compares the outputs."""

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
from onnx_sparse.converters.verification import verify as verification
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.sample_inputs import KINDS
from onnx_sparse.converters.verification.steps import COUNT, Steps, of_outputs
from onnx_sparse.schemas.states import states_of

#: Where TensorFlow's errors name the operator.
_NODE = re.compile(r"\{\{node (\S+?)\}\}")

#: Headings in TensorFlow's errors, which come before the line that says what is wrong, and the function at its end.
_HEADING = re.compile(
    r"^(Graph execution error:.*|Detected at node .*|<stack traces unavailable>|File .*|\{\{function_node .*?\}\})"
    r"| \[Op:[^\]]*\]$"
)


def verify(
    source: Any,
    model: ModelProto,
    *,
    tag: str | None = None,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    tables: Mapping[str, Array] | None = None,
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
    input_lines: dict[str, str] | None = None,
) -> list[Record]:
    """Run a source in TensorFlow and its model in ONNX Runtime on the same inputs and compare the outputs.

    What is compared how, and how inputs are generated, is said with `onnx_sparse.converters.verification.verify`.
    A model with states is run several times on each batch, from the values in the file, with the elements of the inputs
    in other places each time.

    TensorFlow runs in a process of its own if this one has not imported it, and one can be forked (Linux). Inputs
    that end that process count as refused.

    Args:
        source: As given to `convert`. A model that `load` returned is not loaded again.
        model: The model that `convert` returned.
        tag: As given to `convert`.
        signature: As given to `convert`.
        inputs: As given to `convert`.
        outputs: As given to `convert`.
        lookup_tables: As given to `convert`.
        feeds: The inputs of a single batch: the source's inputs or, for ragged features, the model's. If omitted,
            inputs are generated.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        tables: The tables that `convert` wrote next to the model.
        described_by: The model before it was lowered: its operators show the inputs' purpose.
        progress: Called with what is being run.
        input_lines: Filled with what each input was taken for when inputs were generated.

    Returns:
        One record per output.

    Raises:
        ConversionError: If the source cannot be read, or `feeds` lacks an input.
    """
    if importlib.util.find_spec("tensorflow") is None:
        require("tensorflow")  # raises
    from onnx_sparse.converters.tensorflow.load import load

    with quietly():
        loaded = load(source, tag=tag, signature=signature, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)
        described = model if described_by is None else described_by
        steps = Steps(COUNT) if states_of(model) else None
        compared = {port.name: port.dtype for port in loaded.outputs}
        if steps is not None:
            compared = {f"{k} {name}": dtype for k in range(steps.count) for name, dtype in compared.items()}
        with isolated(loaded) as run:
            records = verification.verify(
                Running(run, IntendedDifferences.of(described), steps),
                verification.Description(
                    "TensorFlow",
                    [port.name for port in loaded.inputs],
                    compared,
                    loaded.specs,
                    convolves_no_rows=False,
                    steps=None if steps is None else steps.feeds,
                ),
                model,
                feeds=feeds,
                seed=seed,
                batch_count=batch_count,
                tables=tables,
                described_by=described_by,
                progress=progress,
                input_lines=input_lines,
            )
        return records if steps is None else of_outputs(records)


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


class Running:
    """A source that runs in TensorFlow."""

    def __init__(self, run: Callable[[Any], Any], differences: IntendedDifferences, steps: Steps | None = None) -> None:
        self._run, self._differences, self._steps = run, differences, steps

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs; with states, those of several steps."""
        if self._steps is not None:
            return self._steps.run(feeds, self._run_steps)
        return [verification.as_text(value) for value in self._run(_taken(feeds))]

    def _run_steps(self, steps: Sequence[Mapping[str, Array]]) -> list[Array]:
        try:
            return [verification.as_text(value) for value in self._run([_taken(feeds) for feeds in steps])]
        except Exception as error:  # whatever TensorFlow raises
            raise self.refusal(error) from error

    def refusal(self, error: Exception) -> Refused:
        """What TensorFlow said, with the node that said it."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, ConversionError):  # TensorFlow does not load it
            raise error
        place = _NODE.search(str(error))
        reason = f"{_reason(error)}{self._differences.of_error(error)}"
        return Refused("TensorFlow", reason, place[1] if place else "")


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
