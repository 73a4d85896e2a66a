"""An IR that runs in OpenVINO, to be compared with its conversion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto, ValueInfoProto

from onnx_sparse.converters.errors import ConversionError, require
from onnx_sparse.converters.openvino.in_memory import file_of
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record, Verdict
from onnx_sparse.converters.verification.isolation import EndedError, Isolated
from onnx_sparse.converters.verification.reference import Reference
from onnx_sparse.schemas.states import states_of

#: Without these, OpenVINO chooses another precision for speed, and rounds what is multiplied by compressed weights, and
#: the caches of decoders, to 8 bits.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f32"}
#: An internal setting, without which layers between FakeQuantize are computed in 8 bits.
_WITHOUT_INTEGERS = {"LP_TRANSFORMS_MODE": "NO"}
#: The same for ONNX Runtime, which would otherwise multiply compressed weights in 8 bits.
_IN_FLOAT32 = {"session.qdq_matmulnbits_accuracy_level": "1"}


class OpenVinoReference(Reference):
    """An IR that runs in OpenVINO, in a process of its own: some inputs end it.

    If an output differs, its note names the known faults of OpenVINO's CPU plugin in the IR's operators; it counts as
    different nevertheless. The states after the last step are compared, too.

    Args:
        path: The `.xml`.
        model: What it was converted to.
        run: Runs it step by step.
    """

    program = "OpenVINO"
    checks_sizes = False
    config = _IN_FLOAT32

    def __init__(self, path: Path, model: ModelProto, run: Callable[[list[Mapping[str, Array]]], list[Array]]) -> None:
        inputs, outputs = _ports(model)
        self.inputs, self.outputs = inputs, dict.fromkeys((value.name for value in outputs), "")
        self.presents = [state.present for state in states_of(model)]
        self._path, self._run = path, run

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs."""
        return self._run([feeds])

    def run_steps(self, steps: Sequence[Mapping[str, Array]]) -> list[Array]:
        """The outputs of several runs."""
        return self._run([*steps])

    def refusal(self, error: Exception) -> Refused:
        """What OpenVINO said in the end, with the shapes that it was about."""
        if isinstance(error, EndedError):
            return Refused(self.program, str(error))
        if not isinstance(error, RuntimeError):
            raise error
        return Refused(self.program, _last_line(error) + _shapes_of_node(error))

    def explained(self, record: Record) -> Record:
        """A record with the known faults of the plugin."""
        if record.verdict is not Verdict.DIFFERENT or not self._faults:
            return record
        return replace(record, note=f"{record.note}; known faults of OpenVINO here: {'; '.join(self._faults)}")

    @cached_property
    def _faults(self) -> Sequence[str]:
        return faults_of(read_ir(self._path))


@contextmanager
def reference(source: Any, model: ModelProto, *, generated: bool) -> Iterator[OpenVinoReference]:
    """An IR in OpenVINO.

    Args:
        source: Its `.xml`, or an openvino.Model.
        model: What it was converted to.
        generated: Whether its inputs will be generated ones, whose shapes are checked first.

    Raises:
        MissingPackageError: The `openvino` package is not installed.
        ConversionError: OpenVINO cannot run the IR at all.
    """
    require("openvino", "openvino")  # before processes are forked
    names, outputs = _ports(model)
    is_text = [value.type.tensor_type.elem_type == TensorProto.STRING for value in outputs]
    order = [state.name for state in states_of(model)]
    with (
        file_of(source) as path,
        Isolated(lambda: _compiled(path, names, is_text, order, checked=generated)) as run,
    ):
        try:
            run([])
        except Exception as error:  # whatever OpenVINO raises
            raise ConversionError(f"OpenVINO cannot run {path}: {_last_line(error)}") from error
        yield OpenVinoReference(path, model, run)


def _ports(model: ModelProto) -> tuple[list[str], list[ValueInfoProto]]:
    """The inputs and outputs of a model but for its states."""
    pasts = {state.past for state in states_of(model)}
    presents = {state.present for state in states_of(model)}
    inputs = [value.name for value in model.graph.input if value.name not in pasts]
    return inputs, [value for value in model.graph.output if value.name not in presents]


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
    try:
        compiled = core.compile_model(model, "CPU", {**_EXACT, **_WITHOUT_INTEGERS})
    except RuntimeError:  # it may have gone
        compiled = core.compile_model(model, "CPU", _EXACT)
    request = compiled.create_infer_request()
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
