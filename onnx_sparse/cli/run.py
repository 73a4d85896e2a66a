"""Run a model once in ONNX Runtime with our kernels, and show or save its outputs.

Inputs are an .npz archive with an array for each input, one .npy file for each input, or JSON.
Arrays must have the element types that the model declares; JSON values are converted to them.
Strings are numpy `U`, `S` or `V` arrays. A bfloat16 input is float32, which is rounded, and a
bfloat16 output is saved as float32. Pickled arrays are never loaded.

Serialized tf.Example messages can also be a TFRecord file, plain or compressed with gzip or zlib;
JSON objects with the values of features by key, in which bytes may be {"b64": "..."}; or a .jsonl
file with such an object in each line. For tf.SequenceExample messages, the objects have context
and feature_lists.

If the model records its sparse and ragged features (see inspect), each can also be a JSON list of
its rows.

A model with states (inputs past.NAME, outputs present.NAME) begins with the recorded values,
unless you pass others. Each --then is one more step, which begins with the states of the previous
step; inputs that it does not name keep their values. With several steps, output y is y.1, y.2, ...
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import path_argument
from onnx_sparse.errors import CommandError, UsageError, printable
from onnx_sparse.settings import Backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_sparse.files.array_file import Array
    from onnx_sparse.schemas.states import State
    from onnx_sparse.sessions.runtime import InferenceSession

NAME = "run"
SUMMARY = "run a model with our kernels"
EXAMPLES = """
onnx-sparse run model.onnx --input inputs.npz -o outputs.npz
onnx-sparse run model.onnx --input ids=ids.npy --input segments='[0, 0, 2]'
onnx-sparse run model.onnx --input inputs.npz --backend python --json
onnx-sparse run model.onnx --input items='[[5, 7], [], [3]]'
onnx-sparse run model.onnx --input examples='[{"ids": [3, 4], "user": "x"}]'
onnx-sparse run model.onnx --input examples=part-00000.tfrecord.gz
onnx-sparse run streaming.onnx --input 1.npz --then 2.npz --then 3.npz
"""

#: `--json` holds the values of outputs up to this many elements; larger ones belong in a file.
_MOST_JSON_VALUES = 10_000
_PREVIEW_WIDTH = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "model", type=path_argument, metavar="MODEL", help="an ONNX file, or the folder of a model that is split"
    )
    more: dict[str, Any] = {"action": "append", "default": [], "metavar": "FILE.npz|NAME=FILE|NAME=JSON"}
    parser.add_argument("-i", "--input", help="one or all inputs; repeatable", **more)
    parser.add_argument("--then", help="for a model with states: one more step on these inputs; repeatable", **more)
    parser.add_argument("-o", "--output", type=path_argument, metavar="OUT.npz", help="save the outputs")
    parser.add_argument(
        "--backend", choices=("auto", "native", "python"), default="auto", help="the kernels (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the model."""
    from onnx_sparse.commands.description.findings import refuse_domain_errors
    from onnx_sparse.commands.description.runnable_backends import chosen_backend
    from onnx_sparse.commands.inputs.feeds import read_feeds, read_files, states
    from onnx_sparse.files.array_file import save_npz
    from onnx_sparse.files.new_file import check_writable
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.sharding.manifest import WHOLE, is_split

    if arguments.output:
        sources = read_files([*arguments.input, *arguments.then])
        check_writable(arguments.output, ".npz", keep=[arguments.model, *sources])
    split = is_split(arguments.model)
    model = load_model(arguments.model / WHOLE if split else arguments.model)
    refuse_domain_errors(model, arguments.model)
    if arguments.then and not states(model):
        raise UsageError(f"--then: {arguments.model} records no states; run it once for each input")
    steps = [read_feeds(model, arguments.input)]
    for source in arguments.then:
        steps.append(read_feeds(model, [source], before=steps[-1]))
    backend = chosen_backend(arguments.backend)
    with output.progress(f"running {arguments.model}", quiet=arguments.json):
        results, seconds = _evaluate(arguments.model, steps, states(model), backend)
    if arguments.output:
        save_npz(arguments.output, {name: _storable(name, value) for name, value in results.items()})
    if arguments.json:
        output.write_json(
            {
                "model": str(arguments.model),
                "backend": backend,
                "seconds": seconds,
                "outputs": [_describe(name, value) for name, value in results.items()],
                "saved": str(arguments.output) if arguments.output else None,
            }
        )
        return output.DONE
    rows = [[name, _type(value), _shape(value), preview(value)] for name, value in results.items()]
    output.table(["output", "type", "shape", "values"], rows)
    output.write_line()
    saved = f"; saved to {printable(arguments.output)}" if arguments.output else ""
    output.write_line(f"{seconds * 1000:.1f} ms with the {backend} backend{saved}")
    return output.DONE


def _evaluate(
    path: Path, steps: Sequence[dict[str, Array]], states: Sequence[State], backend: Backend
) -> tuple[dict[str, Any], float]:
    """The outputs by name, and the seconds that the runs took."""
    from onnx_sparse.sessions.ort_errors import ort_message
    from onnx_sparse.sessions.runtime import InferenceSession
    from onnx_sparse.sharding.session import session_of

    session = session_of(path, backend=backend)
    if states and not isinstance(session, InferenceSession):
        raise CommandError(f"{path}: a model with states cannot be run from its split folder")
    start = time.perf_counter()
    try:
        if states and isinstance(session, InferenceSession):
            return _run_steps(session, steps, states), time.perf_counter() - start
        names = [value.name for value in session.get_outputs()]
        values = session.run(names, steps[0])
    except Exception as error:
        raise CommandError(f"{path}: {ort_message(error)}") from error
    return dict(zip(names, values, strict=True)), time.perf_counter() - start


def _run_steps(session: InferenceSession, steps: Sequence[dict[str, Array]], states: Sequence[State]) -> dict[str, Any]:
    """The outputs of each step, and the states after the last one."""
    from onnx_sparse.sessions.stateful import StatefulSession

    stateful = StatefulSession(session)
    stateful.set_states({state.name: steps[0][state.past] for state in states if state.past in steps[0]})
    results: dict[str, Any] = {}
    for number, feeds in enumerate(steps, 1):
        values = stateful.run(None, {name: feeds[name] for name in stateful.input_names})
        suffix = f".{number}" if len(steps) > 1 else ""
        results |= {f"{name}{suffix}": value for name, value in zip(stateful.output_names, values, strict=True)}
    held = stateful.get_states()
    return results | {state.present: held[state.name] for state in states}


def _storable(name: str, value: Any) -> Array:
    """The output in a form for numpy's files: strings of fixed width, bfloat16 as float32."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        raise CommandError(f"output {name} is not a tensor and cannot be saved")
    if value.dtype == object:
        texts = value.astype(str)
        if not np.array_equal(texts.astype(object), value):
            raise CommandError(f"output {name} holds strings that end with a NUL, which numpy files do not keep")
        return texts
    return value.astype(np.float32) if _type(value) == "bfloat16" else value


def _describe(name: str, value: Any) -> dict[str, Any]:
    import numpy as np

    if not isinstance(value, np.ndarray):
        return {"name": printable(name), "type": _type(value), "shape": None, "values": None}
    values = value.tolist() if value.size <= _MOST_JSON_VALUES else None
    return {"name": printable(name), "type": _type(value), "shape": list(value.shape), "values": values}


def _type(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else "string" if dtype.kind == "O" else str(dtype.name)


def _shape(value: Any) -> str:
    return f"[{', '.join(map(str, value.shape))}]" if hasattr(value, "shape") else "-"


def preview(value: Any) -> str:
    """The first and last values of an output, on one line."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        text = repr(value)
    else:
        text = np.array2string(
            value,
            separator=", ",
            threshold=12,
            edgeitems=3,
            max_line_width=10_000,
            formatter={"float_kind": lambda number: f"{number:.6g}"},
        )
        text = " ".join(text.split())
    return text if len(text) <= _PREVIEW_WIDTH else f"{text[: _PREVIEW_WIDTH - 3]}..."
