"""Runs the cases of an operator in ONNX Runtime, as they are and guarded, in a process that may end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto
from support.drawn_nodes import Drawn
from support.random_nodes import convert

from atlas.cases import Case, cases
from atlas.values import Array
from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.kernels.element_types import has_kernel, input_variable
from onnx_sparse.converters.verification.isolation import EndedError, Isolated

#: Relative errors, by the size of an element. Numbers below the least normal one may be flushed to 0.
_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}

#: From here on, floats are whole, and have lost an angle's digits.
_WHOLE = 2.0**24


@dataclass
class Walked:
    """What was found of an operator.

    Attributes:
        op_type: The operator.
        types: In which types of data it ran.
        runs: How many cases ran.
        raw: What differs in ONNX Runtime as it is, by the values.
        guarded: What differs after the passes of every road.
    """

    op_type: str
    types: set[str] = field(default_factory=set)
    runs: int = 0
    raw: dict[str, str] = field(default_factory=dict)
    guarded: dict[str, str] = field(default_factory=dict)


def walk(op_type: str, *, every: int = 1) -> Walked:
    """Walk the cases of an operator, or one of so many."""
    found = Walked(op_type)
    models: dict[str, bytes] = {}
    with Isolated(_make_run) as run:
        for k, case in enumerate(cases(op_type)):
            if k % every:
                continue
            given = (_model(case.drawn, models), case.drawn.feeds())
            found.runs += 1
            for form, differences in (("raw", found.raw), ("guarded", found.guarded)):
                try:
                    answers = run((form, *given))
                except EndedError as error:
                    differences[case.label] = f"the process: {error}"
                    continue
                except Exception as error:
                    differences[case.label] = f"raises {str(error).splitlines()[0][:150]}"
                    continue
                if answers is not None:
                    found.types.add(str(next(iter(case.drawn.feeds().values())).dtype))
                    said = _compared(case, answers, as_float=form == "guarded" and _lacks_doubles(case.drawn))
                    if said:
                        differences[case.label] = said
    return found


def _lacks_doubles(drawn: Drawn) -> bool:
    """Whether some supported version has no kernel for doubles: every road computes them as floats."""
    variables = {input_variable(drawn.op_type, k, drawn.opset) for k in range(len(drawn.inputs))}
    has_doubles = any(value.dtype == np.float64 for value in drawn.feeds().values())
    lacks = (not has_kernel(drawn.op_type, variable, TensorProto.DOUBLE, drawn.opset) for variable in variables)
    return has_doubles and any(lacks)


def _model(drawn: Drawn, models: dict[str, bytes]) -> bytes:
    """The model of a node; nodes that differ only in what they are fed have one."""
    fed = [(name, value.dtype, value.shape) for name, value in drawn.feeds().items()]
    held = [np.asarray(drawn.inputs[name]).tobytes() for name in drawn.constants if drawn.inputs.get(name) is not None]
    key = repr((fed, held, drawn.attributes, drawn.opset))
    if key not in models:
        models[key] = drawn.model(np.random.default_rng(0)).SerializeToString()
    return models[key]


def _make_run() -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    sessions: dict[tuple[str, bytes], Any] = {}

    def session(form: str, model: bytes) -> Any:
        import onnx

        if form == "guarded":
            try:
                return InferenceSession(convert(onnx.load_from_string(model)))
            except ConversionError:
                return None  # a clear refusal
        try:
            return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        except Exception:  # ONNX Runtime has no kernel
            return None

    def run(argument: tuple[str, bytes, dict[str, Array]]) -> list[Array] | None:
        form, model, feeds = argument
        if (form, model) not in sessions:
            sessions[form, model] = session(form, model)
        made = sessions[form, model]
        return None if made is None else [np.asarray(answer) for answer in made.run(None, feeds)]

    return run


def _compared(case: Case, answers: Sequence[Array], *, as_float: bool = False) -> str:
    """What differs; empty if nothing does. Doubles may be compared as floats, if they are such."""
    for want, got in zip(case.want, answers, strict=True):
        if want.shape != got.shape:
            return f"shape {got.shape}, not {want.shape}"
        if want.dtype != got.dtype and want.dtype.kind not in "OU":
            return f"type {got.dtype}, not {want.dtype}"
        if as_float and want.dtype == np.float64:
            if any(_exceeds_float(each) for each in (want, *case.drawn.feeds().values())):
                continue
            want, got = want.astype(np.float32), got.astype(np.float32)
        equal = want == got
        if want.dtype.kind not in "OUSbiu":
            one, other = want.astype(np.longdouble), got.astype(np.longdouble)
            info = np.finfo(want.dtype)
            size = np.abs(one[np.isfinite(one)]).max(initial=0) if case.is_sum else np.abs(one)
            with np.errstate(all="ignore"):
                near = np.abs(one - other) <= _TOLERANCES[want.dtype.itemsize] * size + float(info.tiny)
            equal = (one == other) | (np.isnan(one) & np.isnan(other)) | (near & np.isfinite(one))
        if not np.all(equal):
            at = tuple(np.argwhere(~np.asarray(equal))[0])
            return f"{got[at]}, not {want[at]}"
    return ""


def _exceeds_float(array: Array) -> bool:
    """Whether an array has a large number that is another as a float, or a small one that is 0."""
    if array.dtype != np.float64:
        return False
    with np.errstate(all="ignore"):
        near = array.astype(np.float32)
        is_changed = (np.abs(array) > _WHOLE) & (near != array)
    return bool((is_changed | ((near == 0) & (array != 0))).any())
