"""The native kernels against other libraries, timed in one run.

    python benchmarks/native.py [--threads 1 2] [--only WORD] [--repeat N] [--json FILE] [--save] [--svg FILE]

Every line is a case: the median time of the native kernel, that time divided by its limit, and divided by each peer's
time (below 1: the native kernel is faster). The limit is the time to copy as many bytes as must be moved, measured in
the same run; where hardly anything is moved, the time ONNX Runtime takes for one Identity with the same inputs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from contest import take_turns
from machine import this_machine
from native_cases import Array, Case, Run, cases
from native_plot import plot
from records import Line
from runner import finish, is_apart, measured_apart, parse, parser
from sessions import BoundRun, identity_of, session_options


def native_run(case: Case, threads: int) -> Run:
    """The native kernel on OrtValues, as a caller with many requests would run it."""
    import onnx_sparse

    return _bound(onnx_sparse.InferenceSession(case.model(), session_options(threads), backend="native"), case)


def portable_run(case: Case, threads: int) -> Run | None:
    """The function body in ONNX Runtime."""
    import onnxruntime as ort

    import onnx_sparse

    try:
        lowered = onnx_sparse.lower(case.model()).SerializeToString()
        return _bound(ort.InferenceSession(lowered, session_options(threads)), case)
    except Exception as error:  # the body's standard operators lack kernels for some types
        print(f"no function body for {case.name}: {str(error)[:100]}", file=sys.stderr)
        return None


def openvino_run(case: Case, threads: int) -> Run | None:
    """The model on OpenVINO's CPU plugin, with the operators from `extensions()`."""
    try:
        from on_openvino import compiled, with_extensions

        return compiled(with_extensions(case.model()), case.inputs, threads)
    except Exception as error:  # OpenVINO is not installed, or lacks a type or an operator
        print(f"not on OpenVINO: {case.name}: {str(error).strip().splitlines()[-1][:100]}", file=sys.stderr)
        return None


def identity_run(case: Case, threads: int) -> Run:
    """ONNX Runtime with the case's inputs and a node that computes nothing."""
    import onnxruntime as ort

    model = identity_of(case.model())
    return _bound(ort.InferenceSession(model.SerializeToString(), session_options(threads)), case)


def _bound(session: Any, case: Case) -> Run:
    if case.bytes_moved == 0:  # as most callers do
        names = [output.name for output in session.get_outputs()]
        return lambda: session.run(names, case.inputs)
    strings = {name: _strings(array) for name, array in case.inputs.items() if array.dtype == object}
    return BoundRun(session, case.inputs | strings)


def _strings(array: Array) -> Any:
    import onnxruntime as ort

    # ONNX Runtime's Python interface cannot make an OrtValue of strings, but returns them as outputs.
    from onnx import helper, numpy_helper

    constant = helper.make_node("Constant", [], ["strings"], value=numpy_helper.from_array(array))
    output = helper.make_tensor_value_info("strings", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    graph = helper.make_graph([constant], "strings", [], [output])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    return ort.InferenceSession(model.SerializeToString()).run_with_ort_values(["strings"], {})[0]


def copy_run(size: int, threads: int) -> Run:
    """A copy that moves `size` bytes, half of them read and half written, on the given number of threads."""
    from concurrent.futures import ThreadPoolExecutor

    half = max(size // 2, 1)
    source, target = np.ones(half, np.uint8), np.zeros(half, np.uint8)
    if threads == 1:
        return lambda: np.copyto(target, source)
    pool = ThreadPoolExecutor(threads)
    parts = [slice(half * t // threads, half * (t + 1) // threads) for t in range(threads)]
    return lambda: list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))


def measure(threads: int, only: str, repeat: int, portable: bool) -> list[Line]:
    """Measure the lines of the table for one number of threads."""
    lines = []
    for case in cases(threads):
        if only.lower() not in case.name.lower():
            continue
        small = case.bytes_moved == 0
        runs = {"native": native_run(case, threads), **case.peers}
        runs["limit"] = identity_run(case, threads) if small else copy_run(case.bytes_moved, threads)
        others = {"portable": portable_run, "openvino": openvino_run} if portable else {}
        runs |= {name: run for name, make in others.items() if (run := make(case, threads)) is not None}
        turns = take_turns(runs, repeat * 10 if small else repeat)
        lines.append(Line(case.name, threads, turns, facts={"bytes": case.bytes_moved}))
        print(_line(lines[-1]), flush=True)
    return lines


def _line(line: Line) -> str:
    peers = "  ".join(f"{name} {line.ratio(name):.2f}" for name in line.names if name not in ("native", "limit"))
    times = f"{1e3 * line.seconds('native'):9.3f} ms  {line.ratio('limit'):6.2f}"
    return f"{line.case:62} {line.threads:2}  {times}   {peers}"


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, threads=[1, 2], only="", repeat=9)
    made.add_argument("--no-portable", action="store_true", help="leave out the function bodies and OpenVINO")
    made.add_argument("--svg", type=Path, help="also draw the times, in this file")
    given = parse(made)
    here = this_machine()
    if not is_apart():
        print(f"{here}\n{'case':62} {'th':>2}  {'native':>12}   /limit  native / peer", flush=True)
    lines = measured_apart(given.threads, lambda n: measure(n, given.only, given.repeat, not given.no_portable))
    finish("native", here, lines, given)
    if given.svg:
        given.svg.write_text(plot(lines))


if __name__ == "__main__":
    main()
