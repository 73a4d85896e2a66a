"""`verify`: runs an IR in OpenVINO and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto

from onnx_sparse.converters.errors import ConversionError, require
from onnx_sparse.converters.openvino.in_memory import file_of
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification import verify as verification
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record, Verdict
from onnx_sparse.converters.verification.isolation import EndedError, Isolated
from onnx_sparse.converters.verification.sample_inputs import KINDS
from onnx_sparse.converters.verification.steps import COUNT, Steps, of_outputs
from onnx_sparse.schemas.states import states_of

#: Without these, OpenVINO chooses another precision for speed, and rounds what is multiplied by compressed weights, and
#: the caches of decoders, to 8 bits.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f32"}
#: The same for ONNX Runtime, which would otherwise multiply compressed weights in 8 bits.
_IN_FLOAT32 = {"session.qdq_matmulnbits_accuracy_level": "1"}


def verify(
    source: Any,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
    input_lines: dict[str, str] | None = None,
) -> list[Record]:
    """Run an IR in OpenVINO and its model in ONNX Runtime on the same inputs and compare the outputs.

    What is compared how, and how inputs are generated, is said with `onnx_sparse.converters.verification.verify`. If an
    output differs, its note names the known faults of OpenVINO's CPU plugin in the IR's operators; it counts as
    different nevertheless.

    A model with states is run several times on each batch, from the states before the first run, with the elements of
    the inputs in other places each time. The states after that are compared, too.

    Args:
        source: The .xml file, or the openvino.Model, that was given to `convert`.
        model: The model that `convert` returned.
        feeds: The inputs of a single batch. Generated when omitted.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        described_by: The model before it was lowered: its operators say what the inputs are for.
        progress: Called with what is being run.
        input_lines: Filled with what each input was taken for when inputs were generated.

    Returns:
        One record per output.

    Raises:
        MissingPackageError: The `openvino` package is not installed.
        ConversionError: OpenVINO cannot run the IR at all, or `feeds` lacks an input or has a state.
    """
    require("openvino", "openvino")  # before processes are forked
    states = states_of(model)
    pasts = {state.past for state in states}
    presents = {state.present for state in states}
    if given := sorted(pasts & (feeds or {}).keys()):
        raise ConversionError(f"{given[0]} cannot be given: verification begins with the values before the first run")
    names = [value.name for value in model.graph.input if value.name not in pasts]
    outputs = [value for value in model.graph.output if value.name not in presents]
    is_text = [value.type.tensor_type.elem_type == TensorProto.STRING for value in outputs]
    steps = Steps(COUNT if states else 1)
    compared = [value.name for value in outputs]
    if states:
        compared = [f"{k} {name}" for k in range(steps.count) for name in compared]
        compared += [f"{steps.count - 1} {state.present}" for state in states]
    order = [state.name for state in states]
    with file_of(source) as path:
        with Isolated(lambda: _compiled(path, names, is_text, order, checked=feeds is None)) as run:
            try:
                run([])
            except Exception as error:  # whatever OpenVINO raises
                raise ConversionError(f"OpenVINO cannot run {path}: {_last_line(error)}") from error
            records = verification.verify(
                _Running(run, steps),
                verification.Description(
                    "OpenVINO",
                    names,
                    dict.fromkeys(compared, ""),
                    checks_sizes=False,
                    config=_IN_FLOAT32,
                    steps=steps.feeds if states else None,
                ),
                model,
                feeds=feeds,
                seed=seed,
                batch_count=batch_count,
                described_by=described_by,
                progress=progress,
                input_lines=input_lines,
            )
        records = of_outputs(records) if states else records
        faults = faults_of(read_ir(path))
        explained = f"; known faults of OpenVINO here: {'; '.join(faults)}" if faults else ""
    return [
        replace(record, note=record.note + explained) if record.verdict is Verdict.DIFFERENT else record
        for record in records
    ]


class _Running:
    """An IR that runs in OpenVINO, in a process of its own: some inputs end it."""

    def __init__(self, run: Isolated, steps: Steps) -> None:
        self._run, self._steps = run, steps

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        return self._steps.run(feeds, self._run_steps)

    def _run_steps(self, feeds: Sequence[Mapping[str, Array]]) -> list[Array]:
        try:
            results: list[Array] = self._run(list(feeds))
        except Exception as error:  # whatever OpenVINO raises
            raise self.refusal(error) from error
        return results

    def refusal(self, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        if isinstance(error, EndedError):
            return Refused("OpenVINO", str(error))
        if not isinstance(error, RuntimeError):
            raise error
        return Refused("OpenVINO", _last_line(error) + _shapes_of_node(error))


def _compiled(
    source: str | os.PathLike[str],
    names: Sequence[str],
    is_text: Sequence[bool],
    states: Sequence[str],
    *,
    checked: bool,
) -> Callable[[list[Mapping[str, Array]]], list[Array]]:
    """Runs an IR step by step, on inputs by name: the outputs of all steps, then the states after the last one.

    Args:
        states: The names of its states, in order.
        checked: Whether to see first whether the shapes fit: the plugin computes with generated sizes that do not.
    """
    openvino = require("openvino", "openvino")
    core = openvino.Core()
    model = core.read_model(source)
    request = core.compile_model(model, "CPU", _EXACT).create_infer_request()
    # OpenVINO's arrays of strings have another type for each length, and none if there are no strings. It hands out
    # bfloat16 as float16 of the same bits.
    dtypes = [np.dtype(object) if text else None for text in is_text]

    def array(value: Any, element_type: Any, dtype: Any) -> Array:
        return _array(value, element_type == openvino.Type.bf16, dtype)

    def run(steps: list[Mapping[str, Array]]) -> list[Array]:
        if states:
            request.reset_state()
        results: list[Array] = []
        for number, step in enumerate(steps):
            if checked and number == 0 and model.is_dynamic() and all(step[name].size for name in names):
                model.clone().reshape({k: list(step[name].shape) for k, name in enumerate(names)})
            # By position: OpenVINO may know a tensor by several names. It takes strings as numpy's, not as objects.
            given = [step[name].astype(str) if step[name].dtype == object else step[name] for name in names]
            ports = zip(request.infer(given, share_inputs=True).values(), request.model_outputs, dtypes, strict=True)
            results += [array(value, port.get_element_type(), dtype) for value, port, dtype in ports]
        held = {state.name: state.state for state in request.query_state()} if states and steps else {}
        return results + [array(held[name].data, held[name].element_type, None) for name in states if steps]

    return run


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
