"""`verify`: runs a source and its model on the same inputs and compares the outputs, whatever the source is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from onnx_sparse.comparison import Bounds
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.verification.batches import Attempts, Refused, compare_batches, compared_batches, lacks
from onnx_sparse.converters.verification.comparison import Record, half_floats
from onnx_sparse.converters.verification.input_lines import input_lines as lines_of
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.ragged_inputs import RaggedInputs, ragged_guesses, recorded_specs
from onnx_sparse.converters.verification.random_values import random_outputs
from onnx_sparse.converters.verification.reference import Reference
from onnx_sparse.converters.verification.rounding_noise import RoundingNoise, quantizes, with_moved_weights
from onnx_sparse.converters.verification.sample_inputs import GIVEN, KINDS, Batch, Sampler
from onnx_sparse.converters.verification.settling import settle
from onnx_sparse.converters.verification.steps import COUNT, Steps, of_outputs
from onnx_sparse.models.files.large_models import whole_size
from onnx_sparse.models.graphs import needed_nodes, put_nodes
from onnx_sparse.models.tools.onnx_tools import infer_shapes
from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.states import states_of

Array = np.ndarray[Any, Any]


def verify(
    reference: Reference,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int | None = None,
    tables: Mapping[str, Array] | None = None,
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
    input_lines: dict[str, str] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_different: int = 0,
) -> list[Record]:
    """Run a source and its model in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers, booleans and strings. Floats may differ by 1e-5 of their
    value (4e-3 if the model computes with float16, 3e-2 with bfloat16) plus a tenth of that fraction of the output's
    magnitude over all batches (see `magnitude_of`). Where the rounding noise is larger, as of numbers that cancel, it
    is measured (see `RoundingNoise`), allowed and noted. NaN equals NaN. Differences that are meant, or that rounding
    explains, are counted apart and noted
    (see `intended_differences`). An output of which nothing was compared on a batch with rows is not equal, nor is one
    of random values, of which only types and shapes are compared, nor one of a source that refuses to run.

    A model with states is run several times on each batch, from the states before the first run, with the elements of
    the inputs in other places each time.

    ONNX Runtime runs in a process of its own where one can be forked (Linux): a model that ends it is found to differ.

    Args:
        reference: The source that runs.
        model: The model in the form in which it is verified.
        feeds: The inputs of a single batch, those of the source or, where features were made ragged, of the model. If
            omitted, inputs are generated: an ordinary batch, one with empty rows, one without entries, one of one row,
            one of no rows, and so on in turn.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs; one of each kind when omitted.
        tables: The data of initializers that are beside the model.
        described_by: The model before it was lowered: its operators say what the inputs are for.
        progress: Called with what is being run.
        input_lines: Filled with what each input was taken for when inputs were generated.
        atol: See `onnx_sparse.comparison.Bounds`, also for the next two: what is allowed instead of the tolerances and
            of the noise.
        rtol: See `atol`.
        max_different: See `atol`.

    Returns:
        One record per output.

    Raises:
        ConversionError: `feeds` lacks an input, or has a state.
    """
    bounds = Bounds(atol, rtol, max_different)
    described = model if described_by is None else described_by
    states = states_of(model)
    if given := sorted({state.past for state in states} & (feeds or {}).keys()):
        raise ConversionError(f"{given[0]} cannot be given: verification begins with the values before the first run")
    steps = Steps(COUNT) if states else None
    outputs = reference.outputs if steps is None else steps.outputs(reference.outputs, reference.presents)
    sampled = without_states(described)
    ragged = RaggedInputs(sampled, reference.inputs)

    def run_steps(feeds: Sequence[Mapping[str, Array]]) -> list[Array]:
        try:
            return [*reference.run_steps(feeds)]
        except Exception as error:  # whatever the program raises
            raise reference.refusal(error) from error

    def run_reference(batch: Mapping[str, Array]) -> list[Array]:
        return [as_text(value) for value in (steps.run(batch, run_steps) if steps else reference.run(batch))]

    def attempt(kind: str, batch: Mapping[str, Array]) -> Sequence[Array]:
        if progress is not None:
            progress(f"running {reference.program} on the batch {kind!r}")
        try:
            return run_reference(batch)
        except Refused:
            raise
        except Exception as error:  # whatever the program raises
            raise reference.refusal(error) from error

    def in_child(of: ModelProto) -> Isolated:
        return Isolated(lambda: _runner(of, ragged, tables, outputs, reference.config))

    computed = half_floats(described)
    with ExitStack() as opened, in_child(described) as probed, in_child(model) as run_model:

        def probe(names: Sequence[str], batch: Mapping[str, Array]) -> Sequence[Array]:
            values: Sequence[Array] = probed((tuple(names), batch))
            return values

        sampler = Sampler(ragged.as_sparse(sampled), ragged.specs(reference.specs))
        attempts = Attempts(sampler, attempt, seed, reference.layout)
        if feeds is None:
            settle(sampler, probe, seed)
            count = len(KINDS) if batch_count is None else batch_count
            attempted = attempts.some(count)
            for specs in ragged_guesses(sampler) if lacks(attempted) else ():
                guess = Sampler(sampler.model, specs)
                tries = Attempts(guess, attempt, seed, reference.layout)
                if not tries.of_rows(None).is_compared:
                    continue
                if compared_batches(tried := tries.some(count)) > compared_batches(attempted):
                    sampler, attempted = guess, tried
                    break
            if input_lines is not None:
                input_lines.update(lines_of(sampler))
        else:
            attempted = [attempts.of(_given(ragged.of_source(feeds), reference.inputs))]

        def run(child: Isolated, batch: Mapping[str, Array]) -> Sequence[Array]:
            results: Sequence[Array] = child((tuple(outputs), steps.feeds(batch) if steps else batch))
            return results

        def with_other_weights() -> list[Callable[[Mapping[str, Array]], Sequence[Array]]]:
            others = with_moved_weights(model, computed)
            return [partial(run, opened.enter_context(in_child(other))) for other in others]

        numbers = sampler.values_of.constraints.numbers.values()
        records = compare_batches(
            attempted,
            outputs,
            partial(run, run_model),
            differences=IntendedDifferences.of(
                described, probe, convolves_no_rows=reference.convolves_no_rows, declared=reference.shapes
            ),
            computed=computed,
            random=random_outputs(described),
            source_checks=reference.checks_sizes,
            guards=reference.guard,
            repaired=None if steps else reference.repaired,
            bounds=bounds,
            noise=RoundingNoise(
                run_reference,
                partial(run, run_model),
                with_other_weights,
                kept=[number for some in numbers for number in some],
                computed=computed,
                has_steps=quantizes(model),
            ),
        )
    return [reference.explained(record) for record in (of_outputs(records) if steps else records)]


def example_inputs(model: ModelProto, *, seed: int = 0, tables: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Inputs for one run of a model, as they are made for verification: an ordinary batch.

    Args:
        model: A model before it is lowered: its operators say what the inputs are for.
        seed: The same seed gives the same inputs.
        tables: The data of initializers that are beside the model.

    Returns:
        One array per input; strings as objects of type str, messages as objects of type `Message`.
    """
    (feeds,) = example_batches(model, (None,), seed=seed, tables=tables)
    return feeds


def example_batches(
    model: ModelProto, rows: Sequence[int | None], *, seed: int = 0, tables: Mapping[str, Array] | None = None
) -> list[dict[str, Array]]:
    """Inputs for several runs of a model: ordinary batches of these numbers of rows, None for a few.

    A model that states its number of rows gets that number. Otherwise as `example_inputs`.
    """
    names = [value.name for value in model.graph.input]
    ragged = RaggedInputs(model, names)
    sampler = Sampler(model, recorded_specs(model))
    outputs = [value.name for value in model.graph.output]
    with Isolated(lambda: _runner(model, ragged, tables, outputs)) as run:

        def run_model(kind: str, batch: Mapping[str, Array]) -> Sequence[Array]:
            try:
                results: Sequence[Array] = run((tuple(outputs), batch))
            except Exception as error:  # whatever ONNX Runtime raises
                raise Refused("ONNX Runtime", str(error)) from error
            return results

        settle(sampler, lambda names, batch: run((tuple(names), batch)), seed)
        attempts = Attempts(sampler, run_model, seed)
        attempts.some(1)
        return [attempts.of_rows(count).batch.feeds for count in rows]


def _given(feeds: Mapping[str, Array], inputs: Sequence[str]) -> Batch:
    """The batch that is given.

    Raises:
        ConversionError: An input is missing.
    """
    if missing := [name for name in inputs if name not in feeds]:
        raise ConversionError(f"no value is given for input {', '.join(missing)}")
    return Batch(GIVEN, dict(feeds))


def without_states(model: ModelProto) -> ModelProto:
    """The model, for the choice of inputs: without those of its states."""
    pasts = {state.past for state in states_of(model)}
    if not pasts:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    kept = [value for value in made.graph.input if value.name not in pasts]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    return made


def _runner(
    model: ModelProto,
    ragged: RaggedInputs,
    tables: Mapping[str, Array] | None,
    compared: Collection[str],
    config: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[tuple[tuple[str, ...], Any]], list[Array]]:
    """Runs a model on the inputs of its source, and returns the tensors that are asked for, whichever they are.

    A model with states is given the inputs of several steps, in a list; other tensors than its outputs are those of a
    first step.
    """
    from onnxruntime import SessionOptions

    from onnx_sparse.rows.example_arrays import example_array
    from onnx_sparse.sessions.runtime import InferenceSession
    from onnx_sparse.sessions.stateful import StatefulSession

    messages = find_roles(model).examples
    whole = _with_inputs(model, tables) if tables else model
    outputs = {value.name for value in model.graph.output}
    sessions: dict[tuple[str, ...], Any] = {}

    def session_for(names: tuple[str, ...]) -> Any:
        if outputs.issuperset(names):
            names = ()
        if names not in sessions:
            options = SessionOptions()
            for key, value in config.items():
                options.add_session_config_entry(key, value)
            sessions[names] = InferenceSession(_giving(whole, names) if names else whole, options)
        return sessions[names]

    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    first = {state.past: state.initial(numpy_dtype(types[state.past])) for state in states_of(model)}

    def run_steps(steps: list[Mapping[str, Array]]) -> list[Array]:
        stateful = StatefulSession(session_for(()))
        results = [as_text(np.asarray(value)) for step in steps for value in stateful.run(None, step)]
        return [*results, *stateful.get_states().values()][: len(compared)]

    def run(asked: tuple[tuple[str, ...], Any]) -> list[Array]:
        names, batch = asked
        if isinstance(batch, list):
            return run_steps(batch)
        session = session_for(names)
        taken = {value.name for value in session.get_inputs()}
        fed = {**ragged.of_model(batch), **(tables or {}), **first}
        fed |= {name: example_array(fed[name].tolist()) for name in messages if fed[name].dtype == object}
        given = {name: value for name, value in fed.items() if name in taken}
        return [as_text(np.asarray(value)) for value in session.run(list(names), given)]

    return run


def _giving(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with other outputs, and only with the nodes that these need: ONNX Runtime would run the others, too."""
    other = ModelProto()
    other.CopyFrom(model)
    missing = {*names} - {value.name for value in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    if missing and whole_size(model) < 1 << 30:
        other = infer_shapes(other)
    known: dict[str, ValueInfoProto] = {v.name: v for v in (*other.graph.value_info, *other.graph.output)}
    del other.graph.output[:]
    other.graph.output.extend(known.get(name, ValueInfoProto(name=name)) for name in names)
    put_nodes(other.graph, needed_nodes(other.graph.node, names))
    return other


def _with_inputs(model: ModelProto, tables: Mapping[str, Array]) -> ModelProto:
    """The model with inputs in place of initializers without data: a session copies initializers, but not inputs."""
    fed = ModelProto()
    fed.CopyFrom(model)
    initializers = {tensor.name: tensor for tensor in fed.graph.initializer}
    for name in tables:
        tensor = initializers.get(name)
        if tensor is not None:
            fed.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
            fed.graph.initializer.remove(tensor)
    return fed


def as_text(value: Array) -> Array:
    """An array with strings as text, where a program gives bytes; another one as it is."""
    if value.dtype != object and value.dtype.kind not in "SU":
        return value
    text = [item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item) for item in value.ravel()]
    array = np.empty(value.size, object)
    array[:] = text
    return array.reshape(value.shape)
