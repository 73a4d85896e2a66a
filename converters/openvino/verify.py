"""`verify`: runs an IR in OpenVINO and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto

from onnx_sparse.converters.errors import ConversionError, require
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of
from onnx_sparse.converters.openvino.steps import COUNT, Steps, of_outputs, without_states
from onnx_sparse.converters.verification.batches import Refused, attempt_batches, compare_batches
from onnx_sparse.converters.verification.comparison import Record, Verdict
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.schemas.states import states_of

#: Without these, OpenVINO chooses another precision for speed, and rounds what is multiplied by compressed weights, and
#: the caches of decoders, to 8 bits.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f32"}
#: The same for ONNX Runtime, which would otherwise multiply compressed weights in 8 bits.
_IN_FLOAT32 = ("session.qdq_matmulnbits_accuracy_level", "1")


def verify(
    source: str | os.PathLike[str],
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = 2,
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run an IR in OpenVINO and its model in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers and booleans. Floats may differ by 1e-5 of their value
    (4e-3 for float16, 3e-2 for bfloat16) plus a tenth of that fraction of the output's largest value. If an output
    differs, its note names the known faults of OpenVINO's CPU plugin in the IR's operators; it counts as different
    nevertheless.

    A model with states is run several times on each batch, from the states before the first run, with the elements of
    the inputs in other places each time. The states after that are compared, too.

    Args:
        source: The .xml file that was given to `convert`.
        model: The model that `convert` returned.
        feeds: The inputs of a single batch. Generated when omitted.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        described_by: The model before it was lowered: its operators say what the inputs are for.
        progress: Called with what is being run.

    Returns:
        One record per output.

    Raises:
        MissingPackageError: The `openvino` package is not installed.
        ConversionError: OpenVINO cannot run the IR at all, or `feeds` lacks an input or has a state.
    """
    from onnxruntime import SessionOptions

    from onnx_sparse.sessions.runtime import InferenceSession
    from onnx_sparse.sessions.stateful import StatefulSession

    openvino = require("openvino", "openvino")
    states = states_of(model)
    described = without_states(model if described_by is None else described_by)
    pasts = {state.past for state in states}
    if given := sorted(pasts & (feeds or {}).keys()):
        raise ConversionError(f"{given[0]} cannot be given: verification begins with the values before the first run")
    names = [value.name for value in model.graph.input if value.name not in pasts]
    presents = {state.present for state in states}
    outputs = [value for value in model.graph.output if value.name not in presents]
    steps = Steps(COUNT if states else 1)
    # OpenVINO's arrays of strings have another type for each length, and none if there are no strings. It hands out
    # bfloat16 as float16 of the same bits.
    is_text = [value.type.tensor_type.elem_type == TensorProto.STRING for value in outputs]
    dtypes = [np.dtype(object) if text else None for text in is_text]
    try:
        core = openvino.Core()
        source_model = core.read_model(source)
        request = core.compile_model(source_model, "CPU", _EXACT).create_infer_request()
    except RuntimeError as error:
        raise ConversionError(f"OpenVINO cannot run {source}: {_last_line(error)}") from error

    def run_source(kind: str, batch: Mapping[str, Array]) -> list[Array]:
        if progress is not None:
            progress(f"running OpenVINO on the batch {kind!r}")
        try:
            if feeds is None and source_model.is_dynamic() and all(batch[name].size for name in names):
                # The plugin computes with generated sizes that do not fit; the whole shapes tell.
                source_model.clone().reshape({k: list(batch[name].shape) for k, name in enumerate(names)})
        except RuntimeError as error:
            raise refused(error) from error
        return steps.run(batch, run_steps)

    def refused(error: RuntimeError) -> Refused:
        return Refused("OpenVINO", _last_line(error) + _shapes_of_node(error))

    def run_steps(feeds_of_steps: Sequence[Mapping[str, Array]]) -> list[Array]:
        if states:
            request.reset_state()
        results = []
        for step in feeds_of_steps:
            # By position: OpenVINO may know a tensor by several names. It takes strings as numpy's, not as objects.
            given = [step[name].astype(str) if step[name].dtype == object else step[name] for name in names]
            try:
                made = request.infer(given, share_inputs=True).values()
            except RuntimeError as error:
                raise refused(error) from error
            ports = zip(made, request.model_outputs, dtypes, strict=True)
            results += [_array(v, port.get_element_type() == openvino.Type.bf16, dtype) for v, port, dtype in ports]
        held = {state.name: state.state for state in request.query_state()} if states else {}
        return results + [
            _array(held[state.name].data, held[state.name].element_type == openvino.Type.bf16, None) for state in states
        ]

    def make_run() -> Callable[[Mapping[str, Array]], list[Array]]:
        options = SessionOptions()
        options.add_session_config_entry(*_IN_FLOAT32)
        session = InferenceSession(model, options)
        if not states:
            return lambda batch: session.run(None, {name: batch[name] for name in names})
        stateful = StatefulSession(session)

        def run_all(batch: Mapping[str, Array]) -> list[Array]:
            stateful.reset()
            results = []
            for step in steps.feeds(batch):
                results += stateful.run(None, {name: step[name] for name in names})
            return [*results, *stateful.get_states().values()]

        return run_all

    compared = [f"{k} {value.name}" for k in range(steps.count) for value in outputs]
    compared += [f"{steps.count - 1} {state.present}" for state in states]
    attempts = attempt_batches(described, names, run_source, feeds=feeds, seed=seed, count=batch_count)
    with Isolated(make_run) as run_model:
        records = of_outputs(compare_batches(attempts, dict.fromkeys(compared, ""), run_model))
    faults = faults_of(read_ir(Path(source)))
    explained = f"; known faults of OpenVINO here: {'; '.join(faults)}" if faults else ""
    return [
        replace(record, note=record.note + explained) if record.verdict is Verdict.DIFFERENT else record
        for record in records
    ]


def _array(value: Any, is_bfloat16: bool, dtype: Any) -> Array:
    return np.array(value).view(bfloat16) if is_bfloat16 else np.array(value, dtype)


def _last_line(error: BaseException) -> str:
    return next(iter(reversed(str(error).strip().splitlines())), type(error).__name__)


def _shapes_of_node(error: BaseException) -> str:
    """The operator that does not take its inputs, and their shapes: what sizes are learned from."""
    found = re.search(r"While validating node '\w+::(\w+) .*?\((.*)\) -> \((.*)\)'", str(error))
    if found is None:
        return ""
    shapes = [re.findall(r"\d+", shape) for shape in re.findall(r"\w\[([\d,?.]+)\]", f"{found[2]} {found[3]}")]
    return f" ({found[1]} of {' and '.join(str(list(map(int, shape))) for shape in shapes if shape)})"
