"""Runs ONNX's backend tests through OpenVINO's frontend and this project's converter.

    python tests/zoo/onnx_backend_suite.py [-k PATTERN] [--json FILE]

OpenVINO reads the ONNX model of each test and saves it as an IR; the IR is converted back to ONNX, and the two are run
on the test's inputs. A test is

    not read    OpenVINO does not read or run it
    equal       both give the same
    refused     the converter refuses the IR
    as ONNX     the conversion gives what ONNX's test wants, and OpenVINO does not
    wrong       the conversion does not run, or gives what neither OpenVINO nor ONNX's test gives

The exit status is 1 if a test is wrong.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

OUTCOMES = ("equal", "as ONNX", "refused", "wrong", "not read")
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
_SECONDS = 60


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python tests/zoo/onnx_backend_suite.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-k", default="*", metavar="PATTERN", help="tests whose name matches, '*' allowed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes as JSON")
    given = parser.parse_args()
    found = {}
    for case in _cases():
        if fnmatch.fnmatchcase(case.name, given.k):
            found[case.name] = _in_a_process(case)
            if found[case.name][0] == "wrong":
                print(case.name, found[case.name][1], flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    counts = Counter(outcome for outcome, _ in found.values())
    print(f"{len(found)} tests: {', '.join(f'{counts[name]} {name}' for name in OUTCOMES)}")
    for outcome in ("refused", "as ONNX"):
        for reason, count in Counter(why for found_one, why in found.values() if found_one == outcome).most_common():
            print(f"{outcome}, {count}: {reason}")
    return int(counts["wrong"] > 0)


def _cases() -> Sequence[Any]:
    import onnx.backend.test.loader as loader
    import openvino  # noqa: F401  # here once, instead of in each process

    import onnx_sparse  # noqa: F401

    cases = [case for kind in ("node", "simple", "light") for case in loader.load_model_tests(kind=kind)]
    return [case for case in cases if case.model is not None and case.data_sets]


def _in_a_process(case: Any) -> tuple[str, str]:
    """The outcome and its reason. OpenVINO's process may end, and so may ONNX Runtime's."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, case))
    process.start()
    sender.close()
    outcome, reason = "not read", "OpenVINO's process ends"
    try:
        while receiver.poll(_SECONDS):
            outcome, reason = receiver.recv()
    except EOFError:
        pass
    process.kill()
    process.join()
    return outcome, reason


def _send(sender: Connection, case: Any) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    with tempfile.TemporaryDirectory() as folder:
        sender.send(_outcome(case, Path(folder) / "model.xml", sender))
    sender.close()
    os._exit(0)


def _outcome(case: Any, path: Path, sender: Connection) -> tuple[str, str]:
    import openvino
    from onnx import save

    from onnx_sparse import InferenceSession
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.openvino import convert

    given, expected = case.data_sets[0]
    try:
        save(case.model, path.with_suffix(".onnx"))
        core = openvino.Core()
        openvino.save_model(core.read_model(path.with_suffix(".onnx")), path, compress_to_fp16=False)
        source = core.read_model(path)
        # By name: OpenVINO drops inputs that have no elements.
        feeds = dict(zip((value.name for value in case.model.graph.input), given, strict=False))
        batch = [np.asarray(feeds[next(iter(port.names & feeds.keys()))]) for port in map(_Port, source.inputs)]
        wanted = [np.array(value) for value in core.compile_model(source, "CPU", _EXACT)(batch).values()]
    except Exception as error:  # whatever OpenVINO raises
        return "not read", type(error).__name__
    sender.send(("wrong", "the process ends"))
    try:
        model = convert(path)
    except ConversionError as error:
        reasons = [f"{node.op_type}: {node.reason}" for node in error.unsupported] or [str(error).splitlines()[0]]
        return "refused", "; ".join(sorted(set(reasons)))[:200]
    try:
        session = InferenceSession(model)
        names = [value.name for value in session.get_inputs()]
        results = [np.asarray(value) for value in session.run(None, dict(zip(names, batch, strict=True)))]
    except Exception as error:  # whatever ONNX Runtime raises
        return "wrong", f"does not run: {' '.join(str(error).split())[:300]}"
    difference = _difference(wanted, results)
    if difference is None:
        return "equal", ""
    operators = sorted({node.op_type for node in case.model.graph.node})
    if _difference([np.asarray(value) for value in expected], results) is None:
        return "as ONNX", ", ".join(operators)
    return "wrong", f"{', '.join(operators)}: {difference}"


class _Port:
    def __init__(self, port: Any) -> None:
        self.names = set(port.get_names())


def _difference(wanted: Sequence[Array], results: Sequence[Array]) -> str | None:
    from onnx_sparse.converters.verification.comparison import compare

    if len(wanted) != len(results):
        return f"{len(results)} outputs for {len(wanted)}"
    for k, (want, got) in enumerate(zip(wanted, results, strict=True)):
        record = compare(f"output {k}", want, got, "given")
        if not record.ok:
            return f"{record.output}: {record.note} {got.ravel()[:4]} for {want.ravel()[:4]}"
    return None


if __name__ == "__main__":
    sys.exit(main())
