"""`verify`: runs a TensorFlow model and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from onnx_sparse.converters.tensorflow.intended_differences import IntendedDifferences
from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require
from onnx_sparse.converters.verification.batches import Refused, attempt_batches, compare_batches
from onnx_sparse.converters.verification.comparison import Record, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.ragged_inputs import RaggedInputs
from onnx_sparse.converters.verification.random_values import random_outputs
from onnx_sparse.converters.verification.sample_inputs import KINDS
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.rows.input_roles import find_roles

#: Where TensorFlow's errors name the operator.
_NODE = re.compile(r"\{\{node (\S+?)\}\}")

#: Headings in TensorFlow's errors, which come before the line that says what is wrong.
_HEADING = re.compile(
    r"^(Graph execution error:.*|Detected at node .*|<stack traces unavailable>|File .*|\{\{function_node .*?\}\})"
)


def verify(
    source: Any,
    model: ModelProto,
    *,
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
) -> list[Record]:
    """Run a source in TensorFlow and its model in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers, booleans and strings. Floats may differ by 1e-5 of their
    value (4e-3 if the model computes with float16, 3e-2 with bfloat16) plus a tenth of that fraction of the output's
    largest value. NaN equals NaN. Differences that are meant (see `intended_differences`) are noted, and count as
    equal. An output of which nothing was compared on a batch with rows is not equal, nor is one of random values, of
    which only types and shapes are compared, nor one of a source that TensorFlow refuses to run.

    ONNX Runtime runs in a process of its own where one can be forked (Linux): a model that ends it is found to differ.
    TensorFlow runs in this process.

    Args:
        source: As given to `convert`. A model that `load` returned is not loaded again.
        model: The model that `convert` returned.
        signature: As given to `convert`.
        inputs: As given to `convert`.
        outputs: As given to `convert`.
        lookup_tables: As given to `convert`.
        feeds: The inputs of a single batch, those of the source or, where features were made ragged, of the model. If
            omitted, inputs are generated: an ordinary batch, one with empty rows,
            one without entries, one of one row, one of no rows, and so on in turn. If TensorFlow refuses them, sizes
            that fit are found from its messages.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        tables: The tables that `convert` left beside the model.
        described_by: The model before it was lowered: its operators say what the inputs are for.
        progress: Called with what is being run.

    Returns:
        One record per output.

    Raises:
        ConversionError: If the source cannot be read, or `feeds` lacks an input.
    """
    require("tensorflow")
    from onnx_sparse.converters.tensorflow.load import load
    from onnx_sparse.rows.example_arrays import example_array
    from onnx_sparse.sessions.runtime import InferenceSession

    with quietly():
        loaded = load(source, signature=signature, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)
        described = model if described_by is None else described_by
        names = [port.name for port in loaded.inputs]
        ragged = RaggedInputs(described, names)
        outputs_by_type = {port.name: port.dtype for port in loaded.outputs}
        design = IntendedDifferences.of(described)
        parsed = find_roles(described).examples

        def run_source(kind: str, batch: Mapping[str, Array]) -> list[Array]:
            if progress is not None:
                progress(f"running TensorFlow on the batch {kind!r}")
            try:
                given = {name: v.astype(object) if v.dtype.type is np.void else v for name, v in batch.items()}
                return [_normal(value) for value in loaded.run(given)]
            except Exception as error:  # whatever TensorFlow's kernels raise
                place = _NODE.search(str(error))
                raise Refused(
                    "TensorFlow", f"{_reason(error)}{design.of_error(error)}", place[1] if place else ""
                ) from error

        def make_run() -> Callable[[Mapping[str, Array]], list[Array]]:
            session = InferenceSession(_with_inputs(model, tables) if tables else model)

            def run_model(batch: Mapping[str, Array]) -> list[Array]:
                messages = {name: example_array(batch[name].tolist()) for name in parsed if batch[name].dtype == object}
                fed = {**ragged.of_model(batch), **messages, **(tables or {})}
                return [_normal(value) for value in session.run(list(outputs_by_type), fed)]

            return run_model

        attempts = attempt_batches(
            ragged.as_sparse(described),
            names,
            run_source,
            feeds=None if feeds is None else ragged.of_source(feeds),
            seed=seed,
            count=batch_count,
            specs=ragged.specs(loaded.specs),
        )
        with Isolated(make_run) as run_model:
            return compare_batches(
                attempts,
                outputs_by_type,
                run_model,
                intended_differences=design.without_nan,
                computed=half_floats(described),
                random=random_outputs(described),
            )


def _with_inputs(model: ModelProto, tables: Mapping[str, Array]) -> ModelProto:
    """The model with inputs in place of initializers without data: a session copies initializers, but not inputs."""
    fed = ModelProto()
    fed.CopyFrom(model)
    initializers = {tensor.name: tensor for tensor in fed.graph.initializer}
    for name in tables:
        tensor = initializers[name]
        fed.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
        fed.graph.initializer.remove(tensor)
    return fed


def _normal(value: Array) -> Array:
    """Strings as text, where TensorFlow gives bytes."""
    if value.dtype != object and value.dtype.kind not in "SU":
        return value
    text = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in value.ravel()]
    array = np.empty(value.size, object)
    array[:] = text
    return array.reshape(value.shape)


def _reason(error: BaseException) -> str:
    """The line of an exception that says what is wrong; TensorFlow puts headings before it."""
    lines = [_HEADING.sub("", line.strip()).strip() for line in str(error).strip().splitlines()]
    return next(filter(None, lines), type(error).__name__)
