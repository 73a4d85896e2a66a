"""The native kernels against other libraries, timed in one run.

    python benchmarks/native.py [--threads 1 2] [--only WORD] [--repeat N] [--json FILE] [--save] [--svg FILE]

Every line is a case: the median time of the native kernel, that time divided by its limit, and divided by each peer's
time (below 1: the native kernel is faster). The limit is the time to copy as many bytes as must be moved, measured in
the same run; where hardly anything is moved, the time ONNX Runtime takes for one Identity with the same inputs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from bound_run import BoundRun
from contest import measured_apart, own_threads, take_turns
from machine import this_machine
from native_cases import Array, Case, Run, cases
from native_plot import plot
from records import Line, finish, parse


def native_run(case: Case, threads: int) -> Run:
    """The native kernel on OrtValues, as a caller with many requests would run it."""
    import onnxruntime as ort

    import onnx_sparse

    return _bound(onnx_sparse.InferenceSession(_model(case), _options(ort, threads), backend="native"), case)


def portable_run(case: Case, threads: int) -> Run | None:
    """The function body in ONNX Runtime."""
    import onnxruntime as ort

    import onnx_sparse

    try:
        lowered = onnx_sparse.lower(_model(case)).SerializeToString()
        return _bound(ort.InferenceSession(lowered, _options(ort, threads)), case)
    except Exception as error:  # the body's standard operators lack kernels for some types
        print(f"no function body for {case.name}: {str(error)[:100]}", file=sys.stderr)
        return None


def _options(ort: Any, threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return options


def _model(case: Case) -> Any:
    from onnx import helper

    from onnx_sparse import DOMAIN, OPSET_VERSION
    from onnx_sparse.schemas import OPS
    from onnx_sparse.schemas.declaration import element_type

    op = OPS[case.op]
    types = {name: element_type(array.dtype) for name, array in case.inputs.items()}
    binding = {i.type: types[i.name] for i in op.inputs if i.name in types}
    names = [i.name if i.name in types else "" for i in op.inputs]
    node = helper.make_node(case.op, names, [o.name for o in op.outputs], domain=DOMAIN, **case.attributes)
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(i.name, types[i.name], case.inputs[i.name].shape)
            for i in op.inputs
            if i.name in types
        ],
        [helper.make_tensor_value_info(o.name, op.bind(o.type, binding), None) for o in op.outputs],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def openvino_run(case: Case, threads: int) -> Run | None:
    """The model on OpenVINO's CPU plugin, with the operators from `extensions()`."""
    try:
        from on_openvino import compiled, with_extensions

        return compiled(with_extensions(_model(case)), case.inputs, threads)
    except Exception as error:  # OpenVINO is not installed, or lacks a type or an operator
        print(f"not on OpenVINO: {case.name}: {str(error).strip().splitlines()[-1][:100]}", file=sys.stderr)
        return None


def identity_run(case: Case, threads: int) -> Run:
    """ONNX Runtime with the case's inputs and a node that computes nothing."""
    import onnxruntime as ort
    from onnx import helper

    model = _model(case)
    first, output = model.graph.input[0], model.graph.output[0]
    output.type.tensor_type.elem_type = first.type.tensor_type.elem_type
    model.graph.node[0].CopyFrom(helper.make_node("Identity", [first.name], [output.name]))
    return _bound(ort.InferenceSession(model.SerializeToString(), _options(ort, threads)), case)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="only the cases whose name contains this word")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--no-portable", action="store_true", help="leave out the function bodies and OpenVINO")
    parser.add_argument("--svg", type=Path, help="also draw the times, in this file")
    arguments = parse(parser)
    here, threads = this_machine(), own_threads()
    if threads is not None:
        lines = measure(threads, arguments.only, arguments.repeat, not arguments.no_portable)
        finish("native", here, lines, arguments)
        return
    print(f"{here}\n{'case':62} {'th':>2}  {'native':>12}   /limit  native / peer", flush=True)
    options = ["--only", arguments.only, "--repeat", str(arguments.repeat)]
    options += ["--no-portable"] if arguments.no_portable else []
    lines = [line for threads in arguments.threads for line in measured_apart(__file__, threads, *options)]
    finish("native", here, lines, arguments)
    if arguments.svg:
        arguments.svg.write_text(plot(lines))


if __name__ == "__main__":
    main()
