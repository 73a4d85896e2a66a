"""Saves a model as an IR, converts it and compares OpenVINO with ONNX Runtime on every batch."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from zoo.command import Outcome
from zoo.ir_sources import BATCHES, BuiltIr
from zoo.registry import Entry

from onnx_sparse.converters.errors import ConversionError, first_line

#: OpenVINO computes in 32 bits, and rounds nothing to 8.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}

#: OpenVINO's error, as a part of the largest number, beyond which it is not one of rounding.
_MOST_ROUNDING = 1e-5


def examine(entry: Entry) -> Outcome:
    """Build a model, save it, convert the IR and compare the two on each batch; then let `verify` do the same."""
    import openvino

    found = Outcome(entry.name, entry.environment)
    np.random.seed(1)
    if entry.environment.startswith("torch"):
        import torch
        from zoo.torchvision_operators import import_torchvision

        import_torchvision()
        torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        path = Path(folder) / "model.xml"
        try:
            built = entry.build()
            openvino.save_model(built.model, path, **built.save)
            compiled = openvino.Core().compile_model(path, "CPU", _EXACT)
        except Exception as error:  # whatever a package or OpenVINO raises
            found.notes.append(f"{type(error).__name__}: {_last_line(error)}")
            return found
        _convert_and_compare(path, built, compiled, found)
    return found


def _convert_and_compare(path: Path, built: BuiltIr, compiled: Any, found: Outcome) -> None:
    from onnxruntime import SessionOptions

    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.openvino import convert
    from onnx_sparse.models.graphs import graphs

    try:
        model = convert(path)
    except ConversionError as error:
        found.outcome = "refused"
        found.notes.append(" ".join(str(error).split()))
        return
    found.outcome = "wrong"
    found.nodes = sum(len(graph.node) for graph in graphs(model.graph))
    options = SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # float32
    try:
        session = InferenceSession(model, options)
    except Exception as error:  # whatever ONNX Runtime raises
        found.notes.append(f"does not load: {first_line(error)}")
        return
    varied = False
    for kind in BATCHES:
        found.batches[kind], note, varies = _compare(kind, built, compiled, session)
        varied |= varies
        if note:
            found.notes.append(f"{kind}: {note}")
    verdicts = set(found.batches.values())
    if not varied:
        found.notes.append("no output that is not constant was compared")
    elif not {"differs", "fails"} & verdicts:
        found.outcome = "rounding" if "nearer" in verdicts else "equal"
    _verify(path, model, found)


def _compare(kind: str, built: BuiltIr, compiled: Any, session: Any) -> tuple[str, str, bool]:
    """The verdict on a batch, a note, and whether an output that is equal has different numbers."""
    from onnx_sparse.converters.verification.comparison import compare

    batch = built.batch(kind)
    try:
        wanted = [np.array(value) for value in compiled(batch).values()]
    except Exception as error:  # whatever OpenVINO raises
        return "OpenVINO refuses", _last_line(error), False
    names = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    try:
        results = session.run(None, dict(zip(names, batch, strict=True)))
    except Exception as error:  # whatever ONNX Runtime raises
        return "fails", " ".join(str(error).split())[:300], False
    for name, want, got in zip(outputs, wanted, results, strict=True):
        record = compare(name, want, np.asarray(got), kind)
        if not record.ok:
            note = f"{name}: {record.note}; {np.ravel(got)[:4]} for {want.ravel()[:4]} of shape {want.shape}"
            errors = _errors(built, batch, wanted, results)
            if errors is None or errors[1] > errors[0] or errors[0] > _MOST_ROUNDING * max(1, np.abs(want).max()):
                return "differs", note, False
            told = f"OpenVINO is {errors[0]:.2g} from the results in float64, and ONNX Runtime {errors[1]:.2g}"
            return "nearer", f"{name}: {told}", True
    return "equal", "", any(want.size > 0 and np.ptp(want.astype(np.float64)) > 0 for want in wanted)


def _errors(built: BuiltIr, batch: Any, wanted: list[Any], results: list[Any]) -> tuple[float, float] | None:
    """How far the results of OpenVINO and of ONNX Runtime are from those in float64, if these are known."""
    if built.exact is None:
        return None
    try:
        exact = built.exact(batch)
    except RuntimeError:  # torch cannot: a module makes tensors of float32 itself
        return None
    if [value.shape for value in exact] != [value.shape for value in wanted]:
        return None

    def error(values: list[Any]) -> float:
        return max(float(np.abs(value - right).max(initial=0)) for value, right in zip(values, exact, strict=True))

    return error(wanted), error(results)


def _verify(path: Path, model: Any, found: Outcome) -> None:
    """Verify the conversion; a verdict that is not "ok", or rests on nothing, is wrong."""
    from onnx_sparse.converters.openvino import verify

    found.note_verified(verify(path, model))
    if found.outcome == "equal" and (found.verdict != "ok" or not found.verified_batches):
        found.outcome = "wrong"


def _last_line(error: BaseException) -> str:
    """OpenVINO puts the places in its source before what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[-2:])[-300:] if lines else type(error).__name__
