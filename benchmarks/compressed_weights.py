"""Converted IRs with compressed weights against their float32 twin in ONNX Runtime, timed in one run, and their sizes.

    python benchmarks/compressed_weights.py [--threads 1 2] [--seconds N] [--json]

Two layers of a transformer's size (1024 to 4096 and back, twice) with the weights as NNCF compresses them: int8 with a
scale per row, uint4 with a scale and a zero point per 128 numbers. Each is saved as an IR and converted; the model of
int8 or uint4 is compared with the converted model of the same floats. The activation is Gelu: ONNX Runtime does not
multiply by the integers of a weight between which and the next one only a Relu stands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from contest import contest
from machine import this_machine
from runner import parser, progress, show
from sessions import session_options

Array = np.ndarray[Any, Any]
WIDTH, HIDDEN, LAYERS, GROUP = 1024, 4096, 2, 128
TOKENS = (1, 16, 128)


def weight(kind: str, rows: int, columns: int, seed: int, *, expanded: bool) -> Any:
    """A matrix in OpenVINO: integers, a zero point, a scale; or, expanded, the floats that these are."""
    import openvino as ov
    from openvino import opset16 as ops

    random = np.random.default_rng(seed)
    bits = 8 if kind == "int8" else 4
    shape = (rows, columns) if bits == 8 else (rows, columns // GROUP, GROUP)
    least, most = (-128, 128) if bits == 8 else (0, 16)
    integers = random.integers(least, most, shape)
    scale = random.uniform(0.5, 1.5, (*shape[:-1], 1)).astype(np.float16) / np.float16(2 ** (bits + 3))
    shifts = random.integers(6, 11, scale.shape) if bits == 4 else np.zeros_like(integers[..., :1])
    stored = ov.op.Constant(ov.Type.i8 if bits == 8 else ov.Type.u4, ov.Shape(shape), integers.ravel().tolist())
    made = ops.convert(stored, "f16")
    if bits == 4:
        zero = ov.op.Constant(ov.Type.u4, ov.Shape(shifts.shape), shifts.ravel().tolist())
        made = ops.subtract(made, ops.convert(zero, "f16"))
    made = ops.convert(ops.reshape(ops.multiply(made, ops.constant(scale)), [rows, columns], False), "f32")
    if not expanded:
        return made
    floats = (integers - shifts).astype(np.float32) * scale.astype(np.float32)
    return ops.constant(floats.reshape(rows, columns))


def save(kind: str, folder: Path, *, expanded: bool) -> Path:
    """The network as an IR."""
    import openvino as ov
    from openvino import opset16 as ops

    x = ops.parameter([-1, -1, WIDTH], np.float32, name="x")
    made = x
    for layer in range(LAYERS):
        first = weight(kind, HIDDEN, WIDTH, 2 * layer, expanded=expanded)
        second = weight(kind, WIDTH, HIDDEN, 2 * layer + 1, expanded=expanded)
        hidden = ops.gelu(ops.matmul(made, first, False, True), "erf")
        made = ops.add(made, ops.matmul(hidden, second, False, True))
    path = folder / f"{'float32' if expanded else kind}.xml"
    ov.save_model(ov.Model([made], [x], kind), path, compress_to_fp16=False)
    return path


def converted(path: Path, threads: int) -> Callable[[Array], Any]:
    """The converted IR, run by ONNX Runtime; the model is beside the IR."""
    import onnx

    import onnx_sparse
    from onnx_sparse.converters.openvino import convert

    onnx.save(convert(path), path.with_suffix(".onnx"))
    session = onnx_sparse.InferenceSession(path.with_suffix(".onnx"), session_options(threads))
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, threads=[1, 2], seconds=4.0)
    made.add_argument("--json", action="store_true")
    arguments = made.parse_args()
    here, results = this_machine(), []
    with TemporaryDirectory() as folder:
        for kind in ("int8", "uint4"):
            paths = {name: save(kind, Path(folder), expanded=name == "float32") for name in ("integers", "float32")}
            for threads in arguments.threads:
                runs = {name: converted(path, threads) for name, path in paths.items()}
                for tokens in TOKENS:
                    case = f"{kind}, {tokens} tokens, {threads} threads"
                    progress(case)
                    x = np.random.default_rng(tokens).standard_normal((1, tokens, WIDTH), np.float32)
                    contenders = {name: (lambda run=run, x=x: run(x)) for name, run in runs.items()}
                    results.append(contest(case, contenders, arguments.seconds))
            sizes = {path.suffix: path.stat().st_size / 2**20 for path in Path(folder).glob(f"{kind}.*")}
            progress("")
            ir = sizes[".xml"] + sizes[".bin"]
            if not arguments.json:
                print(f"{kind}: the IR has {ir:.2f} MiB, the converted model {sizes['.onnx']:.2f}")
    show("Compressed weights", here, results, arguments.json)


if __name__ == "__main__":
    main()
