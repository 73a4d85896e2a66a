"""Exports and runs a module of the zoo, and compares it with torch on every kind of batch."""

from __future__ import annotations

import copy
import inspect
import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from support.torch_exports import read_torchlib_once
from zoo.command import Outcome
from zoo.examination import WITH_ROWS
from zoo.inputs import KINDS, TIMED
from zoo.registry import Entry
from zoo.split import split_fault
from zoo.torch_sources import BuiltModule

from onnx_sparse.converters.errors import ConversionError, first_line

_WARM_UPS, _ROUNDS = 3, 15

#: By how much ONNX Runtime may be farther from the results in float64 than torch is.
_MORE_ROUNDING = 4

#: Weights that differ less are drawn again.
_LEAST_DEVIATION = 0.05


@dataclass
class ExaminedModule(Outcome):
    """What became of a module of torch.

    Attributes:
        export_seconds: The time of the export.
        torch_ms, onnx_ms: The median time of a run of a larger batch, with one thread.
    """

    export_seconds: float = 0.0
    torch_ms: float | None = None
    onnx_ms: float | None = None


def examine(entry: Entry, *, verify: bool = True, timed: bool = True) -> ExaminedModule:
    """Build a module, export it and compare the two on a batch of each kind.

    Args:
        entry: The module.
        verify: Whether to verify the model on generated inputs as well.
        timed: Whether to time both.
    """
    import torch

    found = ExaminedModule(entry.name, entry.environment)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    np.random.seed(1)
    try:
        built = entry.build()
        built.module.eval()
        _vary_weights(built.module)
        example = built.batch(KINDS[0], found.name)
        with torch.no_grad():
            built.module(*example)
    except Exception as error:  # whatever a package raises
        found.notes.append(f"{type(error).__name__}: {first_line(error)}")
        return found
    _export_and_compare(built, example, found, verify, timed)
    return found


def _vary_weights(module: Any) -> None:
    """Give a new module weights like those of a trained one.

    A new BatchNorm does nothing, and with weights near 0, as some packages begin with, every answer is the same.
    """
    import torch

    for weight in module.parameters():
        if weight.dim() > 1 and weight.is_floating_point() and weight.std() < _LEAST_DEVIATION:
            weight.data.normal_(0, 0.1)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.8, 1.2)


def _export_and_compare(built: BuiltModule, example: Any, found: ExaminedModule, verify: bool, timed: bool) -> None:
    import onnxruntime as ort
    import torch.onnx._internal.exporter._registration  # noqa: F401

    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.torch import convert
    from onnx_sparse.converters.torch.source import to_numpy
    from onnx_sparse.converters.torch.tracing import trace
    from onnx_sparse.converters.verification.comparison import half_floats
    from onnx_sparse.converters.verification.random_values import random_outputs
    from onnx_sparse.models.graphs import graphs

    kinds = {p.kind for p in inspect.signature(built.module.forward).parameters.values()}
    shapes = built.dynamic_shapes(as_varargs=inspect.Parameter.VAR_POSITIONAL in kinds)
    begin = time.perf_counter()
    try:
        source = trace(built.module, example, dynamic_shapes=shapes)
    except ConversionError as error:
        found.outcome = "refused" if _exports(built.module, example, shapes) else "torch.export refuses"
        found.notes.append(" ".join(str(error).split()))
        return
    try:
        read_torchlib_once()
        model = convert(source)
    except ConversionError as error:
        found.outcome = "refused" if _decomposes(source.program) else "torch.export refuses"
        found.notes.append(" ".join(str(error).split()))
        return
    found.outcome = "wrong"
    found.export_seconds = time.perf_counter() - begin
    found.nodes = sum(len(graph.node) for graph in graphs(model.graph))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = InferenceSession(model, options)
    except Exception as error:  # whatever ONNX Runtime raises
        found.notes.append(f"does not load: {first_line(error)}")
        return
    taken = [value.name for value in session.get_inputs()]
    program = source.program.module()

    def run_torch(call: Callable[..., Any], batch: Any) -> list[Any]:
        import torch

        with torch.inference_mode():
            made = call(*(tensor.clone() for tensor in batch))
        return [to_numpy(torch.as_tensor(x)) for x in torch.utils._pytree.tree_leaves(made) if x is not None]

    def run_onnx(batch: Any) -> list[Any]:
        return list(session.run(None, dict(zip(taken, map(to_numpy, batch), strict=True))))

    random = random_outputs(model)
    difference = partial(
        _difference,
        computed=half_floats(model),
        random={place for place, value in enumerate(session.get_outputs()) if value.name in random},
    )
    batches = {kind: built.batch(kind, found.name) for kind in KINDS}
    for kind, batch in batches.items():
        found.batches[kind], note = _compare(
            lambda batch=batch: run_torch(built.module, batch),
            lambda batch=batch: run_torch(program, batch),
            lambda batch=batch: run_onnx(batch),
            difference,
        )
        if found.batches[kind] == "differs" and _is_rounding(built.module, batch, run_torch, run_onnx(batch)):
            found.batches[kind] = "rounding"
        if note:
            found.notes.append(f"{kind}: {note}")
    if not any(found.batches[kind] == "equal" for kind in WITH_ROWS):
        found.notes.append("no batch with rows was compared")
    elif not {"differs", "fails"} & set(found.batches.values()):
        found.outcome = "rounding" if "rounding" in found.batches.values() else "equal"
    fed = [dict(zip(taken, map(to_numpy, batch), strict=True)) for batch in batches.values()]
    if not random and (fault := split_fault(model, fed, found.name)):
        found.outcome = "wrong"
        found.notes.append(fault)
    if verify:
        _verify(source, model, found)
    if timed:
        _time(built, session, found)


def _exports(module: Any, example: Any, shapes: Any) -> bool:
    """Whether torch.export itself exports a module, in one of its ways."""
    import torch

    for strict in (False, True):
        try:
            torch.export.export(module, example, dynamic_shapes=shapes, strict=strict)
            return True
        except Exception:  # whatever torch raises for what it cannot export
            continue
    return False


def _decomposes(program: Any) -> bool:
    """Whether torch.export itself decomposes a program, which its exporter to ONNX begins with."""
    try:
        program.run_decompositions()
    except Exception:  # whatever torch raises
        return False
    return True


def _compare(
    run_torch: Callable[[], Any],
    run_program: Callable[[], Any],
    run_onnx: Callable[[], Any],
    difference: Callable[[Any, Any], str],
) -> tuple[str, str]:
    """The verdict on a batch, and a note."""
    try:
        wanted = run_torch()
    except Exception as error:  # whatever a package and torch raise
        return "torch refuses", first_line(error)
    results = None
    try:
        results = run_onnx()
        different = difference(wanted, results)
    except Exception as error:  # whatever ONNX Runtime raises
        different = " ".join(str(error).split())[:300]
    if not different:
        return "equal", ""
    try:
        traced = run_program()
    except Exception as error:  # a guard of torch.export, for one
        return "program refuses", f"{first_line(error)} ({different})"
    if results is None:
        return "fails", different
    if not difference(traced, results):
        return "program differs", f"so does the program of torch.export: {different}"
    return "differs", different


def _is_rounding(module: Any, batch: Any, run_torch: Callable[..., Any], results: Any) -> bool:
    """Whether ONNX Runtime is about as near to what torch computes in float64 as torch is in float32."""
    precise = [tensor.double() if tensor.is_floating_point() else tensor for tensor in batch]
    try:
        exact, wanted = run_torch(copy.deepcopy(module).double(), precise), run_torch(module, batch)
    except Exception:  # a module makes tensors of float32 itself
        return False

    def error(values: Any) -> float:
        return max(float(np.abs(value - right).max(initial=0)) for value, right in zip(values, exact, strict=True))

    return error(results) <= _MORE_ROUNDING * error(wanted)


def _difference(wanted: Any, results: Any, *, computed: Collection[str], random: Collection[int]) -> str:
    """What is different between the outputs of torch and of ONNX Runtime; empty if nothing is.

    Args:
        wanted, results: The outputs.
        computed: The half-float types that the model computes with.
        random: The places of outputs whose values are random: their types and shapes are compared.
    """
    from onnx_sparse.converters.verification.comparison import compare

    for place, (want, got) in enumerate(zip(wanted, map(np.asarray, results), strict=True)):
        if place in random and (want.dtype, want.shape) == (got.dtype, got.shape):
            continue
        record = compare(f"output {place}", want, got, "", computed=computed)
        if not record.ok:
            return f"output {place}: {record.note}; {got.ravel()[:4]} for {want.ravel()[:4]} of {want.shape}"
    return ""


def _verify(source: Any, model: Any, found: ExaminedModule) -> None:
    """Verify the model; a verdict that is not "ok", or rests on nothing, is wrong."""
    from onnx_sparse.converters.torch import verify

    found.note_verified(verify(source, model))
    if found.verdict == "random" and found.outcome == "equal":
        found.outcome = "random"
    if found.verdict == "differs" or (found.verdict == "ok" and not found.verified_batches):
        found.outcome = "wrong"


def _time(built: BuiltModule, session: Any, found: ExaminedModule) -> None:
    """The medians of runs of torch and ONNX Runtime, in turn."""
    import torch

    from onnx_sparse.converters.torch.source import to_numpy

    batch = built.batch(TIMED, found.name)
    names = [value.name for value in session.get_inputs()]
    fed = dict(zip(names, map(to_numpy, batch), strict=True))
    times: tuple[list[float], list[float]] = ([], [])
    try:
        with torch.inference_mode():
            for _ in range(_WARM_UPS + _ROUNDS):
                for run, into in zip(
                    (lambda: built.module(*batch), lambda: session.run(None, fed)), times, strict=True
                ):
                    begin = time.perf_counter()
                    run()
                    into.append(1000 * (time.perf_counter() - begin))
    except Exception:  # a batch of this size is refused
        return
    found.torch_ms, found.onnx_ms = (statistics.median(measured[_WARM_UPS:]) for measured in times)
