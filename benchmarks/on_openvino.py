"""EmbeddingSegmentsSum on OpenVINO against the native kernel in ONNX Runtime, timed in one run.

    python benchmarks/on_openvino.py [--threads 1 2] [--seconds N] [--json]

Three contenders: the model on OpenVINO's CPU plugin through `extensions()`, the native kernel on the same inputs, and
OpenVINO's own EmbeddingSegmentsSum-3. The last takes time proportional to segments times indices (half a minute at the
largest size), so it is timed only at the smaller sizes.
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
from sessions import BoundRun, one_node_model, session_options

Array = np.ndarray[Any, Any]
#: Rows of the table, indices, segments, and whether OpenVINO's own operator is timed.
SIZES = ((100_000, 5_000, 1_000, True), (100_000, 50_000, 10_000, True), (1_000_000, 500_000, 100_000, False))
WIDTH = 64


def inputs_of(rows: int, entries: int, segments: int) -> dict[str, Array]:
    """A table, random indices into it and sorted segment ids."""
    random = np.random.default_rng(0)
    return {
        "emb_table": random.standard_normal((rows, WIDTH), np.float32),
        "indices": random.integers(0, rows, entries),
        "segment_ids": np.sort(random.integers(0, segments, entries)),
        "num_segments": np.array(segments),
    }


def native(model: Any, inputs: dict[str, Array], threads: int) -> BoundRun:
    """The native kernel on bound inputs."""
    import onnx_sparse

    return BoundRun(onnx_sparse.InferenceSession(model, session_options(threads), backend="native"), inputs)


def compiled(model: Any, inputs: dict[str, Array], threads: int) -> Callable[[], Any]:
    """An OpenVINO model, run on tensors that share the arrays' memory."""
    import openvino as ov

    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = ov.Core().compile_model(model, "CPU", hints).create_infer_request()
    given = {name: ov.Tensor(array, shared_memory=True) for name, array in inputs.items()}
    return lambda: request.infer(given, share_outputs=True)


def with_extensions(model: Any) -> Any:
    """The ONNX model read by OpenVINO with the extensions."""
    import onnx
    import openvino as ov

    from onnx_sparse.converters.openvino import extensions

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return ov.convert_model(path, extension=extensions())


def own_operator(inputs: dict[str, Array]) -> Any:
    """OpenVINO's EmbeddingSegmentsSum-3."""
    import openvino as ov
    from openvino import opset3 as ops

    parameters = [ops.parameter([-1] * a.ndim, a.dtype, name=name) for name, a in inputs.items()]
    for parameter in parameters:
        parameter.output(0).set_names({parameter.get_friendly_name()})
    return ov.Model([ops.embedding_segments_sum(*parameters)], parameters, "own")


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, threads=[1, 2], seconds=4.0)
    made.add_argument("--json", action="store_true")
    arguments = made.parse_args()
    here, results = this_machine(), []
    for threads in arguments.threads:
        for rows, entries, segments, ends in SIZES:
            case = f"{rows:,} x {WIDTH}, {entries:,} ids, {segments:,} segments, {threads} threads"
            progress(case)
            inputs = inputs_of(rows, entries, segments)
            shapes = {name: array.shape if array.ndim != 1 else ["K"] for name, array in inputs.items()}
            model = one_node_model("EmbeddingSegmentsSum", inputs, {}, shapes)
            read, kernel = compiled(with_extensions(model), inputs, threads), native(model, inputs, threads)
            np.testing.assert_allclose(next(iter(read().values())), kernel.outputs()[0], rtol=1e-4, atol=1e-5)
            contenders = {"extensions": read, "native": kernel}
            if ends:
                contenders["OpenVINO's own"] = compiled(own_operator(inputs), inputs, threads)
            results.append(contest(case, contenders, arguments.seconds))
    show("EmbeddingSegmentsSum float32", here, results, arguments.json)


if __name__ == "__main__":
    main()
