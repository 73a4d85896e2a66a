"""What becomes of a small model of OpenVINO that is saved as an IR, converted, and run on one batch by both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: OpenVINO computes in 32 bits, and rounds nothing to 8.
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "INFERENCE_NUM_THREADS": "1",
}


class RefusedError(Exception):
    """The converter refuses the IR; the message says why."""


def run_converted(path: Path, batch: Sequence[Array]) -> list[Array]:
    """The outputs of a converted IR.

    Raises:
        RefusedError: The converter refuses the IR.
        Exception: Whatever ONNX Runtime raises.
    """
    from onnx_sparse import InferenceSession
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.openvino import convert

    try:
        model = convert(path)
    except ConversionError as error:
        reasons = [f"{node.op_type}: {node.reason}" for node in error.unsupported] or [str(error).splitlines()[0]]
        raise RefusedError("; ".join(sorted(set(reasons)))[:300]) from error
    session = InferenceSession(model)
    names = [value.name for value in session.get_inputs()]
    return [np.asarray(value) for value in session.run(None, dict(zip(names, batch, strict=True)))]


def difference(wanted: Sequence[Array], results: Sequence[Array]) -> str | None:
    """How the outputs of two runs differ, or None."""
    from onnx_sparse.converters.verification.comparison import compare

    if len(wanted) != len(results):
        return f"{len(results)} outputs for {len(wanted)}"
    for k, (want, got) in enumerate(zip(wanted, results, strict=True)):
        record = compare(f"output {k}", want, got, "given")
        if not record.ok:
            return f"{record.output}: {record.note} {got.ravel()[:4]} for {want.ravel()[:4]}"
    return None
