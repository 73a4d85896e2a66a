"""`verify`: runs an IR in OpenVINO and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto

from onnx_sparse.converters.errors import ConversionError, require
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of
from onnx_sparse.converters.verification.batches import Refused, attempt_batches, compare_batches
from onnx_sparse.converters.verification.comparison import Record, Verdict
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.writing.tensor import Array

#: Without these, OpenVINO chooses another precision for speed, and rounds what is multiplied by compressed weights to 8
#: bits.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
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
        ConversionError: OpenVINO cannot run the IR at all, or `feeds` lacks an input.
    """
    from onnxruntime import SessionOptions

    from onnx_sparse.sessions.runtime import InferenceSession

    openvino = require("openvino", "openvino")
    names = [value.name for value in model.graph.input]
    # OpenVINO's arrays of strings have another type for each length, and none if there are no strings. It hands out
    # bfloat16 as float16 of the same bits.
    is_text = [value.type.tensor_type.elem_type == TensorProto.STRING for value in model.graph.output]
    dtypes = [np.dtype(object) if text else None for text in is_text]
    try:
        core = openvino.Core()
        source_model = core.read_model(source)
        compiled = core.compile_model(source_model, "CPU", _EXACT)
    except RuntimeError as error:
        raise ConversionError(f"OpenVINO cannot run {source}: {_last_line(error)}") from error

    def run_source(kind: str, batch: Mapping[str, Array]) -> list[Array]:
        if progress is not None:
            progress(f"running OpenVINO on the batch {kind!r}")
        try:
            if feeds is None and source_model.is_dynamic() and all(batch[name].size for name in names):
                # The plugin computes with generated sizes that do not fit; the whole shapes tell.
                source_model.clone().reshape({k: list(batch[name].shape) for k, name in enumerate(names)})
            # By position: OpenVINO may know a tensor by several names. It takes strings as numpy's, not as objects.
            given = [batch[name].astype(str) if batch[name].dtype == object else batch[name] for name in names]
            results = compiled(given).values()
            ports = zip(results, compiled.outputs, dtypes, strict=True)
            return [_array(value, port.get_element_type() == openvino.Type.bf16, dtype) for value, port, dtype in ports]
        except RuntimeError as error:
            raise Refused("OpenVINO", _last_line(error) + _shapes_of_node(error)) from error

    def make_run() -> Callable[[Mapping[str, Array]], list[Array]]:
        options = SessionOptions()
        options.add_session_config_entry(*_IN_FLOAT32)
        session = InferenceSession(model, options)
        return lambda batch: session.run(None, {name: batch[name] for name in names})

    untyped = dict.fromkeys((value.name for value in model.graph.output), "")
    described = model if described_by is None else described_by
    attempts = attempt_batches(described, names, run_source, feeds=feeds, seed=seed, count=batch_count)
    with Isolated(make_run) as run_model:
        records = compare_batches(attempts, untyped, run_model)
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
